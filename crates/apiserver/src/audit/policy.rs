//! What the audit log holds: a `Policy` of `audit.k8s.io/v1`, as kube-apiserver reads it. The first rule that matches decides.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/audit/policy` (checker.go, reader.go) and `pkg/apis/audit/validation`.

mod document;
mod rule;

use std::str::FromStr;

use self::document::PolicyDocument;
use self::rule::Rule;
use super::event::{Level, Stage};
use crate::auth::identity::Identity;
use crate::request::ResourcePath;

/// The default policy.
pub const DEFAULT: &str = include_str!("policy/default.yaml");

/// On a policy: at which level requests are logged that were refused with 401 or 403, even if no rule asks for it.
const REFUSALS: &str = "audit.ferroplane.io/refusals";

/// Which requests are logged, and how much of each.
#[derive(Debug, Clone)]
pub struct Policy {
    rules: Vec<Rule>,
    refusals: Level,
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("cannot read the policy: {0}")]
    Syntax(String),
    /// All that is wrong with it, with the field that each is about.
    #[error("the policy is invalid: {}", .0.join("; "))]
    Invalid(Vec<String>),
}

/// What a policy says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) level: Level,
    pub(crate) omitted: Stages,
    pub(crate) omits_managed_fields: bool,
}

/// Some of the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stages(u8);

/// What rules look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'r> {
    /// None if the user is not known.
    pub(crate) user: Option<&'r Identity>,
    pub(crate) verb: &'r str,
    pub(crate) path: &'r str,
    pub(crate) resource: Option<&'r ResourcePath>,
}

impl Stages {
    pub(crate) fn contains(self, stage: Stage) -> bool {
        self.0 & stage.bit() != 0
    }

    fn with(self, stage: Stage) -> Self {
        Self(self.0 | stage.bit())
    }

    fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

impl Decision {
    const NOTHING: Self = Self { level: Level::None, omitted: Stages(0), omits_managed_fields: false };

    /// Whether there is an event for a stage.
    pub(crate) fn includes(self, stage: Stage) -> bool {
        self.level > Level::None && !self.omitted.contains(stage)
    }
}

impl Policy {
    /// What is to be logged of a request.
    pub(crate) fn decide(&self, request: &Attributes<'_>) -> Decision {
        let rule = self.rules.iter().find(|rule| rule.matches(request));
        // A request that no rule matches is not logged, as in kube-apiserver.
        rule.map_or(Decision::NOTHING, |rule| rule.decision)
    }

    /// What is to be logged of a request that was refused, if nothing else asks for it.
    pub(crate) fn decide_refused(&self) -> Decision {
        Decision { level: self.refusals, ..Decision::NOTHING }
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let document: PolicyDocument =
            serde_saphyr::from_str(text).map_err(|error| PolicyError::Syntax(error.to_string()))?;
        document.compile()
    }
}

impl Default for Policy {
    fn default() -> Self {
        DEFAULT.parse().expect("a test reads the policy that is built in")
    }
}

#[cfg(test)]
mod tests;
