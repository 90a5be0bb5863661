//! Connection details: which Secret contains those of an object, its data, and what of it functions may see.

use std::collections::BTreeMap;

use bytes::Bytes;
use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_golang::base64;
use serde_json::{Value, json};

use super::events::COMPOSE;
use crate::inputs::Layout;
use crate::outcome::Event;

/// The namespace and name of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretReference<'a> {
    /// Empty if the reference has none. No API server has such a Secret; files may.
    pub namespace: &'a str,
    pub name: &'a str,
}

/// The Secret with the connection details of a composed resource, if it has one.
pub fn connection_secret(object: &Object) -> Option<SecretReference<'_>> {
    let reference = object.get("spec")?.get("writeConnectionSecretToRef")?;
    let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
    let own = meta::namespace(object);
    // The Secret of a namespaced object is in the same namespace, whatever the reference says.
    let namespace = if own.is_empty() { text("namespace") } else { own };
    let name = text("name");
    (!name.is_empty()).then_some(SecretReference { namespace, name })
}

/// The same of a composite resource. Only legacy ones have connection details.
pub fn composite_connection_secret(composite: &Object, layout: Layout) -> Option<SecretReference<'_>> {
    match layout {
        Layout::Legacy => connection_secret(composite),
        Layout::Modern => None,
    }
}

/// Whether a Secret may contain the connection details of an object: the object controls it, or it has no controller and the type of
/// connection secrets. Any other Secret belongs to something else, whatever the object says.
pub fn may_be_connection_secret_of(object: &Object, secret: &Object) -> bool {
    match meta::controller_uid(secret) {
        Some(controller) => controller == meta::uid(object),
        None => secret.get("type").and_then(Value::as_str) == Some(keys::CONNECTION_SECRET),
    }
}

/// What functions see of the connection Secret of a composed resource.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ConnectionDetails {
    pub data: BTreeMap<String, Bytes>,
    /// Says that the Secret belongs to another object, if it does.
    pub event: Option<Event>,
}

/// What functions see of the connection Secret of a composed resource.
pub fn composed_connection_details(
    composite: &Object,
    composed: &Object,
    secret: Option<&Object>,
) -> Result<ConnectionDetails, BadSecret> {
    let Some(secret) = secret else { return Ok(ConnectionDetails::default()) };
    // A namespaced composite resource may read every Secret in its namespace anyway. Any other could name a Secret of something else.
    if meta::namespace(composite).is_empty() && !may_be_connection_secret_of(composed, secret) {
        let event = Some(foreign_secret(composed, secret));
        return Ok(ConnectionDetails { data: BTreeMap::new(), event });
    }
    Ok(ConnectionDetails { data: secret_data(secret)?, event: None })
}

/// What functions see of the connection Secret of the composite resource itself.
pub fn own_connection_details(
    composite: &Object,
    secret: Option<&Object>,
) -> Result<BTreeMap<String, Bytes>, BadSecret> {
    // A user who may create a composite resource may name any Secret in it. Only the one that was published for it is its own;
    // publishing reports if it cannot write to another one.
    let is_own = |secret: &&Object| meta::controller_uid(secret) == Some(meta::uid(composite));
    secret.filter(is_own).map_or_else(|| Ok(BTreeMap::new()), secret_data)
}

fn foreign_secret(composed: &Object, secret: &Object) -> Event {
    let message = format!(
        "connection details of {} `{}` are not read: Secret `{}/{}` belongs to another object",
        meta::kind(composed),
        meta::name(composed),
        meta::namespace(secret),
        meta::name(secret)
    );
    Event::failure(COMPOSE, message, Cause::ConnectionSecretControlled.into())
}

/// The connection secret of a composite resource that names none.
pub(super) fn default_connection_secret(
    composite: &Object,
    layout: Layout,
    namespace: Option<&str>,
) -> Option<Value> {
    let namespace = namespace.filter(|_| layout == Layout::Legacy)?;
    let own = composite.get("spec").and_then(|spec| spec.get("writeConnectionSecretToRef"));
    // The uid is unique across namespaces and kinds, and never changes; Crossplane names these Secrets by it.
    own.is_none().then(|| json!({"name": meta::uid(composite), "namespace": namespace}))
}

/// Why a Secret is invalid: no API server would accept it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    #[error("its `data.{0}` is not base64")]
    NotBase64(String),
    #[error("its `stringData.{0}` is not text")]
    NotText(String),
}

/// The data of a Secret.
///
/// `stringData` counts too. An API server encodes it when a Secret is written and never returns it, so that only Secrets that are read
/// from files have it.
pub fn secret_data(secret: &Object) -> Result<BTreeMap<String, Bytes>, BadSecret> {
    let entries = |field| secret.get(field).and_then(Value::as_object).into_iter().flatten();
    let mut data = BTreeMap::new();
    for (key, value) in entries("data") {
        let decoded = value.as_str().and_then(decode_secret);
        data.insert(key.clone(), decoded.ok_or_else(|| BadSecret::NotBase64(key.clone()))?);
    }
    for (key, value) in entries("stringData") {
        let clear = value.as_str().ok_or_else(|| BadSecret::NotText(key.clone()))?;
        data.insert(key.clone(), clear.to_owned().into());
    }
    Ok(data)
}

