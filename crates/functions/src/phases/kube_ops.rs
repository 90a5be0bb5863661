//! KubeOps: creates, applies, reads, patches and deletes objects.
//!
//! * v0.0.0 follows Kanister 0.119, pkg/function/kubeops.go: `create`, `patch` (strategic merge) and `delete`.
//! * v0.1.0 adds `apply` (server-side) and `get`, other types of patches, objects of cluster-scoped kinds, and a `delete` that finds
//!   nothing to delete and is content.

mod create;
mod patch;

use ferroplane_api::{Object, meta};
use ferroplane_engine::action::{
    Address, Answer, ArgumentMistake, Move, Need, Patch, Phase, PhaseContract, PhaseFunction, Request,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments::{Arguments, ObjectReference, is_template, mistake};
use super::deletion::{Deleted, delete};
use super::moves::{Failure, NextMove, address_of, describe, perform, settle};

/// The default namespace of Kanister.
const DEFAULT_NAMESPACE: &str = "default";
/// The field manager of objects that are created, as Kanister has it.
const CREATOR: &str = "kanister-create";
/// The field manager of everything else.
const MANAGER: &str = "ferroplane-kubeops";
/// How large an object may be that becomes output, in bytes of JSON: it is kept in the status.
const LARGEST_OUTPUT: usize = 32 << 10;

const OPERATIONS_V0_0: &[&str] = &["create", "patch", "delete"];
const OPERATIONS_V0_1: &[&str] = &["create", "apply", "get", "patch", "delete"];
const OUTPUTS: &[&str] = &["apiVersion", "group", "resource", "kind", "name", "namespace"];

/// A version of KubeOps.
#[derive(Debug, Clone, Copy)]
pub(super) enum KubeOps {
    V0_0,
    V0_1,
}

impl PhaseFunction for KubeOps {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(self.next(phase))
    }

    fn contract(&self) -> PhaseContract {
        let optional: &'static [&'static str] = match self {
            Self::V0_0 => &["namespace", "spec", "objectReference"],
            Self::V0_1 => &["namespace", "spec", "objectReference", "patchType", "force"],
        };
        PhaseContract { required: &["operation"], optional, outputs: OUTPUTS, needs: &[Need::Api] }
    }

    fn argument_mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        let mut mistakes = self.contract().mistakes(arguments);
        for (name, known) in [("operation", self.operations()), ("patchType", patch::TYPES)] {
            let value = arguments.get(name).and_then(Value::as_str).unwrap_or_default();
            if self.contract().takes(name)
                && !value.is_empty()
                && !is_template(value)
                && !known.contains(&value)
            {
                mistakes.push(mistake(unknown(name, value, known), name));
            }
        }
        mistakes
    }
}

impl KubeOps {
    fn operations(self) -> &'static [&'static str] {
        match self {
            Self::V0_0 => OPERATIONS_V0_0,
            Self::V0_1 => OPERATIONS_V0_1,
        }
    }

    fn next(self, phase: &Phase<'_>) -> NextMove {
        let arguments = Arguments(phase.arguments);
        let namespace = arguments.optional_text("namespace")?.unwrap_or(DEFAULT_NAMESPACE);
        let operation = arguments.text("operation")?;
        if !self.operations().contains(&operation) {
            return Err(unknown("operation", operation, self.operations()));
        }
        match operation {
            "create" => create::create(phase, namespace),
            "apply" => apply(phase, namespace),
            "get" => get(phase, &target(phase, namespace)?),
            "patch" => patch::patch(phase, &target(phase, namespace)?, self),
            _ => self.delete(phase, &target(phase, namespace)?),
        }
    }

    fn delete(self, phase: &Phase<'_>, target: &Address) -> NextMove {
        if let (Self::V0_0, [Answer::Object { object, .. }]) = (self, phase.answers)
            && meta::namespace(object).is_empty()
        {
            return Err(Failure::new(format!(
                "cannot delete {}: KubeOps v0.0.0 deletes objects in namespaces only; use v0.1.0",
                describe(target)
            )));
        }
        match (delete(phase, target)?, self) {
            (Deleted::Next(next), _) => Ok(next),
            (Deleted::WasAbsent, Self::V0_0) => {
                Err(Failure::new(format!("cannot delete {}: it does not exist", describe(target))))
            }
            (Deleted::WasAbsent | Deleted::Gone, _) => {
                Ok(Move::Done { output: named_reference(phase, target)? })
            }
        }
    }
}

