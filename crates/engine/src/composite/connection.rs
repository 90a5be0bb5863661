//! Connection details: which Secret contains those of an object, and its data.

use std::collections::BTreeMap;

use bytes::Bytes;
use ferroplane_api::{Object, keys, meta};
use ferroplane_golang::base64;
use serde_json::{Value, json};

use crate::inputs::Layout;

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
