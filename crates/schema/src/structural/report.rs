//! What validation finds. Knows how Kubernetes turns it into errors of fields.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/validation/validate/result.go`; apiextensions-apiserver 0.36.4,
//! `pkg/apiserver/validation/validation.go`.

use std::collections::HashSet;

use ferroplane_golang::json;
use serde_json::Value;

use crate::field::{BadValue, Error, ErrorKind, Path};

/// Findings so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) mistakes: Vec<Mistake>,
    /// How many checks passed. Of several alternatives that fail, the one that came furthest is reported.
    pub(super) matches: i64,
    /// Only whether something is wrong is asked, not what.
    is_probe: bool,
    /// One of several alternatives, so that passed checks count.
    is_branch: bool,
    has_failed: bool,
}

impl Report {
    pub(super) fn probe() -> Self {
        Self { is_probe: true, ..Self::default() }
    }

    /// One for an alternative.
    pub(super) fn branch(&self) -> Self {
        Self { is_probe: self.is_probe, is_branch: true, ..Self::default() }
    }

    /// Whether passed checks need not be counted.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_probe && !self.is_branch
    }

    pub(super) fn is_valid(&self) -> bool {
        if self.is_probe { !self.has_failed } else { self.mistakes.is_empty() }
    }

    /// Whether nothing that may still be found would change the answer.
    pub(super) fn is_decided(&self) -> bool {
        self.is_probe && self.has_failed
    }

    pub(super) fn fail(&mut self, mistake: impl FnOnce() -> Mistake) {
        if self.is_probe {
            self.has_failed = true;
        } else {
            self.mistakes.push(mistake());
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.has_failed |= other.has_failed;
        self.matches += other.matches;
        self.mistakes.extend(other.mistakes);
    }

    /// The errors, each once, below the given path.
    pub(super) fn into_errors(self, path: &Path<'_>) -> Vec<Error> {
        let mut seen = HashSet::with_capacity(self.mistakes.len());
        let unseen = self.mistakes.into_iter().filter(|mistake| seen.insert(mistake.identity()));
        unseen.map(|mistake| mistake.into_error(path)).collect()
    }
}

/// Something wrong, as the validator of `OpenAPI` sees it.
#[derive(Debug)]
pub(super) struct Mistake {
    /// The path, with a dot in front in some places.
    pub(super) name: String,
    pub(super) message: String,
    pub(super) code: Code,
}

#[derive(Debug)]
pub(super) enum Code {
    /// Kubernetes does not know where it happened.
    Nowhere,
    Type(String),
    Required,
    Enum(Value, Vec<Value>),
    TooLong(i64),
    TooMany {
        actual: i64,
        most: i64,
    },
    Other(Option<Value>),
}

impl Mistake {
    /// What makes two mistakes the same: the message, which for an enum is not written out.
    fn identity(&self) -> String {
        match &self.code {
            // Go deduplicates these before the values are filled into the message.
            Code::Enum(_, values) => {
                format!("{} {}", self.name, values.iter().map(json::marshal).collect::<Vec<_>>().join(" "))
            }
            _ => self.message.clone(),
        }
    }

    fn into_error(self, path: &Path<'_>) -> Error {
        let name = self.name.strip_prefix('.').unwrap_or(&self.name);
        let child = path.child(name);
        let at = if self.name.is_empty() || self.name == "." { path } else { &child };
        let shown = |value: Option<Value>| BadValue::Json(value.unwrap_or_else(|| Value::from("")));
        match self.code {
            Code::Nowhere => Error::invalid(path, "", self.message),
            Code::Required => Error::required(at, ""),
            Code::Enum(value, values) => {
                let supported = values.into_iter().map(|value| match value {
                    Value::String(text) => text,
                    other => json::marshal(&other),
                });
                Error::not_supported(at, value, supported)
            }
            Code::TooLong(most) => Error::too_long(at, most),
            Code::TooMany { actual, most } => Error::too_many(at, actual, most),
            Code::Type(found) => Error::new(ErrorKind::TypeInvalid, at, found.as_str(), self.message),
            Code::Other(value) => Error::invalid(at, shown(value), self.message),
        }
    }
}

/// Where validation is, as its messages name it.
#[derive(Debug, Clone, Copy)]
pub(super) enum At<'p> {
    Root,
    Property(&'p At<'p>, &'p str),
    /// A field that the schema does not name.
    Other(&'p At<'p>, &'p str),
    Item(&'p At<'p>, usize),
}

impl At<'_> {
    pub(super) fn is_root(self) -> bool {
        matches!(self, Self::Root)
    }

    pub(super) fn name(&self) -> String {
        let mut name = String::new();
        self.write(&mut name);
        name
    }

    fn write(&self, output: &mut String) {
        match *self {
            Self::Root => {}
            Self::Property(parent, name) => {
                parent.write(output);
                if !output.is_empty() {
                    output.push('.');
                }
                output.push_str(name);
            }
            // A dot even at the root: Kubernetes names such fields `.name`, and strips the dot only in some
            // errors.
            Self::Other(parent, name) => {
                parent.write(output);
                output.push('.');
                output.push_str(name);
            }
            Self::Item(parent, index) => {
                parent.write(output);
                output.push_str(&format!("[{index}]"));
            }
        }
    }

    pub(super) fn mistake(&self, code: Code, words: &str) -> Mistake {
        let name = self.name();
        let message = format!("{name} in body {words}");
        Mistake { name, message, code }
    }

    /// A mistake that Kubernetes cannot place.
    pub(super) fn nowhere(message: String) -> Mistake {
        Mistake { name: String::new(), message, code: Code::Nowhere }
    }
}
