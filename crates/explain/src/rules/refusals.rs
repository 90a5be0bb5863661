//! What an API server would not have.

use ferroplane_api::meta;

use super::{Case, Complaint, describe};
use crate::cause::Cause;
use crate::id::Id;
use crate::look::{children, deleted_at, text_at};
use crate::words::{between, field_in};

/// A refusal of a field.
fn of_field(case: &Case<'_>, said: Complaint<'_>) -> Cause {
    let cause = case.composed(said);
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

pub(super) fn unknown_kind(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&[
        "is it installed?",
        "there is no kind ",
        "no matches for kind",
        "could not find the requested resource",
    ])?;
    let kind = between(said.text, "there is no kind ", " ").unwrap_or_default();
    let composed = case.object.map(|object| children(case.snapshot, case.id, object)).unwrap_or_default();
    let object = composed.into_iter().find(|child| child.kind == kind);
    let cause = case.composed(said);
    let cause = Cause { object: object.unwrap_or(cause.object.clone()), ..cause };
    Some(
        cause
            .advice("install the provider, or the CRD, that has the kind")
            .advice("kubectl get providers,crds"),
    )
}

pub(super) fn quota(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["exceeded quota"])?;
    let cause = case.composed(said);
    let place = cause.object.namespace.clone();
    Some(cause.advice(format!("kubectl describe resourcequota -n {place}")))
}

pub(super) fn namespace_terminating(case: &Case<'_>) -> Option<Cause> {
    if let Some(said) = case.said(&["because it is being terminated", "is being terminated"]) {
        let name = between(said.text, "namespace ", " ").unwrap_or_default().trim_matches(['"', '`']);
        return Some(namespace_leaves(case, name, said.since, said.text));
    }
    let id = Id::new("v1", "Namespace", "", &case.id.namespace);
    let since = deleted_at(case.snapshot.object(&id)?);
    // Then everything in it leaves, and what keeps it is to be named first.
    let is_cause = !since.is_empty() && !case.is_leaving;
    is_cause.then(|| namespace_leaves(case, &id.name, since, "is being deleted, with everything in it"))
}

fn namespace_leaves(case: &Case<'_>, name: &str, since: &str, text: &str) -> Cause {
    let id = Id::new("v1", "Namespace", "", name);
    let id = if name.is_empty() { case.id.clone() } else { id };
    let cause = super::blame(&id, Complaint { text, since });
    cause
        .advice(describe(&id))
        .advice(format!("kubectl get {} -o jsonpath='{{.status.conditions}}'", id.arguments()))
}

pub(super) fn namespace_missing(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["namespaces \""]).filter(|said| said.text.contains("not found"))?;
    let name = between(said.text, "namespaces \"", "\"").unwrap_or_default();
    let cause = Cause::new(&Id::new("v1", "Namespace", "", name), "does not exist")
        .step(crate::words::step_in(said.text));
    Some(cause.since(said.since).advice(format!("kubectl create namespace {name}")))
}

pub(super) fn rights(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["is not allowed to [", "is forbidden: User", "cannot impersonate"])?;
    let cause = case.composed(said);
    let denied = said.text.find(" is not allowed to [").map(|end| {
        let start = said.text[..end].rfind([' ', '\n']).map_or(0, |start| start + 1);
        said.text[start..].to_owned()
    });
    let cause = Cause { message: denied.map_or(cause.message, |it| crate::words::one_line(&it)), ..cause };
    let cause = cause.advice("give the control plane the right with a ClusterRole that has the label rbac.crossplane.io/aggregate-to-crossplane: \"true\"");
    Some(cause.advice("kubectl get clusterroles -l rbac.crossplane.io/aggregate-to-crossplane=true"))
}

pub(super) fn webhook_unreachable(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["failed calling webhook", "failed to call webhook"])?;
    let cause = case.composed(said);
    Some(cause.advice("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"))
}

pub(super) fn webhook_denied(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["admission webhook \"", "denied request", "denied the request"])?;
    let cause = case.composed(said);
    let cause = cause.advice("correct what the step makes, or ask whoever runs the webhook");
    Some(cause.advice("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies"))
}

pub(super) fn name_conflict(case: &Case<'_>) -> Option<Cause> {
    let words = [
        "already names a controller",
        "Only one reference can have Controller set to true",
        "is not controlled by",
        "not controllable",
    ];
    let said = case.said(&words)?;
    let object = case.object?;
    let is_foreign = |child: &Id| {
        let controller = case.snapshot.object(child).and_then(meta::controller_uid);
        controller.is_some_and(|uid| uid != meta::uid(object))
    };
    let foreign = case.composed_id(said.text).filter(is_foreign);
    let foreign = foreign.or_else(|| children(case.snapshot, case.id, object).into_iter().find(is_foreign));
    let Some(id) = foreign else { return Some(case.composed(said).advice(describe(case.id))) };
    let owner = case.snapshot.object(&id).and_then(meta::controller);
    let owner = owner.map(|owner| format!("{} `{}`", text_at(owner, &["kind"]), text_at(owner, &["name"])));
    let message = format!(
        "belongs to {}, so {} cannot have it: give one of them another name",
        owner.unwrap_or_default(),
        case.id
    );
    let cause = Cause::new(&id, &message).since(said.since).step(crate::words::step_in(said.text));
    Some(cause.field("metadata.ownerReferences").advice(format!("kubectl get {} -o yaml", id.arguments())))
}

pub(super) fn same_object(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["are the same object"])?;
    Some(case.own(said).field("metadata.name").advice("give the composed resources different names, or none"))
}

pub(super) fn field_conflict(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["Apply failed with "])?;
    let cause = case.composed(said);
    let id = cause.object.clone();
    Some(cause.advice(format!("kubectl get {} -o yaml --show-managed-fields", id.arguments())))
}

pub(super) fn immutable(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["is immutable", "may not be changed", "are forbidden: updates to"])?;
    let cause = of_field(case, said);
    let id = cause.object.clone();
    let cause = cause.advice("change it back in the Composition");
    Some(cause.advice(format!("or, if it may be made anew: kubectl delete {}", id.arguments())))
}

pub(super) fn rule(case: &Case<'_>) -> Option<Cause> {
    let words = [
        "failed rule: ",
        "Invalid value: \"object\": ",
        "Invalid value: \"array\": ",
        "no such key: ",
        "ValidatingAdmissionPolicy",
    ];
    let said = case.said(&words)?;
    Some(correct(of_field(case, said)))
}

pub(super) fn schema(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&[
        " is invalid: ",
        "field not declared in schema",
        "unknown field",
        "failed to create typed patch",
    ])?;
    Some(correct(of_field(case, said)))
}

pub(super) fn scope(case: &Case<'_>) -> Option<Cause> {
    let said = case.said(&["is cluster scoped", "may only compose resources in its own namespace"])?;
    Some(case.own(said).advice("compose something in the namespace, or make the XRD's scope Cluster"))
}

pub(super) fn overload(case: &Case<'_>) -> Option<Cause> {
    let words = [
        "cannot reach the API server",
        "too many requests",
        "Too many requests",
        "unable to handle the request",
        "request timed out",
        "etcdserver:",
        "the server was unable to return a response",
    ];
    let said = case.said(&words)?;
    let cause = case.own(said).advice("kubectl get --raw /readyz?verbose");
    Some(cause.advice("it is tried again, less and less often: look again in half a minute"))
}
