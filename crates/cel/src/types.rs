//! Types of expressions, as far as they are known before evaluation, and how they unify.
//!
//! Follows cel-go 0.29.2, `common/types/types.go`, `checker/types.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::message::MessageType;

/// The type of a variable or of an expression.
///
/// More kinds will come, for instance objects with known fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// Known only when evaluated.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Optional(Box<Type>),
    /// The type of a type.
    Type(Box<Type>),
    /// A type of a library, for example `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A message of a protocol.
    Message(MessageType),
    /// An object with known fields.
    Struct(Arc<Struct>),
    /// Stands for a type that is found out while checking.
    #[doc(hidden)]
    Parameter(Parameter),
    /// What a wrong expression has; it agrees with everything, so that one mistake is reported once.
    #[doc(hidden)]
    Error,
}

/// The fields of an object, by the names that expressions give them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Struct {
    /// Two types with the same name are the same.
    pub name: String,
    pub fields: BTreeMap<String, Type>,
}

/// A name in a declaration, or a number once the declaration is used.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    Named(&'static str),
    Fresh(usize),
}

impl Type {
    pub(super) fn list(element: Self) -> Self {
        Self::List(Box::new(element))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    pub(super) fn optional(value: Self) -> Self {
        Self::Optional(Box::new(value))
    }

    fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether null may stand where this type is wanted.
    fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Optional(_)
                | Self::Opaque(_)
                | Self::Message(_)
                | Self::Struct(_)
                | Self::Duration
                | Self::Timestamp
        )
    }

    /// Types within this one.
    fn parts(&self) -> [Option<&Self>; 2] {
        match self {
            Self::List(part) | Self::Optional(part) | Self::Type(part) => [Some(part), None],
            Self::Map(key, value) => [Some(key), Some(value)],
            _ => [None, None],
        }
    }

    fn is_same_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Opaque(one), Self::Opaque(other)) => one == other,
            (Self::Message(one), Self::Message(other)) => one == other,
            (Self::Struct(one), Self::Struct(other)) => one.name == other.name,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// A type that matches the other by means of `dyn` is the less specific one.
    fn is_equal_or_less_specific(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Parameter(_), _) | (Self::Type(_), Self::Type(_)) => true,
            (_, Self::Dyn | Self::Parameter(_)) => false,
            _ => self.is_same_kind(other) && self.parts().into_iter().zip(other.parts()).all(Self::is_looser),
        }
    }

    fn is_looser((one, other): (Option<&Self>, Option<&Self>)) -> bool {
        match (one, other) {
            (Some(one), Some(other)) => one.is_equal_or_less_specific(other),
            _ => true,
        }
    }

    /// The same type with its parts changed.
    fn map_parts(&self, mut change: impl FnMut(&Self) -> Self) -> Self {
        match self {
            Self::List(element) => Self::list(change(element)),
            Self::Map(key, value) => Self::map(change(key), change(value)),
            Self::Optional(value) => Self::optional(change(value)),
            Self::Type(part) => Self::Type(Box::new(change(part))),
            other => other.clone(),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::Type(part) => write!(f, "type({part})"),
            Self::Opaque(name) | Self::Parameter(Parameter::Named(name)) => f.write_str(name),
            Self::Message(message) => f.write_str(message.name),
            Self::Struct(of) => f.write_str(&of.name),
            Self::Parameter(Parameter::Fresh(number)) => write!(f, "_var{number}"),
            Self::Error => f.write_str("!error!"),
        }
    }
}

/// What the fresh parameters were found to stand for.
#[derive(Debug, Default)]
pub(super) struct Substitutions {
    found: Vec<Option<Type>>,
    /// What to put back when types turn out not to agree.
    changes: Vec<(usize, Option<Type>)>,
}

impl Substitutions {
    pub(super) fn fresh(&mut self) -> Type {
        self.found.push(None);
        Type::Parameter(Parameter::Fresh(self.found.len() - 1))
    }

    /// Whether a value of the first type can be given where the second is wanted. Remembers what that implies.
    pub(super) fn agree(&mut self, given: &Type, wanted: &Type) -> bool {
        self.agree_all(std::slice::from_ref(given), std::slice::from_ref(wanted))
    }

