//! Durations, months and days of the week: integers that print as words.
//!
//! Follows Go 1.26, `time/time.go`.

use std::any::Any;
use std::rc::Rc;

use ferroplane_golang::time::duration;
use ferroplane_golang::time::layout::{MONTHS, WEEKDAYS};

use super::methods;
use crate::{Function, Object, Text, Type, Value};

/// An integer with a type of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamedInteger {
    /// In nanoseconds.
    Duration(i64),
    /// From one.
    Month(i64),
    /// From Sunday, which is zero.
    Weekday(i64),
}

impl NamedInteger {
    /// A number as a value of the type with this name.
    pub(super) fn named(name: &str, whole: i64) -> Option<Self> {
        match name {
            "time.Duration" => Some(Self::Duration(whole)),
            "time.Month" => Some(Self::Month(whole)),
            "time.Weekday" => Some(Self::Weekday(whole)),
            _ => None,
        }
    }

    fn text(self) -> String {
        let name = |names: &[&str], number: i64| {
            usize::try_from(number).ok().and_then(|number| names.get(number)).map(ToString::to_string)
        };
        match self {
            Self::Duration(nanoseconds) => duration::format(nanoseconds),
            Self::Month(number) => name(&MONTHS, number - 1).unwrap_or_else(|| format!("%!Month({number})")),
            Self::Weekday(number) => {
                name(&WEEKDAYS, number).unwrap_or_else(|| format!("%!Weekday({number})"))
            }
        }
    }
}

impl From<NamedInteger> for Value {
    fn from(integer: NamedInteger) -> Self {
        Self::Object(Rc::new(integer))
    }
}

impl Object for NamedInteger {
    fn type_of(&self) -> Type {
        match self {
            Self::Duration(_) => methods::DURATION,
            Self::Month(_) => methods::MONTH,
            Self::Weekday(_) => methods::WEEKDAY,
        }
    }

    fn method(&self, name: &str) -> Option<&'static Function> {
        let methods = if let Self::Duration(_) = self { methods::OF_DURATION } else { methods::OF_LOCATION };
        methods.iter().find(|method| method.name == name)
    }

    fn string(&self) -> Option<Text> {
        Some(self.text().into())
    }

    fn integer(&self) -> Option<i64> {
        match self {
            Self::Duration(integer) | Self::Month(integer) | Self::Weekday(integer) => Some(*integer),
        }
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        Some(other.as_any().downcast_ref() == Some(self))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
