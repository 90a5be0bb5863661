//! What users write to the status of an ActionSet, which has no subresource that could keep them from it.

use ferroplane_testkit::plane::Plane;
use serde_json::{Value, json};

use super::{ACTION_SETS, BLUEPRINTS, MAPS, action_set, blueprint, create, message, run, until_state};

/// An ActionSet that a user has created with the status of another one, as if it had just begun.
async fn apply_with_status(plane: &Plane, name: &str, of: &Value, forge: impl FnOnce(&mut Value)) {
    let mut forged = action_set(name, &json!({}));
    let mut action = of["status"]["actions"][0].clone();
    let phase = &mut action["phases"][0];
    for field in ["output", "startedAt", "endedAt", "progress"] {
        phase.as_object_mut().unwrap().remove(field);
    }
    phase["state"] = "pending".into();
    forge(&mut action);
    forged["status"] = json!({"state": "running", "actions": [action], "progress": {}});
    plane.apply(&format!("{ACTION_SETS}/{name}"), &forged).await;
}

#[tokio::test]
async fn only_what_spec_and_blueprint_name_is_run() {
    let plane = Plane::new().await;
    let other = json!({"phases": [create("take", "taken")]});
    plane.apply(&format!("{BLUEPRINTS}/other"), &blueprint("other", &other)).await;
    let begun = action_set("honest", &json!({"blueprint": "other"}));
    plane.apply(&format!("{ACTION_SETS}/honest"), &begun).await;
    let of_other = until_state(&plane, "honest", "complete").await;
    plane.delete(&format!("{MAPS}/taken")).await;
    let done = run(&plane, &json!({"phases": [create("make", "made")]}), &json!({}), "complete").await;
    plane.delete(&format!("{MAPS}/made")).await;

    let function = |action: &mut Value| action["phases"][0]["function"]["name"] = "ScaleWorkload".into();
    apply_with_status(&plane, "function", &done, function).await;
    let failed = until_state(&plane, "function", "failed").await;
    assert!(message(&failed).ends_with("its Blueprint names `KubeOps`"), "{}", message(&failed));
    assert_eq!(failed["status"]["errors"][0]["code"], "FunctionVersionInvalid");

    apply_with_status(&plane, "blueprint", &of_other, |_| ()).await;
    let failed = until_state(&plane, "blueprint", "failed").await;
    let why = "is not the one that the spec of the ActionSet names";
    assert!(message(&failed).contains(why), "{}", message(&failed));
    for map in ["taken", "made"] {
        assert_eq!(plane.get(&format!("{MAPS}/{map}")).await, Value::Null, "{map}");
    }

    // The same status without what was forged is that of an ActionSet that a restart has interrupted.
    apply_with_status(&plane, "interrupted", &done, |_| ()).await;
    until_state(&plane, "interrupted", "complete").await;
    assert_ne!(plane.get(&format!("{MAPS}/made")).await, Value::Null);
}