    pub(super) fn agree_all(&mut self, given: &[Type], wanted: &[Type]) -> bool {
        // A log of changes, instead of a copy of all substitutions, makes trying overloads cheap: most fail.
        self.changes.clear();
        let fits = given.len() == wanted.len()
            && given.iter().zip(wanted).all(|(given, wanted)| self.unify(given, wanted));
        if !fits {
            while let Some((parameter, before)) = self.changes.pop() {
                self.found[parameter] = before;
            }
        }
        fits
    }

    /// The type with everything known put in; what is not known becomes `dyn` if asked.
    pub(super) fn apply(&self, kind: &Type, unknown_is_dyn: bool) -> Type {
        if let Type::Parameter(parameter) = kind {
            return match self.find(*parameter) {
                Some(found) => self.apply(found, unknown_is_dyn),
                None if unknown_is_dyn => Type::Dyn,
                None => kind.clone(),
            };
        }
        kind.map_parts(|part| self.apply(part, unknown_is_dyn))
    }

    /// A declared type with fresh parameters in place of the named ones.
    pub(super) fn instantiate(kind: &Type, names: &[(&'static str, Type)]) -> Type {
        match kind {
            Type::Parameter(Parameter::Named(name)) => names
                .iter()
                .find(|(candidate, _)| candidate == name)
                .map_or(Type::Dyn, |(_, fresh)| fresh.clone()),
            _ => kind.map_parts(|part| Self::instantiate(part, names)),
        }
    }

    fn find(&self, parameter: Parameter) -> Option<&Type> {
        match parameter {
            Parameter::Fresh(number) => self.found[number].as_ref(),
            Parameter::Named(_) => None,
        }
    }

    fn put(&mut self, parameter: Parameter, kind: Type) {
        if let Parameter::Fresh(number) = parameter {
            let before = self.found[number].replace(kind);
            self.changes.push((number, before));
        }
    }

    fn unify(&mut self, given: &Type, wanted: &Type) -> bool {
        if let Type::Parameter(parameter) = wanted {
            let (fits, was_known) = self.substitute(given, *parameter);
            // A fresh parameter that cannot stand for the type may still be stood for by it: then the other
            // direction is tried below.
            if fits || was_known {
                return fits;
            }
        }
        if let Type::Parameter(parameter) = given {
            return self.substitute(wanted, *parameter).0;
        }
        match (given, wanted) {
            _ if given.is_dyn_or_error() || wanted.is_dyn_or_error() => true,
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            // All types of types agree; cel-go compares them at evaluation.
            (Type::Type(_), Type::Type(_)) => true,
            _ if !given.is_same_kind(wanted) => false,
            _ => given.parts().into_iter().zip(wanted.parts()).all(|parts| match parts {
                (Some(given), Some(wanted)) => self.unify(given, wanted),
                _ => true,
            }),
        }
    }

    /// Whether the parameter may stand for the type, and whether something was known of it before.
    fn substitute(&mut self, kind: &Type, parameter: Parameter) -> (bool, bool) {
        if *kind == Type::Parameter(parameter) {
            return (true, true);
        }
        if let Some(found) = self.find(parameter).cloned() {
            if *kind == found {
                return (true, true);
            }
            if !self.unify(kind, &found) {
                return (false, true);
            }
            let general = if kind.is_equal_or_less_specific(&found) { kind } else { &found };
            // A type that contains itself would make `apply` recurse for ever.
            if !self.occurs(parameter, general) {
                self.put(parameter, general.clone());
            }
            return (true, true);
        }
        if self.occurs(parameter, kind) {
            return (false, false);
        }
        self.put(parameter, kind.clone());
        (true, false)
    }

    fn occurs(&self, parameter: Parameter, within: &Type) -> bool {
        if let Type::Parameter(other) = within {
            return *other == parameter
                || self.find(*other).is_some_and(|found| self.occurs(parameter, found));
        }
        within.parts().into_iter().flatten().any(|part| self.occurs(parameter, part))
    }
}

/// The more general of two types that are known to agree.
pub(super) fn more_general(one: Type, other: Type) -> Type {
    if one.is_equal_or_less_specific(&other) { one } else { other }
}
