//! What somebody wants gone, and what keeps it.

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::{usage_spec, used_by};

use super::{Case, describe};
use crate::cause::Cause;
use crate::id::Id;
use crate::look::{Role, children, deleted_at, finalizers, usages};

pub(super) fn usage(case: &Case<'_>) -> Option<Cause> {
    let object = case.object?;
    let attempt = meta::annotation(object, keys::DELETION_ATTEMPT);
    if !case.is_leaving && attempt.is_empty() {
        return None;
    }
    let is_of = |usage: &&Object| {
        used_by(usage).is_some_and(|used| {
            let same_place = used.namespace == case.id.namespace || case.id.namespace.is_empty();
            used.group == case.id.group()
                && used.kind == case.id.kind
                && used.name == case.id.name
                && same_place
        })
    };
    let usage = usages().into_iter().find_map(|list| case.snapshot.list(&list).find(is_of))?;
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
    let cause = Cause::new(case.id, &format!("cannot be deleted because of {id}: {why}")).since(since);
    let cause = cause.advice(describe(&id));
    Some(cause.advice(format!("if it is no longer in use: kubectl delete {}", id.arguments())))
}

/// Of something below what somebody asked about.
pub(super) fn finalizer_below(case: &Case<'_>) -> Option<Cause> {
    case.above?;
    // What has something below it waits for that.
    if case.role == Role::Composite { None } else { finalizer(case) }
}

pub(super) fn finalizer(case: &Case<'_>) -> Option<Cause> {
    let object = case.object?;
    let since = deleted_at(object);
    if since.is_empty() {
        return None;
    }
    let is_foreign = |name: &&str| {
        !["foregroundDeletion", "orphan", keys::COMPOSITE_FINALIZER, keys::CLAIM_FINALIZER].contains(name)
    };
    let foreign: Vec<_> = finalizers(object).filter(is_foreign).collect();
    if let Some(name) = foreign.first() {
        let others =
            if foreign.len() > 1 { format!(" (and {} more)", foreign.len() - 1) } else { String::new() };
        let message = format!(
            "is being deleted, but the finalizer `{name}`{others} keeps it: whoever set it has not let go"
        );
        let cause = Cause::new(case.id, &message).since(since).field("metadata.finalizers");
        let cause = cause.advice(describe(case.id));
        let patch = r#"--type=json -p '[{"op":"remove","path":"/metadata/finalizers"}]'"#;
        return Some(cause.advice(format!(
            "only if its owner is gone for good, and what it stands for may stay behind: kubectl patch {} {patch}",
            case.id.arguments()
        )));
    }
    let waiting =
        children(case.snapshot, case.id, object).into_iter().find(|it| case.snapshot.object(it).is_some());
    let message = match (waiting, finalizers(object).next()) {
        (Some(child), _) => format!("is being deleted, and waits until {child} is gone"),
        (None, Some(name)) => {
            format!("is being deleted, and waits for the finalizer `{name}`: is the control plane running?")
        }
        (None, None) => "is being deleted".to_owned(),
    };
    Some(Cause::new(case.id, &message).since(since).advice(describe(case.id)))
}
