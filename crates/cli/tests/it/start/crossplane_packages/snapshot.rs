//! Packages and everything that becomes of them, without what is different each time.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value, json};

use super::super::ground::Ground;

pub(super) const NAMESPACE: &str = "crossplane-system";

/// Everything that belongs to packages.
const LISTS: &[&str] = &[
    "/apis/pkg.crossplane.io/v1/functions",
    "/apis/pkg.crossplane.io/v1/functionrevisions",
    "/apis/pkg.crossplane.io/v1/configurations",
    "/apis/pkg.crossplane.io/v1/configurationrevisions",
    "/apis/pkg.crossplane.io/v1/providers",
    "/apis/pkg.crossplane.io/v1/providerrevisions",
    "/apis/pkg.crossplane.io/v1beta1/locks",
    "/apis/apps/v1/namespaces/crossplane-system/deployments",
    "/api/v1/namespaces/crossplane-system/pods",
    "/api/v1/namespaces/crossplane-system/services",
    "/api/v1/namespaces/crossplane-system/serviceaccounts",
    "/api/v1/namespaces/crossplane-system/secrets",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions",
    "/apis/apiextensions.crossplane.io/v1/compositions",
    "/apis/apiextensions.crossplane.io/v1alpha1/managedresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
];

/// Objects by kind and name.
pub(super) type Snapshot = BTreeMap<String, Value>;

/// What a snapshot is taken for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form<'a> {
    /// To see whether one cluster has changed: who an object is, and how often its spec was written, counts.
    Identity,
    /// To compare two clusters whose registries had other addresses: identifiers are replaced by names.
    Comparison { registry: &'a str },
}

/// Everything that belongs to packages, as it is.
pub(super) fn gather(ground: &Ground) -> Vec<Value> {
    let mut objects = Vec::new();
    for path in LISTS {
        let list = ground.get(path);
        let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List");
        for item in list["items"].as_array().into_iter().flatten() {
            let mut item = item.clone();
            // Items of lists do not all say what they are.
            item["kind"] = kind.into();
            item["apiVersion"] = list["apiVersion"].clone();
            objects.push(item);
        }
    }
    objects.retain(belongs_to_packages);
    objects
}

fn belongs_to_packages(object: &Value) -> bool {
    let name = name_of(object);
    let is_part = match object["kind"].as_str().unwrap_or_default() {
        "ServiceAccount" => !["default", "crossplane"].contains(&name),
        // Certificates of the control plane itself.
        "Secret" => !name.starts_with("crossplane-"),
        "ClusterRole" | "ClusterRoleBinding" => {
            name.contains("acme.org") || name.starts_with("crossplane:provider:")
        }
        "CustomResourceDefinition" => name.ends_with("acme.org"),
        _ => true,
    };
    is_part && !is_probe(name)
}

