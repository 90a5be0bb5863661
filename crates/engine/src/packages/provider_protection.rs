//! The usage that keeps a Provider from being deleted while resources of one of its kinds exist.
//!
//! Follows Crossplane 2.4.0, `internal/controller/apiextensions/managed/protection.go`. Names, labels and texts are Crossplane's.

use ferroplane_api::{Object, keys, meta};
use ferroplane_wire::to_hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The field manager of these usages.
pub const PROTECTION_MANAGER: &str = "apiextensions.crossplane.io/managed-protection";
/// On usages: the control plane made it to protect a provider.
const PROTECTS: &str = "crossplane.io/provider-protection";
/// On usages: the managed resource definition because of which they exist.
const DEFINITION: &str = "apiextensions.crossplane.io/mrd";
/// As much of a hash as goes into a name, in bytes.
const HASH: usize = 26;

/// The name of the usage that protects a provider because of resources of this definition.
pub fn protecting_usage_name(definition: &str) -> String {
    let hash = Sha256::digest(definition);
    format!("provider-protection-{}", to_hex(&hash[..HASH]))
}

/// The usage that protects a provider because of resources of this definition.
pub fn protecting_usage(definition: &Object, provider: &str) -> Object {
    let name = meta::name(definition);
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let kind = format!("{}.{}", text("/names/kind"), text("/group"));
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1", "kind": "ClusterUsage",
        "metadata": {
            "name": protecting_usage_name(name),
            "labels": {PROTECTS: "true", keys::PACKAGE: provider, DEFINITION: name},
        },
        "spec": {
            "of": {"apiVersion": "pkg.crossplane.io/v1", "kind": "Provider", "resourceRef": {"name": provider}},
            "reason": format!("Provider has active managed resources of type {kind}"),
        },
    });
    usage.as_object().cloned().unwrap_or_default()
}

/// Whether the control plane made a usage to protect a provider. One that a user made under the same name stays.
pub fn is_protecting_usage(usage: &Object) -> bool {
    meta::label(usage, PROTECTS) == "true"
}

/// Whether a usage protects what another one should protect.
pub fn protects_the_same(present: &Object, wanted: &Object) -> bool {
    let provider = |usage: &Object| {
        let spec = usage.get("spec").unwrap_or(&Value::Null);
        spec.pointer("/of/resourceRef/name").cloned()
    };
    is_protecting_usage(present)
        && provider(present) == provider(wanted)
        && meta::label(present, keys::PACKAGE) == meta::label(wanted, keys::PACKAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_named_and_worded_as_in_crossplane() {
        let definition = json!({
            "metadata": {"name": "buckets.cloud.acme.org"},
            "spec": {"group": "cloud.acme.org", "names": {"kind": "Bucket"}},
        });
        let definition = definition.as_object().unwrap();
        let usage = protecting_usage(definition, "cloud");
        assert_eq!(
            meta::name(&usage),
            "provider-protection-62bcd02710ca5af17dbf79577efeba252c41ae434d1ac0d4473f"
        );
        assert_eq!(
            usage["spec"]["reason"],
            "Provider has active managed resources of type Bucket.cloud.acme.org"
        );
        assert_eq!(usage["spec"]["of"]["resourceRef"]["name"], "cloud");
        assert!(protects_the_same(&usage, &usage));
        assert!(!protects_the_same(&protecting_usage(definition, "other"), &usage));
        let mut foreign = usage.clone();
        meta::child(&mut foreign, "metadata").remove("labels");
        assert!(!is_protecting_usage(&foreign) && !protects_the_same(&foreign, &usage));
    }
}
