//! What a step says to `function-schedule`.

use ferroplane_wire::Struct;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fieldpath::Path;
use crate::fleet::{ObjectSelector, changed_field, invalid, read_field};
use crate::input;
use crate::selection::JsonObject;

/// What is placed where, and how.
#[derive(Debug)]
pub(super) struct Schedule<'a> {
    pub(super) objects: ObjectSelector<'a>,
    pub(super) targets: ObjectSelector<'a>,
    /// The field of an object that has the name of its target.
    pub(super) assignment_field: Path,
    /// The field that has the namespace of its target.
    pub(super) namespace_field: Option<Path>,
    /// The field of a target that has its capacity. Without it, there is no end of it.
    pub(super) capacity_field: Option<Path>,
    /// The field of an object that has what it takes. Without it, everything takes one.
    pub(super) demand_field: Option<Path>,
    /// Labels that have to be the same on both.
    pub(super) same_labels: Vec<&'a str>,
    pub(super) healthy_conditions: Vec<&'a str>,
    pub(super) strategy: Strategy,
}

/// Which of several targets that do is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// The one with the most room or, if capacity does not matter, with the fewest objects.
    Spread,
    /// The one with the least room.
    Pack,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Input<'a> {
    #[serde(rename = "apiVersion")]
    _api_version: Option<&'a str>,
    #[serde(rename = "kind")]
    _kind: Option<&'a str>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    #[serde(borrow, deserialize_with = "input::object")]
    objects: Option<ObjectSelector<'a>>,
    #[serde(borrow, deserialize_with = "input::object")]
    targets: Option<ObjectSelector<'a>>,
    assignment_field: Option<&'a str>,
    assignment_namespace_field: Option<&'a str>,
    capacity_field: Option<&'a str>,
    demand_field: Option<&'a str>,
    #[serde(borrow)]
    same_labels: Option<Vec<&'a str>>,
    #[serde(borrow)]
    healthy_conditions: Option<Vec<&'a str>>,
    strategy: Option<&'a str>,
}

impl<'a> Schedule<'a> {
    pub(super) fn read(input: Option<&'a Struct>) -> Result<Self, String> {
        let input: Input<'a> = input::whole(input)?;
        let objects = input.objects.ok_or_else(|| invalid("objects", "is required"))?;
        objects.check("objects")?;
        let targets = input.targets.ok_or_else(|| invalid("targets", "is required"))?;
        targets.check("targets")?;
        let read = |field: &str, text: Option<&str>| text.map(|text| read_field(field, text)).transpose();
        let namespace_field = input.assignment_namespace_field;
        Ok(Self {
            objects,
            targets,
            assignment_field: changed_field("assignmentField", input.assignment_field)?,
            namespace_field: namespace_field
                .map(|text| changed_field("assignmentNamespaceField", Some(text)))
                .transpose()?,
            capacity_field: read("capacityField", input.capacity_field)?,
            demand_field: read("demandField", input.demand_field)?,
            same_labels: input.same_labels.unwrap_or_default(),
            healthy_conditions: input.healthy_conditions.unwrap_or_default(),
            strategy: match input.strategy {
                None | Some("Spread") => Strategy::Spread,
                Some("Pack") => Strategy::Pack,
                Some(other) => {
                    return Err(invalid("strategy", &format!("{other:?} is none of Spread, Pack")));
                }
            },
        })
    }

    /// The name and the namespace of the target that an object has. None if it has none.
    pub(super) fn assignment<'r>(&self, object: &'r JsonObject) -> Option<(&'r str, Option<&'r str>)> {
        let name = self.assignment_field.get(object).ok()?.as_str().filter(|name| !name.is_empty())?;
        let namespace = self.namespace_field.as_ref().and_then(|field| field.get(object).ok()?.as_str());
        Some((name, namespace))
    }
}
