//! What an API server would not have.

use ferroplane_api::meta;

use super::{Complaint, Suspect, describe};
use crate::cause::Cause;
use crate::id::Id;
use crate::look::{children, deleted_at, text_at};
use crate::words::{between, field_in};

/// A refusal of a field.
fn of_field(suspect: &Suspect<'_>, said: Complaint<'_>) -> Cause {
    let cause = suspect.composed(said);
    match field_in(said.text) {
        Some((field, message)) => Cause { message: crate::words::one_line(message), ..cause.field(field) },
        None => cause,
    }
}

fn correct(cause: Cause) -> Cause {
    let kind = cause.object.kind.to_lowercase();
    let field = cause.field.clone().map(|field| format!(".{field}")).unwrap_or_default();
    let cause = cause.advice(
        "correct what the step makes of the XR, then look: ferroplane render XR.yaml COMPOSITION.yaml",
    );
    cause.advice(format!("kubectl explain {kind}{field}"))
}

pub(super) fn unknown_kind(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "is it installed?",
        "there is no kind ",
        "no matches for kind",
        "could not find the requested resource",
    ])?;
    let kind = between(said.text, "there is no kind ", " ").unwrap_or_default();
    let composed =
        suspect.object.map(|object| children(suspect.snapshot, suspect.id, object)).unwrap_or_default();
    let object = composed.into_iter().find(|child| child.kind == kind);
    let cause = suspect.composed(said);
    let cause = Cause { object: object.unwrap_or(cause.object.clone()), ..cause };
    Some(
        cause
            .advice("install the provider, or the CRD, that has the kind")
            .advice("kubectl get providers,crds"),
    )
}

pub(super) fn quota(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["exceeded quota"])?;
    let cause = suspect.composed(said);
    let place = cause.object.namespace.clone();
    Some(cause.advice(format!("kubectl describe resourcequota -n {place}")))
}

pub(super) fn namespace_terminating(suspect: &Suspect<'_>) -> Option<Cause> {
    if let Some(said) = suspect.said(&["because it is being terminated", "is being terminated"]) {
        let name = between(said.text, "namespace ", " ").unwrap_or_default().trim_matches(['"', '`']);
        return Some(namespace_leaves(suspect, name, said.since, said.text));
    }
    let id = Id::new("v1", "Namespace", "", &suspect.id.namespace);
    let since = deleted_at(suspect.snapshot.object(&id)?);
    // Then everything in it leaves, and what keeps it is to be named first.
    let is_cause = !since.is_empty() && !suspect.is_leaving;
    is_cause.then(|| namespace_leaves(suspect, &id.name, since, "is being deleted, with everything in it"))
}

fn namespace_leaves(suspect: &Suspect<'_>, name: &str, since: &str, text: &str) -> Cause {
    let id = Id::new("v1", "Namespace", "", name);
    let id = if name.is_empty() { suspect.id.clone() } else { id };
    let cause = super::blame(&id, Complaint { text, since });
    cause
        .advice(describe(&id))
        .advice(format!("kubectl get {} -o jsonpath='{{.status.conditions}}'", id.arguments()))
}

pub(super) fn namespace_missing(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["namespaces \""]).filter(|said| said.text.contains("not found"))?;
    let name = between(said.text, "namespaces \"", "\"").unwrap_or_default();
    let cause = Cause::new(&Id::new("v1", "Namespace", "", name), "does not exist")
        .step(crate::words::step_in(said.text));
    Some(cause.since(said.since).advice(format!("kubectl create namespace {name}")))
}

pub(super) fn rights(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["is not allowed to [", "is forbidden: User", "cannot impersonate"])?;
    let cause = suspect.composed(said);
    let denied = said.text.find(" is not allowed to [").map(|end| {
        let start = said.text[..end].rfind([' ', '\n']).map_or(0, |start| start + 1);
        said.text[start..].to_owned()
    });
    let cause = Cause { message: denied.map_or(cause.message, |it| crate::words::one_line(&it)), ..cause };
    let cause = cause.advice("give the control plane the right with a ClusterRole that has the label rbac.crossplane.io/aggregate-to-crossplane: \"true\"");
    Some(cause.advice("kubectl get clusterroles -l rbac.crossplane.io/aggregate-to-crossplane=true"))
}

