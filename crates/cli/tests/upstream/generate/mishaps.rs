//! What may go wrong, or come out odd: with functions, with what they want, with what is there.

use serde_json::{Map, Value, json};

use super::{API_VERSION, KIND, NAMESPACE, Setting};
use crate::case::list;
use crate::dice::Dice;

type Mishap = fn(&mut Dice, &Setting, &mut Value);

/// What can happen. What matters most stands there more than once.
const MISHAPS: &[Mishap] = &[
    grpc_error,
    garbled_answer,
    unlisted_function,
    unsettled_function,
    unknown_numbers,
    unknown_numbers,
    name,
    name,
    foreign_controller,
    missing_type,
    same_object,
    other_kind,
    other_kind,
    other_version,
    not_an_object,
    odd_metadata,
    odd_status,
    odd_conditions,
    odd_xr,
    annotated_xr,
    observed_odd,
    observed_twice,
    secret,
    other_composition,
    other_definition,
];

/// Let one thing go wrong.
pub(super) fn happen(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    dice.pick(MISHAPS)(dice, setting, case);
}

/// A step, any of them.
fn step<'a>(dice: &mut Dice, case: &'a mut Value) -> &'a mut Value {
    let steps = case["composition"]["spec"]["pipeline"].as_array_mut().expect("a pipeline has steps");
    let index = dice.below(steps.len());
    &mut steps[index]
}

/// What a function wants, any of it.
fn desired<'a>(dice: &mut Dice, setting: &Setting, case: &'a mut Value) -> &'a mut Value {
    let key = setting.keys.first().copied().unwrap_or("a");
    let fresh = setting.desired(dice, key);
    let resources = &mut step(dice, case)["input"]["response"]["desired"]["resources"];
    if resources.as_object().is_none_or(Map::is_empty) {
        *resources = json!({ key: fresh });
    }
    let resources = resources.as_object_mut().expect("it was made one");
    let index = dice.below(resources.len());
    resources.values_mut().nth(index).expect("it is one of them")
}

