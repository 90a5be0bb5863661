//! Copies connection details from the Secret of a composite resource to that of its claim.

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::{ObjectHeader, ObjectPath, Resource, Subresource, cache_key};
use ferroplane_engine::composite::may_be_connection_secret_of;
use serde_json::{Value, json};

use super::controller::Controller;
use super::settle::ClaimProblem;

/// The reason of events about connection details.
pub(super) const PROPAGATE: &str = "PropagateConnectionSecret";

/// The result of copying connection details.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Handover {
    /// The claim's Secret changed.
    pub(super) is_changed: bool,
    /// They were published within this second. If others are published before it is over, their time is the same.
    pub(super) is_fresh: bool,
}

/// Identifies the connection details that were copied: references and times of both objects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Propagated {
    /// The reference to the composite resource's Secret.
    from: Value,
    published: Value,
    /// The name of the claim's Secret.
    pub(crate) to: String,
}

impl Propagated {
    /// The namespace and the name of the composite resource's Secret.
    pub(crate) fn source(&self) -> (&str, &str) {
        let text = |field: &str| self.from.get(field).and_then(Value::as_str).unwrap_or_default();
        (text("namespace"), text("name"))
    }
}

impl Controller {
    /// Copy connection details. Details that were copied before are not read again until the composite resource has published others, or
    /// the claim's Secret has changed.
    pub(super) async fn propagate(
        &self,
        claim: &Object,
        composite: &Object,
    ) -> Result<Handover, ClaimProblem> {
        let name = cache_key(meta::namespace(claim), meta::name(claim));
        let Some(details) = details(claim, composite) else {
            self.propagated.forget(&name);
            return Ok(Handover::default());
        };
        let secret = (meta::namespace(claim).to_owned(), details.to.clone());
        // Registered first, then read: otherwise a change in between would be missed.
        let before = self.propagated.follow(&name, &secret);
        if self.propagated.holds(&name, &details, before) {
            return Ok(Handover::default());
        }
        let is_fresh = details.published == self.context.clock.now();
        let data = self.read(composite, &details).await?;
        let (is_changed, version) = self.write(claim, &details.to, data).await?;
        let epoch = self.propagated.seen(&secret, version, before);
        // Times have a resolution of seconds. Details that are published later in the same second look the same, so
        // that they are read again when it is over.
        if !is_fresh {
            self.propagated.remember(&name, details, epoch);
        }
        Ok(Handover { is_changed, is_fresh })
    }

    /// The connection details of a composite resource.
    async fn read(&self, composite: &Object, details: &Propagated) -> Result<Option<Value>, ClaimProblem> {
        let (namespace, name) = details.source();
        let path = ObjectPath { resource: &secrets(), namespace, name };
        let secret = self.context.cluster.get_object(path).await;
        let secret = secret
            .map_err(ClaimProblem::doing(PROPAGATE, "read the composite resource's connection secret"))?;
        own_data(composite, details, secret)
    }

    /// Write the claim's Secret. Returns whether that changed anything, and the version that it has now.
    async fn write(
        &self,
        claim: &Object,
        name: &str,
        data: Option<Value>,
    ) -> Result<(bool, u64), ClaimProblem> {
        let (resource, namespace) = (secrets(), meta::namespace(claim));
        let path = ObjectPath { resource: &resource, namespace, name };
        let fail = ClaimProblem::doing(PROPAGATE, "write the connection secret");
        let present = self.context.cluster.get_object(path).await.map_err(&fail)?;
        let version = present.as_ref().map(meta::resource_version).and_then(|version| version.parse().ok());
        let is_new = present.is_none();
        let Some(secret) = copied(claim, name, present, data)? else {
            return Ok((false, version.unwrap_or_default()));
        };
        let cluster = &self.context.cluster;
        let written = if is_new {
            cluster.create(&resource, namespace, &secret).await
        } else {
            cluster.replace(path, Subresource::None, &secret).await
        };
        let version = ObjectHeader::read(&written.map_err(&fail)?).map_or(0, |header| header.version());
        Ok((true, version))
    }
}

/// The data of a composite resource's Secret, if the Secret is its own: otherwise a user could read any Secret through it.
pub(crate) fn own_data(
    composite: &Object,
    details: &Propagated,
    secret: Option<Object>,
) -> Result<Option<Value>, ClaimProblem> {
    let (namespace, name) = details.source();
    let Some(mut secret) = secret else {
        let message = format!("cannot find the composite resource's connection secret `{namespace}/{name}`");
        return Err(ClaimProblem::new(PROPAGATE, Cause::ConnectionSecretNotFound, message).requeued());
    };
    if meta::controller_uid(&secret) != Some(meta::uid(composite)) {
        let message = format!(
            "cannot propagate the connection secret `{namespace}/{name}`: the composite resource does not control it"
        );
        return Err(ClaimProblem::new(PROPAGATE, Cause::ConnectionSecretControlled, message).requeued());
    }
    Ok(secret.remove("data"))
}

/// The claim's Secret with this data. None if it has the data already, and the claim controls it.
pub(crate) fn copied(
    claim: &Object,
    name: &str,
    present: Option<Object>,
    data: Option<Value>,
) -> Result<Option<Object>, ClaimProblem> {
    let Some(mut present) = present else { return Ok(Some(secret(claim, name, data))) };
    refuse_another(claim, &present)?;
    let is_controlled = meta::controller_uid(&present) == Some(meta::uid(claim));
    if is_controlled && present.get("data") == data.as_ref() {
        return Ok(None);
    }
    match data {
        Some(data) => present.insert("data".to_owned(), data),
        None => present.remove("data"),
    };
    meta::set_controller(&mut present, claim);
    Ok(Some(present))
}

/// The source and the target of connection details. None if one of them names no Secret.
pub(crate) fn details(claim: &Object, composite: &Object) -> Option<Propagated> {
    let reference = |object: &Object| object.get("spec")?.get("writeConnectionSecretToRef").cloned();
    let status = composite.get("status");
    let published = status.and_then(|status| status.get("connectionDetails")?.get("lastPublishedTime"));
    let to = reference(claim)?.get("name")?.as_str()?.to_owned();
    Some(Propagated { from: reference(composite)?, published: published.cloned().unwrap_or_default(), to })
}

/// Refuse to write to a Secret that belongs to something else, or that contains something else.
fn refuse_another(claim: &Object, secret: &Object) -> Result<(), ClaimProblem> {
    if may_be_connection_secret_of(claim, secret) {
        return Ok(());
    }
    let message =
        format!("cannot write the connection secret `{}`: it belongs to another object", meta::name(secret));
    Err(ClaimProblem::new(PROPAGATE, Cause::ConnectionSecretControlled, message).requeued())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_that_is_missing_or_belongs_to_something_else_is_not_read() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let composite = object(json!({"metadata": {"uid": "composite"}}));
        let details = Propagated {
            from: json!({"namespace": "kube-system", "name": "login"}),
            published: Value::Null,
            to: "login".to_owned(),
        };
        let secret = |owner: &str| {
            let owners = json!([{"uid": owner, "controller": true}]);
            object(json!({"metadata": {"ownerReferences": owners}, "data": {"a": "Yg=="}}))
        };
        let read =
            |secret: Option<Object>| own_data(&composite, &details, secret).map_err(|problem| problem.cause);
        assert_eq!(read(None), Err(Cause::ConnectionSecretNotFound));
        assert_eq!(read(Some(secret("another"))), Err(Cause::ConnectionSecretControlled));
        assert_eq!(read(Some(secret("composite"))), Ok(Some(json!({"a": "Yg=="}))));
    }
}
