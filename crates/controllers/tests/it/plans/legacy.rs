//! Plans for claims, connection Secrets, definitions, and what `kubectl apply` wrote.

use ferroplane_engine::changes::{Action, Change, ChangePlan, Verdict};
use ferroplane_testkit::plane::sites::{SITES, is_ready as is_site_ready, plane_with_sites};
use ferroplane_testkit::plane::{Plane, master};
use serde_json::{Value, json};

use super::corpus::{happened, planned, settled, snapshot};
use crate::claim::{PAGE, definition, is_ready, page, plane_with_pages, ready_page, site_of};

fn claim(spec: &Value) -> Value {
    let mut claim = page(spec);
    claim["metadata"]["namespace"] = json!("default");
    claim
}

fn of_kind<'p>(plan: &'p ChangePlan, kind: &str) -> Vec<&'p Change> {
    let changes = plan.composites.iter().flat_map(|composite| &composite.changes);
    changes.filter(|change| change.object.kind == kind).collect()
}

/// The fields of a change, with what they become.
fn fields(change: &Change) -> Vec<(&str, Option<&Value>)> {
    change.fields.iter().map(|field| (field.path.as_str(), field.after.as_ref())).collect()
}

#[tokio::test]
async fn change_of_a_claim_reaches_what_its_composite_resource_composes() {
    let plane = plane_with_pages().await;
    let page = ready_page(&plane, &json!({"color": "red"})).await;
    plane.quiet().await;
    let before = plane.versions().await;
    let plan = plane.plan(&[claim(&json!({"color": "blue"}))]).await.unwrap();
    assert_eq!(plane.versions().await, before, "nothing is written");
    let [setting] = of_kind(&plan, "ConfigMap")[..] else { panic!("{plan:#?}") };
    assert_eq!(fields(setting), [("data.color", Some(&json!("blue")))]);
    let [site] = of_kind(&plan, "Site")[..] else { panic!("{plan:#?}") };
    assert!(fields(site).contains(&("status.color", Some(&json!("blue")))), "{plan:#?}");
    let [claimed] = &plan.proposed[..] else { panic!("{plan:#?}") };
    let blue = json!("blue");
    assert_eq!(fields(claimed), [("spec.color", Some(&blue)), ("status.color", Some(&blue))], "{plan:#?}");
    // What is then done is what the plan said.
    plane.merge(PAGE, &json!({"spec": {"color": "blue"}})).await;
    plane.until(&site_of(&page), |site| is_ready(site) && site["status"]["color"] == "blue").await;
    plane.quiet().await;
    let path = format!("/api/v1/namespaces/default/configmaps/{}", setting.object.name);
    assert_eq!(plane.get(&path).await["data"]["color"], "blue");
    let plan = plane.plan(&[claim(&json!({"color": "blue"}))]).await.unwrap();
    assert!(!plan.has_differences(), "{plan:#?}");
}

#[tokio::test]
async fn new_claim_is_planned_with_its_composite_resource() {
    let plane = plane_with_pages().await;
    plane.quiet().await;
    let before = plane.versions().await;
    let plan = plane.plan(&[claim(&json!({"color": "red"}))]).await.unwrap();
    assert_eq!(plane.versions().await, before, "nothing is written");
    let created = |kind: &str| of_kind(&plan, kind).iter().all(|change| change.action == Action::Create);
    assert!(created("ConfigMap") && of_kind(&plan, "ConfigMap").len() == 1, "{plan:#?}");
    assert_eq!(plan.composites.len(), 1, "{plan:#?}");
    assert!(matches!(plan.composites[0].verdict, Verdict::Changed), "{plan:#?}");
}

