//! What is wrong with a field, in Kubernetes' words.
//!
//! Follows apimachinery 0.36.4, `pkg/util/validation/field/errors.go`, `pkg/util/validation/field/path.go`.

use std::collections::HashSet;
use std::fmt;

use ferroplane_golang::{json, strconv};
use serde_json::Value;

/// Where a field is, built while walking down and written out only when something is wrong there.
#[derive(Debug, Clone, Copy)]
pub struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: PathStep<'p>,
}

#[derive(Debug, Clone, Copy)]
enum PathStep<'p> {
    /// Nowhere: what Kubernetes prints as `<nil>`.
    Nil,
    Name(&'p str),
    Index(usize),
    Key(&'p str),
}

impl<'p> Path<'p> {
    /// No path at all.
    pub const NIL: Path<'static> = Path { parent: None, step: PathStep::Nil };

    pub const fn new(name: &'p str) -> Self {
        Self { parent: None, step: PathStep::Name(name) }
    }

    #[must_use]
    pub const fn child<'c>(&'c self, name: &'c str) -> Path<'c> {
        Path { parent: Some(self), step: PathStep::Name(name) }
    }

    #[must_use]
    pub const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: PathStep::Index(index) }
    }

    #[must_use]
    pub const fn key<'c>(&'c self, key: &'c str) -> Path<'c> {
        Path { parent: Some(self), step: PathStep::Key(key) }
    }

    fn write(&self, output: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(output);
        }
        let is_first = self.parent.is_none_or(Self::is_nil);
        match self.step {
            PathStep::Nil => {}
            // Go prints a path element that has neither name nor index as an empty key.
            PathStep::Name("") => output.push_str("[]"),
            PathStep::Name(name) => {
                if !is_first {
                    output.push('.');
                }
                output.push_str(name);
            }
            PathStep::Index(index) => output.push_str(&format!("[{index}]")),
            PathStep::Key(key) => output.push_str(&format!("[{key}]")),
        }
    }

    fn is_nil(&self) -> bool {
        matches!(self.step, PathStep::Nil)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nil() {
            return f.write_str("<nil>");
        }
        let mut output = String::new();
        self.write(&mut output);
        f.write_str(&output)
    }
}

/// What kind of mistake it is; its name is the reason of a cause in a `Status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TooFew,
    Internal,
    TypeInvalid,
    TooShort,
}

impl ErrorKind {
    /// The reason of a cause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooShort => "FieldValueTooShort",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::Internal => "Internal error",
            Self::TooShort => "Too short",
        }
    }

    const fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::TooShort | Self::Internal)
    }
}

/// The value that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum BadValue {
    /// Not shown.
    Omitted,
    Json(Value),
    /// Already recorded.
    Text(String),
}

impl From<Value> for BadValue {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        Self::Json(value.clone())
    }
}

impl From<&str> for BadValue {
    fn from(value: &str) -> Self {
        Self::Json(Value::from(value))
    }
}

impl From<&String> for BadValue {
    fn from(value: &String) -> Self {
        Self::from(value.as_str())
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        Self::Json(Value::from(value))
    }
}

impl From<i64> for BadValue {
    fn from(value: i64) -> Self {
        Self::Json(Value::from(value))
    }
}

impl From<f64> for BadValue {
    fn from(value: f64) -> Self {
        Self::Json(Value::from(value))
    }
}

impl BadValue {
    fn write(&self) -> Option<String> {
        Some(match self {
            Self::Omitted => return None,
            Self::Text(text) => text.clone(),
            // Plain strings print with `%q`. Types of their own that are strings print as JSON in Kubernetes,
            // and come as `Text`.
            Self::Json(Value::String(text)) => strconv::quote(text),
            Self::Json(Value::Number(number)) => match number.as_i64() {
                Some(integer) => integer.to_string(),
                None => strconv::format_float(number.as_f64().unwrap_or(0.0), 'g', None),
            },
            Self::Json(value) => json::marshal(value),
        })
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    pub kind: ErrorKind,
    pub field: String,
    pub value: BadValue,
    pub detail: String,
}

impl Error {
    pub fn new(
        kind: ErrorKind,
        path: &Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, field: path.to_string(), value: value.into(), detail: detail.into() }
    }

