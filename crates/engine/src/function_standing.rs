//! What becomes of a Function: what is called when a step names it, or why nothing is.
//!
//! No package is installed or run: a Function is built in, served by somebody, or cannot be called. It says which in its own
//! conditions, so that nobody has to call it to find out.

use ferroplane_api::{Cause, Condition, Status};

use crate::versions::Replacement;

/// The reasons that only we give. A condition with another reason is somebody else's: a package manager's.
const REASONS: [&str; 5] =
    ["BuiltIn", "Development", "RevisionActive", "FunctionNotRunnable", ferroplane_api::NOT_SUPPORTED];

/// What is called when a step names a Function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionStanding<'a> {
    /// Something that is built in.
    BuiltIn(Replacement),
    /// What its developer serves at this address.
    Development { target: &'a str },
    /// An active revision, which somebody serves if it has an endpoint.
    Revision { name: &'a str, has_endpoint: bool },
    /// There are revisions, and none of them is active.
    Inactive,
    /// Nothing.
    NotRun { package: &'a str, reason: String },
}

impl FunctionStanding<'_> {
    /// What failed, if nothing can be called.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::BuiltIn(_) | Self::Development { .. } | Self::Revision { has_endpoint: true, .. } => None,
            Self::Revision { .. } => Some(Cause::FunctionNotConnectable),
            Self::Inactive => Some(Cause::FunctionInactive),
            Self::NotRun { .. } => Some(Cause::FunctionNotRunnable),
        }
    }

    /// What users should know about it.
    pub fn message(&self) -> String {
        match self {
            Self::BuiltIn(Replacement { function, version: Some(version) }) => {
                format!("runs built in: `{function}` {version} of Ferroplane does what the package does")
            }
            Self::BuiltIn(Replacement { function, version: None }) => {
                format!("runs built in: `{function}` of Ferroplane takes the place of the package")
            }
            Self::Development { target } => format!("is called at {target}, as its annotations say"),
            Self::Revision { name, has_endpoint: true } => format!("is called at the endpoint of `{name}`"),
            Self::Revision { name, .. } => format!("its active revision `{name}` has no endpoint"),
            Self::Inactive => "none of its revisions is active".to_owned(),
            Self::NotRun { package, reason } => format!("nothing runs package `{package}`: {reason}"),
        }
    }

    /// The conditions that a package manager would write.
    pub fn conditions(&self) -> [Condition; 2] {
        let (message, cause) = (self.message(), self.cause());
        let reason = match self {
            Self::BuiltIn(_) => "BuiltIn",
            Self::Development { .. } => "Development",
            Self::Revision { has_endpoint: true, .. } => "RevisionActive",
            Self::Revision { .. } | Self::Inactive | Self::NotRun { .. } => "FunctionNotRunnable",
        };
        ["Installed", "Healthy"].map(|kind| {
            let status = if cause.is_none() { Status::True } else { Status::False };
            let condition = Condition::new(kind, status, reason).with_message(&message);
            match cause {
                Some(cause) => condition.with_failure(cause.into()),
                None => condition,
            }
        })
    }
}

/// Whether a condition of a kind that nothing acts on, or of a Function, is one that we have written.
pub fn is_own_condition(condition: &Condition) -> bool {
    REASONS.contains(&condition.reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::NotReplaced;

    #[test]
    fn function_that_cannot_be_called_says_what_helps() {
        let why = NotReplaced::NotCovered { function: "f".to_owned(), covered: vec![">=1".to_owned()] };
        let standing = FunctionStanding::NotRun { package: "a.b/c/f:v0.1.0", reason: why.remedy() };
        let [installed, healthy] = standing.conditions();
        assert_eq!((installed.status, healthy.status), (Status::False, Status::False));
        assert_eq!(healthy.cause(), Some(Cause::FunctionNotRunnable));
        for words in ["`a.b/c/f:v0.1.0`", "covers >=1", "ferroplane.io/native", "Development"] {
            assert!(healthy.message.contains(words), "{}", healthy.message);
        }
    }

    #[test]
    fn every_standing_has_conditions_that_are_known_to_be_ours() {
        let replacement = Replacement { function: "f".to_owned(), version: None };
        let standings = [
            FunctionStanding::BuiltIn(replacement),
            FunctionStanding::Development { target: "localhost:9443" },
            FunctionStanding::Revision { name: "f-1", has_endpoint: true },
            FunctionStanding::Revision { name: "f-1", has_endpoint: false },
            FunctionStanding::Inactive,
            FunctionStanding::NotRun { package: "p", reason: "no".to_owned() },
        ];
        for standing in standings {
            for condition in standing.conditions() {
                assert!(is_own_condition(&condition), "{condition:?}");
                assert_eq!(condition.status == Status::True, condition.cause().is_none(), "{condition:?}");
            }
        }
        assert!(!is_own_condition(&Condition::new("Healthy", Status::True, "HealthyPackageRevision")));
    }
}
