//! Publishes the connection details of legacy composite resources in Secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use bytes::Bytes;
use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::{ObjectHeader, ObjectPath, Subresource};
use ferroplane_engine::composite::{
    PUBLISH, SecretReference, composite_connection_secret, may_be_connection_secret_of, secret_data,
};
use serde_json::{Value, json};

use super::controller::Controller;
use super::problem::Problem;
use super::required::RequiredResources;
use super::secrets;

impl Controller {
    /// The Secret that connection details are written to, if the composite resource names one.
    pub(super) fn published_secret<'c>(&self, composite: &'c Object) -> Option<SecretReference<'c>> {
        let reference = composite_connection_secret(composite, self.layout);
        reference.filter(|reference| !reference.namespace.is_empty())
    }

    /// Write connection details to the Secret that the composite resource names, and watch it from now on. Returns whether that changed
    /// anything.
    pub(super) async fn publish(
        &self,
        composite: &Object,
        details: &BTreeMap<String, Bytes>,
        required: &RequiredResources<'_>,
    ) -> Result<bool, Problem> {
        let Some(SecretReference { namespace, name }) = self.published_secret(composite) else {
            return Ok(false);
        };
        let wanted = self.published(details);
        let cluster = &self.shared.context.cluster;
        let resource = secrets::resource();
        let target = ObjectPath { resource: &resource, namespace, name };
        let fail = |error| Problem::refused(PUBLISH, "cannot publish connection details", &error);
        let written = match required.secret(namespace, name).await.map_err(fail)? {
            None => {
                let secret = secret(composite, namespace, name, &wanted);
                cluster.create(&resource, namespace, &secret).await.map_err(fail)?
            }
            Some(present) => {
                refuse_foreign(composite, &present)?;
                let Some(patch) = changes(composite, &present, &wanted) else { return Ok(false) };
                cluster.merge(target, Subresource::None, &patch).await.map_err(fail)?
            }
        };
        let version = ObjectHeader::read(&written).map_or(0, |header| header.version());
        required.secret_written(namespace, name, version);
        Ok(true)
    }

    /// Only keys that the definition lists are published; all keys if it lists none.
    pub(super) fn published(&self, details: &BTreeMap<String, Bytes>) -> BTreeMap<String, Bytes> {
        let keys = self.kind.object.get("spec").and_then(|spec| spec.get("connectionSecretKeys")?.as_array());
        let keys = keys.map(Vec::as_slice).unwrap_or_default();
        let is_listed = |key: &String| keys.is_empty() || keys.iter().any(|listed| listed == key);
        details
            .iter()
            .filter(|(key, _)| is_listed(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

/// The patch for a connection Secret that lacks details, or whose controller was removed. Keys of other writers stay.
fn changes(composite: &Object, present: &Object, wanted: &BTreeMap<String, Bytes>) -> Option<Value> {
    let held = secret_data(present).unwrap_or_default();
    let is_up_to_date = wanted.iter().all(|(key, value)| held.get(key) == Some(value));
    let is_controlled = is_controlled_by(present, composite);
    if is_up_to_date && is_controlled {
        return None;
    }
    // Only the version that was checked is written: another owner may take the Secret over between the two
    // requests.
    let version = meta::resource_version(present);
    let mut patch = json!({"metadata": {"resourceVersion": version}, "data": encoded(wanted)});
    if !is_controlled {
        let mut controlled = present.clone();
        meta::set_controller(&mut controlled, composite);
        patch["metadata"]["ownerReferences"] = controlled["metadata"]["ownerReferences"].clone();
    }
    Some(patch)
}

/// Whether an object controls a Secret. One without a controller may be left over from a backup, and nothing would delete it.
pub(super) fn is_controlled_by(secret: &Object, owner: &Object) -> bool {
    meta::controller_uid(secret) == Some(meta::uid(owner))
}

/// Refuse to write to a Secret that belongs to something else.
pub(super) fn refuse_foreign(composite: &Object, secret: &Object) -> Result<(), Problem> {
    if may_be_connection_secret_of(composite, secret) {
        return Ok(());
    }
    let message = format!(
        "cannot publish connection details: Secret `{}/{}` belongs to another object",
        meta::namespace(secret),
        meta::name(secret)
    );
    Err(Problem::new(PUBLISH, Cause::ConnectionSecretControlled, message))
}

pub(super) fn secret(
    composite: &Object,
    namespace: &str,
    name: &str,
    details: &BTreeMap<String, Bytes>,
) -> Object {
    let mut secret = Object::new();
    secret.insert("apiVersion".to_owned(), "v1".into());
    secret.insert("kind".to_owned(), "Secret".into());
    secret.insert("type".to_owned(), keys::CONNECTION_SECRET.into());
    secret.insert("data".to_owned(), encoded(details));
    meta::set_field(&mut secret, "name", name);
    meta::set_field(&mut secret, "namespace", namespace);
    meta::set_controller(&mut secret, composite);
    secret
}

pub(super) fn encoded(details: &BTreeMap<String, Bytes>) -> Value {
    let encode = |(key, value): (&String, &Bytes)| {
        (key.clone(), Value::from(base64::engine::general_purpose::STANDARD.encode(value)))
    };
    Value::Object(details.iter().map(encode).collect())
}
