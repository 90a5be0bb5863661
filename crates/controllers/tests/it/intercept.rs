//! `FunctionIntercept`: a developer's process answers for a function, where it may.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_controllers::PackagedFunction;
use ferroplane_engine::changes::Verdict;
use ferroplane_runner::grpc;
use ferroplane_testkit::plane::condition;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_testkit::{FunctionServer, Leaf, Pki, Versions};
use ferroplane_wire::from_json;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::actions::log_records::LogRecords;
use crate::function_rollout::{answer, fatal, function_rollout, runner};
use crate::rollout::{Rollout, revisions_of};

const INTERCEPTS: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionintercepts";
const DEBUG: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionintercepts/debug";
const GRANT: &str = "/apis/ferroplane.io/v1alpha1/accessgrants/debug";
const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/own";
const VAULTS: &str = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/vaults.example.org";
const BLOG: &str = "/apis/example.org/v1/namespaces/default/sites/blog";
const SHOP: &str = "/apis/example.org/v1/namespaces/default/sites/shop";

/// Two sites that are composed by a revision of a function.
async fn begin() -> Rollout {
    let mut rollout = Rollout::begin().await;
    compose(&mut rollout).await;
    rollout
}

/// The same as on a cluster: a process is called over mTLS and with a grant only.
async fn begin_on_a_cluster(pki: &Pki) -> Rollout {
    let mut rollout = Rollout::begin().await;
    rollout.plane.stop().await;
    rollout.plane.allows_development_functions = false;
    rollout.plane.calls.tls = Some(tls(pki, &pki.issue(&["plane"])));
    rollout.plane.start().await;
    compose(&mut rollout).await;
    rollout
}

async fn compose(rollout: &mut Rollout) {
    rollout.install_running("v1.0.0", None, runner(|_| answer("one", &["a", "b"]))).await;
    rollout.compose("all", &json!({})).await;
    for name in ["blog", "shop"] {
        rollout.plane.create_site(name, "any").await;
        rollout.plane.until(&format!("{SITES}/{name}"), is_ready).await;
    }
    rollout.plane.quiet().await;
}

/// A developer's process that answers so.
async fn process(answer: Value) -> FunctionServer {
    FunctionServer::start(move |_| Ok(from_json(&answer).unwrap())).await
}

fn intercept(to: &str, more: &Value) -> Value {
    let mut spec = json!({
        "functionRef": {"name": "own"}, "composites": {"kind": "Site", "name": "blog"}, "to": to, "leaseSeconds": 300,
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionIntercept", "metadata": {"name": "debug"}, "spec": spec,
    })
}

fn active(reason: &'static str) -> impl Fn(&Value) -> bool {
    move |intercept| condition(intercept, "Active").as_deref() == Some(reason)
}

fn has_ended(rollout: &Value) -> bool {
    ["Promoted", "RolledBack"].iter().any(|state| rollout["status"]["state"] == *state)
}

fn has_color(color: &'static str) -> impl Fn(&Value) -> bool {
    move |site| is_ready(site) && site["status"]["color"] == color
}

#[tokio::test]
async fn process_in_the_shadow_is_compared_and_changes_nothing() {
    let rollout = begin().await;
    let (plane, process) = (&rollout.plane, process(answer("blue", &["a"])).await);
    let before = plane.get(BLOG).await;
    plane.apply(DEBUG, &intercept(&process.address(), &json!({}))).await;
    let intercept = plane.until(DEBUG, |it| it["status"]["comparisons"][0].is_object()).await;
    let compared = &intercept["status"]["comparisons"][0];
    assert_eq!(
        (&compared["composite"], &compared["difference"]),
        (&json!("Site/blog in default"), &json!("Deleted"))
    );
    let actions: Vec<_> =
        compared["changes"].as_array().unwrap().iter().map(|it| it["action"].clone()).collect();
    assert_eq!(actions, ["delete", "update", "update"], "{compared:#}");
    plane.until(DEBUG, active("True/Intercepting")).await;
    plane.until_said("debug", "Normal/Intercepting: Calls of function `own` are sent to").await;
    assert_eq!(intercept["status"]["composites"], 1);
    plane.quiet().await;
    assert_eq!(plane.get(BLOG).await, before, "the plane's own revision counts");
    assert_eq!(process.calls(), 1, "nobody else's calls are sent, and nothing is asked twice");
    let words = "FunctionIntercepted: Because of FunctionIntercept `debug`, calls of function `own` are sent";
    plane.until_said("blog", words).await;
    // Whoever has changed the process has it asked again.
    plane.merge(DEBUG, &json!({"spec": {"round": 1}})).await;
    plane.until(DEBUG, |it| it["status"]["comparisons"][1].is_object()).await;
    plane.quiet().await;
    assert_eq!(process.calls(), 2);
    // To renew it costs nothing.
    plane.merge(DEBUG, &json!({"spec": {"renewals": 1}})).await;
    plane.quiet().await;
    assert_eq!(process.calls(), 2);
}

