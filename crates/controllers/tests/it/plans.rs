//! Plans: what a change would do, and that nothing is done.

mod claims;
mod corpus;
mod legacy;
mod readiness;
mod revisions;
mod snapshot;
mod stored;

use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_controllers::PlanRequest;
use ferroplane_engine::changes::{Action, ChangePlan, CompositePlan, Verdict};
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites, plane_with_sites_by};
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

fn site(name: &str, color: &str) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": name, "namespace": "default"},
        "spec": {"color": color},
    })
}

/// A Composition of these settings, each of which has the color of its site.
fn composition(settings: &[&str]) -> Value {
    let resources = settings.iter().map(|name| {
        json!({
            "name": name,
            "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name}},
            "patches": [
                {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"},
                {"type": "ToCompositeFieldPath", "fromFieldPath": "data.color", "toFieldPath": "status.color"},
            ],
        })
    });
    let input = json!({
        "apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources.collect::<Value>(),
    });
    steps(&json!([
        {"step": "settings", "functionRef": {"name": "function-patch-and-transform"}, "input": input},
        {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
    ]))
}

fn steps(pipeline: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"},
            "mode": "Pipeline", "pipeline": pipeline,
        },
    })
}

/// A plane with these sites, which are ready, and nothing left to do.
async fn plane_with(names: &[&str]) -> Plane {
    let plane = plane_with_sites().await;
    for name in names {
        plane.create_site(name, "red").await;
    }
    for name in names {
        plane.until(&format!("{SITES}/{name}"), is_ready).await;
    }
    plane.quiet().await;
    plane
}

