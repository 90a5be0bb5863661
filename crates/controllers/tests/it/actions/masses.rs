//! Many ActionSets that wait at once. `cargo xtask masses` has ten thousand of them.

use ferroplane_apiserver::store::Store;
use ferroplane_testkit::plane::Plane;
use futures_util::{StreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

use super::{ACTION_SETS, BLUEPRINTS, action_set, blueprint, set_gate, wait};
use crate::masses::{count, until};

/// How many are in a state.
fn in_state(store: &Store, state: &str) -> usize {
    let snapshot = store.snapshot(&store.collection("cr.kanister.io/actionsets"));
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    snapshot.range(None, None).filter(|it| read(it.bytes())["status"]["state"] == state).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_action_sets_that_wait_for_one_object_rest_until_it_changes() {
    let (count, plane) = (count(), Plane::new().await);
    let Some(store) = plane.store().cloned() else { return };
    set_gate(&plane, "no").await;
    let action = json!({"phases": [wait("gate", "1h")]});
    plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint("b", &action)).await;
    let plane = &plane;
    let creations = (0..count).map(|number| async move {
        let set = action_set(&format!("s{number}"), &json!({}));
        let (code, answer) = plane.send(Method::POST, ACTION_SETS, "application/json", &set).await;
        assert_eq!(code, 201, "{answer}");
    });
    stream::iter(creations).buffer_unordered(64).collect::<()>().await;
    until(&store, "ActionSets that wait", || in_state(&store, "running"), count).await;
    plane.quiet().await;
    assert_eq!(plane.quiet().await, [""; 0], "waiting writes nothing");

    set_gate(plane, "yes").await;
    until(&store, "ActionSets that are complete", || in_state(&store, "complete"), count).await;
}