#[tokio::test]
async fn process_in_the_shadow_that_fails_disturbs_nobody() {
    let rollout = begin().await;
    let (plane, process) = (&rollout.plane, process(fatal()).await);
    plane.apply(DEBUG, &intercept(&process.address(), &json!({}))).await;
    let intercept = plane.until(DEBUG, |it| it["status"]["comparisons"][0].is_object()).await;
    let compared = &intercept["status"]["comparisons"][0];
    assert_eq!(compared["difference"], "Fails");
    assert!(compared["detail"].as_str().unwrap().contains("no way"), "{compared:#}");
    plane.quiet().await;
    assert!(has_color("one")(&plane.get(BLOG).await));
    let events = plane.events("blog").await;
    assert!(!events.iter().any(|event| event.starts_with("Warning")), "{events:#?}");
}

#[tokio::test]
async fn secrets_are_not_in_a_comparison() {
    let rollout = begin().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"password": "hunter2"}, "metadata": {"name": "blog-secret"},
    });
    let mut answer = answer("one", &["a", "b"]);
    answer["desired"]["resources"]["secret"] = json!({"resource": secret});
    let (plane, process) = (&rollout.plane, process(answer).await);
    plane.apply(DEBUG, &intercept(&process.address(), &json!({}))).await;
    let intercept = plane.until(DEBUG, |it| it["status"]["comparisons"][0].is_object()).await;
    assert_eq!(intercept["status"]["comparisons"][0]["difference"], "Added", "{intercept:#}");
    assert!(!intercept.to_string().contains("hunter2"), "{intercept:#}");
}

