//! `cargo xtask size`: counts the lines, the comments and the long functions of each crate, for docs/benchmarks.md.
//!
//! Not a parser of Rust: it reads code as `rustfmt` leaves it. A function ends at the first brace that is indented as its first line is.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::shell::git;

/// Functions of more lines are counted.
const LONG: usize = 50;
/// Crates that are part of no program that is shipped.
const TEST_CRATES: [&str; 1] = ["testkit"];
/// Files that are written by a program, or for tests.
const LEFT_OUT: [&str; 4] = ["tests.rs", "testing.rs", "fixtures.rs", "generated.rs"];

/// What was counted in some code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Size {
    lines: usize,
    /// Lines that begin with `//`, and are no documentation. Those say why.
    comments: usize,
    /// Lines that begin with `///` or `//!`.
    documentation: usize,
    functions: usize,
    long_functions: usize,
    /// The lines of the longest function, and its name.
    longest: (usize, String),
}

impl Size {
    /// Count code without the tests at its end.
    fn of(source: &str) -> Self {
        let lines: Vec<_> =
            source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().collect();
        let begins_with = |marks: &[&str]| {
            lines.iter().filter(|line| marks.iter().any(|mark| line.trim_start().starts_with(mark))).count()
        };
        let documentation = begins_with(&["///", "//!"]);
        let mut size = Self {
            lines: lines.len(),
            comments: begins_with(&["//"]) - documentation,
            documentation,
            ..Self::default()
        };
        for (index, line) in lines.iter().enumerate() {
            let Some(name) = function_in(line) else { continue };
            let Some(length) = length_of(&lines[index..]) else { continue };
            size.functions += 1;
            size.long_functions += usize::from(length > LONG);
            size.longest = std::mem::take(&mut size.longest).max((length, name.to_owned()));
        }
        size
    }

    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.comments += other.comments;
        self.documentation += other.documentation;
        self.functions += other.functions;
        self.long_functions += other.long_functions;
        self.longest = std::mem::take(&mut self.longest).max(other.longest);
    }

    fn row(&self, name: &str) -> String {
        let Self { lines, comments, documentation, functions, long_functions, longest: (length, longest) } =
            self;
        let of_thousand = |count: &usize| count * 1000 / (*lines).max(1);
        let (comments, documentation) = (of_thousand(comments), of_thousand(documentation));
        format!(
            "| {name} | {lines} | {comments} | {documentation} | {functions} | {long_functions} | {length} (`{longest}`) |\n"
        )
    }
}

/// Count all crates, and print a table.
pub(crate) fn run(root: &Path) -> Result<()> {
    print!("{}", table(sizes(root)?));
    Ok(())
}

/// The sizes of the crates whose code is shipped.
fn sizes(root: &Path) -> Result<BTreeMap<String, Size>> {
    let listed =
        git(root, &["ls-files", "--cached", "--others", "--exclude-standard", "--", "crates/*/src/*.rs"])
            .output()?;
    let mut sizes = BTreeMap::<_, Size>::new();
    for path in listed.lines().filter(|path| root.join(path).exists()) {
        let mut parts = path.split('/').skip(1);
        let name = parts.next().unwrap_or_default();
        if TEST_CRATES.contains(&name) || parts.any(|part| LEFT_OUT.contains(&part) || part == "generated") {
            continue;
        }
        let source =
            std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        sizes.entry(name.to_owned()).or_default().add(Size::of(&source));
    }
    Ok(sizes)
}

/// The largest crates first, and all of them at the end.
fn table(sizes: BTreeMap<String, Size>) -> String {
    let mut rows: Vec<_> = sizes.iter().map(|(name, size)| (size.lines, size.row(name))).collect();
    rows.sort_by(|one, other| other.cmp(one));
    let mut text = format!(
        "| Crate | Lines | Comments per 1,000 lines | Documentation per 1,000 lines | Functions | Over {LONG} lines | Longest |\n\
         |---|---|---|---|---|---|---|\n"
    );
    text.extend(rows.into_iter().map(|(_, row)| row));
    let count = sizes.len();
    let mut total = Size::default();
    for size in sizes.into_values() {
        total.add(size);
    }
    text + &total.row(&format!("all {count}"))
}

/// The name of the function that begins in a line.
fn function_in(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_qualifier =
        |word: &str| ["pub", "const", "async", "unsafe"].contains(&word) || word.starts_with("pub(");
    // `pub(in a::b)` is two words, and no code here has it.
    if !(before.is_empty() || before.ends_with(' ')) || !before.split_whitespace().all(is_qualifier) {
        return None;
    }
    after
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .next()
        .filter(|name| !name.is_empty())
}

/// The number of lines of the function that begins in the first of these. None if it has no body.
fn length_of(lines: &[&str]) -> Option<usize> {
    let (first, rest) = lines.split_first()?;
    match first.trim_end() {
        line if line.ends_with(';') => return None,
        line if line.ends_with('}') => return Some(1),
        _ => {}
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    let same =
        rest.iter().enumerate().filter(|(_, line)| !line.trim().is_empty() && indent(line) == indent(first));
    for (index, line) in same {
        match line.trim() {
            line if line.ends_with(';') => return None,
            line if line.ends_with('}') => return Some(index + 2),
            // The end of the parameters, or bounds.
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_comments_and_functions_are_counted() {
        let source = "\
//! A room.

/// One.
pub(crate) async fn one(
    argument: u8,
) -> u8
where
    u8: Copy,
{
    // Why.
    if argument {
        two();
    }
}

trait Several {
    fn without_a_body(
        &self,
    ) -> u8;

    fn short(&self) {}
}
#[cfg(test)]
mod tests {
    // Not counted.
    fn tested() {
    }
}
";
        let expected = Size {
            lines: 22,
            comments: 1,
            documentation: 2,
            functions: 2,
            long_functions: 0,
            longest: (11, "one".to_owned()),
        };
        assert_eq!(Size::of(source), expected);
    }

    #[test]
    fn function_is_long_from_one_line_more_on() {
        let of = |lines: usize| Size::of(&format!("fn f() {{\n{}}}\n", "    a();\n".repeat(lines - 2)));
        assert_eq!((of(LONG).long_functions, of(LONG + 1).long_functions), (0, 1));
        assert_eq!(of(LONG + 1).longest, (LONG + 1, "f".to_owned()));
    }

    #[test]
    fn words_that_only_look_like_functions_are_not_counted() {
        for line in ["    // the fn here", "let call: fn (u8) = a;", "impl Fn (u8)", "    let often fn b() {"]
        {
            assert_eq!(function_in(line), None, "{line}");
        }
        assert_eq!(function_in("    pub const fn length_of(a: u8) -> u8 {"), Some("length_of"));
    }

    #[test]
    fn table_has_the_largest_crate_first_and_all_in_the_end() {
        let size =
            |lines: usize| Size { lines, comments: 1, longest: (lines, "f".to_owned()), ..Size::default() };
        let table = table([("small".to_owned(), size(10)), ("large".to_owned(), size(30))].into());
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| large | 30 | 33 | 0 | 0 | 0 | 30 (`f`) |",
                "| small | 10 | 100 | 0 | 0 | 0 | 10 (`f`) |",
                "| all 2 | 40 | 50 | 0 | 0 | 0 | 30 (`f`) |",
            ]
        );
    }

    #[test]
    fn every_crate_has_code() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let sizes = sizes(&root).unwrap();
        assert!(sizes.contains_key("engine") && !sizes.contains_key("testkit"), "{:?}", sizes.keys());
        assert!(sizes.values().all(|size| size.lines > 0 && size.functions > 0), "{sizes:#?}");
    }
}
