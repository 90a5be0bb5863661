//! Where we differed from a real API server in ways that somebody noticed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Answer, Cluster};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn dry_run_does_not_mind_a_version() {
    let cluster = Cluster::new().await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "5"}});
    let made = cluster.post(&format!("{MAPS}?dryRun=All"), &map).await;
    assert_eq!(made.is(201)["metadata"]["resourceVersion"], "5");
    cluster.post(MAPS, &map).await.is(500);
}

/// A client that repeats a create has to see that the object exists.
#[tokio::test]
async fn name_beside_a_prefix_is_not_generated_anew() {
    let cluster = Cluster::new().await;
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-one", "generateName": "a-"}});
    assert_eq!(cluster.post(MAPS, &map).await.is(201)["metadata"]["name"], "a-one");
    assert_eq!(cluster.post(MAPS, &map).await.is(409)["reason"], "AlreadyExists");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}});
    assert_ne!(cluster.post(MAPS, &map).await.is(201)["metadata"]["name"], "a-one");
}

#[tokio::test]
async fn long_warnings_are_cut() {
    let cluster = Cluster::new().await;
    let owner = |uid: String| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid});
    let owners: Vec<_> = (0..1000).map(|index| owner(format!("{:036}", index / 2))).collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": owners}});
    let made = cluster.post(MAPS, &map).await;
    assert_eq!(made.is(201)["metadata"]["ownerReferences"].as_array().unwrap().len(), 500);
    assert!(made.warnings.iter().all(|warning| warning.len() < 300), "{:?}", made.warnings);
    assert!(made.warnings[0].contains("duplicate entries"), "{:?}", made.warnings);
}

#[tokio::test]
async fn policies_that_are_not_enforced_say_so() {
    let cluster = Cluster::new().await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
            ]},
            "validations": [{"expression": "false"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]},
    });
    let mutating = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "m"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
            ]},
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"},
            }],
            "reinvocationPolicy": "Never", "failurePolicy": "Fail",
        },
    });
    let mutating_binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "n"}, "spec": {"policyName": "m"},
    });
    for (plural, object) in [
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
        ("mutatingadmissionpolicies", mutating),
        ("mutatingadmissionpolicybindings", mutating_binding),
    ] {
        let made = cluster.post(&format!("{group}/{plural}"), &object).await;
        made.is(201);
        assert!(
            made.warnings.iter().any(|warning| warning.contains("does not enforce")),
            "{:?}",
            made.warnings
        );
        let path = format!("{group}/{plural}/{}", object["metadata"]["name"].as_str().unwrap());
        let changed = cluster.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
        changed.is(200);
        assert!(
            changed.warnings.iter().any(|warning| warning.contains("does not enforce")),
            "{:?}",
            changed.warnings
        );
    }
}

fn numbers(bound: &str, value: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "numbers.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "numbers", "kind": "Number"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"value": {"type": "integer", "format": "int64", bound: value}},
            }}}],
        },
    })
}

async fn create_number(bound: &str, limit: &Value, value: i64) -> Answer {
    let cluster = Cluster::new().await;
    cluster.post(DEFINITIONS, &numbers(bound, limit)).await.is(201);
    let path = "/apis/example.org/v1/namespaces/default/numbers";
    cluster.until(path, |answer| answer.code == 200).await;
    let number =
        json!({"apiVersion": "example.org/v1", "kind": "Number", "metadata": {"name": "n"}, "value": value});
    cluster.post(path, &number).await
}

#[tokio::test]
async fn bounds_near_the_largest_integer_are_what_they_say() {
    let most: Value = serde_json::from_str("9223372036854775000").unwrap();
    create_number("maximum", &most, 5).await.is(201);
    create_number("maximum", &most, 9_223_372_036_854_774_784).await.is(201);
    let refused = create_number("maximum", &most, i64::MAX).await;
    let message = refused.is(422)["message"].as_str().unwrap();
    assert!(message.contains("should be less than or equal to 9223372036854774784"), "{message}");
    // Upstream writes it out as -9223372036854776000, which is no 64-bit integer.
    let refused = create_number("minimum", &json!(i64::MIN), 5).await;
    let message = refused.is(422)["message"].as_str().unwrap();
    assert!(
        message.contains("Minimum boundary value must be of type integer with format int64"),
        "{message}"
    );
}