/// Those of a composite resource that it composes, too.
#[tokio::test]
async fn sensitive_fields_are_not_in_a_comparison() {
    let rollout = begin().await;
    let pin = json!({"type": "string", "format": "password"});
    let spec = json!({"type": "object", "properties": {"pin": pin}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let definition = json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "vaults.example.org"},
        "spec": {
            "group": "example.org", "names": {"kind": "Vault", "plural": "vaults"}, "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let plane = &rollout.plane;
    plane.apply(VAULTS, &definition).await;
    let is_established =
        |xrd: &Value| condition(xrd, "Established").as_deref() == Some("True/WatchingCompositeResource");
    plane.until(VAULTS, is_established).await;
    let mut answer = answer("one", &["a", "b"]);
    let vault = json!({"apiVersion": "example.org/v1", "kind": "Vault", "spec": {"pin": "hunter2"}});
    answer["desired"]["resources"]["vault"] = json!({"resource": vault});
    let process = process(answer).await;
    plane.apply(DEBUG, &intercept(&process.address(), &json!({}))).await;
    let intercept = plane.until(DEBUG, |it| it["status"]["comparisons"][0].is_object()).await;
    let compared = &intercept["status"]["comparisons"][0];
    assert_eq!(compared["difference"], "Added", "{compared:#}");
    assert!(compared["changes"].to_string().contains("spec.pin"), "{compared:#}");
    assert!(!intercept.to_string().contains("hunter2"), "{intercept:#}");
}

#[tokio::test]
async fn process_counts_for_real_until_the_intercept_is_gone() {
    let rollout = begin().await;
    let (plane, process) = (&rollout.plane, process(answer("blue", &["a", "b"])).await);
    plane.apply(DEBUG, &intercept(&process.address(), &json!({"mode": "ForReal"}))).await;
    let site = plane.until(BLOG, has_color("blue")).await;
    assert_eq!(revisions_of(&site), ["own@intercept/debug"]);
    plane.until_said("blog", "FunctionIntercepted").await;
    assert!(has_color("one")(&plane.get(SHOP).await), "nobody else's calls are sent");
    // Nobody can foresee what it answers.
    let label = json!({
        "apiVersion": "example.org/v1", "kind": "Site",
        "metadata": {"name": "blog", "namespace": "default", "labels": {"team": "one"}},
    });
    let plan = plane.plan(&[label]).await.unwrap();
    assert!(
        matches!(&plan.composites[0].verdict, Verdict::Refused { reason } if reason.contains("debug")),
        "{plan:#?}"
    );
    plane.delete(DEBUG).await;
    let site = plane.until(BLOG, has_color("one")).await;
    assert!(!revisions_of(&site).contains(&"own@intercept/debug"));
}

#[tokio::test]
async fn intercept_that_nobody_renews_expires() {
    let rollout = begin().await;
    let (plane, process) = (&rollout.plane, process(answer("blue", &["a", "b"])).await);
    let more = json!({"mode": "ForReal", "leaseSeconds": 5});
    plane.apply(DEBUG, &intercept(&process.address(), &more)).await;
    plane.until(BLOG, has_color("blue")).await;
    plane.until(DEBUG, active("False/LeaseExpired")).await;
    plane.until(BLOG, has_color("one")).await;
    // Whoever was away for too long is back with the next renewal.
    plane.merge(DEBUG, &json!({"spec": {"renewals": 1}})).await;
    plane.until(BLOG, has_color("blue")).await;
}

#[tokio::test]
async fn rollout_does_not_judge_who_is_intercepted() {
    let mut rollout = begin().await;
    let process = process(answer("blue", &["a", "b"])).await;
    rollout.plane.apply(DEBUG, &intercept(&process.address(), &json!({"mode": "ForReal"}))).await;
    rollout.plane.until(BLOG, has_color("blue")).await;
    rollout.plane.apply(ROLLOUT, &function_rollout("own", &json!({}))).await;
    rollout.plane.until(ROLLOUT, |rollout| rollout["status"]["stable"].is_string()).await;
    rollout.install_running("v1.1.0", None, runner(|_| answer("two", &["a", "b"]))).await;
    let rollout_object = rollout.plane.until(ROLLOUT, has_ended).await;
    assert_eq!(rollout_object["status"]["state"], "Promoted", "{rollout_object:#}");
    rollout.plane.until(SHOP, has_color("two")).await;
}

#[tokio::test]
async fn rollout_judges_who_would_be_intercepted_if_that_were_granted() {
    let mut rollout = begin_on_a_cluster(&Pki::new()).await;
    let more = json!({"mode": "ForReal", "tls": {"caBundle": Pki::new().ca()}});
    rollout.plane.apply(DEBUG, &intercept("localhost:1", &more)).await;
    rollout.plane.until(DEBUG, active("False/NotGranted")).await;
    let impatient = function_rollout("own", &json!({"progressDeadlineSeconds": 1}));
    rollout.plane.apply(ROLLOUT, &impatient).await;
    rollout.plane.until(ROLLOUT, |rollout| rollout["status"]["stable"].is_string()).await;
    let never_ready = runner(|name| {
        let mut answer = answer("two", &["a", "b"]);
        if name == "blog" {
            answer["desired"]["resources"]["a"]["ready"] = json!("READY_FALSE");
        }
        answer
    });
    rollout.install_running("v1.1.0", None, never_ready).await;
    let rollout_object = rollout.plane.until(ROLLOUT, has_ended).await;
    assert_eq!(rollout_object["status"]["state"], "RolledBack", "{rollout_object:#}");
}

#[tokio::test]
async fn who_may_not_create_intercepts_cannot_intercept() {
    let rollout = begin().await;
    let process = process(answer("blue", &["a", "b"])).await;
    let developer = Identity::authenticated("developer", []);
    let body = intercept(&process.address(), &json!({}));
    let (code, _) = rollout.plane.send_as(developer, Method::POST, INTERCEPTS, &body).await;
    assert_eq!(code, 403);
    // One that selects all composite resources is refused by the schema, a caller that asks.
    let all = intercept(&process.address(), &json!({"composites": {"kind": "Site"}}));
    let (code, answer) = rollout.plane.send(Method::POST, INTERCEPTS, "application/json", &all).await;
    assert_eq!(code, 422, "{answer:#}");
    assert!(answer["message"].as_str().unwrap().contains("name the composite resources"), "{answer:#}");
    assert_eq!(process.calls(), 0);
}

fn tls(pki: &Pki, leaf: &Leaf) -> grpc::Tls {
    grpc::Tls {
        ca: pki.ca().into_bytes(),
        certificate: leaf.certificate.clone().into_bytes(),
        key: leaf.key.clone().into_bytes(),
    }
}

#[tokio::test]
async fn on_a_cluster_a_process_is_called_over_mtls_and_with_a_grant_only() {
    let (logged, _collecting) = LogRecords::collect();
    let is_audited = |decision: &str| {
        let records = logged.containing("intercepted calls of a function");
        let decision = format!("decision=\"{decision}\"");
        let words = ["WARN audit:", &*decision, "intercept=\"debug\"", "function=\"own\"", "name=\"blog\""];
        records.iter().any(|record| words.iter().all(|word| record.contains(word)))
    };
    let (plane_pki, laptop_pki) = (Pki::new(), Pki::new());
    let rollout = begin_on_a_cluster(&plane_pki).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    // It trusts whom the status of the intercept names, and the plane trusts whom the intercept names.
    let server = {
        let leaf = laptop_pki.issue(&["localhost"]);
        FunctionServer::serve("127.0.0.1:0", Versions::Both, Some((&plane_pki, leaf)), move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(from_json(&answer("blue", &["a", "b"])).unwrap())
        })
        .await
    };
    let to = format!("localhost:{}", server.port());
    let plane = &rollout.plane;
    plane.apply(DEBUG, &intercept(&to, &json!({}))).await;
    plane.until(DEBUG, active("False/TlsRequired")).await;
    plane.delete(DEBUG).await;
    let secure = intercept(&to, &json!({"mode": "ForReal", "tls": {"caBundle": laptop_pki.ca()}}));
    plane.apply(DEBUG, &secure).await;
    let denied = plane.until(DEBUG, active("False/NotGranted")).await;
    let message = denied["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains(r#""intercept":[{"hosts":["localhost"],"modes":["ForReal"]}]"#), "{message}");
    assert_eq!(denied["status"]["clientCa"], plane_pki.ca());
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    // The controller of intercepts may be faster than that of the composite resource.
    let audited = async {
        while !is_audited("deny") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), audited).await.expect("the denial is in the audit log");
    assert!(!is_audited("allow"));
    let grant = |modes: Value| {
        json!({
            "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "debug"},
            "spec": {
                "to": {"namespaces": ["default"], "functions": ["own"]},
                "intercept": [{"hosts": ["localhost"], "modes": modes}],
            },
        })
    };
    // To compare is not to let it count.
    plane.apply(GRANT, &grant(json!(["Shadow"]))).await;
    plane.quiet().await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    plane.apply(GRANT, &grant(json!(["Shadow", "ForReal"]))).await;
    plane.until(BLOG, has_color("blue")).await;
    plane.until(DEBUG, active("True/Intercepting")).await;
    assert!(is_audited("allow"));
    plane.delete(GRANT).await;
    plane.until(BLOG, has_color("one")).await;
}

#[tokio::test]
async fn process_of_another_authority_is_not_talked_to() {
    let (plane_pki, laptop_pki, other_pki) = (Pki::new(), Pki::new(), Pki::new());
    let mut rollout = Rollout::begin().await;
    rollout.plane.stop().await;
    rollout.plane.calls.tls = Some(tls(&plane_pki, &plane_pki.issue(&["plane"])));
    rollout.plane.start().await;
    compose(&mut rollout).await;
    let leaf = other_pki.issue(&["localhost"]);
    let server = FunctionServer::serve("127.0.0.1:0", Versions::Both, Some((&plane_pki, leaf)), |_| {
        Ok(from_json(&answer("blue", &["a", "b"])).unwrap())
    })
    .await;
    let to = format!("localhost:{}", server.port());
    let plane = &rollout.plane;
    plane.apply(DEBUG, &intercept(&to, &json!({"tls": {"caBundle": laptop_pki.ca()}}))).await;
    let intercept = plane.until(DEBUG, |it| it["status"]["comparisons"][0].is_object()).await;
    assert_eq!(intercept["status"]["comparisons"][0]["difference"], "Fails", "{intercept:#}");
    assert_eq!(server.calls(), 0);
}

#[tokio::test]
async fn process_is_called_with_the_certificate_that_we_have_now() {
    let (plane_pki, laptop_pki) = (Pki::new(), Pki::new());
    let mut rollout = Rollout::begin().await;
    rollout.plane.stop().await;
    // The process does not know who signed the certificate that we begin with.
    let certificates = watch::Sender::new(tls(&plane_pki, &Pki::new().issue(&["plane"])));
    rollout.plane.calls.tls = Some(certificates.borrow().clone());
    rollout.plane.calls.renewed_tls = Some(certificates.subscribe());
    rollout.plane.start().await;
    compose(&mut rollout).await;
    let leaf = laptop_pki.issue(&["localhost"]);
    let server = FunctionServer::serve("127.0.0.1:0", Versions::Both, Some((&plane_pki, leaf)), |_| {
        Ok(from_json(&answer("blue", &["a", "b"])).unwrap())
    })
    .await;
    let to = format!("localhost:{}", server.port());
    let plane = &rollout.plane;
    plane.apply(DEBUG, &intercept(&to, &json!({"tls": {"caBundle": laptop_pki.ca()}}))).await;
    let refused = plane.until(DEBUG, |it| it["status"]["comparisons"][0].is_object()).await;
    assert_eq!(refused["status"]["comparisons"][0]["difference"], "Fails", "{refused:#}");
    certificates.send_replace(tls(&plane_pki, &plane_pki.issue(&["plane"])));
    plane.merge(BLOG, &json!({"metadata": {"labels": {"changed": "yes"}}})).await;
    let has_changed = |it: &Value| {
        let comparisons = it["status"]["comparisons"].as_array();
        comparisons.is_some_and(|all| all.iter().any(|it| it["difference"] == "Changed"))
    };
    plane.until(DEBUG, has_changed).await;
}

/// A revision that is down is replaced by what a developer serves, where the plane has its own to fall back to.
#[tokio::test]
async fn process_that_does_better_is_a_difference_too() {
    let rollout = begin().await;
    let revision = revisions_of(&rollout.plane.get(BLOG).await)[0].to_owned();
    rollout.functions.set(&revision, Some(PackagedFunction::Serving(runner(|_| fatal()))));
    let plane = &rollout.plane;
    plane.merge(BLOG, &json!({"metadata": {"labels": {"changed": "yes"}}})).await;
    plane.until(BLOG, |site| condition(site, "Synced").as_deref() == Some("False/ReconcileError")).await;
    let process = process(answer("one", &["a", "b"])).await;
    plane.apply(DEBUG, &intercept(&process.address(), &json!({}))).await;
    let intercept = plane.until(DEBUG, |it| it["status"]["comparisons"][0].is_object()).await;
    let compared = &intercept["status"]["comparisons"][0];
    assert!(compared["detail"].as_str().unwrap().contains("succeeds where"), "{compared:#}");
}
