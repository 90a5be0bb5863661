//! Plans with other revisions: of Compositions, which composite resources name, and of functions.

use std::collections::BTreeMap;

use ferroplane_controllers::PlanRequest;
use ferroplane_engine::changes::Action;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_testkit::plane::{Plane, master};
use serde_json::{Value, json};

use super::corpus::{happened, planned, settled, snapshot};
use super::{composition, of, plane_with, site, told};
use crate::function_rollout::{answer, runner};
use crate::packages::PKG;
use crate::rollout::Rollout;

fn revision_of(site: &Value) -> &str {
    site["spec"]["crossplane"]["compositionRevisionRef"]["name"].as_str().unwrap_or_default()
}

/// What the settings of a site are called in its Composition.
async fn settings_of(plane: &Plane, site: &str) -> Vec<Value> {
    plane.settings_of(site).await.iter().map(|setting| setting["data"]["who"].clone()).collect()
}

#[tokio::test]
async fn site_that_names_another_revision_becomes_what_that_composes() {
    let (plane, blog) = (plane_with(&["blog"]).await, format!("{SITES}/blog"));
    let older = revision_of(&plane.get(&blog).await).to_owned();
    plane.compose_sites(&["one", "three"]).await;
    plane.until(&blog, |site| is_ready(site) && revision_of(site) != older).await;
    plane.quiet().await;
    let before = plane.versions().await;
    let mut named = site("blog", "red");
    named["spec"]["crossplane"] =
        json!({"compositionUpdatePolicy": "Manual", "compositionRevisionRef": {"name": older}});
    let plan = plane.plan(std::slice::from_ref(&named)).await.unwrap();
    assert_eq!(plane.versions().await, before, "nothing is written");
    assert_eq!(told(of(&plan, "blog")), [(Action::Delete, "three"), (Action::Create, "two")]);
    assert_eq!(of(&plan, "blog").revision.as_deref(), Some(&*older));

    // What is then done is what the plan said.
    plane.apply(&blog, &named).await;
    plane.until(&blog, |site| is_ready(site) && revision_of(site) == older).await;
    plane.quiet().await;
    assert_eq!(settings_of(&plane, "blog").await, ["one", "two"]);
    let plan = plane.plan(&[named]).await.unwrap();
    assert!(!plan.has_differences(), "{plan:#?}");
}

#[tokio::test]
async fn sites_on_manual_stay_when_their_composition_changes() {
    let (plane, docs) = (plane_with(&["blog", "docs"]).await, format!("{SITES}/docs"));
    let manual = json!({"spec": {"crossplane": {"compositionUpdatePolicy": "Manual"}}});
    plane.merge(&docs, &manual).await;
    plane.until(&docs, is_ready).await;
    plane.quiet().await;
    let plan = plane.plan(&[composition(&["one", "three"])]).await.unwrap();
    let reached: Vec<_> = plan.composites.iter().map(|it| it.composite.name.as_str()).collect();
    assert_eq!((reached, plan.considered), (vec!["blog"], 2), "{plan:#?}");

    // What is then done is what the plan said.
    let before = revision_of(&plane.get(&docs).await).to_owned();
    plane.compose_sites(&["one", "three"]).await;
    plane.until(&format!("{SITES}/blog"), |site| is_ready(site) && revision_of(site) != before).await;
    plane.quiet().await;
    assert_eq!(settings_of(&plane, "blog").await, ["one", "three"]);
    assert_eq!(settings_of(&plane, "docs").await, ["one", "two"]);
}

#[tokio::test]
async fn another_revision_of_a_function_does_what_its_plan_said() {
    let mut rollout = Rollout::begin().await;
    let first = rollout.install_running("v1.0.0", None, runner(|_| answer("one", &["a", "b"]))).await;
    rollout.compose("all", &json!({})).await;
    let second = rollout.install_running("v1.1.0", None, runner(|_| answer("two", &["b", "c"]))).await;
    rollout.plane.create_site("blog", "any").await;
    let is_so = |color: &'static str| move |site: &Value| is_ready(site) && site["status"]["color"] == color;
    rollout.plane.until(&format!("{SITES}/blog"), is_so("two")).await;
    rollout.plane.quiet().await;
    let client = rollout.plane.client_of(&master("user"));
    let function_revisions = BTreeMap::from([("own".to_owned(), first)]);
    let request = PlanRequest { function_revisions, ..PlanRequest::default() };
    let plan = rollout.plane.planner().plan(&request, &client).await.unwrap();
    let actions: Vec<_> = told(of(&plan, "blog"));
    assert_eq!(actions, [(Action::Delete, "c"), (Action::Create, "a"), (Action::Update, "b")], "{plan:#?}");

    // What is then done is what the plan said: the newer revision is turned off.
    let manual = json!({"spec": {"revisionActivationPolicy": "Manual"}});
    rollout.plane.merge(&format!("{PKG}/functions/own"), &manual).await;
    let before = snapshot(&client).await;
    let inactive = json!({"spec": {"desiredState": "Inactive"}});
    rollout.plane.merge(&format!("{PKG}/functionrevisions/{second}"), &inactive).await;
    rollout.plane.until(&format!("{SITES}/blog"), is_so("one")).await;
    let after = settled(&rollout.plane, &client).await;
    assert_eq!(planned(&plan), happened(|_| true, &before, &after), "{plan:#?}");
}
