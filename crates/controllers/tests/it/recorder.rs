//! What is recorded of what controllers do.

use std::time::Duration;

use ferroplane_recorder::{Ending, Head, Recording};
use ferroplane_testkit::plane::sites::{is_ready, plane_with_sites, plane_with_sites_by};
use ferroplane_testkit::plane::{Plane, assert_same, condition};
use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::{Value, json};
use tokio::time::Instant;

const BLOG: &str = "/apis/example.org/v1/namespaces/default/sites/blog";
const XRD: &str = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/sites.example.org";
const VAULTS: &str = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/vaults.example.org";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn heads(plane: &Plane) -> Vec<Head> {
    plane.recordings().heads().unwrap()
}

/// Waits until something is recorded that is so, and returns the last of it. What is told is recorded a moment later.
async fn until_recorded(plane: &Plane, is_so: impl Fn(&Head) -> bool) -> Recording {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let archive = plane.recordings();
        let heads = archive.heads().unwrap();
        if let Some(head) = heads.iter().rev().find(|head| is_so(head)) {
            return archive.get(head.id).unwrap().unwrap().unwrap();
        }
        assert!(Instant::now() < deadline, "was never recorded: {heads:#?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn reconcile_is_recorded_with_what_it_was_made_from_and_came_to() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;

    let recording = until_recorded(&plane, |head| head.is_ready).await;
    let head = &recording.head;
    assert_eq!(
        (head.kind.as_str(), head.namespace.as_str(), head.name.as_str()),
        ("Site", "default", "blog")
    );
    assert_eq!(
        (head.ending(), head.composition.as_str(), head.is_redacted),
        (Ending::Succeeded, "sites", false)
    );
    assert!(head.revision.starts_with("sites-") && head.began_at > 0, "{head:?}");
    assert_eq!(recording.settlement["conditions"][0]["type"], "Responsive");
    let take = recording.takes.last().unwrap();
    assert_eq!(take.inputs.subject.observed().len(), 2);
    let outcome: Value = serde_json::from_slice(&take.outcome).unwrap();
    assert_eq!(outcome["plan"]["apply"][0]["object"]["data"]["color"], "red");
    let replayed = take.replay();
    assert!(replayed.is_same);
    assert_eq!(replayed.compared, 2);
}

#[tokio::test]
async fn nothing_is_recorded_when_nothing_happens() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    let before = heads(&plane).len();
    // It is checked, and found to be as it was.
    plane.merge(BLOG, &json!({"metadata": {"managedFields": null}})).await;
    plane.merge(BLOG, &json!({"metadata": {"annotations": {"kubectl.kubernetes.io/x": null}}})).await;
    plane.quiet().await;
    assert_eq!(heads(&plane).len(), before);
}

#[tokio::test]
async fn failure_is_recorded_with_the_step_that_is_to_blame() {
    let plane = plane_with_sites_by(
        |_| json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no such color"}]}),
    )
    .await;
    plane.create_site("blog", "red").await;
    let head = until_recorded(&plane, |head| !head.step.is_empty()).await.head;
    assert_eq!((head.ending(), head.step.as_str()), (Ending::Failed, "test"));
    assert!(head.trouble.contains("no such color"), "{}", head.trouble);
}

#[tokio::test]
async fn trouble_before_anything_is_decided_is_recorded() {
    let plane = Plane::new().await;
    plane.define_sites().await;
    plane.create_site("blog", "red").await;
    let recording = until_recorded(&plane, |head| !head.trouble.is_empty()).await;
    assert_eq!(recording.head.ending(), Ending::Failed);
    assert!(recording.head.trouble.contains("cannot select a Composition"), "{}", recording.head.trouble);
    assert!(recording.takes.is_empty());
}

#[tokio::test]
async fn whatever_the_api_server_refuses_is_recorded() {
    let plane = plane_with_sites_by(|_| {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": 1}});
        json!({"desired": {"resources": {"bad": {"resource": object}}}})
    })
    .await;
    plane.create_site("blog", "red").await;
    let recording = until_recorded(&plane, |head| head.calls > 0).await;
    let is_told = recording.head.trouble.contains("bad") || recording.takes[0].unsynced == ["bad"];
    assert!(is_told, "{recording:?}");
}

#[tokio::test]
async fn fields_that_a_definition_calls_sensitive_are_not_recorded() {
    let plane = plane_with_sites().await;
    let annotations = json!({"ferroplane.io/sensitive-fields": "spec.color"});
    plane.merge(XRD, &json!({"metadata": {"annotations": annotations}})).await;
    // The controller of the kind is started anew with the annotation, though it changes no generation.
    plane.quiet().await;
    plane.create_site("blog", "planted-color").await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;
    let recording = until_recorded(&plane, |head| head.is_ready).await;
    assert!(recording.head.is_redacted);
    for take in &recording.takes {
        let outcome = String::from_utf8_lossy(&take.outcome);
        assert!(!outcome.contains("planted-color"), "{outcome}");
        let color = take.inputs.subject.object().json().unwrap()["spec"]["color"].clone();
        assert!(color.as_str().unwrap().starts_with("redacted-"), "{color}");
        assert!(take.replay().is_same);
    }
    assert!(!format!("{recording:?}").contains("planted-color"));
}

