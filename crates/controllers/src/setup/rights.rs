//! The users of controllers on the API server of the same process, and their rights.
//!
//! There are two users, so that an author of Compositions cannot use the rights that the control plane needs for itself. [`CONTROLLERS`]
//! has those: it installs kinds, writes roles and registers webhooks. [`COMPOSER`] reads, writes and deletes composed resources, and can
//! do nothing else.
//!
//! # Invariants
//! * [`CONTROLLERS`] has the rules that the chart gives the service account on a cluster: `rights/system.json` is generated from it. It
//!   has those of [`PACKAGES`], [`OPERATIONS`] and [`ACTIONS`] as well: on a cluster, packages are installed and actions run only if an
//!   administrator enables that, and operations are Crossplane's to run.
//! * [`COMPOSER`] can neither write roles, bindings, webhooks and definitions, nor install packages, nor issue tokens, unless an
//!   administrator adds a role with the label that [`AGGREGATED`] names.

use std::collections::BTreeSet;

use ferroplane_api::{Object, crds, keys, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Propagation, Resource, Subresource};
use serde_json::{Value, json};

/// The user that installs, defines and reports.
pub const CONTROLLERS: &str = "system:ferroplane";
/// The user that reads and writes what is composed.
pub const COMPOSER: &str = "system:ferroplane:composer";

const GROUP: &str = "rbac.authorization.k8s.io";
/// The role that aggregates the rights on composed resources.
const AGGREGATE: &str = "system:ferroplane";
/// The role with the rights that controllers always need.
const SYSTEM: &str = "system:ferroplane:system";
/// The role with the additional rights for packages.
const PACKAGES: &str = "system:ferroplane:packages";
/// The role with the additional rights for schedules and watches, to create operations and to delete old ones.
const OPERATIONS: &str = "system:ferroplane:operations";
/// The role with the additional rights for actions of Blueprints.
const ACTIONS: &str = "system:ferroplane:actions";
/// The role with the default rights on composed resources.
const COMPOSED: &str = "system:ferroplane:composed-resources";
/// On roles: the role of the control plane aggregates them.
const AGGREGATED: &str = "rbac.crossplane.io/aggregate-to-crossplane";
/// On roles and bindings: `false` if an administrator manages them. The annotation is that of Kubernetes' default roles.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const SYSTEM_RULES: &str = include_str!("rights/system.json");
const ALL: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// Why controllers cannot get their rights.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    #[error("cannot write {kind} `{name}`, which gives controllers their rights")]
    Write { kind: String, name: String, source: Error },
    #[error("cannot read the rules of the control plane")]
    Unreadable(#[from] serde_json::Error),
}

/// The groups of our own kinds. Rules about all custom resources must not include them: the right to compose custom resources must not
/// include the right to install packages or to change Compositions.
pub fn reserved_groups() -> Vec<String> {
    let groups: BTreeSet<_> = crds::ALL.iter().map(|crd| crd.group.to_owned()).collect();
    groups.into_iter().collect()
}

/// Give controllers their rights, unless they have them. Takes an administrator, and the wildcard for the groups of all custom resources
/// in rules of this API server.
pub async fn grant(administrator: &ApiClient, custom_groups: &str) -> Result<(), RightsError> {
    for object in objects(custom_groups)? {
        keep(administrator, &object).await.map_err(|source| RightsError::Write {
            kind: meta::kind(&object).to_owned(),
            name: meta::name(&object).to_owned(),
            source,
        })?;
    }
    Ok(())
}

/// All roles and bindings. Roles come first: a binding without its role would be reported as broken.
fn objects(custom_groups: &str) -> Result<Vec<Object>, serde_json::Error> {
    let rules: Value = serde_json::from_str(SYSTEM_RULES)?;
    let mut composed = role(COMPOSED, "rules", composed_rules(custom_groups));
    meta::set_label(&mut composed, AGGREGATED, "true");
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {AGGREGATED: "true"}}]});
    Ok(vec![
        role(SYSTEM, "rules", rules),
        role(PACKAGES, "rules", package_rules()),
        role(OPERATIONS, "rules", operation_rules()),
        role(ACTIONS, "rules", action_rules()),
        composed,
        role(AGGREGATE, "aggregationRule", selectors),
        binding(SYSTEM, &[CONTROLLERS]),
        binding(PACKAGES, &[CONTROLLERS]),
        binding(OPERATIONS, &[CONTROLLERS]),
        binding(ACTIONS, &[CONTROLLERS]),
        binding(AGGREGATE, &[CONTROLLERS, COMPOSER]),
    ])
}

