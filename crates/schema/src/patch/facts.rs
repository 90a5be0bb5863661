//! Which lists of which kinds a strategic merge patch merges, and by which key. Facts, not behaviour.
//!
//! A kind is made of named types; a type has fields; a field has a shape and perhaps a strategy.
//!
//! Follows apimachinery 0.36.4, `pkg/util/strategicpatch/meta.go`.

use std::collections::BTreeMap;

use ferroplane_golang::strconv;

use super::Error;

/// The types that kinds are made of.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    types: BTreeMap<String, BTreeMap<String, PatchField>>,
}

/// A field of a type.
#[derive(Debug, Clone)]
pub struct PatchField {
    shape: PatchShape,
    strategy: Strategy,
    merge_key: String,
}

/// What the value of a field looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchShape {
    /// An object of a named type.
    Object(String),
    /// A list.
    List(Box<PatchShape>),
    /// Anything else, by the kind that Go gives it, for example `map` or `string`.
    Other(String),
}

/// What a patch of a field does to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Objects are merged and lists are replaced.
    #[default]
    Usual,
    Merge,
    Replace,
}

impl PatchField {
    pub fn new(shape: PatchShape) -> Self {
        Self { shape, strategy: Strategy::Usual, merge_key: String::new() }
    }

    #[must_use]
    pub fn with_strategy(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// Items with the same value of this field are the same item.
    #[must_use]
    pub fn with_merge_key(self, key: impl Into<String>) -> Self {
        Self { merge_key: key.into(), ..self }
    }
}

impl PatchShape {
    pub fn object(name: impl Into<String>) -> Self {
        Self::Object(name.into())
    }

    #[must_use]
    pub fn list(item: Self) -> Self {
        Self::List(Box::new(item))
    }

    pub fn other(kind: impl Into<String>) -> Self {
        Self::Other(kind.into())
    }

    fn kind(&self) -> &str {
        match self {
            Self::Object(_) => "struct",
            Self::List(_) => "slice",
            Self::Other(kind) => kind,
        }
    }
}

impl Facts {
    /// Says what a field of a type is like.
    #[must_use]
    pub fn with(mut self, type_name: &str, field: &str, fact: PatchField) -> Self {
        self.add(type_name, field, fact);
        self
    }

    /// Says what a field of a type is like.
    pub fn add(&mut self, type_name: &str, field: &str, fact: PatchField) {
        self.types.entry(type_name.to_owned()).or_default().insert(field.to_owned(), fact);
    }

    /// The facts about a kind, none if it is not known.
    pub fn kind(&self, type_name: &str) -> Option<PatchedKind<'_>> {
        let (name, fields) = self.types.get_key_value(type_name)?;
        Some(PatchedKind(PatchScope { facts: self, place: At::Type(name, fields) }))
    }
}

/// A kind that can be patched.
#[derive(Debug, Clone, Copy)]
pub struct PatchedKind<'f>(pub(super) PatchScope<'f>);

/// Where in a kind we are.
#[derive(Debug, Clone, Copy)]
pub(super) struct PatchScope<'f> {
    facts: &'f Facts,
    place: At<'f>,
}

#[derive(Debug, Clone, Copy)]
enum At<'f> {
    Type(&'f str, &'f BTreeMap<String, PatchField>),
    Shape(&'f PatchShape),
}

/// How to continue with a field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'f> {
    pub(super) scope: PatchScope<'f>,
    pub(super) strategy: Strategy,
    pub(super) merge_key: &'f str,
}

impl<'f> PatchScope<'f> {
    /// What is known about a field that holds an object.
    pub(super) fn object(self, name: &str) -> Result<Found<'f>, Error> {
        let field = self.field(name)?;
        Ok(self.found(field, &field.shape))
    }

    /// What is known about a field that holds a list; the scope is that of its items.
    pub(super) fn list(self, name: &str) -> Result<Found<'f>, Error> {
        let field = self.field(name)?;
        match &field.shape {
            PatchShape::List(item) if matches!(**item, PatchShape::List(_)) => {
                Err(Error::Internal("unexpected slice of slice".to_owned()))
            }
            PatchShape::List(item) => Ok(self.found(field, item)),
            _ => Err(Error::Internal("expected slice or array type, but got: struct".to_owned())),
        }
    }

    /// What Go calls it.
    pub(super) fn kind(self) -> &'f str {
        match self.place {
            At::Type(..) => "struct",
            At::Shape(shape) => shape.kind(),
        }
    }

    fn found(self, field: &'f PatchField, shape: &'f PatchShape) -> Found<'f> {
        let place = match shape {
            PatchShape::Object(name) => match self.facts.types.get(name) {
                Some(fields) => At::Type(name, fields),
                None => At::Shape(shape),
            },
            _ => At::Shape(shape),
        };
        let scope = PatchScope { facts: self.facts, place };
        Found { scope, strategy: field.strategy, merge_key: &field.merge_key }
    }

    fn field(self, name: &str) -> Result<&'f PatchField, Error> {
        let (type_name, fields) = match self.place {
            At::Type(type_name, fields) => (type_name, Some(fields)),
            At::Shape(PatchShape::Object(type_name)) => (type_name.as_str(), None),
            At::Shape(shape) => {
                return Err(Error::Internal(format!(
                    "merging an object in json but data type is not struct, instead is: {}",
                    shape.kind()
                )));
            }
        };
        let found = fields.and_then(|fields| {
            // Go finds fields of structs by name without regard to case.
            let similar = || fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            fields.get(name).or_else(|| similar().map(|(_, field)| field))
        });
        found.ok_or_else(|| {
            Error::Internal(format!(
                "unable to find api field in struct {type_name} for the json field {}",
                strconv::quote(name)
            ))
        })
    }
}
