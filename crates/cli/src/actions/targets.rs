//! The objects that actions are about, as users of `kanctl` name them.

use ferroplane_api::Object;
use serde_json::{Value, json};

/// A reference to an object of a kind that Blueprints know by name, written `NAMESPACE/NAME` or `NAME`.
pub(crate) fn known(kind: &str, text: &str, namespace: &str) -> Result<Object, String> {
    let (namespace, name) = namespaced(text, namespace)?;
    Ok(object(json!({"kind": kind, "namespace": namespace, "name": name})))
}

/// A reference to a namespace.
pub(crate) fn of_namespace(name: &str) -> Result<Object, String> {
    if name.is_empty() || name.contains('/') {
        return Err(format!("`{name}` is not a valid name of a namespace"));
    }
    // Templates of Blueprints read one field, and the API server is asked for the other.
    Ok(object(json!({"kind": "namespace", "name": name, "namespace": name})))
}

/// A reference to any object, written `GROUP/VERSION/RESOURCE/NAMESPACE/NAME`; without the group for the core group.
pub(crate) fn any(text: &str) -> Result<Object, String> {
    let parts: Vec<_> = text.split('/').collect();
    let (group, rest) = match parts.as_slice() {
        [group, rest @ ..] if rest.len() == 4 => (*group, rest),
        rest if rest.len() == 4 => ("", rest),
        _ => return Err(format!("`{text}` is not GROUP/VERSION/RESOURCE/NAMESPACE/NAME")),
    };
    let [version, resource, namespace, name] = rest else {
        return Err(format!("`{text}` has too few parts"));
    };
    if [version, resource, name].iter().any(|part| part.is_empty()) {
        return Err(format!("`{text}` has an empty part"));
    }
    Ok(object(json!({
        "group": group, "apiVersion": version, "resource": resource, "namespace": namespace, "name": name,
    })))
}

/// A named reference, written `KEY=NAMESPACE/NAME`.
pub(crate) fn keyed(kind: &str, text: &str, namespace: &str) -> Result<(String, Object), String> {
    let (key, reference) = key_value(text)?;
    let (namespace, name) = namespaced(&reference, namespace)?;
    Ok((key, object(json!({"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}))))
}

/// A key and what comes behind the equals sign.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE")),
    }
}

fn namespaced<'t>(text: &'t str, namespace: &'t str) -> Result<(&'t str, &'t str), String> {
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(format!("`{text}` is not NAMESPACE/NAME"));
    }
    Ok((namespace, name))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_kanctl_reads_them() {
        let value = |read: Result<Object, String>| Value::Object(read.unwrap());
        assert_eq!(
            value(known("deployment", "shop/db", "x")),
            json!({"kind": "deployment", "namespace": "shop", "name": "db"})
        );
        assert_eq!(value(known("pvc", "data", "x"))["namespace"], "x");
        assert_eq!(
            value(any("apps/v1/deployments/shop/db")),
            json!({"group": "apps", "apiVersion": "v1", "resource": "deployments", "namespace": "shop", "name": "db"})
        );
        assert_eq!(value(any("v1/configmaps/shop/a"))["group"], "");
        assert_eq!(
            value(of_namespace("shop")),
            json!({"kind": "namespace", "name": "shop", "namespace": "shop"})
        );
        let (key, secret) = keyed("Secret", "login=shop/db", "x").unwrap();
        assert_eq!((key.as_str(), &secret["name"]), ("login", &json!("db")));
    }

    #[test]
    fn references_that_make_no_sense_are_refused() {
        assert!(known("deployment", "a/b/c", "x").is_err());
        assert!(known("deployment", "", "x").is_err());
        assert!(known("deployment", "/b", "x").is_err());
        assert!(any("deployments/shop/db").is_err());
        assert!(any("apps/v1//shop/db").is_err());
        assert!(of_namespace("a/b").is_err());
        assert!(keyed("Secret", "shop/db", "x").is_err());
        assert!(key_value("=x").is_err());
    }
}
