//! Treats inputs of functions as objects of their own, as Crossplane's command line does.

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

use super::finding::{Finding, Problem, ProblemKind, Verdict};
use crate::manifest::Manifest;

/// Take what was found out about the inputs out of what was found out about a composition. Inputs come first.
pub(super) fn split(
    mut whole: Finding,
    manifest: &Manifest,
    is_known: impl Fn(&str, &Object) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, step) in steps(manifest.object()).enumerate() {
        let Some(input) = step.get("input").and_then(Value::as_object) else { continue };
        let at = format!("spec.pipeline[{index}].input");
        let is_of_input =
            |problem: &Problem| problem.kind == ProblemKind::FunctionInput && problem.field.starts_with(&at);
        let (errors, rest): (Vec<_>, Vec<_>) = whole.errors.into_iter().partition(is_of_input);
        whole.errors = rest;
        let function = step.pointer("/functionRef/name").and_then(Value::as_str).unwrap_or_default();
        findings.push(Finding {
            api_version: meta::api_version(input).to_owned(),
            kind: meta::kind(input).to_owned(),
            name: meta::name(input).to_owned(),
            namespace: meta::namespace(input).to_owned(),
            status: match (errors.is_empty(), is_known(function, input)) {
                (false, _) => Verdict::Invalid,
                (true, true) => Verdict::Valid,
                (true, false) => Verdict::MissingSchema,
            },
            errors: errors.into_iter().map(|problem| within(problem, &at)).collect(),
            warnings: Vec::new(),
            file: whole.file.clone(),
            line: manifest.line_at(&at),
        });
    }
    // All that was wrong with the composition was in its inputs.
    if whole.status == Verdict::Invalid && whole.errors.is_empty() {
        whole.status = Verdict::Valid;
    }
    findings.push(whole);
    findings
}

fn steps(object: &Object) -> impl Iterator<Item = &Value> {
    let is_composition =
        meta::kind(object) == "Composition" && meta::group(meta::api_version(object)) == keys::APIEXTENSIONS;
    let steps =
        object.get("spec").filter(|_| is_composition).and_then(|spec| spec.get("pipeline")?.as_array());
    steps.into_iter().flatten()
}

/// The same problem as seen from the input.
fn within(problem: Problem, at: &str) -> Problem {
    let start = format!("{at}.");
    let field = problem.field.strip_prefix(&start).unwrap_or_default().to_owned();
    let is_unknown = problem.message.contains(": unknown field: ");
    let kind = if is_unknown { ProblemKind::UnknownField } else { ProblemKind::Schema };
    Problem { kind, field, message: problem.message.replacen(&start, "", 1), ..problem }
}
