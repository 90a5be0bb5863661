//! Breaks lines that are wider than a terminal between words. Continued lines are indented, so that a list stays a list.

/// How much further a continued line is indented.
const HANGING: usize = 2;

/// What begins a command that users copy. A line with a command stays as it is. Between backticks, only the command stays in one line.
const COMMANDS: [&str; 3] = ["kubectl ", "ferroplane ", "export KUBECONFIG="];

/// What begins YAML that users copy. Its line is not broken.
const YAML: &str = "- {";

/// The text in lines of so many columns at most, as far as words, commands and YAML allow.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if width(line) <= columns || is_command(line) || line.trim_start().starts_with(YAML) {
            out.push_str(line);
        } else {
            wrap(line, columns, &mut out);
        }
        out.push_str(end);
    }
    out
}

/// Whether a line has a command that is not between backticks.
fn is_command(line: &str) -> bool {
    let is_closed = line.split('`').count() % 2 == 1;
    if is_closed { line.split('`').step_by(2).any(has_command) } else { has_command(line) }
}

fn has_command(text: &str) -> bool {
    COMMANDS.iter().any(|command| text.contains(command))
}

/// The words of a line. A command between backticks is part of one word.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut is_code, mut is_command) = (0, false, false);
    for (index, letter) in line.char_indices() {
        match letter {
            '`' => {
                is_code = !is_code;
                let code = line[index + 1..].split('`').next().unwrap_or_default();
                is_command = is_code && has_command(code);
            }
            ' ' if !is_command => {
                words.push(&line[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    words.push(&line[start..]);
    words
}

fn wrap(line: &str, columns: usize, out: &mut String) {
    let text = line.trim_start_matches([' ', '│', '├', '└', '─']);
    let (lead, mut used) = (&line[..line.len() - text.len()], 0);
    let hanging = lead.chars().count() + HANGING;
    out.push_str(lead);
    used += lead.chars().count();
    let mut is_first = true;
    for word in words(text) {
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
    fn command_stays_in_one_line() {
        let command = "  kubectl describe configmap/a -n default";
        assert_eq!(wrapped(command, 10), command);
        let export = "    export KUBECONFIG=/data/kubeconfig";
        assert_eq!(wrapped(export, 10), export);
        let unclosed = "see `kubectl get pods";
        assert_eq!(wrapped(unclosed, 10), unclosed);
    }

    #[test]
    fn yaml_to_copy_stays_in_one_line() {
        let yaml = "    - {step: ready, functionRef: {name: f}}";
        assert_eq!(wrapped(yaml, 10), yaml);
    }

    #[test]
    fn line_is_broken_around_a_command_between_backticks() {
        let text = "note: it runs; `ferroplane operation cancel a` stops it";
        let expected = "note: it runs;\n  `ferroplane operation cancel a`\n  stops it";
        assert_eq!(wrapped(text, 32), expected);
        assert_eq!(wrapped("the `a b` is `kubectl get`", 10), "the `a b`\n  is\n  `kubectl get`");
    }

    #[test]
    fn colours_take_no_columns() {
        let coloured = "\x1b[1m1st 2nd\x1b[0m";
        assert_eq!(wrapped(coloured, 7), coloured);
        assert_eq!(wrapped(coloured, 6), "\x1b[1m1st\n  2nd\x1b[0m");
    }
}
