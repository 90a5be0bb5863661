//! Compositions and their revisions.

use ferroplane_testkit::plane::Plane;
use http::Method;
use serde_json::{Value, json};

const COMPOSITIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositions";
const REVISIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositionrevisions";

/// A composition whose content is this.
pub(crate) fn composition(name: &str, content: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition",
        "metadata": {"name": name, "labels": {"channel": "stable"}},
        "spec": {
            "compositeTypeRef": {"apiVersion": "acme.io/v1", "kind": "Site"},
            "mode": "Pipeline",
            "pipeline": [{
                "step": "a", "functionRef": {"name": "function-a"},
                "input": {"apiVersion": "a.io/v1", "kind": "Input", "content": content},
            }],
        },
    })
}

async fn apply(plane: &Plane, object: &Value) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap();
    plane.apply(&format!("{COMPOSITIONS}/{name}"), object).await
}

/// The contents of all revisions, by number.
fn contents(list: &Value) -> Vec<(i64, String)> {
    let content = |revision: &Value| {
        let text = revision["spec"]["pipeline"][0]["input"]["content"].as_str().unwrap_or_default();
        (revision["spec"]["revision"].as_i64().unwrap(), text.to_owned())
    };
    let mut contents: Vec<_> = list["items"].as_array().into_iter().flatten().map(content).collect();
    contents.sort();
    contents
}

/// Wait until these are all revisions. Returns them.
async fn revisions(plane: &Plane, wanted: &[(i64, &str)]) -> Value {
    let wanted: Vec<_> = wanted.iter().map(|(number, content)| (*number, (*content).to_owned())).collect();
    plane.until(REVISIONS, |list| contents(list) == wanted).await
}

/// Wait until something is said about a composition. Returns it.
pub(crate) async fn said(plane: &Plane, kind: &str, reason: &str) -> Value {
    let is_it = |event: &&Value| event["type"] == kind && event["reason"] == reason;
    let path = "/api/v1/namespaces/default/events";
    let find = |list: &Value| list["items"].as_array().into_iter().flatten().find(is_it).cloned();
    find(&plane.until(path, |list| find(list).is_some()).await).unwrap()
}