/// The metadata of what a function wants. It wants it by name of its own, not the one of something observed.
fn metadata<'a>(dice: &mut Dice, setting: &Setting, case: &'a mut Value) -> &'a mut Value {
    let metadata = &mut desired(dice, setting, case)["resource"]["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

/// A function says that all is lost.
pub(super) fn fatal_result(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let results = &mut step(dice, case)["input"]["response"]["results"];
    let message = dice.pick(&["all is lost", "grüße: verloren", ""]);
    push(results, json!({"severity": "SEVERITY_FATAL", "message": message, "reason": "Lost"}));
    if dice.chance(50) {
        push(results, json!({"severity": "SEVERITY_NORMAL", "message": "said after the end"}));
    }
}

fn grpc_error(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let input = &mut step(dice, case)["input"];
    input["error"] = dice.pick(&[2, 5, 8, 12, 13, 14]).into();
}

fn garbled_answer(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let place = dice.pick(&["context", "output", "composite", "resource"]);
    let with = dice.pick(&["not a number", "infinity", "not text", "no kind"]);
    step(dice, case)["input"]["garbled"] = json!({"place": place, "with": with});
}

fn unlisted_function(dice: &mut Dice, _: &Setting, case: &mut Value) {
    step(dice, case)["functionRef"]["name"] = "nobody".into();
}

fn unsettled_function(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let input = &mut step(dice, case)["input"];
    input["manner"] = dice.pick(&["restless", "onlyMissing"]).into();
}

/// Numbers of enums that nobody has named yet.
fn unknown_numbers(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let response = &mut step(dice, case)["input"]["response"];
    if dice.chance(50) {
        let result = json!({"severity": 7, "message": "from the future", "reason": "New", "target": dice.pick(&[1, 2, 9])});
        push(&mut response["results"], result);
    } else {
        let condition =
            json!({"type": dice.pick(&["Custom", "New"]), "status": 9, "reason": "New", "target": 9});
        push(&mut response["conditions"], condition);
    }
}

fn name(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let long = "x".repeat(254);
    let names =
        ["Upper", "under_score", "-x", "x-", "a..b", "system:node", ":", "a:.b", " ", &long, "x.y-z.0"];
    let name = dice.pick(&names);
    let metadata = metadata(dice, setting, case);
    metadata[dice.pick(&["name", "name", "generateName"])] = name.into();
}

fn foreign_controller(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let mut owner = setting.owner();
    owner["uid"] = dice.pick(&["someone-else".to_owned(), String::new(), setting.uid()]).into();
    if dice.chance(30) {
        owner["controller"] = dice.pick(&[json!(false), Value::Null, json!("true")]);
    }
    metadata(dice, setting, case)["ownerReferences"] = json!([owner]);
}

fn missing_type(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let field = dice.pick(&["apiVersion", "kind"]);
    let object = &mut desired(dice, setting, case)["resource"];
    match dice.below(3) {
        0 => object[field] = "".into(),
        1 => object[field] = Value::Null,
        _ => {
            object.as_object_mut().expect("it is an object").remove(field);
        }
    }
}

/// Two names for one object.
fn same_object(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let mut resource = setting.desired(dice, "a");
    resource["resource"]["metadata"] = json!({"name": "shared"});
    let resources = &mut step(dice, case)["input"]["response"]["desired"]["resources"];
    if !resources.is_object() {
        *resources = json!({});
    }
    resources["first of two"] = resource.clone();
    if dice.chance(30) {
        resource["resource"]["metadata"]["namespace"] = "elsewhere".into();
    }
    resources["second of two"] = resource;
}

/// What exists is of another kind than what is wanted under its name.
fn other_kind(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let Some(observed) = observed(dice, setting, case) else { return };
    let (api_version, kind) =
        dice.pick(&[("old.example.org/v1", "Thing"), ("s3.example.org/v1beta1", "Old"), ("v2", "Thing")]);
    observed["apiVersion"] = api_version.into();
    observed["kind"] = kind.into();
}

fn other_version(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let Some(observed) = observed(dice, setting, case) else { return };
    let version = observed["apiVersion"].as_str().unwrap_or_default();
    let group = version.rsplit_once('/').map_or(String::new(), |(group, _)| format!("{group}/"));
    observed["apiVersion"] = format!("{group}v0").into();
}

/// A resource that exists, any of them. If there is none, one that is wanted comes to exist.
fn observed<'a>(dice: &mut Dice, setting: &Setting, case: &'a mut Value) -> Option<&'a mut Value> {
    if list(&case["observedResources"]).is_empty() {
        let key = setting.keys.first()?;
        case["observedResources"] = json!([setting.observed_one(dice, key)]);
    }
    let observed = case["observedResources"].as_array_mut()?;
    let index = dice.below(observed.len());
    observed.get_mut(index)
}

fn not_an_object(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let desired = desired(dice, setting, case);
    match dice.below(3) {
        0 => *desired = json!({}),
        1 => desired["resource"] = json!({}),
        _ => desired["resource"] = Value::Null,
    }
}

fn odd_metadata(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let odd = dice.pick(&[
        json!(7),
        json!("text"),
        json!([]),
        json!({"number": 1}),
        json!({"null": null}),
        Value::Null,
    ]);
    let fields = ["labels", "annotations", "name", "generateName", "namespace", "ownerReferences", "uid"];
    let field = dice.pick(&fields);
    if dice.chance(20) {
        desired(dice, setting, case)["resource"]["metadata"] = odd;
    } else {
        metadata(dice, setting, case)[field] = odd;
    }
}

fn odd_status(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let composite = &mut step(dice, case)["input"]["response"]["desired"]["composite"];
    let odd = dice.pick(&[json!("text"), json!([]), json!({}), Value::Null, json!(7)]);
    *composite = if dice.chance(50) {
        json!({"resource": {"status": odd}})
    } else {
        json!({"resource": {"status": {"conditions": odd}}})
    };
}

/// Conditions that a function writes where it had better not.
fn odd_conditions(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let odd = [
        json!([{"type": "Custom"}]),
        json!([{"status": "True"}]),
        json!([{"type": "Custom", "status": "Maybe"}]),
        json!([{"type": "Custom", "status": "True", "extra": {"kept": "?"}}]),
        json!(["text"]),
        json!([null]),
        json!({}),
        json!("text"),
        Value::Null,
    ];
    let odd = dice.pick(&odd);
    let composite = &mut step(dice, case)["input"]["response"]["desired"]["composite"];
    *composite = json!({"resource": {"status": {"conditions": odd, "kept": true}}});
}

