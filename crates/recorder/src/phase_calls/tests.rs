//! What is kept of an ActionSet, and what a replay of it says.

use ferroplane_engine::action::{Answer, Move, Phase, PhaseContract};
use serde_json::json;

use super::*;
use crate::{Archive, Ending, Recorder, Recording};

/// Puts its argument `text` out.
struct Echo;

impl PhaseFunction for Echo {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let text = phase.arguments.get("text").cloned().unwrap_or_default();
        Move::Done { output: Object::from_iter([("text".to_owned(), text)]) }
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract::default()
    }
}

fn object(value: Value) -> Object {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    object
}

fn action_set(state: &str) -> Object {
    object(json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": "backup", "namespace": "shop"},
        "status": {"state": state},
    }))
}

/// A call of Echo, as it would be noted.
fn call(text: &str, answers: Vec<Answer>) -> PhaseCall {
    let arguments = object(json!({"text": text}));
    PhaseCall {
        action: 0,
        phase: "echo".to_owned(),
        function: "Echo".to_owned(),
        version: "v0.1.0".to_owned(),
        input: PhaseInput { arguments, answers, ..PhaseInput::default() },
        decided: json!({"done": {"output": {"text": text}}}),
    }
}

fn notes(calls: Vec<PhaseCall>, secrets: &[&str]) -> PhaseNotes {
    PhaseNotes { calls, secrets: secrets.iter().map(|it| it.as_bytes().to_vec()).collect() }
}

/// What is kept of these notes, if the status was written.
fn kept(notes: PhaseNotes, is_written: bool) -> Archive {
    let recorder = Recorder::in_step(16 << 20, [7; 32]);
    let mut recording = recorder.begin(&action_set("running"), 1);
    recording.called(notes);
    if is_written {
        recording.changes(&action_set("running"));
        recording.wrote();
    }
    let status =
        object(json!({"state": "complete", "conditions": [{"type": "Succeeded", "status": "True"}]}));
    recording.conclude(&status, &[]);
    recording.end(Ending::Succeeded, 1);
    recorder.keep(recording);
    recorder.archive()
}

fn only(archive: &Archive) -> Recording {
    archive.get(1).unwrap().expect("it is kept").unwrap()
}

#[test]
fn call_is_kept_with_its_decision_and_replayed() {
    let recording = only(&kept(notes(vec![call("hello", Vec::new())], &[]), true));
    assert!(recording.head.is_action_set() && recording.head.is_ready && !recording.head.is_redacted);
    assert_eq!((recording.head.calls, recording.takes.len()), (1, 0));
    assert_eq!(recording.action_set["status"]["state"], "running");
    assert_eq!(recording.settlement["status"]["state"], "complete");
    let call = &recording.phase_calls[0];
    assert_eq!(
        (call.phase.as_str(), call.function.as_str(), call.version.as_str()),
        ("echo", "Echo", "v0.1.0")
    );
    assert_eq!(call.replay(&Echo), ReplayedCall::Same);
    let mut other = call.clone();
    other.input["arguments"]["text"] = "bye".into();
    assert_eq!(other.replay(&Echo), ReplayedCall::Differs(json!({"done": {"output": {"text": "bye"}}})));
}

#[test]
fn action_set_that_only_looked_leaves_nothing() {
    let archive = kept(notes(vec![call("hello", Vec::new())], &[]), false);
    assert!(archive.heads().unwrap().is_empty());
}

#[test]
fn no_form_of_a_secret_is_kept() {
    // As a whole, as a part, in base64 without padding, by lines, short, and in the name of a field.
    let texts = [
        "planted-1",
        "login -p planted-1 now",
        "cGxhbnRlZC0x",
        "b planted-line",
        "pin",
        "planted-1\nplanted-line",
    ];
    let mut calls: Vec<_> = texts.iter().map(|text| call(text, Vec::new())).collect();
    calls[0].input.arguments.insert("planted-1".to_owned(), 1.into());
    let secret = object(json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "cGxhbnRlZC0yMg=="}}));
    let answer = Answer::Object { object: secret, resource: "secrets".to_owned() };
    calls.push(call("planted-22", vec![answer]));
    let archive = kept(notes(calls, &["planted-1", "planted-1\nplanted-line\n", "pin"]), true);
    let recording = only(&archive);
    assert!(recording.head.is_redacted);
    let shown = format!("{recording:?}");
    for secret in ["planted", "cGxhbnRlZC", "\"pin\""] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    for file in [archive.export_all().unwrap(), archive.export(1).unwrap().unwrap()] {
        assert!(!file.windows(7).any(|bytes| bytes == b"planted"), "in the file");
    }
    // What is left is enough for a function that only passes it on.
    for call in &recording.phase_calls {
        assert!(call.is_redacted, "{call:?}");
        assert_eq!(call.replay(&Echo), ReplayedCall::Same, "{call:?}");
    }
}

#[test]
fn difference_that_a_secret_may_have_made_is_not_reported_as_one() {
    let mut call = call("planted-1", Vec::new());
    call.decided = json!({"done": {"output": {"length": 9}}});
    let recording = only(&kept(notes(vec![call], &["planted-1"]), true));
    assert_eq!(recording.phase_calls[0].replay(&Echo), ReplayedCall::Inexact);
}

#[test]
fn call_that_is_too_large_is_kept_by_name_only() {
    let calls = vec![call(&"x".repeat(LARGEST_CALL), Vec::new()), call("small", Vec::new())];
    let recording = only(&kept(notes(calls, &[]), true));
    assert!(recording.phase_calls[0].is_cut() && !recording.phase_calls[1].is_cut());
    assert_eq!(recording.phase_calls[0].replay(&Echo), ReplayedCall::Incomplete);
    assert_eq!(recording.phase_calls[1].replay(&Echo), ReplayedCall::Same);
}

#[test]
fn exported_recording_has_all_that_it_refers_to() {
    let archive = kept(notes(vec![call("hello", Vec::new())], &[]), true);
    let exported = Archive::of(vec![archive.export(1).unwrap().unwrap()]);
    let recording = only(&exported);
    assert_eq!(recording.action_set["metadata"]["name"], "backup");
    assert_eq!(recording.phase_calls[0].replay(&Echo), ReplayedCall::Same);
}

#[test]
fn fields_that_definitions_call_secret_are_redacted_as_soon_as_they_are_defined() {
    let recorder = Recorder::in_step(16 << 20, [7; 32]);
    let target = object(
        json!({"apiVersion": "example.org/v1", "kind": "Vault", "metadata": {"name": "v"}, "spec": {"pin": "4711"}}),
    );
    let record = || {
        let mut recording = recorder.begin(&action_set("running"), 1);
        let mut call = call("hello", Vec::new());
        call.input.data.insert("Object".to_owned(), target.clone().into());
        recording.called(notes(vec![call], &[]));
        recording.wrote();
        recorder.keep(recording);
    };
    record();
    let definition = json!({
        "metadata": {"annotations": {"ferroplane.io/sensitive-fields": "spec.pin"}},
        "spec": {"group": "example.org", "names": {"kind": "Vault"}},
    });
    recorder.define(definition.as_object().unwrap());
    record();
    let archive = recorder.archive();
    let pins = [1, 2].map(|id| {
        let recording = archive.get(id).unwrap().expect("it is kept").unwrap();
        recording.phase_calls[0].input["data"]["Object"]["spec"]["pin"].clone()
    });
    assert_eq!(pins[0], "4711");
    assert!(pins[1].as_str().unwrap().starts_with("redacted-"), "{pins:?}");
}
