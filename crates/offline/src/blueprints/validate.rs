//! Judges Blueprints in files as a control plane does when they are written, with the line of every mistake.

use std::fmt;

use ferroplane_api::Blueprint;
use ferroplane_engine::action::validate_blueprint;
use ferroplane_engine::versions::Version;
use ferroplane_functions::Library;
use serde_json::Value;

use super::BuiltIn;
use crate::manifest::{Located, Manifest};

const ACTION_FIELDS: [&str; 8] = [
    "name",
    "kind",
    "configMapNames",
    "secretNames",
    "inputArtifactNames",
    "outputArtifacts",
    "phases",
    "deferPhase",
];
const PHASE_FIELDS: [&str; 5] = ["func", "funcVersion", "name", "objects", "args"];

/// Something to say about a Blueprint.
#[derive(Debug)]
pub struct BlueprintFinding {
    pub severity: Severity,
    located: Located,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

impl fmt::Display for BlueprintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.located.fmt(f)
    }
}

/// Judge a Blueprint, as this release would. `is_strict`: a version that does not exist is an error.
pub fn validate(
    manifest: &Manifest,
    library: &Library,
    release: Option<&Version>,
    is_strict: bool,
) -> Vec<BlueprintFinding> {
    let mut findings = unknown_fields(manifest);
    let blueprint = match Blueprint::of(manifest.object()) {
        Ok(blueprint) => blueprint,
        Err(error) => {
            findings.push(finding(manifest, Severity::Error, &format!("actions: {error}")));
            return findings;
        }
    };
    let catalogue = match release {
        Some(release) => library.catalogue().at(release.clone()),
        None => library.catalogue().clone(),
    };
    let found = validate_blueprint(&blueprint, &catalogue, &BuiltIn(library), is_strict);
    findings.extend(found.errors.iter().map(|text| finding(manifest, Severity::Error, text)));
    findings.extend(found.warnings.iter().map(|text| finding(manifest, Severity::Warning, text)));
    findings
}

/// What is said begins with the path of a field.
fn finding(manifest: &Manifest, severity: Severity, text: &str) -> BlueprintFinding {
    let path = text.split_once(": ").map_or("", |(path, _)| path);
    let path = if path.starts_with("actions") { path } else { "actions" };
    let line = manifest.line_at(path);
    BlueprintFinding { severity, located: Located::new(manifest.source(), Some(line), text) }
}

/// API servers drop fields that they do not know, and a misspelt `funcVersion` calls another version.
fn unknown_fields(manifest: &Manifest) -> Vec<BlueprintFinding> {
    let mut findings = Vec::new();
    let mut check = |path: &str, value: &Value, known: &[&str]| {
        let fields = value.as_object().into_iter().flat_map(serde_json::Map::keys);
        for field in fields.filter(|field| !known.contains(&field.as_str())) {
            let known = known.join(", ");
            let text = format!("{path}.{field}: there is no such field: expected one of {known}");
            findings.push(finding(manifest, Severity::Error, &text));
        }
    };
    let actions = manifest.object().get("actions").and_then(Value::as_object);
    for (name, action) in actions.into_iter().flatten() {
        let path = format!("actions.{name}");
        check(&path, action, &ACTION_FIELDS);
        let phases = action["phases"].as_array().into_iter().flatten().enumerate();
        for (index, phase) in phases {
            check(&format!("{path}.phases[{index}]"), phase, &PHASE_FIELDS);
        }
        if let Some(phase) = action.get("deferPhase") {
            check(&format!("{path}.deferPhase"), phase, &PHASE_FIELDS);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Files;

    fn findings(text: &str, is_strict: bool) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blueprint.yaml");
        std::fs::write(&path, text).unwrap();
        let manifest = Files::default().load(&path).unwrap().remove(0);
        let library = Library::built_in().unwrap();
        let found = validate(&manifest, &library, None, is_strict);
        let prefix = format!("{}:", path.display());
        found.iter().map(|it| it.to_string().replace(&prefix, "")).collect()
    }

    fn blueprint(phase: &str) -> String {
        format!(
            "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {{name: b}}\nactions:\n  backup:\n    phases:\n    - {phase}\n"
        )
    }

    #[test]
    fn each_phase_is_judged_by_its_own_version() {
        let phase = |version: &str| {
            let args = "args: {operation: patch, patchType: merge, spec: \"{}\", objectReference: {}}";
            blueprint(&format!("{{func: KubeOps, name: a, funcVersion: {version}, {args}}}"))
        };
        assert_eq!(findings(&phase("v0.1.0"), false), Vec::<String>::new());
        let found = findings(&phase("v0.0.0"), false);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert!(only.starts_with("7: actions.backup.phases[0]"), "{only}");
        assert!(only.contains("`KubeOps` v0.0.0") && only.contains("`patchType`"), "{only}");
    }

    #[test]
    fn versions_that_do_not_exist_are_warned_about_or_refused() {
        let text =
            blueprint("{func: KubeOps, name: a, funcVersion: v9.9.9, args: {operation: create, spec: x}}");
        let found = findings(&text, false);
        assert!(found[0].contains("has no version v9.9.9: v0.0.0 runs instead"), "{found:?}");
        assert!(findings(&text, true)[0].contains("has no version v9.9.9: there is v0.0.0, v0.1.0"));
        let banana = blueprint("{func: KubeOps, name: a, funcVersion: banana, args: {operation: create}}");
        assert!(findings(&banana, false)[0].contains("`banana` is not a version"));
        let unknown = blueprint("{func: KubeOp, name: a, args: {}}");
        assert!(findings(&unknown, false)[0].contains("did you mean `KubeOps`?"));
    }

    #[test]
    fn fields_that_do_not_exist_are_found() {
        let text = blueprint("{func: KubeOps, name: a, funcversion: v0.1.0, args: {operation: create}}");
        assert!(
            findings(&text, false)[0]
                .starts_with("7: actions.backup.phases[0].funcversion: there is no such field")
        );
    }

    #[test]
    fn blueprint_that_cannot_be_read_is_told_with_its_line() {
        let text =
            "apiVersion: cr.kanister.io/v1alpha1\nkind: Blueprint\nmetadata: {name: b}\nactions: [1]\n";
        assert!(findings(text, false)[0].starts_with("4: actions: "), "{:?}", findings(text, false));
    }
}
