//! Rules about objects that are being deleted.

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::{usage_spec, used_by};

use super::{Suspect, describe};
use crate::finding::Finding;
use crate::id::Id;
use crate::look::{Role, children, deleted_at, finalizers, usages};

pub(super) fn usage(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    let attempt = meta::annotation(object, keys::DELETION_ATTEMPT);
    if !suspect.is_leaving && attempt.is_empty() {
        return None;
    }
    let is_of = |usage: &&Object| {
        used_by(usage).is_some_and(|used| {
            let same_place = used.namespace == suspect.id.namespace || suspect.id.namespace.is_empty();
            used.group == suspect.id.group()
                && used.kind == suspect.id.kind
                && used.name == suspect.id.name
                && same_place
        })
    };
    let usage = usages().into_iter().find_map(|list| suspect.snapshot.list(&list).find(is_of))?;
    let id = Id::of(usage);
    let spec = usage_spec(usage);
    let by = spec.as_ref().and_then(|spec| spec.by.as_ref());
    let why = match (
        by.and_then(|by| by.reference().map(|it| format!("{} `{}`", by.kind, it.name))),
        spec.as_ref().and_then(|spec| spec.reason.clone()),
    ) {
        (Some(by), _) => format!("it is used by {by}"),
        (None, Some(reason)) => reason,
        (None, None) => "it is in use".to_owned(),
    };
    let since = Some(deleted_at(object))
        .filter(|it| !it.is_empty())
        .unwrap_or_else(|| crate::look::created_at(usage));
    let cause = Finding::new(suspect.id, &format!("cannot be deleted because of {id}: {why}")).since(since);
    let cause = cause.advice(describe(&id));
    Some(cause.advice(format!("if it is no longer in use: kubectl delete {}", id.arguments())))
}

/// Of something below what a user asked about.
pub(super) fn finalizer_below(suspect: &Suspect<'_>) -> Option<Finding> {
    suspect.above?;
    // What has something below it waits for that.
    if suspect.role == Role::Composite { None } else { finalizer(suspect) }
}

pub(super) fn finalizer(suspect: &Suspect<'_>) -> Option<Finding> {
    let object = suspect.object?;
    let since = deleted_at(object);
    if since.is_empty() {
        return None;
    }
    // Those of the control plane itself wait for what is below, which has a diagnosis of its own.
    let is_foreign = |name: &&str| {
        !["foregroundDeletion", "orphan", keys::COMPOSITE_FINALIZER, keys::CLAIM_FINALIZER].contains(name)
    };
    let foreign: Vec<_> = finalizers(object).filter(is_foreign).collect();
    if let Some(name) = foreign.first() {
        let others =
            if foreign.len() > 1 { format!(" (and {} more)", foreign.len() - 1) } else { String::new() };
        let message = format!(
            "is being deleted, but the finalizer `{name}`{others} keeps it: the controller that set it has not removed it"
        );
        let cause = Finding::new(suspect.id, &message).since(since).field("metadata.finalizers");
        let cause = cause.advice(describe(suspect.id));
        let patch = r#"--type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'"#;
        return Some(cause.advice(format!(
            "only if its owner no longer exists, and its external resource may be left behind: kubectl patch {} {patch}",
            suspect.id.arguments()
        )));
    }
    let waiting = children(suspect.snapshot, suspect.id, object)
        .into_iter()
        .find(|it| suspect.snapshot.object(it).is_some());
    let message = match (waiting, finalizers(object).next()) {
        (Some(child), _) => format!("is being deleted, and waits until {child} is gone"),
        (None, Some(name)) => {
            format!("is being deleted, and waits for the finalizer `{name}`: is the control plane running?")
        }
        (None, None) => "is being deleted".to_owned(),
    };
    Some(Finding::new(suspect.id, &message).since(since).advice(describe(suspect.id)))
}
