//! ActionSets whose results do not fit into one object.

use ferroplane_testkit::FunctionServer;
use ferroplane_testkit::plane::Plane;
use serde_json::{Value, json};

use super::{ACTION_SETS, MAPS, action_set, create, message, phase, run, serve_at, until_state};

/// A phase with an output that nearly is as large as it may be.
fn verbose(name: &str) -> Value {
    phase("function-verbose", name, &json!({}))
}

async fn plane() -> (Plane, FunctionServer) {
    let server = FunctionServer::start(|_| {
        let response = json!({"output": {"text": "x".repeat(60_000)}});
        Ok(ferroplane_wire::from_json(&response).expect("a response"))
    })
    .await;
    let plane = Plane::new().await;
    serve_at(&plane, "function-verbose", &server.address()).await;
    (plane, server)
}

#[tokio::test]
async fn phase_whose_output_has_no_room_in_the_status_fails_and_the_defer_phase_runs() {
    let (plane, server) = plane().await;
    let phases: Vec<_> = (0..20).map(|number| verbose(&format!("p{number}"))).collect();
    let action = json!({"phases": phases, "deferPhase": create("end", "ended")});
    let failed = run(&plane, &action, &json!({}), "failed").await;
    assert!(message(&failed).contains("the status of the ActionSet has room for"), "{}", message(&failed));
    assert_eq!(failed["status"]["errors"][0]["code"], "PhaseFailed");
    assert_ne!(plane.get(&format!("{MAPS}/ended")).await, Value::Null);
    assert!(server.calls() < 20, "later phases do not begin");
}

#[tokio::test]
async fn action_set_whose_status_the_api_server_does_not_store_fails_once() {
    let (plane, server) = plane().await;
    // Options and outputs fit, and both together do not.
    let phases: Vec<_> = (0..16).map(|number| verbose(&format!("p{number}"))).collect();
    let options = json!({"filler": "x".repeat(900 << 10)});
    let failed = run(&plane, &json!({"phases": phases}), &json!({"options": options}), "failed").await;
    assert!(message(&failed).contains("does not store the status"), "{}", message(&failed));
    assert_eq!(failed["status"]["actions"][0]["phases"][0]["state"], "complete");
    assert_eq!(failed["status"]["actions"][0]["phases"][0].get("output"), None);
    plane.until_said("s", "does not store the status").await;
    let calls = server.calls();
    plane.quiet().await;
    assert_eq!(server.calls(), calls, "it is not tried again");
    // Others go on.
    plane.apply(&format!("{ACTION_SETS}/small"), &action_set("small", &json!({}))).await;
    until_state(&plane, "small", "complete").await;
}
