//! Refuses to delete objects in use, and to write usages that refer to other namespaces.
//!
//! An API server calls this webhook before it deletes an object that is marked as used. The process that runs the controllers serves it:
//! over HTTPS, or in the same process.
//!
//! # Invariants
//! * Only reviews of the API server arrive here: it is in this process, or it has shown the secret that the path ends in.
//! * Only the identity of an object in a request counts: the rest is read from the API server.

use std::sync::{Arc, Weak};

use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Resource, Subresource};
use ferroplane_engine::{USAGE_WEBHOOKS, chain, in_use_message, out_of_namespace, out_of_scope, usage_spec};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::context::Context;
use crate::protection::usage::{Usages, as_used};
use crate::setup::webhook;

/// The path of the webhook.
pub const PATH: &str = "/validate-no-usages";
pub(crate) const CONFIGURATION: &str = USAGE_WEBHOOKS;
const WEBHOOK: &str = "nousages.protection.crossplane.io";
const REACH_WEBHOOK: &str = "reach.protection.crossplane.io";

/// Knows which objects are in use, while the controllers run.
#[derive(Debug, Clone)]
pub struct Protection {
    context: Weak<Context>,
    usages: Weak<Usages>,
    /// The client for marks of refused deletions, if it is not that of the controllers.
    cluster: Option<ApiClient>,
}

/// Why a deletion is refused.
struct Refusal {
    code: u16,
    message: String,
}

