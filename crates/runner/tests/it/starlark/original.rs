//! Scripts answer as with the community's `function-starlark`, except where a case says why not.
//!
//! The original cannot be a peer: its module is not on the module proxy of Go. Its answers to these cases were compared with ours once, on a
//! machine that had its source (0.10.0, commit 8812579, November 2026). What both said alike is in `original.json`, and with `differs` what
//! ours says alone.
//!
//! Not compared: the words of messages, the original's events after each success and about the order of creation, its default time to
//! live, its label with the name of the resource, and Usages. ADR 35 says how those differ.

use serde_json::{Map, Value, json};

use super::{answer, source};

const CASES: &str = include_str!("original.json");

#[test]
fn scripts_answer_as_with_the_original() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let mut wrong = Vec::new();
    for case in cases["cases"].as_array().unwrap() {
        let Some(response) = answer(input(case), request(case, &cases["composite"])) else { return };
        let (found, expected) = (compared(&response), rounded(&case["answer"]));
        if found != expected {
            wrong.push(format!("{}\n  expected {expected}\n  found    {found}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_case_has_a_name_of_its_own() {
    let cases: Value = serde_json::from_str(CASES).unwrap();
    let cases = cases["cases"].as_array().unwrap();
    let names = cases.iter().map(|case| case["name"].as_str().unwrap());
    assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), cases.len());
}

fn text(lines: &Value) -> String {
    let lines = lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

fn input(case: &Value) -> Value {
    let mut input = source(&text(&case["source"]));
    if let Some(modules) = case["modules"].as_object() {
        let modules = modules.iter().map(|(name, lines)| (name.clone(), text(lines).into()));
        input["spec"]["modules"] = Value::Object(modules.collect());
    }
    input
}

fn request(case: &Value, composite: &Value) -> Value {
    let mut request =
        json!({"meta": {"tag": "t"}, "observed": {"composite": {"resource": composite}}, "desired": {}});
    for (field, value) in case["request"].as_object().into_iter().flatten() {
        match field.as_str() {
            "observed" => request["observed"]["resources"] = value.clone(),
            field => request[field] = value.clone(),
        }
    }
    request
}

/// What of a response is compared.
fn compared(response: &Value) -> Value {
    let list = |field: &str| response[field].as_array().cloned().unwrap_or_default();
    let is_fatal = |result: &Value| result["severity"] == "SEVERITY_FATAL";
    let has_said_more = !list("conditions").is_empty() || list("results").len() > 1;
    if list("results").iter().any(is_fatal) && !has_said_more {
        return json!({"fatal": true});
    }
    let mut response = rounded(response);
    response["results"] =
        list("results").iter().map(|it| json!({"severity": it["severity"], "target": target(it)})).collect();
    response["conditions"] = list("conditions").into_iter().map(condition).collect();
    if let Some(meta) = response["meta"].as_object_mut() {
        meta.remove("tag");
    }
    if let Some(resources) = response["desired"]["resources"].as_object_mut() {
        let is_usage = |kind: &Value| kind == "Usage" || kind == "ClusterUsage";
        resources.retain(|_, resource| !is_usage(&resource["resource"]["kind"]));
    }
    drop_empty(&mut response["desired"]["composite"]);
    drop_empty(&mut response["desired"]);
    drop_empty(&mut response);
    response
}

fn condition(mut condition: Value) -> Value {
    condition["target"] = target(&condition);
    if let Some(fields) = condition.as_object_mut() {
        fields.remove("message");
    }
    condition
}

/// Who is told. Nothing means the composite resource.
fn target(said: &Value) -> Value {
    let is_set = said["target"].as_str().is_some_and(|target| target != "TARGET_UNSPECIFIED");
    if is_set { said["target"].clone() } else { "TARGET_COMPOSITE".into() }
}

/// Removes what is there, but empty.
fn drop_empty(value: &mut Value) {
    let is_empty = |value: &Value| {
        value.is_null()
            || value.as_object().is_some_and(Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty)
    };
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !is_empty(field));
    }
}

/// With all numbers as doubles, as on the wire.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, field)| (name.clone(), rounded(field))).collect())
        }
        other => other.clone(),
    }
}
