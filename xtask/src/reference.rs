//! The reference in docs/reference: the fields of every kind, from the definitions in crates/api/crds, and every command and flag, which
//! the program itself prints.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use crate::shell::{cargo, program};

const DEFINITIONS: &str = "crates/api/crds";
const KINDS: &str = "docs/reference/kinds.md";
const DIRECTORY: &str = "docs/reference";

const OPENING: &str = "\
# Kinds

This page lists the kinds that every Ferroplane control plane serves, with their fields. `cargo xtask codegen` writes it from the definitions in
`crates/api/crds/`; `kubectl explain` shows the same. Kinds that your XRDs define are not here: use `kubectl explain` for them.

Fields that `metadata` has in Kubernetes are left out. `[]` stands for the items of a list, `[key]` for the values of a map.
";

/// Deeper fields are those of other kinds, such as the pods in a runtime configuration.
const DEEPEST: usize = 7;

/// Write the list of kinds, or with `check` only look. Returns what was not up to date.
pub(crate) fn write_kinds(root: &Path, check: bool) -> Result<Option<String>> {
    let mut definitions = Vec::new();
    for entry in fs::read_dir(root.join(DEFINITIONS)).with_context(|| format!("cannot list {DEFINITIONS}"))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let definition: Value =
            serde_saphyr::from_str(&text).with_context(|| format!("{} is not valid YAML", path.display()))?;
        definitions.push((path, definition));
    }
    definitions.sort_by(|(one, _), (other, _)| one.cmp(other));
    let page = page(definitions.iter().map(|(_, definition)| definition));
    let path = root.join(KINDS);
    if fs::read_to_string(&path).is_ok_and(|present| present == page) {
        return Ok(None);
    }
    if !check {
        fs::write(&path, page).with_context(|| format!("cannot write {KINDS}"))?;
    }
    Ok(Some(KINDS.to_owned()))
}

/// `cargo xtask reference`: everything in docs/reference. A test of the program checks what it prints.
pub(crate) fn run(root: &Path) -> Result<()> {
    write_kinds(root, false)?;
    // The features that everything else is built with, or the dependencies would be compiled once more.
    cargo(root, &["build", "--workspace", "--all-features", "--quiet", "--bin", "ferroplane"]).run()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut manual = program(&target.join("debug/ferroplane"));
    manual.current_dir(root).args(["man", "--format", "markdown", DIRECTORY]).run()
}

fn page<'a>(definitions: impl Iterator<Item = &'a Value>) -> String {
    let mut out = OPENING.to_owned();
    for definition in definitions {
        write_kind(definition, &mut out);
    }
    out
}

fn write_kind(definition: &Value, out: &mut String) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| {
        let words: Vec<_> = value.as_array().into_iter().flatten().map(text).collect();
        words.join(", ")
    };
    let names = &spec["names"];
    let _ = writeln!(out, "\n## {} ({})\n", text(&names["kind"]), text(&spec["group"]));
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let served: Vec<_> = versions.iter().map(|version| text(&version["name"])).collect();
    let Some(newest) = versions.iter().find(|version| version["storage"] == true).or(versions.last()) else {
        return;
    };
    let schema = &newest["schema"]["openAPIV3Schema"];
    if let Some(about) = schema["description"].as_str() {
        let _ = writeln!(out, "{}\n", escape(about));
    }
    let _ = writeln!(out, "- Versions: {}", served.join(", "));
    let _ = writeln!(out, "- Scope: {}", text(&spec["scope"]));
    let shorts = list(&names["shortNames"]);
    let plural = text(&names["plural"]);
    let shorts = if shorts.is_empty() { String::new() } else { format!(", {shorts}") };
    let _ = writeln!(out, "- Names for kubectl: {plural}{shorts}");
    write_fields(schema, &text(&newest["name"]), out);
}

fn write_fields(schema: &Value, version: &str, out: &mut String) {
    let mut rows = Vec::new();
    let properties = schema["properties"].as_object();
    for (name, field) in properties.into_iter().flatten() {
        if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            collect(name, field, requires(schema, name), 1, &mut rows);
        }
    }
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nFields of {version}:\n\n| Field | Type | Description |\n|---|---|---|");
    for row in rows {
        let _ = writeln!(out, "{row}");
    }
}

/// A row for a field, and rows for the fields in it.
fn collect(path: &str, field: &Value, is_required: bool, depth: usize, rows: &mut Vec<String>) {
    rows.push(format!("| `{path}` | {} | {} |", kind(field), about(field, is_required)));
    if depth == DEEPEST {
        return;
    }
    let (inner, suffix) = if field["items"].is_object() {
        (&field["items"], "[]")
    } else if field["additionalProperties"].is_object() {
        (&field["additionalProperties"], "[key]")
    } else {
        (field, "")
    };
    let empty = Map::new();
    for (name, below) in inner["properties"].as_object().unwrap_or(&empty) {
        let is_required = requires(inner, name);
        collect(&format!("{path}{suffix}.{name}"), below, is_required, depth + 1, rows);
    }
}

fn requires(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

fn kind(field: &Value) -> String {
    let of = |field: &Value| field["type"].as_str().unwrap_or("any").to_owned();
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match (field["items"].is_object(), field["additionalProperties"].is_object()) {
        (true, _) => format!("list of {}", of(&field["items"])),
        (_, true) => format!("map of {}", of(&field["additionalProperties"])),
        _ => of(field),
    }
}

fn about(field: &Value, is_required: bool) -> String {
    let mut sentences = Vec::new();
    sentences.extend(is_required.then(|| "Required.".to_owned()));
    sentences.extend(field["description"].as_str().map(escape));
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", plain(value))).collect();
        sentences.push(format!("One of {}.", values.join(", ")));
    }
    if !field["default"].is_null() {
        sentences.push(format!("Default: `{}`.", plain(&field["default"])));
    }
    sentences.join(" ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// In one line of a table.
fn escape(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "\\<")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_field_of_a_kind_is_a_row() {
        let definition = json!({"spec": {"group": "example.org", "scope": "Cluster",
        "names": {"kind": "App", "plural": "apps", "shortNames": ["a"]},
        "versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": {"description": "An app.",
            "required": ["spec"], "properties": {"kind": {"type": "string"}, "spec": {"type": "object",
                "properties": {
                    "size": {"type": "string", "description": "How\nlarge.", "enum": ["s", "l"], "default": "s"},
                    "zones": {"type": "array", "items": {"type": "object", "required": ["name"],
                        "properties": {"name": {"type": "string"}}}},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                }}}}}}]}});
        let expected = "
## App (example.org)

An app.

- Versions: v1
- Scope: Cluster
- Names for kubectl: apps, a

Fields of v1:

| Field | Type | Description |
|---|---|---|
| `spec` | object | Required. |
| `spec.labels` | map of string |  |
| `spec.size` | string | How large. One of `s`, `l`. Default: `s`. |
| `spec.zones` | list of object |  |
| `spec.zones[].name` | string | Required. |
";
        let mut rows = page([&definition].into_iter());
        let written = rows.split_off(OPENING.len());
        // Fields are in the order of the definition, or sorted if the reader of YAML does not keep it.
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&written), sorted(expected));
    }
}