    pub fn invalid(path: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, path, value, detail)
    }

    pub fn required(path: &Path<'_>, detail: impl Into<String>) -> Self {
        // The value is never shown for this kind, so that it does not matter.
        Self::new(ErrorKind::Required, path, "", detail)
    }

    pub fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, path, "", detail)
    }

    pub fn duplicate(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorKind::Duplicate, path, value, "")
    }

    pub fn internal(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, path, Value::Null, detail)
    }

    pub fn not_supported<S: AsRef<str>>(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        supported: impl IntoIterator<Item = S>,
    ) -> Self {
        let quoted: Vec<_> = supported.into_iter().map(|value| strconv::quote(value.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorKind::NotSupported, path, value, detail)
    }

    pub fn too_long(path: &Path<'_>, most: i64) -> Self {
        let detail = match most {
            i64::MIN..=-1 => "value is too long".to_owned(),
            1 => "may not be more than 1 byte".to_owned(),
            most => format!("may not be more than {most} bytes"),
        };
        Self::new(ErrorKind::TooLong, path, "", detail)
    }

    pub fn too_many(path: &Path<'_>, actual: i64, most: i64) -> Self {
        let detail = match most {
            i64::MIN..=-1 => "has too many items".to_owned(),
            1 => "must have at most 1 item".to_owned(),
            most => format!("must have at most {most} items"),
        };
        let value = if actual < 0 { BadValue::Omitted } else { actual.into() };
        Self::new(ErrorKind::TooMany, path, value, detail)
    }

    /// The message without the field, which is the message of a cause in a `Status`.
    pub fn body(&self) -> String {
        let mut body = self.kind.words().to_owned();
        if let Some(value) = self.value.write().filter(|_| self.kind.shows_value()) {
            body.push_str(": ");
            body.push_str(&value);
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for Error {}

/// All mistakes as one text, as Kubernetes joins them: in brackets if there are several, each once.
pub fn aggregate(errors: &[Error]) -> String {
    // Apimachinery's `aggregate.Error` drops repetitions from the message only: the causes of a `Status` keep them.
    let all: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let mut seen = HashSet::with_capacity(all.len());
    let texts: Vec<_> = all.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
    match texts.as_slice() {
        [one] => (*one).to_owned(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_written_as_kubernetes_does() {
        let spec = Path::new("spec");
        let items = spec.child("items");
        let item = items.index(3);
        let key = item.key("a.b");
        assert_eq!(key.child("c").to_string(), "spec.items[3][a.b].c");
        assert_eq!(Path::NIL.to_string(), "<nil>");
        assert_eq!(Path::NIL.child("spec").to_string(), "spec");
        assert_eq!(Path::NIL.key("k").to_string(), "[k]");
    }

    #[test]
    fn errors_show_their_value_as_kubernetes_does() {
        let path = Path::new("spec");
        let shown = |value: Value| Error::invalid(&path, value, "no").to_string();
        assert_eq!(shown(json!("a\"b")), r#"spec: Invalid value: "a\"b": no"#);
        assert_eq!(shown(json!(1.5)), "spec: Invalid value: 1.5: no");
        assert_eq!(shown(json!({"a": [1, "<"]})), "spec: Invalid value: {\"a\":[1,\"\\u003c\"]}: no");
        assert_eq!(
            Error::not_supported(&path, "x", ["a", "b"]).to_string(),
            r#"spec: Unsupported value: "x": supported values: "a", "b""#
        );
        assert_eq!(Error::required(&path, "").to_string(), "spec: Required value");
    }
}
