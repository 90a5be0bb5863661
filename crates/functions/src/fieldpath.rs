//! Field paths as Crossplane reads them: `metadata.annotations['a.b/c']`, `spec.containers[0].args[*]`.
//!
//! A [`Path`] is parsed once and then gets from, sets in, merges into and expands against JSON objects. Words
//! of errors are the original's, since users read them in events.
//!
//! # Invariants
//! * An empty path is the original's: it gets null and sets nothing.
//! * Nothing is created that is deeper than the wire carries, or at an index past [`MAX_INDEX`].

mod expand;
mod merge;
mod parse;
mod set;

use std::fmt;

use ferroplane_golang::json::integer;
use serde_json::{Map, Value};

pub(crate) use merge::MergeOptions;

/// The highest index that may be set.
// crossplane-runtime's `DefaultMaxFieldPathIndex`: setting an index makes all items before it.
pub(crate) const MAX_INDEX: usize = 1024;

/// Where a value is inside a JSON object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    text: String,
    segments: Vec<Segment>,
    nulls: Nulls,
}

/// What a path that leads through null comes to. Crossplane changed its mind about this in crossplane-runtime 1.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Missing,
    Failing,
}

/// One step into an object or an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Field(String),
    Index(usize),
}

/// Why a path could not be parsed or followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    message: String,
    is_not_found: bool,
}

impl Path {
    /// Read a path. Remembers the text, because some errors repeat it as it was written.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let segments = parse::segments(text).map_err(|error| error.wrap(cannot_parse(text)))?;
        Ok(Self { text: text.to_owned(), segments, nulls: Nulls::Missing })
    }

    /// The same path, as Crossplane followed it before: one that leads through null fails, where now nothing is found.
    #[must_use]
    pub(crate) fn failing_on_null(self) -> Self {
        Self { nulls: Nulls::Failing, ..self }
    }

    /// The steps of the path.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The path as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it goes into a list, by an index or for all of its items. Who applies such a field applies the whole list.
    pub(crate) fn leads_into_list(&self) -> bool {
        let is_item = |segment: &Segment| match segment {
            Segment::Index(_) => true,
            Segment::Field(name) => name == "*",
        };
        self.segments.iter().any(is_item)
    }

    /// The fields that lead there, by name.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Field(name) => Some(name.as_str()),
            Segment::Index(_) => None,
        })
    }

    /// About how many bytes the arrays on the way take, if they are not there yet.
    pub(crate) fn reach(&self) -> usize {
        let length = |segment: &Segment| match segment {
            Segment::Index(index) => (index + 1).min(MAX_INDEX) * size_of::<Value>(),
            Segment::Field(_) => 0,
        };
        self.segments.iter().map(length).sum()
    }

    /// The value at this path. Null if that is what is there.
    pub(crate) fn get<'a>(&self, object: &'a Map<String, Value>) -> Result<&'a Value, Error> {
        get(object, &self.segments, self.nulls)
    }

    /// The text at this path.
    pub(crate) fn get_string<'a>(&self, object: &'a Map<String, Value>) -> Result<&'a str, Error> {
        self.get(object)?.as_str().ok_or_else(|| self.is_no("a string"))
    }

    /// The truth at this path.
    pub(crate) fn get_bool(&self, object: &Map<String, Value>) -> Result<bool, Error> {
        self.get(object)?.as_bool().ok_or_else(|| self.is_no("a bool"))
    }

    /// The whole number at this path.
    pub(crate) fn get_integer(&self, object: &Map<String, Value>) -> Result<i64, Error> {
        match self.get(object)? {
            Value::Number(number) => integer(number),
            _ => None,
        }
        .ok_or_else(|| self.is_no("a (int64) number"))
    }

    fn is_no(&self, kind: &str) -> Error {
        Error::new(format!("{}: not {kind}", self.text))
    }
}

impl Error {
    /// A problem other than that something is missing.
    pub(crate) fn new(message: String) -> Self {
        Self { message, is_not_found: false }
    }

    fn not_found(message: String) -> Self {
        Self { message, is_not_found: true }
    }

    /// Whether there is just nothing at the path. What that means is for the caller to say.
    pub(crate) fn is_not_found(&self) -> bool {
        self.is_not_found
    }

