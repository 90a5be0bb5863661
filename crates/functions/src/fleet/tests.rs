//! What functions for operations have in common, and what their tests need.

use ferroplane_wire::v1::RunFunctionRequest;
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use super::*;
use crate::Builtin;

/// A call of a function with this input, which brings these objects.
pub(crate) fn call(function: Builtin, input: &Value, brought: &[(&str, &[Value])]) -> Value {
    let lists = brought.iter().map(|(name, objects)| {
        let items: Vec<_> = objects.iter().map(|object| json!({ "resource": object })).collect();
        ((*name).to_owned(), json!({ "items": items }))
    });
    let required: serde_json::Map<_, _> = lists.collect();
    call_with(function, &json!({"input": input, "requiredResources": required}))
}

pub(crate) fn call_with(function: Builtin, request: &Value) -> Value {
    to_json(&function(&from_json::<RunFunctionRequest>(request).unwrap())).unwrap()
}

/// The severity and the text of the first result.
pub(crate) fn said(answer: &Value) -> (&str, &str) {
    let result = &answer["results"][0];
    (result["severity"].as_str().unwrap_or_default(), result["message"].as_str().unwrap_or_default())
}

/// What is wrong with an input, in the words of the function.
pub(crate) fn refusal(function: Builtin, input: &Value) -> String {
    let answer = call(function, input, &[]);
    let (severity, message) = said(&answer);
    assert_eq!(severity, "SEVERITY_FATAL", "{answer}");
    message.to_owned()
}

fn field(text: &str) -> Result<String, String> {
    changed_field("versionField", Some(text)).map(|path| path.text().to_owned())
}

#[test]
fn only_fields_that_can_be_applied_by_themselves_are_changed() {
    for text in
        ["spec.version", "data.version", "metadata.labels[example.org/version]", "metadata.annotations.v"]
    {
        assert_eq!(field(text), Ok(text.to_owned()));
    }
    for text in ["spec.list[0].version", "spec.list[*].version"] {
        assert!(field(text).unwrap_err().contains("versionField: leads into a list"), "{text}");
    }
    for text in ["kind", "status.version", "metadata", "metadata.name", "spec", ""] {
        assert!(field(text).unwrap_err().starts_with("invalid Function input: versionField: "), "{text}");
    }
}

#[test]
fn condition_about_an_older_generation_does_not_count() {
    let because = |condition: Value| {
        let object = json!({"metadata": {"generation": 2}, "status": {"conditions": [condition]}});
        unhealthy_because(object.as_object().unwrap(), &["Ready"])
    };
    let condition = |status: &str, generation: i64| json!({"type": "Ready", "status": status, "reason": "Broken", "observedGeneration": generation});
    assert_eq!(because(condition("True", 2)), None);
    assert_eq!(because(json!({"type": "Ready", "status": "True"})), None);
    assert_eq!(because(condition("True", 1)).as_deref(), Some("Ready is about an older generation"));
    assert_eq!(because(condition("False", 2)).as_deref(), Some("Ready is False: Broken"));
    assert_eq!(because(json!({"type": "Synced"})).as_deref(), Some("it has no condition Ready"));
}

#[test]
fn long_lists_are_cut() {
    assert_eq!(listed(&["a", "b"]), "a, b");
    assert_eq!(listed(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
}

#[test]
fn changes_of_one_object_by_several_steps_are_one() {
    let object = json!({"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "a", "namespace": "n", "uid": "u"}});
    let object = object.as_object().unwrap();
    let mut request = RunFunctionRequest::default();
    for path in ["spec.a", "spec.b"] {
        let mut changes = Changes::after(&request);
        changes.set(object, &Path::parse(path).unwrap(), json!(1)).unwrap();
        request.desired = Some(changes.into_state());
    }
    let request = to_json(&request).unwrap();
    let resources = request["desired"]["resources"].as_object().unwrap();
    assert_eq!(resources.len(), 1);
    assert_eq!(
        resources["App.example.org/n/a"]["resource"],
        json!({
            "apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": "a", "namespace": "n"}, "spec": {"a": 1, "b": 1},
        })
    );
}