#[tokio::test]
async fn sensitive_fields_of_composed_and_required_composite_resources_are_not_recorded() {
    let vault = json!({
        "apiVersion": "example.org/v1", "kind": "Vault", "metadata": {"name": "v"}, "spec": {"pin": "p1n5"},
    });
    let required =
        json!({"apiVersion": "example.org/v1", "kind": "Vault", "namespace": "default", "matchName": "v"});
    let answer = json!({
        "desired": {"resources": {"vault": {"resource": vault, "ready": "READY_TRUE"}}},
        "requirements": {"resources": {"vaults": required}},
    });
    let plane = plane_with_sites_by(move |_| answer.clone()).await;
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
    plane.apply(VAULTS, &definition).await;
    let is_established =
        |xrd: &Value| condition(xrd, "Established").as_deref() == Some("True/WatchingCompositeResource");
    plane.until(VAULTS, is_established).await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    // Now the one that it composes is observed.
    plane.merge(BLOG, &json!({"spec": {"color": "blue"}})).await;
    let generation = plane.until(BLOG, is_ready).await["metadata"]["generation"].as_i64().unwrap();
    let is_last = |head: &Head| head.kind == "Site" && head.generation >= generation && head.is_ready;
    let recording = until_recorded(&plane, is_last).await;
    let take = recording.takes.last().unwrap();
    let pin = take.inputs.subject.observed()["vault"].object.json().unwrap()["spec"]["pin"].clone();
    assert!(pin.as_str().unwrap().starts_with("redacted-"), "{pin}");
    assert!(take.replay().is_same);
    let archive = plane.recordings();
    for head in archive.heads().unwrap() {
        // Too short to be found by its value.
        let recording = archive.get(head.id).unwrap().unwrap().unwrap();
        assert!(!format!("{recording:?}").contains("p1n5"), "{recording:?}");
        for take in &recording.takes {
            let outcome = String::from_utf8_lossy(&take.outcome);
            assert!(!outcome.contains("p1n5"), "{outcome}");
        }
        let exported = archive.export(head.id).unwrap().unwrap();
        assert!(!exported.windows(4).any(|window| window == b"p1n5"), "{head:?}");
    }
}

/// What must never be seen anywhere.
const PLANTED: [&str; 6] = [
    "planted-credential",
    "planted-required",
    "planted-detail",
    "planted-composed",
    "planted-password",
    "short1",
];

/// Says every secret it knows in every place it can.
fn gossip(request: &RunFunctionRequest) -> Value {
    let ferroplane_wire::v1::credentials::Source::CredentialData(credential) =
        request.credentials["cloud"].source.clone().unwrap();
    let credential = String::from_utf8(credential.data["key"].to_vec()).unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "made"},
        "data": {"key": "cGxhbnRlZC1jb21wb3NlZA=="}, "stringData": {"again": "planted-composed", "pin": "short1"},
    });
    let wrapped = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wrapped"},
        "data": {"config": format!("user:{credential}@host planted-detail"), "adminPassword": "planted-password"},
    });
    json!({
        "desired": {
            "composite": {"connectionDetails": {"url": "cGxhbnRlZC1kZXRhaWw="}},
            "resources": {
                "secret": {"resource": secret, "ready": "READY_TRUE"},
                "wrapped": {"resource": wrapped, "ready": "READY_TRUE"},
            },
        },
        "context": {"said": credential, "required": "planted-required"},
        "results": [{"severity": "SEVERITY_NORMAL", "message": format!("I know {credential}")}],
        "conditions": [{
            "type": "Told", "status": "STATUS_CONDITION_TRUE", "reason": "Told", "message": "planted-detail and planted-password",
        }],
    })
}

#[tokio::test]
async fn secrets_are_in_no_recording_and_what_is_left_can_be_replayed() {
    let plane = Plane::with_function("function-test", |request| {
        let mut answer = gossip(request);
        answer["meta"] = json!({"tag": request.meta.as_ref().unwrap().tag});
        ferroplane_wire::from_json(&answer).unwrap()
    })
    .await;
    for (name, value) in [("cloud", "planted-credential"), ("required", "planted-required")] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"stringData\":\"{value}\"}}"),
            }},
            "stringData": {"key": value},
        });
        plane.apply(&format!("{SECRETS}/{name}"), &secret).await;
    }
    plane.define_sites().await;
    let step = json!({
        "step": "gossip", "functionRef": {"name": "function-test"},
        "input": {"apiVersion": "e.org/v1", "kind": "Input", "password": "planted-password"},
        "credentials": [{"name": "cloud", "source": "Secret", "secretRef": {"namespace": "default", "name": "cloud"}}],
        "requirements": {"requiredResources": [
            {"requirementName": "it", "apiVersion": "v1", "kind": "Secret", "namespace": "default", "name": "required"},
        ]},
    });
    plane.compose_sites_of(&json!([step])).await;
    plane.create_site("blog", "red").await;
    plane.until(BLOG, is_ready).await;
    plane.merge(BLOG, &json!({"spec": {"color": "blue"}})).await;
    plane.until(BLOG, is_ready).await;
    plane.quiet().await;

    let archive = plane.recordings();
    let heads = archive.heads().unwrap();
    assert!(heads.len() >= 2, "{heads:?}");
    for head in &heads {
        let recording = archive.get(head.id).unwrap().unwrap().unwrap();
        // All of it: the file that would be given away, and what is in it.
        let text = format!("{recording:?}");
        let exported = archive.export(head.id).unwrap().unwrap();
        for planted in PLANTED {
            let encoded = base64(planted);
            for needle in [planted, &encoded] {
                assert!(!text.contains(needle), "{needle} is in {text}");
                assert!(
                    !exported.windows(needle.len()).any(|window| window == needle.as_bytes()),
                    "{needle}"
                );
            }
            for take in &recording.takes {
                let outcome = String::from_utf8_lossy(&take.outcome);
                assert!(!outcome.contains(planted), "{planted} is in {outcome}");
            }
        }
        assert_eq!(head.is_redacted, !recording.takes.is_empty(), "{head:?}");
    }
    assert_same(&archive);
    assert!(!plane.metrics().contains("planted"));
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
