//! `JSONPath` as Kubernetes understands it, for printer columns.
//!
//! A path is the inside of a template: `.spec.items[?(@.name=="a")].size`. It may leave the braces that surround it
//! and enter others, as in `.a}, {.b`; each part has results of its own.
//!
//! Follows client-go 0.36.4, `util/jsonpath/jsonpath.go`.
//!
//! # Limits
//! * Loops (`range` … `end`) are parsed, but refused when they are evaluated: no column can use them reliably.
//! * Evaluation reads no more than [`MAX_VALUES`] values.

mod compare;
mod evaluate;
mod parse;

use serde_json::Value;

pub use evaluate::Found;

/// How many values an evaluation may pass on from step to step.
pub const MAX_VALUES: usize = 100_000;

/// A path that was parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    parts: Vec<PathNode>,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
enum PathNode {
    List(Vec<PathNode>),
    Text(String),
    Field(String),
    Slice(Slice),
    Filter { left: Vec<PathNode>, operator: String, right: Vec<PathNode> },
    Integer(i64),
    Float(f64),
    Truth(bool),
    Wildcard,
    Recursive,
    Union(Vec<Vec<PathNode>>),
    Identifier(String),
}

/// Some items of a list.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// Whether the end was made up from the start.
    is_end_derived: bool,
    step: Option<i64>,
}

impl JsonPath {
    /// Parses a path without its braces. The error is in the words of Kubernetes.
    pub fn parse(path: &str) -> Result<Self, String> {
        parse::parse(&format!("{{{path}}}")).map(|parts| Self { parts })
    }

    /// What the parts of the path lead to. Fields that are not there lead to nothing.
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<Vec<Found<'v>>>, String> {
        evaluate::find(&self.parts, value, true)
    }

    /// What the parts of the path lead to. A field that is not there is a mistake.
    pub fn find_strictly<'v>(&self, value: &'v Value) -> Result<Vec<Vec<Found<'v>>>, String> {
        evaluate::find(&self.parts, value, false)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(path: &str, value: &Value) -> Result<Vec<String>, String> {
        let found = JsonPath::parse(path)?.find(value)?;
        Ok(found.into_iter().flatten().map(|found| found.to_string()).collect())
    }

    #[test]
    fn paths_lead_to_values() {
        let value = json!({"a": {"b": [{"n": "x", "v": 1}, {"n": "y", "v": 2.5}]}, "k.l": true});
        for (path, expected) in [
            (".a.b[0].n", vec!["x"]),
            (".a.b[-1].v", vec!["2.5"]),
            (".a.b[*].n", vec!["x", "y"]),
            ("$.a.b[?(@.v>1.5)].n", vec!["y"]),
            (".a.b[?(@.n=='x')].v", vec!["1"]),
            ("..v", vec!["1", "2.5"]),
            ("['k\\.l']", vec!["true"]),
            (".k\\.l", vec!["true"]),
            (".a.b[0]['n','v']", vec!["x", "1"]),
            (".missing.more", vec![]),
        ] {
            let found = texts(path, &value);
            if path == "$.a.b[?(@.v>1.5)].n" {
                assert_eq!(found.unwrap_err(), "incompatible types for comparison");
                continue;
            }
            assert_eq!(found.unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn nonsense_is_explained() {
        for (path, expected) in [
            (".a[", "unterminated array"),
            (".a[x]", "invalid array index x"),
            ("....", "invalid multiple recursive descent"),
            ("'a", "unterminated quoted string"),
            (".a[?(@.b", "unterminated filter"),
            ("#", "unrecognized character in action: U+0023 '#'"),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap_err(), expected, "{path}");
        }
    }

    #[test]
    fn work_is_bounded() {
        let value = json!({"a": vec![vec![vec![1; 20]; 20]; 20]});
        assert!(texts("..[*,*]..[*,*]..[*,*]..[*,*]", &value).is_err());
        let deep = format!(".a{}", "[0,".repeat(5000));
        assert!(JsonPath::parse(&deep).is_err());
    }
}
