//! Points the webhooks of a package to its pods.
//!
//! Follows Crossplane 2.4.0, `internal/controller/pkg/revision/establisher.go`.

use ferroplane_api::{Object, PackageKind, meta};
use serde_json::{Value, json};

/// The address of the webhooks of a package.
#[derive(Debug, Clone, Copy)]
pub struct WebhookAddress<'a> {
    pub kind: PackageKind,
    /// The name of the package.
    pub package: &'a str,
    /// The Service of its pods.
    pub service: &'a Object,
    /// The CA certificate, in base64.
    pub authority: &'a str,
}

/// An object with the address of the package's webhooks. None if the object has no webhooks.
pub fn with_webhook_address(object: &Object, address: &WebhookAddress<'_>) -> Option<Object> {
    if is_webhook_configuration(object) {
        return Some(configuration(object, address));
    }
    if !converts_by_webhook(object) {
        return None;
    }
    let mut object = object.clone();
    let conversion = meta::child(meta::child(&mut object, "spec"), "conversion");
    point(meta::child(conversion, "webhook"), address);
    Some(object)
}

/// Whether an object registers webhooks.
pub fn is_webhook_configuration(object: &Object) -> bool {
    meta::group(meta::api_version(object)) == "admissionregistration.k8s.io"
        && meta::kind(object).ends_with("WebhookConfiguration")
}

/// Whether an object defines a kind whose versions a webhook converts.
pub fn converts_by_webhook(object: &Object) -> bool {
    let conversion = object.get("spec").and_then(|spec| spec.get("conversion")?.get("strategy"));
    meta::kind(object).ends_with("ResourceDefinition")
        && conversion.and_then(Value::as_str) == Some("Webhook")
}

/// Packages are generated with configurations of one common name, so that it is made unique.
fn configuration(object: &Object, address: &WebhookAddress<'_>) -> Object {
    let mut object = object.clone();
    let kind = address.kind.name().to_ascii_lowercase();
    meta::set_field(&mut object, "name", &format!("crossplane-{kind}-{}", address.package));
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(webhook) = webhook.as_object_mut() {
            point(webhook, address);
        }
    }
    object
}

fn point(webhook: &mut Object, address: &WebhookAddress<'_>) {
    let client = meta::child(webhook, "clientConfig");
    client.insert("caBundle".to_owned(), address.authority.into());
    let port = address.service["spec"]["ports"][0]["port"].clone();
    let service = meta::child(client, "service");
    service.insert("name".to_owned(), meta::name(address.service).into());
    service.insert("namespace".to_owned(), meta::namespace(address.service).into());
    service.insert("port".to_owned(), if port.is_null() { json!(9443) } else { port });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: &Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn webhooks_of_a_package_lead_to_its_service() {
        let service = object(&json!({
            "metadata": {"name": "it", "namespace": "system"}, "spec": {"ports": [{"port": 9443}]},
        }));
        let address = WebhookAddress {
            kind: PackageKind::Provider,
            package: "it",
            service: &service,
            authority: "Q0E=",
        };
        let client =
            json!({"caBundle": "Q0E=", "service": {"name": "it", "namespace": "system", "port": 9443}});
        let hooks = object(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validating-webhook-configuration"},
            "webhooks": [{"name": "a", "clientConfig": {"service": {"name": "x", "namespace": "y", "path": "/validate"}}}],
        }));
        let hooks = with_webhook_address(&hooks, &address).unwrap();
        assert_eq!(meta::name(&hooks), "crossplane-provider-it");
        let mut with_path = client.clone();
        with_path["service"]["path"] = json!("/validate");
        assert_eq!(hooks["webhooks"][0]["clientConfig"], with_path);
        let crd = |conversion: &Value| {
            object(&json!({"kind": "CustomResourceDefinition", "spec": {"conversion": conversion}}))
        };
        let versions = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}});
        let converted = with_webhook_address(&crd(&versions), &address).unwrap();
        assert_eq!(
            converted["spec"]["conversion"]["webhook"],
            json!({"conversionReviewVersions": ["v1"], "clientConfig": client})
        );
        assert_eq!(with_webhook_address(&crd(&json!({"strategy": "None"})), &address), None);
    }
}
