//! The fields that patches name, of composite and composed resources: do they exist?

use ferroplane_api::Object;
use ferroplane_schema::structural::{Additional, Props};
use serde_json::Value;

use super::composed::ComposedKind;
use super::finding::{Problem, ProblemKind};
use super::kinds::Kinds;
use crate::manifest::Manifest;

/// A kind of composite resource.
#[derive(Debug, Clone, Copy)]
pub(super) struct Composite<'k> {
    pub(super) kind: &'k str,
    pub(super) schema: &'k Props,
    pub(super) is_namespaced: bool,
}

/// What patches in an input of patch-and-transform name that composite resources do not have.
pub(super) fn check(input: &Object, at: &str, composite: Composite<'_>, manifest: &Manifest) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut look = |holder: &Value, at: &str| {
        let patches = holder.get("patches").and_then(Value::as_array);
        for (index, patch) in patches.into_iter().flatten().enumerate() {
            for (field, path) in named(patch) {
                let at = format!("{at}.patches[{index}].{field}");
                problems.extend(missing(composite.schema, path).map(|missing| {
                    let message = format!("{at}: {} has no field `{missing}`", composite.kind);
                    Problem::new(ProblemKind::FunctionInput, manifest, &at, message)
                }));
            }
        }
    };
    for list in ["resources", "patchSets"] {
        let holders = input.get(list).and_then(Value::as_array);
        for (index, holder) in holders.into_iter().flatten().enumerate() {
            look(holder, &format!("{at}.{list}[{index}]"));
        }
    }
    if let Some(environment) = input.get("environment") {
        look(environment, &format!("{at}.environment"));
    }
    problems
}

/// What patches name that composed resources do not have: what they set, which an API server refuses, and what they read.
pub(super) fn check_composed(
    input: &Object,
    at: &str,
    kinds: &Kinds,
    manifest: &Manifest,
) -> (Vec<Problem>, Vec<Problem>) {
    let (mut set, mut read) = (Vec::new(), Vec::new());
    for (index, resource) in items(input.get("resources")) {
        let base = resource.get("base").and_then(Value::as_object);
        let Some(kind) = base.and_then(|base| ComposedKind::of(base, kinds)) else { continue };
        for (place, patch) in patches_of(resource, &format!("resources[{index}]"), input) {
            for (field, path, is_set) in named_of_composed(patch) {
                let at = format!("{at}.{place}.{field}");
                let Some(missing) = kind.missing(path) else { continue };
                let message = format!("{at}: {} has no field `{missing}`", kind.kind);
                let problem = Problem::new(ProblemKind::FunctionInput, manifest, &at, message);
                let problems: &mut Vec<Problem> = if is_set { &mut set } else { &mut read };
                // A patch set is used by several resources.
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
    }
    (set, read)
}

fn items(list: Option<&Value>) -> impl Iterator<Item = (usize, &Value)> {
    list.and_then(Value::as_array).into_iter().flatten().enumerate()
}

/// The patches of a template with where they are written, those of its patch sets included.
pub(super) fn patches_of<'i>(
    template: &'i Value,
    place: &str,
    input: &'i Object,
) -> Vec<(String, &'i Value)> {
    let mut found = Vec::new();
    for (index, patch) in items(template.get("patches")) {
        if patch.get("type").is_none_or(|kind| kind != "PatchSet") {
            found.push((format!("{place}.patches[{index}]"), patch));
            continue;
        }
        let is_named = |(_, set): &(usize, &Value)| set.get("name") == patch.get("patchSetName");
        for (set_index, set) in items(input.get("patchSets")).filter(is_named) {
            let patches = items(set.get("patches"));
            found.extend(
                patches.map(|(index, patch)| (format!("patchSets[{set_index}].patches[{index}]"), patch)),
            );
        }
    }
    found
}

/// The fields of a patch that name fields of the composed resource, those, and whether they are set.
pub(super) fn named_of_composed(patch: &Value) -> Vec<(String, &str, bool)> {
    let text = |field: &str| Some((field.to_owned(), patch.get(field)?.as_str()?));
    match patch.get("type").and_then(Value::as_str).unwrap_or("FromCompositeFieldPath") {
        "FromCompositeFieldPath" | "FromEnvironmentFieldPath" => {
            let named = text("toFieldPath").or_else(|| text("fromFieldPath"));
            named.into_iter().map(|(field, path)| (field, path, true)).collect()
        }
        "CombineFromComposite" | "CombineFromEnvironment" => {
            text("toFieldPath").into_iter().map(|(field, path)| (field, path, true)).collect()
        }
        "ToCompositeFieldPath" | "ToEnvironmentFieldPath" => {
            text("fromFieldPath").into_iter().map(|(field, path)| (field, path, false)).collect()
        }
        "CombineToComposite" | "CombineToEnvironment" => {
            variables(patch).into_iter().map(|(field, path)| (field, path, false)).collect()
        }
        _ => Vec::new(),
    }
}

/// The fields that a patch combines.
fn variables(patch: &Value) -> Vec<(String, &str)> {
    let from = items(patch.pointer("/combine/variables")).filter_map(|(index, named)| {
        let name = named.get("fromFieldPath")?.as_str()?;
        Some((format!("combine.variables[{index}].fromFieldPath"), name))
    });
    from.collect()
}

/// The fields of a patch that name fields of the composite resource, and those.
fn named(patch: &Value) -> Vec<(String, &str)> {
    let text = |field: &str| Some((field.to_owned(), patch.get(field)?.as_str()?));
    match patch.get("type").and_then(Value::as_str).unwrap_or("FromCompositeFieldPath") {
        "FromCompositeFieldPath" => text("fromFieldPath").into_iter().collect(),
        "ToCompositeFieldPath" => text("toFieldPath").or_else(|| text("fromFieldPath")).into_iter().collect(),
        "CombineToComposite" => text("toFieldPath").into_iter().collect(),
        "CombineFromComposite" => variables(patch),
        _ => Vec::new(),
    }
}

/// The part of a path up to the first field that the schema does not have, if there is one. Metadata has no schema.
pub(super) fn missing<'p>(schema: &Props, path: &'p str) -> Option<&'p str> {
    let mut here = schema;
    for (step, end) in steps(path) {
        // Only the first step ends at its own length: a field `metadata` further down has to be in the
        // schema.
        if end == step.len() && ["apiVersion", "kind", "metadata"].contains(&step) {
            return None;
        }
        if here.preserves_unknown_fields() || here.embedded_resource {
            return None;
        }
        let is_anywhere = step == "*" || step.bytes().all(|byte| byte.is_ascii_digit());
        let item = here.item().filter(|_| is_anywhere);
        let every =
            here.additional_schema().or_else(|| Some(here.properties().next()?.1)).filter(|_| step == "*");
        match item.or_else(|| here.property(step)).or_else(|| here.additional_schema()).or(every) {
            Some(below) => here = below,
            None if here.additional_properties.as_ref().is_some_and(Additional::allows) => return None,
            None => return path.get(..end),
        }
    }
    None
}

