//! Mistakes in templates that can be seen without executing them.

use ferroplane_template::Functions;
use ferroplane_wire::v1::RunFunctionRequest;
use ferroplane_wire::{State, Struct};
use serde_json::Value;

use super::documents::{META, RESOURCE_NAME};
use super::helpers;
use super::input::Prepared;
use super::problem::Problem;
use super::release::Release;
use super::source::TemplateLine;

/// What is wrong with templates, or might be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateMistake {
    /// Nothing if it is not in a line of a template.
    pub at: Option<TemplateLine>,
    pub message: String,
}

/// Templates that were checked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CheckedTemplates {
    /// Why they cannot be executed.
    pub error: Option<TemplateMistake>,
    /// What will not do what its author thinks it does.
    pub warnings: Vec<TemplateMistake>,
}

/// What begins the message about an input that can be read and is invalid.
const REFUSAL: &str = "invalid function input: ";

/// Reads the templates that a request is about, in a version of the function. Templates that come with the environment, and files
/// that do not come with the request, are not checked.
pub fn check_templates(version: &str, request: &RunFunctionRequest) -> CheckedTemplates {
    let Some(release) = Release::of(version) else { return CheckedTemplates::default() };
    let input = request.input.clone().unwrap_or_default();
    let prepared = match Prepared::read(&input, release) {
        Ok(prepared) => prepared,
        Err(message) => {
            let error = Some(TemplateMistake { at: None, message: without_refusal(&message) });
            return CheckedTemplates { error, ..CheckedTemplates::default() };
        }
    };
    let looked = prepared.with_templates(request, |parsed, _| {
        let locate =
            |(line, message): (usize, String)| TemplateMistake { at: parsed.lines.locate(line), message };
        let text = parsed.templates.text();
        let found = indented_separators(text).into_iter().chain(unnamed_documents(text, request));
        Ok(found.map(locate).collect())
    });
    match looked {
        Ok(warnings) => CheckedTemplates { error: None, warnings },
        // Without a line it is about what is missing from the request.
        Err(Problem { at: None, .. }) => CheckedTemplates::default(),
        Err(Problem { message, at }) => {
            let message = format!("{}{}", without_refusal(&message), hint(&message, release));
            CheckedTemplates { error: Some(TemplateMistake { at, message }), ..CheckedTemplates::default() }
        }
    }
}

fn without_refusal(message: &str) -> String {
    message.strip_prefix(REFUSAL).unwrap_or(message).to_owned()
}

/// What the author of a template may have meant that calls a function which does not exist.
fn hint(message: &str, release: Release) -> String {
    let name = message.split_once("function \"").and_then(|(_, rest)| rest.split_once("\" not defined"));
    let Some((name, _)) = name else { return String::new() };
    if ["env", "expandenv"].contains(&name) {
        return ": templates do not see the environment of the process".to_owned();
    }
    if helpers::functions(Release::NEWEST).get(name).is_some() {
        return ": a later version of function-go-templating has it".to_owned();
    }
    match similar(name, helpers::functions(release)) {
        Some(similar) => format!(": did you mean `{similar}`?"),
        None => String::new(),
    }
}

/// The function whose name differs by a letter, or by how it is written.
fn similar(name: &str, functions: &Functions) -> Option<&'static str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let wanted = plain(name);
    let mut names: Vec<_> = functions.names().collect();
    names.sort_unstable();
    let is_close = |other: &&&str| is_one_letter_off(&wanted, &plain(other));
    names.iter().find(|other| plain(other) == wanted).or_else(|| names.iter().find(is_close)).copied()
}

/// Whether one letter was added, left out, changed, or swapped with the next.
fn is_one_letter_off(one: &str, other: &str) -> bool {
    let (one, other): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[same..], &other[same..]);
    // A letter too much, one too little, another one, or two that are swapped.
    one.get(1..) == Some(other)
        || other.get(1..) == Some(one)
        || (one.len() == other.len() && one.get(1..) == other.get(1..))
        || matches!((one, other), ([a, b, one @ ..], [c, d, other @ ..]) if (a, b) == (d, c) && one == other)
}

