//! Definitions become kinds of composite resources.

use std::time::Duration;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_testkit::plane::{Plane, condition};
use http::Method;
use serde_json::{Value, json};

const XRDS: &str = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions";
const OLD_XRDS: &str = "/apis/apiextensions.crossplane.io/v1/compositeresourcedefinitions";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/crossplane:composite:sites.example.org:aggregate-to-edit";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.example.org";
const ESTABLISHED: Option<&str> = Some("True/WatchingCompositeResource");

fn xrd() -> String {
    format!("{XRDS}/sites.example.org")
}

fn definition(api: &str, spec: &Value) -> Value {
    let mut definition = json!({
        "apiVersion": format!("apiextensions.crossplane.io/{api}"), "kind": "CompositeResourceDefinition",
        "metadata": {"name": "sites.example.org"},
        "spec": {
            "group": "example.org", "names": {"kind": "Site", "plural": "sites"},
            "versions": [version("v1", true)],
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        definition["spec"][field] = value.clone();
    }
    definition
}

fn version(name: &str, is_referenceable: bool) -> Value {
    json!({
        "name": name, "served": true, "referenceable": is_referenceable,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        }}},
    })
}

fn established(xrd: &Value) -> Option<String> {
    condition(xrd, "Established")
}

async fn establish(plane: &Plane, spec: &Value) -> Value {
    plane.apply(&xrd(), &definition("v2", spec)).await;
    plane.until(&xrd(), |xrd| established(xrd).as_deref() == ESTABLISHED).await
}

#[tokio::test]
async fn definition_becomes_a_kind() {
    let plane = Plane::new().await;
    let xrd = establish(&plane, &json!({})).await;
    assert_eq!(xrd["metadata"]["finalizers"], json!(["defined.apiextensions.crossplane.io"]));
    assert_eq!(
        xrd["status"]["controllers"]["compositeResourceType"],
        json!({"apiVersion": "example.org/v1", "kind": "Site"})
    );
    let crd = plane.get(CRD).await;
    assert_eq!(crd["metadata"]["ownerReferences"][0]["uid"], xrd["metadata"]["uid"]);
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    plane.until_said("sites.example.org", "Normal/EstablishComposite: Applied").await;

    let site = json!({"apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": "a"}, "spec": {"size": 1}});
    plane.apply("/apis/example.org/v1/namespaces/default/sites/a", &site).await;
}

#[tokio::test]
async fn addition_to_the_schema_is_taken_over_and_another_group_is_not() {
    let plane = Plane::new().await;
    establish(&plane, &json!({})).await;
    let mut larger = version("v1", true);
    larger["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"] =
        json!({"type": "string"});
    plane.merge(&xrd(), &json!({"spec": {"versions": [larger]}})).await;
    let colour = |crd: &Value| {
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["properties"]["colour"].clone()
    };
    plane.until(CRD, |crd| colour(crd) == json!({"type": "string"})).await;
    plane.until(&xrd(), |xrd| xrd["status"]["conditions"][0]["observedGeneration"] == 2).await;
    plane.until_said("sites.example.org", "Normal/RestartComposite").await;

    // What is taken away goes, too.
    plane.merge(&xrd(), &json!({"spec": {"versions": [version("v1", true)]}})).await;
    plane.until(CRD, |crd| colour(crd).is_null()).await;

    let merge = "application/merge-patch+json";
    let other = json!({"spec": {"group": "example.net"}});
    let (code, answer) = plane.send(Method::PATCH, &xrd(), merge, &other).await;
    assert_eq!(code, 422, "{answer}");
}

#[tokio::test]
async fn scope_follows_the_version_of_the_definition() {
    let plane = Plane::new().await;
    let old = format!("{OLD_XRDS}/sites.example.org");
    plane.apply(&old, &definition("v1", &json!({}))).await;
    plane.until(&old, |xrd| established(xrd).as_deref() == ESTABLISHED).await;
    let crd = plane.get(CRD).await;
    assert_eq!(crd["spec"]["scope"], "Cluster");
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert!(spec["claimRef"].is_object() && spec["crossplane"].is_null(), "{spec}");
}

