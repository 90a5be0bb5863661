//! Which line of a file holds which line of a text, for texts that are written over several lines in YAML.

/// Where a text begins in a file, both from one.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScalarStart {
    /// The line of the key that it belongs to.
    pub(super) key_line: u64,
    pub(super) line: u64,
    /// In characters.
    pub(super) column: u64,
}

/// The line of a file that holds a line of the text, both from one. Nothing if what stands in the file is written in a way that
/// cannot be followed, for example by an alias.
pub(super) fn line_in(file: &str, start: ScalarStart, text: &str, line: usize) -> Option<u64> {
    let lines = Scalar::find(file, start)?.lines();
    // A text that ends with a line feed has no line after it, but errors may be there.
    let count = text.strip_suffix('\n').unwrap_or(text).matches('\n').count() + 1;
    if lines.len() < count {
        return None;
    }
    lines.get(line.checked_sub(1)?).or(lines.last()).copied()
}

enum Style {
    Literal,
    Folded,
    Single,
    Double,
    Plain,
}

/// A text in a file.
struct Scalar<'f> {
    style: Style,
    /// The line of `rest`, from one.
    line: u64,
    /// What follows the header or the opening quote, up to the end of the file.
    rest: &'f str,
    /// How far the lines of a block are indented.
    indent: usize,
}

impl<'f> Scalar<'f> {
    fn find(file: &'f str, start: ScalarStart) -> Option<Self> {
        let line_at = |line: u64| file.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?);
        let key = line_at(start.key_line)?;
        // The header stands behind the key, or alone in a line below it.
        let mut headers =
            (start.key_line..=start.line).filter_map(|line| Some((line, block_header(line_at(line)?)?)));
        if let Some((line, (style, indicator))) = headers.next() {
            let rest = from(file, line + 1, 1)?;
            let first = rest.lines().find(|line| !line.trim().is_empty());
            let indent = indicator.map_or(first.map_or(0, indentation), |more| key_indentation(key) + more);
            return Some(Self { style, line: line + 1, rest, indent });
        }
        let rest = from(file, start.line, start.column)?;
        let (style, rest) = match rest.chars().next()? {
            '"' => (Style::Double, &rest[1..]),
            '\'' => (Style::Single, &rest[1..]),
            // An alias, an anchor or a tag stands where the text should begin.
            '*' | '&' | '!' => return None,
            _ => (Style::Plain, rest),
        };
        Some(Self { style, line: start.line, rest, indent: 0 })
    }

    /// The line of the file for each line of the text.
    fn lines(&self) -> Vec<u64> {
        match self.style {
            Style::Literal => self.block().map(|(line, _)| line).collect(),
            Style::Folded => self.folded(),
            Style::Double => self.flow(Some('"'), true),
            Style::Single => self.flow(Some('\''), false),
            Style::Plain => self.flow(None, false),
        }
    }

    /// The lines of a block, with their numbers and without their indentation.
    fn block(&self) -> impl Iterator<Item = (u64, &'f str)> {
        let indent = self.indent;
        // Blank lines at the end may belong to it or not; the value is the same.
        let is_inside = move |line: &&str| line.trim().is_empty() || indentation(line) >= indent;
        let lines = self.rest.lines().take_while(is_inside);
        (self.line..).zip(lines).map(move |(number, line)| (number, line.get(indent..).unwrap_or_default()))
    }

    /// Lines that are no further indented than their neighbours are one line, unless blank ones are between them.
    fn folded(&self) -> Vec<u64> {
        let mut found = Vec::new();
        let mut previous: Option<bool> = None;
        let mut blank = Vec::new();
        for (number, line) in self.block() {
            if line.trim().is_empty() {
                blank.push(number);
                continue;
            }
            let is_further = line.starts_with([' ', '\t']);
            match previous {
                None => found.extend(blank.iter().copied().chain([number])),
                Some(was_further) if is_further || was_further => {
                    found.extend(blank.iter().copied().chain([number]));
                }
                // One line feed becomes a space, the others stay.
                Some(_) => {
                    found.extend(blank.iter().skip(1).copied().chain((!blank.is_empty()).then_some(number)));
                }
            }
            (previous, blank) = (Some(is_further), Vec::new());
        }
        found
    }

    /// A text that is quoted or plain.
    fn flow(&self, quote: Option<char>, has_escapes: bool) -> Vec<u64> {
        let mut found = vec![self.line];
        let mut number = self.line;
        let mut letters = self.rest.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' if has_escapes => match letters.next() {
                    // What comes after an escaped end of the line stands in the next one.
                    Some('n') => found.push(number + u64::from(letters.clone().take(2).eq("\\\n".chars()))),
                    Some('\n') => number += 1,
                    _ => {}
                },
                // Two single quotes are one in the text.
                letter if Some(letter) == quote && !has_escapes && letters.peek() == quote.as_ref() => {
                    letters.next();
                }
                letter if Some(letter) == quote => break,
                '\n' => {
                    number += 1;
                    // The first line feed becomes a space; each blank line after it is a line feed.
                    while let Some(next) = letters.peek().copied().filter(|next| next.is_whitespace()) {
                        letters.next();
                        if next == '\n' {
                            number += 1;
                            found.push(number);
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }
}

fn from(file: &str, line: u64, column: u64) -> Option<&str> {
    let before = usize::try_from(line).ok()?.checked_sub(1)?;
    let start: usize = file.split_inclusive('\n').take(before).map(str::len).sum();
    let rest = file.get(start..)?;
    let column = usize::try_from(column).ok()?.checked_sub(1)?;
    Some(rest.char_indices().nth(column).map_or("", |(at, _)| &rest[at..]))
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// How far a key is indented, behind the dashes of the lists that it is in.
fn key_indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '-']).len()
}