/// Separators that are indented as much as the document behind them: they separate nothing, and what follows becomes part of the
/// document before.
fn indented_separators(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<_> = text.lines().collect();
    let is_lost = |at: &usize| {
        let line = lines[*at];
        let indent = indentation(line);
        indent > 0
            && line.trim() == "---"
            && begins_document(&lines[*at + 1..], indent)
            && !is_in_block(&lines[..*at], indent)
    };
    let message = "the separator `---` is indented, so that it does not begin a document; write it at the start of the line";
    (0..lines.len()).filter(is_lost).map(|at| (at + 1, message.to_owned())).collect()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Whether the first line that is not an action or a comment looks like that of an object.
fn begins_document(lines: &[&str], indent: usize) -> bool {
    let says_something = |line: &&&str| {
        let line = line.trim();
        let is_action = line.starts_with("{{") && line.ends_with("}}");
        !is_action && !line.is_empty() && !line.starts_with('#')
    };
    lines.iter().find(says_something).is_some_and(|line| {
        indentation(line) == indent && ["apiVersion:", "kind:"].iter().any(|key| line.trim().starts_with(key))
    })
}

/// Whether a line with this indentation is part of a text in several lines, as in a `ConfigMap` that holds manifests.
fn is_in_block(before: &[&str], indent: usize) -> bool {
    let is_outside = |line: &&&str| {
        let text = line.trim();
        !text.is_empty() && !text.starts_with("{{") && indentation(line) < indent
    };
    before.iter().rev().find(is_outside).is_some_and(|line| {
        let last = line.trim_end().rsplit(' ').next().unwrap_or_default();
        last.starts_with(['|', '>'])
    })
}

/// Documents that no annotation names. Only those that are written out are found; what helpers print may have a name.
fn unnamed_documents(text: &str, request: &RunFunctionRequest) -> Vec<(usize, String)> {
    let xr = composite(request);
    let mut found = Vec::new();
    for (first, document) in documents(text) {
        let value = |key: &str| document.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let (Some(api_version), Some(kind)) = (value("apiVersion:"), value("kind:")) else { continue };
        let is_open = [api_version, kind].iter().any(|text| text.contains("{{"))
            || MAY_NAME.iter().any(|word| document.contains(word));
        let is_xr = xr.as_ref().is_none_or(|(version, of)| version == api_version && of == kind);
        if is_open || is_xr || api_version == META {
            continue;
        }
        let line = document.lines().position(|line| line.starts_with("kind:")).unwrap_or_default();
        let message = format!(
            "{kind} has no name to be composed by: give it the annotation {RESOURCE_NAME}, or call setResourceNameAnnotation"
        );
        found.push((first + line, message));
    }
    found
}

/// What may give a document its annotation.
const MAY_NAME: &[&str] = &[
    "composition-resource-name",
    "setResourceNameAnnotation",
    "include ",
    "template ",
    "toYaml",
    "toJson",
    "merge",
];

/// The parts of a text between separators, with their first lines.
fn documents(text: &str) -> Vec<(usize, String)> {
    let mut found = vec![(1, String::new())];
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if line.starts_with("---") {
            found.push((number + 1, String::new()));
        } else if let Some((_, document)) = found.last_mut() {
            document.push_str(line);
        }
    }
    found
}

