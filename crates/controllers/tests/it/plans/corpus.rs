//! Plan, then do: in generated worlds, what a change does is what its plan said, object by object and field by field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, ObjectPath, Query, Resource};
use ferroplane_controllers::apply_file;
use ferroplane_engine::changes::{Action, Change, ChangePlan, FieldChange, ObjectName, Verdict, substitute};
use ferroplane_testkit::plane::{Plane, condition, master};
use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::{Value, json};

/// How many worlds there are, each with its own change.
const CASES: u64 = 240;
/// How many of them are planned wrongly on purpose.
const FEW: u64 = 40;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const SITE: &str = "/apis/example.org/v1/namespaces/default/sites";

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn is_lucky(&mut self, of_ten: u64) -> bool {
        self.below(10) < of_ten
    }
}

/// A world, and a change of it.
struct Case {
    number: u64,
    /// What there is before.
    world: Vec<Value>,
    /// What is applied.
    change: Vec<Value>,
}

impl Case {
    fn new(number: u64) -> Self {
        let mut dice = Dice(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let input = input(number, &mut dice);
        let (site, wanted) = (site(number, "red"), setting(number, "old"));
        let composed = composition(number, &input);
        let mut world = vec![wanted, composed];
        let mut changed = input.clone();
        let resources = changed["resources"].as_array_mut().unwrap();
        let change = match number % 8 {
            0 => vec![self::site(number, "blue")],
            1 => {
                resources.pop();
                vec![composition(number, &changed)]
            }
            2 => {
                resources.push(item("z", true, &mut dice));
                vec![composition(number, &changed)]
            }
            3 => {
                resources[0]["value"] = format!("changed-{}", dice.below(100)).into();
                vec![composition(number, &changed)]
            }
            4 => {
                let is_account = resources[0]["kind"] == "ServiceAccount";
                resources[0]["kind"] = if is_account { "ConfigMap" } else { "ServiceAccount" }.into();
                vec![composition(number, &changed)]
            }
            5 => vec![self::site(number, "green")],
            6 => vec![composition(number, &self::input(number, &mut dice)), self::site(number, "black")],
            _ => vec![setting(number, "new")],
        };
        // Of these, the site itself is new.
        if number % 8 != 5 {
            world.push(site);
        }
        Self { number, world, change }
    }

    fn owns(&self, object: &ObjectName) -> bool {
        let site = format!("w{}", self.number);
        object.name == site
            || object.name.starts_with(&format!("{site}-"))
            || object.name == format!("world-{}", self.number)
            || object.name == format!("wanted-{}", self.number)
    }
}

/// What a composition of this world wants.
fn input(number: u64, dice: &mut Dice) -> Value {
    let count = 1 + dice.below(NAMES.len() as u64);
    // Where names are not known before, nobody knows how they sort among others.
    let items: Vec<_> = NAMES
        .iter()
        .take(usize::try_from(count).unwrap())
        .map(|name| item(name, number % 8 != 5, dice))
        .collect();
    let status = ["spec", "nested", "none"][usize::try_from(dice.below(3)).unwrap()];
    json!({
        "apiVersion": "example.org/v1", "kind": "Input", "resources": items, "wants": format!("wanted-{number}"),
        "status": status,
        "isFatal": number % 40 == 38,
    })
}

fn item(name: &str, is_named: bool, dice: &mut Dice) -> Value {
    let kind = match dice.below(10) {
        0..=4 => "ConfigMap",
        5..=7 => "ServiceAccount",
        _ => "Site",
    };
    let mut item = json!({"name": name, "kind": kind, "value": format!("v{}", dice.below(100))});
    if is_named && dice.is_lucky(3) {
        item["isNamed"] = true.into();
    }
    if name != "a" && dice.is_lucky(4) {
        item["after"] = "a".into();
    }
    item
}

fn site(number: u64, color: &str) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Site",
        "metadata": {"name": format!("w{number}"), "namespace": "default"},
        "spec": {"color": color, "crossplane": {"compositionRef": {"name": format!("world-{number}")}}},
    })
}

/// What functions of a world read.
fn setting(number: u64, color: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("wanted-{number}"), "namespace": "default"}, "data": {"color": color},
    })
}