/// The steps of a path such as `spec.items[0].labels[example.org/team]`, and where in the path each ends.
pub(super) fn steps(path: &str) -> Vec<(&str, usize)> {
    let mut steps = Vec::new();
    let mut position = 0;
    while let Some(rest) = path.get(position..).filter(|rest| !rest.is_empty()) {
        if let Some(inner) = rest.strip_prefix('[') {
            let length = inner.find(']').unwrap_or(inner.len());
            position = (position + length + 2).min(path.len());
            steps.push((inner[..length].trim_matches(['\'', '"']), position));
        } else {
            let start = usize::from(rest.starts_with('.'));
            let length = rest[start..].find(['.', '[']).unwrap_or(rest.len() - start);
            position += start + length;
            if length > 0 {
                steps.push((&rest[start..start + length], position));
            } else if start == 0 {
                break;
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Props {
        let text = json!({"type": "string"});
        let spec = json!({"type": "object", "properties": {
            "size": text,
            "labels": {"type": "object", "additionalProperties": text},
            "items": {"type": "array", "items": {"type": "object", "properties": {"name": text}}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        Props::decode(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
    }

    #[test]
    fn fields_that_are_not_there_are_found() {
        for (path, expected) in [
            ("spec.size", None),
            ("spec[size]", None),
            ("spec['size']", None),
            ("spec.labels[example.org/team]", None),
            ("spec.items[0].name", None),
            ("spec.items[*].name", None),
            ("spec.open.a.b[3]", None),
            ("metadata.labels[a.b/c]", None),
            ("spec.siez", Some("spec.siez")),
            ("spec.size.unit", Some("spec.size.unit")),
            ("spec.items.name", Some("spec.items.name")),
            ("spec.items[0].nmae.x", Some("spec.items[0].nmae")),
            ("status.ready", Some("status")),
            ("spec.metadata", Some("spec.metadata")),
        ] {
            assert_eq!(missing(&schema(), path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_ends(path in "[a-z.\\[\\]*'0-9é]{0,40}") {
            let _ = missing(&schema(), &path);
        }
    }
}