/// Version and kind of the composite resource.
fn composite(request: &RunFunctionRequest) -> Option<(String, String)> {
    let resource = request.observed.as_ref().and_then(State::composite)?.resource.as_ref();
    let xr = resource.map(Struct::json)?.ok()?;
    let text = |field: &str| xr.get(field).and_then(Value::as_str).map(str::to_owned);
    Some((text("apiVersion")?, text("kind")?))
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::from_json;
    use serde_json::json;

    use super::*;

    fn check(version: &str, template: &str) -> CheckedTemplates {
        let request = json!({
            "observed": {"composite": {"resource": {"apiVersion": "example.org/v1", "kind": "App"}}},
            "input": {"source": "Inline", "inline": {"template": template}},
        });
        check_templates(version, &from_json(&request).unwrap())
    }

    fn error(version: &str, template: &str) -> (usize, String) {
        let error = check(version, template).error.unwrap();
        (error.at.unwrap().line, error.message.rsplit_once("manifests:").unwrap().1.to_owned())
    }

    fn warnings(template: &str) -> Vec<(usize, String)> {
        let checked = check("v0.12.2", template);
        assert_eq!(checked.error, None);
        checked.warnings.into_iter().map(|it| (it.at.unwrap().line, it.message)).collect()
    }

    #[test]
    fn mistakes_of_syntax_and_unknown_functions_have_a_line_and_a_hint() {
        assert_eq!(error("v0.12.2", "a\n{{ if }}"), (2, "2: missing value for if".to_owned()));
        for (call, hint) in [
            ("toYAML .", "did you mean `toYaml`?"),
            ("toYml .", "did you mean `toYaml`?"),
            ("ninednt 2", "did you mean `nindent`?"),
            ("quoted .", "did you mean `quote`?"),
            ("env \"HOME\"", "templates do not see the environment of the process"),
        ] {
            let (line, message) = error("v0.12.2", &format!("a\n\n{{{{ {call} }}}}"));
            assert_eq!(line, 3);
            assert!(message.ends_with(&format!("not defined: {hint}")), "{message}");
        }
        let (_, message) = error("v0.4.1", "{{ getCompositeResource . }}");
        assert!(
            message.ends_with("not defined: a later version of function-go-templating has it"),
            "{message}"
        );
        assert!(error("v0.12.2", "{{ xyzzy }}").1.ends_with("not defined"));
    }

    #[test]
    fn separators_that_are_indented_are_warned_of() {
        let lost = "{{ range $x := list 1 2 }}\n  ---\n  {{/* so */}}\n  apiVersion: v1\n{{ end }}";
        assert_eq!(warnings(lost)[0].0, 2);
        let in_a_text = "data:\n  all.yaml: |\n    {{ if true }}\n    ---\n    apiVersion: v1\n    kind: X\n    {{ end }}\n";
        assert_eq!(warnings(in_a_text), []);
        assert_eq!(warnings("---\napiVersion: example.org/v1\nkind: App\n"), []);
    }

    #[test]
    fn documents_without_a_name_are_warned_of() {
        let found = warnings(
            "---\napiVersion: v1\nkind: ConfigMap\n---\n# so\napiVersion: apps/v1\nkind: Deployment\n",
        );
        let lines: Vec<_> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 7]);
        assert!(found[1].1.starts_with("Deployment has no name to be composed by"), "{found:?}");
        for named in [
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    {{ setResourceNameAnnotation \"a\" }}\n",
            "apiVersion: example.org/v1\nkind: App\nstatus: {}\n",
            "apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1\nkind: ExtraResources\n",
            "apiVersion: v1\nkind: {{ \"Secret\" }}\n",
            "data: |\n  kind: X\n",
        ] {
            assert_eq!(warnings(named), [], "{named}");
        }
    }

    #[test]
    fn input_that_makes_no_sense_is_told_without_a_line() {
        let request = json!({"input": {"source": "Inline"}});
        let error = check_templates("v0.12.2", &from_json(&request).unwrap()).error.unwrap();
        assert_eq!(error.message, "inline.template or inline.templates should be provided");
        let request = json!({"input": {"source": "FileSystem", "fileSystem": {"dirPath": "/x"}}});
        assert_eq!(check_templates("v0.12.2", &from_json(&request).unwrap()), CheckedTemplates::default());
    }
}
