//! Patches an object.
//!
//! Strategic and merge patches say what shall be, so that making them twice is making them once. A JSON patch says what to do, and must be
//! made once: it carries the version of the object that it is for.

use ferroplane_api::meta;
use ferroplane_engine::action::{Address, Answer, Move, Patch, Phase, Request};
use ferroplane_golang::yaml::Documents;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{KubeOps, MANAGER, reference, unknown};
use crate::phases::arguments::Arguments;
use crate::phases::moves::{Failure, NextMove, checkpoint, describe, perform};

pub(super) const TYPES: &[&str] = &["strategic", "merge", "json"];
/// How often a JSON patch is tried anew because another user changed the object meanwhile.
const MOST_TRIES: u32 = 10;
/// What an API server says that knows no strategic merge for a kind.
const UNSUPPORTED_MEDIA_TYPE: u16 = 415;
/// Kanister's message about a JSON patch with an operation that does not apply.
const NOT_APPLICABLE: u16 = 422;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Patching {
    /// As one of the types that can be made twice.
    Patch { merges: bool },
    /// The object is read, to know which version of it is patched, and whether it is another one than that for which the patch was refused.
    #[serde(rename_all = "camelCase")]
    Look { tries: u32, refused_for: Option<String> },
    #[serde(rename_all = "camelCase")]
    Json { tries: u32, resource_version: String },
    /// After a crash: whether the patch was made is found out.
    #[serde(rename_all = "camelCase")]
    Verify { tries: u32, resource_version: String },
}

pub(super) fn patch(phase: &Phase<'_>, target: &Address, version: KubeOps) -> NextMove {
    let kind = match version {
        KubeOps::V0_0 => Some("strategic"),
        KubeOps::V0_1 => Arguments(phase.arguments).optional_text("patchType")?,
    };
    if let Some(kind) = kind
        && !TYPES.contains(&kind)
    {
        return Err(unknown("patchType", kind, TYPES));
    }
    let body = body(phase)?;
    if kind == Some("json") { json(phase, target, body) } else { merge(phase, target, body, kind) }
}

fn body(phase: &Phase<'_>) -> Result<Value, Failure> {
    let text = Arguments(phase.arguments).document("spec")?;
    let mut documents = Documents::new(&text);
    match (documents.next(), documents.next()) {
        (Some(Ok(document)), None) => Ok(document.value),
        (Some(Err(error)), _) => {
            Err(Failure::argument("spec", format!("it is not valid YAML: {}", error.message)))
        }
        _ => Err(Failure::argument("spec", "it should be one patch")),
    }
}

fn merge(phase: &Phase<'_>, target: &Address, body: Value, kind: Option<&str>) -> NextMove {
    if !body.is_object() {
        return Err(Failure::argument("spec", "the patch is not a map"));
    }
    let state = checkpoint(phase)?.unwrap_or(Patching::Patch { merges: kind == Some("merge") });
    let Patching::Patch { merges } = state else { return Err(other_step()) };
    match phase.answers {
        [] => Ok(send(target, body, merges)),
        [Answer::Refused(refused)] if refused.code == UNSUPPORTED_MEDIA_TYPE && kind.is_none() && !merges => {
            // Custom resources have no strategic merge. Who does not say which type means one that works.
            Ok(send(target, body, true))
        }
        answers => finish(target, answers),
    }
}

fn send(target: &Address, body: Value, merges: bool) -> Move {
    let patch = if merges { Patch::Merge(body) } else { Patch::Strategic(body) };
    let field_manager = MANAGER.to_owned();
    perform(
        &Patching::Patch { merges },
        vec![Request::Patch { target: target.clone(), patch, field_manager }],
    )
}

fn json(phase: &Phase<'_>, target: &Address, body: Value) -> NextMove {
    let Value::Array(operations) = body else {
        return Err(Failure::argument("spec", "a JSON patch is a list of operations"));
    };
    let look = |tries, refused_for| {
        perform(&Patching::Look { tries, refused_for }, vec![Request::Get(target.clone())])
    };
    let send = |tries, resource_version| send_json(target, &operations, tries, resource_version);
    match (checkpoint(phase)?, phase.answers) {
        (None, _) => Ok(look(0, None)),
        (Some(Patching::Look { tries, refused_for }), []) => Ok(look(tries, refused_for)),
        (Some(Patching::Look { tries, refused_for }), [Answer::Object { object, .. }]) => {
            let resource_version = meta::resource_version(object).to_owned();
            if refused_for.as_ref() == Some(&resource_version) {
                let what = describe(target);
                return Err(Failure::new(format!(
                    "cannot patch {what}: an operation of the patch does not apply to it"
                )));
            }
            Ok(send(tries, resource_version))
        }
        (
            Some(Patching::Json { tries, resource_version } | Patching::Verify { tries, resource_version }),
            [],
        ) => Ok(perform(&Patching::Verify { tries, resource_version }, vec![Request::Get(target.clone())])),
        (Some(Patching::Verify { tries, resource_version }), [Answer::Object { object, .. }]) => {
            if meta::resource_version(object) == resource_version {
                return Ok(send(tries, resource_version));
            }
            Err(Failure::interrupted(format!(
                "the control plane stopped while it patched {}, which has changed since: whether by this patch is not known",
                describe(target)
            )))
        }
        // An API server does not say which operation does not apply: the one that tests the version, or one of the user's.
        (Some(Patching::Json { tries, resource_version }), [Answer::Refused(refused)])
            if tries + 1 < MOST_TRIES && (refused.is_conflict() || refused.code == NOT_APPLICABLE) =>
        {
            let is_conflict = refused.is_conflict();
            Ok(look(tries + 1, (!is_conflict).then_some(resource_version)))
        }
        (Some(_), answers) => finish(target, answers),
    }
}

/// Send a JSON patch that applies to one version of the object. Sent twice, it would append twice, or remove two items.
fn send_json(target: &Address, operations: &[Value], tries: u32, resource_version: String) -> Move {
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": resource_version});
    let operations = std::iter::once(test).chain(operations.iter().cloned()).collect();
    let request = Request::Patch {
        target: target.clone(),
        patch: Patch::Json(Value::Array(operations)),
        field_manager: MANAGER.to_owned(),
    };
    perform(&Patching::Json { tries, resource_version }, vec![request])
}

fn finish(target: &Address, answers: &[Answer]) -> NextMove {
    match answers {
        [Answer::Object { object, resource }] => Ok(Move::Done { output: reference(object, resource) }),
        [Answer::Absent] => {
            Err(Failure::new(format!("cannot patch {}: it does not exist", describe(target))))
        }
        answers => Err(Failure::unexpected(answers)),
    }
}

fn other_step() -> Failure {
    Failure::interrupted("the checkpoint in the status belongs to another type of patch")
}
