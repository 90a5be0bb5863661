//! Upstream's own command line: it must not notice which engine it drives, and `ferroplane render` must print
//! the documents that it prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::function::Function;

/// Files, and the arguments that go with them.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    xr: Value,
    /// The inputs of the steps.
    inputs: Vec<Value>,
    /// What is besides the XR, by the name of its file.
    files: Vec<(&'static str, Vec<Value>)>,
    arguments: &'static [&'static str],
}

/// A scenario as files in a directory, with its functions running.
#[derive(Debug)]
pub(crate) struct Stage {
    directory: tempfile::TempDir,
    arguments: Vec<String>,
    _function: Function,
}

impl Scenario {
    /// Write the files and start the functions.
    pub(crate) async fn set(self) -> Stage {
        let function = Function::start().await;
        let directory = tempfile::tempdir().expect("there is room for files");
        let write = |name: &str, documents: &[Value]| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("it is in the directory"))
                .expect("there is room for files");
            let text: Vec<_> = documents.iter().map(|document| format!("{document:#}\n")).collect();
            fs::write(path, text.join("---\n")).expect("there is room for files");
        };
        let type_ref = json!({"apiVersion": self.xr["apiVersion"], "kind": self.xr["kind"]});
        write("xr.yaml", &[self.xr]);
        write("composition.yaml", &[composition(type_ref, self.inputs)]);
        write("functions.yaml", &[manifest(&function.address())]);
        for (name, documents) in &self.files {
            write(name, documents);
        }
        let files = ["xr.yaml", "composition.yaml", "functions.yaml"];
        let arguments = files.iter().chain(self.arguments).map(|argument| (*argument).to_owned());
        Stage { arguments: arguments.collect(), directory, _function: function }
    }
}

impl Stage {
    /// What a program prints for `render` and these further arguments.
    pub(crate) async fn render(&self, program: &Path, further: &[String]) -> Output {
        let mut command = Command::new(program);
        command.arg("render").args(&self.arguments).args(further);
        command.current_dir(self.directory.path()).env("HOME", self.directory.path()).kill_on_drop(true);
        command.output().await.expect("the program runs")
    }

    /// What upstream's command line prints when it drives this engine.
    pub(crate) async fn render_with(&self, command_line: &Path, engine: &PathBuf) -> Output {
        self.render(command_line, &[format!("--crossplane-binary={}", engine.display())]).await
    }
}

fn composition(type_ref: Value, inputs: Vec<Value>) -> Value {
    let steps = inputs.into_iter().enumerate().map(|(index, input)| {
        let mut step = json!({"step": format!("step-{index}"), "functionRef": {"name": "scripted"}});
        for field in ["credentials", "requirements"] {
            if let Some(value) = input.get(field) {
                step[field] = value.clone();
            }
        }
        step["input"] = input;
        step
    });
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "databases"},
        "spec": {"compositeTypeRef": type_ref, "mode": "Pipeline", "pipeline": steps.collect::<Vec<_>>()}
    })
}

fn manifest(address: &str) -> Value {
    json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": "scripted", "annotations": {
            "render.crossplane.io/runtime": "Development",
            "render.crossplane.io/runtime-development-target": address,
        }},
        "spec": {"package": "example.org/scripted:v1"}
    })
}

/// A step's input that makes the function answer this.
fn says(response: Value) -> Value {
    json!({"apiVersion": "script.ferroplane.io/v1", "kind": "Script", "response": response})
}

fn xr() -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Database", "metadata": {"name": "db", "namespace": "team"},
        "spec": {"size": 3, "ratio": 0.5, "text": "yes", "none": null, "list": [1, "two"]}
    })
}

fn bucket(fields: Value) -> Value {
    let mut object = json!({"apiVersion": "s3.example.org/v1", "kind": "Bucket"});
    object
        .as_object_mut()
        .expect("it is one")
        .extend(fields.as_object().expect("fields are an object").clone());
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
        files: vec![("required.yaml", vec![settings("b"), settings("a")])],
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
        files: vec![(
            "secret.yaml",
            vec![json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": "secrets"},
                "data": {"token": "dG9rZW4="}
            })],
        )],
        arguments: &["--function-credentials=secret.yaml"],
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
