//! Compares what a command printed with what a page says that it prints.
//!
//! Only what differs from run to run is not compared: times, ages and durations, ports of this machine, digests and generated parts of names,
//! and how often something was written (the number of a recording, a generation). Counts, sizes and versions are compared. A line `…` on a
//! page stands for any number of lines, `…` in a line for the rest of it.

const ANYTHING: &str = "…";

/// What comes before the port of an address of this machine.
const LOCAL: [&str; 2] = ["127.0.0.1:", "localhost:"];
/// What comes before a number that says how often something was written, which depends on what happens at the same time.
const WRITES: [&str; 2] = ["recording", "generation:"];
/// The units of durations and ages. A longer one comes before its beginning.
const UNITS: [&str; 5] = ["ms", "s", "m", "h", "d"];
/// A time, with `0` for each digit.
const TIME: &str = "0000-00-00T00:00:00";
/// How long a generated part of a name is at least.
const SHORTEST_GENERATED: usize = 8;

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
    let mut printed = words(printed).into_iter();
    for (word, masked) in words(expected) {
        if word == ANYTHING {
            return true;
        }
        let Some((other, other_masked)) = printed.next() else { return false };
        let is_same = match word.split_once(ANYTHING) {
            Some((start, _)) => other.starts_with(start),
            None => masked == other_masked,
        };
        if !is_same {
            return false;
        }
    }
    printed.next().is_none()
}

/// The words of a line: each as it is, and with `#` in the place of what differs from run to run.
fn words(line: &str) -> Vec<(&str, String)> {
    let words: Vec<_> = line.split_whitespace().collect();
    let at = |index: usize| words.get(index).copied().unwrap_or_default();
    // There is none before the first, and none after the last.
    let masked = |index: usize| masked(at(index.wrapping_sub(1)), at(index), at(index + 1));
    (0..words.len()).map(|index| (words[index], masked(index))).collect()
}

/// A word with `#` in the place of what differs from run to run. Whether a number does, the words beside it say.
fn masked(before: &str, word: &str, after: &str) -> String {
    let bare = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let next = after.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    // The first column of a list of recordings has their numbers, and the second one times.
    let is_of_this_run = || WRITES.contains(&before) || next == "ms" || is_time(next);
    let is_number = !bare.is_empty() && bare.chars().all(|letter| letter.is_ascii_digit());
    if is_time(bare) || is_duration(bare) || (is_number && is_of_this_run()) {
        return word.replacen(bare, "#", 1);
    }
    let word = without_port(word);
    word.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()).map(masked_part).collect()
}

/// `2026-11-15T22:00:00Z`, `2026-11-15T22:00:00.123Z`
fn is_time(word: &str) -> bool {
    let shape = word.replace(|letter: char| letter.is_ascii_digit(), "0");
    let is_fraction = |rest: &str| rest.is_empty() || rest.starts_with('.');
    shape.strip_prefix(TIME).and_then(|rest| rest.strip_suffix('Z')).is_some_and(is_fraction)
}

/// `5s`, `2m30s`, `1.5s`, `54ms`: numbers, each with a unit.
fn is_duration(word: &str) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let Some(unit) = UNITS.iter().find(|unit| after.starts_with(**unit)) else { return false };
        if number.is_empty() {
            return false;
        }
        rest = &after[unit.len()..];
    }
    !word.is_empty()
}

/// An address of this machine without its port.
fn without_port(word: &str) -> String {
    for host in LOCAL {
        if let Some((before, after)) = word.split_once(host) {
            let rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
            return format!("{before}{host}#{rest}");
        }
    }
    word.to_owned()
}

/// A part of a word up to a separator, or `#` and the separator if it is a digest, a hash or a time in seconds.
fn masked_part(part: &str) -> String {
    let end = part.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(part.len());
    let (name, separator) = part.split_at(end);
    let is_generated = name.len() >= SHORTEST_GENERATED
        && name.contains(|letter: char| letter.is_ascii_digit())
        && name.chars().all(|letter| matches!(letter, '0'..='9' | 'a'..='f'));
    if is_generated { format!("#{separator}") } else { part.to_owned() }
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
        check("since 2026-11-15T22:00:00Z, for 1s)", "since 2027-01-05T02:10:09.123Z, for 1.5s)", true);
        check("127.0.0.1:5000/a:v0.1.0@sha256:6120ffd4", "127.0.0.1:41233/a:v0.1.0@sha256:0ed8c6e1", true);
        check("`grow-1794909629` created", "`grow-1800000000` created", true);
        check("recording 4: App/hello (1s ago)", "recording 12: App/hello (2m3s ago)", true);
        check("3   2026-11-17T21:15:04.320Z  1s", "12  2027-01-05T02:10:09.123Z  1h", true);
        check("  generation: 1", "  generation: 3", true);
        check("hello-59e5918713c4", "other-59e5918713c4", false);
        check("True", "False", false);
    }

    #[test]
    fn counts_sizes_and_versions_may_not_differ() {
        for (expected, printed) in [
            ("books   3/3   3", "books   1/1   1"),
            ("orders, 20 GB", "orders, 500 GB"),
            ("registry.example.org/a:v0.2.0", "registry.example.org/a:v0.1.0"),
            ("ferroplane 0.1.0", "ferroplane 0.2.0"),
            ("1 of 18 objects is not ready.", "1 of 19 objects is not ready."),
            ("a.yaml:6: spec: Invalid value", "a.yaml:7: spec: Invalid value"),
            ("orders.example.org:5432", "orders.example.org:5433"),
            ("apiVersion: example.org/v1alpha1", "apiVersion: example.org/v1alpha2"),
            ("Batch 1 of 2: upgrading 1 of 3", "Batch 1 of 2: upgrading 2 of 3"),
            ("ttl: 60", "ttl: 61"),
            ("3", "5"),
            ("5s", "5"),
            ("recordings 4", "recordings 5"),
        ] {
            check(expected, printed, false);
        }
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
