//! Asks all webhooks that want to be asked: those that change things one after the other, the rest at once.

use std::collections::HashSet;
use std::sync::Arc;

use ferroplane_schema::patch::json::Patch;
use ferroplane_schema::status::Status;
use ferroplane_schema::writes::Body;
use futures_util::future::join_all;
use serde_json::Value;

use super::Webhooks;
use super::admission_request::{AdmissionRequest, Operation, VersionedAttributes};
use super::admission_review::{self, AdmissionResponse};
use super::call::CallFailure;
use super::in_process::InProcessWebhooks;
use super::webhook::Webhook;
use crate::registry::Resource;
use crate::store::Store;

/// What webhooks said besides yes or no.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    pub(crate) warnings: Vec<String>,
    /// For the log of what was changed.
    pub(crate) annotations: Vec<(String, String)>,
}

impl Remarks {
    fn note(&mut self, hook: &Webhook, verdict: &mut AdmissionResponse) {
        self.warnings.append(&mut verdict.warnings);
        let annotations = verdict.annotations.drain(..);
        self.annotations.extend(annotations.map(|(key, value)| (format!("{}/{key}", hook.name), value)));
    }
}

impl Webhooks {
    /// Lets webhooks change the object of a request.
    pub(crate) async fn mutate(
        &self,
        request: &mut AdmissionRequest<'_>,
        store: &Store,
        remarks: &mut Remarks,
    ) -> Result<(), Status> {
        let configurations = self.mutating.load_full();
        if is_exempt(request.resource) || configurations.is_empty() {
            return Ok(());
        }
        let hooks: Vec<&Arc<Webhook>> = configurations.values().flatten().collect();
        let mut rounds = Rounds::default();
        // Twice at most, as Kubernetes does: two webhooks that undo each other must not continue for ever.
        for round in 0..2 {
            for (index, hook) in hooks.iter().enumerate() {
                if round == 1 && !rounds.again.contains(&index) {
                    continue;
                }
                let has_changed = match change(hook, request, &self.in_process, store, remarks).await? {
                    Invocation::Not => continue,
                    Invocation::Unchanged => false,
                    Invocation::Changed => true,
                };
                rounds.note(index, hook.is_asked_again, has_changed);
            }
        }
        Ok(())
    }

    /// Lets webhooks refuse a request.
    pub(crate) async fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        store: &Store,
        remarks: &mut Remarks,
    ) -> Result<(), Status> {
        // Kept for the whole request: a configuration that changes meanwhile counts for the next one.
        let configurations = self.validating.load_full();
        if is_exempt(request.resource) || configurations.is_empty() {
            return Ok(());
        }
        let mut wanted = Vec::new();
        for hook in configurations.values().flatten() {
            if let Some(shown) = hook.wants(request, store).await? {
                wanted.push((hook, shown));
            }
        }
        let asked =
            wanted.iter().map(|(hook, shown)| hook.ask(request, shown, false, &self.in_process, store));
        let mut outcome = Ok(());
        for ((hook, _), answer) in wanted.iter().zip(join_all(asked).await) {
            let judged = match answer {
                Ok(mut verdict) => {
                    remarks.note(hook, &mut verdict);
                    if verdict.is_allowed {
                        Ok(())
                    } else {
                        Err(admission_review::denied(&hook.name, verdict.status.as_ref()))
                    }
                }
                Err(failure) => hook.apply_failure_policy(failure),
            };
            // The first refusal, in the order of configurations, is returned; so are the warnings of all others.
            outcome = outcome.and(judged);
        }
        outcome
    }
}

/// Webhooks that are asked a second time, because others changed something after they were asked.
#[derive(Debug, Default)]
struct Rounds {
    asked: Vec<usize>,
    again: HashSet<usize>,
}

impl Rounds {
    fn note(&mut self, index: usize, is_asked_again: bool, has_changed: bool) {
        if has_changed {
            // Those asked before the change have judged another object. Those asked after it have not.
            self.again.extend(self.asked.drain(..));
        }
        if is_asked_again {
            self.asked.push(index);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Invocation {
    Not,
    Unchanged,
    Changed,
}

/// Calls a webhook and applies its response.
async fn change(
    hook: &Webhook,
    request: &mut AdmissionRequest<'_>,
    in_process: &InProcessWebhooks,
    store: &Store,
    remarks: &mut Remarks,
) -> Result<Invocation, Status> {
    let Some(shown) = hook.wants(request, store).await? else { return Ok(Invocation::Not) };
    let mut verdict = match hook.ask(request, &shown, true, in_process, store).await {
        Ok(verdict) => verdict,
        Err(failure) => return hook.apply_failure_policy(failure).map(|()| Invocation::Unchanged),
    };
    remarks.note(hook, &mut verdict);
    if !verdict.is_allowed {
        return Err(admission_review::denied(&hook.name, verdict.status.as_ref()));
    }
    let patched = match patched(hook, request, shown, &verdict) {
        Ok(Some(object)) => Ok(Some(request.converted(object, request.version, store).await?)),
        other => other,
    };
    match patched {
        Ok(Some(object)) if object != request.object => {
            request.object = object;
            Ok(Invocation::Changed)
        }
        Ok(_) => Ok(Invocation::Unchanged),
        Err(failure) => hook.apply_failure_policy(failure).map(|()| Invocation::Unchanged),
    }
}

/// The object as a webhook wants it, in the version that it was shown.
fn patched(
    hook: &Webhook,
    request: &AdmissionRequest<'_>,
    shown: VersionedAttributes,
    verdict: &AdmissionResponse,
) -> Result<Option<Value>, CallFailure> {
    if verdict.patch.is_empty() {
        return Ok(None);
    }
    let undecodable =
        |error: String| CallFailure::Call(format!("received undecodable patch in webhook response: {error}"));
    // Read before the operation is checked: a patch that says nothing is allowed everywhere, even for a deletion.
    let patch = Body::json(&verdict.patch).map_err(undecodable)?.value;
    if patch.is_null() || patch.as_array().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    let patch = Patch::decode(patch).map_err(|error| undecodable(error.to_string()))?;
    let broken = |why: &str| CallFailure::Refused(Status::internal(why));
    if request.operation == Operation::Delete {
        let words = "attempted to modify the object, which is not supported for this operation";
        return Err(broken(&format!("admission webhook {:?} {words}", hook.name)));
    }
    if verdict.patch_type != "JSONPatch" {
        return Err(CallFailure::Call(format!("unsupported patch type {:?}", verdict.patch_type)));
    }
    let VersionedAttributes { version, object: before, .. } = shown;
    let (api_version, kind) = (before["apiVersion"].clone(), before["kind"].clone());
    let Value::Object(mut object) = patch.apply(before).map_err(|error| broken(&error.to_string()))? else {
        return Err(broken("the patch of a webhook made something of the object that is none"));
    };
    if object.get("apiVersion") != Some(&api_version) || object.get("kind") != Some(&kind) {
        return Err(broken("the patch of a webhook changed the kind of the object"));
    }
    if request.part.is_none()
        && let Some(shown) = request.resource.served(&version)
    {
        // As if a client had sent it: a webhook can add fields that the version does not have, and they must not be stored.
        shown.behaviour.normalise(&mut object).map_err(|error| broken(&error))?;
    }
    Ok(Some(Value::Object(object)))
}

/// What configures admission is not subject to it.
pub(super) fn is_exempt(resource: &Resource) -> bool {
    resource.group == "admissionregistration.k8s.io"
}
