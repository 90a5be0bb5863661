//! `toYaml` and `fromYaml` give what they give in the original, whose library of YAML the peer `text-template` has.

use ferroplane_functions::builtin;
use ferroplane_golang::base64;
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use crate::oracle::{Oracle, say};

/// The text that the template prints stands behind this in its output.
const PRINTED: &str = "printed: ";

/// Every call, by name.
fn calls() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("../yaml/calls.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').expect("a line is a name and a template"))
}

/// A template whose composed resource shows what a call prints. The output is text of JSON, so that it cannot change the document.
fn document(call: &str) -> String {
    format!(
        "{{{{ define \"call\" }}}}{call}{{{{ end }}}}kind: ConfigMap\nmetadata:\n  annotations:\n    \
         gotemplating.fn.crossplane.io/composition-resource-name: a\n{PRINTED}{{{{ include \"call\" . | toRawJson }}}}\n"
    )
}

fn ours(template: &str) -> Result<Value, String> {
    let function = builtin("function-go-templating", None).unwrap();
    let request = json!({"input": {"source": "Inline", "inline": {"template": template}}});
    let answer = to_json(&function.run(&from_json(&request).unwrap())).unwrap();
    match answer["results"][0]["message"].as_str() {
        None => Ok(answer["desired"]["resources"]["a"]["resource"]["printed"].clone()),
        Some(message) => {
            let message = message.strip_prefix("cannot execute template: ").unwrap_or(message);
            Err(message.strip_suffix(" (line 1 of the template)").unwrap_or(message).to_owned())
        }
    }
}

fn theirs(answer: &Value) -> Result<Value, String> {
    if let Some(output) = answer["output"].as_str() {
        let output = String::from_utf8(base64::decode(output.as_bytes()).unwrap()).unwrap();
        let (_, printed) = output.rsplit_once(PRINTED).expect("the template prints it");
        return Ok(serde_json::from_str(printed).unwrap());
    }
    let problem = answer["parse"].as_str().or_else(|| answer["execute"].as_str());
    Err(problem.expect("the peer says what is wrong").to_owned())
}

#[test]
fn yaml_in_templates_is_what_it_is_in_the_original() {
    let Some(oracle) = Oracle::start("text-template") else { return };
    let question = |(_, call)| json!({"template": document(call), "name": "manifests", "functions": "yaml"});
    let answers = oracle.ask(&calls().map(question).collect::<Vec<_>>());
    let (mut outputs, mut errors) = (0, 0);
    let mut differences = Vec::new();
    for ((name, call), answer) in calls().zip(&answers) {
        let (ours, theirs) = (ours(&document(call)), theirs(answer));
        *(if theirs.is_ok() { &mut outputs } else { &mut errors }) += 1;
        if ours != theirs {
            differences.push(format!("{name}: {call}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    say(&format!("{outputs} outputs and {errors} errors of toYaml and fromYaml compared"));
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(outputs > 60 && errors > 10, "the calls are lopsided");
}
