//! The rights of a provider: three `ClusterRole`s, and a binding of one of them to the service accounts of its pods.
//!
//! Follows Crossplane 2.4.0, `internal/controller/rbac/provider/roles/roles.go` and `binding/reconciler.go`.

use std::collections::BTreeSet;

use ferroplane_api::image::ImageReference;
use ferroplane_api::{Object, keys, meta};
use serde_json::{Map, Value, json};

use super::managed_kinds::is_safe_start;

const RBAC: &str = "rbac.authorization.k8s.io";
const PREFIX: &str = "crossplane:provider:";
const GATHERED: &str = "rbac.crossplane.io/aggregate-to-";
/// On the role of the pods: their revision.
const SYSTEM: &str = "rbac.crossplane.io/system";
const ALL: &[&str] = &["*"];
const READ: &[&str] = &["get", "list", "watch"];
const WORK: &[&str] = &["get", "list", "watch", "update", "patch", "create"];

/// A kind that a provider installed, in the order in which roles list them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinedResource {
    pub plural: String,
    pub group: String,
}

/// The kinds in the status of a revision that it really installed. A user who can write the status of a revision must not gain rights on
/// other kinds by naming them.
pub fn defined_resources(revision: &Object, is_own: impl Fn(&str) -> bool) -> Vec<DefinedResource> {
    let references = revision.get("status").and_then(|status| status.get("objectRefs")?.as_array());
    let mut found = Vec::new();
    for reference in references.into_iter().flatten() {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let is_definition = match text("kind") {
            "CustomResourceDefinition" => meta::group(text("apiVersion")) == "apiextensions.k8s.io",
            "ManagedResourceDefinition" => meta::group(text("apiVersion")) == keys::APIEXTENSIONS,
            _ => false,
        };
        let Some((plural, group)) = text("name").split_once('.').filter(|_| is_definition) else { continue };
        if is_own(text("name")) {
            found.push(DefinedResource { plural: plural.to_owned(), group: group.to_owned() });
        }
    }
    found
}

/// Whether two images belong to one organisation in one registry. Only then are their packages of one family: any other package could
/// name the family to gain rights on its kinds.
pub fn share_organization(one: &str, other: &str) -> bool {
    fn organization(image: &str) -> Option<(&str, &str)> {
        let (registry, path) = ImageReference::parse(image).repository.split_once('/')?;
        Some((registry, path.split('/').next()?))
    }
    organization(one).is_some() && organization(one) == organization(other)
}

/// The roles of a provider for these kinds. None without kinds.
pub fn provider_roles(revision: &Object, resources: Vec<DefinedResource>) -> Vec<Object> {
    let resources: BTreeSet<_> = resources.into_iter().collect();
    if resources.is_empty() {
        return Vec::new();
    }
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for DefinedResource { plural, group } in resources {
        let names = [plural.clone(), format!("{plural}/status")];
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, plurals)) => plurals.extend(names),
            None => groups.push((group, names.into())),
        }
    }
    let rules = |verbs: &[&str]| -> Vec<Value> {
        let rule = |(group, plurals): &(String, Vec<String>)| json!({"apiGroups": [group], "resources": plurals, "verbs": verbs});
        groups.iter().map(rule).collect()
    };
    let mut system = rules(WORK);
    let names: Vec<_> = groups.iter().map(|(group, _)| group).collect();
    // `OwnerReferencesPermissionEnforcement` requires this before a managed resource may own a Secret.
    system.push(json!({"apiGroups": names, "resources": ["*/finalizers"], "verbs": ["update"]}));
    // Credentials, connection details, leader election, and events.
    let common = ["secrets", "configmaps", "events", "leases"];
    system.push(json!({"apiGroups": ["", "coordination.k8s.io"], "resources": common, "verbs": ALL}));
    if can_start_safely(revision) {
        let definitions = ["customresourcedefinitions"];
        system.push(json!({"apiGroups": ["apiextensions.k8s.io"], "resources": definitions, "verbs": READ}));
    }
    let label = |gatherer: &str| (format!("{GATHERED}{gatherer}"), "true".to_owned());
    let edit = [label("crossplane"), label("admin"), label("edit")];
    let of_pods = [(SYSTEM.to_owned(), meta::name(revision).to_owned())];
    vec![
        role(revision, "aggregate-to-edit", edit, rules(ALL)),
        role(revision, "aggregate-to-view", [label("view")], rules(READ)),
        role(revision, "system", of_pods, system),
    ]
}

