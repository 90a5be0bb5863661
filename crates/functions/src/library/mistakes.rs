//! What is wrong with the input of a built-in function, as the function itself would say when it is called.
//!
//! `validate` and admission ask this before anything is composed: some mistakes are beyond any schema.

use std::fmt;

use ferroplane_engine::versions::Version;
use ferroplane_golang::strconv::quote;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, Severity};
use serde_json::{Map, Value};

use super::Library;
use crate::go_templating::{TemplateMistake, TemplatePart, check_templates};
use crate::starlark::{ScriptMistake, check_scripts, has_script_interpreter};

/// What functions that refuse an input say first. A fatal result that begins otherwise may be about what else was missing
/// from the request, which is empty but for the input.
const REFUSALS: [&str; 2] = ["cannot get Function input: ", "invalid Function input: "];
/// What function-cel-validation says of rules that are no CEL.
const COMPILATION: &str = "cannot compile ";

/// The function whose templates are checked without calling it.
const GO_TEMPLATING: &str = "function-go-templating";
/// The function whose scripts are read without calling it.
const STARLARK: &str = "function-starlark";

/// A mistake in an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputMistake {
    /// Its path in the input. Empty if unknown.
    pub field: String,
    /// What is wrong, without the field.
    pub message: String,
    /// The line of the text at the field, from one, if it is in one.
    pub line: Option<usize>,
}

impl fmt::Display for InputMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.field.is_empty() { "input" } else { "input." };
        write!(f, "{separator}{}: {}", self.field, self.message)
    }
}

impl Library {
    /// What is wrong with the input of a version of a function.
    pub fn input_mistakes(
        &self,
        function: &str,
        version: &Version,
        input: Option<&Map<String, Value>>,
    ) -> Vec<InputMistake> {
        let mut mistakes = self.refusals(function, version, input).unwrap_or_default();
        mistakes.extend(input.into_iter().flat_map(doubled_names));
        mistakes
    }

    /// What the function itself says.
    fn refusals(
        &self,
        function: &str,
        version: &Version,
        input: Option<&Map<String, Value>>,
    ) -> Option<Vec<InputMistake>> {
        // Those that take an input answer an empty request with what is wrong with it. Others may rely on what they are given.
        self.contract(function)?.input?;
        let implementation = self.implementation(function, version)?;
        let input = input.cloned().map(Struct::try_from).transpose().ok()?;
        if function == GO_TEMPLATING {
            return Some(template_mistakes(version, &input.unwrap_or_default()));
        }
        // Without an interpreter the function itself is called, which can tell at least whether there is a
        // script.
        if function == STARLARK && has_script_interpreter() {
            return Some(script_mistakes(input));
        }
        let response = implementation.run(&RunFunctionRequest { input, ..RunFunctionRequest::default() });
        let fatal = response.results.iter().find(|result| result.severity == Severity::Fatal as i32)?;
        if fatal.message.starts_with(COMPILATION) {
            let separator = format!("\n{COMPILATION}");
            let lines = fatal.message.split(&separator).enumerate();
            let mistake = |(index, line): (usize, &str)| {
                let message = if index == 0 { line.to_owned() } else { format!("{COMPILATION}{line}") };
                InputMistake { field: "rules".to_owned(), message, line: None }
            };
            return Some(lines.map(mistake).collect());
        }
        let words = REFUSALS.iter().find_map(|prefix| fatal.message.strip_prefix(prefix))?;
        // What comes before the first colon is the field, more often than not.
        let (field, message) = words.split_once(": ").unwrap_or(("", words));
        Some(vec![InputMistake { field: field.to_owned(), message: message.to_owned(), line: None }])
    }
}

/// What keeps the scripts of function-starlark from being run.
fn script_mistakes(input: Option<Struct>) -> Vec<InputMistake> {
    let found = check_scripts(&RunFunctionRequest { input, ..RunFunctionRequest::default() });
    let mistake = |ScriptMistake { field, line, message, .. }| InputMistake { field, message, line };
    found.into_iter().map(mistake).collect()
}

