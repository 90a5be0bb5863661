//! Compiles Compositions that list resources, or functions beside them, to pipelines of built-in functions.
//!
//! Defaults of the old form are made explicit here, so that the functions need to know only the new one.

mod former;

use std::borrow::Cow;

use ferroplane_api::{CompositionSpec, FunctionRef, Mode, Object, Step};
use serde_json::{Map, Value, json};

use crate::external::alpha_steps;
pub(crate) use former::check_patches;
pub use former::{IneffectiveField, ineffective_fields};

/// The step that a Composition without steps becomes, and the function that it calls.
pub const RESOURCES_STEP: (&str, &str) = ("patch-and-transform", "function-patch-and-transform");
const ENVIRONMENT_STEP: (&str, &str) = ("environment-configs", "function-environment-configs");
/// The key of the environment in the context.
const ENVIRONMENT: &str = "apiextensions.crossplane.io/environment";

/// The steps of a composition, in any of its forms.
pub fn to_pipeline(spec: &CompositionSpec) -> Cow<'_, [Step]> {
    match spec.mode() {
        Mode::Pipeline if spec.functions.is_empty() => Cow::Borrowed(&spec.pipeline),
        Mode::Pipeline => Cow::Owned(spec.pipeline.iter().cloned().chain(alpha_steps(spec)).collect()),
        Mode::Resources => {
            let steps = environment_step(spec).into_iter().chain([resources_step(spec)]);
            Cow::Owned(steps.chain(alpha_steps(spec)).collect())
        }
    }
}

/// The step that collects the environment, if the composition has one.
fn environment_step(spec: &CompositionSpec) -> Option<Step> {
    let environment = spec.environment.as_ref()?;
    let configs = environment.get("environmentConfigs").and_then(Value::as_array);
    if configs.is_none_or(Vec::is_empty) {
        // Without EnvironmentConfigs the function does nothing at all, but Crossplane 1 used the default data.
        return environment.get("defaultData").and_then(Value::as_object).map(default_environment_step);
    }
    let collected: Object = ["environmentConfigs", "defaultData", "policy"]
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), environment.get(field)?.clone())))
        .collect();
    // `environment` with patches alone needs no step of its own.
    let input = Map::from_iter([
        ("apiVersion".to_owned(), "environmentconfigs.fn.crossplane.io/v1beta1".into()),
        ("kind".to_owned(), "Input".into()),
        ("spec".to_owned(), Value::Object(collected)),
    ]);
    Some(step(ENVIRONMENT_STEP, input))
}

/// A step that makes an environment of default data only.
fn default_environment_step(data: &Object) -> Step {
    let mut environment = data.clone();
    environment.entry("apiVersion").or_insert_with(|| "internal.crossplane.io/v1alpha1".into());
    environment.entry("kind").or_insert_with(|| "Environment".into());
    let input = Map::from_iter([
        ("apiVersion".to_owned(), "dummy.fn.crossplane.io/v1beta1".into()),
        ("kind".to_owned(), "Response".into()),
        ("response".to_owned(), json!({"context": {ENVIRONMENT: environment}})),
    ]);
    step((ENVIRONMENT_STEP.0, "function-dummy"), input)
}

fn resources_step(spec: &CompositionSpec) -> Step {
    let resources =
        spec.resources.iter().enumerate().map(|(index, resource)| modern_resource(index, resource));
    let patch_sets = spec.patch_sets.iter().cloned().map(modern_patches);
    let mut input = Map::from_iter([
        ("apiVersion".to_owned(), "pt.fn.crossplane.io/v1beta1".into()),
        ("kind".to_owned(), "Resources".into()),
        ("resources".to_owned(), resources.map(Value::Object).collect()),
    ]);
    if !spec.patch_sets.is_empty() {
        input.insert("patchSets".to_owned(), patch_sets.map(Value::Object).collect());
    }
    if let Some(patches) = spec.environment.as_ref().and_then(|environment| environment.get("patches")) {
        let environment = Map::from_iter([("patches".to_owned(), patches.clone())]);
        input.insert("environment".to_owned(), Value::Object(modern_patches(environment)));
    }
    step(RESOURCES_STEP, input)
}

