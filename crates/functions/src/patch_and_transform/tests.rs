//! Behaviour, through the function itself.

use std::time::Duration;

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{Struct, from_json, to_json};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::ENVIRONMENT;
use crate::effort::{Effort, TakesLong};

fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    super::run(request, Effort::Full(&|| Duration::ZERO)).unwrap()
}

fn answer(request: &Value) -> Value {
    to_json(&run(&from_json(request).unwrap())).unwrap()
}

fn xr() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "XDatabase",
        "metadata": {"name": "db", "namespace": "team", "labels": {"team": "a"}},
        "spec": {"size": 20, "region": "eu", "tags": ["x", "y"], "half": 0.5, "labels": {"a": "1", "b": "2"}}
    })
}

fn base() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Instance",
        "spec": {"size": 1, "tags": ["x"], "labels": {"a": "0"}, "many": [{"n": 1}, {"n": 2}]}
    })
}

/// An instance that is there, with a status.
fn instance() -> Value {
    json!({
        "resource": {
            "apiVersion": "example.org/v1", "kind": "Instance", "metadata": {"name": "db-x7f"},
            "status": {"address": "10.0.0.1", "replicas": 3, "conditions": [{"type": "Ready", "status": "True"}]}
        },
        "connectionDetails": {"user": "YWRtaW4="}
    })
}

/// A request to compose one instance of this template.
fn request(template: Value) -> Value {
    let mut whole = json!({"name": "instance", "base": base()});
    for (key, value) in object(template) {
        whole[key] = value;
    }
    json!({"observed": {"composite": {"resource": xr()}}, "input": {"resources": [whole]}})
}

/// The same, once the instance is there.
fn request_existing(template: Value) -> Value {
    let mut request = request(template);
    request["observed"]["resources"] = json!({"instance": instance()});
    request
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    object
}

/// What becomes of the instance with these patches.
fn patched(patches: &Value) -> Value {
    let answer = answer(&request(json!({ "patches": patches })));
    assert_eq!(answer.get("results"), None);
    answer["desired"]["resources"]["instance"]["resource"].clone()
}

/// What the one result says.
fn complaint(request: &Value) -> String {
    let answer = answer(request);
    let [result] = answer["results"].as_array().unwrap().as_slice() else { panic!("{answer}") };
    result["message"].as_str().unwrap().to_owned()
}

/// What becomes of a field of the composite resource, or what is said about it.
fn transformed(path: &str, transform: &Value) -> Result<Value, String> {
    let patches = json!([{"fromFieldPath": path, "toFieldPath": "spec.out", "transforms": [transform]}]);
    let answer = answer(&request(json!({ "patches": patches })));
    match answer["results"][0]["message"].as_str() {
        None => Ok(answer["desired"]["resources"]["instance"]["resource"]["spec"]["out"].clone()),
        Some(message) => {
            let start = "cannot render composed resource \"instance\" \"FromCompositeFieldPath\" patch at index 0: \
                         transform at index 0 returned error: ";
            Err(message.strip_prefix(start).unwrap_or(message).to_owned())
        }
    }
}

fn text(transform: &Value) -> Value {
    json!({"type": "string", "string": transform})
}

#[test]
fn value_is_copied_from_the_composite_resource() {
    let patches =
        json!([{"fromFieldPath": "spec.size"}, {"fromFieldPath": "spec.tags", "toFieldPath": "spec.a[1]"}]);
    let spec = patched(&patches)["spec"].clone();
    assert_eq!((&spec["size"], &spec["a"]), (&json!(20), &json!([null, ["x", "y"]])));
}

#[test]
fn whole_numbers_of_the_composite_resource_are_printed_as_such() {
    let combine = json!({"strategy": "string", "string": {"fmt": "%s-%v-%d"}, "variables": [
        {"fromFieldPath": "spec.region"}, {"fromFieldPath": "spec.half"}, {"fromFieldPath": "spec.size"}
    ]});
    let patch = json!([{"type": "CombineFromComposite", "toFieldPath": "spec.name", "combine": combine}]);
    assert_eq!(patched(&patch)["spec"]["name"], "eu-0.5-20");
}

