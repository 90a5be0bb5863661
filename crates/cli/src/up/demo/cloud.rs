//! A cloud that is none: what becomes of the objects of the demo, and how soon. Performs no I/O.

use std::time::Duration;

use ferroplane_api::{Condition, Object, Status, meta, set_condition};
use serde_json::{Value, json};

/// What the provider does about an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// It is as it should be, or nothing of ours.
    Rest,
    /// Say at once that it is being made.
    Begin(Object),
    /// Say this after a moment.
    Finish(Duration, Object),
}

/// What comes next for an object, at this time in RFC 3339.
pub(super) fn next(kind: &str, object: &Object, now: &str) -> Step {
    if meta::is_being_deleted(object) || meta::annotation(object, "crossplane.io/paused") == "true" {
        return Step::Rest;
    }
    let present = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let conditions = conditions(&present);
    if !conditions.iter().any(|condition| condition.kind == "Ready") {
        let creating = Condition::new("Ready", Status::False, "Creating");
        return Step::Begin(status(object, &present, conditions, creating, now));
    }
    let available = Condition::new("Ready", Status::True, "Available");
    let mut wanted = status(object, &present, conditions, available, now);
    wanted.insert("atProvider".to_owned(), made(kind, object));
    if wanted == present { Step::Rest } else { Step::Finish(moment(kind, object), wanted) }
}

fn conditions(status: &Object) -> Vec<Condition> {
    let conditions = status.get("conditions").cloned().unwrap_or_default();
    serde_json::from_value(conditions).unwrap_or_default()
}

fn status(
    object: &Object,
    present: &Object,
    mut conditions: Vec<Condition>,
    ready: Condition,
    now: &str,
) -> Object {
    let generation = meta::generation(object);
    for condition in [Condition::new("Synced", Status::True, "ReconcileSuccess"), ready] {
        let condition =
            Condition { last_transition_time: now.to_owned(), observed_generation: generation, ..condition };
        set_condition(&mut conditions, condition);
    }
    let mut status = present.clone();
    status.insert("observedGeneration".to_owned(), generation.into());
    status.insert("conditions".to_owned(), json!(conditions));
    status
}

/// What the cloud says of what it made.
fn made(kind: &str, object: &Object) -> Value {
    let spec = |field: &str| object.get("spec").and_then(|spec| spec.get("forProvider")?.get(field)).cloned();
    let text =
        |field: &str| spec(field).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    let (name, region) = (meta::name(object), text("region"));
    let short = meta::uid(object).split('-').next().unwrap_or_default();
    let id = format!("crn:demo:{region}:{kind}/{short}");
    let mut made = json!({"id": id, "region": region});
    match kind {
        "networks" => made["cidr"] = spec("cidr").unwrap_or_default(),
        "databases" => {
            made["endpoint"] = format!("{name}.{region}.db.demo:5432").into();
            made["storageGB"] = spec("storageGB").unwrap_or_default();
        }
        _ => made["url"] = format!("https://{name}-{short}.{region}.files.demo").into(),
    }
    // The API server would drop what says nothing.
    if let Value::Object(fields) = &mut made {
        fields.retain(|_, value| !value.is_null());
    }
    made
}

/// Some take longer than others, and the same object always as long.
fn moment(kind: &str, object: &Object) -> Duration {
    let shortest = match kind {
        "networks" => 60,
        "databases" => 120,
        _ => 40,
    };
    let mixed = meta::uid(object).bytes().fold(0_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 80);
    Duration::from_millis(shortest + mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(status: Option<Object>) -> Object {
        let mut object = json!({
            "apiVersion": "cloud.demo.ferroplane.io/v1", "kind": "Database",
            "metadata": {"name": "db", "uid": "0123abcd-1", "generation": 1},
            "spec": {"forProvider": {"region": "eu-north", "storageGB": 20}},
        });
        if let Some(status) = status {
            object["status"] = status.into();
        }
        object.as_object().cloned().unwrap_or_default()
    }

    fn settled() -> Object {
        let Step::Begin(creating) = next("databases", &database(None), "2026-01-01T00:00:00Z") else {
            panic!("a new database is begun at once");
        };
        let Step::Finish(_, ready) = next("databases", &database(Some(creating)), "2026-01-01T00:00:01Z")
        else {
            panic!("what was begun is finished");
        };
        database(Some(ready))
    }

    #[test]
    fn what_is_ready_rests() {
        let settled = settled();
        assert_eq!(settled["status"]["atProvider"]["endpoint"], "db.eu-north.db.demo:5432");
        assert_eq!(next("databases", &settled, "2026-01-01T00:00:09Z"), Step::Rest);
    }

    #[test]
    fn what_changes_stays_ready_while_it_is_changed() {
        let mut changed = settled();
        changed["spec"]["forProvider"]["storageGB"] = 500.into();
        changed["metadata"]["generation"] = 2.into();
        let Step::Finish(_, status) = next("databases", &changed, "2026-01-01T00:00:09Z") else {
            panic!("a change takes a moment");
        };
        assert_eq!(status["atProvider"]["storageGB"], 500);
        assert_eq!(status["observedGeneration"], 2);
    }

    #[test]
    fn what_is_paused_or_being_deleted_is_left_alone() {
        let mut paused = database(None);
        meta::set_annotation(&mut paused, "crossplane.io/paused", "true");
        assert_eq!(next("databases", &paused, ""), Step::Rest);
        let mut going = database(None);
        meta::set_field(&mut going, "deletionTimestamp", "2026-01-01T00:00:00Z");
        assert_eq!(next("databases", &going, ""), Step::Rest);
    }
}
