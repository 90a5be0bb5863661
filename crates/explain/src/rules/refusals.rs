//! Rules about writes that an API server refuses.

use ferroplane_api::meta;

use super::existence::install;
use super::{Suspect, describe};
use crate::complaint::Complaint;
use crate::finding::Finding;
use crate::id::Id;
use crate::look::{children, deleted_at, text_at};
use crate::snapshot::State;
use crate::texts::{field_in, missing_namespace_in};
use crate::words::one_line;

/// A refusal of a field.
fn of_field(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = suspect.composed(said);
    match field_in(said.text) {
        Some(("", message)) => Finding { message: one_line(message), ..cause },
        Some((field, message)) => Finding { message: one_line(message), ..cause.field(field) },
        None => cause,
    }
}

fn correct(cause: Finding) -> Finding {
    let kind = cause.object.kind.to_lowercase();
    let field = cause.field.clone().map(|field| format!(".{field}")).unwrap_or_default();
    let cause = cause
        .advice("correct what the step composes, then check it: ferroplane render XR.yaml COMPOSITION.yaml");
    cause.advice(format!("kubectl explain {kind}{field}"))
}

pub(super) fn unknown_kind(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let composed =
        suspect.object.map(|object| children(suspect.snapshot, suspect.id, object)).unwrap_or_default();
    let is_unknown = |child: &Id| suspect.snapshot.state(child) == Some(&State::UnknownKind);
    let object = composed.into_iter().find(is_unknown);
    let cause = suspect.composed(said);
    let cause = Finding { object: object.unwrap_or(cause.object.clone()), ..cause };
    install(cause, "the kind")
}

pub(super) fn quota(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = suspect.composed(said);
    let place = cause.object.namespace.clone();
    cause.advice(format!("kubectl describe resourcequota -n {place}"))
}

pub(super) fn namespace_terminating(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding = suspect.composed(said);
    let namespace = Id::new("v1", "Namespace", "", &finding.object.namespace);
    let object = if namespace.name.is_empty() { suspect.id.clone() } else { namespace };
    inspect_namespace(Finding { object, ..finding })
}

/// Seen at the namespace itself.
pub(super) fn namespace_leaving(suspect: &Suspect<'_>) -> Option<Finding> {
    let id = Id::new("v1", "Namespace", "", &suspect.id.namespace);
    let since = deleted_at(suspect.snapshot.object(&id)?);
    // Then everything in it leaves, and what keeps it is to be named first.
    let is_cause = !since.is_empty() && !suspect.is_leaving;
    let finding = Finding::new(&id, "is being deleted, with everything in it").since(since);
    is_cause.then(|| inspect_namespace(finding))
}

fn inspect_namespace(finding: Finding) -> Finding {
    let id = finding.object.clone();
    finding
        .advice(describe(&id))
        .advice(format!("kubectl get {} -o jsonpath='{{.status.conditions}}'", id.arguments()))
}

pub(super) fn namespace_missing(_: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let name = missing_namespace_in(said.text).unwrap_or_default();
    let cause = Finding::new(&Id::new("v1", "Namespace", "", name), "does not exist").step(said.step);
    cause.since(said.since).advice(format!("kubectl create namespace {name}"))
}

pub(super) fn rights(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = suspect.composed(said);
    // An event says only which right is missing, and that is all that anybody needs to know.
    let denial = suspect.complaints.iter().find(|complaint| complaint.is_denial());
    let cause = Finding { message: denial.map_or(cause.message, |it| one_line(it.text)), ..cause };
    let cause = cause.advice("give the control plane the right with a ClusterRole that has the label rbac.crossplane.io/aggregate-to-crossplane: \"true\"");
    cause.advice("kubectl get clusterroles -l rbac.crossplane.io/aggregate-to-crossplane=true")
}

pub(super) fn webhook_unreachable(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = suspect.composed(said);
    cause.advice("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations")
}

pub(super) fn webhook_denied(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = suspect.composed(said);
    let cause = cause.advice("correct what the step composes, or ask the administrator of the webhook");
    cause.advice("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies")
}

pub(super) fn name_conflict(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let Some(object) = suspect.object else { return suspect.own(said) };
    let is_foreign = |child: &Id| {
        let controller = suspect.snapshot.object(child).and_then(meta::controller_uid);
        controller.is_some_and(|uid| uid != meta::uid(object))
    };
    let foreign = suspect.composed_id(said).filter(is_foreign);
    let foreign =
        foreign.or_else(|| children(suspect.snapshot, suspect.id, object).into_iter().find(is_foreign));
    let Some(id) = foreign else { return suspect.composed(said).advice(describe(suspect.id)) };
    let owner = suspect.snapshot.object(&id).and_then(meta::controller);
    let owner = owner.map(|owner| format!("{} `{}`", text_at(owner, &["kind"]), text_at(owner, &["name"])));
    let message = format!(
        "belongs to {}, so {} cannot control it: give one of them another name",
        owner.unwrap_or_default(),
        suspect.id
    );
    let cause = Finding::new(&id, &message).since(said.since).step(said.step);
    cause.field("metadata.ownerReferences").advice(format!("kubectl get {} -o yaml", id.arguments()))
}

pub(super) fn same_object(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).field("metadata.name").advice("give the composed resources different names, or none")
}

pub(super) fn field_conflict(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = suspect.composed(said);
    let id = cause.object.clone();
    cause.advice(format!("kubectl get {} -o yaml --show-managed-fields", id.arguments()))
}

pub(super) fn immutable(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = of_field(suspect, said);
    let id = cause.object.clone();
    let cause = cause.advice("change it back in the Composition");
    cause.advice(format!("or, if it may be made anew: kubectl delete {}", id.arguments()))
}

pub(super) fn rule(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    correct(of_field(suspect, said))
}

pub(super) fn schema(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    correct(of_field(suspect, said))
}

pub(super) fn scope(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).advice("compose something in the namespace, or make the XRD's scope Cluster")
}

pub(super) fn namespace_not_set(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding = suspect.own(said).field("metadata.namespace");
    let finding = finding.advice("give the composed resource a namespace, in its base or by a patch");
    finding.advice("or make the XRD's scope Namespaced: then it is the namespace of the XR")
}

pub(super) fn overload(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = suspect.own(said).advice("kubectl get --raw /readyz?verbose");
    cause.advice("it is tried again, less and less often: check again in half a minute")
}
