//! Creates the objects of a spec, each once, however often the phase is asked.

use std::collections::BTreeSet;

use ferroplane_api::{Object, meta};
use ferroplane_engine::action::{Answer, Move, Phase, Request};
use ferroplane_golang::yaml::Documents;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CREATOR, reference};
use crate::phases::arguments::Arguments;
use crate::phases::moves::{
    Failure, NextMove, address_of, checkpoint, describe, is_own, named, perform, suffix, taken,
};

/// More objects than this are no spec of a phase.
const MOST_OBJECTS: usize = 100;
/// The longest name that all kinds can have.
const LONGEST_NAME: usize = 63;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Creation {
    /// The objects are being created.
    Create,
    /// Some were there already. Whose they are is found out.
    Check,
}

pub(super) fn create(phase: &Phase<'_>, namespace: &str) -> NextMove {
    let objects = objects(phase, namespace)?;
    match (checkpoint(phase)?, phase.answers) {
        // After a crash, too: what exists already is checked before it counts as an error.
        (None | Some(Creation::Create), []) => {
            let request = |object| Request::Create { object, field_manager: CREATOR.to_owned() };
            Ok(perform(&Creation::Create, objects.into_iter().map(request).collect()))
        }
        (Some(Creation::Check), []) => Ok(look(&objects)),
        (Some(Creation::Create), answers) if answers.iter().any(exists_already) => {
            other_refusals(answers)?;
            Ok(look(&objects))
        }
        (Some(Creation::Check), answers) => {
            let foreign = objects.iter().zip(answers).find(
                |(_, answer)| matches!(answer, Answer::Object { object, .. } if !is_own(phase, object)),
            );
            match foreign {
                Some((object, _)) => Err(taken(&address_of(object))),
                None => last_reference(answers),
            }
        }
        (_, answers) => last_reference(answers),
    }
}

fn look(objects: &[Object]) -> Move {
    let requests = objects.iter().map(|object| Request::Get(address_of(object)));
    perform(&Creation::Check, requests.collect())
}

fn exists_already(answer: &Answer) -> bool {
    matches!(answer, Answer::Refused(refused) if refused.already_exists())
}

/// Fails if something was refused for any other reason than that it exists.
fn other_refusals(answers: &[Answer]) -> Result<(), Failure> {
    let mut refusals = answers.iter().filter_map(|answer| match answer {
        Answer::Refused(refused) if !refused.already_exists() => Some(refused),
        _ => None,
    });
    let Some(first) = refusals.next() else { return Ok(()) };
    let mut failure = Failure::refused(first);
    for refused in refusals {
        failure.message.push_str("; ");
        failure.message.push_str(&refused.message);
    }
    Err(failure)
}

/// The last object of the spec is the output, if all went well.
pub(super) fn last_reference(answers: &[Answer]) -> NextMove {
    other_refusals(answers)?;
    match answers.last() {
        Some(Answer::Object { object, resource })
            if answers.iter().all(|it| matches!(it, Answer::Object { .. })) =>
        {
            Ok(Move::Done { output: reference(object, resource) })
        }
        _ => Err(Failure::unexpected(answers)),
    }
}

/// The objects of the spec, with their namespaces and names.
pub(super) fn objects(phase: &Phase<'_>, namespace: &str) -> Result<Vec<Object>, Failure> {
    let text = Arguments(phase.arguments).document("spec")?;
    let mut objects = Vec::new();
    let mut seen = BTreeSet::new();
    for document in Documents::new(&text) {
        let document = document
            .map_err(|error| Failure::argument("spec", format!("it is not valid YAML: {}", error.message)))?;
        let position = objects.len() + 1;
        let mut object = match document.value {
            Value::Null => continue,
            Value::Object(object) => object,
            _ => return Err(Failure::argument("spec", format!("document {position} is not an object"))),
        };
        for field in ["apiVersion", "kind"] {
            if object.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                return Err(Failure::argument("spec", format!("document {position} has no `{field}`")));
            }
        }
        name(phase, &mut object, namespace, position)?;
        // The second of two equal ones would be taken for the first one, created by this very phase.
        if !seen.insert(address_of(&object)) {
            let what = describe(&address_of(&object));
            return Err(Failure::argument(
                "spec",
                format!("document {position} is the second one with {what}"),
            ));
        }
        objects.push(object);
        if objects.len() > MOST_OBJECTS {
            return Err(Failure::argument("spec", format!("it has more than {MOST_OBJECTS} documents")));
        }
    }
    if objects.is_empty() {
        return Err(Failure::argument("spec", "it has no object"));
    }
    Ok(objects)
}

/// Gives an object the namespace of the phase and, if the API server were to make its name, one that does not change.
fn name(phase: &Phase<'_>, object: &mut Object, namespace: &str, position: usize) -> Result<(), Failure> {
    if !object.get("metadata").is_none_or(Value::is_object) {
        return Err(Failure::argument("spec", format!("`metadata` of document {position} is not a map")));
    }
    if meta::namespace(object).is_empty() {
        meta::set_field(object, "namespace", namespace);
    }
    if !meta::name(object).is_empty() {
        return Ok(());
    }
    let prefix = meta::generate_name(object).trim_end_matches('-').to_owned();
    if prefix.is_empty() {
        return Err(Failure::argument("spec", format!("document {position} has no name")));
    }
    let name = named(&prefix, &suffix(phase, &position.to_string()), LONGEST_NAME);
    meta::set_field(object, "name", &name);
    Ok(())
}
