//! Warnings about the versions of functions that steps call. They are made once here, and each command and condition formats them.

use std::fmt;

use ferroplane_api::{CompositionSpec, Condition, Status};
use serde_json::{Value, json};

use crate::outcome::Ran;
use crate::pipeline::question;
use crate::resources::to_pipeline;
use crate::versions::{Advice, Advisory, Catalogue, Unresolved, resolve};

/// The condition that says whether all called versions will still exist in later releases.
const VERSIONS_CURRENT: &str = "FunctionVersionsCurrent";
/// How many warnings a condition lists before it only counts.
const LISTED: usize = 3;

/// A warning about the version that a step calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionWarning {
    pub step: String,
    pub function: String,
    /// The version that runs, or would run if it could.
    pub version: String,
    /// One word, for events and conditions.
    pub reason: &'static str,
    pub message: String,
    /// The release that no longer has the version.
    pub removed_in: Option<String>,
    /// What to call instead.
    pub replacement: Option<String>,
}

impl VersionWarning {
    pub(crate) fn new(step: &str, advisory: &Advisory) -> Self {
        let (version, removed_in, replacement) = match &advisory.advice {
            Advice::Deprecated { version, removed_in, replaced_by } => (version, removed_in, replaced_by),
            Advice::Fallback { used, .. } => (used, &None, &None),
        };
        Self {
            step: step.to_owned(),
            function: advisory.function.clone(),
            version: version.to_string(),
            reason: advisory.reason(),
            message: advisory.to_string(),
            removed_in: removed_in.as_ref().map(crate::versions::Version::plain),
            replacement: replacement.as_ref().map(ToString::to_string),
        }
    }

    /// A missing function may still be installed, so that it is no warning; a version that was removed never comes back.
    fn of_unresolved(step: &str, unresolved: &Unresolved) -> Option<Self> {
        let Unresolved::EndOfSupport { function, version, removed_in, replaced_by } = unresolved else {
            return None;
        };
        Some(Self {
            step: step.to_owned(),
            function: function.clone(),
            version: version.to_string(),
            reason: unresolved.reason(),
            message: unresolved.to_string(),
            removed_in: Some(removed_in.plain()),
            replacement: replaced_by.as_ref().map(ToString::to_string),
        })
    }

    /// The warning as it is written to a status.
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "step": self.step, "function": self.function, "version": self.version, "reason": self.reason,
            "message": self.message,
        });
        for (key, value) in [("removedIn", &self.removed_in), ("replacement", &self.replacement)] {
            if let Some(value) = value {
                json[key] = value.as_str().into();
            }
        }
        json
    }
}

impl fmt::Display for VersionWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step `{}`: {}", self.step, self.message)
    }
}

/// Warnings about the versions that the pipeline of a composition calls. An invalid pipeline has none.
pub fn version_warnings(spec: &Value, catalogue: &Catalogue) -> Vec<VersionWarning> {
    // `validate_pipeline` reports that a spec is invalid; this is about versions alone.
    let Ok(spec) = serde_json::from_value::<CompositionSpec>(spec.clone()) else { return Vec::new() };
    let mut warnings = Vec::new();
    for step in to_pipeline(&spec).iter() {
        match resolve(catalogue, &question(step)) {
            Ok(resolution) => {
                let advisories = resolution.advisories.iter();
                warnings.extend(advisories.map(|advisory| VersionWarning::new(&step.step, advisory)));
            }
            Err(unresolved) => warnings.extend(VersionWarning::of_unresolved(&step.step, &unresolved)),
        }
    }
    warnings
}

/// Warnings about the versions that ran.
pub(crate) fn warnings_of(ran: &[Ran]) -> Vec<VersionWarning> {
    let advisories = ran.iter().flat_map(|ran| {
        let advisories = ran.callee.iter().flat_map(|callee| &callee.advisories);
        advisories.map(|advisory| VersionWarning::new(&ran.step, advisory))
    });
    advisories.collect()
}