fn of<'p>(plan: &'p ChangePlan, name: &str) -> &'p CompositePlan {
    let found = plan.composites.iter().find(|composite| composite.composite.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {plan:#?}"))
}

/// What happens to which composed resource.
fn told(composite: &CompositePlan) -> Vec<(Action, &str)> {
    let composed = composite.changes.iter().filter(|change| change.object.kind != "Site");
    composed.map(|change| (change.action, change.resource.as_str())).collect()
}

#[tokio::test]
async fn change_of_a_composition_reaches_every_site_and_writes_nothing() {
    let plane = plane_with(&["blog", "docs"]).await;
    let before = plane.versions().await;
    let plan = plane.plan(&[composition(&["one", "three"])]).await.unwrap();
    assert_eq!(plane.versions().await, before);
    assert_eq!((plan.composites.len(), plan.considered), (2, 2));
    for name in ["blog", "docs"] {
        let composite = of(&plan, name);
        assert_eq!(composite.verdict, Verdict::Changed);
        assert_eq!(told(composite), [(Action::Delete, "two"), (Action::Create, "three")]);
    }
    assert_eq!(plan.proposed.len(), 1);
}

#[tokio::test]
async fn nothing_changes_when_files_say_what_is() {
    let plane = plane_with(&["blog"]).await;
    let plan = plane.plan(&[composition(&["one", "two"]), site("blog", "red")]).await.unwrap();
    assert!(!plan.has_differences(), "{plan:#?}");
}

#[tokio::test]
async fn change_of_a_site_is_told_field_by_field_with_its_status() {
    let plane = plane_with(&["blog", "docs"]).await;
    let plan = plane.plan(&[site("blog", "blue")]).await.unwrap();
    assert_eq!(plan.composites.len(), 1);
    let blog = of(&plan, "blog");
    assert_eq!(told(blog), [(Action::Update, "one"), (Action::Update, "two")]);
    let setting = blog.changes.iter().find(|change| change.resource == "one").unwrap();
    assert_eq!(setting.fields.len(), 1);
    assert_eq!(setting.fields[0].path, "data.color");
    assert_eq!(setting.fields[0].after, Some("blue".into()));
    let own = blog.changes.iter().find(|change| change.object.kind == "Site").unwrap();
    let paths: Vec<_> = own.fields.iter().map(|field| field.path.as_str()).collect();
    assert_eq!(paths, ["spec.color", "status.color"]);
}

#[tokio::test]
async fn names_that_follow_from_a_uid_are_not_invented() {
    let plane = plane_with(&[]).await;
    let plan = plane.plan(&[site("new", "green")]).await.unwrap();
    let new = of(&plan, "new");
    let composed: Vec<_> = new.changes.iter().filter(|change| change.object.kind == "ConfigMap").collect();
    assert_eq!(composed.len(), 2);
    assert!(composed.iter().all(|change| change.object.name == "new-(generated)"), "{new:#?}");
    let text = serde_json::to_string(&plan).unwrap();
    assert!(text.contains("(assigned when created)"), "{text}");
}

#[tokio::test]
async fn resource_of_another_kind_replaces_the_one_that_was() {
    let plane = plane_with(&["blog"]).await;
    let mut changed = composition(&["one", "two"]);
    changed["spec"]["pipeline"][0]["input"]["resources"][0]["base"] =
        json!({"apiVersion": "v1", "kind": "ServiceAccount"});
    changed["spec"]["pipeline"][0]["input"]["resources"][0]["patches"] = json!([]);
    let plan = plane.plan(&[changed]).await.unwrap();
    let blog = of(&plan, "blog");
    assert_eq!(told(blog), [(Action::Replace, "one")]);
    assert_eq!(blog.changes[0].replaces.as_ref().unwrap().kind, "ConfigMap");
}

#[tokio::test]
async fn function_that_changes_its_mind_is_refused_by_name() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let plane = plane_with_sites_by(|_| {
        let turn = CALLS.fetch_add(1, Ordering::SeqCst);
        json!({"desired": {"composite": {"resource": {"status": {"color": format!("{turn}")}}}}})
    })
    .await;
    plane.until_sites_can_be_composed().await;
    let plan = plane.plan(&[site("blog", "red")]).await.unwrap();
    match &of(&plan, "blog").verdict {
        Verdict::Refused { reason } => {
            assert!(reason.contains("settles") || reason.contains("`test`"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn function_that_answers_the_same_question_differently_is_refused() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    // Its answer counts for nothing that is seen, so that only asking twice can tell.
    let plane = plane_with_sites_by(|_| {
        let is_odd = CALLS.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        let setting = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        json!({"desired": {"resources": {"a": {
            "resource": setting, "ready": if is_odd { "READY_TRUE" } else { "READY_FALSE" },
        }}}})
    })
    .await;
    plane.until_sites_can_be_composed().await;
    let plan = plane.plan(&[site("blog", "red")]).await.unwrap();
    let verdict = &of(&plan, "blog").verdict;
    assert!(matches!(verdict, Verdict::Refused { .. }), "{verdict:?}");
}

#[tokio::test]
async fn function_that_cannot_be_reached_is_refused() {
    let plane = plane_with(&["blog"]).await;
    plane
        .apply(
            "/apis/pkg.crossplane.io/v1/functions/gone",
            &json!({
                "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
                "metadata": {"name": "gone", "annotations": {
                    "render.crossplane.io/runtime": "Development",
                    "render.crossplane.io/runtime-development-target": "127.0.0.1:1",
                }},
                "spec": {"package": "registry.example.org/gone:v1"},
            }),
        )
        .await;
    plane.quiet().await;
    let plan =
        plane.plan(&[steps(&json!([{"step": "gone", "functionRef": {"name": "gone"}}]))]).await.unwrap();
    match &of(&plan, "blog").verdict {
        Verdict::Refused { reason } => assert!(reason.contains("gone"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn fatal_result_is_foreseen_and_changes_nothing_else() {
    let plane = plane_with_sites_by(|request| {
        let composite =
            request.observed.as_ref().and_then(|observed| observed.composite()?.resource.as_ref());
        match composite.unwrap().json().unwrap()["spec"]["color"].as_str() {
            Some("red") => json!({}),
            _ => json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no such color"}]}),
        }
    })
    .await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), |site| condition(site, "Synced").is_some()).await;
    plane.quiet().await;
    let plan = plane.plan(&[site("blog", "blue")]).await.unwrap();
    match &of(&plan, "blog").verdict {
        Verdict::Fails { reason } => assert!(reason.contains("no such color"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn paused_site_is_skipped() {
    let plane = plane_with(&["blog"]).await;
    let paused = json!({"metadata": {"annotations": {"crossplane.io/paused": "true"}}});
    plane.merge(&format!("{SITES}/blog"), &paused).await;
    plane.quiet().await;
    let plan = plane.plan(&[composition(&["one"])]).await.unwrap();
    assert!(matches!(of(&plan, "blog").verdict, Verdict::Skipped { .. }));
}

#[tokio::test]
async fn whoever_may_not_write_a_file_cannot_plan_with_it_nor_read_by_it() {
    let plane = plane_with(&["blog"]).await;
    let objects = vec![composition(&["one", "three"]).as_object().unwrap().clone()];
    let request = PlanRequest { objects, ..PlanRequest::default() };
    let nobody = plane.client_of(&Identity::authenticated("nobody", []));
    let refused = plane.planner().plan(&request, &nobody).await.unwrap_err();
    assert!(refused.to_string().contains("nobody"), "{refused}");

    // One who may change Compositions and read nothing else learns how many there are, and nothing of them.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "author"},
        "rules": [{
            "apiGroups": ["apiextensions.crossplane.io"], "resources": ["compositions"], "verbs": ["get", "patch", "create"],
        }],
    });
    plane.apply("/apis/rbac.authorization.k8s.io/v1/clusterroles/author", &role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "author"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}],
    });
    plane.apply("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/author", &binding).await;
    let plan = plane.planner().plan(&request, &nobody).await.unwrap();
    assert_eq!((plan.composites.len(), plan.hidden), (0, 1));
    let text = serde_json::to_string(&plan).unwrap();
    assert!(!text.contains("blog"), "{text}");
}

#[tokio::test]
async fn values_of_secrets_are_in_no_plan() {
    let plane = plane_with_sites_by(|request| {
        let composite = request.observed.as_ref().and_then(|observed| observed.composite()?.resource.as_ref());
        let color = composite.unwrap().json().unwrap()["spec"]["color"].clone();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "stringData": {"password": color},
        });
        json!({"desired": {"resources": {"secret": {"resource": secret, "ready": "READY_TRUE"}}}})
    })
    .await;
    plane.create_site("blog", "hunter1").await;
    plane.until("/api/v1/namespaces/default/secrets/secret", |secret| !secret.is_null()).await;
    plane.quiet().await;
    // The same step: one of another name would be added to it, as two managers share the list of steps.
    let ready = json!([{"step": "test", "functionRef": {"name": "function-auto-ready"}}]);
    let plan = plane.plan(&[steps(&ready)]).await.unwrap();
    assert_eq!(told(of(&plan, "blog")), [(Action::Delete, "secret")], "{plan:#?}");
    let mut changed = site("blog", "hunter1");
    changed["metadata"]["labels"] = json!({"a": "b"});
    changed["spec"]["color"] = "hunter2".into();
    let plan = plane.plan(&[changed]).await.unwrap();
    let blog = of(&plan, "blog");
    let secret = blog.changes.iter().find(|change| change.object.kind == "Secret").unwrap();
    let text = serde_json::to_string(secret).unwrap();
    assert!(text.contains("password") && !text.contains("hunter") && !text.contains("aHVudGVy"), "{text}");
}

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A configuration without webhooks. Server-side apply leaves those that there are.
fn hooks(name: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
        "webhooks": [],
    })
}

/// Define a cluster-scoped kind that the function of the sites composes.
async fn define_wides(plane: &Plane) {
    let definition = json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "wides.example.org"},
        "spec": {
            "group": "example.org", "names": {"kind": "Wide", "plural": "wides"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let path = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/wides.example.org";
    plane.apply(path, &definition).await;
    let mut composition = steps(&json!([{"step": "test", "functionRef": {"name": "function-test"}}]));
    composition["metadata"]["name"] = "wides".into();
    composition["spec"]["compositeTypeRef"]["kind"] = "Wide".into();
    plane.apply("/apis/apiextensions.crossplane.io/v1/compositions/wides", &composition).await;
    let is_watched =
        |xrd: &Value| condition(xrd, "Established").as_deref() == Some("True/WatchingCompositeResource");
    plane.until(path, is_watched).await;
    let are_judged = |list: &Value| {
        let judged = list["items"].as_array().into_iter().flatten();
        judged.filter(|revision| condition(revision, "ValidPipeline").is_some()).count() == 2
    };
    plane.until("/apis/apiextensions.crossplane.io/v1/compositionrevisions", are_judged).await;
}

/// On a cluster, that of the control plane ends in a secret, and the service account that reads for plans may get it.
#[tokio::test]
async fn no_plan_hands_the_configuration_of_a_webhook_to_a_function() {
    static SHOWN: AtomicUsize = AtomicUsize::new(0);
    let plane = plane_with_sites_by(|request| {
        let items = request.required_resources.values().flat_map(|found| &found.items);
        let observed = request.observed.as_ref().unwrap();
        SHOWN.fetch_add(items.count() + observed.resources().len(), Ordering::SeqCst);
        let composite = observed.composite().and_then(|composite| composite.resource.as_ref());
        if composite.unwrap().json().unwrap()["kind"] == "Wide" {
            let mut hooks = hooks("crossplane-no-usages");
            hooks.as_object_mut().unwrap().remove("webhooks");
            return json!({"desired": {"resources": {"hooks": {"resource": hooks}}}});
        }
        json!({"requirements": {"resources": {"hooks": {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "matchName": "hooks",
        }}}})
    })
    .await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "hooks", "labels": {"rbac.crossplane.io/aggregate-to-crossplane": "true"}},
        "rules": [{
            "apiGroups": ["admissionregistration.k8s.io"], "resources": ["validatingwebhookconfigurations"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }],
    });
    plane.apply("/apis/rbac.authorization.k8s.io/v1/clusterroles/hooks", &role).await;
    plane.apply(&format!("{HOOKS}/hooks"), &hooks("hooks")).await;
    plane.until_sites_can_be_composed().await;
    let plan = plane.plan(&[site("blog", "red")]).await.unwrap();
    let verdict = format!("{:?}", of(&plan, "blog").verdict);
    assert!(verdict.contains("ValidatingWebhookConfiguration `hooks`"), "{verdict}");
    assert!(verdict.contains("no AccessGrant allows that"), "{verdict}");
    assert_eq!(SHOWN.load(Ordering::SeqCst), 0);

    // One that is composed would be among the observed resources of the next request.
    define_wides(&plane).await;
    let wide =
        json!({"apiVersion": "example.org/v1", "kind": "Wide", "metadata": {"name": "wide"}, "spec": {}});
    let plan = plane.plan(std::slice::from_ref(&wide)).await.unwrap();
    let verdict = format!("{:?}", of(&plan, "wide").verdict);
    assert!(verdict.contains("`crossplane-no-usages`, which belongs to the control plane"), "{verdict}");
    let path = "/apis/example.org/v1/wides/wide";
    plane.apply(path, &wide).await;
    let is_refused = |wide: &Value| {
        let mut conditions = wide["status"]["conditions"].as_array().into_iter().flatten();
        conditions
            .any(|it| it["type"] == "Synced" && it["code"] == "ObjectControlled" && it["resource"] == "hooks")
    };
    plane.until(path, is_refused).await;
    plane.quiet().await;
    let own = plane.get(&format!("{HOOKS}/crossplane-no-usages")).await;
    assert_eq!(own["metadata"]["labels"]["crossplane.io/composite"], Value::Null);
    assert_eq!(SHOWN.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_moves_while_a_plan_is_saved_is_another_basis() {
    let plane = plane_with(&["blog"]).await;
    let one = plane.plan(&[site("blog", "blue")]).await.unwrap();
    let same = plane.plan(&[site("blog", "blue")]).await.unwrap();
    assert_eq!(one.basis, same.basis);
    let settings = plane.settings_of("blog").await;
    let name = settings[0]["metadata"]["name"].as_str().unwrap();
    plane
        .merge(&format!("/api/v1/namespaces/default/configmaps/{name}"), &json!({"data": {"other": "x"}}))
        .await;
    plane.quiet().await;
    let moved = plane.plan(&[site("blog", "blue")]).await.unwrap();
    assert_ne!(one.basis, moved.basis);
    let names: Vec<_> =
        ferroplane_engine::changes::moved(&one, &moved).into_iter().map(|moved| moved.name).collect();
    assert_eq!(names, [name]);
}