/// Decode an entry of the `data` of a Secret as an API server does: line breaks are allowed, and trailing bits that belong to no byte are
/// ignored.
pub fn decode_secret(text: &str) -> Option<Bytes> {
    base64::decode(text.as_bytes()).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &Value) -> Object {
        json.as_object().unwrap().clone()
    }

    #[test]
    fn secrets_are_decoded() {
        let secret = object(&json!({"data": {"a": "dG9r\nZW4="}, "stringData": {"b": "clear"}}));
        assert_eq!(
            secret_data(&secret).unwrap(),
            BTreeMap::from([("a".to_owned(), "token".into()), ("b".to_owned(), "clear".into())])
        );
    }

    fn secret(kind: &str, controller: Option<&str>) -> Object {
        let owners: Vec<_> =
            controller.map(|uid| json!({"uid": uid, "controller": true})).into_iter().collect();
        let metadata = json!({"namespace": "n", "name": "s", "ownerReferences": owners});
        object(&json!({"metadata": metadata, "type": kind, "data": {"a": "dG9rZW4="}}))
    }

    #[test]
    fn cluster_scoped_composite_sees_only_secrets_that_may_belong_to_what_it_composes() {
        let composite = object(&json!({"metadata": {"name": "x", "uid": "x"}}));
        let composed = object(&json!({"kind": "Room", "metadata": {"name": "r", "uid": "r"}}));
        for (kind, controller, is_seen) in [
            ("Opaque", None, false),
            (keys::CONNECTION_SECRET, None, true),
            ("Opaque", Some("r"), true),
            (keys::CONNECTION_SECRET, Some("another"), false),
        ] {
            let secret = secret(kind, controller);
            let details = composed_connection_details(&composite, &composed, Some(&secret)).unwrap();
            assert_eq!(!details.data.is_empty(), is_seen, "{kind} {controller:?}");
            let message = details.event.map(|event| event.message);
            let foreign =
                "connection details of Room `r` are not read: Secret `n/s` belongs to another object";
            assert_eq!(message.as_deref(), (!is_seen).then_some(foreign), "{kind} {controller:?}");
        }
        assert_eq!(
            composed_connection_details(&composite, &composed, None),
            Ok(ConnectionDetails::default())
        );
    }

    #[test]
    fn namespaced_composite_sees_every_secret_that_what_it_composes_names() {
        let composite = object(&json!({"metadata": {"name": "x", "namespace": "n", "uid": "x"}}));
        let composed = object(&json!({"metadata": {"name": "r", "namespace": "n", "uid": "r"}}));
        let details =
            composed_connection_details(&composite, &composed, Some(&secret("Opaque", None))).unwrap();
        assert_eq!((details.data.len(), details.event), (1, None));
    }

    #[test]
    fn composite_sees_only_the_connection_secret_that_it_controls() {
        let composite = object(&json!({"metadata": {"name": "x", "uid": "x"}}));
        let seen = |secret: &Object| own_connection_details(&composite, Some(secret)).unwrap().len();
        assert_eq!(seen(&secret(keys::CONNECTION_SECRET, Some("x"))), 1);
        assert_eq!(seen(&secret(keys::CONNECTION_SECRET, Some("another"))), 0);
        assert_eq!(seen(&secret(keys::CONNECTION_SECRET, None)), 0);
        assert_eq!(own_connection_details(&composite, None), Ok(BTreeMap::new()));
    }

    #[test]
    fn secret_that_no_cluster_would_hold_is_refused() {
        for text in ["YWI=", "YW\nI=\r\n", "YWJ="] {
            assert_eq!(decode_secret(text).as_deref(), Some(b"ab".as_slice()), "{text:?}");
        }
        for value in [json!("not base64!"), json!(1)] {
            let error = secret_data(&object(&json!({"data": {"a": value}}))).unwrap_err();
            assert_eq!(error.to_string(), "its `data.a` is not base64");
        }
    }

    #[test]
    fn secret_of_a_namespaced_object_is_in_its_namespace() {
        let named = json!({"writeConnectionSecretToRef": {"name": "s", "namespace": "elsewhere"}});
        let there = object(&json!({"metadata": {"namespace": "here"}, "spec": named}));
        assert_eq!(connection_secret(&there), Some(SecretReference { namespace: "here", name: "s" }));
        let cluster = object(&json!({"spec": named}));
        assert_eq!(connection_secret(&cluster), Some(SecretReference { namespace: "elsewhere", name: "s" }));
        assert_eq!(composite_connection_secret(&cluster, Layout::Modern), None);
        assert_eq!(connection_secret(&object(&json!({"spec": {}}))), None);
    }
}
