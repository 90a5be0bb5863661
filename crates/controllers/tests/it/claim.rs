//! Claims: offered, bound to composite resources, and kept in step with them.

use ferroplane_engine::claimed_name;
use ferroplane_testkit::plane::{Plane, condition, condition_code};
use http::Method;
use serde_json::{Value, json};

use crate::takeover::{age, managers_of};

const XRD: &str =
    "/apis/apiextensions.crossplane.io/v1/compositeresourcedefinitions/sites.legacy.example.org";
const CLAIM_CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pages.legacy.example.org";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.legacy.example.org";
pub(crate) const PAGE: &str = "/apis/legacy.example.org/v1/namespaces/default/pages/blog";
const SITES: &str = "/apis/legacy.example.org/v1/sites";

pub(crate) fn definition() -> Value {
    let version = |name: &str, is_referenceable: bool| {
        json!({
            "name": name, "served": true, "referenceable": is_referenceable,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "color": {"type": "string"}, "sizes": {"type": "array", "items": {"type": "string"}},
                    "extra": {"type": "object", "additionalProperties": {"type": "string"}},
                }},
                "status": {"type": "object", "properties": {"color": {"type": "string"}}},
            }}},
        })
    };
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "sites.legacy.example.org"},
        "spec": {
            "group": "legacy.example.org", "names": {"kind": "Site", "plural": "sites"},
            "claimNames": {"kind": "Page", "plural": "pages"}, "connectionSecretKeys": ["user"],
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

/// A site is a setting, and ready when it has a color.
pub(crate) fn composition() -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "legacy.example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "writeConnectionSecretsToNamespace": "kube-system",
            "pipeline": [
                {
                    "step": "say", "functionRef": {"name": "function-dummy"},
                    "input": {
                        "apiVersion": "dummy.fn.crossplane.io/v1beta1", "kind": "Response",
                        "response": {"conditions": [
                            {"type": "Told", "status": "STATUS_CONDITION_TRUE", "reason": "Both", "target": "TARGET_COMPOSITE_AND_CLAIM"},
                            {"type": "Kept", "status": "STATUS_CONDITION_TRUE", "reason": "Own", "target": "TARGET_COMPOSITE"},
                        ]},
                    },
                },
                {
                    "step": "compose", "functionRef": {"name": "function-patch-and-transform"},
                    "input": {"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": [{
                        "name": "setting",
                        "base": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}},
                        "patches": [
                            {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"},
                            {"type": "ToCompositeFieldPath", "fromFieldPath": "data.color", "toFieldPath": "status.color"},
                        ],
                        "connectionDetails": [
                            {"name": "user", "type": "FromFieldPath", "fromFieldPath": "data.color"},
                            {"name": "secret", "type": "FromFieldPath", "fromFieldPath": "data.color"},
                        ],
                        "readinessChecks": [{"type": "NonEmpty", "fieldPath": "data.color"}],
                    }]},
                },
            ],
        },
    })
}

pub(crate) fn page(spec: &Value) -> Value {
    let metadata = json!({"name": "blog"});
    json!({"apiVersion": "legacy.example.org/v1", "kind": "Page", "metadata": metadata, "spec": spec})
}

pub(crate) async fn plane_with_pages() -> Plane {
    let plane = Plane::new().await;
    plane.apply(XRD, &definition()).await;
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/sites", &composition()).await;
    plane.until(XRD, |xrd| is_offered(xrd) && is_established(xrd)).await;
    plane
}

fn is_established(xrd: &Value) -> bool {
    condition(xrd, "Established").as_deref() == Some("True/WatchingCompositeResource")
}

fn is_offered(xrd: &Value) -> bool {
    condition(xrd, "Offered").as_deref() == Some("True/WatchingCompositeResourceClaim")
}

pub(crate) fn is_ready(object: &Value) -> bool {
    condition(object, "Synced").as_deref() == Some("True/ReconcileSuccess")
        && condition(object, "Ready").as_deref() == Some("True/Available")
}

/// The path of the composite resource of a claim.
pub(crate) fn site_of(page: &Value) -> String {
    format!("{SITES}/{}", page["spec"]["resourceRef"]["name"].as_str().unwrap())
}

