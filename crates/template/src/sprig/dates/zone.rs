//! Time zones. The database is compiled in; that of the machine is never read.
//!
//! Follows Go 1.26, `time/zoneinfo.go` (`LoadLocation`).

use std::any::Any;
use std::rc::Rc;

use ferroplane_golang::time::zone::{Period, ZoneTable};

use super::methods;
use crate::{Function, Object, Text, Type};

/// The zone of a time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Zone {
    Utc,
    /// The zone of the machine, which is UTC here.
    Local,
    /// So many seconds east of UTC. The name may be empty.
    Fixed(i32, String),
    Named(&'static str, Rc<ZoneTable>),
}

impl Zone {
    /// The zone with this name, such as `Europe/Berlin`.
    pub(super) fn load(name: &str) -> Option<Self> {
        match name {
            "" | "UTC" => Some(Self::Utc),
            "Local" => Some(Self::Local),
            name => ZoneTable::named(name).map(|(name, table)| Self::Named(name, Rc::new(table))),
        }
    }

    /// What holds at a second since 1970.
    pub(super) fn at(&self, second: i64) -> Period {
        let fixed =
            |offset, name: &str| Period { offset, abbreviation: name.to_owned(), is_daylight_saving: false };
        match self {
            Self::Utc | Self::Local => fixed(0, "UTC"),
            Self::Fixed(offset, name) => fixed(*offset, name),
            Self::Named(_, table) => table.at(second),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Utc | Self::Local => "UTC",
            Self::Fixed(_, name) => name,
            Self::Named(name, _) => name,
        }
    }
}

/// What a time says of its zone.
#[derive(Debug)]
pub(super) struct Location(pub(super) Zone);

impl Object for Location {
    fn type_of(&self) -> Type {
        methods::LOCATION
    }

    fn method(&self, name: &str) -> Option<&'static Function> {
        methods::OF_LOCATION.iter().find(|method| method.name == name)
    }

    fn string(&self) -> Option<Text> {
        Some(self.0.name().into())
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        Some(other.as_any().downcast_ref().is_some_and(|other: &Self| self.0 == other.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
