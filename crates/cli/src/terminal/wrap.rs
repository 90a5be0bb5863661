//! Breaks lines that are wider than a terminal between words. Continued lines are indented, so that a list stays a list.

/// How much further a continued line is indented.
const HANGING: usize = 2;

/// What begins a command that users copy. Its line is not broken.
const COMMANDS: [&str; 2] = ["kubectl ", "ferroplane "];

/// What begins YAML that users copy. Its line is not broken.
const YAML: &str = "- {";

/// The text in lines of so many columns at most, as far as words, commands and YAML allow.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let is_copied =
            COMMANDS.iter().any(|command| line.contains(command)) || line.trim_start().starts_with(YAML);
        if width(line) <= columns || is_copied {
            out.push_str(line);
        } else {
            wrap(line, columns, &mut out);
        }
        out.push_str(end);
    }
    out
}

fn wrap(line: &str, columns: usize, out: &mut String) {
    let words = line.trim_start_matches([' ', '│', '├', '└', '─']);
    let (lead, mut used) = (&line[..line.len() - words.len()], 0);
    let hanging = lead.chars().count() + HANGING;
    out.push_str(lead);
    used += lead.chars().count();
    let mut is_first = true;
    for word in words.split(' ') {
        let width = width(word);
        if !is_first && used + 1 + width > columns {
            out.push('\n');
            out.push_str(&" ".repeat(hanging));
            used = hanging;
        } else if !is_first {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += width;
        is_first = false;
    }
}

/// How many columns a text takes. Colours take none.
fn width(text: &str) -> usize {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().chars().count();
    first
        + parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest).chars().count()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_broken_between_words_and_indented() {
        assert_eq!(wrapped("one two three\nfour", 8), "one two\n  three\nfour");
        assert_eq!(wrapped("  - one two three\n", 10), "  - one\n    two\n    three\n");
        assert_eq!(wrapped("   └─ one two", 9), "   └─ one\n        two");
    }

    #[test]
    fn line_that_fits_and_word_that_is_too_long_stay() {
        assert_eq!(wrapped("a  b\n\nc", 4), "a  b\n\nc");
        assert_eq!(wrapped("abcdefgh i", 4), "abcdefgh\n  i");
    }

    #[test]
    fn line_to_copy_is_not_broken() {
        for line in ["  kubectl describe pod/a -n default", "    - {step: ready, functionRef: {name: f}}"] {
            assert_eq!(wrapped(line, 10), line);
        }
    }

    #[test]
    fn colours_take_no_columns() {
        let coloured = "\x1b[1mone two\x1b[0m";
        assert_eq!(wrapped(coloured, 7), coloured);
        assert_eq!(wrapped(coloured, 6), "\x1b[1mone\n  two\x1b[0m");
    }
}
