//! What each release does in its own way.

use std::time::Duration;

use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use super::Release;
use crate::effort::Effort;

const ENVIRONMENT: &str = "apiextensions.crossplane.io/environment";
const ALL: [Release; 8] = [
    Release::V0_2,
    Release::V0_3,
    Release::V0_4,
    Release::V0_5,
    Release::V0_6,
    Release::V0_7,
    Release::V0_8,
    Release::V0_10,
];

fn request(template: &Value) -> Value {
    let mut whole = json!({"name": "thing", "base": {"apiVersion": "example.org/v1", "kind": "Thing", "spec": {"tags": {"a": "base"}}}});
    for (key, value) in template.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let xr = json!({"apiVersion": "example.org/v1", "kind": "XR", "metadata": {"name": "xr"}, "spec": {
        "region": "eu", "nothing": null, "list": ["a", "b"], "tags": {"a": "xr", "b": "xr"}
    }});
    json!({"observed": {"composite": {"resource": xr}}, "input": {"resources": [whole]}})
}

fn run_as(release: Release, request: &RunFunctionRequest) -> RunFunctionResponse {
    super::super::run_as(release, request, Effort::Full(&|| Duration::ZERO)).unwrap()
}

fn answer(release: Release, request: &Value) -> Value {
    to_json(&run_as(release, &from_json(request).unwrap())).unwrap()
}

fn thing(release: Release, template: &Value) -> Value {
    answer(release, &request(template))["desired"]["resources"]["thing"]["resource"].clone()
}

/// The severity and the message of the only result.
fn said(answer: &Value) -> (String, String) {
    let text = |field: &str| answer["results"][0][field].as_str().unwrap_or_default().to_owned();
    (text("severity"), text("message"))
}

#[test]
fn base_keeps_its_name_from_v0_4_on() {
    let base = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "namespace": "ns", "labels": {}}});
    for release in ALL {
        let named = thing(release, &json!({"base": base}))["metadata"]["name"] == "n";
        assert_eq!(named, release >= Release::V0_4, "{release:?}");
    }
}

#[test]
fn field_that_nobody_knows_is_ignored_before_v0_4() {
    let patch = json!({"fromFieldPath": "spec.tags", "policy": {"mergeOptions": {"keepMapValues": true}}});
    for release in ALL {
        let (severity, message) = said(&answer(release, &request(&json!({"patches": [patch]}))));
        let is_refused = release >= Release::V0_4;
        assert_eq!(severity == "SEVERITY_FATAL", is_refused, "{release:?}: {message}");
        assert_eq!(message.contains("mergeOptions"), is_refused, "{release:?}: {message}");
    }
}

#[test]
fn required_field_is_waited_for_in_the_words_of_the_release() {
    let patch = json!({"fromFieldPath": "spec.missing", "policy": {"fromFieldPath": "Required"}});
    let missing = request(&json!({"patches": [patch]}));
    let old = answer(Release::V0_2, &missing);
    let expected = "cannot render FromComposite patches for composed resource \"thing\": cannot apply the \
                    \"FromCompositeFieldPath\" patch at index 0: spec.missing: no such field";
    assert_eq!(said(&old), ("SEVERITY_WARNING".to_owned(), expected.to_owned()));
    for release in &ALL[1..] {
        let (severity, message) = said(&answer(*release, &missing));
        assert_eq!(severity, "SEVERITY_WARNING");
        assert!(message.starts_with("not adding new composed resource \"thing\""), "{message}");
    }
    for release in ALL {
        let ready = answer(release, &missing)["desired"]["composite"]["ready"].clone();
        assert_eq!(ready == "READY_FALSE", release >= Release::V0_8, "{release:?}");
    }
}

#[test]
fn patch_that_fails_stops_everything_from_v0_3_on() {
    let patch = json!({"fromFieldPath": "spec.region", "toFieldPath": "spec.tags[0]"});
    for release in ALL {
        let (severity, message) = said(&answer(release, &request(&json!({"patches": [patch]}))));
        let expected = if release == Release::V0_2 { "SEVERITY_WARNING" } else { "SEVERITY_FATAL" };
        assert_eq!(severity, expected, "{release:?}: {message}");
    }
}

#[test]
fn path_through_null_is_a_mistake_before_v0_4() {
    let patch = json!({"fromFieldPath": "spec.nothing.deep", "toFieldPath": "spec.deep"});
    for release in ALL {
        let answer = answer(release, &request(&json!({"patches": [patch]})));
        let is_mistake = answer.get("results").is_some();
        assert_eq!(is_mistake, release < Release::V0_4, "{release:?}: {answer}");
    }
}

#[test]
fn objects_are_merged_as_the_release_can() {
    let merged = |release, policy: &str| {
        let patch = json!({"fromFieldPath": "spec.tags", "policy": {"toFieldPath": policy}});
        thing(release, &json!({"patches": [patch]}))["spec"]["tags"].clone()
    };
    let (replaced, kept) = (json!({"a": "xr", "b": "xr"}), json!({"a": "base", "b": "xr"}));
    assert_eq!(merged(Release::V0_3, "MergeObject"), replaced, "the policy is ignored");
    for release in &ALL[2..] {
        assert_eq!(merged(*release, "MergeObject"), kept, "{release:?}");
    }
    assert_eq!(merged(Release::V0_4, "MergeObjects"), Value::Null, "it is refused");
    assert_eq!(merged(Release::V0_5, "MergeObjects"), kept);
}

#[test]
fn environment_needs_a_kind_before_v0_6() {
    let patch = |kind: &str| json!({"environment": {"patches": [{"type": kind, "fromFieldPath": "spec.region", "toFieldPath": "region"}]}});
    for release in ALL {
        let kind = if release == Release::V0_2 { "ToEnvironmentFieldPath" } else { "FromCompositeFieldPath" };
        let mut request = request(&json!({}));
        request["input"]["environment"] = patch(kind)["environment"].clone();
        let answer = answer(release, &request);
        let region = &answer["context"][ENVIRONMENT]["region"];
        assert_eq!(region == "eu", release >= Release::V0_6, "{release:?}: {answer}");
    }
}

#[test]
fn lists_are_joined_from_v0_7_on() {
    let join = json!({"type": "string", "string": {"type": "Join", "join": {"separator": ","}}});
    let patch = json!({"fromFieldPath": "spec.list", "toFieldPath": "spec.joined", "transforms": [join]});
    for release in ALL {
        let joined = &thing(release, &json!({"patches": [patch]}))["spec"]["joined"];
        assert_eq!(joined == "a,b", release >= Release::V0_7, "{release:?}");
    }
}

#[test]
fn input_that_two_releases_share_is_read_as_each_of_them_reads_it() {
    let base = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}});
    let message = from_json(&request(&json!({"base": base}))).unwrap();
    for release in [Release::V0_10, Release::V0_2, Release::V0_10] {
        let answer = to_json(&run_as(release, &message)).unwrap();
        let name = &answer["desired"]["resources"]["thing"]["resource"]["metadata"]["name"];
        assert_eq!(name == "n", release == Release::V0_10, "{release:?}");
    }
}