/// The condition for these warnings. None if there are no warnings and never were any.
pub fn versions_condition(warnings: &[VersionWarning], before: &[Condition]) -> Option<Condition> {
    let Some(first) = warnings.first() else {
        // A condition that was `False` once must become `True`, and not vanish: a client that waits for it would
        // wait for ever.
        let was_said = before.iter().any(|condition| condition.kind == VERSIONS_CURRENT);
        return was_said.then(|| Condition::new(VERSIONS_CURRENT, Status::True, "Current"));
    };
    let listed: Vec<_> = warnings.iter().take(LISTED).map(ToString::to_string).collect();
    let mut message = listed.join("; ");
    if warnings.len() > LISTED {
        message.push_str(&format!("; and {} more", warnings.len() - LISTED));
    }
    Some(Condition::new(VERSIONS_CURRENT, Status::False, first.reason).with_message(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::{Family, Lifecycle, Version};

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    /// A function whose v0.1.0 is deprecated in 0.3.0 and removed in 0.5.0.
    fn catalogue(release: &str) -> Catalogue {
        let old = Lifecycle {
            introduced_in: Some(version("0.1.0")),
            deprecated_in: Some(version("0.3.0")),
            removed_in: Some(version("0.5.0")),
            replaced_by: None,
        };
        let new = Lifecycle { introduced_in: Some(version("0.2.0")), ..Lifecycle::default() };
        let versions = [(version("v0.1.0"), old, true), (version("v0.2.0"), new, true)];
        let mut catalogue = Catalogue::new(version("0.3.0"));
        catalogue.add(Family::built_in("f", version("v0.2.0"), versions)).unwrap();
        catalogue.at(version(release))
    }

    fn warnings(release: &str, versions: &[&str]) -> Vec<VersionWarning> {
        let steps: Vec<_> = (0..)
            .zip(versions)
            .map(|(index, version)| json!({"step": format!("s{index}"), "functionRef": {"name": "f", "version": version}}))
            .collect();
        let spec = json!({"compositeTypeRef": {"apiVersion": "a/v1", "kind": "A"}, "mode": "Pipeline", "pipeline": steps});
        version_warnings(&spec, &catalogue(release))
    }

    #[test]
    fn deprecated_version_is_warned_of_with_when_it_goes_and_what_replaces_it() {
        let warnings = warnings("0.3.0", &["v0.1.0", "v0.2.0"]);
        let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert_eq!(
            warning.to_json(),
            json!({
                "step": "s0", "function": "f", "version": "v0.1.0", "reason": "FunctionVersionDeprecated",
                "message": "function `f` v0.1.0 is deprecated and will be removed in release 0.5.0: use v0.2.0 instead",
                "removedIn": "0.5.0", "replacement": "v0.2.0",
            })
        );
    }

    #[test]
    fn removed_version_is_warned_of_and_what_is_missing_is_not() {
        let warnings = warnings("0.5.0", &["v0.1.0", "v0.9.0"]);
        let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert_eq!((warning.step.as_str(), warning.reason), ("s0", "FunctionVersionEndOfSupport"));
        assert_eq!(version_warnings(&json!({"pipeline": 1}), &catalogue("0.3.0")), []);
    }

    #[test]
    fn condition_is_short_and_taken_back_only_where_it_was_said() {
        assert_eq!(versions_condition(&[], &[]), None);
        let said = versions_condition(&warnings("0.3.0", &["v0.1.0"; 5]), &[]).unwrap();
        assert_eq!((said.status, said.reason.as_str()), (Status::False, "FunctionVersionDeprecated"));
        assert!(said.message.starts_with("step `s0`: function `f` v0.1.0"), "{}", said.message);
        assert!(said.message.ends_with("; and 2 more"), "{}", said.message);
        let taken_back = versions_condition(&[], &[said]).unwrap();
        assert_eq!(taken_back.status, Status::True);
    }
}
