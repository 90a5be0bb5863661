//! Validates a Blueprint when it is written: each phase against the version that it would call.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_api::{Blueprint, BlueprintPhase};

use super::compile::{PhaseFunctions, question};
use super::function::PhaseFunction;
use crate::versions::{Catalogue, Unresolved, Version, resolve};

/// The result of validating a Blueprint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlueprintFindings {
    /// Mistakes because of which it cannot run.
    pub errors: Vec<String>,
    /// Warnings for its author.
    pub warnings: Vec<String>,
}

/// Validate a Blueprint. `is_strict`: a version that does not exist is an error.
pub fn validate_blueprint(
    blueprint: &Blueprint,
    catalogue: &Catalogue,
    functions: &dyn PhaseFunctions,
    is_strict: bool,
) -> BlueprintFindings {
    let mut validator = Validator { catalogue, functions, is_strict, findings: BlueprintFindings::default() };
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    if blueprint.actions.is_empty() {
        validator.findings.warnings.push("the Blueprint has no actions".to_owned());
    }
    for (name, action) in &blueprint.actions {
        let path = format!("actions.{name}");
        if action.phases.is_empty() && action.defer_phase.is_none() {
            validator.findings.errors.push(format!("{path}: an action needs a phase"));
        }
        for (index, phase) in action.phases.iter().enumerate() {
            validator.phase(&format!("{path}.phases[{index}]"), phase, &mut names);
        }
        if let Some(phase) = &action.defer_phase {
            validator.phase(&format!("{path}.deferPhase"), phase, &mut names);
        }
    }
    validator.findings
}

struct Validator<'a> {
    catalogue: &'a Catalogue,
    functions: &'a dyn PhaseFunctions,
    is_strict: bool,
    findings: BlueprintFindings,
}

impl Validator<'_> {
    fn phase<'p>(&mut self, path: &str, phase: &'p BlueprintPhase, names: &mut BTreeMap<&'p str, String>) {
        if phase.name.is_empty() {
            self.error(path, "a phase needs a name");
        } else if let Some(other) = names.insert(&phase.name, path.to_owned()) {
            self.error(
                path,
                &format!(
                    "{other} has the name `{}`, too: names of phases are unique in a Blueprint",
                    phase.name
                ),
            );
        }
        if let Some((function, version)) = self.resolve(path, phase) {
            self.arguments(path, phase, &*function, &version);
        }
    }

    fn resolve(&mut self, path: &str, phase: &BlueprintPhase) -> Option<(Arc<dyn PhaseFunction>, Version)> {
        match resolve(self.catalogue, &question(phase, "", self.is_strict)) {
            // The function may be installed after the Blueprint.
            Err(unresolved @ Unresolved::NotRunnable { .. }) => {
                self.findings.warnings.push(format!("{path}: {unresolved}"));
                None
            }
            Err(unresolved) => {
                self.error(path, &unresolved.to_string());
                None
            }
            Ok(resolution) => {
                let advisories = resolution.advisories.iter();
                self.findings.warnings.extend(advisories.map(|advisory| format!("{path}: {advisory}")));
                let version = resolution.record.version.clone().unwrap_or(Version::UNVERSIONED);
                let function = self.functions.phase_function(&phase.func, &version);
                if function.is_none() {
                    self.error(path, &format!("function `{}` cannot be called by phases", phase.func));
                }
                function.map(|function| (function, version))
            }
        }
    }

    fn arguments(
        &mut self,
        path: &str,
        phase: &BlueprintPhase,
        function: &dyn PhaseFunction,
        version: &Version,
    ) {
        // If a key is a template, its name is not known yet.
        let arguments = phase.args.iter().filter(|(name, _)| !name.contains("{{"));
        let arguments = arguments.map(|(name, value)| (name.clone(), value.clone())).collect();
        let has_templates = phase.args.keys().any(|name| name.contains("{{"));
        for mistake in function.argument_mistakes(&arguments) {
            // The template may supply the argument that is missing.
            let can_be_templated = has_templates && !arguments.contains_key(&mistake.argument);
            if !can_be_templated {
                self.error(path, &format!("function `{}` {version}: {mistake}", phase.func));
            }
        }
    }

    fn error(&mut self, path: &str, message: &str) {
        self.findings.errors.push(format!("{path}: {message}"));
    }
}
