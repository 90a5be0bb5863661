//! Compares what a command printed with what a page says that it prints.
//!
//! Words that differ from run to run are not compared: times, ages, durations, digests, ports and generated parts of names. A line `…` on a
//! page stands for any number of lines, `…` in a line for the rest of it.

const ANYTHING: &str = "…";

/// Whether the page is right. Otherwise, the first line of the page that has no counterpart.
pub(super) fn compare(expected: &[String], printed: &[String]) -> Result<(), String> {
    let expected = trimmed(expected);
    let printed = trimmed(printed);
    matches(&expected, &printed)
}

/// Without empty lines at the end.
fn trimmed(lines: &[String]) -> Vec<&str> {
    let mut lines: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

fn matches(expected: &[&str], printed: &[&str]) -> Result<(), String> {
    match (expected.split_first(), printed.split_first()) {
        (None, None) => Ok(()),
        (None, Some((line, _))) => Err(format!("the page does not have `{line}`")),
        (Some((first, rest)), _) if first.trim() == ANYTHING => {
            let fits = (0..=printed.len()).find(|skipped| matches(rest, &printed[*skipped..]).is_ok());
            let next = rest.first().unwrap_or(&"the end");
            fits.map(|_| ()).ok_or_else(|| format!("nothing printed fits `{next}` and what follows"))
        }
        (Some((first, _)), None) => Err(format!("nothing printed fits `{first}`")),
        (Some((first, rest)), Some((line, others))) => {
            if !line_matches(first, line) {
                return Err(format!("the page says\n    {first}\nbut it is\n    {line}"));
            }
            matches(rest, others)
        }
    }
}

fn line_matches(expected: &str, printed: &str) -> bool {
    let mut printed = printed.split_whitespace();
    for word in expected.split_whitespace() {
        if word == ANYTHING {
            return true;
        }
        if !printed.next().is_some_and(|other| word_matches(word, other)) {
            return false;
        }
    }
    printed.next().is_none()
}

fn word_matches(expected: &str, printed: &str) -> bool {
    if let Some((start, _)) = expected.split_once(ANYTHING) {
        return printed.starts_with(start);
    }
    expected == printed || skeleton(expected) == skeleton(printed)
}

/// A word with `#` in the place of each number, and of each part that is generated. Words that only have letters stay.
fn skeleton(word: &str) -> String {
    let parts: Vec<_> = word.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    parts
        .iter()
        .map(|part| skeleton_of_part(part))
        .collect::<String>()
        .replace("#:#", "#")
        .replace("#.#", "#")
}

fn skeleton_of_part(part: &str) -> String {
    let end = part.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(part.len());
    let (name, separator) = part.split_at(end);
    let has_digit = name.contains(|letter: char| letter.is_ascii_digit());
    let is_generated =
        name.len() >= 8 && has_digit && !name.contains(|letter: char| letter.is_ascii_uppercase());
    let is_time = !name.is_empty() && is_time(name);
    if is_generated || is_time { format!("#{separator}") } else { part.to_owned() }
}

/// `5s`, `2m30s`, `202`, `12`, `2026`, `07T02`, `Z`: parts of times, ages and ports.
fn is_time(name: &str) -> bool {
    let units = name.trim_matches(|letter: char| letter.is_ascii_digit() || "smhdTZ".contains(letter));
    units.is_empty() && name.contains(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: &str, printed: &str, is_same: bool) {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(compare(&lines(expected), &lines(printed)).is_ok(), is_same, "{expected}\n{printed}");
    }

    #[test]
    fn same_lines_are_the_same() {
        check("NAME   READY\nhello  True", "NAME    READY\nhello   True\n\n", true);
        check("NAME\nhello", "NAME\nhallo", false);
        check("NAME", "NAME\nmore", false);
        check("NAME\nmore", "NAME", false);
    }

    #[test]
    fn times_and_generated_names_may_differ() {
        check("hello-59e5918713c4   5s", "hello-0123456789ab   2m30s", true);
        check(
            "ready at https://127.0.0.1:6443 after 54 ms",
            "ready at https://127.0.0.1:41233 after 1202 ms",
            true,
        );
        check("since 2026-11-15T22:00:00Z", "since 2027-01-05T02:10:09Z", true);
        check("hello-59e5918713c4", "other-59e5918713c4", false);
        check("True", "False", false);
    }

    #[test]
    fn ellipsis_stands_for_anything() {
        check("a\n…\nz", "a\nb\nc\nz", true);
        check("a\n…", "a\nb", true);
        check("a\n…\nz", "a\nb", false);
        check("error: cannot reach …", "error: cannot reach this or that", true);
        check("error: cannot …", "note: cannot reach this", false);
    }
}