fn step((name, function): (&str, &str), input: Object) -> Step {
    Step {
        step: name.to_owned(),
        function_ref: FunctionRef { name: function.to_owned(), version: None },
        function_revision_ref: None,
        function_revision_selector: None,
        input: Some(input),
        input_ref: None,
        credentials: Vec::new(),
        requirements: None,
    }
}

/// Add a name, which the old form does not require.
fn modern_resource(index: usize, resource: &Object) -> Object {
    let mut resource = modern_patches(resource.clone());
    // The position is all there is. Inserting an unnamed resource renames those behind it, as it did in Crossplane
    // 1.
    resource.entry("name").or_insert_with(|| format!("resource-{index}").into());
    for detail in items(&mut resource, "connectionDetails") {
        modernise_connection_detail(detail);
    }
    resource
}

fn modern_patches(mut owner: Object) -> Object {
    for patch in items(&mut owner, "patches") {
        if let Some(policy) = patch.get_mut("policy").and_then(Value::as_object_mut) {
            modernise_policy(policy);
        }
        for transform in items(patch, "transforms") {
            modernise_transform(transform);
        }
    }
    owner
}

/// Add the type of a transform, which the old form infers.
fn modernise_transform(transform: &mut Object) {
    for (kind, default) in [("string", "Format"), ("math", "Multiply")] {
        if let Some(settings) = transform.get_mut(kind).and_then(Value::as_object_mut) {
            settings.entry("type").or_insert_with(|| default.into());
        }
    }
    if let Some(settings) = transform.get_mut("match").and_then(Value::as_object_mut) {
        for pattern in items(settings, "patterns") {
            pattern.entry("type").or_insert_with(|| "literal".into());
        }
    }
}

/// Replace the two switches of the old form by the name of their combination.
fn modernise_policy(policy: &mut Object) {
    let Some(options) = policy.remove("mergeOptions") else { return };
    let is_set = |option: &str| options.get(option).and_then(Value::as_bool).unwrap_or_default();
    let name = match (is_set("keepMapValues"), is_set("appendSlice")) {
        (false, false) => "ForceMergeObjects",
        (false, true) => "ForceMergeObjectsAppendArrays",
        (true, false) => "MergeObjects",
        (true, true) => "MergeObjectsAppendArrays",
    };
    if options.is_object() {
        policy.entry("toFieldPath").or_insert_with(|| json!(name));
    }
}

/// Add the type and the name of a connection detail, which the old form infers from its fields and its key.
fn modernise_connection_detail(detail: &mut Object) {
    let has = |field: &str| detail.get(field).is_some_and(|value| !value.is_null());
    // In the order in which Crossplane 1 guessed: a detail with several fields has the first type.
    let guess = ["Value", "FromConnectionSecretKey", "FromFieldPath"].into_iter().find(|kind| {
        let mut field = (*kind).to_owned();
        field[..1].make_ascii_lowercase();
        has(&field)
    });
    if let Some(kind) = guess.filter(|_| !has("type")) {
        let kind = if kind == "Value" { "FromValue" } else { kind };
        detail.insert("type".to_owned(), kind.into());
    }
    if let Some(key) = detail.get("fromConnectionSecretKey").filter(|key| key.is_string()).cloned() {
        detail.entry("name").or_insert(key);
    }
}

