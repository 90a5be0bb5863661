//! Composite resources: what they become, and how it stays so.

use ferroplane_recorder::Recorder;
use ferroplane_testkit::plane::sites::{SETTINGS, SITES, is_ready, plane_with_sites};
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};
use tracing::Level;

use crate::actions::log_records::LogRecords;

#[tokio::test]
async fn site_becomes_settings_and_is_ready() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let site = plane.until(&format!("{SITES}/blog"), is_ready).await;
    let settings = plane.settings_of("blog").await;
    assert_eq!(
        settings.iter().map(|object| object["data"].clone()).collect::<Vec<_>>(),
        [json!({"who": "one", "color": "red"}), json!({"who": "two", "color": "red"}),]
    );
    for object in &settings {
        let metadata = &object["metadata"];
        assert_eq!(metadata["ownerReferences"][0]["uid"], site["metadata"]["uid"]);
        assert_eq!(metadata["ownerReferences"][0]["blockOwnerDeletion"], true);
        assert_eq!(metadata["annotations"]["crossplane.io/composition-resource-name"], object["data"]["who"]);
    }
    let mut names: Vec<_> = settings.iter().map(|object| object["metadata"]["name"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    let references = names.iter().map(|name| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name}));
    assert_eq!(site["spec"]["crossplane"]["resourceRefs"], references.collect::<Value>());
    assert_eq!(site["spec"]["crossplane"]["compositionRef"], json!({"name": "sites"}));
    assert_eq!(site["status"]["color"], "red");
    assert_eq!(site["metadata"]["finalizers"], json!(["composite.apiextensions.crossplane.io"]));
    for condition in site["status"]["conditions"].as_array().unwrap() {
        assert_eq!(condition["observedGeneration"], site["metadata"]["generation"], "{condition}");
    }
}

#[tokio::test]
async fn nothing_is_written_twice() {
    let mut plane = plane_with_sites().await;
    plane.quiet().await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
    let site = format!("PATCH {SITES}/blog");
    let writes = plane.quiet().await;
    assert_eq!(writes.iter().filter(|write| **write == site).count(), 1, "{writes:#?}");
    assert_eq!(writes.iter().filter(|write| **write == format!("{site}/status")).count(), 1, "{writes:#?}");
    assert_eq!(writes.len(), 4, "{writes:#?}");

    plane.restart().await;
    assert_eq!(plane.quiet().await, Vec::<String>::new());
}

#[tokio::test]
async fn composition_is_selected_once_in_a_reconcile() {
    let (logged, _collecting) = LogRecords::collect_to(Level::TRACE);
    let plane = plane_with_sites().await;
    let path = format!("{SITES}/blog");
    plane.create_site("blog", "red").await;
    plane.until(&path, is_ready).await;
    plane.merge(&path, &json!({"spec": {"color": "blue"}})).await;
    plane.until(&path, |site| site["status"]["color"] == "blue").await;
    plane.quiet().await;
    let reconciled = logged.containing("reconciling a composite resource").len();
    assert!(reconciled >= 2, "{reconciled}");
    assert_eq!(logged.containing("selecting a composition").len(), reconciled);
}

#[tokio::test]
async fn plane_in_a_directory_continues_where_it_was_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = format!("{SITES}/blog");
    let mut plane = Plane::open(directory.path(), Recorder::off(), &[]).await;
    plane.start_unasked().await;
    plane.define_sites().await;
    plane.compose_sites(&["one"]).await;
    plane.until_sites_can_be_composed().await;
    plane.create_site("blog", "red").await;
    let site = plane.until(&path, is_ready).await;
    plane.close().await;

    let mut plane = Plane::open(directory.path(), Recorder::off(), &[]).await;
    assert_eq!(plane.get(&path).await["metadata"]["uid"], site["metadata"]["uid"]);
    plane.start_unasked().await;
    plane.merge(&path, &json!({"spec": {"color": "blue"}})).await;
    plane.until(&path, |site| site["status"]["color"] == "blue").await;
    plane.close().await;
}

#[tokio::test]
async fn drift_is_repaired_and_what_others_add_stays() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
    let name = plane.settings_of("blog").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{SETTINGS}/{name}");
    plane
        .merge(
            &path,
            &json!({"metadata": {"labels": {"mine": "too"}}, "data": {"color": "pink", "note": "x"}}),
        )
        .await;
    let repaired = plane.until(&path, |object| object["data"]["color"] == "red").await;
    assert_eq!(repaired["metadata"]["labels"]["mine"], "too");
    assert_eq!(repaired["data"]["note"], "x");
    plane.merge(&path, &json!({"metadata": {"labels": {"crossplane.io/composite": null}}})).await;
    plane.until(&path, |object| object["metadata"]["labels"]["crossplane.io/composite"] == "blog").await;
    assert_eq!(plane.settings_of("blog").await.len(), 2);
}

#[tokio::test]
async fn what_is_made_nobodys_is_taken_back() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
    let name = plane.settings_of("blog").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{SETTINGS}/{name}");
    plane.merge(&path, &json!({"metadata": {"ownerReferences": null}})).await;
    plane.until(&path, |object| object["metadata"]["ownerReferences"][0]["name"] == "blog").await;
}