/// The binding of the pods' role to service accounts (by namespace and name). Without accounts it has no subjects.
pub fn provider_binding(revision: &Object, accounts: &[(String, String)]) -> Object {
    let name = format!("{PREFIX}{}:system", meta::name(revision));
    let mut binding = blank("ClusterRoleBinding", &name, revision);
    binding.insert("roleRef".to_owned(), json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": name}));
    let subject = |(namespace, name): &(String, String)| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
    if !accounts.is_empty() {
        binding.insert("subjects".to_owned(), accounts.iter().map(subject).collect());
    }
    binding
}

/// The revision that a role or binding of this name belongs to.
pub fn revision_of_role(name: &str) -> Option<&str> {
    let (revision, role) = name.strip_prefix(PREFIX)?.rsplit_once(':')?;
    matches!(role, "aggregate-to-edit" | "aggregate-to-view" | "system").then_some(revision)
}

/// Whether a provider starts only those of its controllers whose kinds exist. Spelling does not matter.
fn can_start_safely(revision: &Object) -> bool {
    let capabilities = revision.get("status").and_then(|status| status.get("capabilities")?.as_array());
    capabilities.into_iter().flatten().filter_map(Value::as_str).any(is_safe_start)
}

fn role(
    revision: &Object,
    name: &str,
    labels: impl IntoIterator<Item = (String, String)>,
    rules: Vec<Value>,
) -> Object {
    let mut role = blank("ClusterRole", &format!("{PREFIX}{}:{name}", meta::name(revision)), revision);
    for (key, value) in labels {
        meta::set_label(&mut role, &key, &value);
    }
    role.insert("rules".to_owned(), Value::Array(rules));
    role
}

fn blank(kind: &str, name: &str, revision: &Object) -> Object {
    let mut object = Map::from_iter([
        ("apiVersion".to_owned(), json!(format!("{RBAC}/v1"))),
        ("kind".to_owned(), json!(kind)),
    ]);
    meta::set_field(&mut object, "name", name);
    meta::set_controller(&mut object, revision);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(spec: &Value) -> Object {
        let mut revision = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "ProviderRevision",
            "metadata": {"name": "provider-1", "uid": "u"},
        });
        revision["status"] = spec.clone();
        revision.as_object().cloned().unwrap()
    }

    fn reference(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "name": name})
    }

    fn rules(role: &Object) -> Vec<String> {
        let words = |rule: &Value, field: &str| {
            let words = rule[field].as_array().unwrap().iter().filter_map(Value::as_str);
            words.collect::<Vec<_>>().join(",")
        };
        let rules = role["rules"].as_array().unwrap().iter();
        rules
            .map(|it| format!("{} {} {}", words(it, "verbs"), words(it, "apiGroups"), words(it, "resources")))
            .collect()
    }

    #[test]
    fn provider_has_three_roles_for_the_kinds_that_it_brought() {
        let references = json!([
            reference("apiextensions.k8s.io/v1", "CustomResourceDefinition", "vpcs.ec2.acme.org"),
            reference("apiextensions.k8s.io/v1", "CustomResourceDefinition", "buckets.s3.acme.org"),
            reference(
                "apiextensions.crossplane.io/v1alpha1",
                "ManagedResourceDefinition",
                "acls.s3.acme.org"
            ),
            reference("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "hooks.acme.org"),
            reference("apiextensions.k8s.io/v1", "CustomResourceDefinition", "secrets.others.org"),
        ]);
        let revision = revision(&json!({"objectRefs": references, "capabilities": ["SafeStart"]}));
        let own = defined_resources(&revision, |name| name.ends_with(".acme.org"));
        let roles = provider_roles(&revision, own);
        let names: Vec<_> = roles.iter().map(meta::name).collect();
        let name = |role: &str| format!("crossplane:provider:provider-1:{role}");
        assert_eq!(names, [name("aggregate-to-edit"), name("aggregate-to-view"), name("system")]);
        assert_eq!(
            rules(&roles[0]),
            ["* s3.acme.org acls,acls/status,buckets,buckets/status", "* ec2.acme.org vpcs,vpcs/status"]
        );
        assert_eq!(rules(&roles[1])[1], "get,list,watch ec2.acme.org vpcs,vpcs/status");
        assert_eq!(
            rules(&roles[2]),
            [
                "get,list,watch,update,patch,create s3.acme.org acls,acls/status,buckets,buckets/status",
                "get,list,watch,update,patch,create ec2.acme.org vpcs,vpcs/status",
                "update s3.acme.org,ec2.acme.org */finalizers",
                "* ,coordination.k8s.io secrets,configmaps,events,leases",
                "get,list,watch apiextensions.k8s.io customresourcedefinitions",
            ]
        );
        for gatherer in ["crossplane", "admin", "edit"] {
            assert_eq!(meta::label(&roles[0], &format!("{GATHERED}{gatherer}")), "true");
        }
        assert_eq!(meta::label(&roles[2], SYSTEM), "provider-1");
        assert!(roles.iter().all(|role| meta::controller_uid(role) == Some("u")));
        assert_eq!(
            names.iter().map(|name| revision_of_role(name)).collect::<Vec<_>>(),
            [Some("provider-1"); 3]
        );
        assert_eq!(provider_roles(&revision, Vec::new()), Vec::<Object>::new());
    }

    #[test]
    fn families_are_of_one_organization_in_one_registry() {
        for (one, other, is_same) in [
            ("xpkg.example.org/acme/provider-s3:v1", "xpkg.example.org/acme/provider-ec2@sha256:ab", true),
            ("xpkg.example.org/acme/provider-s3:v1", "xpkg.example.org/evil/provider-s3:v1", false),
            ("xpkg.example.org/acme/provider-s3:v1", "other.example.org/acme/provider-s3:v1", false),
            ("provider", "provider", false),
        ] {
            assert_eq!(share_organization(one, other), is_same, "{one} {other}");
        }
    }

    #[test]
    fn binding_names_whom_pods_run_as() {
        let binding = provider_binding(&revision(&json!({})), &[("system".to_owned(), "account".to_owned())]);
        assert_eq!(meta::name(&binding), "crossplane:provider:provider-1:system");
        assert_eq!(binding["roleRef"]["name"], binding["metadata"]["name"]);
        assert_eq!(
            binding["subjects"],
            json!([{"kind": "ServiceAccount", "namespace": "system", "name": "account"}])
        );
    }
}