/// What keeps the templates of function-go-templating from being executed.
fn template_mistakes(version: &Version, input: &Struct) -> Vec<InputMistake> {
    let json = input.json().ok();
    let is_text = json.and_then(|input| input.get("inline")).is_some_and(Value::is_string);
    let request = RunFunctionRequest { input: Some(input.clone()), ..RunFunctionRequest::default() };
    let mistake = |TemplateMistake { at, message }: TemplateMistake| {
        let field = match at.as_ref().map(|at| &at.part) {
            Some(TemplatePart::Inline) if is_text => "inline".to_owned(),
            Some(TemplatePart::Inline) => "inline.template".to_owned(),
            Some(TemplatePart::InlineList(index)) => format!("inline.templates[{index}]"),
            Some(TemplatePart::Environment(_) | TemplatePart::File(_)) | None => String::new(),
        };
        InputMistake { field, message, line: at.map(|at| at.line) }
    };
    check_templates(&version.to_string(), &request).error.into_iter().map(mistake).collect()
}

/// Names that several templates of patch-and-transform have. The function makes one resource of them, of the last.
fn doubled_names(input: &Map<String, Value>) -> Vec<InputMistake> {
    let api_version = input.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if !group.ends_with("pt.fn.crossplane.io") {
        return Vec::new();
    }
    let resources = input.get("resources").and_then(Value::as_array);
    let names: Vec<_> = resources.into_iter().flatten().map(|it| it.get("name")?.as_str()).collect();
    let first = |index: usize| names[..index].iter().position(|name| *name == names[index]);
    let doubled = (0..names.len()).filter_map(|index| Some((index, first(index)?, names[index]?)));
    let mistake = |(index, first, name)| InputMistake {
        field: format!("resources[{index}].name"),
        message: format!(
            "Duplicate value: {}: resources[{first}] has this name, and only the last one of them is composed",
            quote(name)
        ),
        line: None,
    };
    doubled.map(mistake).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mistakes(function: &str, input: &Value) -> Vec<(String, String)> {
        let library = Library::built_in().unwrap();
        let family = library.catalogue().family(function).unwrap();
        let version = family.stable.clone().unwrap();
        let mistakes = library.input_mistakes(function, &version, input.as_object());
        mistakes.into_iter().map(|mistake| (mistake.field, mistake.message)).collect()
    }

    #[test]
    fn mistakes_that_no_schema_finds_are_found() {
        let group = "validation.fn.ferroplane.io/v1beta1";
        let rules = json!({"apiVersion": group, "kind": "Validation", "rules": [
            {"name": "good", "rule": "true"}, {"name": "a", "rule": "1 +"}, {"name": "b", "rule": "nope"},
        ]});
        let found = mistakes("function-cel-validation", &rules);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].1.starts_with("cannot compile rule \"a\": ERROR: <input>:1:4: Syntax error"),
            "{found:?}"
        );
        assert!(found[1].1.starts_with("cannot compile rule \"b\""), "{found:?}");
        assert_eq!(found[0].0, "rules");
    }

    #[test]
    fn mistakes_in_templates_are_found_with_their_line() {
        for (inline, field) in [
            (json!({"template": "a\n{{ nope }}"}), "inline.template"),
            (json!("a\n{{ nope }}"), "inline"),
            (json!({"templates": ["{{ . }}", "a\n{{ nope }}"]}), "inline.templates[1]"),
        ] {
            let input = json!({"source": "Inline", "inline": inline});
            let library = Library::built_in().unwrap();
            let version = "v0.12.2".parse().unwrap();
            let found = library.input_mistakes(GO_TEMPLATING, &version, input.as_object());
            let [InputMistake { field: found, message, line: Some(2) }] = &found[..] else {
                panic!("{found:?}")
            };
            assert_eq!(found, field);
            assert!(message.contains("function \"nope\" not defined"), "{message}");
        }
    }

    #[test]
    fn doubled_names_of_templates_are_found() {
        let template = |name: &str| json!({"name": name, "base": {"apiVersion": "v1", "kind": "ConfigMap"}});
        let input = json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources",
            "resources": [template("a"), template("b"), template("a")]});
        let found = mistakes("function-patch-and-transform", &input);
        let [(field, message)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(field, "resources[2].name");
        assert!(message.starts_with("Duplicate value: \"a\": resources[0] has this name"), "{message}");
    }
}