fn odd_xr(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let xr = &mut case["compositeResource"];
    match dice.below(3) {
        0 => xr["metadata"]["labels"] = json!({"crossplane.io/composite": ""}),
        1 => xr["metadata"]["generation"] = 0.into(),
        _ => xr["status"] = json!({}),
    }
}

/// Composite resources that are not to be composed now, or for a reason.
fn annotated_xr(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let metadata = &mut case["compositeResource"]["metadata"];
    match dice.below(4) {
        0 => metadata["annotations"] = json!({"crossplane.io/paused": "true"}),
        1 => metadata["annotations"] = json!({"crossplane.io/paused": dice.pick(&["false", "True", ""])}),
        2 => metadata["annotations"] = json!({"crossplane.io/reconcile-requested-at": "2020-01-01"}),
        _ => metadata["deletionTimestamp"] = "2020-01-01T00:00:00Z".into(),
    }
}

fn observed_odd(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let Some(observed) = observed(dice, setting, case) else { return };
    let metadata = &mut observed["metadata"];
    match dice.below(7) {
        0 => metadata["annotations"] = json!({}),
        1 => {
            metadata["ownerReferences"] = json!([{
                "apiVersion": API_VERSION, "kind": KIND, "name": "other", "uid": "someone-else", "controller": true
            }]);
        }
        2 => metadata["namespace"] = dice.pick(&["elsewhere", "", NAMESPACE]).into(),
        3 => metadata["name"] = "".into(),
        4 => metadata["finalizers"] = json!(["example.org/keep"]),
        5 => metadata["deletionTimestamp"] = "2020-01-01T00:00:00Z".into(),
        _ => metadata["name"] = "Not_Valid".into(),
    }
}

/// Two resources that claim to be the same one.
fn observed_twice(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let Some(observed) = observed(dice, setting, case) else { return };
    let mut twin = observed.clone();
    twin["metadata"]["name"] = dice.pick(&["a-twin", "z-twin"]).into();
    push(&mut case["observedResources"], twin);
}

fn secret(dice: &mut Dice, setting: &Setting, case: &mut Value) {
    let choices = [
        json!({"data": {"bad": "not base64!"}}),
        json!({"data": {"number": 1}}),
        json!({"stringData": {"token": "clear"}}),
        json!({"data": null}),
    ];
    let mut secret = dice.pick(&choices);
    secret["apiVersion"] = "v1".into();
    secret["kind"] = "Secret".into();
    secret["metadata"] = json!({"name": "odd", "namespace": "secrets", "ownerReferences": [setting.owner()]});
    push(&mut case["credentials"], secret);
    if dice.chance(20) {
        case["compositeResource"]["spec"]["writeConnectionSecretToRef"] =
            json!({"namespace": "secrets", "name": "odd"});
        return;
    }
    let secret_ref = json!({"namespace": "secrets", "name": dice.pick(&["odd", "odd", "odd", "missing"])});
    let step = step(dice, case);
    step["credentials"] = json!([{"name": "odd", "source": "Secret", "secretRef": secret_ref}]);
    step["input"]["echo"] = Value::Null;
}

fn other_composition(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let wanted = &mut case["composition"]["spec"]["compositeTypeRef"];
    wanted[dice.pick(&["apiVersion", "kind"])] = "example.org/v2".into();
}

fn other_definition(dice: &mut Dice, _: &Setting, case: &mut Value) {
    let definition = &mut case["compositeResourceDefinition"];
    if definition.is_null() {
        return;
    }
    match dice.below(4) {
        0 => definition["spec"]["group"] = "example.com".into(),
        1 => definition["spec"]["names"]["kind"] = "XOther".into(),
        2 => definition["apiVersion"] = "apiextensions.crossplane.io/v3".into(),
        _ => definition["spec"]["versions"] = json!([]),
    }
}