pub(crate) async fn ready_page(plane: &Plane, spec: &Value) -> Value {
    plane.apply(PAGE, &page(spec)).await;
    plane.until(PAGE, is_ready).await
}

#[tokio::test]
async fn claims_are_offered() {
    let plane = plane_with_pages().await;
    let xrd = plane.get(XRD).await;
    let finalizers = xrd["metadata"]["finalizers"].as_array().unwrap();
    assert!(finalizers.contains(&json!("offered.apiextensions.crossplane.io")), "{finalizers:?}");
    assert_eq!(
        xrd["status"]["controllers"]["compositeResourceClaimType"],
        json!({"apiVersion": "legacy.example.org/v1", "kind": "Page"})
    );
    assert_eq!(plane.get(CLAIM_CRD).await["metadata"]["ownerReferences"][0]["uid"], xrd["metadata"]["uid"]);
    plane.until_said("sites.legacy.example.org", "Normal/OfferClaim: Applied").await;
}

#[tokio::test]
async fn claim_becomes_a_composite_resource_and_hears_what_comes_of_it() {
    let plane = plane_with_pages().await;
    let mut wish = page(&json!({"color": "red", "writeConnectionSecretToRef": {"name": "login"}}));
    wish["metadata"]["labels"] = json!({"team": "a", "app.kubernetes.io/name": "b"});
    wish["metadata"]["annotations"] = json!({"note": "c"});
    plane.apply(PAGE, &wish).await;
    let page = plane.until(PAGE, is_ready).await;
    assert_eq!(page["metadata"]["finalizers"], json!(["finalizer.apiextensions.crossplane.io"]));
    assert_eq!(page["status"]["color"], "red");
    assert_eq!(condition(&page, "Told").as_deref(), Some("True/Both"));
    assert_eq!(condition(&page, "Kept"), None);
    assert_eq!(page["spec"]["compositionRef"]["name"], "sites");
    assert!(page["spec"]["compositionRevisionRef"]["name"].is_string());
    plane.until_said("blog", "Normal/BindCompositeResource: Bound").await;

    let site = plane.get(&site_of(&page)).await;
    assert!(site["metadata"]["name"].as_str().unwrap().starts_with("blog-"));
    let labels = &site["metadata"]["labels"];
    assert_eq!((&labels["team"], &labels["app.kubernetes.io/name"]), (&json!("a"), &Value::Null));
    assert_eq!(
        (&labels["crossplane.io/claim-name"], &labels["crossplane.io/claim-namespace"]),
        (&json!("blog"), &json!("default"))
    );
    assert_eq!(site["metadata"]["annotations"]["note"], "c");
    assert_eq!(
        site["spec"]["claimRef"],
        json!({"apiVersion": "legacy.example.org/v1", "kind": "Page", "namespace": "default", "name": "blog"})
    );

    let secret = plane.get("/api/v1/namespaces/default/secrets/login").await;
    assert_eq!(secret["data"], json!({"user": "cmVk"}));
    assert_eq!(secret["type"], "connection.crossplane.io/v1alpha1");
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], page["metadata"]["uid"]);
    assert!(page["status"]["connectionDetails"]["lastPublishedTime"].is_string());
    plane.until_said("blog", "Normal/PropagateConnectionSecret").await;
}

#[tokio::test]
async fn connection_details_that_change_are_handed_on() {
    let plane = plane_with_pages().await;
    ready_page(&plane, &json!({"color": "red", "writeConnectionSecretToRef": {"name": "login"}})).await;
    plane.merge(PAGE, &json!({"spec": {"color": "blue"}})).await;
    let secret = "/api/v1/namespaces/default/secrets/login";
    plane.until(secret, |secret| secret["data"] == json!({"user": "Ymx1ZQ=="})).await;
}

#[tokio::test]
async fn claim_waits_until_its_composite_resource_is_ready() {
    let plane = plane_with_pages().await;
    plane.apply(PAGE, &page(&json!({}))).await;
    plane.until(PAGE, |page| condition(page, "Ready").as_deref() == Some("False/Waiting")).await;
    plane.merge(PAGE, &json!({"spec": {"color": "red"}})).await;
    plane.until(PAGE, is_ready).await;
}