fn items<'o>(owner: &'o mut Object, field: &str) -> impl Iterator<Item = &'o mut Object> {
    owner.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(mut spec: Value) -> Vec<Step> {
        spec["compositeTypeRef"] = json!({"apiVersion": "example.org/v1", "kind": "XR"});
        to_pipeline(&serde_json::from_value(spec).unwrap()).into_owned()
    }

    fn input(spec: Value) -> Value {
        let [only] = <[Step; 1]>::try_from(steps(spec)).unwrap();
        assert_eq!(only.function_ref.name, "function-patch-and-transform");
        Value::Object(only.input.unwrap())
    }

    #[test]
    fn resources_are_the_default_mode_where_there_are_resources() {
        let input = input(json!({"resources": [{"name": "a", "base": {"kind": "A"}}]}));
        assert_eq!(input["kind"], "Resources");
        assert_eq!(input["resources"], json!([{"name": "a", "base": {"kind": "A"}}]));
        assert!(steps(json!({})).is_empty());
    }

    #[test]
    fn pipeline_mode_ignores_resources() {
        let pipeline = json!([{"step": "s", "functionRef": {"name": "f"}}]);
        let steps = steps(json!({"mode": "Pipeline", "pipeline": pipeline, "resources": [{"base": {}}]}));
        assert_eq!(steps[0].function_ref.name, "f");
    }

    #[test]
    fn what_the_old_form_leaves_out_is_said() {
        let input = input(json!({"mode": "Resources", "resources": [{"base": {}, "connectionDetails": [
            {"fromConnectionSecretKey": "user"}, {"name": "url", "fromFieldPath": "status.url"},
            {"name": "port", "value": "5432"}, {"name": "x", "type": "FromValue", "value": "y"},
        ]}]}));
        assert_eq!(
            input["resources"],
            json!([{"name": "resource-0", "base": {}, "connectionDetails": [
                {"name": "user", "type": "FromConnectionSecretKey", "fromConnectionSecretKey": "user"},
                {"name": "url", "type": "FromFieldPath", "fromFieldPath": "status.url"},
                {"name": "port", "type": "FromValue", "value": "5432"},
                {"name": "x", "type": "FromValue", "value": "y"},
            ]}])
        );
    }

    #[test]
    fn transforms_that_do_not_say_what_they_are_mean_what_they_always_did() {
        let transforms = json!([
            {"type": "string", "string": {"fmt": "%s"}}, {"type": "math", "math": {"multiply": 2}},
            {"type": "match", "match": {"patterns": [{"literal": "a", "result": 1}, {"type": "regexp", "regexp": "b"}]}},
            {"type": "math", "math": {"type": "ClampMin", "clampMin": 1}},
        ]);
        let input = input(json!({"resources": [{"name": "a", "patches": [{"transforms": transforms}]}]}));
        let transforms = &input["resources"][0]["patches"][0]["transforms"];
        assert_eq!(transforms[0]["string"]["type"], "Format");
        assert_eq!(transforms[1]["math"]["type"], "Multiply");
        assert_eq!(transforms[2]["match"]["patterns"][0]["type"], "literal");
        assert_eq!(transforms[2]["match"]["patterns"][1]["type"], "regexp");
        assert_eq!(transforms[3]["math"]["type"], "ClampMin");
    }

    #[test]
    fn merge_options_become_policies() {
        let patch = |options: Value| json!({"patches": [{"policy": {"mergeOptions": options}}]});
        let input = input(json!({"resources": [{"name": "a"}], "patchSets": [
            patch(json!({})), patch(json!({"keepMapValues": true})), patch(json!({"appendSlice": true})),
            patch(json!({"appendSlice": true, "keepMapValues": true})),
        ]}));
        let policies: Vec<_> = input["patchSets"].as_array().unwrap().iter().collect();
        let policies: Vec<_> =
            policies.iter().map(|set| &set["patches"][0]["policy"]["toFieldPath"]).collect();
        let expected = [
            "ForceMergeObjects",
            "MergeObjects",
            "ForceMergeObjectsAppendArrays",
            "MergeObjectsAppendArrays",
        ];
        assert_eq!(policies, expected);
    }

    #[test]
    fn environment_is_collected_first() {
        let steps = steps(json!({"resources": [{"name": "a"}], "environment": {
            "environmentConfigs": [{"type": "Reference", "ref": {"name": "e"}}], "patches": [{"fromFieldPath": "x"}],
        }}));
        assert_eq!(steps[0].function_ref.name, "function-environment-configs");
        assert_eq!(steps[0].input.as_ref().unwrap()["spec"]["environmentConfigs"][0]["ref"]["name"], "e");
        assert_eq!(
            steps[1].input.as_ref().unwrap()["environment"],
            json!({"patches": [{"fromFieldPath": "x"}]})
        );
    }

    #[test]
    fn default_data_alone_is_the_environment() {
        let steps =
            steps(json!({"resources": [{"name": "a"}], "environment": {"defaultData": {"region": "eu"}}}));
        assert_eq!(steps[0].function_ref.name, "function-dummy");
        let environment = &steps[0].input.as_ref().unwrap()["response"]["context"][ENVIRONMENT];
        assert_eq!(environment["region"], "eu");
        assert_eq!(environment["kind"], "Environment");
        assert_eq!(steps[1].function_ref.name, "function-patch-and-transform");
    }
}
