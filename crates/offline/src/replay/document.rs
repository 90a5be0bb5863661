//! Everything that was recorded of a reconcile, as a document.

use ferroplane_engine::{Answer, Said, Turn, Want, replay};
use ferroplane_recorder::{Recording, Take};
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, to_json};
use serde_json::{Value, json};

use super::{began_at, listing};
use crate::manifest::yaml;

/// Everything that was recorded of a reconcile, as YAML.
pub fn print(recording: &Recording) -> Result<String, yaml::PrintError> {
    let head = &recording.head;
    let subject = if head.is_operation() { "operation" } else { "compositeResource" };
    let document = json!({
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
    yaml::print(&document)
}

fn run(take: &Take) -> Value {
    let mut turns = Vec::new();
    let end = replay(take.inputs.clone(), take.notes.iter().cloned(), |turn, note| {
        turns.push(match turn {
            Turn::Call(call) => json!({
                "step": call.step(), "calls": call.callee(), "request": request(call.request()), "said": said(&note.said),
            }),
            Turn::Fetch(fetch) => json!({"read": read(fetch.wants(), &note.said)}),
            Turn::Done(_) => json!({"said": said(&note.said)}),
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

fn said(said: &Said) -> Value {
    let answered = |response: &RunFunctionResponse| to_json(response).unwrap_or_default();
    match said {
        Said::Answered(response) => json!({"answered": answered(response)}),
        Said::Recalled(response) => json!({"recalled": answered(response)}),
        Said::Failed { cause, reason } => json!({"failed": reason, "code": cause.code()}),
        Said::Provided(_) => Value::Null,
    }
}

fn read(wants: &[Want], said: &Said) -> Value {
    let Said::Provided(answers) = said else { return Value::Null };
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
