//! What is recorded of ActionSets, and what a replay says.

use ferroplane_functions::Library;
use ferroplane_recorder::{Recording, ReplayedCall};
use ferroplane_testkit::plane::Plane;
use serde_json::json;

use super::{ACTION_SETS, MAPS, SECRETS, action_set, create, phase, run, set_gate, until_state, wait};

/// All recordings of ActionSets, oldest first.
fn recorded(plane: &Plane) -> Vec<Recording> {
    let archive = plane.recordings();
    let heads = archive.heads().unwrap();
    let ids = heads.iter().filter(|head| head.is_action_set()).map(|head| head.id);
    ids.map(|id| archive.get(id).unwrap().unwrap().unwrap()).collect()
}

/// Every call decides the same again. Returns them as `phase/function version`.
fn replayed(recordings: &[Recording]) -> Vec<String> {
    let library = Library::built_in().unwrap();
    let calls = recordings.iter().flat_map(|recording| &recording.phase_calls);
    let replay = |call: &ferroplane_recorder::RecordedCall| {
        let function = library.phase_function(&call.function, &call.version.parse().unwrap()).unwrap();
        assert_eq!(call.replay(&**function), ReplayedCall::Same, "{call:?}");
        format!("{}/{} {}", call.phase, call.function, call.version)
    };
    calls.map(replay).collect()
}

#[tokio::test]
async fn action_set_is_recorded_and_each_call_decides_the_same_again() {
    let plane = Plane::new().await;
    let mut pinned = create("second", "two");
    pinned["funcVersion"] = "v0.0.0".into();
    let action = json!({"phases": [create("first", "{{ .Options.map }}"), pinned]});
    run(&plane, &action, &json!({"options": {"map": "one"}}), "complete").await;
    plane.quiet().await;
    let recordings = recorded(&plane);
    let last = recordings.last().expect("it is recorded");
    assert!(last.head.is_ready && last.is_written, "{:?}", last.head);
    assert_eq!((last.head.composition.as_str(), last.head.revision.as_str()), ("b", "backup"));
    assert_eq!(last.settlement["status"]["state"], "complete");
    assert_ne!(last.action_set["status"]["state"], "complete");
    let mut calls = replayed(&recordings);
    // What was rendered is what the function was given, and what it wanted done is data.
    let first = &recordings[0].phase_calls[0];
    assert!(first.input["arguments"]["spec"].as_str().unwrap().contains("\"one\""), "{first:?}");
    assert_eq!(first.decided["perform"]["requests"][0]["create"]["object"]["metadata"]["name"], "one");
    calls.dedup();
    assert_eq!(calls, ["first/KubeOps v0.1.0", "second/KubeOps v0.0.0"]);
}

#[tokio::test]
async fn action_set_that_waits_leaves_no_recording_until_something_changes() {
    let plane = Plane::new().await;
    set_gate(&plane, "no").await;
    run(&plane, &json!({"phases": [wait("gate", "1h")]}), &json!({}), "running").await;
    plane.quiet().await;
    let before = recorded(&plane).len();
    assert!(before > 0);
    for answer in ["not-yet", "nearly", "no"] {
        set_gate(&plane, answer).await;
        plane.quiet().await;
    }
    assert_eq!(recorded(&plane).len(), before);
    set_gate(&plane, "yes").await;
    until_state(&plane, "s", "complete").await;
    plane.quiet().await;
    let recordings = recorded(&plane);
    assert!(recordings.len() > before);
    assert!(replayed(&recordings).contains(&"gate/WaitV2 v2.0.0".to_owned()));
}

#[tokio::test]
async fn no_secret_is_in_a_recording_whatever_a_template_makes_of_it() {
    let plane = Plane::new().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "stringData": {"password": "planted-in-a-secret", "pin": "p1n"},
    });
    plane.apply(&format!("{SECRETS}/login"), &secret).await;
    let data = ".Phases.copy.Secrets.login.Data";
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copied"},
        "data": {
            "plain": format!("{{{{ {data}.password | toString }}}}"),
            "loud": format!("{{{{ {data}.password | toString | upper }}}}"),
            "short": format!("{{{{ {data}.pin | toString }}}}"),
        },
    });
    let mut copy = phase("KubeOps", "copy", &json!({"operation": "create", "spec": map.to_string()}));
    copy["objects"] = json!({"login": {"kind": "Secret", "name": "login", "namespace": "default"}});
    run(&plane, &json!({"phases": [copy]}), &json!({}), "complete").await;
    let copied = plane.get(&format!("{MAPS}/copied")).await;
    assert_eq!(
        (&copied["data"]["loud"], &copied["data"]["short"]),
        (&json!("PLANTED-IN-A-SECRET"), &json!("p1n"))
    );
    plane.quiet().await;
    let recordings = recorded(&plane);
    assert!(
        recordings.iter().any(|recording| !recording.phase_calls.is_empty() && recording.head.is_redacted)
    );
    let shown = format!("{recordings:?}");
    for planted in ["planted-in", "PLANTED-IN", "cGxhbnRlZC1pbi1hLXNlY3JldA", "p1n"] {
        assert!(!shown.contains(planted), "{planted} in {shown}");
        let file = plane.recordings().export_all().unwrap();
        assert!(!file.windows(planted.len()).any(|bytes| bytes == planted.as_bytes()), "{planted}");
    }
}

#[tokio::test]
async fn action_set_that_fails_is_recorded_with_the_phase_that_failed() {
    let plane = Plane::new().await;
    let existing =
        phase("KubeOps", "again", &json!({"operation": "create", "spec": super::config_map("one")}));
    let action = json!({"phases": [create("first", "one"), existing]});
    run(&plane, &action, &json!({}), "failed").await;
    plane.quiet().await;
    let recordings = recorded(&plane);
    let last = &recordings.last().unwrap().head;
    assert_eq!(
        (last.step.as_str(), last.ending(), last.is_ready),
        ("again", ferroplane_recorder::Ending::Failed, false)
    );
    assert!(!last.trouble.is_empty());
    replayed(&recordings);
}

#[tokio::test]
async fn action_set_that_cannot_begin_is_recorded_without_calls() {
    let plane = Plane::new().await;
    plane.apply(&format!("{ACTION_SETS}/s"), &action_set("s", &json!({"blueprint": "none"}))).await;
    until_state(&plane, "s", "failed").await;
    plane.quiet().await;
    let recordings = recorded(&plane);
    assert_eq!((recordings.len(), recordings[0].phase_calls.len()), (1, 0));
    assert!(recordings[0].head.trouble.contains("there is no Blueprint"), "{:?}", recordings[0].head);
}
