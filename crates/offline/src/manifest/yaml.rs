//! YAML in and out, as the Kubernetes tools read and write it.

use serde::Serialize;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, options, ser_options};

use super::Node;

/// Why text is not YAML, and where.
#[derive(Debug)]
pub struct BadYaml {
    pub line: Option<u64>,
    pub message: String,
}

/// A document may nest this deep. Functions accept no more.
const MAX_DEPTH: usize = ferroplane_wire::MAX_DEPTH;

/// The documents of a stream. Empty ones do not count.
pub fn parse(text: &str) -> Result<Vec<Node>, BadYaml> {
    parse_with(text, DuplicateKeyPolicy::Error)
}

/// The same, where a key may be there twice. Nodes can tell.
pub(crate) fn parse_with_duplicates(text: &str) -> Result<Vec<Node>, BadYaml> {
    parse_with(text, DuplicateKeyPolicy::LastWins)
}

fn parse_with(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Vec<Node>, BadYaml> {
    refuse_leading_tab(text)?;
    let options = options! {
        duplicate_keys: duplicate_keys,
        // YAML 1.1, as in Go: 0644 is a file mode.
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            // Bundles of CRDs are large. Aliases are what makes a small file dangerous.
            max_documents: 1_000_000,
            max_nodes: 20_000_000,
            max_events: 60_000_000,
            max_total_scalar_bytes: 1 << 30,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
        },
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| explain(&error))
}

/// The parser takes a tab before the first key for white space. Go does not, and neither will kubectl.
fn refuse_leading_tab(text: &str) -> Result<(), BadYaml> {
    let first = text.lines().zip(1..).find(|(line, _)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---"
    });
    match first {
        Some((line, number)) if line.starts_with('\t') => {
            let message = "a line starts with a tab: indent with spaces".to_owned();
            Err(BadYaml { line: Some(number), message })
        }
        _ => Ok(()),
    }
}

fn explain(error: &Error) -> BadYaml {
    let line = error.location().map(|location| location.line());
    let text = error.to_string();
    // The line goes to the front of the message, where editors look for it.
    let text = text.split(" at line ").next().unwrap_or_default();
    let message = match text {
        text if text.contains("tabs disallowed") => "a line is indented with a tab: use spaces".to_owned(),
        text if text.starts_with("duplicate mapping key") => {
            let key = text.split([':', ',']).nth(1).unwrap_or_default().trim();
            format!("key `{key}` is given twice")
        }
        text if text.contains("alias replay") || text.contains("budget breached") => {
            format!("the document is too large, or its aliases expand too far ({text})")
        }
        text if text.contains("recursion limit") || text.contains("depth") => {
            format!("the document is nested more than {MAX_DEPTH} levels deep")
        }
        text => text.to_owned(),
    };
    BadYaml { line, message }
}

/// Why something cannot be written as YAML.
pub type PrintError = serde_saphyr::SerializeError;

/// One document, without a separator.
pub fn print(value: &impl Serialize) -> Result<String, PrintError> {
    let options = ser_options! {
        compact_list_indent: true,
        // Never fold: a diff should show the line that changed, and only that.
        min_fold_chars: usize::MAX,
        folded_wrap_chars: usize::MAX,
    };
    serde_saphyr::to_string_with_options(value, options)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Result<Vec<Value>, String> {
        let nodes =
            parse(text).map_err(|bad| format!("{}: {}", bad.line.unwrap_or_default(), bad.message))?;
        Ok(nodes.iter().map(Node::to_json).collect())
    }

    #[test]
    fn values_are_read_as_kubernetes_tools_do() {
        let text = "a: yes\nb: 0644\nc: 1.0\nd: ~\ne: \"1\"\nf: 1.5\ng: 0x1F\nh: |\n  x\n";
        let value = json!({"a": true, "b": 420, "c": 1, "d": null, "e": "1", "f": 1.5, "g": 31, "h": "x\n"});
        assert_eq!(read(text).unwrap(), [value]);
    }

    #[test]
    fn empty_documents_do_not_count() {
        assert_eq!(
            read("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n").unwrap(),
            [json!({"a": 1}), json!({"b": 2})]
        );
        assert_eq!(read("").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let cases = [
            ("\ta: 1\n", "1: a line starts with a tab: indent with spaces"),
            ("a:\n\tb: 1\n", "2: a line is indented with a tab: use spaces"),
            ("a: 1\nb: 2\na: 3\n", "3: key `a` is given twice"),
            ("a: [\n", "1: unclosed bracket '['"),
            ("a: b: c\n", "1: mapping values are not allowed in this context"),
            ("a: .inf\n", "1: non-finite float `.inf` rejected by the configured policy"),
        ];
        for (text, message) in cases {
            assert_eq!(read(text).unwrap_err(), message, "{text:?}");
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        let text = "[".repeat(100_000);
        assert!(read(&text).unwrap_err().contains("nested more than 128 levels deep"));
    }

    #[test]
    fn alias_bomb_is_refused() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..10 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(",");
            bomb += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        assert!(read(&bomb).unwrap_err().contains("too large, or its aliases expand too far"));
    }

    #[test]
    fn text_that_looks_like_something_else_is_quoted() {
        for text in [
            "yes",
            "1.0",
            "null",
            "0x10",
            "1_000",
            "",
            " a",
            "a: b",
            "- a",
            "2024-01-01",
            "~",
            "!x",
            "&x",
            "*x",
        ] {
            let printed = print(&json!({"key": text})).unwrap();
            assert_eq!(read(&printed).unwrap(), [json!({"key": text})], "{printed}");
            assert!(printed.contains('"') || printed.contains('\''), "{printed}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~\\n\\t]{0,20}".prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{0,8}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_the_same(value in any_value()) {
            let value = json!({"value": value});
            let printed = print(&value).unwrap();
            prop_assert_eq!(read(&printed).map_err(TestCaseError::fail)?, [value], "{}", printed);
        }

        #[test]
        fn any_text_is_documents_or_an_error(text in "\\PC{0,200}") {
            let _ = parse(&text);
        }
    }
}