#[tokio::test]
async fn claims_are_refused_where_there_are_none() {
    let plane = Plane::new().await;
    let claims = json!({"claimNames": {"kind": "Page", "plural": "pages"}});
    let mut cluster = claims.clone();
    cluster["scope"] = json!("Cluster");
    let mut shouted = claims.clone();
    shouted["claimNames"]["plural"] = json!("Pages");
    let keys = json!({"connectionSecretKeys": ["a"]});
    for (path, api, spec) in
        [(OLD_XRDS, "v1", cluster), (OLD_XRDS, "v1", shouted), (XRDS, "v2", claims), (XRDS, "v2", keys)]
    {
        let (code, answer) =
            plane.send(Method::POST, path, "application/json", &definition(api, &spec)).await;
        assert_eq!(code, 422, "{answer}");
    }
}

#[tokio::test]
async fn scale_and_metadata_are_handed_on() {
    let plane = Plane::new().await;
    let scale = json!({
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.labels",
    });
    let mut scaled = version("v1", true);
    scaled["subresources"] = json!({"scale": scale});
    let spec = json!({
        "versions": [scaled],
        "metadata": {"labels": {"both": "spec", "given": "1"}, "annotations": {"said": "1"}},
    });
    let mut definition = definition("v2", &spec);
    definition["metadata"]["labels"] = json!({"both": "own", "own": "1"});
    definition["metadata"]["annotations"] = json!({"private": "1"});
    plane.apply(&xrd(), &definition).await;
    plane.until(&xrd(), |xrd| established(xrd).as_deref() == ESTABLISHED).await;
    let crd = plane.get(CRD).await;
    assert_eq!(crd["spec"]["versions"][0]["subresources"]["scale"], scale);
    assert_eq!(crd["metadata"]["labels"], json!({"both": "spec", "given": "1", "own": "1"}));
    assert_eq!(crd["metadata"]["annotations"], json!({"said": "1"}));
}

#[tokio::test]
async fn another_version_becomes_referenceable() {
    let plane = Plane::new().await;
    establish(&plane, &json!({"versions": [version("v1", true), version("v2", false)]})).await;
    compose(&plane, "v1").await;
    compose(&plane, "v2").await;
    let follows = |composition: &'static str| {
        move |site: &Value| site["spec"]["crossplane"]["compositionRef"]["name"] == composition
    };
    plane.until(&site(&plane, "v2", "first").await, follows("v1")).await;

    let versions = json!({"spec": {"versions": [version("v1", false), version("v2", true)]}});
    plane.merge(&xrd(), &versions).await;
    let controlled =
        |xrd: &Value| xrd["status"]["controllers"]["compositeResourceType"]["apiVersion"].clone();
    plane.until(&xrd(), |xrd| controlled(xrd) == "example.org/v2").await;
    let crd = plane.get(CRD).await;
    assert_eq!(crd["spec"]["versions"][1]["storage"], true);
    plane.until_said("sites.example.org", "Normal/RestartComposite").await;
    plane.until(&site(&plane, "v1", "second").await, follows("v2")).await;
}

/// A composition for a version, of its name, that composes nothing.
async fn compose(plane: &Plane, version: &str) {
    let path = format!("/apis/apiextensions.crossplane.io/v1/compositions/{version}");
    let input = json!({"apiVersion": "dummy.fn.crossplane.io/v1beta1", "kind": "Response", "response": {}});
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": version},
        "spec": {
            "compositeTypeRef": {"apiVersion": format!("example.org/{version}"), "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [{"step": "none", "functionRef": {"name": "function-dummy"}, "input": input}],
        },
    });
    plane.apply(&path, &composition).await;
}

/// Create a site through a version. Returns its path.
async fn site(plane: &Plane, version: &str, name: &str) -> String {
    let path = format!("/apis/example.org/{version}/namespaces/default/sites/{name}");
    let api_version = format!("example.org/{version}");
    let site = json!({"apiVersion": api_version, "kind": "Site", "metadata": {"name": name}, "spec": {}});
    plane.apply(&path, &site).await;
    path
}