#[tokio::test]
async fn many_controllers_make_no_endless_answer() {
    let cluster = Cluster::new().await;
    let owner = |index: usize| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": format!("{index:036}"), "controller": true});
    let owners: Vec<_> = (0..3000).map(owner).collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "ownerReferences": owners}});
    let refused = cluster.post(MAPS, &map).await;
    assert!(refused.is(422)["message"].as_str().unwrap().len() < 30 << 20);
}

/// Close to as many as fit into the largest object that is stored (1.5 MiB), with the fields that its manager owns.
const MOST_OWNERS: usize = 19_000;

/// Each owner compared with all before it takes about a minute for a write, and these are three.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_with_as_many_owners_as_fit_is_written_in_seconds() {
    let cluster = Cluster::new().await;
    let map = |name: &str| {
        // Nobody knows the kind, so the garbage collector takes the owners to be there.
        let owner =
            |index: usize| json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": format!("{index:x}")});
        let owners: Vec<_> = (0..MOST_OWNERS).map(owner).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
    };
    let (created, applied) = (map("created"), map("applied"));
    let mut changed = created.clone();
    changed["data"] = json!({"a": "b"});
    let writes = tokio::spawn(async move {
        let count = |answer: &Value| answer["metadata"]["ownerReferences"].as_array().unwrap().len();
        let made = cluster.post(MAPS, &created).await;
        assert_eq!(count(made.is(201)), MOST_OWNERS);
        let replaced = cluster.put(&format!("{MAPS}/created"), &changed).await;
        assert_eq!(count(replaced.is(200)), MOST_OWNERS);
        let made = cluster.apply(&format!("{MAPS}/applied"), "me", &applied).await;
        assert_eq!(count(made.is(201)), MOST_OWNERS);
    });
    // Beside the writes, which leave no thread to others while they work.
    let in_time = tokio::time::timeout(Duration::from_secs(30), writes).await;
    in_time.expect("the writes take seconds, not minutes").unwrap();
}

/// A kind with a list that is a set, and one that is a map.
fn inventories() -> Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    let lists = json!({
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {
            "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "inventories.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "inventories", "kind": "Inventory"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": lists}},
            }}}],
        },
    })
}

/// Creates, replaces and applies objects whose list at a pointer has these elements.
async fn is_written_thrice(cluster: &Cluster, path: &str, mut object: Value, list: &str) {
    let count = |object: &Value| object.pointer(list).and_then(Value::as_array).map(Vec::len);
    let wanted = count(&object);
    object["metadata"]["name"] = "created".into();
    assert_eq!(count(cluster.post(path, &object).await.is(201)), wanted);
    let created = cluster.get(&format!("{path}/created")).await;
    object["metadata"]["resourceVersion"] = created.is(200)["metadata"]["resourceVersion"].clone();
    object["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(count(cluster.put(&format!("{path}/created"), &object).await.is(200)), wanted);
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object["metadata"]["name"] = "applied".into();
    assert_eq!(count(cluster.apply(&format!("{path}/applied"), "me", &object).await.is(201)), wanted);
}

/// As many elements as fit, or nearly: each has an entry in the managed fields, too. Compared with all others, each of them would take
/// minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_with_as_many_elements_as_fit_are_written_in_seconds() {
    let cluster = Cluster::new().await;
    cluster.post(DEFINITIONS, &inventories()).await.is(201);
    let path = "/apis/example.org/v1/namespaces/default/inventories";
    cluster.until(path, |answer| answer.code == 200).await;
    let inventory = |list: Value| json!({"apiVersion": "example.org/v1", "kind": "Inventory", "metadata": {}, "spec": list});
    let finalizers: Vec<_> = (0..40_000).map(|index| format!("e.org/{index:x}")).collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": finalizers}});
    let elements: Vec<_> = (0..60_000).map(|index| format!("{index:x}")).collect();
    let set = inventory(json!({"set": elements}));
    let items: Vec<_> = (0..22_000).map(|index| json!({"name": format!("{index:x}")})).collect();
    let items = inventory(json!({"map": items}));
    let writes = tokio::spawn(async move {
        is_written_thrice(&cluster, MAPS, map, "/metadata/finalizers").await;
        for (object, list) in [(set, "/spec/set"), (items, "/spec/map")] {
            is_written_thrice(&cluster, path, object, list).await;
            for name in ["created", "applied"] {
                cluster.delete(&format!("{path}/{name}")).await.is(200);
            }
        }
    });
    let in_time = tokio::time::timeout(Duration::from_mins(1), writes).await;
    in_time.expect("the writes take seconds, not minutes").unwrap();
}