/// The rights to install packages: to write packages and revisions, and the kinds of objects in packages.
fn package_rules() -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let write = ["get", "create", "update"];
    json!([
        rule(keys::PKG, &["providers", "configurations", "functions", "locks"], &write),
        // A package that a usage protects is marked.
        rule(keys::PKG, &["providers", "configurations", "functions"], &["patch"]),
        rule(
            keys::PKG,
            &["providerrevisions", "configurationrevisions", "functionrevisions"],
            &["create", "update", "patch", "delete"],
        ),
        rule(keys::PKG, &["functionrevisions/status"], &["update"]),
        rule(keys::APIEXTENSIONS, &["compositeresourcedefinitions", "compositions"], &write),
        rule(
            keys::APIEXTENSIONS,
            &["managedresourcedefinitions", "managedresourceactivationpolicies"],
            &write,
        ),
        rule(keys::OPS, &["operations", "cronoperations", "watchoperations"], &write),
        // A provider on this machine has a service account of its own, which gets the rights on its kinds.
        rule(GROUP, &["clusterrolebindings"], &["list", "watch", "create", "update"]),
        rule(GROUP, &["clusterroles"], &["bind"]),
    ])
}

fn operation_rules() -> Value {
    let rule = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": [keys::OPS], "resources": resources, "verbs": verbs});
    json!([
        rule(&["operations"], &["get", "create", "delete"]),
        // Crossplane keeps a finalizer on a `WatchOperation`, which we remove.
        rule(&["watchoperations"], &["patch"]),
        rule(&["cronoperations/finalizers", "watchoperations/finalizers"], &["update"]),
        // Functions of operations read them, such as the built-in one that pauses looping objects.
        json!({"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}),
    ])
}

/// The rights to run ActionSets, beside those that their phases have as [`COMPOSER`].
fn action_rules() -> Value {
    let rule = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": [keys::KANISTER], "resources": resources, "verbs": verbs});
    json!([
        rule(&["actionsets"], &["get", "list", "watch", "update", "patch"]),
        rule(&["blueprints"], &["get", "list", "watch"]),
    ])
}

/// The default rights on composed resources: workloads and their configuration, and every custom resource. Kinds that give power over the
/// API server itself are left out: roles, bindings, webhooks, definitions, certificates, tokens, nodes, and our own kinds.
fn composed_rules(custom_groups: &str) -> Value {
    let rule = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": ALL});
    let all_at_once = [&ALL[..], &["deletecollection"]].concat();
    let workloads = ["apps", "autoscaling", "batch", "discovery.k8s.io", "networking.k8s.io", "policy"];
    json!([
        rule(
            &[""],
            &[
                "configmaps",
                "endpoints",
                "limitranges",
                "namespaces",
                "persistentvolumeclaims",
                "persistentvolumes",
                "pods",
                "podtemplates",
                "replicationcontrollers",
                "resourcequotas",
                "secrets",
                "serviceaccounts",
                "services",
            ],
        ),
        rule(&workloads, &["*"]),
        rule(&["storage.k8s.io"], &["storageclasses"]),
        rule(&["scheduling.k8s.io"], &["priorityclasses"]),
        // Composite resources are among them, and are deleted as a collection with their definition.
        json!({"apiGroups": [custom_groups], "resources": ["*"], "verbs": all_at_once}),
        rule(&[keys::APIEXTENSIONS], &["environmentconfigs", "usages"]),
        rule(&[keys::PROTECTION], &["usages", "clusterusages"]),
        // The same user writes the objects of an operation, so that composing one gives no further rights.
        rule(&[keys::OPS], &["operations", "cronoperations", "watchoperations"]),
        // An operation owns the ActionSets that it applies, which some clusters allow only to users who may set finalizers.
        json!({"apiGroups": [keys::OPS], "resources": ["operations/finalizers"], "verbs": ["update"]}),
        // The namespace of an ActionSet decides what its actions may access, whatever created it.
        rule(&[keys::KANISTER], &["actionsets", "blueprints", "profiles"]),
    ])
}

fn role(name: &str, field: &str, value: Value) -> Object {
    let mut role = blank("ClusterRole", name);
    role.insert(field.to_owned(), value);
    role
}

fn binding(role: &str, users: &[&str]) -> Object {
    let mut binding = blank("ClusterRoleBinding", role);
    binding.insert("roleRef".to_owned(), json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role}));
    let subjects = users.iter().map(|user| json!({"apiGroup": GROUP, "kind": "User", "name": user}));
    binding.insert("subjects".to_owned(), subjects.collect());
    binding
}

