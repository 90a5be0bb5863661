//! The status of objects of CRDs, as Crossplane's providers write it. Performs no I/O.

use ferroplane_api::{Object, meta};
use serde_json::Value;

use super::status::{Draft, Phase, Says};

/// What the schema of a CRD lets a status say. What it does not have would be pruned, and would be missing forever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// None if it has no conditions.
    conditions: Option<ConditionShape>,
    /// Whether the status says which generation it is about.
    has_generation: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConditionShape {
    /// Whether each condition says which generation it is about.
    has_generation: bool,
    /// Whether one without a message is refused.
    needs_message: bool,
}

impl Shape {
    /// Of a version of a CRD.
    pub(super) fn of(version: &Value) -> Self {
        let schema = version.pointer("/schema/openAPIV3Schema");
        let Some(status) = find(schema, "status") else { return Self::default() };
        // Without a status subresource, writing a status makes a new generation, and there is no end to it.
        let has_generations = version.pointer("/subresources/status").is_some();
        let conditions = find(Some(status), "conditions").map(|conditions| {
            let item = conditions.get("items").unwrap_or(conditions);
            let required = item.get("required").and_then(Value::as_array);
            ConditionShape {
                has_generation: has_generations && find(Some(item), "observedGeneration").is_some(),
                needs_message: required.is_some_and(|fields| fields.contains(&"message".into())),
            }
        });
        let has_generation = has_generations && find(Some(status), "observedGeneration").is_some();
        Self { conditions, has_generation }
    }
}

/// The schema of a field. Of a field of something that takes any field, the schema of what it is in.
fn find<'a>(schema: Option<&'a Value>, field: &str) -> Option<&'a Value> {
    let schema = schema?;
    let takes_any = schema["x-kubernetes-preserve-unknown-fields"] == true;
    schema.get("properties").and_then(|properties| properties.get(field)).or(takes_any.then_some(schema))
}

/// What an object's provider would say of it.
pub(super) fn status(object: &Object, shape: Shape, phase: Phase<'_>, now: &str) -> Object {
    let mut draft = Draft::of(object, now);
    let generation = meta::generation(object);
    if let Some(ConditionShape { has_generation, needs_message }) = shape.conditions {
        for says in conditions(&draft, phase) {
            let mut more: Vec<(&str, Value)> = Vec::new();
            if has_generation {
                more.push(("observedGeneration", generation.into()));
            }
            if needs_message && says.message.is_empty() {
                more.push(("message", "".into()));
            }
            draft.condition(says, &more);
        }
    }
    if shape.has_generation {
        draft.set("observedGeneration", generation);
    }
    draft.fields
}

fn conditions<'a>(draft: &Draft<'_>, phase: Phase<'a>) -> [Says<'a>; 2] {
    match phase {
        Phase::Creating => [SYNCED, Says::new("Ready", false, "Creating", "")],
        Phase::Ready => [SYNCED, Says::new("Ready", true, "Available", "")],
        Phase::Failed(message) => {
            let was_made = draft.is_true("Ready") || draft.has_reason("Ready", "Unavailable");
            let reason = if was_made { "Unavailable" } else { "Creating" };
            let synced = Says::new("Synced", false, "ReconcileError", message);
            [synced, Says::new("Ready", false, reason, "")]
        }
    }
}

const SYNCED: Says<'static> = Says::new("Synced", true, "ReconcileSuccess", "");

/// Whether the simulation of the object has begun.
pub(super) fn is_begun(object: &Object, shape: Shape) -> bool {
    shape.conditions.is_none() || Draft::of(object, "").has_condition("Ready")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shape(status: &Value) -> Shape {
        let schema = json!({"type": "object", "properties": {"status": status}});
        Shape::of(&json!({"schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}))
    }

    fn conditions_of(item: &Value) -> Shape {
        shape(&json!({"type": "object", "properties": {"conditions": {"type": "array", "items": item}}}))
    }

    #[test]
    fn status_says_what_its_schema_has() {
        let full = conditions_of(&json!({"properties": {"observedGeneration": {}}, "required": ["message"]}));
        let conditions = ConditionShape { has_generation: true, needs_message: true };
        assert_eq!(full, Shape { conditions: Some(conditions), has_generation: false });
        let open = shape(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
        let conditions = ConditionShape { needs_message: false, ..conditions };
        assert_eq!(open, Shape { conditions: Some(conditions), has_generation: true });
        assert_eq!(shape(&json!({"type": "object"})), Shape::default());
        assert_eq!(Shape::of(&json!({})), Shape::default());
    }

    #[test]
    fn message_that_is_required_is_there() {
        let shape = conditions_of(&json!({"required": ["message"]}));
        let status = status(&Object::new(), shape, Phase::Failed("no quota"), "now");
        assert_eq!(status["conditions"][0]["message"], "no quota");
        assert_eq!(status["conditions"][1]["message"], "");
    }

    #[test]
    fn what_was_ready_and_fails_is_unavailable_and_stays_so() {
        let shape = conditions_of(&json!({}));
        let mut object = Object::new();
        for (phase, reason) in [
            (Phase::Failed("no quota"), "Creating"),
            (Phase::Ready, "Available"),
            (Phase::Failed("gone"), "Unavailable"),
            (Phase::Failed("gone"), "Unavailable"),
        ] {
            let status = status(&object, shape, phase, "now");
            assert_eq!(status["conditions"][1]["reason"], reason, "{phase:?}");
            object.insert("status".to_owned(), status.into());
        }
    }
}
