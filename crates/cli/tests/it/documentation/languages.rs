//! The programs on the page for authors of functions work, also those that no command of the page starts.

use std::process::{Command, Stdio};

use ferroplane_testkit::skip;
use serde_json::Value;

use crate::peers::peer;
use crate::sandbox::{Sandbox, composition, dummy, started};

const PAGE: &str = include_str!("../../../../../docs/writing-functions.md");

/// The block that follows these words on the page.
fn block_after(words: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(words).unwrap_or_else(|| panic!("the page does not have `{words}`"));
    let (_, rest) = rest.split_once("```").unwrap();
    let (_, block) = rest.split_once('\n').unwrap();
    block.split_once("```").unwrap().0
}

#[test]
fn function_in_python_labels_what_earlier_steps_compose() {
    let Some(greeter) = peer("greeter-python") else { return };
    let python = greeter.with_file_name("lib").join("greeter-python/venv/bin/python");
    let annotation = block_after("The annotation of the Function names the interpreter.").trim();
    let command = annotation.strip_prefix("render.ferroplane.io/command: ").unwrap();
    let command = command.replace("./venv/bin/python", python.to_str().unwrap());
    let config = "{desired: {resources: {config: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: config}}}}}}";
    let input = "{apiVersion: example.org/v1, kind: Input, team: payments}";
    let steps = [("compose", "function-dummy", dummy(config)), ("label", "labels", input.to_owned())];
    let steps = steps.each_ref().map(|(step, function, input)| (*step, *function, input.as_str()));
    let sandbox = Sandbox::new()
        .with("main.py", block_after("save the function as `main.py`:"))
        .with("composition.yaml", &composition(&steps))
        .with("functions.yaml", &started("labels", &command));
    let documents = sandbox.render_with_commands(&[]).documents();
    assert_eq!(documents[1]["metadata"]["labels"]["team"], "payments", "{documents:#?}");
}

#[test]
fn function_in_shell_labels_what_earlier_steps_compose() {
    let jq = Command::new("jq").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !jq.is_ok_and(|status| status.success()) {
        skip("jq is not installed");
        return;
    }
    let sandbox = Sandbox::new()
        .with("function.sh", block_after("Save this as `function.sh`:"))
        .with("request.json", block_after("Save this as `request.json`:"));
    let mut function = Command::new("sh");
    let request = std::fs::File::open(sandbox.path("request.json")).unwrap();
    let output = function.arg(sandbox.path("function.sh")).stdin(request).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let desired: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(desired["resources"]["config"]["resource"]["metadata"]["labels"]["team"], "payments");
}