#[tokio::test]
async fn composition_has_a_revision_that_belongs_to_it() {
    let plane = Plane::new().await;
    let composition = apply(&plane, &composition("site", "A")).await;
    let list = revisions(&plane, &[(1, "A")]).await;
    let metadata = &list["items"][0]["metadata"];
    let name = metadata["name"].as_str().unwrap();
    let hash = metadata["labels"]["crossplane.io/composition-hash"].as_str().unwrap();
    assert_eq!((name, hash.len()), (&*format!("site-{}", &hash[..7]), 63));
    assert_eq!(metadata["labels"]["crossplane.io/composition-name"], "site");
    assert_eq!(metadata["labels"]["channel"], "stable");
    let owner = &metadata["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&composition["metadata"]["uid"], &json!(true)));
    let event = said(&plane, "Normal", "CreateRevision").await;
    assert_eq!(event["source"]["component"], "revisions/composition.apiextensions.crossplane.io");
}

#[tokio::test]
async fn content_that_comes_back_has_its_old_revision_with_the_highest_number() {
    let plane = Plane::new().await;
    apply(&plane, &composition("site", "A")).await;
    revisions(&plane, &[(1, "A")]).await;
    apply(&plane, &composition("site", "B")).await;
    revisions(&plane, &[(1, "A"), (2, "B")]).await;
    apply(&plane, &composition("site", "A")).await;
    revisions(&plane, &[(2, "B"), (3, "A")]).await;
}

#[tokio::test]
async fn labels_and_annotations_alone_make_a_revision() {
    let plane = Plane::new().await;
    apply(&plane, &composition("site", "A")).await;
    revisions(&plane, &[(1, "A")]).await;
    let path = format!("{COMPOSITIONS}/site");
    plane.merge(&path, &json!({"metadata": {"labels": {"channel": "next"}}})).await;
    revisions(&plane, &[(1, "A"), (2, "A")]).await;
    plane.merge(&path, &json!({"metadata": {"annotations": {"note": "n"}}})).await;
    let list = revisions(&plane, &[(1, "A"), (2, "A"), (3, "A")]).await;
    let newest = list["items"].as_array().unwrap().iter().find(|item| item["spec"]["revision"] == 3).unwrap();
    assert_eq!(newest["metadata"]["labels"]["channel"], "next");
    assert_eq!(newest["metadata"]["annotations"]["note"], "n");
}

#[tokio::test]
async fn revision_that_lost_its_owner_is_taken_back() {
    let plane = Plane::new().await;
    apply(&plane, &composition("site", "A")).await;
    let list = revisions(&plane, &[(1, "A")]).await;
    let path = format!("{REVISIONS}/{}", list["items"][0]["metadata"]["name"].as_str().unwrap());
    let owners = list["items"][0]["metadata"]["ownerReferences"].clone();
    plane.merge(&path, &json!({"metadata": {"ownerReferences": null}})).await;
    plane.until(&path, |revision| revision["metadata"]["ownerReferences"] == owners).await;
}

#[tokio::test]
async fn revision_that_belongs_to_something_else_is_an_error() {
    let mut plane = Plane::new().await;
    plane.stop().await;
    let mut foreign = composition("site-0", "Z");
    foreign["kind"] = "CompositionRevision".into();
    foreign["spec"]["revision"] = 7.into();
    let owner = json!({"apiVersion": "v1", "kind": "Namespace", "name": "default", "controller": true, "uid":
        plane.get("/api/v1/namespaces/default").await["metadata"]["uid"]});
    foreign["metadata"]["ownerReferences"] = json!([owner]);
    foreign["metadata"]["labels"] = json!({"crossplane.io/composition-name": "site"});
    plane.apply(&format!("{REVISIONS}/site-0"), &foreign).await;
    apply(&plane, &composition("site", "A")).await;
    plane.start().await;
    let event = said(&plane, "Warning", "UpdateRevision").await;
    assert_eq!(event["message"], "revision `site-0` already belongs to Namespace `default`");
    revisions(&plane, &[(7, "Z")]).await;
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    let mut plane = Plane::new().await;
    for name in ["one", "two"] {
        apply(&plane, &composition(name, "A")).await;
    }
    revisions(&plane, &[(1, "A"), (1, "A")]).await;
    plane.restart().await;
    plane.writes();
    // What comes last was checked last.
    apply(&plane, &composition("three", "A")).await;
    revisions(&plane, &[(1, "A"), (1, "A"), (1, "A")]).await;
    let writes = plane.writes();
    assert!(writes.iter().all(|write| write.contains("compositionrevisions")), "{writes:?}");
    assert_eq!(writes.iter().filter(|write| write.starts_with("POST")).count(), 1, "{writes:?}");
}

#[tokio::test]
async fn revisions_go_with_their_composition() {
    let plane = Plane::new().await;
    apply(&plane, &composition("site", "A")).await;
    revisions(&plane, &[(1, "A")]).await;
    plane.delete(&format!("{COMPOSITIONS}/site")).await;
    revisions(&plane, &[]).await;
}

#[tokio::test]
async fn compositions_that_make_no_sense_are_refused() {
    let plane = Plane::new().await;
    let without = |change: fn(&mut Value)| {
        let mut broken = composition("site", "A");
        change(&mut broken);
        broken
    };
    let step = |name: &str| json!({"step": name, "functionRef": {"name": "f"}});
    let credential = json!([{"name": "c", "source": "Secret"}]);
    let mut doubled = composition("site", "A");
    doubled["spec"]["pipeline"] = json!([step("a"), step("a")]);
    let mut secretless = composition("site", "A");
    secretless["spec"]["pipeline"][0]["credentials"] = credential;
    let broken = [
        without(|composition| composition["spec"]["pipeline"] = Value::Null),
        without(|composition| composition["spec"]["pipeline"] = json!([])),
        doubled,
        secretless,
    ];
    for composition in broken {
        let (code, answer) = plane.send(Method::POST, COMPOSITIONS, "application/json", &composition).await;
        assert_eq!(code, 422, "{answer}");
    }
    let sound = composition("site", "A");
    let (code, answer) = plane.send(Method::POST, COMPOSITIONS, "application/json", &sound).await;
    assert_eq!(code, 201, "{answer}");
    let retyped = json!({"spec": {"compositeTypeRef": {"kind": "Other"}}});
    let path = format!("{COMPOSITIONS}/site");
    let (code, answer) = plane.send(Method::PATCH, &path, "application/merge-patch+json", &retyped).await;
    assert_eq!(code, 422, "{answer}");
}