fn composition(number: u64, input: &Value) -> Value {
    named_composition(&format!("world-{number}"), input)
}

fn named_composition(name: &str, input: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": name},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [{"step": "world", "functionRef": {"name": "function-world"}, "input": input}],
        },
    })
}

/// What nested sites become.
fn leaf() -> Value {
    let items = json!([{"name": "leaf", "kind": "ConfigMap", "value": "leaf"}]);
    let input =
        json!({"apiVersion": "example.org/v1", "kind": "Input", "resources": items, "status": "spec"});
    named_composition("leaf", &input)
}

/// A function that wants what its input says.
fn answer(request: &RunFunctionRequest) -> Value {
    let input = request.input.as_ref().unwrap().json().unwrap();
    let observed = request.observed.as_ref().unwrap();
    let site = observed.composite().unwrap().resource.as_ref().unwrap().json().unwrap();
    if input.get("isFatal") == Some(&true.into()) && site["spec"]["color"] != "red" {
        return json!({"meta": {}, "results": [{"severity": "SEVERITY_FATAL", "message": "as its input says"}]});
    }
    let seen: BTreeSet<String> = observed.resources().keys().cloned().collect();
    let required = request.required_resources.get("wanted").and_then(|found| found.items.first());
    let required = required.and_then(|item| item.resource.as_ref()?.json().ok()?["data"]["color"].as_str());
    let mut resources = serde_json::Map::new();
    for item in input["resources"].as_array().unwrap() {
        let name = item["name"].as_str().unwrap();
        if item.get("after").and_then(Value::as_str).is_some_and(|after| !seen.contains(after)) {
            continue;
        }
        let object = wanted(item, &site["spec"]["color"], required, site);
        resources.insert(name.to_owned(), json!({"resource": object, "ready": "READY_TRUE"}));
    }
    let status = status(input, site, observed);
    let mut answer = json!({
        "meta": {}, "desired": {"composite": {"resource": {"status": status}}, "resources": resources},
    });
    if let Some(wants) = input.get("wants") {
        answer["requirements"] = json!({"resources": {"wanted": {
            "apiVersion": "v1", "kind": "ConfigMap", "matchName": wants, "namespace": "default",
        }}});
    }
    answer
}

fn wanted(item: &Value, color: &Value, required: Option<&str>, site: &Object) -> Value {
    let mut object = match item["kind"].as_str().unwrap() {
        "ConfigMap" => json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "data": {"color": color, "value": item["value"], "wanted": required.unwrap_or("nothing")},
        }),
        "ServiceAccount" => json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"labels": {"value": item["value"]}},
        }),
        _ => json!({
            "apiVersion": "example.org/v1", "kind": "Site",
            "spec": {"color": item["value"], "crossplane": {"compositionRef": {"name": "leaf"}}},
        }),
    };
    if item.get("isNamed").is_some() {
        object["metadata"]["name"] =
            format!("{}-{}", meta::name(site), item["name"].as_str().unwrap()).into();
    }
    object
}

fn status(input: &Object, site: &Object, observed: &ferroplane_wire::State) -> Value {
    match input["status"].as_str() {
        Some("spec") => json!({"color": site["spec"]["color"]}),
        Some("nested") => {
            let nested =
                observed.resources().values().filter_map(|found| found.resource.as_ref()?.json().ok());
            let mut nested = nested.filter(|object| meta::kind(object) == "Site");
            let color = nested.find_map(|site| Some(site.get("status")?.get("color")?.clone()));
            json!({"color": color.unwrap_or_else(|| "unknown".into())})
        }
        _ => json!({}),
    }
}

/// Everything in the namespace that worlds are made of, and Compositions, by what it is called.
pub(super) async fn snapshot(client: &ApiClient) -> BTreeMap<ObjectName, Object> {
    let mut objects = BTreeMap::new();
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "ServiceAccount"),
        ("example.org/v1", "Site"),
        ("apiextensions.crossplane.io/v1", "Composition"),
    ] {
        let resource = client.resource(api_version, kind).await.unwrap().unwrap();
        let namespace = if resource.is_namespaced { "default" } else { "" };
        for mut object in client.list_objects(&resource, namespace, &Query::default()).await.unwrap() {
            resource.add_kind(&mut object);
            objects.insert(ObjectName::of(&object), object);
        }
    }
    objects
}

