//! Plan, then do, for claims: what becomes of a claim, of its composite resource and of their Secrets is what the plan said.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Query};
use ferroplane_engine::changes::{Change, ChangePlan, ObjectName, substitute};
use ferroplane_testkit::plane::{Plane, master};
use serde_json::{Value, json};

use super::corpus::{Told, apply, planned, tell};
use crate::claim::{composition, is_ready, page, plane_with_pages};

/// How many claims there are, each with its own change.
const CASES: u64 = 36;
/// The case in which the claim is new.
const NEW: u64 = 3;
/// The case in which the claim names no Secret at first.
const WITHOUT_SECRET: u64 = 5;
const PAGES: &str = "/apis/legacy.example.org/v1/namespaces/default/pages";

/// A claim with its own Composition, and a change of them.
struct Case {
    number: u64,
    world: Vec<Value>,
    change: Vec<Value>,
}

impl Case {
    fn new(number: u64) -> Self {
        let details = format!("w{number}-details");
        let secret = Some(details.as_str()).filter(|_| number % 6 != WITHOUT_SECRET);
        let mut changed = composition_of(number);
        let hue = json!({"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.hue"});
        let resource = &mut changed["spec"]["pipeline"][1]["input"]["resources"][0];
        resource["patches"].as_array_mut().unwrap().push(hue);
        let change = match number % 6 {
            0 => vec![claim(number, "blue", secret)],
            1 => vec![changed],
            2 => vec![claim(number, "red", Some(&format!("w{number}-other")))],
            NEW => vec![claim(number, "green", secret)],
            4 => {
                let mut labelled = claim(number, "red", secret);
                labelled["metadata"]["labels"] = json!({"team": "a"});
                vec![labelled]
            }
            _ => vec![changed, claim(number, "black", Some(&details))],
        };
        let mut world = vec![composition_of(number)];
        if number % 6 != NEW {
            world.push(claim(number, "red", secret));
        }
        Self { number, world, change }
    }

    fn owns(&self, object: &Object) -> bool {
        let claim = format!("w{}", self.number);
        let is_its = |name: &str| {
            name == claim
                || name.starts_with(&format!("{claim}-"))
                || name == format!("world-{}", self.number)
        };
        // The Secret of a composite resource is named after its UID.
        let owner = meta::controller(object).and_then(|owner| owner.get("name")?.as_str());
        is_its(meta::name(object)) || owner.is_some_and(is_its)
    }
}

fn claim(number: u64, color: &str, secret: Option<&str>) -> Value {
    let mut spec = json!({"color": color, "compositionRef": {"name": format!("world-{number}")}});
    if let Some(name) = secret {
        spec["writeConnectionSecretToRef"] = json!({"name": name});
    }
    let mut claim = page(&spec);
    claim["metadata"] = json!({"name": format!("w{number}"), "namespace": "default"});
    claim
}

fn composition_of(number: u64) -> Value {
    let mut composition = composition();
    composition["metadata"]["name"] = format!("world-{number}").into();
    composition
}

/// Everything that claims become, by what it is called.
async fn snapshot(client: &ApiClient) -> BTreeMap<ObjectName, Object> {
    let mut objects = BTreeMap::new();
    for (api_version, kind, namespace) in [
        ("v1", "ConfigMap", "default"),
        ("v1", "Secret", "default"),
        ("v1", "Secret", "kube-system"),
        ("legacy.example.org/v1", "Page", "default"),
        ("legacy.example.org/v1", "Site", ""),
        ("apiextensions.crossplane.io/v1", "Composition", ""),
    ] {
        let resource = client.resource(api_version, kind).await.unwrap().unwrap();
        for mut object in client.list_objects(&resource, namespace, &Query::default()).await.unwrap() {
            resource.add_kind(&mut object);
            objects.insert(ObjectName::of(&object), object);
        }
    }
    objects
}