pub(super) fn webhook_unreachable(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["failed calling webhook", "failed to call webhook"])?;
    let cause = suspect.composed(said);
    Some(cause.advice("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"))
}

pub(super) fn webhook_denied(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["admission webhook \"", "denied request", "denied the request"])?;
    let cause = suspect.composed(said);
    let cause = cause.advice("correct what the step makes, or ask whoever runs the webhook");
    Some(cause.advice("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies"))
}

pub(super) fn name_conflict(suspect: &Suspect<'_>) -> Option<Cause> {
    let words = [
        "already names a controller",
        "Only one reference can have Controller set to true",
        "is not controlled by",
        "not controllable",
    ];
    let said = suspect.said(&words)?;
    let object = suspect.object?;
    let is_foreign = |child: &Id| {
        let controller = suspect.snapshot.object(child).and_then(meta::controller_uid);
        controller.is_some_and(|uid| uid != meta::uid(object))
    };
    let foreign = suspect.composed_id(said.text).filter(is_foreign);
    let foreign =
        foreign.or_else(|| children(suspect.snapshot, suspect.id, object).into_iter().find(is_foreign));
    let Some(id) = foreign else { return Some(suspect.composed(said).advice(describe(suspect.id))) };
    let owner = suspect.snapshot.object(&id).and_then(meta::controller);
    let owner = owner.map(|owner| format!("{} `{}`", text_at(owner, &["kind"]), text_at(owner, &["name"])));
    let message = format!(
        "belongs to {}, so {} cannot have it: give one of them another name",
        owner.unwrap_or_default(),
        suspect.id
    );
    let cause = Cause::new(&id, &message).since(said.since).step(crate::words::step_in(said.text));
    Some(cause.field("metadata.ownerReferences").advice(format!("kubectl get {} -o yaml", id.arguments())))
}

pub(super) fn same_object(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["are the same object"])?;
    Some(
        suspect
            .own(said)
            .field("metadata.name")
            .advice("give the composed resources different names, or none"),
    )
}

pub(super) fn field_conflict(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["Apply failed with "])?;
    let cause = suspect.composed(said);
    let id = cause.object.clone();
    Some(cause.advice(format!("kubectl get {} -o yaml --show-managed-fields", id.arguments())))
}

pub(super) fn immutable(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["is immutable", "may not be changed", "are forbidden: updates to"])?;
    let cause = of_field(suspect, said);
    let id = cause.object.clone();
    let cause = cause.advice("change it back in the Composition");
    Some(cause.advice(format!("or, if it may be made anew: kubectl delete {}", id.arguments())))
}

pub(super) fn rule(suspect: &Suspect<'_>) -> Option<Cause> {
    let words = [
        "failed rule: ",
        "Invalid value: \"object\": ",
        "Invalid value: \"array\": ",
        "no such key: ",
        "ValidatingAdmissionPolicy",
    ];
    let said = suspect.said(&words)?;
    Some(correct(of_field(suspect, said)))
}

pub(super) fn schema(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        " is invalid: ",
        "field not declared in schema",
        "unknown field",
        "failed to create typed patch",
    ])?;
    Some(correct(of_field(suspect, said)))
}

pub(super) fn scope(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["is cluster scoped", "may only compose resources in its own namespace"])?;
    Some(suspect.own(said).advice("compose something in the namespace, or make the XRD's scope Cluster"))
}

pub(super) fn overload(suspect: &Suspect<'_>) -> Option<Cause> {
    let words = [
        "cannot reach the API server",
        "too many requests",
        "Too many requests",
        "unable to handle the request",
        "request timed out",
        "etcdserver:",
        "the server was unable to return a response",
    ];
    let said = suspect.said(&words)?;
    let cause = suspect.own(said).advice("kubectl get --raw /readyz?verbose");
    Some(cause.advice("it is tried again, less and less often: look again in half a minute"))
}