#[tokio::test]
async fn claim_that_is_paused_changes_nothing_but_itself() {
    let plane = plane_with_pages().await;
    ready_page(&plane, &json!({"color": "red"})).await;
    plane.quiet().await;
    let mut paused = claim(&json!({"color": "blue"}));
    paused["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    let plan = plane.plan(&[paused]).await.unwrap();
    let [page] = &plan.proposed[..] else { panic!("{plan:#?}") };
    let (annotation, [paused, blue]) =
        ("metadata.annotations[\"crossplane.io/paused\"]", [json!("true"), json!("blue")]);
    assert_eq!(fields(page), [(annotation, Some(&paused)), ("spec.color", Some(&blue))]);
    assert!(plan.composites.iter().all(|it| it.changes.is_empty()), "{plan:#?}");
}

#[tokio::test]
async fn connection_secret_of_a_legacy_composite_resource_is_planned_without_its_values() {
    let plane = plane_with_pages().await;
    let spec = json!({"color": "red", "writeConnectionSecretToRef": {"name": "details"}});
    ready_page(&plane, &spec).await;
    plane.until("/api/v1/namespaces/default/secrets/details", |it| it["data"]["user"].is_string()).await;
    plane.quiet().await;
    let changed = json!({"color": "hunter2", "writeConnectionSecretToRef": {"name": "details"}});
    let plan = plane.plan(&[claim(&changed)]).await.unwrap();
    let secrets = of_kind(&plan, "Secret");
    let [copy, secret] = secrets[..] else { panic!("{plan:#?}") };
    let told = |secret: &Change| (secret.action, secret.object.namespace.clone());
    assert_eq!(told(secret), (Action::Update, "kube-system".to_owned()), "{plan:#?}");
    // The claim has a copy.
    assert_eq!(told(copy), (Action::Update, "default".to_owned()), "{plan:#?}");
    assert_eq!(fields(copy), [("data.user", Some(&json!("(redacted)")))]);
    // Only the keys that the definition names are published.
    assert_eq!(fields(secret), [("data.user", Some(&json!("(redacted)")))]);
    let text = serde_json::to_string(&secrets).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    // What is then done is what the plan said: that Secret has another value, and no other key.
    let path = format!("/api/v1/namespaces/kube-system/secrets/{}", secret.object.name);
    let before = plane.get(&path).await;
    plane.merge(PAGE, &json!({"spec": {"color": "hunter2"}})).await;
    let after = plane.until(&path, |it| it["data"]["user"] != before["data"]["user"]).await;
    assert_eq!(after["data"].as_object().unwrap().len(), 1, "{after:#}");
}

/// Another Composition for sites, with a setting of its own.
async fn compose_otherwise(plane: &Plane) {
    let input = json!({
        "apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources",
        "resources": [{"name": "other", "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": "other"}}}],
    });
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "others"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [
                {"step": "settings", "functionRef": {"name": "function-patch-and-transform"}, "input": input},
                {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
            ],
        },
    });
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/others", &composition).await;
    let of_others = |list: &Value| {
        let revisions = list["items"].as_array().unwrap();
        let is_valid = |it: &&Value| ferroplane_testkit::plane::condition(it, "ValidPipeline").is_some();
        revisions.iter().filter(is_valid).count() == 2
    };
    plane.until("/apis/apiextensions.crossplane.io/v1/compositionrevisions", of_others).await;
}

const SITES_XRD: &str = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/sites.example.org";

/// The definition of sites, as a file has it.
async fn sites_definition(plane: &Plane) -> Value {
    let xrd = plane.get(SITES_XRD).await;
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "sites.example.org"}, "spec": xrd["spec"],
    })
}

async fn plane_with_site() -> Plane {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_site_ready).await;
    compose_otherwise(&plane).await;
    plane.quiet().await;
    plane
}

#[tokio::test]
async fn composition_that_a_definition_enforces_replaces_what_composites_have() {
    let plane = plane_with_site().await;
    let mut xrd = sites_definition(&plane).await;
    xrd["spec"]["enforcedCompositionRef"] = json!({"name": "others"});
    let before = plane.versions().await;
    let plan = plane.plan(&[xrd.clone()]).await.unwrap();
    assert_eq!(plane.versions().await, before, "nothing is written");
    let told: Vec<_> =
        of_kind(&plan, "ConfigMap").iter().map(|it| (it.action, it.resource.clone())).collect();
    let named = |action, name: &str| (action, name.to_owned());
    let expected =
        [named(Action::Delete, "one"), named(Action::Delete, "two"), named(Action::Create, "other")];
    assert_eq!(told, expected, "{plan:#?}");

    // What is then done is what the plan said.
    let client = plane.client_of(&master("user"));
    let before = snapshot(&client).await;
    plane.apply(SITES_XRD, &xrd).await;
    plane
        .until(&format!("{SITES}/blog"), |site| {
            site["spec"]["crossplane"]["compositionRef"]["name"] == "others" && is_site_ready(site)
        })
        .await;
    let after = settled(&plane, &client).await;
    let mut planned = planned(&plan);
    planned.retain(|(_, kind, ..)| kind != "CompositeResourceDefinition");
    assert_eq!(planned, happened(|_| true, &before, &after), "{plan:#?}");
    let settings = plane.settings_of("blog").await;
    let who: Vec<_> = settings.iter().map(|it| it["data"]["who"].clone()).collect();
    assert_eq!(who, ["other"]);
}

