//! Managed resource definitions: how they are made from a provider's definitions, which of them a policy activates, which CRD an active
//! one becomes, and whether a provider waits for it.
//!
//! Follows Crossplane 2.4.0, `apis/apiextensions/v1alpha1/managed_types.go`, `internal/controller/apiextensions/managed` and
//! `internal/converter/custom_to_managed.go`.

use ferroplane_api::{Cause, Condition, Object, Status, keys, meta};
use serde_json::{Value, json};

use super::establish::owners;
use super::health::AWAITING_ACTIVATION;
use crate::definition::{NotOurs, keep_certificates, refuse_another_owner};

const ACTIVE: &str = "Active";
const SAFE_START: &str = "safestart";
/// Kinds that configure providers. They are no managed resources, and are needed before any of those.
const CONFIGURATION: &[&str] =
    &["ProviderConfig", "ClusterProviderConfig", "ProviderConfigUsage", "ClusterProviderConfigUsage"];

/// The managed resource definition for the `CustomResourceDefinition` of a managed resource. None for any other object. It is active at
/// once if the provider cannot run without it.
pub fn managed_definition(object: &Object, capabilities: &[String]) -> Option<Object> {
    let is_definition = meta::kind(object) == "CustomResourceDefinition"
        && meta::group(meta::api_version(object)) == "apiextensions.k8s.io";
    let kind = spec(object, "names").and_then(|names| names.get("kind")?.as_str()).unwrap_or_default();
    if !is_definition || CONFIGURATION.contains(&kind) {
        return None;
    }
    let mut definition = object.clone();
    definition.insert("apiVersion".to_owned(), json!(format!("{}/v1alpha1", keys::APIEXTENSIONS)));
    definition.insert("kind".to_owned(), json!("ManagedResourceDefinition"));
    // Generators leave these fields in files.
    definition.remove("status");
    if !capabilities.iter().any(|capability| is_safe_start(capability)) {
        definition = activate_kind(&definition);
    }
    Some(definition)
}

/// Whether a managed resource definition is active.
pub fn is_active_kind(definition: &Object) -> bool {
    spec(definition, "state").and_then(Value::as_str) == Some(ACTIVE)
}

/// The definition, active.
#[must_use]
pub fn activate_kind(definition: &Object) -> Object {
    let mut activated = definition.clone();
    meta::child(&mut activated, "spec").insert("state".to_owned(), ACTIVE.into());
    activated
}

/// Whether a policy activates a definition of this name: by the name, or by a pattern such as `*` or `*.example.org`.
pub fn activates(policy: &Object, name: &str) -> bool {
    let patterns = spec(policy, "activate").and_then(Value::as_array).into_iter().flatten();
    patterns.filter_map(Value::as_str).any(|pattern| match pattern.strip_prefix('*') {
        None => pattern == name,
        Some("") => true,
        Some(suffix) => suffix.starts_with('.') && name.len() > suffix.len() && name.ends_with(suffix),
    })
}

/// The `CustomResourceDefinition` of an active definition. It has the same controller as the definition.
pub fn defined_kind(definition: &Object) -> Object {
    let mut fields = definition.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    for own in ["state", "connectionDetails"] {
        fields.remove(own);
    }
    // Sorted as in Crossplane: in another order it would be a different definition after a takeover.
    if let Some(Value::Array(versions)) = fields.get_mut("versions") {
        versions.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    }
    let kind = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": meta::name(definition)}, "spec": fields,
    });
    let mut kind = kind.as_object().cloned().unwrap_or_default();
    set_kind_owners(&mut kind, Vec::new(), definition);
    kind
}

/// Update an existing `CustomResourceDefinition`. One that belongs to something else is left alone: it has no owner in common with the
/// definition, and it has a controller, or no package installed the definition.
pub fn adopt_managed_kind(present: &Object, wanted: &Object, definition: &Object) -> Result<Object, NotOurs> {
    let family: Vec<Value> = owners(definition).iter().map(|owner| owner["uid"].clone()).collect();
    let is_family = |owner: &Value| owner["uid"] == meta::uid(definition) || family.contains(&owner["uid"]);
    if !owners(present).iter().any(is_family) {
        refuse_another_owner(present, meta::uid(definition))?;
        if meta::controller(definition).is_none() && meta::annotation(present, keys::ADOPT) != "true" {
            return Err(NotOurs::Foreign { name: meta::name(present).to_owned() });
        }
    }
    let mut adopted = present.clone();
    let mut fields = wanted.get("spec").cloned().unwrap_or_default();
    keep_certificates(present, &mut fields);
    adopted.insert("spec".to_owned(), fields);
    set_kind_owners(&mut adopted, owners(present), definition);
    Ok(adopted)
}

