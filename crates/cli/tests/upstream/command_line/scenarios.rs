//! What `render` is used for.

use serde_json::{Value, json};

use super::Scenario;
use crate::generate::grant;

/// A step's input that makes the function answer this.
fn says(response: Value) -> Value {
    let mut script = json!({"apiVersion": "script.ferroplane.io/v1", "kind": "Script"});
    script["response"] = response;
    script
}

fn xr() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Database", "metadata": {"name": "db", "namespace": "team"},
        "spec": {"size": 3, "ratio": 0.5, "text": "yes", "none": null, "list": [1, "two"]}
    })
}

fn bucket(fields: Value) -> Value {
    let mut object = fields;
    object["apiVersion"] = "s3.example.org/v1".into();
    object["kind"] = "Bucket".into();
    json!({"resource": object})
}

fn ready(mut resource: Value) -> Value {
    resource["ready"] = "READY_TRUE".into();
    resource
}

/// Everything that `render` is used for.
pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![everything_at_once(), existing(), required(), legacy(), fatal(), seeded(), secret(), schemas()]
}

fn everything_at_once() -> Scenario {
    Scenario {
        name: "everything at once",
        xr: xr(),
        inputs: vec![
            says(json!({
                "desired": {"resources": {
                    "bucket": ready(bucket(json!({"spec": {"region": "eu", "size": 10, "ratio": 2.5, "big": 1e21}}))),
                    // Of several that are not ready, Crossplane would tell in any order.
                    "another": bucket(json!({"metadata": {"name": "named", "namespace": "elsewhere"}})),
                }},
                "results": [
                    {"severity": "SEVERITY_NORMAL", "message": "went well"},
                    {"severity": "SEVERITY_WARNING", "message": "look: here", "reason": "Odd"},
                ],
                "context": {"example.org/key": {"nested": [1, true, "x"]}},
            })),
            says(json!({
                "desired": {"composite": {"resource": {"status": {"url": "http://db", "count": 2, "text": "null"}}}},
                "conditions": [{
                    "type": "Custom", "status": "STATUS_CONDITION_TRUE", "reason": "Fine", "message": "multi\nline"
                }],
            })),
        ],
        files: vec![],
        arguments: &["-r", "-c", "-x"],
    }
}

fn existing() -> Scenario {
    let observed = |name: &str| {
        json!({
            "apiVersion": "s3.example.org/v1", "kind": "Bucket",
            "metadata": {
                "name": format!("existing-{name}"), "namespace": "team",
                "annotations": {"crossplane.io/composition-resource-name": name},
                "labels": {"crossplane.io/composite": "db"},
            },
            "status": {"id": 7}
        })
    };
    let mut input = says(json!({"desired": {"resources": {"kept": bucket(json!({"spec": {"a": 1}}))}}}));
    input["readyIfObserved"] = true.into();
    input["echo"] = json!(["observed"]);
    Scenario {
        name: "existing resources",
        xr: xr(),
        inputs: vec![input],
        files: vec![("observed.yaml", vec![observed("kept"), observed("dropped")])],
        arguments: &["-o", "observed.yaml", "-r"],
    }
}

fn required() -> Scenario {
    let settings = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"name": name},
            "metadata": {"name": name, "namespace": "team", "labels": {"tier": "gold"}},
        })
    };
    let mut input = says(json!({"desired": {"resources": {"bucket": bucket(json!({}))}}}));
    input["echo"] = json!(["required"]);
    input["manner"] = "oneByOne".into();
    input["asks"] = json!([
        {"field": "resources", "name": "all", "selector": {
            "apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"labels": {"tier": "gold"}}
        }},
        {"field": "resources", "name": "gone", "selector": {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "gone"}},
    ]);
    input["requirements"] = json!({"requiredResources": [
        {"requirementName": "one", "apiVersion": "v1", "kind": "ConfigMap", "name": "b", "namespace": "team"}
    ]});
    Scenario {
        name: "required resources",
        xr: xr(),
        inputs: vec![input],
        files: vec![("required.yaml", vec![settings("b"), settings("a"), grant()])],
        arguments: &["-e", "required.yaml"],
    }
}

