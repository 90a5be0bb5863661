//! `function-auto-ready`: composed resources of every kind it knows, in every state.

mod objects;

use serde_json::{Map, Value, json};

use super::{Corpus, Difference, INVALID_INPUT, adds_nothing, as_it_is, never, no_files};
use crate::dice::Dice;

pub(super) const CORPUS: Corpus = Corpus {
    function: "function-auto-ready",
    generate,
    adapt: as_it_is,
    asks_formerly: never,
    files: no_files,
    by_hand,
    without_additions: adds_nothing,
    deliberate,
};

fn generate(dice: &mut Dice) -> Value {
    let mut desired = Map::new();
    let mut observed = Map::new();
    for index in 0..dice.below(8) {
        let name = format!("resource-{index}");
        if dice.chance(92) {
            desired.insert(name.clone(), desired_resource(dice));
        }
        if dice.chance(90) {
            observed.insert(name, json!({"resource": objects::observed(dice)}));
        }
    }
    let mut request = json!({
        "meta": {"tag": "tag"},
        "observed": {"composite": {"resource": {"apiVersion": "example.org/v1", "kind": "XR"}}, "resources": observed},
        "desired": {"resources": desired},
    });
    if dice.chance(30) {
        request["desired"]["composite"] = json!({"resource": {"status": {"a": 1}}, "ready": "READY_FALSE"});
    }
    if dice.chance(3) {
        request["desired"] = Value::Null;
    }
    if dice.chance(40) {
        request["context"] = context(dice);
    }
    if dice.chance(60) {
        request["input"] = input(dice);
    }
    request
}

fn desired_resource(dice: &mut Dice) -> Value {
    let mut resource = json!({"resource": {"apiVersion": "example.org/v1", "kind": "Thing", "spec": {"size": dice.below(9)}}});
    match dice.below(10) {
        0 => resource["ready"] = json!("READY_TRUE"),
        1 => resource["ready"] = json!("READY_FALSE"),
        2 => resource["ready"] = json!("READY_UNSPECIFIED"),
        3 => resource["connectionDetails"] = json!({"password": "c2VjcmV0"}),
        _ => {}
    }
    if dice.chance(3) {
        resource["resource"] = Value::Null;
    }
    resource
}

fn context(dice: &mut Dice) -> Value {
    json!({
        "plain": {"example.org_v1_Thing": expression(dice), "number": 1},
        "deep": {"a.b": {"checks": {"_v1_ConfigMap": expression(dice)}}},
        "text": "none",
    })
}

fn input(dice: &mut Dice) -> Value {
    let mut input = json!({"apiVersion": "autoready.fn.crossplane.io/v1beta1", "kind": "Input"});
    match dice.below(15) {
        0..3 => {
            input["ttl"] =
                json!(dice.pick(&["1m", "90s", "0", "1h2m3.5s", "-5ms", "100us", "", "2540400h10m10s"]));
        }
        3 => input["ttl"] = json!(dice.pick(&["5", "abc", "1d", "1 m", "9999999999h", ".", "-", "1m\u{e9}"])),
        4 => input[*dice.pick(&["unknown", "TTL", "celHealthCheckCustomisation"])] = json!("1m"),
        5 => input["ttl"] = dice.pick(&[json!(5), json!(true), json!({}), json!([])]).clone(),
        6 => input["ttl"] = Value::Null,
        7 => input["metadata"] = json!({"name": "settings"}),
        8..14 => customize(dice, &mut input),
        _ => {}
    }
    input
}

fn customize(dice: &mut Dice, input: &mut Value) {
    let from =
        dice.pick(&["plain", "deep[a.b].checks", "deep.a.b.checks", "nowhere", "text", "[plain]", "..", ""]);
    let has_from = dice.chance(40);
    if has_from {
        input["celHealthCheckCustomizationFrom"] = json!(from);
    }
    // With both, the original crashes if it finds nothing in the context.
    if !has_from {
        let kinds = [
            "example.org_v1_Thing",
            "_v1_ConfigMap",
            "_v1_Pod",
            "apps_v1_Deployment",
            "batch_v1_Job",
            "__",
            "v1_Pod",
        ];
        let checks: Map<_, _> =
            kinds.iter().map(|kind| ((*kind).to_owned(), expression(dice).into())).collect();
        input["celHealthCheckCustomization"] = checks.into();
    }
}

fn expression(dice: &mut Dice) -> &'static str {
    let expressions = [
        "true",
        "false",
        "object.kind == 'Thing'",
        "has(object.status) && has(object.status.phase) && object.status.phase == 'Bound'",
        "object.metadata.name.startsWith('thing')",
        "size(object.metadata.name) > 3",
        "has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
        "object.status.conditions.all(c, c.status == 'True')",
        "has(object.spec) && has(object.spec.replicas) && object.spec.replicas == 3.0",
        "object.spec.replicas == 3",
        "object.spec.replicas > 1",
        "object.status.phase",
        "object.status.ready == true",
        "'text'",
        "1",
        "object.",
        "nothing == 1",
        "has(object.status) ? has(object.status.phase) : false",
        "object.metadata.name.matches('^th')",
        "object.kind.matches('(')",
        "object.metadata.generation >= 1.0",
        "object.apiVersion in ['v1', 'example.org/v1']",
        "size(object) > 2",
        "type(object.spec.replicas) == double",
        "1 == 'a'",
        "",
    ];
    expressions[dice.below(expressions.len())]
}

