//! Managed resource definitions: which of them a policy activates, what an active one becomes, and whether a provider waits for that.
//!
//! Follows Crossplane 2.4.0, `apis/apiextensions/v1alpha1/managed_types.go` and `internal/controller/apiextensions/managed`.

use ferroplane_api::{Condition, Object, Status, keys, meta};
use serde_json::{Value, json};

use super::health::AWAITING_ACTIVATION;

const ACTIVE: &str = "Active";
const SAFE_START: &str = "safestart";

/// Whether the kind of a managed resource definition can be used.
pub fn is_active_kind(definition: &Object) -> bool {
    spec(definition, "state").and_then(Value::as_str) == Some(ACTIVE)
}

/// The definition when its kind can be used.
#[must_use]
pub fn activate_kind(definition: &Object) -> Object {
    let mut activated = definition.clone();
    meta::child(&mut activated, "spec").insert("state".to_owned(), ACTIVE.into());
    activated
}

/// Whether a policy activates a definition of this name: it names it, or a pattern such as `*` or `*.example.org`.
pub fn activates(policy: &Object, name: &str) -> bool {
    let patterns = spec(policy, "activate").and_then(Value::as_array).into_iter().flatten();
    patterns.filter_map(Value::as_str).any(|pattern| match pattern.strip_prefix('*') {
        None => pattern == name,
        Some("") => true,
        Some(suffix) => suffix.starts_with('.') && name.len() > suffix.len() && name.ends_with(suffix),
    })
}

/// The `CustomResourceDefinition` that an active definition becomes.
pub fn defined_kind(definition: &Object) -> Object {
    let mut fields = definition.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    for own in ["state", "connectionDetails"] {
        fields.remove(own);
    }
    // Without `blockOwnerDeletion`: it would take a right on the finalizers of definitions.
    let owner = json!({
        "apiVersion": meta::api_version(definition), "kind": meta::kind(definition), "name": meta::name(definition),
        "uid": meta::uid(definition), "controller": true,
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": meta::name(definition), "ownerReferences": [owner]}, "spec": fields,
    });
    definition.as_object().cloned().unwrap_or_default()
}

/// How the kind of a definition is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagedKindStanding {
    Inactive,
    /// The API server does not serve it yet.
    Pending,
    Served,
    Blocked(String),
}

/// The condition that says so.
pub fn managed_kind_condition(standing: &ManagedKindStanding) -> Condition {
    let established = |status, reason: &str| Condition::new("Established", status, reason);
    match standing {
        ManagedKindStanding::Inactive => established(Status::False, "InactiveManagedResource")
            .with_message("no ManagedResourceActivationPolicy activates it"),
        ManagedKindStanding::Pending => established(Status::False, "PendingManagedResource")
            .with_message("waits until the API server serves the CustomResourceDefinition"),
        ManagedKindStanding::Served => established(Status::True, "EstablishedManagedResource"),
        ManagedKindStanding::Blocked(why) => {
            established(Status::False, "BlockedManagedResource").with_message(why.as_str())
        }
    }
}

/// The policy that a control plane begins with.
pub fn default_policy(activations: &[String]) -> Object {
    let policy = json!({
        "apiVersion": format!("{}/v1alpha1", keys::APIEXTENSIONS), "kind": "ManagedResourceActivationPolicy",
        "metadata": {"name": "default"}, "spec": {"activate": activations},
    });
    policy.as_object().cloned().unwrap_or_default()
}

/// The condition of a policy that is followed.
pub fn policy_condition() -> Condition {
    Condition::new("Healthy", Status::True, "Running")
}

/// What decides whether a provider waits.
#[derive(Debug, Clone, Copy)]
pub struct ProviderActivation<'a> {
    pub capabilities: &'a [String],
    /// What the revision brought.
    pub references: &'a [Value],
    /// Whether it ran before. Once it did, it goes on.
    pub has_run: bool,
}

