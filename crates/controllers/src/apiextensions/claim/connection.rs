//! Hands connection details on: from the Secret of a composite resource to that of its claim.

use std::sync::PoisonError;

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::{ObjectPath, Resource, Subresource, cache_key};
use ferroplane_engine::composite::may_be_connection_secret_of;
use serde_json::{Value, json};

use super::controller::Controller;
use super::settle::ClaimProblem;

/// The reason of events about connection details.
pub(super) const PROPAGATE: &str = "PropagateConnectionSecret";

/// What came of handing connection details on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Handover {
    /// The claim's Secret changed.
    pub(super) is_changed: bool,
    /// They were published in this very second. If others are published before it is over, nobody can tell.
    pub(super) is_fresh: bool,
}

/// Which connection details were handed on: what the two say about them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Propagated {
    from: Value,
    published: Value,
    to: String,
}

impl Controller {
    /// Hand on connection details. What was handed on before is not asked for again until the composite resource says that
    /// it has published something else.
    pub(super) async fn propagate(
        &self,
        claim: &Object,
        composite: &Object,
    ) -> Result<Handover, ClaimProblem> {
        let Some(details) = details(claim, composite) else { return Ok(Handover::default()) };
        let name = cache_key(meta::namespace(claim), meta::name(claim));
        if self.propagated.lock().unwrap_or_else(PoisonError::into_inner).get(&name) == Some(&details) {
            return Ok(Handover::default());
        }
        let is_fresh = details.published == self.context.clock.now();
        let data = self.read(composite, &details.from).await?;
        let is_changed = self.write(claim, &details.to, data).await?;
        // Times have seconds. What is published later in the same one looks the same, so that it is read again when the second
        // is over.
        if !is_fresh {
            self.propagated.lock().unwrap_or_else(PoisonError::into_inner).insert(name, details);
        }
        Ok(Handover { is_changed, is_fresh })
    }

    /// The claim is gone.
    pub(super) fn forget(&self, name: &str) {
        self.propagated.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The connection details of a composite resource, if they are its own: nobody gets to read a Secret by way of it.
    async fn read(&self, composite: &Object, from: &Value) -> Result<Option<Value>, ClaimProblem> {
        let text = |field: &str| from.get(field).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let path = ObjectPath { resource: &secrets(), namespace, name };
        let secret = self.context.cluster.get_object(path).await;
        let secret = secret
            .map_err(ClaimProblem::doing(PROPAGATE, "read the composite resource's connection secret"))?;
        let Some(mut secret) = secret else {
            let message =
                format!("cannot find the composite resource's connection secret `{namespace}/{name}`");
            return Err(
                ClaimProblem::new(PROPAGATE, Cause::ConnectionSecretNotFound, message).looked_at_again()
            );
        };
        if meta::controller_uid(&secret) != Some(meta::uid(composite)) {
            let message = format!(
                "cannot propagate the connection secret `{namespace}/{name}`: the composite resource does not control it"
            );
            return Err(
                ClaimProblem::new(PROPAGATE, Cause::ConnectionSecretControlled, message).looked_at_again()
            );
        }
        Ok(secret.remove("data"))
    }

    /// Make the claim's Secret say this. Whether that changed anything.
    async fn write(&self, claim: &Object, name: &str, data: Option<Value>) -> Result<bool, ClaimProblem> {
        let (resource, namespace) = (secrets(), meta::namespace(claim));
        let path = ObjectPath { resource: &resource, namespace, name };
        let fail = ClaimProblem::doing(PROPAGATE, "write the connection secret");
        let Some(mut present) = self.context.cluster.get_object(path).await.map_err(&fail)? else {
            let secret = secret(claim, name, data);
            self.context.cluster.create(&resource, namespace, &secret).await.map_err(&fail)?;
            return Ok(true);
        };
        refuse_another(claim, &present)?;
        if present.get("data") == data.as_ref() {
            return Ok(false);
        }
        match data {
            Some(data) => present.insert("data".to_owned(), data),
            None => present.remove("data"),
        };
        meta::set_controller(&mut present, claim);
        self.context.cluster.replace(path, Subresource::None, &present).await.map_err(&fail)?;
        Ok(true)
    }
}

/// Where connection details come from and go to. Nothing if either does not say so.
fn details(claim: &Object, composite: &Object) -> Option<Propagated> {
    let reference = |object: &Object| object.get("spec")?.get("writeConnectionSecretToRef").cloned();
    let status = composite.get("status");
    let published = status.and_then(|status| status.get("connectionDetails")?.get("lastPublishedTime"));
    let to = reference(claim)?.get("name")?.as_str()?.to_owned();
    Some(Propagated { from: reference(composite)?, published: published.cloned().unwrap_or_default(), to })
}

/// A Secret that belongs to somebody else, or that holds something else, is not written to.
fn refuse_another(claim: &Object, secret: &Object) -> Result<(), ClaimProblem> {
    if may_be_connection_secret_of(claim, secret) {
        return Ok(());
    }
    let message =
        format!("cannot write the connection secret `{}`: it belongs to another object", meta::name(secret));
    Err(ClaimProblem::new(PROPAGATE, Cause::ConnectionSecretControlled, message).looked_at_again())
}

fn secret(claim: &Object, name: &str, data: Option<Value>) -> Object {
    let mut secret = Object::new();
    for (field, value) in [
        ("apiVersion", json!("v1")),
        ("kind", json!("Secret")),
        ("type", json!(keys::CONNECTION_SECRET)),
        ("data", data.unwrap_or_else(|| json!({}))),
    ] {
        secret.insert(field.to_owned(), value);
    }
    meta::set_field(&mut secret, "name", name);
    meta::set_field(&mut secret, "namespace", meta::namespace(claim));
    meta::set_controller(&mut secret, claim);
    secret
}

fn secrets() -> Resource {
    Resource {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        plural: "secrets".to_owned(),
        is_namespaced: true,
    }
}
