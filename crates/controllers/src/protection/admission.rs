//! Refuses to delete what is in use.
//!
//! An API server asks before it deletes something that is marked as used. How the question gets here is for whoever runs
//! us to say: over HTTPS, or from the same process.

use std::sync::{Arc, Weak};

use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Subresource};
use ferroplane_engine::{chain, in_use_message};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::context::Context;
use crate::protection::usage::{Usages, as_used};
use crate::setup::webhook;

/// Where questions are sent to.
pub const PATH: &str = "/validate-no-usages";
pub(crate) const CONFIGURATION: &str = "crossplane-no-usages";
const WEBHOOK: &str = "nousages.protection.crossplane.io";

/// Knows what is in use, for as long as controllers run.
#[derive(Debug, Clone)]
pub struct Protection {
    context: Weak<Context>,
    usages: Weak<Usages>,
    /// Where it notes what it refused, if not where controllers write.
    cluster: Option<ApiClient>,
}

/// Why there is no plain answer.
struct Refusal {
    code: u16,
    message: String,
}

impl Protection {
    pub(crate) fn new(context: &Arc<Context>, usages: &Arc<Usages>) -> Self {
        Self { context: Arc::downgrade(context), usages: Arc::downgrade(usages), cluster: None }
    }

    /// The same, but what is noted is written by this client: it may write when controllers may not.
    #[must_use]
    pub fn noting_by(self, client: kube::Client) -> Self {
        Self { cluster: Some(ApiClient::new(client)), ..self }
    }

    /// Have the API server ask before it deletes something that is in use, at this address (a `clientConfig`).
    pub async fn announce(&self, address: &Value) -> Result<(), Error> {
        match self.context.upgrade() {
            Some(context) => {
                let configuration = webhook::configuration(CONFIGURATION, hook(address));
                webhook::announce(&context.cluster, &configuration).await
            }
            None => Ok(()),
        }
    }

    /// Answer an `AdmissionReview` with another.
    pub async fn review(&self, review: Value) -> Value {
        let request = &review["request"];
        let mut response = match self.judge(request).await {
            Ok(None) => json!({"allowed": true}),
            Ok(Some(usages)) => {
                let reason = in_use_message(&usages);
                json!({"allowed": false, "status": {"code": 409, "reason": reason}})
            }
            Err(refusal) => {
                let status = json!({"code": refusal.code, "message": refusal.message});
                json!({"allowed": false, "status": status})
            }
        };
        response["uid"] = request["uid"].clone();
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    /// The usages that stand in the way, if there are any.
    async fn judge(&self, request: &Value) -> Result<Option<Vec<Object>>, Refusal> {
        let bad = |message: String| Refusal { code: 400, message };
        let operation = request["operation"].as_str().unwrap_or_default();
        if operation != "DELETE" {
            return Err(bad(format!("cannot judge `{operation}`, only `DELETE`")));
        }
        let object = request["oldObject"].as_object();
        let object = object.ok_or_else(|| bad("there is no object to delete".to_owned()))?;
        // Nobody knows what is in use: then everything may be.
        let gone =
            || Refusal { code: 503, message: "cannot tell what is in use: the plane is stopping".to_owned() };
        let (context, usages) = self.context.upgrade().zip(self.usages.upgrade()).ok_or_else(gone)?;
        let keys = usages.of(&as_used(object));
        let usages: Vec<_> = keys.iter().filter_map(|key| usages.object(key)).collect();
        if usages.is_empty() {
            return Ok(None);
        }
        info!(kind = meta::kind(object), name = meta::name(object), "refused to delete what is in use");
        if request["dryRun"] != true {
            let policy = request["options"]["propagationPolicy"].as_str().unwrap_or("Background");
            note_attempt(self.cluster.as_ref().unwrap_or(&context.cluster), object, policy).await?;
        }
        Ok(Some(usages))
    }
}

/// Write down that somebody wanted it gone, so that it can be deleted when it is no longer used.
async fn note_attempt(cluster: &ApiClient, object: &Object, policy: &str) -> Result<(), Refusal> {
    if meta::annotation(object, keys::DELETION_ATTEMPT) == policy {
        return Ok(());
    }
    let failed = |error: Error| {
        let (kind, name, message) = (meta::kind(object), meta::name(object), chain(&error));
        warn!(kind, name, error = message, "cannot note that a deletion was refused");
        Refusal { code: 500, message: format!("cannot note that the deletion was refused: {message}") }
    };
    let resource = cluster.resource(meta::api_version(object), meta::kind(object)).await.map_err(failed)?;
    let Some(resource) = resource else { return Ok(()) };
    let target =
        ObjectPath { resource: &resource, namespace: meta::namespace(object), name: meta::name(object) };
    // Whatever else happens to it: only not to another one of the same name.
    let patch = json!({
        "metadata": {"uid": meta::uid(object), "annotations": {keys::DELETION_ATTEMPT: policy}},
    });
    match cluster.merge(target, Subresource::None, &patch).await {
        Err(error) if !error.is_not_found() => Err(failed(error)),
        _ => Ok(()),
    }
}

/// The webhook, at an address.
pub(crate) fn hook(address: &Value) -> Value {
    json!({
        "name": WEBHOOK,
        "clientConfig": address,
        "rules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["DELETE"], "scope": "*",
        }],
        "objectSelector": {"matchLabels": {keys::IN_USE: "true"}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}
