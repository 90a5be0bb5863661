//! Patches, selectors, tables and metadata of objects of three sizes.

use std::time::Duration;

use ferroplane_cel::quantity::Quantity;
use ferroplane_schema::field::Path;
use ferroplane_schema::meta::{self, NameRule};
use ferroplane_schema::patch::facts::{Facts, PatchField, PatchShape, Strategy};
use ferroplane_schema::patch::{json, merge, strategic};
use ferroplane_schema::selector::LabelSelector;
use ferroplane_schema::table::{Include, Instant, Printer};
use serde_json::{Map, Value, json};

use crate::measure::{HEAD, Measured, Times, pretty};

const BUDGET: Duration = Duration::from_millis(300);

pub(crate) fn run() {
    println!("{HEAD}");
    for containers in [6, 60, 600] {
        patches(&workload(containers));
    }
    println!("\n| what | best | p50 |\n|---|---|---|");
    views(&workload(6));
}

fn patches(object: &Map<String, Value>) {
    let size = Value::Object(object.clone()).to_string().len();
    let report = |what: &str, change: &Value, work: &dyn Fn(Map<String, Value>, Value) -> Value| {
        let given = || (object.clone(), change.clone());
        Measured::of(BUDGET, given, |(object, change)| work(object, change)).print(what, size);
    };
    let change = json!({"metadata": {"labels": {"new": "label"}}, "spec": {"replicas": 3, "paused": null}});
    report("merge patch", &change, &|mut object, change| {
        merge::apply(&mut object, change).expect("it applies");
        object.into()
    });
    let facts = facts();
    let kind = facts.kind("Deployment").expect("it is known");
    report("strategic merge patch", &strategic_change().into(), &|mut object, change| {
        let Value::Object(change) = change else { unreachable!("it is an object") };
        strategic::apply(&mut object, change, kind).expect("it applies");
        object.into()
    });
    let change = json!([
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 3},
        {"op": "add", "path": "/metadata/labels/new", "value": "label"},
    ]);
    report("JSON patch", &change, &|object, change| {
        let patch = json::Patch::decode(change).expect("it is a patch");
        patch.apply(object.into()).expect("it applies")
    });
}

fn views(object: &Map<String, Value>) {
    let report = |what: &str, times: &Times| {
        println!("| {what} | {} | {} |", pretty(times.best()), pretty(times.p50()));
    };
    let selector = "app=web,tier in (front,back),!legacy";
    report("label selector, parsed", &Times::of(BUDGET, || LabelSelector::parse(selector)));
    let selector = LabelSelector::parse(selector).expect("it is a selector");
    report("label selector, matched", &Times::of(BUDGET, || selector.matches_object(object)));
    report(
        "quantity, parsed and written",
        &Times::of(BUDGET, || Quantity::parse("1536Mi").map(|quantity| quantity.to_string())),
    );
    let metadata = object.get("metadata").and_then(Value::as_object).expect("it has metadata");
    report(
        "metadata, validated",
        &Times::of(BUDGET, || meta::validate(metadata, true, NameRule::Subdomain, &Path::new("metadata"))),
    );
    let columns = [
        json!({"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}),
        json!({"name": "Image", "type": "string", "jsonPath": ".spec.template.spec.containers[0].image"}),
        json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}),
    ];
    let printer = Printer::read(&columns).expect("these are columns");
    let (object, now) = (Value::Object(object.clone()), Instant { seconds: 1_700_000_000, nanoseconds: 0 });
    report(
        "row of a table with metadata",
        &Times::of(BUDGET, || printer.row(&object, Include::Metadata, now)),
    );
}

/// An object of about 340 bytes per container.
fn workload(containers: usize) -> Map<String, Value> {
    let container = |index: usize| {
        json!({
            "name": format!("container-{index}"),
            "image": "example.org/images/application:v1.2.3",
            "env": [{"name": "FIRST", "value": "one"}, {"name": "SECOND", "value": "two"}],
            "ports": [{"containerPort": 8080 + index, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "100m"}},
        })
    };
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "creationTimestamp": "2023-01-01T00:00:00Z",
            "labels": {"app": "web", "tier": "front"},
            "annotations": {"example.org/note": "something worth knowing"},
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": (0..containers).map(container).collect::<Vec<_>>()}},
        },
    });
    let Value::Object(object) = object else { unreachable!("it is written above") };
    object
}

/// What `kubectl apply` sends for a new image and a new variable.
fn strategic_change() -> Map<String, Value> {
    let change = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "container-0"}, {"name": "container-1"}],
        "containers": [{
            "name": "container-1",
            "image": "example.org/images/application:v1.2.4",
            "env": [{"name": "THIRD", "value": "three"}],
        }],
    }}}});
    let Value::Object(change) = change else { unreachable!("it is written above") };
    change
}

fn facts() -> Facts {
    let object = |name: &str| PatchField::new(PatchShape::object(name));
    let list = |name: &str, key: &str| {
        let shape = PatchShape::list(PatchShape::object(name));
        PatchField::new(shape).with_strategy(Strategy::Merge).with_merge_key(key)
    };
    Facts::default()
        .with("Deployment", "spec", object("DeploymentSpec"))
        .with("DeploymentSpec", "template", object("Template"))
        .with("Template", "spec", object("PodSpec"))
        .with("PodSpec", "containers", list("Container", "name"))
        .with("Container", "env", list("EnvVar", "name"))
        .with("Container", "ports", list("ContainerPort", "containerPort"))
}