#[tokio::test]
async fn definition_whose_schema_changes_objects_is_not_planned_and_one_that_adds_a_field_changes_nothing() {
    let plane = plane_with_site().await;
    let xrd = sites_definition(&plane).await;
    let schema = |change: &dyn Fn(&mut Value)| {
        let mut xrd = xrd.clone();
        change(
            &mut xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"],
        );
        xrd
    };
    let added = schema(&|fields| fields["size"] = json!({"type": "string"}));
    let plan = plane.plan(&[added]).await.unwrap();
    assert!(plan.composites.iter().all(|it| matches!(it.verdict, Verdict::Unchanged)), "{plan:#?}");
    let defaulted = schema(&|fields| fields["size"] = json!({"type": "string", "default": "small"}));
    let plan = plane.plan(&[defaulted]).await.unwrap();
    let refused = |it: &Verdict| matches!(it, Verdict::Refused { reason } if reason.contains("apply the definition first"));
    assert!(plan.composites.iter().any(|it| refused(&it.verdict)), "{plan:#?}");
    // So it is for the definition of a claim. A real API server belongs to one plane at a time.
    drop(plane);
    let legacy = plane_with_pages().await;
    ready_page(&legacy, &json!({"color": "red"})).await;
    legacy.quiet().await;
    let mut xrd = definition();
    xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"] =
        json!({"type": "string", "enum": ["blue"]});
    let plan = legacy.plan(&[xrd]).await.unwrap();
    assert!(plan.composites.iter().any(|it| refused(&it.verdict)), "{plan:#?}");
}

#[tokio::test]
async fn what_kubectl_applied_is_merged_three_ways() {
    let plane = plane_with_site().await;
    let path = format!("{SITES}/blog");
    // As `kubectl apply` leaves it: a label and a color of its own, and a label that somebody else set.
    let file = |labels: &Value, color: &str| {
        json!({
            "apiVersion": "example.org/v1", "kind": "Site",
            "metadata": {"name": "blog", "namespace": "default", "labels": labels}, "spec": {"color": color},
        })
    };
    let applied = file(&json!({"team": "one", "tier": "gold"}), "red");
    let last = json!({"metadata": {
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()},
        "labels": {"team": "one", "tier": "gold", "other": "theirs"},
    }});
    plane.merge(&path, &last).await;
    plane.quiet().await;
    let before = plane.versions().await;
    let changed = file(&json!({"team": "two"}), "blue");
    let plan = plane.plan(&[changed]).await.unwrap();
    assert_eq!(plane.versions().await, before, "nothing is written");
    let site = of_kind(&plan, "Site").into_iter().next().or(plan.proposed.first()).unwrap();
    let all: Vec<_> = plan.proposed.iter().chain([site]).flat_map(fields).collect();
    assert!(all.contains(&("metadata.labels.team", Some(&json!("two")))), "{plan:#?}");
    assert!(all.contains(&("metadata.labels.tier", None)), "what the file no longer has goes: {plan:#?}");
    assert!(!all.iter().any(|(path, _)| path.contains("other")), "what others set stays: {plan:#?}");
    assert!(all.contains(&("spec.color", Some(&json!("blue")))), "{plan:#?}");
    let [one, two] = of_kind(&plan, "ConfigMap")[..] else { panic!("{plan:#?}") };
    assert_eq!((one.action, two.action), (Action::Update, Action::Update));
}