fn by_hand() -> Vec<(&'static str, Value)> {
    objects::by_hand().into_iter().map(|(name, object)| (name, of_one(&object))).collect()
}

/// A request with one resource that exists.
fn of_one(object: &Value) -> Value {
    json!({
        "observed": {"resources": {"it": {"resource": object}}},
        "desired": {"resources": {"it": {"resource": {"kind": "It"}}}},
    })
}

fn deliberate(difference: &Difference<'_>) -> Option<&'static str> {
    if is_about_input(difference) {
        return Some(INVALID_INPUT);
    }
    if difference.version.starts_with("v0.2.")
        && difference.request.to_string().contains(r#""observedGeneration":1.5"#)
    {
        return Some("an observedGeneration that is not an integer is invalid, as in later releases");
    }
    if is_about_syntax(difference) {
        return Some(SYNTAX);
    }
    if is_about_literal(difference) {
        return Some(LITERAL);
    }
    if is_about_order(difference) {
        return Some("warnings are in the order of the resources' names");
    }
    let customizes = ["celHealthCheckCustomization", "celHealthCheckCustomizationFrom"]
        .iter()
        .any(|field| !difference.request["input"][field].is_null());
    if customizes
        && !difference.version.ends_with("cel")
        && without_verdicts(difference.theirs) == without_verdicts(difference.ours)
    {
        return Some("health checks in CEL need no feature gate");
    }
    None
}

/// Whether both say the same, in another order.
fn is_about_order(difference: &Difference<'_>) -> bool {
    sorted(difference.theirs.clone()) == sorted(difference.ours.clone())
}

fn sorted(mut answer: Value) -> Value {
    if let Some(results) = answer.get_mut("results").and_then(Value::as_array_mut) {
        results.sort_by_key(Value::to_string);
    }
    answer
}

/// Whether both stop because of the input, with different messages.
pub(super) fn is_about_input(difference: &Difference<'_>) -> bool {
    let only = |answer: &Value| {
        let results = answer["results"].as_array()?;
        let [result] = results.as_slice() else { return None };
        (result["severity"] == "SEVERITY_FATAL").then(|| result["message"].as_str().map(str::to_owned))?
    };
    let (Some(theirs), Some(ours)) = (only(difference.theirs), only(difference.ours)) else { return false };
    let mut same = difference.theirs.clone();
    same["results"][0]["message"] = ours.clone().into();
    same == *difference.ours
        && theirs.contains("cannot unmarshal JSON from *structpb.Struct into *v1beta1.Input")
        && ours.starts_with("cannot get Function input: ")
}

fn without_verdicts(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(answer) = answer.as_object_mut() {
        answer.remove("results");
    }
    for resource in answer["desired"]["resources"].as_object_mut().into_iter().flatten() {
        if let Some(resource) = resource.1.as_object_mut() {
            resource.remove("ready");
        }
    }
    answer
}

pub(super) const SYNTAX: &str =
    "a syntax error in CEL is reported at the same position, with the message of our parser";
pub(super) const LITERAL: &str =
    "invalid literals of patterns, times and durations in CEL are reported before the evaluation";

/// Whether ours refuses an expression for a literal that theirs fails on when it gets there.
pub(super) fn is_about_literal(difference: &Difference<'_>) -> bool {
    let says = |answer: &Value, words: &[&str]| {
        let results = answer.get("results").and_then(Value::as_array);
        let mut messages = results.into_iter().flatten().filter_map(|result| result["message"].as_str());
        messages.any(|message| words.iter().any(|word| message.contains(word)))
    };
    says(
        difference.ours,
        &["invalid matches argument", "invalid duration argument", "invalid timestamp argument"],
    ) && says(difference.theirs, &["cannot evaluate CEL condition: ", "failed to eval the program: "])
}

/// Whether the answers are the same but for how they word syntax errors. An error at the end of the text is one
/// column apart if there is no text.
pub(super) fn is_about_syntax(difference: &Difference<'_>) -> bool {
    let unworded = |answer: &Value| {
        let mut answer = answer.clone();
        for result in answer.get_mut("results").and_then(Value::as_array_mut).into_iter().flatten() {
            let message = result["message"].as_str().unwrap_or_default();
            if let Some((place, _)) = message.split_once(": Syntax error: ") {
                result["message"] = place.replace("<input>:1:0", "<input>:1:1").into();
            }
        }
        answer
    };
    sorted(unworded(difference.theirs)) == sorted(unworded(difference.ours))
}
