//! Each documented feature, one case each.

use serde_json::{Value, json};

use super::ENVIRONMENT;

fn case(input: &Value) -> Value {
    json!({
        "meta": {"tag": "t"},
        "observed": {
            "composite": {"resource": {
                "apiVersion": "example.org/v1", "kind": "XThing", "metadata": {"name": "xr", "namespace": "default"},
                "spec": {"region": "eu", "size": 3, "tags": ["a", "b"], "labels": {"x": "1", "y": "2"}}
            }},
            "resources": {"there": {
                "resource": {
                    "apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "there-1"},
                    "status": {"address": "10.0.0.1", "replicas": 3, "on": true, "conditions": [{"type": "Ready", "status": "True"}]}
                },
                "connectionDetails": {"user": "YWRtaW4="}
            }}
        },
        "context": {ENVIRONMENT: {"apiVersion": "internal.crossplane.io/v1alpha1", "kind": "Environment", "zone": "a"}},
        "input": input
    })
}

fn patches(patches: &Value) -> Value {
    let base = json!({"apiVersion": "example.org/v1", "kind": "Thing", "spec": {"labels": {"x": "0"}, "tags": ["b"]}});
    case(
        &json!({"resources": [{"name": "there", "base": base, "patches": patches}, {"name": "new", "base": base, "patches": patches}]}),
    )
}

fn transform(transform: &Value) -> Value {
    patches(&json!([{"fromFieldPath": "spec.region", "toFieldPath": "spec.out", "transforms": [transform]}]))
}

