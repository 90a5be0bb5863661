//! Makes operations, schedules and watches of every kind.

use ferroplane_wire::Struct;
use ferroplane_wire::render::render_request::Input;
use ferroplane_wire::render::{CronOperationInput, FunctionInput, OperationInput, WatchOperationInput};
use serde_json::{Map, Value, json};

use super::{Case, Kind};
use crate::case::list;
use crate::dice::Dice;
use crate::generate::{asks, credentials, required, requirements, result, schemas, values_object};

const API_VERSION: &str = "ops.crossplane.io/v1alpha1";
const KEYS: [&str; 5] = ["a", "b", "bucket", "Upper", "with space"];

/// The case with this number.
pub(super) fn case(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let kind = dice.pick(&[Kind::Operation, Kind::Operation, Kind::Operation, Kind::Cron, Kind::Watch]);
    let json = match kind {
        Kind::Operation => operation(&mut dice),
        Kind::Cron => json!({
            "parent": parent(&mut dice, "CronOperation", &json!({"schedule": "0 3 * * *"})),
            "time": 1_600_000_000 + dice.below(100_000_000),
        }),
        Kind::Watch => watch(&mut dice),
    };
    Case { seed, kind, json }
}

fn operation(dice: &mut Dice) -> Value {
    json!({
        "operation": {
            "apiVersion": API_VERSION, "kind": "Operation", "metadata": metadata(dice, "op"),
            "spec": spec(dice), "status": status(dice),
        },
        "functions": ["f", "g"],
        "requiredResources": required(dice), "credentials": credentials(), "requiredSchemas": schemas(dice),
    })
}

fn metadata(dice: &mut Dice, name: &str) -> Value {
    let mut metadata = json!({"name": name, "uid": "0f2f3f4a-1111-4222-8333-5d5e5f5a5b5c"});
    if dice.chance(30) {
        metadata["labels"] = json!({"team": "blue"});
    }
    if dice.chance(20) {
        metadata["annotations"] = json!({"note": "grüße ☃"});
    }
    metadata["generation"] = (1 + dice.below(3)).into();
    metadata
}

/// What an earlier attempt may have left. Never so many failures that the next one is the last: Crossplane says so one attempt later.
fn status(dice: &mut Dice) -> Value {
    let mut status = json!({});
    if dice.chance(20) {
        status["failures"] = dice.pick(&[1, 2, 100]).into();
    }
    if dice.chance(15) {
        status["pipeline"] = json!([{"step": "one", "output": {"old": true}}]);
    }
    if dice.chance(15) {
        status["appliedResourceRefs"] = json!([{"apiVersion": "v1", "kind": "Zebra", "name": "z"}]);
    }
    if dice.chance(15) {
        let (succeeded, reason) = dice.pick(&[
            ("True", "PipelineSuccess"),
            ("False", "PipelineError"),
            ("Unknown", "PipelineRunning"),
        ]);
        let time = "2020-01-01T00:00:00Z";
        status["conditions"] =
            json!([{"type": "Succeeded", "status": succeeded, "reason": reason, "lastTransitionTime": time}]);
    }
    status
}

fn spec(dice: &mut Dice) -> Value {
    let steps = ["one", "two", "three"].into_iter().take(1 + dice.below(3));
    let steps: Vec<_> = steps.map(|name| step(dice, name)).collect();
    let mut spec = json!({"mode": "Pipeline", "pipeline": steps});
    if dice.chance(50) {
        spec["retryLimit"] = dice.pick(&[0, 4, 10]).into();
    }
    spec
}

fn step(dice: &mut Dice, name: &str) -> Value {
    let mut step =
        json!({"step": name, "functionRef": {"name": dice.pick(&["f", "g"])}, "input": script(dice)});
    if dice.chance(25) {
        let secret = dice.pick(&["cloud", "bare", "cloud", "missing"]);
        let reference = json!({"namespace": "secrets", "name": secret});
        step["credentials"] = json!([{"name": "my", "source": "Secret", "secretRef": reference}]);
    }
    if dice.chance(25) {
        step["requirements"] = requirements(dice);
    }
    step
}

fn script(dice: &mut Dice) -> Value {
    let mut script =
        json!({"apiVersion": "script.ferroplane.io/v1", "kind": "Script", "response": response(dice)});
    if dice.chance(10) {
        script["without"] = json!([dice.pick(&["desired", "context", "meta"])]);
    }
    if dice.chance(15) {
        script["drop"] = json!(dice.some(&KEYS, 30));
    }
    if dice.chance(30) {
        script["asks"] = asks(dice);
        script["manner"] = dice.pick(&["atOnce", "atOnce", "oneByOne", "restless"]).into();
    }
    if dice.chance(4) {
        script["error"] = dice.pick(&[2, 5, 13, 14]).into();
    }
    script
}

