//! What is seen of a run, in a form in which two runs that did the same are equal.
//!
//! * Composed resources are a map by the name the composition gives them; deleted ones are a sorted list.
//! * Required resources and schemas are sorted lists: what was looked up, as often as it was looked up.
//! * Events are in order, except that Crossplane visits composed resources in any order: a row of events of
//!   which each is about another composed resource is sorted.
//! * Times that lie in the past of every case are kept, later ones are `now`. Request tags are left out.

use ferroplane_wire::Struct;
use ferroplane_wire::render::{CompositeOutput, Event};
use serde_json::{Map, Value, json};

use crate::engine::Run;

/// All that is seen of a run.
pub(crate) fn seen(run: &Run) -> Value {
    let mut seen = json!({"verdict": format!("{:?}", run.verdict), "requests": run.requests});
    for request in seen["requests"].as_array_mut().into_iter().flatten() {
        request["meta"]["tag"] = "tag".into();
    }
    if let Some(output) = &run.output {
        seen["output"] = seen_output(output);
    }
    forget_times(&mut seen);
    seen
}

fn seen_output(output: &CompositeOutput) -> Value {
    json!({
        "compositeResource": output.composite_resource.as_ref().map(object),
        "composedResources": composed(&output.composed_resources),
        "deletedResources": sorted(&output.deleted_resources),
        "events": events(&output.events),
        "requiredResources": sorted(&output.required_resources),
        "requiredSchemas": sorted(&output.required_schemas),
    })
}

pub(crate) fn object(object: &Struct) -> Value {
    object.json().map_or_else(|error| error.to_string().into(), |object| Value::Object(object.clone()))
}

fn composed(resources: &[Struct]) -> Value {
    let mut composed = Map::new();
    for resource in resources.iter().map(object) {
        let name = &resource["metadata"]["annotations"]["crossplane.io/composition-resource-name"];
        let mut name = name.as_str().unwrap_or_default().to_owned();
        while composed.contains_key(&name) {
            name.push_str(" again");
        }
        composed.insert(name, resource);
    }
    Value::Object(composed)
}

pub(crate) fn sorted(objects: &[Struct]) -> Value {
    let mut objects: Vec<_> = objects.iter().map(object).collect();
    objects.sort_by_cached_key(Value::to_string);
    Value::Array(objects)
}

fn events(events: &[Event]) -> Value {
    let mut events: Vec<_> = events.iter().collect();
    for row in events.chunk_by_mut(|one, next| is_any_order(one) && is_any_order(next)) {
        row.sort_by(|one, other| (&one.reason, &one.message).cmp(&(&other.reason, &other.message)));
    }
    let events = events
        .into_iter()
        .map(|event| json!({"type": event.r#type, "reason": event.reason, "message": event.message}));
    events.collect()
}

/// Whether it is one of a row of events that Crossplane emits in any order.
fn is_any_order(event: &Event) -> bool {
    event.reason == "NamespaceOverridden"
        || (event.message.starts_with("Composed resource ") && event.message.ends_with(" is not yet ready"))
}

pub(crate) fn forget_times(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value.as_str() {
                    Some(time) if key == "lastTransitionTime" && !time.starts_with("2020-") => {
                        *value = "now".into();
                    }
                    _ => forget_times(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget_times),
        _ => {}
    }
}