#[tokio::test]
async fn what_is_wrong_with_a_definition_is_said_of_the_definition() {
    let plane = Plane::new().await;
    let cases = [
        ("sites.example.org", json!({"versions": [version("v1", false)]}), "and none is"),
        (
            "sites.example.org",
            json!({"versions": [version("v1", true), version("v2", true)]}),
            "not several: v1, v2",
        ),
        ("places.example.org", json!({}), "metadata.name: has to be `sites.example.org`"),
    ];
    for (name, spec, words) in cases {
        let mut definition = definition("v2", &spec);
        definition["metadata"]["name"] = json!(name);
        let path = format!("{XRDS}/{name}");
        plane.apply(&path, &definition).await;
        let is_said = |xrd: &Value| {
            let message = xrd["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
            established(xrd).as_deref() == Some("False/ReconcileError") && message.contains(words)
        };
        plane.until(&path, is_said).await;
        plane.until_said(name, "Warning/RenderCRD").await;
        assert_eq!(plane.get(CRD).await, Value::Null);
        plane.delete(&path).await;
        plane.until(&path, Value::is_null).await;
    }
}

#[tokio::test]
async fn who_may_not_define_kinds_says_so_until_they_may() {
    let mut plane = Plane::with_roles().await;
    plane.stop().await;
    let allow = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "limited"},
        "rules": [
            allow("*", "*", &["get", "list", "watch"]), allow("apiextensions.crossplane.io", "*", &["*"]),
            allow("", "events", &["*"]),
        ],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/limited";
    plane.apply(roles, &role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}],
    });
    plane.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/limited", &binding).await;
    plane.start_as(Identity::authenticated("limited", ["system:authenticated".to_owned()])).await;
    plane.apply(&xrd(), &definition("v2", &json!({}))).await;
    let refused = |xrd: &Value| {
        let message = xrd["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
        established(xrd).as_deref() == Some("False/ReconcileError") && message.contains("forbidden")
    };
    plane.until(&xrd(), refused).await;
    plane.until_said("sites.example.org", "Warning/EstablishComposite").await;

    role["rules"].as_array_mut().unwrap().push(allow("apiextensions.k8s.io", "*", &["*"]));
    plane.apply(roles, &role).await;
    plane.until(&xrd(), |xrd| established(xrd).as_deref() == ESTABLISHED).await;
    // Roles are made for kinds that exist, so the missing right on roles is noticed only now.
    plane.until_said("sites.example.org", "Warning/ApplyClusterRoles").await;
}