/// The checkpoint of what can be repeated.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Applying {
    Apply,
    Get,
}

/// The object that a phase is about.
fn target(phase: &Phase<'_>, namespace: &str) -> Result<Address, Failure> {
    const ARGUMENT: &str = "objectReference";
    ObjectReference::read(ARGUMENT, phase.arguments.get(ARGUMENT))?.address(ARGUMENT, namespace)
}

/// Applies the objects of the spec. Applying twice is applying once: nothing has to be remembered.
fn apply(phase: &Phase<'_>, namespace: &str) -> NextMove {
    let objects = create::objects(phase, namespace)?;
    if phase.answers.is_empty() {
        let is_forced = Arguments(phase.arguments).flag("force", false)?;
        let requests = objects.into_iter().map(|object| Request::Patch {
            target: address_of(&object),
            patch: Patch::Apply { object, is_forced },
            field_manager: MANAGER.to_owned(),
        });
        return Ok(perform(&Applying::Apply, requests.collect()));
    }
    create::last_reference(phase.answers)
}

/// Reads an object. It becomes output, unless it is a Secret: output is shown in the status.
fn get(phase: &Phase<'_>, target: &Address) -> NextMove {
    let (object, resource) = match phase.answers {
        [] => return Ok(perform(&Applying::Get, vec![Request::Get(target.clone())])),
        [Answer::Object { object, resource }] => (object, resource),
        [Answer::Absent] => {
            return Err(Failure::new(format!("cannot get {}: it does not exist", describe(target))));
        }
        answers => return Err(Failure::unexpected(answers)),
    };
    if resource == "secrets" && meta::api_version(object) == "v1" {
        return Err(Failure::new(
            "cannot get a Secret: output is shown in the status of the ActionSet; name it in `objects` of the phase that needs it",
        ));
    }
    let mut shown = object.clone();
    if let Some(Value::Object(metadata)) = shown.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    let shown = Value::Object(shown);
    let size = shown.to_string().len();
    if size > LARGEST_OUTPUT {
        return Err(Failure::new(format!(
            "cannot get {}: it has {size} bytes, and output may have {LARGEST_OUTPUT}",
            describe(target)
        )));
    }
    let mut output = reference(object, resource);
    output.insert("object".to_owned(), shown);
    Ok(Move::Done { output })
}

/// An object as Kanister refers to it.
fn reference(object: &Object, resource: &str) -> Object {
    let api_version = meta::api_version(object);
    let fields = [
        ("apiVersion", meta::version(api_version)),
        ("group", meta::group(api_version)),
        ("resource", resource),
        // Kanister has the field and leaves it empty.
        ("kind", ""),
        ("name", meta::name(object)),
        ("namespace", meta::namespace(object)),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

/// The reference to an object that is gone: as the arguments have it.
fn named_reference(phase: &Phase<'_>, target: &Address) -> Result<Object, Failure> {
    let named = ObjectReference::read("objectReference", phase.arguments.get("objectReference"))?;
    let fields = [
        ("apiVersion", named.api_version.as_str()),
        ("group", named.group.as_str()),
        ("resource", named.resource.as_str()),
        ("kind", ""),
        ("name", target.name.as_str()),
        ("namespace", target.namespace.as_str()),
    ];
    Ok(fields.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect())
}

fn unknown(argument: &str, value: &str, known: &[&str]) -> Failure {
    Failure::argument(argument, format!("`{value}` is none of {}", known.join(", ")))
}

#[cfg(test)]
pub(super) mod tests;