fn blank(kind: &str, name: &str) -> Object {
    let mut object = Object::new();
    resource(kind).add_kind(&mut object);
    meta::set_field(&mut object, "name", name);
    meta::set_annotation(&mut object, AUTOUPDATE, "true");
    object
}

fn resource(kind: &str) -> Resource {
    Resource {
        api_version: format!("{GROUP}/v1"),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        is_namespaced: false,
    }
}

/// Create or update an object, unless an administrator manages it.
async fn keep(administrator: &ApiClient, wanted: &Object) -> Result<(), Error> {
    let resource = resource(meta::kind(wanted));
    let path = ObjectPath { resource: &resource, namespace: "", name: meta::name(wanted) };
    let Some(mut present) = administrator.get_object(path).await? else {
        return administrator.create(&resource, "", wanted).await.map(drop);
    };
    if meta::annotation(&present, AUTOUPDATE) == "false" || holds(&present, wanted) {
        return Ok(());
    }
    // The role of a binding is immutable: the binding has to be created again.
    if present.get("roleRef") != wanted.get("roleRef") {
        administrator.delete(path, Some(meta::uid(&present)), Propagation::Background).await?;
        return administrator.create(&resource, "", wanted).await.map(drop);
    }
    for (field, value) in wanted.iter().filter(|(field, _)| *field != "metadata") {
        present.insert(field.clone(), value.clone());
    }
    meta::set_annotation(&mut present, AUTOUPDATE, "true");
    if !meta::label(wanted, AGGREGATED).is_empty() {
        meta::set_label(&mut present, AGGREGATED, "true");
    }
    administrator.replace(path, Subresource::None, &present).await.map(drop)
}

fn holds(present: &Object, wanted: &Object) -> bool {
    let mut fields = wanted.iter().filter(|(field, _)| *field != "metadata");
    fields.all(|(field, value)| present.get(field) == Some(value))
        && meta::label(present, AGGREGATED) == meta::label(wanted, AGGREGATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of the role that the manifests for clusters give to controllers.
    fn rules_on_clusters() -> Value {
        let manifests = include_str!("../../../../deploy/manifests/ferroplane.yaml");
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
        // The name that it has there, with the name of the release before it.
        let is_role = |object: &Value| {
            object["kind"] == "ClusterRole" && object["metadata"]["name"] == "ferroplane:system"
        };
        objects.into_iter().find(is_role).unwrap()["rules"].take()
    }

    #[test]
    fn controllers_have_the_rights_that_they_have_on_clusters() {
        let ours: Value = serde_json::from_str(SYSTEM_RULES).unwrap();
        assert_eq!(ours, rules_on_clusters(), "`cargo xtask codegen` writes rights/system.json");
    }

    #[test]
    fn nothing_that_gives_power_over_the_api_server_can_be_composed() {
        let rules = composed_rules("custom.test");
        let texts = |rule: &Value, field: &str| -> BTreeSet<String> {
            rule[field].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        let closed = [
            "rbac.authorization.k8s.io",
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "apiregistration.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "certificates.k8s.io",
            "pkg.crossplane.io",
            "*",
        ];
        let resources_of_core = ["nodes", "serviceaccounts/token", "pods/exec", "users", "groups", "*"];
        for rule in rules.as_array().unwrap() {
            let (groups, resources) = (texts(rule, "apiGroups"), texts(rule, "resources"));
            assert!(closed.iter().all(|group| !groups.contains(*group)), "{rule}");
            assert!(
                ["bind", "escalate", "impersonate", "*"]
                    .iter()
                    .all(|verb| !texts(rule, "verbs").contains(*verb))
            );
            if groups.contains("") {
                assert!(resources_of_core.iter().all(|resource| !resources.contains(*resource)), "{rule}");
            }
        }
    }
}
