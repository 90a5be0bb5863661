//! Rules about calls of functions.

use ferroplane_api::{Object, keys, meta};

use ferroplane_engine::wording::split_grant;
use ferroplane_engine::{GRANT_API_VERSION, GRANT_KIND};
use serde_json::json;

use super::{Suspect, describe};
use crate::complaint::Complaint;
use crate::finding::Finding;
use crate::id::Id;
use crate::look::{Role, condition, credential_of, function};
use crate::snapshot::Home;
use crate::steps::steps;
use crate::texts;
use crate::words::one_line;

/// The function that is to blame: the one that the step calls.
fn blamed(suspect: &Suspect<'_>, said: Complaint<'_>) -> Option<Id> {
    let steps = steps(suspect.pipeline()?);
    steps.iter().find(|step| Some(step.name) == said.step).map(|step| function(step.function))
}

fn cause(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let own = suspect.own(said);
    match blamed(suspect, said) {
        Some(object) => Finding { object, ..own },
        None => own,
    }
}

/// What reads a function: where it is served, its revisions and, on a cluster, its pods.
fn inspect(suspect: &Suspect<'_>, cause: Finding) -> Finding {
    let name = cause.object.name.clone();
    if cause.object.kind != "Function" {
        return cause;
    }
    if let Some(target) = suspect.snapshot.object(&cause.object).and_then(development_target) {
        return cause.advice(format!("start the function, so that it listens on {target}")).advice(format!(
            "or correct the annotation {}: kubectl edit function/{name}",
            keys::FUNCTION_TARGET
        ));
    }
    let cause = cause.advice(format!("kubectl get functionrevisions -l pkg.crossplane.io/package={name}"));
    match suspect.snapshot.home() {
        // Which namespace its pods are in depends on where the control plane was installed.
        Home::Cluster => cause
            .advice(format!("kubectl get pods --all-namespaces -l pkg.crossplane.io/function={name}"))
            .advice("read what they print: kubectl logs -n NAMESPACE POD --tail=50"),
        Home::Embedded => cause,
    }
}

/// The address of a function under development.
pub(super) fn development_target(function: &Object) -> Option<&str> {
    let target = meta::annotation(function, keys::FUNCTION_TARGET);
    let target = if target.is_empty() { keys::DEFAULT_FUNCTION_TARGET } else { target };
    (meta::annotation(function, keys::FUNCTION_RUNTIME) == "Development").then_some(target)
}

pub(super) fn missing(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = cause(suspect, said);
    // It may be there and not yet be what it should be: then that is why.
    if let Some(object) = suspect.snapshot.object(&cause.object) {
        let wrong = ["Installed", "Healthy"].into_iter().filter_map(|kind| condition(object, kind));
        if let Some(wrong) = wrong.into_iter().find(|condition| !condition.is_true()) {
            // What this plane says has a code, and needs no introduction.
            let message = match wrong.code {
                "" => format!("is not {}: {}", wrong.kind.to_lowercase(), wrong.words()),
                _ => wrong.words().to_owned(),
            };
            let cause = Finding::new(&cause.object, &message).since(wrong.since).step(cause.step.as_deref());
            return cause.clone().advice(describe(&cause.object));
        }
    }
    let cause = cause.advice("install the Function, or correct `functionRef.name`");
    cause.advice("kubectl get functions").advice("ferroplane functions versions")
}

pub(super) fn not_runnable(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = cause(suspect, said).advice("ferroplane functions versions");
    cause.clone().advice(describe(&cause.object))
}

pub(super) fn inactive(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = cause(suspect, said);
    let name = cause.object.name.clone();
    let cause = cause.advice(format!("kubectl get functionrevisions -l pkg.crossplane.io/package={name}"));
    cause.advice(format!(
        "kubectl patch function.pkg.crossplane.io/{name} --type=merge -p '{{\"spec\":{{\"revisionActivationPolicy\":\"Automatic\"}}}}'"
    ))
}

pub(super) fn version(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    cause(suspect, said).advice("ferroplane functions versions").advice("kubectl get functionrevisions")
}