#[test]
fn patch_from_a_missing_field_is_left_out() {
    assert_eq!(patched(&json!([{"fromFieldPath": "spec.no"}])), base());
}

#[test]
fn resource_waits_for_a_required_field() {
    let request =
        request(json!({"patches": [{"fromFieldPath": "spec.no", "policy": {"fromFieldPath": "Required"}}]}));
    let answer = answer(&request);
    assert_eq!(answer["desired"]["resources"], Value::Null);
    assert_eq!(answer["desired"]["composite"]["ready"], "READY_FALSE");
    let message = "not adding new composed resource \"instance\" to desired state because \"FromCompositeFieldPath\" \
                   patch at index 0 has 'policy.fromFieldPath: Required': spec.no: no such field";
    assert_eq!(complaint(&request), message);
}

#[test]
fn required_field_that_vanishes_keeps_what_exists() {
    let patches = json!([{"fromFieldPath": "spec.no", "policy": {"fromFieldPath": "Required"}}]);
    let request = request_existing(json!({ "patches": patches }));
    assert_eq!(
        answer(&request)["desired"]["resources"]["instance"]["resource"]["metadata"]["name"],
        "db-x7f"
    );
    assert!(complaint(&request).contains("because 'to' resource already exists: spec.no: no such field"));
}

#[test]
fn status_is_copied_to_the_composite_resource_once_there_is_one() {
    let patches = json!([{"type": "ToCompositeFieldPath", "fromFieldPath": "status.address"}]);
    let composite = |request: &Value| answer(request)["desired"]["composite"]["resource"].clone();
    let empty = json!({"apiVersion": "example.org/v1", "kind": "XDatabase"});
    assert_eq!(composite(&request(json!({"patches": patches}))), empty);
    assert_eq!(
        composite(&request_existing(json!({"patches": patches})))["status"],
        json!({"address": "10.0.0.1"})
    );
}

#[test]
fn policies_say_how_to_merge() {
    let merged = |field: &str, policy: &str| {
        let patch = json!([{"fromFieldPath": field, "policy": {"toFieldPath": policy}}]);
        patched(&patch)["spec"][&field["spec.".len()..]].clone()
    };
    assert_eq!(merged("spec.labels", "Replace"), json!({"a": "1", "b": "2"}));
    assert_eq!(merged("spec.labels", "MergeObjects"), json!({"a": "0", "b": "2"}));
    assert_eq!(merged("spec.labels", "ForceMergeObjects"), json!({"a": "1", "b": "2"}));
    assert_eq!(merged("spec.tags", "MergeObjects"), json!(["x"]));
    assert_eq!(merged("spec.tags", "ForceMergeObjectsAppendArrays"), json!(["x", "y"]));
    assert_eq!(merged("spec.tags", "AppendArray"), json!(["x", "y"]));
}

#[test]
fn wildcard_patches_every_item() {
    let spec =
        patched(&json!([{"fromFieldPath": "spec.region", "toFieldPath": "spec.many[*].n"}]))["spec"].clone();
    assert_eq!(spec["many"], json!([{"n": "eu"}, {"n": "eu"}]));
    let nothing =
        request(json!({"patches": [{"fromFieldPath": "spec.region", "toFieldPath": "spec.no[*].n"}]}));
    assert!(complaint(&nothing).ends_with("cannot expand ToFieldPath spec.no[*].n"));
}

#[test]
fn patch_set_stands_for_its_patches() {
    let mut request = request(json!({"patches": [{"type": "PatchSet", "patchSetName": "common"}]}));
    request["input"]["patchSets"] =
        json!([{"name": "common", "patches": [{"fromFieldPath": "spec.region"}]}]);
    assert_eq!(answer(&request)["desired"]["resources"]["instance"]["resource"]["spec"]["region"], "eu");
    request["input"]["patchSets"][0]["name"] = json!("other");
    assert_eq!(complaint(&request), "cannot resolve PatchSets: cannot find PatchSet by name common");
}