fn response(dice: &mut Dice) -> Value {
    let mut response = json!({});
    if dice.chance(80) {
        let resources = dice
            .some(&KEYS, 50)
            .into_iter()
            .map(|key| (key.to_owned(), json!({"resource": desired(dice, key)})));
        response["desired"]["resources"] = Value::Object(resources.collect::<Map<_, _>>());
    }
    if dice.chance(40) {
        response["results"] = (0..dice.below(4)).map(|_| result(dice)).collect();
    }
    if dice.chance(10) {
        let fatal = json!({"severity": "SEVERITY_FATAL", "message": dice.pick(&["no", "", "grüße ☃"])});
        match response["results"].as_array_mut() {
            Some(results) => results.push(fatal),
            None => response["results"] = json!([fatal]),
        }
    }
    // What a step puts out that fails is lost in Crossplane.
    let is_fatal = response.to_string().contains("SEVERITY_FATAL");
    if !is_fatal && dice.chance(40) {
        response["output"] = values_object(dice);
    }
    if dice.chance(20) {
        response["context"] = json!({"other": values_object(dice)});
    }
    if dice.chance(10) {
        response["desired"]["composite"] = json!({"resource": {"status": {"ignored": true}}});
    }
    if dice.chance(10) {
        response["conditions"] =
            json!([{"type": "Ignored", "status": "STATUS_CONDITION_TRUE", "reason": "x"}]);
    }
    response
}

/// An object that an operation can apply: it has a name, and a namespace if its kind needs one.
fn desired(dice: &mut Dice, key: &str) -> Value {
    let name = format!("n{}", KEYS.iter().position(|it| *it == key).unwrap_or_default());
    let mut object = match dice.below(3) {
        0 => {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}, "data": {"k": null, "v": "1"}})
        }
        1 => json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        _ => {
            json!({"apiVersion": "example.org/v1alpha1", "kind": "Plan", "metadata": {"name": name}, "spec": values_object(dice)})
        }
    };
    if dice.chance(20) {
        object["metadata"]["labels"] = json!({"team": "blue"});
    }
    object
}

fn parent(dice: &mut Dice, kind: &str, spec_of_kind: &Value) -> Value {
    let mut template = json!({"spec": spec(dice)});
    if dice.chance(50) {
        template["metadata"] = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
    }
    let mut spec = spec_of_kind.clone();
    spec["operationTemplate"] = template;
    json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata(dice, "parent"), "spec": spec})
}

fn watch(dice: &mut Dice) -> Value {
    let (api_version, kind, is_namespaced) = dice.pick(&[
        ("v1", "Pod", true),
        ("apps/v1", "Deployment", true),
        ("v1", "Namespace", false),
        ("example.org/v1", "Thing", false),
    ]);
    let mut metadata = json!({"name": "watched", "resourceVersion": (1 + dice.below(1000)).to_string()});
    if is_namespaced {
        metadata["namespace"] = "team".into();
    }
    if dice.chance(70) {
        metadata["uid"] = "u-1".into();
    }
    if dice.chance(25) {
        metadata["deletionTimestamp"] = "2023-01-01T00:00:00Z".into();
    }
    let mut selection = json!({"watch": {"apiVersion": api_version, "kind": kind}});
    if dice.chance(40) {
        metadata["labels"] = json!({"team": "blue", "size": "small"});
        selection["watch"]["matchLabels"] = json!({"team": "blue"});
    }
    if dice.chance(10) {
        // What stands for an object that is gone.
        metadata["resourceVersion"] = "ops.crossplane.io/synthetic-deleted".into();
        metadata["deletionTimestamp"] = "2023-01-01T00:00:00Z".into();
    }
    let watched = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"size": 1}});
    json!({"parent": parent(dice, "WatchOperation", &selection), "watched": watched})
}

/// As it goes over the wire, with every function served at this address.
pub(super) fn input(kind: Kind, json: &Value, address: &str) -> Input {
    let objects = |field: &str| list(&json[field]).iter().map(structure).collect::<Vec<_>>();
    match kind {
        Kind::Operation => {
            let functions = list(&json["functions"]).iter().map(|name| FunctionInput {
                name: name.as_str().unwrap_or_default().to_owned(),
                address: address.to_owned(),
            });
            Input::Operation(OperationInput {
                operation: Some(structure(&json["operation"])),
                functions: functions.collect(),
                required_resources: objects("requiredResources"),
                credentials: objects("credentials"),
                required_schemas: objects("requiredSchemas"),
            })
        }
        Kind::Cron => {
            let mut input =
                CronOperationInput { cron_operation: Some(structure(&json["parent"])), scheduled_time: None };
            input.scheduled_time.get_or_insert_default().seconds = json["time"].as_i64().unwrap_or_default();
            Input::CronOperation(input)
        }
        Kind::Watch => Input::WatchOperation(WatchOperationInput {
            watch_operation: Some(structure(&json["parent"])),
            watched_resource: Some(structure(&json["watched"])),
        }),
    }
}

fn structure(value: &Value) -> Struct {
    Struct::try_from(value.as_object().cloned().unwrap_or_default()).expect("a generated object is one")
}
