//! The output of commands: lines with a marker and a JSON object with `key` and `value`, as Kanister's tools print them.
//!
//! Follows Kanister 0.119, pkg/output: the marker may stand anywhere in a line, lines may be of any length, and a later value of a key
//! replaces an earlier one. A marker without a readable object behind it is an error: output that is lost silently is worse.

use ferroplane_api::Object;
use ferroplane_engine::action::OUTPUT_MARKER as MARKER;
use serde::Deserialize;

use super::moves::Failure;

/// How much of the output is quoted in an error.
const QUOTED: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyValue {
    key: String,
    value: String,
}

/// All output in a text that ends here.
pub(super) fn outputs(text: &str) -> Result<Object, Failure> {
    let mut outputs = Object::new();
    for line in text.lines() {
        read_line(line, &mut outputs)?;
    }
    Ok(outputs)
}

/// The complete lines of a text that continues.
pub(super) fn complete_lines(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}

fn read_line(line: &str, outputs: &mut Object) -> Result<(), Failure> {
    // What comes before the first marker is what the command said besides.
    for piece in line.split(MARKER).skip(1) {
        // Something may be printed behind the object, such as the prompt of a shell.
        let mut objects = serde_json::Deserializer::from_str(piece).into_iter::<KeyValue>();
        let Some(Ok(KeyValue { key, value })) = objects.next() else {
            let quoted: String = piece.trim().chars().take(QUOTED).collect();
            return Err(Failure::new(format!(
                "cannot read output `{quoted}`: expected `{MARKER}` and an object with the texts key and value"
            )));
        };
        if key.is_empty() || !key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            let quoted: String = key.chars().take(QUOTED).collect();
            return Err(Failure::new(format!(
                "cannot use `{quoted}` as a key of output: only letters, digits and underscores can be in it"
            )));
        }
        outputs.insert(key, value.into());
    }
    Ok(())
}

/// The last lines that a command printed, without output, for people.
pub(super) fn last_words(text: &str, longest: usize) -> String {
    let lines = text.lines().rev().map(str::trim_end);
    let mut words = Vec::new();
    let mut length = 0;
    for line in lines.filter(|line| !line.is_empty() && !line.contains(MARKER)).take(3) {
        length += line.len();
        if length > longest {
            if words.is_empty() {
                let start = (line.len() - longest..line.len()).find(|start| line.is_char_boundary(*start));
                words.push(&line[start.unwrap_or_default()..]);
            }
            break;
        }
        words.push(line);
    }
    words.reverse();
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(text: &str) -> serde_json::Value {
        outputs(text).unwrap().into()
    }

    #[test]
    fn output_is_found_wherever_the_marker_stands() {
        let text = "starting\n###Phase-output###:{\"key\":\"a\",\"value\":\"1\"}\nno newline before###Phase-output###: \
                    {\"key\":\"b\",\"value\":\"x###y\"} $ \n###Phase-output###:{\"key\":\"a\",\"value\":\"2\"}";
        assert_eq!(found(text), json!({"a": "2", "b": "x###y"}));
    }

    #[test]
    fn lines_may_be_long() {
        let long = "x".repeat(300_000);
        let text = format!("{long}\n{MARKER}{{\"key\":\"k\",\"value\":\"{long}\"}}\n");
        assert_eq!(found(&text)["k"].as_str().unwrap().len(), 300_000);
    }

    #[test]
    fn line_that_is_not_complete_is_left_for_later() {
        let text = format!("a\n{MARKER}{{\"key\":\"k\",\"value\":\"v\"}}\n{MARKER}{{\"key\":\"h");
        let complete = complete_lines(&text);
        assert_eq!(found(complete), json!({"k": "v"}));
        assert_eq!(&text[complete.len()..], format!("{MARKER}{{\"key\":\"h"));
        assert_eq!(complete_lines("###Phase-out"), "");
    }

    #[test]
    fn output_that_cannot_be_read_is_an_error() {
        for (text, expected) in [
            ("###Phase-output###:", "cannot read output ``"),
            ("###Phase-output###:{\"key\":\"a\"}", "cannot read output"),
            ("###Phase-output###:{\"key\":\"a\",\"value\":3}", "cannot read output"),
            ("###Phase-output###:{\"key\":\"a-b\",\"value\":\"\"}", "cannot use `a-b` as a key"),
            ("###Phase-output###:{\"key\":\"\",\"value\":\"\"}", "cannot use `` as a key"),
        ] {
            let error = outputs(text).unwrap_err().message;
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn last_words_are_few_and_without_output() {
        assert_eq!(last_words("a\nb\n\nc\n###Phase-output###:{}\nd\n", 100), "b; c; d");
        assert_eq!(last_words(&format!("{}end", "ä".repeat(200)), 10), "äääend");
        assert_eq!(last_words("", 10), "");
    }

    proptest! {
        /// However a log is cut into pieces, the same output is found.
        #[test]
        fn output_does_not_depend_on_where_a_log_is_cut(cut in 0usize..200) {
            let text = format!(
                "one\n{MARKER}{{\"key\":\"a\",\"value\":\"1\"}}\nnoise {MARKER}{{\"key\":\"b\",\"value\":\"2\"}}\n\
                 {MARKER}{{\"key\":\"c\",\"value\":\"3\"}}"
            );
            let first = complete_lines(&text[..cut.min(text.len())]);
            let mut all = outputs(first).unwrap();
            all.extend(outputs(&text[first.len()..]).unwrap());
            prop_assert_eq!(all, outputs(&text).unwrap());
        }

        #[test]
        fn garbage_never_panics(text in "\\PC{0,200}") {
            let _ = outputs(&format!("{MARKER}{text}"));
            let _ = last_words(&text, 7);
        }
    }
}