/// The header of a block that a line ends with, such as `key: |2-  # why`, and by how much it says that the block is indented.
fn block_header(line: &str) -> Option<(Style, Option<usize>)> {
    let line = line.split(" #").next().unwrap_or(line).trim_end();
    let header = line.rsplit([' ', '\t']).next()?;
    let before = line.strip_suffix(header)?.trim_end();
    let (style, rest) = match header.strip_prefix('|') {
        Some(rest) => (Style::Literal, rest),
        None => (Style::Folded, header.strip_prefix('>')?),
    };
    let is_header = rest.len() <= 2 && rest.chars().all(|letter| matches!(letter, '+' | '-' | '1'..='9'));
    let indicator = rest.trim_matches(['+', '-']).parse().ok();
    let is_after_key = before.is_empty() || before.ends_with([':', '-', '?']);
    (is_after_key && is_header).then_some((style, indicator))
}

#[cfg(test)]
mod tests {
    use crate::manifest::yaml;

    /// The lines of the file that hold each line of the text at `a.b`.
    fn lines(file: &str) -> Vec<u64> {
        let node = &yaml::parse(file).unwrap()[0];
        let text = node.to_json()["a"]["b"].as_str().unwrap().to_owned();
        (1..=text.lines().count())
            .map(|line| node.line_in(file, "a.b", line).unwrap_or_else(|| panic!("{file}")))
            .collect()
    }

    #[test]
    fn lines_of_texts_are_found_in_every_style() {
        let cases: [(&str, &[u64]); 14] = [
            ("a:\n  b: |\n    one\n    two\n\n    four\n", &[3, 4, 5, 6]),
            ("# first\na:\n  c: x\n  b: |- # why\n\n      one\n    \n      two\n  d: 1\n", &[5, 6, 7, 8]),
            ("a:\n  b: |2\n      indented\n    two\n", &[3, 4]),
            ("a:\n  b:\n    |\n    one\n    two\n", &[4, 5]),
            ("a:\n  b: >\n    one\n    still one\n\n    two\n      three\n    four\n", &[3, 6, 7, 8]),
            ("a:\n  b: >-\n\n    two\n    more\n\n\n    four\n", &[3, 4, 7, 8]),
            ("a:\n  b: \"one\\ntwo\n    still two\\n\\\n    three\"\n", &[2, 2, 4]),
            ("a:\n  b: \"one\n\n    two\"\n", &[2, 4]),
            ("a:\n  b: 'one ''x''\n\n    two\n\n\n    four'\n  c: 1\n", &[2, 4, 6, 7]),
            ("a:\n  b: one\n    still\n\n    two\n", &[2, 5]),
            ("{\"a\": {\"b\": \"one\\ntwo\"}}\n", &[1, 1]),
            ("a: {c: 'x: |', b: \"one\\ntwo\"}\n", &[1, 1]),
            ("a:\n  b: |\n    {{ x }}\n    # no comment\n", &[3, 4]),
            ("a:\r\n  b: |\r\n    one\r\n    two\r\n", &[3, 4]),
        ];
        for (file, expected) in cases {
            assert_eq!(lines(file), expected, "{file}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_where_its_key_is() {
        let file = "x: &x |\n  one\n  two\na:\n  b: *x\n";
        assert_eq!(yaml::parse(file).unwrap()[0].line_in(file, "a.b", 2), None);
        assert_eq!(yaml::parse(file).unwrap()[0].line_in(file, "a.c", 1), None);
    }
}