/// Whether something belongs to a Function that only shows that everything before it was reconciled.
fn is_probe(name: &str) -> bool {
    name.starts_with("probe-")
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn owners_of(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// Whether something exists whose package or revision is gone: it will be collected.
pub(super) fn has_orphans(objects: &[Value]) -> bool {
    let uids: BTreeSet<_> = objects.iter().filter_map(|object| object["metadata"]["uid"].as_str()).collect();
    let is_gone = |owner: &Value| {
        let is_package = owner["apiVersion"].as_str().is_some_and(|version| version.starts_with("pkg."));
        is_package && owner["uid"].as_str().is_some_and(|uid| !uids.contains(uid))
    };
    // Another package may own it, too.
    objects.iter().any(|object| owners_of(object).next().is_some() && owners_of(object).all(is_gone))
}

/// What matters of objects.
pub(super) fn snapshot(mut objects: Vec<Value>, form: Form<'_>) -> Snapshot {
    if let Form::Comparison { registry } = form {
        // Their names are made up, and their templates are compared.
        objects.retain(|object| object["kind"] != "Pod");
        let mut names = uids(&objects);
        names.push((registry.to_owned(), "REGISTRY".to_owned()));
        for object in &mut objects {
            rename(object, &names);
        }
    }
    let entry = |mut object: Value| {
        let key = format!("{} {}", object["kind"].as_str().unwrap_or_default(), name_of(&object));
        simplify(&mut object);
        match form {
            Form::Identity => identify(&mut object),
            Form::Comparison { .. } => anonymise(&mut object),
        }
        (key, object)
    };
    objects.into_iter().map(entry).collect()
}

/// Identifiers, and what stands for them.
fn uids(objects: &[Value]) -> Vec<(String, String)> {
    let alias = |object: &Value| {
        let uid = object["metadata"]["uid"].as_str()?;
        Some((uid.to_owned(), format!("uid of {} {}", object["kind"].as_str()?, name_of(object))))
    };
    objects.iter().filter_map(alias).collect()
}

fn rename(value: &mut Value, names: &[(String, String)]) {
    match value {
        Value::String(text) => {
            for (name, alias) in names {
                if text.contains(name.as_str()) {
                    *text = text.replace(name.as_str(), alias);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, names)),
        _ => {}
    }
}

/// Leave out times, counters of writes, managers, and words.
fn simplify(object: &mut Value) {
    let generation = object["metadata"]["generation"].clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for noise in ["resourceVersion", "managedFields", "creationTimestamp", "selfLink"] {
            metadata.remove(noise);
        }
    }
    if let Some(conditions) = object.pointer_mut("/status/conditions") {
        *conditions = outline(conditions, &generation);
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let is_defined = owners_of(object).any(|owner| owner["kind"] == "CompositeResourceDefinition");
    match kind.as_str() {
        // Written by other controllers than those of packages.
        "Deployment" | "Pod" | "Service" | "CustomResourceDefinition" => remove(object, "status"),
        // Compared with those of Crossplane by `cargo xtask compare --controllers`.
        "CompositeResourceDefinition" => object.get_mut("status").into_iter().for_each(forget_controllers),
        "Lock" => forget_probes(object),
        _ => {}
    }
    if is_defined {
        remove(&mut object["metadata"], "generation");
        forget_schemas(object);
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn forget_controllers(status: &mut Value) {
    remove(status, "controllers");
}

/// Conditions without words and times, by type.
fn outline(conditions: &Value, generation: &Value) -> Value {
    let mut outlined = Map::new();
    for condition in conditions.as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let age = match &condition["observedGeneration"] {
            Value::Null => "of no generation",
            observed if observed == generation => "current",
            _ => "stale",
        };
        let line = format!("{} {} {age}", text("status"), text("reason"));
        outlined.insert(text("type").to_owned(), line.into());
    }
    outlined.into()
}

fn forget_probes(lock: &mut Value) {
    if let Some(packages) = lock.get_mut("packages").and_then(Value::as_array_mut) {
        packages.retain(|package| !is_probe(package["name"].as_str().unwrap_or_default()));
    }
    remove(&mut lock["metadata"], "generation");
}

/// The control plane that makes a definition of an XRD adds fields of its own.
fn forget_schemas(definition: &mut Value) {
    let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        remove(version, "schema");
    }
}

/// Certificates are recognised by their hashes, which are short enough for the report of a failure.
fn identify(object: &mut Value) {
    if object["kind"] != "Secret" {
        return;
    }
    let data = object.get_mut("data").and_then(Value::as_object_mut);
    for value in data.into_iter().flat_map(Map::values_mut) {
        let mut hasher = DefaultHasher::new();
        value.to_string().hash(&mut hasher);
        *value = format!("{:016x}", hasher.finish()).into();
    }
}

/// Leave out what is different on every cluster.
fn anonymise(object: &mut Value) {
    for noise in ["uid", "generation"] {
        remove(&mut object["metadata"], noise);
    }
    if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.sort_by_key(Value::to_string);
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "Secret" => {
            let fields: Vec<String> =
                object["data"].as_object().into_iter().flat_map(Map::keys).cloned().collect();
            object["data"] = json!(fields);
        }
        "Service" => {
            for field in ["clusterIP", "clusterIPs"] {
                // An address that the API server chose.
                if object["spec"][field].to_string().contains('.') {
                    object["spec"][field] = "an address".into();
                }
            }
        }
        // In the order in which they came, which is left to chance.
        "Lock" => sort_by_name(object.get_mut("packages")),
        _ => {}
    }
}

fn sort_by_name(list: Option<&mut Value>) {
    if let Some(items) = list.and_then(Value::as_array_mut) {
        items.sort_by_key(|item| item["name"].to_string());
    }
}

fn revision(uid: &str, port: u16) -> Value {
    json!({
        "kind": "FunctionRevision", "metadata": {"name": "own-1", "uid": uid, "generation": 1, "resourceVersion": "7"},
        "spec": {"image": format!("127.0.0.1:{port}/acme/own:v1.0.0")},
        "status": {
            "endpoint": uid,
            "conditions": [{"type": "RevisionHealthy", "status": "True", "reason": "Fine", "observedGeneration": 1}],
        },
    })
}

#[test]
fn two_clusters_are_compared_without_identifiers_and_addresses() {
    let [one, other] = [("a-b-c", 5000), ("d-e-f", 6000)].map(|(uid, port)| {
        let registry = format!("127.0.0.1:{port}");
        snapshot(vec![revision(uid, port)], Form::Comparison { registry: &registry })
    });
    assert_eq!(one, other);
    let seen = &one["FunctionRevision own-1"];
    assert_eq!(seen["spec"]["image"], "REGISTRY/acme/own:v1.0.0");
    assert_eq!(seen["status"]["endpoint"], "uid of FunctionRevision own-1");
    assert_eq!(seen["status"]["conditions"]["RevisionHealthy"], "True Fine current");
}

#[test]
fn object_that_was_made_again_is_another_one_on_the_same_cluster() {
    let [one, other] = ["a", "b"].map(|uid| snapshot(vec![revision(uid, 5000)], Form::Identity));
    assert_ne!(one, other);
}
