//! Which Composition, and which revision of it.

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_engine::composite::Machinery;
use serde_json::Value;

use super::{Suspect, describe};
use crate::complaint::Complaint;
use crate::finding::Finding;
use crate::look::{Role, at, composition, compositions, definition_of, revision_id, text_at};

pub(super) fn no_composition(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let selects = suspect.object.is_some_and(|it| Machinery::guess(it).get("compositionSelector").is_some());
    let finding = suspect.own(said);
    let finding = if selects { finding.field("spec.crossplane.compositionSelector") } else { finding };
    if let Some(near) = near_misses(suspect) {
        let finding = Finding { message: format!("{}: {near}", finding.message), ..finding };
        return finding.advice(format!(
            "set compositeTypeRef.apiVersion of the Composition to {}, or make that version of the XRD referenceable",
            suspect.id.api_version
        ));
    }
    let finding = finding.advice("kubectl get compositions --show-labels");
    finding.advice(format!(
        "make a Composition with compositeTypeRef {} {}",
        suspect.id.api_version, suspect.id.kind
    ))
}

/// Compositions of the same kind, but of another version or group.
fn near_misses(suspect: &Suspect<'_>) -> Option<String> {
    let composed = |composition: &Object, field: &str| {
        text_at(composition, &["spec", "compositeTypeRef", field]).to_owned()
    };
    let is_near = |composition: &&Object| {
        composed(composition, "kind") == suspect.id.kind
            && composed(composition, "apiVersion") != suspect.id.api_version
    };
    let mut near: Vec<_> = suspect.snapshot.list(&compositions()).filter(is_near).collect();
    // Another version of the same group is the likelier mistake.
    near.sort_by_key(|it| {
        (meta::group(&composed(it, "apiVersion")) != suspect.id.group(), meta::name(it).to_owned())
    });
    let first = near.first()?;
    let more = if near.len() > 1 { format!(" (and {} more)", near.len() - 1) } else { String::new() };
    let (name, kind, version) = (meta::name(first), composed(first, "kind"), composed(first, "apiVersion"));
    Some(format!("Composition `{name}` composes {kind} ({version}){more}"))
}

pub(super) fn composition_missing(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let Some(name) = named_composition(suspect) else { return suspect.own(said) };
    let finding = Finding::new(&composition(name), &format!("does not exist, but {} names it", suspect.id));
    let finding = finding.field("spec.crossplane.compositionRef.name").since(said.since);
    let finding = finding.advice("kubectl get compositions");
    finding.advice(format!("kubectl edit {}", suspect.id.arguments()))
}

/// The Composition that a composite resource has to follow: the one that its definition enforces, that it names itself, or
/// that is the default of its definition.
fn named_composition<'a>(suspect: &Suspect<'a>) -> Option<&'a str> {
    let definition = definition_of(suspect.snapshot, suspect.id).map(|(definition, _)| definition);
    let defined = |field: &str| definition.map(|it| text_at(it, &["spec", field, "name"]));
    let named = suspect.object.and_then(|object| Machinery::guess(object).composition());
    // In the order in which the control plane selects.
    let candidates = [defined("enforcedCompositionRef"), named, defined("defaultCompositionRef")];
    candidates.into_iter().flatten().find(|name| !name.is_empty())
}

pub(super) fn revision_missing(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let named = suspect
        .object
        .and_then(revision_id)
        .filter(|_| said.cause == Some(Cause::CompositionRevisionNotFound));
    let finding = match named {
        Some(id) => {
            let finding = Finding::new(&id, &format!("does not exist, but {} names it", suspect.id));
            finding.field("spec.crossplane.compositionRevisionRef.name").since(said.since)
        }
        None => suspect.own(said).field("spec.crossplane.compositionRevisionSelector"),
    };
    finding.advice("kubectl get compositionrevisions --show-labels")
}

pub(super) fn incompatible(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).field("spec.crossplane.compositionRef.name").advice("kubectl get compositions")
}

pub(super) fn invalid(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let id = suspect.object.and_then(revision_id).unwrap_or_else(|| suspect.id.clone());
    let cause = Finding { object: id.clone(), ..suspect.own(said) };
    cause.advice(describe(&id)).advice("correct the Composition: a new revision is made, and used")
}

/// Something newer might work.
pub(super) fn pinned(suspect: &Suspect<'_>) -> Option<Finding> {
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
    let cause = Finding::new(suspect.id, &message).field("spec.crossplane.compositionUpdatePolicy");
    let since = super::since(object, "Ready");
    Some(cause.since(&since).advice(format!("kubectl edit {}", suspect.id.arguments())))
}

/// The first by name is used, which may not be the one that is meant.
pub(super) fn several(suspect: &Suspect<'_>) -> Option<Finding> {
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
    let cause = Finding::new(suspect.id, &message).field("spec.crossplane.compositionRef.name");
    Some(
        cause
            .since(&super::since(object, "Ready"))
            .advice(format!("kubectl edit {}", suspect.id.arguments())),
    )
}
