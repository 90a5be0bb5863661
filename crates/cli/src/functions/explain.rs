//! Documents the input of a function from its schema, field by field.

use ferroplane_engine::action::PhaseContract;
use ferroplane_functions::Contract;
use ferroplane_offline::manifest::yaml;
use serde_json::{Map, Value};

/// How deep fields are listed unless a user asks for more.
const DEPTH: usize = 2;

/// The part of a schema that a path such as `resources.patches` leads to. Lists and maps are looked through.
pub(crate) fn find<'s>(schema: &'s Value, path: &str) -> Result<&'s Value, String> {
    let mut here = schema;
    let mut walked = String::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let fields = fields_of(here);
        let Some(field) = fields.and_then(|fields| fields.get(part)) else {
            let known: Vec<_> = fields.into_iter().flat_map(Map::keys).map(String::as_str).collect();
            let place = if walked.is_empty() { "the input".to_owned() } else { format!("`{walked}`") };
            return Err(match known.as_slice() {
                [] => format!("{place} has no fields"),
                known => format!("{place} has no field `{part}`, only {}", known.join(", ")),
            });
        };
        walked = if walked.is_empty() { part.to_owned() } else { format!("{walked}.{part}") };
        here = field;
    }
    Ok(here)
}

/// What the function does, and all about its input.
pub(crate) fn whole(title: &str, contract: &Contract, schema: Option<&Value>, is_deep: bool) -> String {
    let mut text = format!("FUNCTION: {title}\n\n{}.\n", contract.about);
    match schema {
        None => text.push_str("\nINPUT: none\n"),
        Some(schema) => {
            let (api_version, kind) = type_in(contract.example.unwrap_or_default());
            text.push_str(&format!("\nINPUT: {kind} ({api_version})\n\n{}", part(schema, is_deep)));
        }
    }
    if let Some(example) = contract.example {
        text.push_str("\nEXAMPLE, a step of a pipeline:\n\n");
        text.extend(example.lines().map(|line| format!("  {line}\n").replace("  \n", "\n")));
    }
    text
}

/// What a function of phases does, and which arguments it takes.
pub(crate) fn of_phases(title: &str, contract: &Contract, phase: PhaseContract) -> String {
    let list = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let needs: Vec<_> = phase.needs.iter().map(|need| need.as_str()).collect();
    format!(
        "FUNCTION: {title}, for phases of Blueprints\n\n{}.\n\nREQUIRED ARGUMENTS: {}\nOPTIONAL ARGUMENTS: {}\nOUTPUT: {}\nNEEDS: {}\n\n\
         docs/action-functions.md describes the arguments and how versions differ.\n",
        contract.about,
        list(phase.required),
        list(phase.optional),
        if phase.outputs.is_empty() {
            "what its command prints, or none".to_owned()
        } else {
            phase.outputs.join(", ")
        },
        list(&needs),
    )
}

/// What the input in an example is: every function takes one kind of input.
fn type_in(example: &str) -> (String, String) {
    let step = yaml::parse(example).ok().and_then(|steps| Some(steps.first()?.to_json())).unwrap_or_default();
    let field = |name: &str| step["input"][name].as_str().unwrap_or("any").to_owned();
    (field("apiVersion"), field("kind"))
}

/// A field and what is in it.
pub(crate) fn field(path: &str, schema: &Value, is_deep: bool) -> String {
    format!("FIELD: {path} <{}>\n\n{}", type_of(schema), part(schema, is_deep))
}

fn part(schema: &Value, is_deep: bool) -> String {
    let mut text = String::new();
    if let Some(description) = schema["description"].as_str() {
        text.push_str(&wrapped(description, 0));
    }
    if fields_of(schema).is_some() {
        text.push_str("\nFIELDS:\n");
        list(schema, 1, if is_deep { usize::MAX } else { DEPTH }, &mut text);
    }
    text
}