/// The definition owns its kind; the controller of the definition becomes its controller.
fn set_kind_owners(kind: &mut Object, mut all: Vec<Value>, definition: &Object) {
    let controller = meta::controller(definition).cloned().map(Value::Object);
    // A former controller of the definition no longer owns the kind.
    let is_it =
        |owner: &Value| controller.as_ref().is_some_and(|controller| controller["uid"] == owner["uid"]);
    all.retain(|owner| owner["controller"] != true || is_it(owner));
    if !all.iter().any(|owner| owner["uid"] == meta::uid(definition)) {
        all.push(json!({
            "apiVersion": meta::api_version(definition), "kind": meta::kind(definition),
            "name": meta::name(definition), "uid": meta::uid(definition),
        }));
    }
    if let Some(controller) = controller {
        match all.iter_mut().find(|owner| owner["uid"] == controller["uid"]) {
            Some(present) => *present = controller,
            None => all.push(controller),
        }
    }
    meta::child(kind, "metadata").insert("ownerReferences".to_owned(), Value::Array(all));
}

/// The state of the kind of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagedKindStanding {
    Inactive,
    /// The API server does not serve it yet.
    Pending,
    Served,
    /// It cannot be created or updated, for this reason.
    Blocked {
        message: String,
        cause: Cause,
    },
}

/// The condition for this state.
pub fn managed_kind_condition(standing: &ManagedKindStanding) -> Condition {
    let established = |status, reason: &str| Condition::new("Established", status, reason);
    match standing {
        ManagedKindStanding::Inactive => established(Status::False, "InactiveManagedResource")
            .with_message("No ManagedResourceActivationPolicy activates it"),
        ManagedKindStanding::Pending => established(Status::False, "PendingManagedResource")
            .with_message("The API server does not serve the CustomResourceDefinition yet"),
        ManagedKindStanding::Served => established(Status::True, "EstablishedManagedResource"),
        ManagedKindStanding::Blocked { message, cause } => {
            established(Status::False, "BlockedManagedResource")
                .with_message(message.as_str())
                .with_failure((*cause).into())
        }
    }
}

/// The default policy of a control plane.
pub fn default_policy(activations: &[String]) -> Object {
    let policy = json!({
        "apiVersion": format!("{}/v1alpha1", keys::APIEXTENSIONS), "kind": "ManagedResourceActivationPolicy",
        "metadata": {"name": "default"}, "spec": {"activate": activations},
    });
    policy.as_object().cloned().unwrap_or_default()
}

/// The condition of an active policy.
pub fn policy_condition() -> Condition {
    Condition::new("Healthy", Status::True, "Running")
}

/// Decides whether a provider waits.
#[derive(Debug, Clone, Copy)]
pub struct ProviderActivation<'a> {
    pub capabilities: &'a [String],
    /// The objects that the revision installed.
    pub references: &'a [Value],
    /// Whether it ran before. If it did, it continues.
    pub has_run: bool,
}

/// Whether a provider has nothing to do: it can wait for its kinds, installed some as managed resource definitions, and none of those is
/// active.
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
        .with_message("None of the provider's kinds is active: it does not run until a ManagedResourceActivationPolicy activates one")
}