fn legacy() -> Scenario {
    let definition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "xdatabases.example.org"},
        "spec": {
            "group": "example.org", "names": {"kind": "XDatabase", "plural": "xdatabases"},
            "claimNames": {"kind": "Database", "plural": "databases"},
            "versions": [{
                "name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {"size": {"type": "integer", "default": 5}}
                }}}}
            }]
        }
    });
    let mut input = says(json!({
        "desired": {"resources": {"bucket": bucket(json!({}))}, "composite": {"ready": "READY_TRUE"}},
        "conditions": [{
            "type": "Custom", "status": "STATUS_CONDITION_FALSE", "reason": "No", "target": "TARGET_COMPOSITE_AND_CLAIM"
        }],
    }));
    input["echo"] = json!(["spec"]);
    Scenario {
        name: "legacy",
        xr: json!({
            "apiVersion": "example.org/v1", "kind": "XDatabase",
            "metadata": {"name": "db-x1y2z", "labels": {
                "crossplane.io/claim-name": "db", "crossplane.io/claim-namespace": "team"
            }},
            "spec": {"claimRef": {"apiVersion": "example.org/v1", "kind": "Database", "name": "db", "namespace": "team"}}
        }),
        inputs: vec![input],
        files: vec![("xrd.yaml", vec![definition])],
        arguments: &["--xrd=xrd.yaml", "-x", "-r"],
    }
}

fn fatal() -> Scenario {
    Scenario {
        name: "fatal result",
        xr: xr(),
        inputs: vec![
            says(json!({"desired": {"resources": {"bucket": bucket(json!({}))}}})),
            says(json!({"results": [
                {"severity": "SEVERITY_NORMAL", "message": "so far so good"},
                {"severity": "SEVERITY_FATAL", "message": "all is lost"},
            ]})),
        ],
        files: vec![],
        arguments: &["-r"],
    }
}

fn seeded() -> Scenario {
    let mut input = says(json!({"context": {"own": {"b": 2}}}));
    input["echo"] = json!(["context"]);
    Scenario {
        name: "context",
        xr: xr(),
        inputs: vec![input],
        files: vec![("context.yaml", vec![json!({"from": "a file"})])],
        arguments: &["--context-values=given={\"a\": 1}", "--context-files=file=context.yaml", "-c"],
    }
}

fn secret() -> Scenario {
    let mut input = says(json!({}));
    input["echo"] = json!(["credentials"]);
    input["credentials"] = json!([
        {"name": "cloud", "source": "Secret", "secretRef": {"namespace": "secrets", "name": "cloud"}}
    ]);
    Scenario {
        name: "credentials",
        xr: xr(),
        inputs: vec![input],
        files: vec![
            (
                "secret.yaml",
                vec![json!({
                    "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": "secrets"},
                    "data": {"token": "dG9rZW4="}
                })],
            ),
            ("grant.yaml", vec![grant()]),
        ],
        arguments: &["--function-credentials=secret.yaml", "-e", "grant.yaml"],
    }
}

fn schemas() -> Scenario {
    let mut input = says(json!({}));
    input["echo"] = json!(["schemas"]);
    input["asks"] = json!([
        {"field": "schemas", "name": "shape", "selector": {"apiVersion": "example.org/v1", "kind": "Shape"}},
        {"field": "schemas", "name": "gone", "selector": {"apiVersion": "example.org/v1", "kind": "Gone"}},
    ]);
    let document = json!({
        "openapi": "3.0.0", "info": {"title": "example", "version": "v1"}, "paths": {},
        "components": {"schemas": {
            "org.example.v1.Shape": {
                "type": "object", "properties": {"edge": {"$ref": "#/components/schemas/org.example.v1.Edge"}},
                "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Shape"}],
            },
            "org.example.v1.Edge": {"type": "integer", "minimum": 1},
        }}
    });
    Scenario {
        name: "schemas",
        xr: xr(),
        inputs: vec![input],
        files: vec![("schemas/example.json", vec![document])],
        arguments: &["-s", "schemas"],
    }
}