#[tokio::test]
async fn site_is_not_synced_once_something_else_controls_what_it_composes() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let site = format!("{SITES}/blog");
    plane.until(&site, is_ready).await;
    let rival = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rival"}});
    let uid = plane.apply(&format!("{SETTINGS}/rival"), &rival).await["metadata"]["uid"].clone();
    let name = plane.settings_of("blog").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    // Nothing is left to do that could wake the site.
    plane.quiet().await;
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "rival", "uid": uid, "controller": true});
    plane.merge(&format!("{SETTINGS}/{name}"), &json!({"metadata": {"ownerReferences": [owner]}})).await;
    plane.until(&site, |site| condition(site, "Synced").as_deref() == Some("False/ReconcileError")).await;
}

#[tokio::test]
async fn what_was_deleted_comes_back_under_its_name() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
    let before = &plane.settings_of("blog").await[0]["metadata"];
    let path = format!("{SETTINGS}/{}", before["name"].as_str().unwrap());
    plane.delete(&path).await;
    let after =
        plane.until(&path, |object| !object.is_null() && object["metadata"]["uid"] != before["uid"]).await;
    assert_eq!(after["data"]["color"], "red");
}

#[tokio::test]
async fn change_of_the_composition_reaches_its_composite_resources() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let before = plane.until(&format!("{SITES}/blog"), is_ready).await;
    plane.compose_sites(&["two", "three"]).await;
    let revision = |site: &Value| site["spec"]["crossplane"]["compositionRevisionRef"]["name"].clone();
    let after = plane
        .until(&format!("{SITES}/blog"), |site| revision(site) != revision(&before) && is_ready(site))
        .await;
    let who =
        |settings: &[Value]| settings.iter().map(|object| object["data"]["who"].clone()).collect::<Vec<_>>();
    assert_eq!(who(&plane.settings_of("blog").await), ["three", "two"]);
    assert_eq!(after["spec"]["crossplane"]["resourceRefs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn composite_resource_that_is_pinned_keeps_its_revision() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let path = format!("{SITES}/blog");
    plane.until(&path, is_ready).await;
    plane.merge(&path, &json!({"spec": {"crossplane": {"compositionUpdatePolicy": "Manual"}}})).await;
    plane.compose_sites(&["three"]).await;
    plane.create_site("shop", "blue").await;
    plane.until(&format!("{SITES}/shop"), is_ready).await;
    plane.quiet().await;
    assert_eq!(plane.settings_of("blog").await.len(), 2);
    assert_eq!(plane.settings_of("shop").await.len(), 1);
}

#[tokio::test]
async fn everything_goes_with_its_composite_resource() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
    let names: Vec<_> =
        plane.settings_of("blog").await.iter().map(|object| object["metadata"]["name"].clone()).collect();
    plane.delete(&format!("{SITES}/blog")).await;
    plane.until(&format!("{SITES}/blog"), Value::is_null).await;
    for name in names {
        plane.until(&format!("{SETTINGS}/{}", name.as_str().unwrap()), Value::is_null).await;
    }
}

#[tokio::test]
async fn change_of_the_composite_resource_reaches_what_it_composes() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let path = format!("{SITES}/blog");
    plane.until(&path, is_ready).await;
    plane.merge(&path, &json!({"spec": {"color": "blue"}})).await;
    plane.until(&path, |site| site["status"]["color"] == "blue" && is_ready(site)).await;
    for object in plane.settings_of("blog").await {
        assert_eq!(object["data"]["color"], "blue");
    }
}

#[tokio::test]
async fn nothing_is_done_while_it_is_paused() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    let path = format!("{SITES}/blog");
    plane.until(&path, is_ready).await;
    plane.merge(&path, &json!({"metadata": {"annotations": {"crossplane.io/paused": "true"}}})).await;
    plane.until(&path, |site| condition(site, "Synced").as_deref() == Some("False/ReconcilePaused")).await;
    plane.merge(&path, &json!({"spec": {"color": "blue"}})).await;
    plane.quiet().await;
    assert_eq!(plane.settings_of("blog").await[0]["data"]["color"], "red");
    let site = plane.get(&path).await;
    assert_eq!(site["status"]["color"], "red", "what functions said stays");
    plane.merge(&path, &json!({"metadata": {"annotations": {"crossplane.io/paused": null}}})).await;
    plane.until(&path, |site| site["status"]["color"] == "blue" && is_ready(site)).await;
}

#[tokio::test]
async fn whoever_keeps_changing_what_is_composed_is_named_with_the_field() {
    let plane = plane_with_sites().await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
    let name = plane.settings_of("blog").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{SETTINGS}/{name}");
    for round in 1..=5 {
        if round == 3 {
            let blog = plane.get(&format!("{SITES}/blog")).await;
            assert_eq!(condition(&blog, "Uncontested"), None);
        }
        plane.merge(&format!("{path}?fieldManager=tinker"), &json!({"data": {"color": "blue"}})).await;
        plane.until(&path, |object| object["data"]["color"] == "red").await;
    }
    let is_contested =
        |site: &Value| condition(site, "Uncontested").as_deref() == Some("False/FieldConflict");
    let blog = plane.until(&format!("{SITES}/blog"), is_contested).await;
    let conditions = blog["status"]["conditions"].as_array().unwrap();
    let contested = conditions.iter().find(|condition| condition["type"] == "Uncontested").unwrap();
    let words = format!("`tinker` keeps changing `.data.color` of ConfigMap `default/{name}`");
    assert_eq!(contested["message"], words);
    plane.until_said("blog", &format!("Warning/FieldConflict: {words}")).await;
    plane.quiet().await;
    let events = plane.events("blog").await;
    assert_eq!(events.iter().filter(|event| event.contains("FieldConflict")).count(), 1, "{events:#?}");
}
