//! What a call of a built-in function costs in process, and what one of the original over gRPC does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ferroplane_functions::builtin;
use ferroplane_runner::{Command, Program, grpc};
use ferroplane_wire::v1::{Resource, RunFunctionRequest};
use ferroplane_wire::{State, Struct};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::{Times, pretty};
use crate::objects::to_struct;

const RESOURCES: usize = 20;
const BUDGET: Duration = Duration::from_secs(1);

type MakeInput = fn() -> Value;

/// Each function, with the version of its original and an input for it.
const INPUTS: &[(&str, &str, MakeInput)] = &[
    ("function-patch-and-transform", "v0.10.8", patches),
    ("function-auto-ready", "v0.7.0", || json!({})),
    ("function-sequencer", "v0.6.0", sequence),
    ("function-cel-validation", "", rules),
];

pub(crate) fn run() {
    println!("{RESOURCES} composed resources, all of them observed\n");
    println!("| function | p50 | best | best, input read anew | the original over gRPC, p50 |");
    println!("|---|---|---|---|---|");
    for (name, version, input) in INPUTS {
        let request = request(name, to_struct(input()));
        let function = builtin(name, None).expect("it is built in");
        assert!(
            function.run(&request).results.is_empty(),
            "{name} complains: {:?}",
            function.run(&request).results
        );
        let times = Times::of(BUDGET, || function.run(&request));
        let wire = request.input.as_ref().map(|input| input.wire().clone()).unwrap_or_default();
        let anew = Times::of(BUDGET, || {
            let input = Some(Struct::from(wire.clone()));
            function.run(&RunFunctionRequest { input, ..request.clone() })
        });
        let original = original(&format!("{name}@{version}"), &request);
        let original = original.map_or_else(|| "-".to_owned(), |times| pretty(times.p50()));
        let (p50, best, anew) = (pretty(times.p50()), pretty(times.best()), pretty(anew.best()));
        println!("| {name} | {p50} | {best} | {anew} | {original} |");
    }
}

/// The same request to the original, if it is there.
fn original(name: &str, request: &RunFunctionRequest) -> Option<Times> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let path = home.join(".cache/ferroplane/originals/bin").join(name);
    let command = Command::parse(&format!("'{}'", path.display()), ".").ok().filter(|_| path.exists())?;
    let runtime = Runtime::new().expect("there is a runtime");
    let program = runtime.block_on(Program::start(&command, grpc::Options::default())).ok()?;
    let call = || runtime.block_on(program.call(request)).expect("it answers");
    let times = Times::of(BUDGET, call);
    runtime.block_on(program.stop());
    Some(times)
}

/// The composite resource of the requests.
pub(crate) fn xr() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "XStore", "metadata": {"name": "store", "namespace": "team-a"},
        "spec": {"region": "eu-west-1", "size": 20, "tier": "gold", "tags": {"team": "a", "cost": "b"}}
    })
}

/// Three steps of built-in functions.
pub(crate) fn composition() -> Value {
    let step = |name: &str, input: Value| json!({"step": name, "functionRef": {"name": format!("function-{name}")}, "input": input});
    let mut ready = step("auto-ready", Value::Null);
    ready.as_object_mut().expect("it is an object").remove("input");
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "store"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XStore"}, "mode": "Pipeline",
            "pipeline": [step("patch-and-transform", patches()), ready, step("cel-validation", rules())]
        }
    })
}

/// The composite resource and everything it is composed of. Patch-and-transform and go-templating are first steps and find
/// nothing desired; the others find what it wants.
pub(crate) fn request(function: &str, input: Struct) -> RunFunctionRequest {
    let resource = |object: Value| Resource { resource: Some(to_struct(object)), ..Resource::default() };
    let all = |object: fn(usize) -> Value| -> BTreeMap<_, _> {
        (0..RESOURCES).map(|number| (name(number), resource(object(number)))).collect()
    };
    let is_first = matches!(function, "function-patch-and-transform" | "function-go-templating");
    let desired = if is_first { BTreeMap::new() } else { all(|_| base()) };
    RunFunctionRequest {
        observed: Some(State::new(Some(resource(xr())), all(observed))),
        desired: Some(State::new(None, desired)),
        input: Some(input),
        ..RunFunctionRequest::default()
    }
}

fn name(number: usize) -> String {
    format!("bucket-{number}")
}

fn observed(number: usize) -> Value {
    let mut object = base();
    object["metadata"]["name"] = json!(format!("store-{number}"));
    object["status"] = json!({
        "address": format!("10.0.0.{number}"),
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}]
    });
    object
}

/// About ten fields.
fn base() -> Value {
    json!({
        "apiVersion": "s3.example.org/v1", "kind": "Bucket", "metadata": {"labels": {"app": "store", "tier": "x"}},
        "spec": {"region": "x", "versioning": true, "size": 1, "retention": {"days": 7, "mode": "soft"}, "tags": {"a": "b"}}
    })
}

/// Each after the one before it.
fn sequence() -> Value {
    let names: Vec<_> = (0..RESOURCES).map(name).collect();
    json!({"apiVersion": "sequencer.fn.crossplane.io/v1beta1", "kind": "Input", "rules": [{"sequence": names}]})
}

/// One about the composite resource, one about each composed resource.
fn rules() -> Value {
    json!({"apiVersion": "validation.fn.ferroplane.io/v1beta1", "kind": "Validation", "rules": [
        {"name": "size", "rule": "observed.composite.resource.spec.size <= 100"},
        {"name": "region", "resources": {}, "rule": "self.spec.region.startsWith('eu-') || self.spec.region == 'x'"}
    ]})
}

/// Four patches each, half of them with a transform.
fn patches() -> Value {
    let patches = json!([
        {"fromFieldPath": "spec.region", "toFieldPath": "spec.region"},
        {"fromFieldPath": "spec.tier", "toFieldPath": "spec.retention.days", "transforms": [
            {"type": "map", "map": {"gold": 30, "silver": 7}}
        ]},
        {"type": "CombineFromComposite", "toFieldPath": "metadata.annotations[example.org/name]", "combine": {
            "strategy": "string", "string": {"fmt": "%s-%s"},
            "variables": [{"fromFieldPath": "metadata.name"}, {"fromFieldPath": "spec.region"}]
        }},
        {"type": "ToCompositeFieldPath", "fromFieldPath": "status.address", "toFieldPath": "status.address", "transforms": [
            {"type": "string", "string": {"type": "Format", "fmt": "https://%s"}}
        ]}
    ]);
    let resources: Vec<_> = (0..RESOURCES)
        .map(|number| json!({"name": name(number), "base": base(), "patches": patches}))
        .collect();
    json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources})
}