#[test]
fn environment_is_patched_before_resources_read_it() {
    let patches =
        json!([{"type": "FromEnvironmentFieldPath", "fromFieldPath": "zone", "toFieldPath": "spec.zone"}]);
    let mut request = request(json!({ "patches": patches }));
    let patch = json!({"fromFieldPath": "spec.region", "toFieldPath": "zone"});
    request["input"]["environment"] = json!({"patches": [patch]});
    request["context"] = json!({"other": 1});
    let answer = answer(&request);
    assert_eq!(answer["desired"]["resources"]["instance"]["resource"]["spec"]["zone"], "eu");
    let environment =
        json!({"apiVersion": "internal.crossplane.io/v1alpha1", "kind": "Environment", "zone": "eu"});
    assert_eq!(answer["context"], json!({"other": 1, ENVIRONMENT: environment}));
}

#[test]
fn transforms_change_values() {
    let map = json!({"type": "map", "map": {"eu": {"n": 1}}});
    assert_eq!(transformed("spec.region", &map), Ok(json!({"n": 1})));
    assert_eq!(
        transformed("metadata.name", &map),
        Err("map transform could not resolve: key db is not found in map".into())
    );
    let multiply = json!({"type": "math", "math": {"type": "Multiply", "multiply": 3}});
    assert_eq!(transformed("spec.half", &multiply), Ok(json!(1.5)));
    assert!(transformed("spec.region", &multiply).unwrap_err().ends_with("got string"));
    let regexp = text(&json!({"type": "Regexp", "regexp": {"match": "(e)(u)", "group": 2}}));
    assert_eq!(transformed("spec.region", &regexp), Ok(json!("u")));
    let join = text(&json!({"type": "Join", "join": {"separator": ","}}));
    assert_eq!(transformed("spec.tags", &join), Ok(json!("x,y")));
    let convert = json!({"type": "convert", "convert": {"toType": "string"}});
    assert_eq!(transformed("spec.size", &convert), Ok(json!("20")));
    let sha = text(&json!({"type": "Convert", "convert": "ToSha1"}));
    assert_eq!(transformed("spec.region", &sha), Ok(json!("608e01334f5575f10813efa40ce0102f2dc0a75e")));
}

#[test]
fn texts_that_grow_without_end_are_refused() {
    let replace = text(&json!({"type": "Replace", "replace": {"search": "e", "replace": "ee"}}));
    let transforms: Vec<_> = std::iter::repeat_n(replace, 60).collect();
    let request = request(json!({"patches": [{"fromFieldPath": "spec.region", "transforms": transforms}]}));
    assert!(complaint(&request).ends_with("the text is longer than 16 MiB"));
}

#[test]
fn resource_is_ready_when_its_checks_hold() {
    let ready = |checks: Value| {
        let answer = answer(&request_existing(json!({ "readinessChecks": checks })));
        assert_eq!(answer.get("results"), None);
        answer["desired"]["resources"]["instance"]["ready"] == "READY_TRUE"
    };
    assert!(ready(json!([])));
    assert!(ready(json!([{"type": "MatchInteger", "fieldPath": "status.replicas", "matchInteger": 3}])));
    assert!(ready(json!([{"type": "NonEmpty", "fieldPath": "status.address"}])));
    assert!(!ready(json!([{"type": "NonEmpty", "fieldPath": "status.no"}])));
    assert!(!ready(
        json!([{"type": "None"}, {"type": "MatchString", "fieldPath": "status.address", "matchString": "x"}])
    ));
}