fn list(schema: &Value, level: usize, depth: usize, text: &mut String) {
    let Some(fields) = fields_of(schema) else { return };
    let holder = holder_of(schema);
    let required: Vec<_> =
        holder["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in fields {
        // Every input has them, and they are shown before.
        if level == 1 && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let indent = "  ".repeat(level);
        let needed = if required.contains(&name.as_str()) { ", required" } else { "" };
        let default = match &field["default"] {
            Value::Null => String::new(),
            value => format!(", default {value}"),
        };
        text.push_str(&format!("{indent}{name} <{}{needed}{default}>\n", type_of(field)));
        text.push_str(&wrapped(field["description"].as_str().unwrap_or_default(), level + 1));
        if level < depth {
            list(field, level + 1, depth, text);
        } else if fields_of(field).is_some() {
            text.push_str(&format!("{indent}  …\n"));
        }
    }
}

/// The schema that has the fields: of a list, that of its items; of a map, that of its values.
fn holder_of(schema: &Value) -> &Value {
    let mut here = schema;
    loop {
        here = match (&here["items"], &here["additionalProperties"]) {
            (items @ Value::Object(_), _) => items,
            (_, values @ Value::Object(_)) => values,
            _ => return here,
        };
    }
}

fn fields_of(schema: &Value) -> Option<&Map<String, Value>> {
    holder_of(schema)["properties"].as_object()
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<_> = choices
            .iter()
            .map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned))
            .collect();
        return choices.join(" | ");
    }
    match (schema["type"].as_str(), &schema["items"], &schema["additionalProperties"]) {
        (Some("array"), items @ Value::Object(_), _) => format!("list of {}", type_of(items)),
        (Some("object"), _, values @ Value::Object(_)) => format!("map of {}", type_of(values)),
        (Some(name), ..) => name.to_owned(),
        (None, ..) => "any".to_owned(),
    }
}

/// Text in lines of at most 100 letters.
fn wrapped(text: &str, level: usize) -> String {
    let indent = "  ".repeat(level);
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent.len() + line.chars().count() + 1 + word.chars().count() > 100 {
            lines.push_str(&format!("{indent}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push_str(&format!("{indent}{line}\n"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "description": "What to do.", "required": ["rules"], "properties": {
            "apiVersion": {"type": "string", "enum": ["x/v1"]}, "kind": {"type": "string", "enum": ["Input"]},
            "mode": {"type": "string", "enum": ["Loud", "Quiet"], "default": "Loud", "description": "How."},
            "rules": {"type": "array", "description": "Each of them.", "items": {"type": "object",
                "required": ["name"], "properties": {
                    "name": {"type": "string", "description": "Its name."},
                    "more": {"type": "object", "properties": {"deep": {"type": "integer"}}},
                }}},
        }})
    }

    #[test]
    fn fields_are_listed_with_types_and_what_they_are_for() {
        let example = Some("step: a\ninput: {apiVersion: x/v1, kind: Input}\n");
        let contract = Contract { about: "Does it".to_owned(), example, ..Contract::default() };
        let expected = "FUNCTION: f v1.0.0\n\nDoes it.\n\nINPUT: Input (x/v1)\n\nWhat to do.\n\nFIELDS:\n  \
                        mode <Loud | Quiet, default \"Loud\">\n    How.\n  rules <list of object, required>\n    Each of them.\n    \
                        more <object>\n      …\n    name <string, required>\n      Its name.\n\nEXAMPLE, a step of a pipeline:\n\n  step: a\n  \
                        input: {apiVersion: x/v1, kind: Input}\n";
        assert_eq!(whole("f v1.0.0", &contract, Some(&schema()), false), expected);
    }

    #[test]
    fn path_leads_through_lists() {
        let schema = schema();
        let found = find(&schema, "rules.more").unwrap();
        assert_eq!(
            field("rules.more", found, false),
            "FIELD: rules.more <object>\n\n\nFIELDS:\n  deep <integer>\n"
        );
    }

    #[test]
    fn wrong_path_is_told_with_what_there_is() {
        assert_eq!(find(&schema(), "rules.nme").unwrap_err(), "`rules` has no field `nme`, only more, name");
        assert_eq!(find(&schema(), "mode.x").unwrap_err(), "`mode` has no fields");
    }
}