#[expect(clippy::too_many_lines, reason = "it is a list")]
pub(super) fn cases() -> Vec<(&'static str, Value)> {
    let combine = json!({"strategy": "string", "string": {"fmt": "%s-%v"}, "variables": [
        {"fromFieldPath": "spec.region"}, {"fromFieldPath": "spec.size"}
    ]});
    let secret = json!({"name": "secret", "patches": [{"fromFieldPath": "metadata.name", "toFieldPath": "namespace"}]});
    let mut modern = case(&json!({"writeConnectionSecretToRef": secret, "resources": [{
        "name": "there", "base": {"apiVersion": "v1", "kind": "ConfigMap"},
        "connectionDetails": [{"name": "fixed", "type": "FromValue", "value": "v"}]
    }]}));
    modern["observed"]["composite"]["resource"]["spec"]["crossplane"] = json!({});
    let mut without_base =
        case(&json!({"resources": [{"name": "made", "patches": [{"fromFieldPath": "spec.region"}]}]}));
    without_base["desired"] = json!({"resources": {"made": {"ready": "READY_TRUE", "resource": {"apiVersion": "v1", "kind": "ConfigMap"}}}});
    let mut cases = vec![
        ("copy from the composite resource", patches(&json!([{"fromFieldPath": "spec.region"}]))),
        (
            "copy to the composite resource",
            patches(&json!([{"type": "ToCompositeFieldPath", "fromFieldPath": "status.address"}])),
        ),
        (
            "combine from the composite resource",
            patches(
                &json!([{"type": "CombineFromComposite", "toFieldPath": "spec.name", "combine": combine}]),
            ),
        ),
        (
            "combine to a field that is named like a wildcard",
            patches(
                &json!([{"type": "CombineFromComposite", "toFieldPath": "spec.labels[*]", "combine": combine}]),
            ),
        ),
        (
            "copy from the environment",
            patches(
                &json!([{"type": "FromEnvironmentFieldPath", "fromFieldPath": "zone", "toFieldPath": "spec.zone"}]),
            ),
        ),
        (
            "copy to the environment",
            patches(
                &json!([{"type": "ToEnvironmentFieldPath", "fromFieldPath": "status.address", "toFieldPath": "address"}]),
            ),
        ),
        (
            "combine to the environment",
            patches(&json!([{"type": "CombineToEnvironment", "toFieldPath": "name", "combine": {
            "strategy": "string", "string": {"fmt": "%s"}, "variables": [{"fromFieldPath": "status.address"}]}}])),
        ),
        (
            "patch the environment",
            case(&json!({"environment": {"patches": [
                {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.region", "toFieldPath": "region"},
                {"type": "ToCompositeFieldPath", "fromFieldPath": "zone", "toFieldPath": "status.zone"}
            ]}})),
        ),
        (
            "required field holds up a new resource",
            patches(&json!([
                {"fromFieldPath": "spec.no", "policy": {"fromFieldPath": "Required"}}
            ])),
        ),
        (
            "patch sets",
            case(&json!({
                "patchSets": [{"name": "common", "patches": [{"fromFieldPath": "spec.region"}]}],
                "resources": [{"name": "new", "base": {"apiVersion": "v1", "kind": "ConfigMap"}, "patches": [{"type": "PatchSet", "patchSetName": "common"}]}]
            })),
        ),
        ("wildcards", patches(&json!([{"fromFieldPath": "spec.region", "toFieldPath": "spec.labels[*]"}]))),
        ("connection secret of a modern composite resource", modern),
        ("template without a base", without_base),
        (
            "connection details of every type",
            case(&json!({"resources": [{
                "name": "there", "base": {"apiVersion": "v1", "kind": "ConfigMap"},
                "connectionDetails": [
                    {"name": "a", "type": "FromValue", "value": "v"},
                    {"name": "b", "type": "FromConnectionSecretKey", "fromConnectionSecretKey": "user"},
                    {"name": "c", "type": "FromFieldPath", "fromFieldPath": "status"}
                ]
            }]})),
        ),
        ("nothing to do", case(&json!({}))),
    ];
    let policies = [
        "Replace",
        "MergeObjects",
        "MergeObjectsAppendArrays",
        "ForceMergeObjects",
        "ForceMergeObjectsAppendArrays",
        "MergeObject",
        "AppendArray",
    ];
    cases.extend(policies.map(|policy| {
        let policy = json!({"toFieldPath": policy});
        ("a policy", patches(&json!([
            {"fromFieldPath": "spec.labels", "policy": policy}, {"fromFieldPath": "spec.tags", "policy": policy}
        ])))
    }));
    let transforms = [
        json!({"type": "map", "map": {"eu": "europe", "us": "america"}}),
        json!({"type": "match", "match": {"patterns": [{"type": "regexp", "regexp": "^e", "result": {"found": 1}}]}}),
        json!({"type": "match", "match": {"patterns": [{"type": "literal", "literal": "us", "result": 1}], "fallbackTo": "Input"}}),
        json!({"type": "string", "string": {"type": "Format", "fmt": "region-%s"}}),
        json!({"type": "string", "string": {"type": "Convert", "convert": "ToSha256"}}),
        json!({"type": "string", "string": {"type": "Regexp", "regexp": {"match": "(e)(u)", "group": 2}}}),
        json!({"type": "string", "string": {"type": "TrimPrefix", "trim": "e"}}),
        json!({"type": "string", "string": {"type": "Replace", "replace": {"search": "e", "replace": "x"}}}),
        json!({"type": "convert", "convert": {"toType": "string"}}),
    ];
    cases.extend(transforms.map(|one| ("a transform", transform(&one))));
    let checks = [
        json!([{"type": "MatchString", "fieldPath": "status.address", "matchString": "10.0.0.1"}]),
        json!([{"type": "MatchInteger", "fieldPath": "status.replicas", "matchInteger": 3}]),
        json!([{"type": "MatchTrue", "fieldPath": "status.on"}]),
        json!([{"type": "MatchCondition", "matchCondition": {"type": "Ready", "status": "True"}}]),
        json!([{"type": "NonEmpty", "fieldPath": "status.address"}]),
        json!([{"type": "None"}]),
        json!([]),
    ];
    cases.extend(checks.map(|checks| {
        let base = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        (
            "a readiness check",
            case(&json!({"resources": [{"name": "there", "base": base, "readinessChecks": checks}]})),
        )
    }));
    cases
}