#[test]
fn connection_details_are_collected() {
    let details = json!([
        {"name": "user", "type": "FromConnectionSecretKey", "fromConnectionSecretKey": "user"},
        {"name": "host", "type": "FromFieldPath", "fromFieldPath": "status.address"},
        {"name": "port", "type": "FromValue", "value": "5432"}
    ]);
    let mut request = request_existing(json!({ "connectionDetails": details }));
    let collected = json!({"user": "YWRtaW4=", "host": "MTAuMC4wLjE=", "port": "NTQzMg=="});
    assert_eq!(answer(&request)["desired"]["composite"]["connectionDetails"], collected);

    request["observed"]["composite"]["resource"]["spec"]["crossplane"] = json!({});
    let secret = &answer(&request)["desired"]["resources"]["db-connection-secret"];
    assert_eq!(secret["resource"]["metadata"], json!({"name": "db-connection", "namespace": "team"}));
    assert_eq!(secret["resource"]["data"], collected);
}

#[test]
fn mistakes_in_the_input_are_named() {
    let nameless = json!({"input": {"resources": [{"base": base()}]}});
    assert_eq!(
        complaint(&nameless),
        "invalid Function input: resources[0].name: Required value: name is required"
    );
    let patch = json!({"type": "FromSpace", "fromFieldPath": "a"});
    let unknown = "invalid Function input: resources[0].patches[0].type: Invalid value: \"FromSpace\": unknown patch type";
    assert_eq!(complaint(&request(json!({ "patches": [patch] }))), unknown);
    let empty =
        "invalid Function input: resources: Required value: resources or environment patches are required";
    assert_eq!(complaint(&json!({})), empty);
}

#[test]
fn patches_that_multiply_are_refused() {
    let patches: Vec<_> = (0..2000).map(|_| json!({"fromFieldPath": "spec"})).collect();
    let sets: Vec<_> = (0..2000).map(|_| json!({"type": "PatchSet", "patchSetName": "many"})).collect();
    let mut request = request(json!({ "patches": sets }));
    request["input"]["patchSets"] = json!([{"name": "many", "patches": patches}]);
    assert!(complaint(&request).contains("more than 100000 patches"));
}

/// A transform with so many expressions, of which four are too heavy together.
fn heavy_match(count: usize) -> Value {
    let heavy =
        |number: usize| json!({"type": "regexp", "regexp": format!(r"[\pL]{{200}}{number}"), "result": "x"});
    let patterns: Vec<_> = (0..count).map(heavy).collect();
    json!({"type": "match", "match": {"patterns": patterns, "fallbackTo": "Input"}})
}

#[test]
fn expressions_that_are_too_complex_together_are_refused() {
    assert_eq!(transformed("spec.region", &heavy_match(1)), Ok(json!("eu")));
    let text = text(&json!({"type": "Regexp", "regexp": {"match": r"[\pL]{200}"}}));
    let heavy = [heavy_match(2), text];
    let patch = json!({"fromFieldPath": "spec.region", "transforms": heavy});
    let problem = complaint(&request(json!({ "patches": [patch, patch] })));
    assert!(problem.starts_with("invalid Function input: resources[0].patches: regexp \"["), "{problem}");
    assert!(problem.contains("are too complex together"), "{problem}");
}

/// A request to match an expression of ten thousand states or more against so many bytes.
fn long_match(transform: &Value, length: usize) -> Value {
    let patch = json!({"fromFieldPath": "spec.region", "toFieldPath": "spec.out", "transforms": [transform]});
    let mut request = request(json!({ "patches": [patch] }));
    request["observed"]["composite"]["resource"]["spec"]["region"] = "-".repeat(length).into();
    request
}

fn heavy_transforms() -> [Value; 2] {
    let pattern = json!({"type": "regexp", "regexp": r"[\pL]{20}9", "result": "x"});
    let matching = json!({"type": "match", "match": {"patterns": [pattern], "fallbackTo": "Input"}});
    [matching, text(&json!({"type": "Regexp", "regexp": {"match": r"[\pL]{20}9|^-"}}))]
}

#[test]
fn expressions_are_not_matched_briefly_against_long_texts() {
    for transform in heavy_transforms() {
        let brief = |length| super::run(&from_json(&long_match(&transform, length)).unwrap(), Effort::Brief);
        assert_eq!(brief(10_000), Err(TakesLong), "{transform}");
        assert!(brief(20).unwrap().results.is_empty());
        assert_eq!(answer(&long_match(&transform, 10_000)).get("results"), None);
    }
}

