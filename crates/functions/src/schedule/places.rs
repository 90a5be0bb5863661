//! Targets, what room they have, and which of them an object is placed on.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ferroplane_cel::quantity::{Notation, Quantity};
use ferroplane_golang::json::integer;
use serde_json::{Value, json};

use super::Place;
use super::settings::{Schedule, Strategy};
use crate::fieldpath::Path;
use crate::fleet::{called, is_being_deleted, is_paused, name_of, namespace_of, text, unhealthy_because};
use crate::selection::JsonObject;

pub(super) const NOTHING: Quantity = Quantity::from_integer(0, Notation::Decimal);
const ONE: Quantity = Quantity::from_integer(1, Notation::Decimal);

/// Something that objects are placed on.
#[derive(Debug)]
pub(super) struct Target<'r> {
    object: &'r JsonObject,
    /// None if there is no end of it.
    capacity: Option<Quantity>,
    used: Quantity,
    objects: usize,
    /// Why nothing more can be placed on it, if so.
    closed: Option<String>,
}

/// All targets, by name.
#[derive(Debug)]
pub(super) struct Targets<'r> {
    all: Vec<Target<'r>>,
    by_name: BTreeMap<(&'r str, &'r str), usize>,
    has_namespaces: bool,
}

impl<'r> Targets<'r> {
    pub(super) fn read(settings: &Schedule<'_>, objects: Vec<&'r JsonObject>) -> Result<Self, String> {
        let has_namespaces = settings.namespace_field.is_some();
        let mut targets = Self { all: Vec::new(), by_name: BTreeMap::new(), has_namespaces };
        for object in objects {
            let key =
                if has_namespaces { (name_of(object), namespace_of(object)) } else { (name_of(object), "") };
            if targets.by_name.insert(key, targets.all.len()).is_some() {
                return Err(format!(
                    "several targets are called {}: set assignmentNamespaceField, or select targets in one namespace",
                    name_of(object)
                ));
            }
            targets.all.push(Target::read(settings, object));
        }
        Ok(targets)
    }

    pub(super) fn into_all(self) -> Vec<Target<'r>> {
        self.all
    }

    /// The target that an object is assigned to. None if there is no such target.
    pub(super) fn find(&self, name: &str, namespace: Option<&str>) -> Option<usize> {
        let namespace = if self.has_namespaces { namespace.unwrap_or_default() } else { "" };
        self.by_name.get(&(name, namespace)).copied()
    }

    pub(super) fn take(&mut self, index: usize, demand: Quantity) {
        let target = &mut self.all[index];
        target.used = target.used.plus(demand);
        target.objects += 1;
    }

    pub(super) fn place(&self, index: usize) -> Place<'r> {
        Place::of(self.all[index].object)
    }

    /// The target for an object, whose room is taken. Or why there is none.
    pub(super) fn choose(&mut self, settings: &Schedule<'_>, object: &JsonObject) -> Result<usize, String> {
        let demand = demand_of(settings, object)?;
        let open = || (0..self.all.len()).filter(|index| self.all[*index].closed.is_none());
        let fitting = || open().filter(|index| self.all[*index].suits(settings, object));
        let roomy = fitting().filter(|index| self.all[*index].has_room(demand));
        // The first of equals is taken, which is the first by name.
        let chosen = match settings.strategy {
            Strategy::Spread => {
                // Where room has no limit all are equal in it, and the number of objects spreads them.
                roomy.min_by_key(|index| (Reverse(self.all[*index].room()), self.all[*index].objects))
            }
            Strategy::Pack => roomy.min_by_key(|index| self.all[*index].room()),
        };
        if let Some(index) = chosen {
            self.take(index, demand);
            return Ok(index);
        }
        Err(match (self.all.is_empty(), open().next().is_none(), fitting().next().is_none()) {
            (true, ..) => "there is no target".to_owned(),
            (_, true, _) => self.all_closed(),
            (_, _, true) => format!("no target has {}", shared_labels(settings, object)),
            _ => {
                let most =
                    fitting().map(|index| self.all[index].room()).max().unwrap_or(Room::Limited(NOTHING));
                format!("it takes {demand}, and no target has more room than {most}")
            }
        })
    }

    /// Why nothing can be placed anywhere.
    fn all_closed(&self) -> String {
        let first = self.all.iter().find_map(|target| Some((target, target.closed.as_ref()?)));
        first.map_or_else(String::new, |(target, reason)| {
            format!("no target can be used, for example {}: {reason}", called(target.object))
        })
    }
}