#[tokio::test]
async fn what_is_taken_from_a_claim_is_taken_from_its_composite_resource() {
    let mut plane = plane_with_pages().await;
    let mut wish = page(&json!({"color": "red", "sizes": ["s", "m"], "extra": {"a": "1", "b": "2"}}));
    wish["metadata"]["labels"] = json!({"x": "1", "y": "2"});
    wish["metadata"]["annotations"] = json!({"x": "1", "y": "2"});
    plane.apply(PAGE, &wish).await;
    let site = site_of(&plane.until(PAGE, is_ready).await);
    wish["spec"] = json!({"color": "red", "sizes": ["m"], "extra": {"b": "2"}});
    wish["metadata"]["labels"] = json!({"y": "2"});
    wish["metadata"]["annotations"] = json!({"y": "2"});
    plane.apply(PAGE, &wish).await;
    let is_less = |site: &Value| {
        site["spec"]["sizes"] == json!(["m"])
            && site["spec"]["extra"] == json!({"b": "2"})
            && site["metadata"]["labels"]["x"].is_null()
            && site["metadata"]["annotations"]["x"].is_null()
    };
    plane.until(&site, is_less).await;
    plane
        .until(PAGE, |page| {
            page["status"]["conditions"][0]["observedGeneration"] == page["metadata"]["generation"]
        })
        .await;

    // Neither keeps changing the other, not even for somebody who knows nothing of what was done.
    plane.quiet().await;
    plane.stop().await;
    plane.writes();
    let before = (plane.get(PAGE).await, plane.get(&site).await);
    plane.start().await;
    let mut other = page(&json!({"color": "blue"}));
    other["metadata"]["name"] = json!("other");
    let path = PAGE.replace("blog", "other");
    plane.apply(&path, &other).await;
    plane.until(&path, is_ready).await;
    assert_eq!((plane.get(PAGE).await, plane.get(&site).await), before);
    let writes = plane.writes();
    let ours: Vec<_> = writes.iter().filter(|write| write.contains("blog")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

#[tokio::test]
async fn claim_takes_over_a_composite_resource_of_nobody() {
    let plane = plane_with_pages().await;
    let site = format!("{SITES}/existing");
    let existing = json!({
        "apiVersion": "legacy.example.org/v1", "kind": "Site",
        "metadata": {"name": "existing", "annotations": {"crossplane.io/external-name": "out-there"}},
        "spec": {"color": "red", "sizes": ["s"]},
    });
    plane.apply(&site, &existing).await;
    plane.until(&site, is_ready).await;
    let reference = json!({"apiVersion": "legacy.example.org/v1", "kind": "Site", "name": "existing"});
    let page = ready_page(&plane, &json!({"color": "blue", "resourceRef": reference})).await;
    assert_eq!(page["metadata"]["annotations"]["crossplane.io/external-name"], "out-there");
    let bound = plane.until(&site, |site| site["spec"]["color"] == "blue").await;
    assert_eq!(bound["spec"]["claimRef"]["name"], "blog");
    plane.delete(PAGE).await;
    plane.until(PAGE, Value::is_null).await;
    plane.until(&site, Value::is_null).await;
}

/// As after an end between the two writes.
#[tokio::test]
async fn composite_resource_that_a_claim_names_is_made_if_it_is_not_there() {
    let plane = plane_with_pages().await;
    let reference = json!({"apiVersion": "legacy.example.org/v1", "kind": "Site", "name": "promised"});
    ready_page(&plane, &json!({"color": "red", "resourceRef": reference})).await;
    let sites = plane.get(SITES).await;
    let names: Vec<_> =
        sites["items"].as_array().unwrap().iter().map(|site| &site["metadata"]["name"]).collect();
    assert_eq!(names, ["promised"]);
}

#[tokio::test]
async fn composite_resource_of_another_claim_is_left_alone() {
    let plane = plane_with_pages().await;
    let first = ready_page(&plane, &json!({"color": "red"})).await;
    let mut thief = page(&json!({"color": "blue", "resourceRef": first["spec"]["resourceRef"]}));
    thief["metadata"]["name"] = json!("thief");
    let path = PAGE.replace("blog", "thief");
    plane.apply(&path, &thief).await;
    let refused =
        plane.until(&path, |page| condition(page, "Synced").as_deref() == Some("False/ReconcileError")).await;
    assert!(
        refused["status"]["conditions"][0]["message"].as_str().unwrap().contains("default/blog"),
        "{refused}"
    );
    assert_eq!(refused["status"]["color"], Value::Null);
    plane.until_said("thief", "Warning/BindCompositeResource").await;
    assert_eq!(plane.get(&site_of(&first)).await["spec"]["color"], "red");
    plane.delete(&path).await;
    plane.until(&path, Value::is_null).await;
    assert_eq!(plane.get(&site_of(&first)).await["metadata"]["deletionTimestamp"], Value::Null);
}

#[tokio::test]
async fn composite_resource_that_two_claims_name_at_once_is_that_of_the_first() {
    let mut plane = plane_with_pages().await;
    plane.stop().await;
    for (name, color) in [("blog", "red"), ("shop", "blue")] {
        let reference = json!({"apiVersion": "legacy.example.org/v1", "kind": "Site", "name": "shared"});
        let mut page = page(&json!({"color": color, "resourceRef": reference}));
        page["metadata"]["name"] = json!(name);
        plane.apply(&PAGE.replace("blog", name), &page).await;
    }
    plane.start().await;
    let site = plane.until(&format!("{SITES}/shared"), is_ready).await;
    let (first, second) = if site["spec"]["color"] == "red" { ("blog", "shop") } else { ("shop", "blog") };
    assert_eq!(site["spec"]["claimRef"]["name"], first);
    plane.until(&PAGE.replace("blog", first), is_ready).await;
    let other = PAGE.replace("blog", second);
    let refused = plane
        .until(&other, |page| condition(page, "Synced").as_deref() == Some("False/ReconcileError"))
        .await;
    let message = refused["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains(&format!("it is bound to the claim `default/{first}`")), "{message}");
    assert_eq!(condition_code(&refused, "Synced"), "CompositeResourceBound");
    plane.until_said(second, "Warning/BindCompositeResource").await;
    let events = plane.events(second).await;
    assert!(!events.iter().any(|event| event.contains("Bound the composite resource")), "{events:#?}");
    // The claim that got nothing keeps nothing from being deleted.
    plane.delete(&other).await;
    plane.until(&other, Value::is_null).await;
    let site = plane.get(&format!("{SITES}/shared")).await;
    assert_eq!(
        (&site["spec"]["claimRef"]["name"], &site["metadata"]["deletionTimestamp"]),
        (&json!(first), &Value::Null)
    );
}

#[tokio::test]
async fn composite_resource_goes_with_its_claim() {
    let plane = plane_with_pages().await;
    let page = ready_page(&plane, &json!({"color": "red", "compositeDeletePolicy": "Background"})).await;
    let site = site_of(&page);
    plane.merge(&site, &keep(&plane.get(&site).await)).await;
    plane.delete(PAGE).await;
    plane.until(PAGE, Value::is_null).await;
    plane.until(&site, |site| site["metadata"]["deletionTimestamp"].is_string()).await;
    plane.until_said("blog", "Normal/DeleteCompositeResource").await;
}

#[tokio::test]
async fn claim_that_is_to_wait_goes_after_its_composite_resource() {
    let plane = plane_with_pages().await;
    let page = ready_page(&plane, &json!({"color": "red", "compositeDeletePolicy": "Foreground"})).await;
    let site = site_of(&page);
    plane.merge(&site, &keep(&plane.get(&site).await)).await;
    plane.delete(PAGE).await;
    plane.until(PAGE, |page| condition(page, "Ready").as_deref() == Some("False/Deleting")).await;
    let going = plane.until(&site, |site| site["metadata"]["deletionTimestamp"].is_string()).await;
    assert!(going["metadata"]["finalizers"].as_array().unwrap().contains(&json!("legacy.example.org/keep")));
    assert!(!plane.get(PAGE).await.is_null());
    let is_only_kept_by_us =
        |site: &Value| site["metadata"]["finalizers"] == json!(["legacy.example.org/keep"]);
    plane.until(&site, is_only_kept_by_us).await;
    plane.merge(&site, &json!({"metadata": {"finalizers": null}})).await;
    plane.until(PAGE, Value::is_null).await;
    assert_eq!(plane.get(&site).await, Value::Null);
}

/// Keeps an object after it was deleted.
fn keep(object: &Value) -> Value {
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!("legacy.example.org/keep"));
    json!({"metadata": {"finalizers": finalizers}})
}

#[tokio::test]
async fn composite_resource_that_somebody_deleted_comes_back() {
    let plane = plane_with_pages().await;
    let page = ready_page(&plane, &json!({"color": "red"})).await;
    let before = plane.get(&site_of(&page)).await;
    plane.delete(&site_of(&page)).await;
    let is_another = |site: &Value| is_ready(site) && site["metadata"]["uid"] != before["metadata"]["uid"];
    plane.until(&site_of(&page), is_another).await;
    plane.until(PAGE, is_ready).await;
}

#[tokio::test]
async fn paused_claim_is_left_alone() {
    let plane = plane_with_pages().await;
    let site = site_of(&ready_page(&plane, &json!({"color": "red"})).await);
    plane.merge(PAGE, &json!({"metadata": {"annotations": {"crossplane.io/paused": "true"}}})).await;
    plane.until(PAGE, |page| condition(page, "Synced").as_deref() == Some("False/ReconcilePaused")).await;
    plane.until_said("blog", "Normal/ReconciliationPaused").await;
    plane.merge(PAGE, &json!({"spec": {"color": "blue"}})).await;
    plane.delete(PAGE).await;
    plane.until(PAGE, |page| page["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(plane.get(&site).await["spec"]["color"], "red");
    assert_eq!(plane.get(&site).await["metadata"]["deletionTimestamp"], Value::Null);
    plane.merge(PAGE, &json!({"metadata": {"annotations": {"crossplane.io/paused": "false"}}})).await;
    plane.until(PAGE, Value::is_null).await;
}

#[tokio::test]
async fn secret_of_somebody_else_is_not_written_to() {
    let plane = plane_with_pages().await;
    let path = "/api/v1/namespaces/default/secrets/login";
    let theirs =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": {"a": "Yg=="}});
    plane.apply(path, &theirs).await;
    plane.apply(PAGE, &page(&json!({"color": "red", "writeConnectionSecretToRef": {"name": "login"}}))).await;
    plane.until_said("blog", "Warning/PropagateConnectionSecret").await;
    let page =
        plane.until(PAGE, |page| condition(page, "Synced").as_deref() == Some("False/ReconcileError")).await;
    assert_eq!(condition_code(&page, "Synced"), "ConnectionSecretControlled");
    assert_eq!(plane.get(path).await["data"], json!({"a": "Yg=="}));
}

#[tokio::test]
async fn claim_for_which_all_names_are_taken_says_so() {
    let plane = plane_with_pages().await;
    // The names depend on its uid. While it is paused it takes none of them.
    let mut paused = page(&json!({"color": "red"}));
    paused["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    let claim = plane.apply(PAGE, &paused).await;
    for attempt in 0..10 {
        let name = claimed_name(claim.as_object().unwrap(), attempt);
        let site = json!({
            "apiVersion": "legacy.example.org/v1", "kind": "Site", "metadata": {"name": name}, "spec": {"color": "blue"},
        });
        plane.apply(&format!("{SITES}/{name}"), &site).await;
    }
    plane.merge(PAGE, &json!({"metadata": {"annotations": {"crossplane.io/paused": null}}})).await;
    let claim =
        plane.until(PAGE, |page| condition_code(page, "Synced") == "CompositeResourceNameTaken").await;
    assert_eq!(claim["spec"].get("resourceRef"), None);
}

#[tokio::test]
async fn composition_that_is_enforced_is_the_claims_too() {
    let plane = plane_with_pages().await;
    let mut other = composition();
    other["metadata"]["name"] = json!("other");
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/other", &other).await;
    let page = ready_page(&plane, &json!({"color": "red", "compositionRef": {"name": "other"}})).await;
    assert_eq!(plane.get(&site_of(&page)).await["spec"]["compositionRef"]["name"], "other");
    plane.merge(XRD, &json!({"spec": {"enforcedCompositionRef": {"name": "sites"}}})).await;
    plane.until(PAGE, |page| page["spec"]["compositionRef"]["name"] == "sites").await;
    plane.until(&site_of(&page), |site| site["spec"]["compositionRef"]["name"] == "sites").await;
}

#[tokio::test]
async fn claims_follow_another_version() {
    let plane = plane_with_pages().await;
    let page = ready_page(&plane, &json!({"color": "red"})).await;
    let mut changed = definition();
    changed["spec"]["versions"][0]["referenceable"] = json!(false);
    changed["spec"]["versions"][1]["referenceable"] = json!(true);
    plane.apply(XRD, &changed).await;
    let claimed =
        |xrd: &Value| xrd["status"]["controllers"]["compositeResourceClaimType"]["apiVersion"].clone();
    plane.until(XRD, |xrd| claimed(xrd) == "legacy.example.org/v2").await;
    let site = site_of(&page).replace("/v1/", "/v2/");
    plane.until(&site, |site| site["spec"]["claimRef"]["apiVersion"] == "legacy.example.org/v2").await;
    plane.merge(PAGE, &json!({"spec": {"color": "blue"}})).await;
    plane.until(&site, |site| site["spec"]["color"] == "blue").await;
}

#[tokio::test]
async fn definition_goes_after_its_claims() {
    let plane = plane_with_pages().await;
    let page = ready_page(&plane, &json!({"color": "red", "compositeDeletePolicy": "Foreground"})).await;
    let site = site_of(&page);
    plane.merge(&site, &keep(&plane.get(&site).await)).await;
    plane.delete(XRD).await;
    plane.until(PAGE, |page| page["metadata"]["deletionTimestamp"].is_string()).await;
    plane
        .until(XRD, |xrd| {
            condition(xrd, "Offered").as_deref() == Some("False/TerminatingCompositeResourceClaim")
        })
        .await;
    plane.until_said("sites.legacy.example.org", "Normal/RedactClaim: Waiting").await;
    plane.until_said("sites.legacy.example.org", "Normal/TerminateComposite: Waiting until all claims").await;
    let is_only_kept_by_us =
        |site: &Value| site["metadata"]["finalizers"] == json!(["legacy.example.org/keep"]);
    plane.until(&site, is_only_kept_by_us).await;
    plane.merge(&site, &json!({"metadata": {"finalizers": null}})).await;
    plane.until(XRD, Value::is_null).await;
    for path in [CLAIM_CRD, CRD, PAGE] {
        assert_eq!(plane.get(path).await, Value::Null, "{path}");
    }
}

#[tokio::test]
async fn kind_of_claims_is_let_go_even_if_the_definition_no_longer_names_it() {
    let plane = plane_with_pages().await;
    let (code, _) = plane
        .send(Method::PATCH, XRD, "application/merge-patch+json", &json!({"spec": {"claimNames": null}}))
        .await;
    assert_eq!(code, 200);
    plane.delete(XRD).await;
    plane.until(XRD, Value::is_null).await;
    assert_eq!(plane.get(CLAIM_CRD).await, Value::Null);
}

#[tokio::test]
async fn claim_that_is_to_wait_goes_after_everything_that_was_composed() {
    let plane = plane_with_pages().await;
    let mut outer = definition();
    outer["metadata"]["name"] = json!("hubs.legacy.example.org");
    outer["spec"]["names"] = json!({"kind": "Hub", "plural": "hubs"});
    outer["spec"]["claimNames"] = json!({"kind": "Door", "plural": "doors"});
    plane.apply(&XRD.replace("sites", "hubs"), &outer).await;
    let mut nested = composition();
    nested["metadata"]["name"] = json!("hubs");
    nested["spec"]["compositeTypeRef"]["kind"] = json!("Hub");
    nested["spec"]["pipeline"][1]["input"]["resources"] = json!([{
        "name": "site", "base": {"apiVersion": "legacy.example.org/v1", "kind": "Site"},
        "patches": [
            {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "spec.color"},
            {"type": "ToCompositeFieldPath", "fromFieldPath": "status.color", "toFieldPath": "status.color"},
        ],
    }]);
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/hubs", &nested).await;
    plane.until(&XRD.replace("sites", "hubs"), is_offered).await;

    let path = "/apis/legacy.example.org/v1/namespaces/default/doors/front";
    let door = json!({
        "apiVersion": "legacy.example.org/v1", "kind": "Door", "metadata": {"name": "front"},
        "spec": {"color": "red", "compositeDeletePolicy": "Foreground"},
    });
    plane.apply(path, &door).await;
    let door = plane.until(path, |door| is_ready(door) && door["status"]["color"] == "red").await;
    let setting = plane.get("/api/v1/namespaces/default/configmaps").await["items"][0].clone();
    let setting =
        format!("/api/v1/namespaces/default/configmaps/{}", setting["metadata"]["name"].as_str().unwrap());
    plane.merge(&setting, &keep(&plane.get(&setting).await)).await;
    plane.delete(path).await;
    plane.until(&setting, |setting| setting["metadata"]["deletionTimestamp"].is_string()).await;
    let hub =
        format!("/apis/legacy.example.org/v1/hubs/{}", door["spec"]["resourceRef"]["name"].as_str().unwrap());
    assert!(!plane.get(path).await.is_null() && !plane.get(&hub).await.is_null());
    plane.merge(&setting, &json!({"metadata": {"finalizers": null}})).await;
    plane.until(path, Value::is_null).await;
    assert_eq!(plane.get(&hub).await, Value::Null);
    assert_eq!(plane.get(SITES).await["items"], json!([]));
}

#[tokio::test]
async fn composite_resource_that_an_old_crossplane_bound_is_applied_from_now_on() {
    let mut plane = plane_with_pages().await;
    let page = ready_page(&plane, &json!({"color": "red", "extra": {"a": "1"}})).await;
    let site = site_of(&page);
    plane.quiet().await;
    plane.stop().await;
    age(&plane, &site).await;
    plane.start().await;
    plane.apply(PAGE, &self::page(&json!({"color": "red"}))).await;
    let site = plane
        .until(&site, |site| {
            managers_of(site).contains(&"apiextensions.crossplane.io/claim/Apply".to_owned())
        })
        .await;
    let managers = managers_of(&site);
    assert!(!managers.contains(&"crossplane/Update".to_owned()), "{managers:?}");
}

#[tokio::test]
async fn namespaced_resource_without_a_namespace_is_named() {
    let plane = plane_with_pages().await;
    let mut composition = composition();
    composition["spec"]["pipeline"][1]["input"]["resources"][0]["base"]["metadata"] = json!({});
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/sites", &composition).await;
    // Only then is there a composite resource: what an earlier revision has composed in a namespace stays there, and needs none.
    let is_valid = |revision: &Value| {
        let base = &revision["spec"]["pipeline"][1]["input"]["resources"][0]["base"];
        base["metadata"]["namespace"].is_null()
            && condition(revision, "ValidPipeline").is_some_and(|valid| valid.starts_with("True"))
    };
    let revisions = "/apis/apiextensions.crossplane.io/v1/compositionrevisions";
    plane.until(revisions, |list| list["items"].as_array().is_some_and(|all| all.iter().any(is_valid))).await;
    plane.apply(PAGE, &page(&json!({"color": "red"}))).await;
    let page = plane.until(PAGE, |page| page["spec"]["resourceRef"]["name"].is_string()).await;
    let is_named = |site: &Value| {
        let conditions = site["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            condition["code"] == "ComposedResourceNamespaceMissing"
                && condition["resource"] == "setting"
                && condition["message"]
                    .as_str()
                    .is_some_and(|message| message.contains("set metadata.namespace"))
        })
    };
    plane.until(&site_of(&page), is_named).await;
}