    /// The same problem, with words before it. It stays a missing field if it was one.
    pub(crate) fn wrap(self, context: impl fmt::Display) -> Self {
        Self { message: format!("{context}: {}", self.message), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

static NULL: Value = Value::Null;

fn get<'a>(object: &'a Map<String, Value>, segments: &[Segment], nulls: Nulls) -> Result<&'a Value, Error> {
    let Some((first, rest)) = segments.split_first() else { return Ok(&NULL) };
    // The original prints the segments before the one that fails, and here there are none.
    let Segment::Field(name) = first else { return Err(Error::new(": not an array".to_owned())) };
    let mut value = object.get(name).ok_or_else(|| no_such_field(&segments[..1]))?;
    for (at, segment) in rest.iter().enumerate() {
        let (before, through) = (&segments[..=at], &segments[..at + 2]);
        value = match (segment, value) {
            (Segment::Index(index), Value::Array(items)) => items
                .get(*index)
                .ok_or_else(|| Error::not_found(format!("{}: no such element", Segments(through))))?,
            (Segment::Index(_), _) => return Err(Error::new(format!("{}: not an array", Segments(before)))),
            (Segment::Field(name), Value::Object(object)) => {
                object.get(name).ok_or_else(|| no_such_field(through))?
            }
            (Segment::Field(_), Value::Null) if nulls == Nulls::Missing => {
                // Missing, not wrong: optional patches pass over it, as in the original.
                return Err(Error::not_found(format!("{}: expected map, got nil", Segments(before))));
            }
            (Segment::Field(_), _) => {
                return Err(Error::new(format!("{}: not an object", Segments(before))));
            }
        };
    }
    Ok(value)
}

fn no_such_field(segments: &[Segment]) -> Error {
    Error::not_found(format!("{}: no such field", Segments(segments)))
}

fn cannot_parse(text: &str) -> String {
    format!("cannot parse path {}", ferroplane_golang::strconv::quote(text))
}

/// Segments as a path again. Not every name survives this: the original adds no quotes.
struct Segments<'a>(&'a [Segment]);

impl fmt::Display for Segments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Field(name) if name == "*" || name.contains('.') => write!(f, "[{name}]")?,
                // Only the very first period is dropped, also from a name that begins with one.
                Segment::Field(name) if at == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub(super) fn object(value: Value) -> Map<String, Value> {
        let Value::Object(object) = value else { panic!("not an object: {value}") };
        object
    }

    fn pod() -> Map<String, Value> {
        object(json!({
            "metadata": {"name": "cool", "labels": {"a.b/c": "d"}, "nothing": null},
            "spec": {"replicas": 2.0, "half": 0.5, "on": true, "items": [{"name": "first"}, [1, 2]]}
        }))
    }

    fn get(path: &str) -> Result<Value, String> {
        Path::parse(path).and_then(|path| path.get(&pod()).cloned()).map_err(|error| error.to_string())
    }

    fn is_missing(path: &str) -> bool {
        Path::parse(path).unwrap().get(&pod()).is_err_and(|error| error.is_not_found())
    }

    #[test]
    fn value_is_found_by_fields_and_indexes() {
        assert_eq!(get("metadata.name"), Ok(json!("cool")));
        assert_eq!(get("metadata.labels[a.b/c]"), Ok(json!("d")));
        assert_eq!(get("metadata.labels['a.b/c']"), Ok(json!("d")));
        assert_eq!(get("spec.items[0].name"), Ok(json!("first")));
        assert_eq!(get("spec.items[1][1]"), Ok(json!(2)));
        assert_eq!(get("metadata.nothing"), Ok(json!(null)));
        assert_eq!(get(""), Ok(json!(null)));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        assert_eq!(get("spec.other.deep"), Err("spec.other: no such field".into()));
        assert_eq!(get("other"), Err("other: no such field".into()));
        assert_eq!(get("spec.items[7]"), Err("spec.items[7]: no such element".into()));
        assert_eq!(get("metadata.nothing.deep"), Err("metadata.nothing: expected map, got nil".into()));
        for path in ["spec.other.deep", "other", "spec.items[7]", "metadata.nothing.deep"] {
            assert!(is_missing(path), "{path}");
        }
    }

    #[test]
    fn following_a_path_into_the_wrong_kind_is_an_error() {
        assert_eq!(get("metadata[0]"), Err("metadata: not an array".into()));
        assert_eq!(get("[0]"), Err(": not an array".into()));
        assert_eq!(get("metadata.name.deep"), Err("metadata.name: not an object".into()));
        assert_eq!(get("metadata.nothing[0]"), Err("metadata.nothing: not an array".into()));
        assert_eq!(get("metadata.labels[a.b/c].x"), Err("metadata.labels[a.b/c]: not an object".into()));
        assert!(!is_missing("metadata.name.deep"));
    }

    #[test]
    fn typed_value_of_another_type_is_an_error_that_repeats_the_path() {
        let path = |text| Path::parse(text).unwrap();
        let message = |error: Error| error.to_string();
        assert_eq!(path("metadata['name']").get_string(&pod()), Ok("cool"));
        assert_eq!(path("spec.on").get_bool(&pod()), Ok(true));
        assert_eq!(path("spec.replicas").get_integer(&pod()), Ok(2));
        assert_eq!(
            path("spec['on']").get_string(&pod()).map_err(message),
            Err("spec['on']: not a string".into())
        );
        assert_eq!(path("spec.half").get_bool(&pod()).map_err(message), Err("spec.half: not a bool".into()));
        let error = path("spec.half").get_integer(&pod()).map_err(message);
        assert_eq!(error, Err("spec.half: not a (int64) number".into()));
    }
}