/// Whether a capability is safe-start, in any spelling.
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
    fn kind_that_cannot_be_created_has_a_code_and_one_that_is_not_active_has_none() {
        let message = "cannot create it".to_owned();
        let blocked = ManagedKindStanding::Blocked { message, cause: Cause::ObjectControlled };
        assert_eq!(managed_kind_condition(&blocked).cause(), Some(Cause::ObjectControlled));
        for standing in [ManagedKindStanding::Inactive, ManagedKindStanding::Pending] {
            assert_eq!(managed_kind_condition(&standing).cause(), None);
        }
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
        let owner = json!({"apiVersion": "apiextensions.crossplane.io/v1alpha1", "kind": "ManagedResourceDefinition",
            "name": "buckets.aws.example.org", "uid": "u"});
        assert_eq!(owners(&kind), [owner], "nobody controls what nobody controls the definition of");
        let expected = json!({"group": "aws.example.org", "scope": "Cluster", "versions": [],
            "names": {"kind": "Bucket", "plural": "buckets"}});
        assert_eq!(kind["spec"], expected);
    }

    fn crd(kind: &str) -> Object {
        object(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "buckets.aws.example.org", "annotations": {"a": "b"}},
            "spec": {"group": "aws.example.org", "names": {"kind": kind, "plural": "buckets"},
                "versions": [{"name": "v1beta1"}, {"name": "v1alpha1"}]},
            "status": {"storedVersions": []},
        }))
    }

    #[test]
    fn kinds_of_a_provider_become_managed_definitions_that_are_active_unless_it_can_wait() {
        let definition = managed_definition(&crd("Bucket"), &[]).unwrap();
        assert_eq!(meta::kind(&definition), "ManagedResourceDefinition");
        assert_eq!(meta::api_version(&definition), "apiextensions.crossplane.io/v1alpha1");
        assert_eq!(meta::annotation(&definition, "a"), "b");
        assert!(is_active_kind(&definition) && !definition.contains_key("status"));
        let waiting = managed_definition(&crd("Bucket"), &["SafeStart".to_owned()]).unwrap();
        assert_eq!(waiting["spec"].get("state"), None, "the API server fills in that it is not active");
        for configuration in CONFIGURATION {
            assert_eq!(managed_definition(&crd(configuration), &[]), None, "{configuration}");
        }
        assert_eq!(managed_definition(&definition, &[]), None);
        assert_eq!(defined_kind(&definition)["spec"]["versions"][0]["name"], "v1alpha1");
    }

    fn controlled_by(revision: &str) -> Object {
        let mut definition = definition("Active");
        let owners = json!([
            {"apiVersion": "pkg.crossplane.io/v1", "kind": "ProviderRevision", "name": "p-1", "uid": "r1", "controller": revision == "r1"},
            {"apiVersion": "pkg.crossplane.io/v1", "kind": "ProviderRevision", "name": "p-2", "uid": "r2", "controller": revision == "r2"},
            {"apiVersion": "pkg.crossplane.io/v1", "kind": "Provider", "name": "p", "uid": "p", "controller": false},
        ]);
        meta::child(&mut definition, "metadata").insert("ownerReferences".to_owned(), owners);
        definition
    }

    fn owner_names(kind: &Object) -> Vec<(String, bool)> {
        let name = |owner: &Value| (owner["uid"].as_str().unwrap().to_owned(), owner["controller"] == true);
        owners(kind).iter().map(name).collect()
    }

    #[test]
    fn kind_of_a_provider_is_controlled_by_the_revision_that_controls_its_definition() {
        let first = defined_kind(&controlled_by("r1"));
        assert_eq!(owner_names(&first), [("u".to_owned(), false), ("r1".to_owned(), true)]);
        let next = controlled_by("r2");
        let moved = adopt_managed_kind(&first, &defined_kind(&next), &next).unwrap();
        let expected = [("u", false), ("r2", true)].map(|(uid, is)| (uid.to_owned(), is));
        assert_eq!(owner_names(&moved), expected);
        assert_eq!(adopt_managed_kind(&moved, &defined_kind(&next), &next).unwrap(), moved);
    }

    #[test]
    fn kind_that_belongs_to_somebody_else_is_left_alone() {
        let own = controlled_by("r1");
        let with_owner = |owner: &Value| {
            let mut kind = crd("Bucket");
            meta::child(&mut kind, "metadata").insert("ownerReferences".to_owned(), json!([owner]));
            kind
        };
        let foreign = with_owner(
            &json!({"kind": "ProviderRevision", "name": "evil-1", "uid": "e", "controller": true}),
        );
        assert!(matches!(
            adopt_managed_kind(&foreign, &defined_kind(&own), &own),
            Err(NotOurs::Controlled { .. })
        ));
        // The package wrote it before managed resource definitions existed.
        let older = with_owner(&json!({"kind": "Provider", "name": "p", "uid": "p", "controller": false}));
        assert!(adopt_managed_kind(&older, &defined_kind(&own), &own).is_ok());
        // It has no controller: a package takes it, and a definition that a user wrote by hand does not.
        assert!(adopt_managed_kind(&crd("Bucket"), &defined_kind(&own), &own).is_ok());
        let by_hand = definition("Active");
        let refused = adopt_managed_kind(&crd("Bucket"), &defined_kind(&by_hand), &by_hand);
        assert!(matches!(refused, Err(NotOurs::Foreign { .. })));
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