#[tokio::test]
async fn definition_that_is_refused_is_not_tried_again_before_it_changes() {
    let plane = Plane::new().await;
    if plane.is_real() {
        // It compiles patterns without a limit.
        return;
    }
    let pattern = |number: usize| {
        let pattern = format!(r"(a|b|c){{500}}[\pL]{{300}}{number}");
        (format!("p{number}"), json!({"type": "string", "pattern": pattern}))
    };
    let mut heavy = version("v1", true);
    heavy["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        Value::Object((0..400).map(pattern).collect());
    plane.apply(&xrd(), &definition("v2", &json!({"versions": [heavy]}))).await;
    let is_refused = |xrd: &Value| {
        let message = xrd["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
        established(xrd).as_deref() == Some("False/ReconcileError")
            && message.contains("too complex together")
    };
    plane.until(&xrd(), is_refused).await;
    plane.quiet().await;
    // Retries begin with pauses of less than a second.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(plane.writes(), [""; 0]);

    plane.merge(&xrd(), &json!({"spec": {"versions": [version("v1", true)]}})).await;
    plane.until(&xrd(), |xrd| established(xrd).as_deref() == ESTABLISHED).await;
}

#[tokio::test]
async fn established_kind_survives_a_change_that_cannot_be_made() {
    let plane = Plane::new().await;
    establish(&plane, &json!({})).await;
    let mut wrong = version("v1", true);
    wrong["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
        json!({"type": "colour"});
    plane.merge(&xrd(), &json!({"spec": {"versions": [wrong]}})).await;
    let complains = |xrd: &Value| {
        let condition = &xrd["status"]["conditions"][0];
        established(xrd).as_deref() == ESTABLISHED
            && condition["observedGeneration"] == 1
            && condition["message"].as_str().is_some_and(|message| message.contains("size"))
    };
    plane.until(&xrd(), complains).await;
    plane.until_said("sites.example.org", "Warning/EstablishComposite").await;

    plane.merge(&xrd(), &json!({"spec": {"versions": [version("v1", true)]}})).await;
    let is_well = |xrd: &Value| {
        let condition = &xrd["status"]["conditions"][0];
        condition["observedGeneration"] == 3 && condition["message"].is_null()
    };
    plane.until(&xrd(), is_well).await;
}

#[tokio::test]
async fn kind_of_somebody_else_is_left_alone_until_it_is_gone() {
    let plane = Plane::new().await;
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "them", "uid": "1", "controller": true,
    });
    let theirs = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.org", "finalizers": ["example.org/keep"], "ownerReferences": [owner]},
        "spec": {
            "group": "example.org", "names": {"kind": "Site", "plural": "sites"}, "scope": "Cluster",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    // The owner does not exist, so the garbage collector wants it gone: the finalizer keeps it.
    plane.apply(CRD, &theirs).await;
    plane.apply(&xrd(), &definition("v2", &json!({}))).await;
    let refused = |xrd: &Value| {
        let message = xrd["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
        established(xrd).as_deref() == Some("False/ReconcileError") && message.contains("ConfigMap `them`")
    };
    plane.until(&xrd(), refused).await;
    plane.until_said("sites.example.org", "Warning/EstablishComposite").await;
    assert_eq!(plane.get(CRD).await["spec"]["scope"], "Cluster");

    plane.merge(CRD, &json!({"metadata": {"finalizers": null}})).await;
    plane.delete(CRD).await;
    plane.until(&xrd(), |xrd| established(xrd).as_deref() == ESTABLISHED).await;
}

/// A kind that nothing controls.
fn orphan(categories: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.org", "labels": {"old": "1"}},
        "spec": {
            "group": "example.org", "names": {"kind": "Site", "plural": "sites", "categories": categories},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

#[tokio::test]
async fn kind_that_somebody_wrote_by_hand_is_not_taken_over_before_they_say_so() {
    let plane = Plane::with_roles().await;
    // `kubectl get claim` is to list it.
    let theirs = orphan(&json!(["claim"]));
    plane.apply(CRD, &theirs).await;
    plane.until(CRD, |crd| condition(crd, "Established").is_some_and(|text| text.starts_with("True"))).await;
    plane.apply(&xrd(), &definition("v2", &json!({}))).await;
    let refused = |xrd: &Value| {
        let message = xrd["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
        established(xrd).as_deref() == Some("False/ReconcileError") && message.contains("ferroplane.io/adopt")
    };
    plane.until(&xrd(), refused).await;
    let present = plane.get(CRD).await;
    assert_eq!(present["spec"]["versions"][0]["schema"], theirs["spec"]["versions"][0]["schema"]);
    assert_eq!(present["metadata"]["ownerReferences"], Value::Null);
    // A user who wrote the definition has no rights on a kind that it does not control.
    assert_eq!(plane.get(ROLE).await, Value::Null);

    plane.delete(&xrd()).await;
    plane.until(&xrd(), Value::is_null).await;
    assert_eq!(plane.get(CRD).await["metadata"]["uid"], present["metadata"]["uid"]);

    plane.apply(&xrd(), &definition("v2", &json!({}))).await;
    plane.until(&xrd(), refused).await;
    plane.merge(CRD, &json!({"metadata": {"annotations": {"ferroplane.io/adopt": "true"}}})).await;
    plane.until(&xrd(), |xrd| established(xrd).as_deref() == ESTABLISHED).await;
    plane.until(ROLE, Value::is_object).await;
}

#[tokio::test]
async fn plural_that_means_everything_gives_no_rights() {
    let plane = Plane::with_roles().await;
    let names = json!({"names": {"kind": "Site", "plural": "*"}});
    plane.apply(&xrd(), &definition("v2", &names)).await;
    plane.until(&xrd(), |xrd| established(xrd).as_deref() == Some("False/ReconcileError")).await;
    assert_eq!(plane.get(ROLE).await, Value::Null);
}

/// With the annotation that lets a definition into a protected group of Kubernetes.
#[tokio::test]
async fn kinds_of_kubernetes_and_of_the_plane_are_not_for_definitions() {
    let plane = Plane::with_roles().await;
    for (plural, kind, group) in [
        ("clusterroles", "ClusterRole", "rbac.authorization.k8s.io"),
        ("sites", "Site", "example.kubernetes.io"),
        ("sites", "Site", "rollout.ferroplane.io"),
        ("actionsets", "ActionSet", "cr.kanister.io"),
    ] {
        let name = format!("{plural}.{group}");
        let mut xrd = definition(
            "v2",
            &json!({
                "group": group, "names": {"kind": kind, "plural": plural},
                "metadata": {"annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
            }),
        );
        xrd["metadata"]["name"] = json!(name);
        let path = format!("{XRDS}/{name}");
        plane.apply(&path, &xrd).await;
        plane.until(&path, |xrd| established(xrd).as_deref() == Some("False/ReconcileError")).await;
        let role = format!(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/crossplane:composite:{name}:aggregate-to-edit"
        );
        assert_eq!(plane.get(&role).await, Value::Null, "{name}");
        plane.delete(&path).await;
        plane.until(&path, Value::is_null).await;
    }
    assert_ne!(
        plane.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/crossplane-edit").await,
        Value::Null
    );
}

#[tokio::test]
async fn definition_whose_kind_is_not_established_gives_no_rights() {
    let plane = Plane::with_roles().await;
    let mut taken = orphan(&json!([]));
    taken["metadata"]["name"] = json!("others.example.org");
    taken["spec"]["names"] =
        json!({"kind": "Site", "plural": "others", "listKind": "OtherList", "singular": "other"});
    plane.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/others.example.org", &taken).await;
    plane.apply(&xrd(), &definition("v2", &json!({}))).await;
    plane
        .until(CRD, |crd| condition(crd, "NamesAccepted").is_some_and(|text| text.starts_with("False")))
        .await;
    plane.quiet().await;
    assert_eq!(plane.get(ROLE).await, Value::Null);
}

#[tokio::test]
async fn kind_that_was_orphaned_is_adopted() {
    let plane = Plane::new().await;
    let mut orphan = orphan(&json!(["composite"]));
    let fields = json!({"compositionRef": {"type": "object"}, "compositionSelector": {"type": "object"}});
    let schema = &mut orphan["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"] = json!({"spec": {"type": "object", "properties": {
        "crossplane": {"type": "object", "properties": fields},
    }}});
    plane.apply(CRD, &orphan).await;
    let xrd = establish(&plane, &json!({})).await;
    let crd = plane.get(CRD).await;
    assert_eq!(crd["metadata"]["ownerReferences"][0]["uid"], xrd["metadata"]["uid"]);
    assert_eq!(crd["metadata"]["labels"], Value::Null);
}

#[tokio::test]
async fn kind_that_somebody_changed_or_deleted_is_restored() {
    let plane = Plane::new().await;
    establish(&plane, &json!({})).await;
    let before = plane.get(CRD).await;
    plane
        .merge(
            CRD,
            &json!({"metadata": {"labels": {"stray": "1"}}, "spec": {"names": {"shortNames": ["s"]}}}),
        )
        .await;
    plane.until(CRD, |crd| crd["spec"] == before["spec"] && crd["metadata"]["labels"].is_null()).await;

    plane.delete(CRD).await;
    let is_another = |crd: &Value| !crd.is_null() && crd["metadata"]["uid"] != before["metadata"]["uid"];
    plane.until(CRD, is_another).await;
    let site = json!({"apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": "a"}, "spec": {}});
    plane.until(CRD, |crd| condition(crd, "Established").is_some_and(|text| text.starts_with("True"))).await;
    plane.apply("/apis/example.org/v1/namespaces/default/sites/a", &site).await;
}

#[tokio::test]
async fn restart_changes_nothing() {
    let mut plane = Plane::new().await;
    establish(&plane, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    let old = json!({
        "names": {"kind": "Host", "plural": "hosts", "shortNames": ["h"], "categories": ["all"]},
        "conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "a", "namespace": "b"}},
        }},
        "versions": [{
            "name": "v1", "served": true, "referenceable": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object", "required": [],
                "properties": {"size": {"type": "number", "minimum": 1.0, "default": 2.0}},
            }}}},
            "additionalPrinterColumns": [{"name": "S", "type": "integer", "jsonPath": ".spec.size", "priority": 0}],
        }],
    });
    let hosts = format!("{OLD_XRDS}/hosts.example.org");
    let mut definition = definition("v1", &old);
    definition["metadata"]["name"] = json!("hosts.example.org");
    plane.apply(&hosts, &definition).await;
    plane.until(&hosts, |xrd| established(xrd).as_deref() == ESTABLISHED).await;

    plane.stop().await;
    plane.writes();
    plane.start().await;
    // What comes later is done later: by then, what was there has been checked.
    establish_another(&plane).await;
    let writes = plane.writes();
    let others: Vec<_> = writes.iter().filter(|write| !write.contains("marks")).collect();
    assert_eq!(others, ["POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions"]);
}

async fn establish_another(plane: &Plane) {
    let mut definition = definition("v2", &json!({"names": {"kind": "Mark", "plural": "marks"}}));
    definition["metadata"]["name"] = json!("marks.example.org");
    let path = format!("{XRDS}/marks.example.org");
    plane.apply(&path, &definition).await;
    plane.until(&path, |xrd| established(xrd).as_deref() == ESTABLISHED).await;
}

async fn sites_that_linger(plane: &Plane) -> [String; 2] {
    let paths = ["a", "b"].map(|namespace| format!("/apis/example.org/v1/namespaces/{namespace}/sites/s"));
    for (namespace, path) in ["a", "b"].iter().zip(&paths) {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        plane.apply(&format!("/api/v1/namespaces/{namespace}"), &space).await;
        let site = json!({
            "apiVersion": "example.org/v1", "kind": "Site", "spec": {},
            "metadata": {"name": "s", "finalizers": ["example.org/keep"]},
        });
        plane.apply(path, &site).await;
    }
    paths
}

#[tokio::test]
async fn definition_goes_after_its_composite_resources_and_their_kind() {
    let plane = Plane::new().await;
    establish(&plane, &json!({})).await;
    let sites = sites_that_linger(&plane).await;
    plane.delete(&xrd()).await;
    for site in &sites {
        plane.until(site, |site| site["metadata"]["deletionTimestamp"].is_string()).await;
    }
    plane
        .until(&xrd(), |xrd| established(xrd).as_deref() == Some("False/TerminatingCompositeResource"))
        .await;
    plane.until_said("sites.example.org", "Normal/TerminateComposite: Waiting").await;
    assert_eq!(plane.get(CRD).await["metadata"]["deletionTimestamp"], Value::Null);

    for site in &sites {
        assert!(!plane.get(&xrd()).await.is_null());
        plane.merge(site, &json!({"metadata": {"finalizers": null}})).await;
    }
    plane.until(&xrd(), Value::is_null).await;
    assert_eq!(plane.get(CRD).await, Value::Null);
    plane.until_said("sites.example.org", "Normal/TerminateComposite: Deleted").await;
}

#[tokio::test]
async fn deletion_goes_on_after_a_restart() {
    let mut plane = Plane::new().await;
    establish(&plane, &json!({})).await;
    let sites = sites_that_linger(&plane).await;
    plane.delete(&xrd()).await;
    plane.until(&sites[1], |site| site["metadata"]["deletionTimestamp"].is_string()).await;
    plane.restart().await;
    for site in &sites {
        plane.merge(site, &json!({"metadata": {"finalizers": null}})).await;
    }
    plane.until(&xrd(), Value::is_null).await;
    assert_eq!(plane.get(CRD).await, Value::Null);
}

#[tokio::test]
async fn definition_that_lost_its_kind_to_somebody_else_goes_without_it() {
    let plane = Plane::new().await;
    establish(&plane, &json!({})).await;
    plane.merge(CRD, &json!({"metadata": {"ownerReferences": null}})).await;
    plane.until(CRD, |crd| crd["metadata"]["ownerReferences"].is_array()).await;
    plane.delete(&xrd()).await;
    plane.until(&xrd(), Value::is_null).await;
}