#[test]
fn expressions_that_take_too_long_to_match_are_refused() {
    for transform in heavy_transforms() {
        let problem = complaint(&long_match(&transform, 300_000));
        let place =
            "cannot render composed resource \"instance\" \"FromCompositeFieldPath\" patch at index 0: ";
        assert!(problem.starts_with(place), "{problem}");
        assert!(problem.contains(r#"regexp "[\\pL]{20}9"#), "{problem}");
        assert!(problem.contains("takes too long"), "{problem}");
    }
}

#[test]
fn brief_call_is_given_up_although_the_error_of_a_patch_is_passed_over() {
    let [matching, _] = heavy_transforms();
    let mut request = long_match(&matching, 10_000);
    let resource = &mut request["input"]["resources"][0];
    let patch = resource["patches"].take();
    resource["connectionDetails"] = json!([{"name": "a", "type": "FromValue", "value": "b"}]);
    request["observed"]["resources"] = json!({"instance": instance()});
    request["observed"]["composite"]["resource"]["spec"]["crossplane"] = json!({});
    request["input"]["writeConnectionSecretToRef"] = json!({"name": "s", "namespace": "n", "patches": patch});
    request["input"]["writeConnectionSecretToRef"]["patches"][0]["type"] = json!("FromCompositeFieldPath");
    assert_eq!(super::run(&from_json(&request).unwrap(), Effort::Brief), Err(TakesLong));
}

#[test]
fn expressions_of_a_patch_set_count_once_however_many_templates_name_it() {
    let named = json!({"type": "PatchSet", "patchSetName": "set"});
    let template =
        |number: usize| json!({"name": format!("it-{number}"), "base": base(), "patches": [named]});
    let templates: Vec<_> = (0..4).map(template).collect();
    let patch =
        json!({"fromFieldPath": "spec.region", "toFieldPath": "spec.out", "transforms": [heavy_match(1)]});
    let sets = json!([{"name": "set", "patches": [patch]}]);
    let input = json!({"patchSets": sets, "resources": templates});
    let answer = answer(&json!({"observed": {"composite": {"resource": xr()}}, "input": input}));
    assert_eq!(answer.get("results"), None);
}

#[test]
fn same_input_is_read_once_and_answers_the_same() {
    let request: RunFunctionRequest =
        from_json(&request(json!({"patches": [{"fromFieldPath": "spec.size"}]}))).unwrap();
    let first = run(&request);
    assert_eq!(run(&request), first);
    let fresh = request.input.as_ref().map(|input| Struct::from(input.wire().clone()));
    assert_eq!(run(&RunFunctionRequest { input: fresh, ..request }), first);
}

/// JSON with the words this function knows, so that chance goes deep.
fn words() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec![
        "",
        "spec.a",
        "spec.a[*]",
        "a[0]",
        "Required",
        "MergeObjects",
        "AppendArray",
        "PatchSet",
        "CombineToComposite",
        "string",
        "%d %s",
        "math",
        "map",
        "match",
        "convert",
        "Convert",
        "Regexp",
        "(",
        "json",
        "quantity",
        "ToEnvironmentFieldPath",
        "x",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        text.prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "type",
        "name",
        "base",
        "patches",
        "resources",
        "fromFieldPath",
        "toFieldPath",
        "policy",
        "transforms",
        "math",
        "map",
        "match",
        "string",
        "convert",
        "fmt",
        "combine",
        "variables",
        "strategy",
        "environment",
        "spec",
        "kind",
        "a",
    ]);
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_input_is_answered(input in words(), patches in words(), spec in words()) {
        answer(&json!({"input": {"resources": input}}));
        answer(&request(json!({ "patches": [patches.clone()] })));
        let mut request = request_existing(json!({ "patches": [{"fromFieldPath": "spec", "transforms": [patches]}] }));
        request["observed"]["composite"]["resource"]["spec"] = spec;
        answer(&request);
    }
}
