//! Upstream's own command line: it must not notice which engine it drives, and `ferroplane render` must print
//! the documents that it prints.

mod scenarios;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tokio::process::Command;

pub(crate) use scenarios::scenarios;

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
        write("composition.yaml", &[composition(&self.xr, self.inputs)]);
        write("xr.yaml", &[self.xr]);
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
    pub(crate) async fn render_with(&self, command_line: &Path, engine: &Path) -> Output {
        self.render(command_line, &[format!("--crossplane-binary={}", engine.display())]).await
    }
}

fn composition(xr: &Value, inputs: Vec<Value>) -> Value {
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
    let type_ref = json!({"apiVersion": xr["apiVersion"], "kind": xr["kind"]});
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