/// What stands in plans for what is not known before these objects exist.
fn unknown_before(created: &[&Object]) -> BTreeMap<String, String> {
    let assigned = created.iter().map(|it| (meta::uid(it).to_owned(), "(assigned when created)".to_owned()));
    let mut unknown: BTreeMap<_, _> = assigned.collect();
    for composite in created.iter().filter(|it| meta::kind(it) == "Site") {
        let name = meta::name(composite);
        let claim = composite["spec"]["claimRef"]["name"].as_str().unwrap();
        unknown.insert(name.to_owned(), format!("{claim}-(generated)"));
        unknown.insert(format!("{name}-"), format!("{claim}-(generated)-"));
    }
    for composed in created.iter().filter(|it| !meta::generate_name(it).is_empty()) {
        if let Some(prefix) = unknown.get(meta::generate_name(composed)).cloned() {
            unknown.insert(meta::name(composed).to_owned(), format!("{prefix}(generated)"));
        }
    }
    unknown
}

fn happened(
    case: &Case,
    before: &BTreeMap<ObjectName, Object>,
    after: &BTreeMap<ObjectName, Object>,
) -> Vec<Told> {
    let all: BTreeSet<_> =
        before.iter().chain(after).filter(|(_, object)| case.owns(object)).map(|(name, _)| name).collect();
    let created = all.iter().filter(|name| !before.contains_key(**name));
    let created: Vec<_> = created.filter_map(|name| after.get(*name)).collect();
    let unknown = unknown_before(&created);
    let mut told = Vec::new();
    for name in all {
        let Some(mut change) = Change::between(before.get(name), after.get(name)) else { continue };
        if let Some(name) = unknown.get(&change.object.name) {
            change.object.name.clone_from(name);
        }
        for field in &mut change.fields {
            field.after.iter_mut().for_each(|after| substitute(after, &unknown));
        }
        told.extend(tell(change));
    }
    told.sort_by_cached_key(|one| format!("{one:?}"));
    told
}

async fn plane_with_claims(cases: &[Case]) -> Plane {
    let plane = plane_with_pages().await;
    let client = plane.client_of(&master("user"));
    for object in cases.iter().flat_map(|case| &case.world) {
        apply(&client, object).await;
    }
    for case in cases.iter().filter(|case| case.number % 6 != NEW) {
        plane.until(&format!("{PAGES}/w{}", case.number), is_ready).await;
    }
    plane.quiet().await;
    plane
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_change_does_to_claims_is_what_its_plan_said() {
    let cases: Vec<_> = (0..CASES).map(Case::new).collect();
    let plane = plane_with_claims(&cases).await;
    let client = plane.client_of(&master("user"));
    let versions = plane.versions().await;
    let mut foreseen: Vec<ChangePlan> = Vec::new();
    for case in &cases {
        foreseen.push(plane.plan(&case.change).await.unwrap());
    }
    assert_eq!(plane.versions().await, versions, "a plan has written something");

    let before = snapshot(&client).await;
    for object in cases.iter().flat_map(|case| &case.change) {
        apply(&client, object).await;
    }
    for case in &cases {
        let is_done = |page: &Value| is_ready(page) && is_wanted(case, page);
        plane.until(&format!("{PAGES}/w{}", case.number), is_done).await;
    }
    plane.quiet().await;
    let after = snapshot(&client).await;
    for (case, plan) in cases.iter().zip(&foreseen) {
        assert!(!plan.is_refused(), "case {}: {plan:#?}", case.number);
        let planned = planned(plan);
        assert!(planned.iter().any(|(_, kind, ..)| kind == "Page"), "case {}: {plan:#?}", case.number);
        assert_eq!(planned, happened(case, &before, &after), "case {}: {plan:#?}", case.number);
    }
}

/// Whether a claim reports the color that its case asks for.
fn is_wanted(case: &Case, page: &Value) -> bool {
    let claimed = case.change.iter().find(|object| object["kind"] == "Page");
    claimed.is_none_or(|claimed| page["status"]["color"] == claimed["spec"]["color"])
}