/// The step is to blame, not the function: it uses a feature that is off.
pub(super) fn selectors_off(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding = suspect.own(said);
    finding
        .advice("start the control plane with --enable-function-revision-selectors")
        .advice("or remove functionRevisionRef and functionRevisionSelector from the step")
}

pub(super) fn capability(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = cause(suspect, said);
    if suspect.role == Role::Operation {
        return cause.advice("use a version of the function that has the capability `operation`: ferroplane functions versions");
    }
    cause.advice("use a version of the function that can compose, or call it from an Operation")
}

pub(super) fn tls(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = inspect(suspect, cause(suspect, said));
    // `start` takes the flag with the directory as well, but only so that Crossplane's arguments work: it reads a Secret.
    cause.advice(match suspect.snapshot.home() {
        Home::Cluster => {
            "check the Secret `crossplane-tls-client` in the control plane's namespace, or the one that --tls-client-secret-name \
             names: its ca.crt must have signed the certificate that the function shows"
        }
        Home::Embedded => {
            "check the certificates in --tls-client-certs-dir: ca.crt must have signed the certificate that the function shows"
        }
    })
}

pub(super) fn slow(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    inspect(suspect, cause(suspect, said))
}

pub(super) fn crashing(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    inspect(suspect, cause(suspect, said))
}

pub(super) fn unreachable(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    inspect(suspect, cause(suspect, said))
}

pub(super) fn answer(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let files = if suspect.role == Role::Operation { "OPERATION.yaml" } else { "XR.yaml COMPOSITION.yaml" };
    cause(suspect, said).advice(format!("run it alone: ferroplane render {files}"))
}

pub(super) fn fatal(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let cause = suspect.own(said);
    let cause = match blamed(suspect, said).filter(|_| cause.step.is_some()) {
        Some(function) => cause.advice(format!(
            "function `{}` returned this error: correct its input, or the fields that it reads",
            function.name
        )),
        None => cause,
    };
    cause.advice(describe(suspect.id))
}

pub(super) fn requirements_unstable(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let finding = cause(suspect, said);
    finding.advice("correct the function: it must return the same requirements once it has the objects")
}

pub(super) fn requirement(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let field = said.resource.map(str::to_owned);
    Finding { field, ..suspect.own(said) }.advice("create the required object, or install its kind")
}

pub(super) fn credential(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let pipeline = suspect.pipeline();
    let secret = pipeline.and_then(|pipeline| credential_of(pipeline, said.step?, said.resource?));
    let Some((namespace, name)) = secret else { return suspect.own(said) };
    let id = Id::new("v1", "Secret", namespace, name);
    let cause = Finding { object: id.clone(), ..suspect.own(said) };
    cause.advice(format!("kubectl get {}", id.arguments()))
}

/// A user who writes the XR cannot help, so the advice is for an administrator: the smallest grant that would do.
pub(super) fn access_not_granted(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    let own = suspect.own(said);
    let Some((text, spec)) = split_grant(texts::failure_in(said.text, said.step)) else { return own };
    let finding = Finding { message: one_line(text), ..own };
    let namespace = &suspect.id.namespace;
    let finding = if spec.run.is_empty() {
        finding
            .advice(format!("have the step read objects in namespace `{namespace}`"))
            .advice("or ask an administrator whether the step may read it: an AccessGrant would allow that")
    } else {
        finding.advice("ask an administrator whether the image may do that: an AccessGrant would allow it")
    };
    let grant = json!({
        "apiVersion": GRANT_API_VERSION, "kind": GRANT_KIND,
        "metadata": {"name": format!("{namespace}-{}", suspect.id.name).trim_start_matches('-')}, "spec": spec,
    });
    let grant = grant.to_string();
    // Functions choose what they ask for, and people paste this into a shell.
    if grant.contains('\'') {
        return finding;
    }
    finding.advice(format!("kubectl apply -f - <<< '{grant}'"))
}

pub(super) fn input(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    suspect.own(said).advice("make the object that the step's inputRef names")
}

pub(super) fn failed(suspect: &Suspect<'_>, said: Complaint<'_>) -> Finding {
    inspect(suspect, cause(suspect, said))
}