/// What room a target has. No limit is more than any limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    Limited(Quantity),
    Unlimited,
}

impl std::fmt::Display for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Limited(quantity) => write!(f, "{quantity}"),
            Self::Unlimited => f.write_str("any"),
        }
    }
}

impl<'r> Target<'r> {
    fn read(settings: &Schedule<'_>, object: &'r JsonObject) -> Self {
        let mut capacity = None;
        let mut closed = closed_because(settings, object);
        if let Some(field) = &settings.capacity_field {
            match quantity_at(field, object) {
                Ok(quantity) => capacity = Some(quantity.unwrap_or(NOTHING)),
                // One target that is wrong must not keep everything from being placed on the others.
                Err(problem) => closed = closed.or(Some(problem)),
            }
        }
        Self { object, capacity, used: NOTHING, objects: 0, closed }
    }

    fn suits(&self, settings: &Schedule<'_>, object: &JsonObject) -> bool {
        settings.same_labels.iter().all(|key| {
            let wanted = label(object, key);
            wanted.is_empty() || wanted == label(self.object, key)
        })
    }

    fn room(&self) -> Room {
        self.capacity.map_or(Room::Unlimited, |capacity| Room::Limited(capacity.minus(self.used)))
    }

    fn has_room(&self, demand: Quantity) -> bool {
        Room::Limited(demand) <= self.room()
    }

    /// What the output says of it.
    pub(super) fn to_output(&self) -> Value {
        let mut output =
            json!({"name": called(self.object), "objects": self.objects, "used": self.used.to_string()});
        if let Some(capacity) = self.capacity {
            output["capacity"] = capacity.to_string().into();
        }
        if let Some(reason) = &self.closed {
            output["closed"] = reason.as_str().into();
        }
        output
    }
}

fn closed_because(settings: &Schedule<'_>, target: &JsonObject) -> Option<String> {
    match () {
        () if is_being_deleted(target) => Some("it is being deleted".to_owned()),
        () if is_paused(target) => Some("it is paused".to_owned()),
        () => unhealthy_because(target, &settings.healthy_conditions),
    }
}

/// What an object takes of the capacity of its target.
pub(super) fn demand_of(settings: &Schedule<'_>, object: &JsonObject) -> Result<Quantity, String> {
    let Some(field) = &settings.demand_field else { return Ok(ONE) };
    let demand = quantity_at(field, object)?.unwrap_or(ONE);
    if demand.sign() < 0 { Err(format!("{} is negative", field.text())) } else { Ok(demand) }
}

/// The number or quantity at a field. None if there is none.
fn quantity_at(field: &Path, object: &JsonObject) -> Result<Option<Quantity>, String> {
    let value = match field.get(object) {
        Ok(Value::Null) => return Ok(None),
        Ok(value) => value,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let problem = || format!("{} is not a quantity", field.text());
    match value {
        Value::Number(number) => match integer(number) {
            Some(number) => Ok(Some(Quantity::from_integer(number, Notation::Decimal))),
            None => Quantity::parse(&number.to_string()).map(Some).map_err(|_| problem()),
        },
        Value::String(text) => Quantity::parse(text).map(Some).map_err(|_| problem()),
        _ => Err(problem()),
    }
}

fn label<'o>(object: &'o JsonObject, key: &str) -> &'o str {
    text(object, &["metadata", "labels", key])
}

/// The labels that an object shares with its target.
fn shared_labels(settings: &Schedule<'_>, object: &JsonObject) -> String {
    let labels = settings.same_labels.iter().map(|key| (key, label(object, key)));
    let labels = labels.filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}={value}"));
    format!("the labels {}", labels.collect::<Vec<_>>().join(", "))
}
