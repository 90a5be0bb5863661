//! What goes wrong when functions are called.

use super::{Complaint, Suspect, describe};
use crate::cause::Cause;
use crate::id::Id;
use crate::look::{condition, function, revision_of, steps};
use crate::words::between;

/// The function that is to blame: the one that is named, or the one that the step calls.
fn blamed(suspect: &Suspect<'_>, said: Complaint<'_>) -> Option<Id> {
    if let Some(name) =
        between(said.text, "function `", "`").or_else(|| between(said.text, "function \"", "\""))
    {
        return Some(function(name));
    }
    let step = crate::words::step_in(said.text)?;
    let revision = revision_of(suspect.snapshot, suspect.object?)?;
    steps(revision).get(step).map(|name| function(name))
}

fn cause(suspect: &Suspect<'_>, said: Complaint<'_>) -> Cause {
    let own = suspect.own(said);
    match blamed(suspect, said) {
        Some(object) => Cause { object, ..own },
        None => own,
    }
}

/// What looks at a function, its revisions and, on a cluster, its pods.
fn inspect(cause: Cause) -> Cause {
    let name = cause.object.name.clone();
    if cause.object.kind != "Function" {
        return cause;
    }
    let cause =
        cause.advice(format!("kubectl get functions,functionrevisions -l pkg.crossplane.io/package={name}"));
    cause.advice(format!("kubectl logs -n crossplane-system -l pkg.crossplane.io/function={name} --tail=50"))
}

pub(super) fn missing(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "there is no function `",
        "cannot find an active FunctionRevision",
        "cannot find function",
    ])?;
    let cause = cause(suspect, said);
    // It may be there and not yet be what it should be: then that is why.
    if let Some(object) = suspect.snapshot.object(&cause.object) {
        let wrong = ["Installed", "Healthy"].into_iter().filter_map(|kind| condition(object, kind));
        if let Some(wrong) = wrong.into_iter().find(|condition| !condition.is_true()) {
            let message = format!("is not {}: {}", wrong.kind.to_lowercase(), wrong.words());
            let cause = Cause::new(&cause.object, &message).since(wrong.since).step(cause.step.as_deref());
            return Some(cause.clone().advice(describe(&cause.object)));
        }
    }
    Some(cause.advice("kubectl get functions").advice("ferroplane functions versions"))
}

pub(super) fn inactive(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["has no active revision", "` is not active", "cannot find an active"])?;
    let cause = cause(suspect, said);
    let name = cause.object.name.clone();
    let cause = cause.advice(format!("kubectl get functionrevisions -l pkg.crossplane.io/package={name}"));
    Some(cause.advice(format!(
        "kubectl patch function.pkg.crossplane.io/{name} --type=merge -p '{{\"spec\":{{\"revisionActivationPolicy\":\"Automatic\"}}}}'"
    )))
}

pub(super) fn version(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "has no version ",
        "` has no revision `",
        "end of its support",
        "is not a version",
        "both say which version",
    ])?;
    let said = Some(said).filter(|said| said.text.contains("function `"))?;
    Some(cause(suspect, said).advice("ferroplane functions versions").advice("kubectl get functionrevisions"))
}

pub(super) fn capability(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["does not have the capability", "missing capabilit", "MissingCapabilities"])?;
    let cause = cause(suspect, said);
    Some(cause.advice("use a version of the function that can compose, or call it from an Operation"))
}

pub(super) fn tls(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["cannot agree on TLS", "x509:", "tls: ", "authentication handshake failed"])?;
    let cause = inspect(cause(suspect, said));
    Some(cause.advice(
        "check the certificates in --tls-client-certs-dir: ca.crt must have signed what the function shows",
    ))
}

pub(super) fn slow(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "did not answer within",
        "was still at work when the time was up",
        "DeadlineExceeded",
        "context deadline exceeded",
    ])?;
    Some(inspect(cause(suspect, said)))
}

pub(super) fn crashing(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "lost the connection to the function",
        "program ended",
        "ended before it listened",
        "connection reset",
    ])?;
    Some(inspect(cause(suspect, said)))
}

pub(super) fn unreachable(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "cannot reach the function",
        "code = Unavailable",
        "connection refused",
        "no such host",
    ])?;
    Some(inspect(cause(suspect, said)))
}

pub(super) fn answer(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "serves the function protocol neither",
        "that are accepted",
        "that may be sent to the function",
        "is not a RunFunctionResponse",
        "cannot use the answer of",
        "has the invalid name",
        "` is not an object",
        "` has no apiVersion",
        "` has no kind",
        "desired status of the composite resource",
    ])?;
    Some(cause(suspect, said).advice("run it alone: ferroplane render XR.yaml COMPOSITION.yaml"))
}

pub(super) fn fatal(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["returned a fatal result", "fatal result"])?;
    let cause = suspect.own(said);
    let cause = match blamed(suspect, said).filter(|_| cause.step.is_some()) {
        Some(function) => {
            cause.advice(format!("the function `{}` says so: correct what it is given", function.name))
        }
        None => cause,
    };
    Some(cause.advice(describe(suspect.id)))
}

pub(super) fn restless(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["never settles", "requirements didn't stabilize"])?;
    Some(cause(suspect, said).advice("the function must ask for the same once it has been given it"))
}

pub(super) fn requirement(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["cannot fetch `"])?;
    let cause = suspect.own(said);
    let field = between(said.text, "cannot fetch `", "`").map(str::to_owned);
    Some(Cause { field, ..cause }.advice("make what it asks for, or install its kind"))
}

pub(super) fn credential(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["cannot get credential `"])?;
    let secret = between(said.text, "Secret `", "`").unwrap_or_default();
    let (namespace, name) = secret.split_once('/').unwrap_or(("", secret));
    let id = Id::new("v1", "Secret", namespace, name);
    let cause = Cause { object: id.clone(), ..suspect.own(said) };
    Some(cause.advice(format!("kubectl get {}", id.arguments())))
}

pub(super) fn input(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&["cannot get the input of"])?;
    Some(suspect.own(said).advice("make the object that the step's inputRef names"))
}

pub(super) fn failed(suspect: &Suspect<'_>) -> Option<Cause> {
    let said = suspect.said(&[
        "the function at ",
        "cannot run pipeline step",
        "cannot run Composition pipeline step",
    ])?;
    Some(inspect(cause(suspect, said)))
}
