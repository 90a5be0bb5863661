//! Which Composition, and which revision of it.

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::composite::Machinery;
use serde_json::Value;

use super::{Suspect, describe};
use crate::cause::Cause;
use crate::id::Id;
use crate::look::{Role, at, composition, compositions, revision_id, text_at};
use crate::words::between;

pub(super) fn no_composition(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "no Composition composes",
        "no Composition with the labels",
        "no compatible Compositions",
    ])?;
    let cause = suspect.own(said).field("spec.crossplane.compositionSelector");
    let cause = if said.text.contains("labels") { cause } else { Cause { field: None, ..cause } };
    let cause = cause.advice("kubectl get compositions --show-labels");
    Some(cause.advice(format!(
        "make a Composition with compositeTypeRef {} {}",
        suspect.id.api_version, suspect.id.kind
    )))
}

pub(super) fn composition_missing(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["there is no Composition `"])?;
    let name = between(said.text, "there is no Composition `", "`").unwrap_or_default();
    let cause = Cause::new(&composition(name), &format!("does not exist, but {} names it", suspect.id));
    let cause = cause.field("spec.crossplane.compositionRef.name").since(said.since);
    let cause = cause.advice("kubectl get compositions");
    Some(cause.advice(format!("kubectl edit {}", suspect.id.arguments())))
}

pub(super) fn revision_missing(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["there is no CompositionRevision `", "has no revision"]);
    let said = said.filter(|said| !said.text.contains("function `"))?;
    let name = between(said.text, "there is no CompositionRevision `", "`");
    let cause = match name {
        Some(name) => {
            let id = Id::new("apiextensions.crossplane.io/v1", "CompositionRevision", "", name);
            let cause = Cause::new(&id, &format!("does not exist, but {} names it", suspect.id));
            cause.field("spec.crossplane.compositionRevisionRef.name").since(said.since)
        }
        None => suspect.own(said).field("spec.crossplane.compositionRevisionSelector"),
    };
    Some(cause.advice("kubectl get compositionrevisions --show-labels"))
}

pub(super) fn incompatible(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["CompositionRevision `", "not compatible with"]);
    let said =
        said.filter(|said| said.text.contains(" composes ") || said.text.contains("not compatible with"))?;
    Some(suspect.own(said).field("spec.crossplane.compositionRef.name").advice("kubectl get compositions"))
}

pub(super) fn invalid(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["cannot use CompositionRevision `", "invalid pipeline", "ValidPipeline"])?;
    let revision = between(said.text, "CompositionRevision `", "`");
    let id = revision.map(|name| Id::new("apiextensions.crossplane.io/v1", "CompositionRevision", "", name));
    let id = id.or_else(|| revision_id(suspect.object?)).unwrap_or_else(|| suspect.id.clone());
    let cause = Cause { object: id.clone(), ..suspect.own(said) };
    Some(cause.advice(describe(&id)).advice("correct the Composition: a new revision is made, and used"))
}

/// Something newer might work.
pub(super) fn pinned(suspect: &Suspect<'_>) -> Option<Cause> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite && !suspect.is_fine())?;
    if !Machinery::guess(object).is_manual() {
        return None;
    }
    let mine = suspect.snapshot.object(&revision_id(object)?)?;
    let number = |revision: &Object| at(revision, &["spec", "revision"]).and_then(Value::as_i64);
    let family = meta::label(mine, keys::COMPOSITION_NAME);
    let composition = suspect.snapshot.object(&composition(family))?;
    let list = crate::look::revisions_of(composition)?;
    let latest = suspect.snapshot.list(&list).filter_map(number).max()?;
    let used = number(mine).filter(|used| *used < latest)?;
    let message = format!(
        "stays at revision {used} of Composition `{family}`, of which revision {latest} is the latest"
    );
    let cause = Cause::new(suspect.id, &message).field("spec.crossplane.compositionUpdatePolicy");
    let since = super::since(object, "Ready");
    Some(cause.since(&since).advice(format!("kubectl edit {}", suspect.id.arguments())))
}

/// The first by name is used, which may not be the one that is meant.
pub(super) fn several(suspect: &Suspect<'_>) -> Option<Cause> {
    let object = suspect.object.filter(|_| suspect.role == Role::Composite && !suspect.is_fine())?;
    let is_for_it = |composition: &&Object| {
        let wanted = |field: &str| text_at(composition, &["spec", "compositeTypeRef", field]);
        wanted("kind") == suspect.id.kind && wanted("apiVersion") == suspect.id.api_version
    };
    let all: Vec<_> = suspect.snapshot.list(&compositions()).filter(is_for_it).map(meta::name).collect();
    let used = Machinery::guess(object).composition().unwrap_or_default();
    if all.len() < 2 || Machinery::guess(object).get("compositionSelector").is_some() {
        return None;
    }
    let (count, names) = (all.len(), all.join("`, `"));
    let message = format!(
        "{count} Compositions compose it (`{names}`), and `{used}` is used: is that the one you mean?"
    );
    let cause = Cause::new(suspect.id, &message).field("spec.crossplane.compositionRef.name");
    Some(
        cause
            .since(&super::since(object, "Ready"))
            .advice(format!("kubectl edit {}", suspect.id.arguments())),
    )
}