/// The same once controllers have nothing to change any more, and nothing is left of what was deleted.
pub(super) async fn settled(plane: &Plane, client: &ApiClient) -> BTreeMap<ObjectName, Object> {
    loop {
        plane.quiet().await;
        let objects = snapshot(client).await;
        let uids: BTreeSet<_> = objects.values().map(meta::uid).collect();
        let is_left = |object: &Object| {
            meta::is_being_deleted(object)
                || meta::controller_uid(object).is_some_and(|uid| !uids.contains(uid))
        };
        if !objects.values().any(is_left) {
            return objects;
        }
    }
}

/// A change, so that a planned one and one that happened can be compared.
pub(super) type Told = (Action, String, String, String, Vec<FieldChange>);

pub(super) fn tell(change: Change) -> Vec<Told> {
    let mut told = Vec::new();
    let of = |action, object: ObjectName, resource: String, fields| {
        (action, object.kind, object.name, resource, fields)
    };
    let action = if change.action == Action::Replace { Action::Create } else { change.action };
    if let Some(replaced) = change.replaces {
        told.push(of(Action::Delete, replaced, change.resource.clone(), Vec::new()));
    }
    told.push(of(action, change.object, change.resource, change.fields));
    told
}

pub(super) fn planned(plan: &ChangePlan) -> Vec<Told> {
    let composed = plan.composites.iter().flat_map(|composite| composite.changes.clone());
    let mut told: Vec<_> = plan.proposed.clone().into_iter().chain(composed).flat_map(tell).collect();
    // By the fields, too: objects whose names are not known before look the same otherwise, and come in any order.
    told.sort_by_cached_key(|one| format!("{one:?}"));
    told
}

/// What happened to objects of these names.
pub(super) fn happened(
    owns: impl Fn(&ObjectName) -> bool,
    before: &BTreeMap<ObjectName, Object>,
    after: &BTreeMap<ObjectName, Object>,
) -> Vec<Told> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).filter(|name| owns(name)).collect();
    let created = |name: &&&ObjectName| !before.contains_key(**name);
    let created: Vec<_> = names.iter().filter(created).filter_map(|name| after.get(*name)).collect();
    let uids: BTreeSet<_> = created.iter().map(|object| meta::uid(object)).collect();
    let mut unknown: BTreeMap<String, String> =
        uids.iter().map(|uid| ((*uid).to_owned(), "(assigned when created)".to_owned())).collect();
    for object in &created {
        let is_of_new_owner = meta::controller_uid(object).is_some_and(|uid| uids.contains(uid));
        if is_of_new_owner && !meta::generate_name(object).is_empty() {
            let stands_for = format!("{}(generated)", meta::generate_name(object));
            unknown.insert(meta::name(object).to_owned(), stands_for);
        }
    }
    let changes = names.iter().filter_map(|name| Change::between(before.get(*name), after.get(*name)));
    let known = changes.map(|mut change| {
        if let Some(name) = unknown.get(&change.object.name) {
            change.object.name.clone_from(name);
        }
        for field in &mut change.fields {
            field.after.iter_mut().for_each(|after| substitute(after, &unknown));
        }
        change
    });
    let mut told: Vec<_> = known.flat_map(tell).collect();
    // By the fields, too: objects whose names are not known before look the same otherwise, and come in any order.
    told.sort_by_cached_key(|one| format!("{one:?}"));
    told
}

pub(super) async fn apply(client: &ApiClient, object: &Value) {
    let object = object.as_object().unwrap();
    let resource = client.resource(meta::api_version(object), meta::kind(object)).await.unwrap().unwrap();
    let resource: &Resource = &resource;
    let path = ObjectPath { resource, namespace: meta::namespace(object), name: meta::name(object) };
    apply_file(client, path, object, None).await.unwrap();
}

