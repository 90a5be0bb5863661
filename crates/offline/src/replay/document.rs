//! Everything that was recorded of a reconcile, as a document.

use ferroplane_engine::{Answer, EngineInput, Turn, Want, replay};
use ferroplane_recorder::{RecordedCall, RecordedRun, Recording};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, to_json};
use serde_json::{Value, json};

use super::{began_at, listing};
use crate::manifest::yaml;

/// Everything that was recorded of a reconcile, as YAML.
pub fn print(recording: &Recording) -> Result<String, yaml::PrintError> {
    let head = &recording.head;
    let subject = match (head.is_operation(), head.is_action_set()) {
        (true, _) => "operation",
        (_, true) => "actionSet",
        _ => "compositeResource",
    };
    let mut document = json!({
        "recording": {
            "id": head.id, "began": began_at(head).to_string(), "microseconds": head.micros,
            "release": head.release, "isRedacted": head.is_redacted,
        },
        subject: {
            "apiVersion": head.api_version, "kind": head.kind, "namespace": head.namespace, "name": head.name,
            "uid": head.uid, "generation": head.generation, "resourceVersion": head.resource_version,
        },
        "follows": {"composition": head.composition, "revision": head.revision},
        "cameTo": listing::came_to(head), "trouble": head.trouble, "step": head.step,
        "runs": recording.takes.iter().map(run).collect::<Value>(),
        "settled": recording.settlement, "statusWritten": recording.is_written,
    });
    if head.is_action_set() {
        describe_action_set(recording, &mut document);
    }
    yaml::print(&document)
}

/// An ActionSet follows a Blueprint, and has phases in place of a pipeline.
fn describe_action_set(recording: &Recording, document: &mut Value) {
    let head = &recording.head;
    document["follows"] = json!({"blueprint": head.composition, "action": head.revision});
    document["calls"] = recording.phase_calls.iter().map(phase_call).collect();
    document["before"] = recording.action_set.clone();
    if let Some(document) = document.as_object_mut() {
        document.remove("runs");
    }
}

fn phase_call(call: &RecordedCall) -> Value {
    json!({
        "action": call.action, "phase": call.phase, "function": call.function, "version": call.version,
        "isRedacted": call.is_redacted, "isTooLarge": call.is_cut(), "input": call.input, "decided": call.decided,
    })
}

fn run(take: &RecordedRun) -> Value {
    let mut turns = Vec::new();
    let end = replay(take.inputs.clone(), take.notes.iter().cloned(), |turn, note| {
        turns.push(match turn {
            Turn::Call(call) => json!({
                "step": call.step(), "calls": call.callee(), "request": request(call.request()), "said": said(&note.input),
            }),
            Turn::Fetch(fetch) => json!({"read": read(fetch.wants(), &note.input)}),
            Turn::Done(_) => json!({"said": said(&note.input)}),
        });
    });
    let inputs = &take.inputs;
    let subject = if inputs.subject.composite().is_some() { "compositeResource" } else { "operation" };
    let observed =
        inputs.subject.observed().iter().map(|(name, observed)| (name.clone(), object(&observed.object)));
    json!({
        "pipeline": inputs.pipeline.written_steps(), "calls": inputs.pipeline.written_callees(),
        subject: object(inputs.subject.object()),
        "observed": observed.collect::<serde_json::Map<_, _>>(), "grants": inputs.grants.to_json(),
        "turns": turns, "astray": end.err().map(|astray| astray.to_string()),
        "outcome": serde_json::from_slice::<Value>(&take.outcome).unwrap_or_default(),
        "written": take.written, "unsynced": take.unsynced, "onlyTried": take.is_trial,
    })
}

/// What is observed is the same for all: it is shown once.
fn request(request: &RunFunctionRequest) -> Value {
    let without = RunFunctionRequest { observed: None, ..request.clone() };
    to_json(&without).unwrap_or_default()
}

fn said(said: &EngineInput) -> Value {
    let answered = |response: &RunFunctionResponse| to_json(response).unwrap_or_default();
    match said {
        EngineInput::Answered(response) => json!({"answered": answered(response)}),
        EngineInput::Recalled(response) => json!({"recalled": answered(response)}),
        EngineInput::Failed { cause, reason } => json!({"failed": reason, "code": cause.code()}),
        EngineInput::Provided(_) => Value::Null,
    }
}

fn read(wants: &[Want], said: &EngineInput) -> Value {
    let EngineInput::Provided(answers) = said else { return Value::Null };
    wants
        .iter()
        .zip(answers)
        .map(|(want, answer)| json!({"want": wanted(want), "found": found(answer)}))
        .collect()
}

fn wanted(want: &Want) -> Value {
    match want {
        Want::Resources(selector) | Want::ClusterResources(selector) => to_json(selector).unwrap_or_default(),
        Want::Schema(selector) => {
            json!({"schemaOf": {"apiVersion": selector.api_version, "kind": selector.kind}})
        }
        Want::Secret { namespace, name } => json!({"secret": {"namespace": namespace, "name": name}}),
        Want::Scope { api_version, kind } => json!({"scopeOf": {"apiVersion": api_version, "kind": kind}}),
    }
}

fn found(answer: &Answer) -> Value {
    match answer {
        Answer::Resources(objects) => objects.iter().map(object).collect(),
        Answer::Schema(schema) => schema.as_ref().map(object).unwrap_or_default(),
        Answer::Secret(data) => {
            let text = |(key, value): (&String, &bytes::Bytes)| {
                (key.clone(), Value::from(String::from_utf8_lossy(value).into_owned()))
            };
            data.as_ref().map(|data| Value::Object(data.iter().map(text).collect())).unwrap_or_default()
        }
        Answer::Scope { is_namespaced } => json!({"isNamespaced": is_namespaced}),
        Answer::Failed(reason) => json!({"failed": reason}),
    }
}

fn object(object: &Struct) -> Value {
    object.json().cloned().map(Value::Object).unwrap_or_default()
}