/// Whether a provider has nothing to do: it can wait for its kinds, brought some as managed resource definitions, and none of those
/// is active.
pub fn awaits_activation(provider: ProviderActivation<'_>, is_active: impl Fn(&str) -> bool) -> bool {
    let is_definition = |reference: &&Value| {
        reference["kind"] == "ManagedResourceDefinition"
            && meta::group(reference["apiVersion"].as_str().unwrap_or_default()) == keys::APIEXTENSIONS
    };
    let mut names =
        provider.references.iter().filter(is_definition).filter_map(|it| it["name"].as_str()).peekable();
    !provider.has_run
        && provider.capabilities.iter().any(|capability| is_safe_start(capability))
        && names.peek().is_some()
        && !names.any(is_active)
}

/// The condition of a provider that waits.
pub fn awaiting_activation() -> Condition {
    Condition::new("RuntimeActive", Status::False, AWAITING_ACTIVATION)
        .with_message("none of the kinds that it brings is activated: it has no pods until a ManagedResourceActivationPolicy activates one")
}

/// Whether a capability is that of waiting for kinds, however it is spelled.
pub(super) fn is_safe_start(capability: &str) -> bool {
    let plain: String = capability.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.eq_ignore_ascii_case(SAFE_START)
}

fn spec<'a>(object: &'a Object, field: &str) -> Option<&'a Value> {
    object.get("spec").and_then(|spec| spec.get(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: &Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    fn definition(state: &str) -> Object {
        object(&json!({
            "apiVersion": "apiextensions.crossplane.io/v1alpha1", "kind": "ManagedResourceDefinition",
            "metadata": {"name": "buckets.aws.example.org", "uid": "u"},
            "spec": {"state": state, "connectionDetails": [], "group": "aws.example.org", "scope": "Cluster",
                "names": {"kind": "Bucket", "plural": "buckets"}, "versions": []},
        }))
    }

    #[test]
    fn policy_activates_by_name_and_by_pattern() {
        let activates = |pattern: &str| {
            activates(&object(&json!({"spec": {"activate": [pattern]}})), "buckets.aws.example.org")
        };
        for matching in ["*", "buckets.aws.example.org", "*.aws.example.org", "*.org"] {
            assert!(activates(matching), "{matching}");
        }
        for other in
            ["buckets", "*ws.example.org", "*.buckets.aws.example.org", "buckets.*", "", "*.gcp.example.org"]
        {
            assert!(!activates(other), "{other}");
        }
    }

    #[test]
    fn active_definition_becomes_a_kind_without_what_is_its_own() {
        assert!(!is_active_kind(&definition("Inactive")));
        let active = activate_kind(&definition("Inactive"));
        assert!(is_active_kind(&active));
        let kind = defined_kind(&active);
        assert_eq!(
            (meta::kind(&kind), meta::name(&kind)),
            ("CustomResourceDefinition", "buckets.aws.example.org")
        );
        assert_eq!(meta::controller_uid(&kind), Some("u"));
        let expected = json!({"group": "aws.example.org", "scope": "Cluster", "versions": [],
            "names": {"kind": "Bucket", "plural": "buckets"}});
        assert_eq!(kind["spec"], expected);
    }

    #[test]
    fn provider_waits_only_if_it_can_and_has_something_to_wait_for_and_never_ran() {
        let capabilities = ["SafeStart".to_owned()];
        let references = [
            json!({"apiVersion": "apiextensions.crossplane.io/v1alpha1", "kind": "ManagedResourceDefinition", "name": "a"}),
        ];
        let provider =
            ProviderActivation { capabilities: &capabilities, references: &references, has_run: false };
        assert!(awaits_activation(provider, |_| false));
        assert!(!awaits_activation(provider, |name| name == "a"));
        assert!(!awaits_activation(ProviderActivation { has_run: true, ..provider }, |_| false));
        assert!(!awaits_activation(ProviderActivation { capabilities: &[], ..provider }, |_| false));
        assert!(!awaits_activation(ProviderActivation { references: &[], ..provider }, |_| false));
    }
}