async fn plane_with_worlds(
    cases: &[Case],
    answer: impl Fn(&RunFunctionRequest) -> Value + Send + Sync + 'static,
) -> Plane {
    let plane = Plane::with_function("function-world", move |request| {
        ferroplane_wire::from_json(&answer(request)).unwrap()
    })
    .await;
    plane.define_sites().await;
    let client = plane.client_of(&master("user"));
    apply(&client, &leaf()).await;
    for object in cases.iter().flat_map(|case| &case.world) {
        apply(&client, object).await;
    }
    for case in cases.iter().filter(|case| case.number % 8 != 5) {
        let site = format!("{SITE}/w{}", case.number);
        plane
            .until(&site, |site| condition(site, "Synced").as_deref() == Some("True/ReconcileSuccess"))
            .await;
    }
    plane.quiet().await;
    plane
}

/// Plan all changes. Nothing is written.
async fn foresee(plane: &Plane, cases: &[Case]) -> Vec<ChangePlan> {
    let versions = plane.versions().await;
    let mut foreseen = Vec::new();
    for case in cases {
        foreseen.push(plane.plan(&case.change).await.unwrap());
    }
    assert_eq!(plane.versions().await, versions, "a plan has written something");
    foreseen
}

/// Make all changes. Returns what happened in each world.
async fn carry_out(plane: &Plane, cases: &[Case]) -> Vec<Vec<Told>> {
    let client = plane.client_of(&master("user"));
    let before = snapshot(&client).await;
    for object in cases.iter().flat_map(|case| &case.change) {
        apply(&client, object).await;
    }
    let after = settled(plane, &client).await;
    cases.iter().map(|case| happened(|name| case.owns(name), &before, &after)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_change_does_is_what_its_plan_said() {
    let cases: Vec<_> = (0..CASES).map(Case::new).collect();
    let plane = plane_with_worlds(&cases, answer).await;
    let foreseen = foresee(&plane, &cases).await;
    let done = carry_out(&plane, &cases).await;
    let mut changed = 0;
    for ((case, plan), happened) in cases.iter().zip(&foreseen).zip(done) {
        assert!(!plan.is_refused(), "case {}: {plan:#?}", case.number);
        let planned = planned(plan);
        assert_eq!(planned, happened, "case {}: {plan:#?}", case.number);
        changed += usize::from(!planned.is_empty());
    }
    // Worlds in which nothing happens would prove nothing.
    let fails = |plan: &&ChangePlan| {
        plan.composites.iter().any(|composite| matches!(composite.verdict, Verdict::Fails { .. }))
    };
    assert!(changed >= 200, "{changed} of {CASES} changes did something");
    assert!(foreseen.iter().filter(fails).count() > 0);
}

/// A function composes one field more than it did when plans were made, as if the plans were wrong. A comparison that does not see that
/// would prove nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_that_is_wrong_in_one_field_is_told_from_what_happened() {
    let cases: Vec<_> = (0..FEW).map(Case::new).collect();
    let is_wrong = Arc::new(AtomicBool::new(false));
    let lies = is_wrong.clone();
    let plane = plane_with_worlds(&cases, move |request| {
        let mut answer = answer(request);
        if lies.load(Ordering::SeqCst) {
            add_field(&mut answer);
        }
        answer
    })
    .await;
    let foreseen = foresee(&plane, &cases).await;
    is_wrong.store(true, Ordering::SeqCst);
    let done = carry_out(&plane, &cases).await;
    let is_noticed = |(plan, happened): &(&ChangePlan, &Vec<Told>)| planned(plan) != **happened;
    let noticed = foreseen.iter().zip(&done).filter(is_noticed).count();
    // Some worlds have no setting, and some fail.
    assert!(noticed >= cases.len() / 2, "{noticed} of {FEW} wrong plans were noticed");
}

/// Have all settings say one thing more.
fn add_field(answer: &mut Value) {
    let Some(resources) = answer.pointer_mut("/desired/resources").and_then(Value::as_object_mut) else {
        return;
    };
    for resource in resources.values_mut() {
        if resource["resource"]["kind"] == "ConfigMap" {
            resource["resource"]["data"]["late"] = "yes".into();
        }
    }
}