impl Refusal {
    fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl Protection {
    pub(crate) fn new(context: &Arc<Context>, usages: &Arc<Usages>) -> Self {
        Self { context: Arc::downgrade(context), usages: Arc::downgrade(usages), cluster: None }
    }

    /// The same, with a client that may write when controllers may not.
    #[must_use]
    pub fn noting_by(self, client: kube::Client) -> Self {
        Self { cluster: Some(ApiClient::new(client)), ..self }
    }

    /// Register the webhook at this address (a `clientConfig`).
    pub async fn announce(&self, address: &Value) -> Result<(), Error> {
        match self.context.upgrade() {
            Some(context) => {
                let configuration = webhook::configuration(CONFIGURATION, hooks(address));
                webhook::announce(&context.cluster, &configuration).await
            }
            None => Ok(()),
        }
    }

    /// Answer an `AdmissionReview` of the API server.
    pub async fn review(&self, review: Value) -> Value {
        let request = &review["request"];
        let judged = match request["operation"].as_str().unwrap_or_default() {
            "DELETE" => self.judge_deletion(request).await,
            "CREATE" | "UPDATE" => self.judge_usage(request).await,
            operation => Err(Refusal::new(400, format!("cannot review the operation `{operation}`"))),
        };
        let mut response = match judged {
            Ok(None) => json!({"allowed": true}),
            Ok(Some(reason)) => json!({"allowed": false, "status": {"code": 409, "reason": reason}}),
            Err(Refusal { code, message }) => {
                json!({"allowed": false, "status": {"code": code, "message": message}})
            }
        };
        response["uid"] = request["uid"].clone();
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    /// Why an object cannot be deleted, if usages protect it.
    async fn judge_deletion(&self, request: &Value) -> Result<Option<String>, Refusal> {
        let object = request["oldObject"].as_object();
        let object = object.ok_or_else(|| Refusal::new(400, "there is no object to delete"))?;
        let (context, usages) = self.context.upgrade().zip(self.usages.upgrade()).ok_or_else(stopping)?;
        let keys = usages.of(&as_used(object));
        let usages: Vec<_> = keys.iter().filter_map(|key| usages.object(key)).collect();
        if usages.is_empty() {
            return Ok(None);
        }
        info!(
            kind = meta::kind(object),
            name = meta::name(object),
            "denied the deletion of a resource that is in use"
        );
        if request["dryRun"] != true {
            let policy = request["options"]["propagationPolicy"].as_str().unwrap_or("Background");
            let noting = self.cluster.as_ref().unwrap_or(&context.cluster);
            note_attempt(noting, object, policy).await?;
        }
        Ok(Some(in_use_message(&usages)))
    }

    /// Refuse a usage that would protect nothing when it is written. Controllers check again: not every API server calls the webhook, and
    /// kinds may be installed later.
    async fn judge_usage(&self, request: &Value) -> Result<Option<String>, Refusal> {
        let Some(usage) = request["object"].as_object() else {
            return Err(Refusal::new(400, "the request has no Usage"));
        };
        let is_settled = request["oldObject"]["spec"] == request["object"]["spec"];
        let Some(spec) = usage_spec(usage).filter(|_| !is_settled) else { return Ok(None) };
        if let Some(message) = out_of_namespace(usage, &spec) {
            return Err(Refusal::new(422, message));
        }
        let context = self.context.upgrade().ok_or_else(stopping)?;
        let kind = context.cluster.resource(&spec.of.api_version, &spec.of.kind).await;
        let is_cluster_scoped = kind.is_ok_and(|kind| kind.is_some_and(|kind| !kind.is_namespaced));
        if is_cluster_scoped && !meta::namespace(usage).is_empty() {
            return Err(Refusal::new(422, out_of_scope(&spec)));
        }
        Ok(None)
    }
}

/// Refuse while controllers stop: every object may be in use then.
fn stopping() -> Refusal {
    Refusal::new(503, "cannot check usages: the control plane is stopping")
}

/// Record that a deletion was refused, so that it can be replayed when the object is no longer used.
async fn note_attempt(cluster: &ApiClient, object: &Object, policy: &str) -> Result<(), Refusal> {
    let failed = |error: Error| {
        let (kind, name, message) = (meta::kind(object), meta::name(object), chain(&error));
        warn!(kind, name, error = message, "cannot record that a deletion was denied");
        Refusal::new(500, format!("cannot record that the deletion was denied: {message}"))
    };
    let resource = cluster.resource(meta::api_version(object), meta::kind(object)).await.map_err(failed)?;
    let Some(resource) = resource else { return Ok(()) };
    let target = path_of(&resource, object);
    // The object in the request may be old, or forged.
    let Some(live) = cluster.get_object(target).await.map_err(failed)? else { return Ok(()) };
    let is_meant = meta::uid(&live) == meta::uid(object) && meta::label(&live, keys::IN_USE) == "true";
    if !is_meant || meta::annotation(&live, keys::DELETION_ATTEMPT) == policy {
        return Ok(());
    }
    // In any version of the object, but not another object of the same name.
    let patch = json!({
        "metadata": {"uid": meta::uid(&live), "annotations": {keys::DELETION_ATTEMPT: policy}},
    });
    match cluster.merge(target, Subresource::None, &patch).await {
        Err(error) if !error.is_not_found() => Err(failed(error)),
        _ => Ok(()),
    }
}

fn path_of<'a>(resource: &'a Resource, object: &'a Object) -> ObjectPath<'a> {
    ObjectPath { resource, namespace: meta::namespace(object), name: meta::name(object) }
}

/// The webhook configuration for an address.
pub(crate) fn hooks(address: &Value) -> Vec<Value> {
    let deletions = json!({
        "name": WEBHOOK,
        "clientConfig": address,
        "rules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["DELETE"], "scope": "*",
        }],
        "objectSelector": {"matchLabels": {keys::IN_USE: "true"}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let usages = json!({
        "name": REACH_WEBHOOK,
        "clientConfig": address,
        "rules": [{
            "apiGroups": [keys::PROTECTION], "apiVersions": ["*"], "resources": ["usages"],
            "operations": ["CREATE", "UPDATE"], "scope": "Namespaced",
        }],
        // Controllers refuse the same usages, so that a failing webhook must not block writes.
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    vec![deletions, usages]
}
