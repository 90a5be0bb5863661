//! Which step of a pipeline made a composed resource, as far as anybody can tell without having been there.

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

use crate::known_functions::known;
use crate::look::{at, revision_of};
use crate::snapshot::Snapshot;

/// The step whose input names the resource, or the only one that can have made it.
pub(crate) fn step_of<'a>(snapshot: &'a Snapshot, composite: &Object, composed: &Object) -> Option<&'a str> {
    let name = meta::annotation(composed, keys::RESOURCE_NAME);
    let steps = at(revision_of(snapshot, composite)?, &["spec", "pipeline"])?.as_array()?;
    let text = |step: &'a Value| step.get("step").and_then(Value::as_str);
    let names_it = |step: &&Value| {
        let resources = step.get("input").and_then(|input| input.get("resources")?.as_array());
        resources.into_iter().flatten().any(|resource| resource.get("name").is_some_and(|it| it == name))
    };
    if let Some(step) = steps.iter().find(names_it) {
        return text(step);
    }
    let makes_something = |step: &&Value| {
        let function = step.get("functionRef").and_then(|it| it.get("name")?.as_str()).unwrap_or_default();
        known(snapshot, function).is_none_or(|function| function.composes)
    };
    let mut composing = steps.iter().filter(makes_something);
    match (composing.next(), composing.next()) {
        (Some(only), None) => text(only),
        _ => None,
    }
}
