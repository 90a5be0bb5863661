//! Decides which program runs when a step calls a Function, or why none does.
//!
//! Where packages are not installed, a Function is built in, served at an address or by a local program, or cannot be called. Its
//! conditions report that, so that users need not call it to find out.

use std::net::SocketAddr;

use ferroplane_api::{Cause, Condition, Status};

use crate::versions::Replacement;
use crate::wording::capitalised;

/// The reasons that only we set. A condition with another reason belongs to a package manager.
const REASONS: [&str; 9] = [
    "BuiltIn",
    "Development",
    "RevisionActive",
    "FunctionNotRunnable",
    "CommandRunning",
    "CommandStarting",
    "CommandFailed",
    "CommandNotRun",
    ferroplane_api::NOT_SUPPORTED,
];

/// The text about a command that is not run, in conditions and in errors.
pub const COMMAND_IS_NOT_RUN: &str = "the command in the annotation render.ferroplane.io/command is not run: only Functions in files that are given to \
     `ferroplane up FILES --allow-commands` start programs";
/// The text about a command of a Function that is served without it.
pub const COMMAND_IS_NOT_NEEDED: &str = "the command in the annotation render.ferroplane.io/command is not run: the Function is served without it";
/// The text about a command of a Function whose package has failed.
pub const COMMAND_DOES_NOT_HELP: &str = "the command in the annotation render.ferroplane.io/command is not run: the package of the Function counts";

/// What runs when a step calls a Function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionStanding<'a> {
    /// A built-in function.
    BuiltIn(Replacement),
    /// A program on this machine. Without a state, none was started for the command.
    Program { command: &'a str, state: Option<LocalProgram> },
    /// A server of its developer at this address.
    Development { target: &'a str },
    /// An active revision. It is served if it has an endpoint.
    Revision { name: &'a str, has_endpoint: bool },
    /// There are revisions, and none of them is active.
    Inactive,
    /// Nothing.
    NotRun { package: &'a str, reason: String },
}

/// The state of the program of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalProgram {
    Starting,
    /// It serves at this address. Another instance of it may respond differently.
    Running {
        address: SocketAddr,
        instance: String,
    },
    /// It ended or could not be started, for this reason.
    Down(String),
}

impl LocalProgram {
    /// Why the function cannot be called, if it cannot. Without times: it becomes part of conditions.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Starting => Some("its program is being started".to_owned()),
            Self::Running { .. } => None,
            Self::Down(why) => Some(format!("its program does not run: {why}")),
        }
    }
}

impl FunctionStanding<'_> {
    /// The cause, if the function cannot be called.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::BuiltIn(_)
            | Self::Development { .. }
            | Self::Revision { has_endpoint: true, .. }
            // A program that is being started has not failed.
            | Self::Program { state: Some(LocalProgram::Starting | LocalProgram::Running { .. }), .. } => None,
            Self::Program { .. } | Self::Revision { .. } => Some(Cause::FunctionNotConnectable),
            Self::Inactive => Some(Cause::FunctionInactive),
            Self::NotRun { .. } => Some(Cause::FunctionNotRunnable),
        }
    }

    /// The message for users.
    pub fn message(&self) -> String {
        match self {
            Self::BuiltIn(Replacement { function, version: Some(version) }) => {
                format!(
                    "The function is built in: `{function}` {version} of Ferroplane does what the package \
                     does"
                )
            }
            Self::BuiltIn(Replacement { function, version: None }) => {
                format!("The function is built in: `{function}` of Ferroplane takes the place of the package")
            }
            Self::Program { command, state: Some(LocalProgram::Running { address, .. }) } => {
                format!("`{command}` serves the function at {address}")
            }
            Self::Program { state: Some(LocalProgram::Starting), .. } => String::new(),
            Self::Program { state: Some(LocalProgram::Down(why)), .. } => why.clone(),
            Self::Program { state: None, .. } => capitalised(COMMAND_IS_NOT_RUN),
            Self::Development { target } => {
                format!("The function is called at {target}, as its annotations say")
            }
            Self::Revision { name, has_endpoint: true } => {
                format!("The function is called at the endpoint of `{name}`")
            }
            Self::Revision { name, .. } => format!("The active revision `{name}` has no endpoint"),
            Self::Inactive => "None of the revisions is active".to_owned(),
            Self::NotRun { package, reason } => format!("Nothing runs package `{package}`: {reason}"),
        }
    }

    /// The conditions that a package manager would set. A program is not installed: it is only healthy or not.
    pub fn conditions(&self) -> Vec<Condition> {
        let (message, cause) = (self.message(), self.cause());
        let kinds: &[&str] =
            if matches!(self, Self::Program { .. }) { &["Healthy"] } else { &["Installed", "Healthy"] };
        let condition = |kind: &&str| {
            let condition = Condition::new(kind, self.status(), self.reason()).with_message(&message);
            match cause {
                Some(cause) => condition.with_failure(cause.into()),
                None => condition,
            }
        };
        kinds.iter().map(condition).collect()
    }

    fn status(&self) -> Status {
        match self {
            Self::Program { state: Some(LocalProgram::Starting), .. } => Status::Unknown,
            _ if self.cause().is_none() => Status::True,
            _ => Status::False,
        }
    }

    /// The reason of the conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BuiltIn(_) => "BuiltIn",
            Self::Program { state: Some(LocalProgram::Starting), .. } => "CommandStarting",
            Self::Program { state: Some(LocalProgram::Running { .. }), .. } => "CommandRunning",
            Self::Program { state: Some(LocalProgram::Down(_)), .. } => "CommandFailed",
            Self::Program { state: None, .. } => "CommandNotRun",
            Self::Development { .. } => "Development",
            Self::Revision { has_endpoint: true, .. } => "RevisionActive",
            Self::Revision { .. } | Self::Inactive | Self::NotRun { .. } => "FunctionNotRunnable",
        }
    }
}

/// The message for a revision that runs built in, and for others that run the same code.
pub fn built_in_message(replacement: &Replacement, twins: &[String]) -> String {
    let message = FunctionStanding::BuiltIn(replacement.clone()).message();
    if twins.is_empty() {
        return message;
    }
    let mut twins: Vec<_> = twins.iter().map(|name| format!("`{name}`")).collect();
    // Sorted: the message is part of a condition, which must not change with the order in which they were found.
    twins.sort();
    let runs = if twins.len() == 1 { "runs" } else { "run" };
    format!("{message}; {} {runs} the same code, so that nothing changes between them", twins.join(", "))
}

/// Whether we have written this condition, on a Function or on a kind that no controller handles.
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
        let conditions = standing.conditions();
        let [installed, healthy] = &conditions[..] else { panic!("{conditions:?}") };
        assert_eq!((installed.status, healthy.status), (Status::False, Status::False));
        assert_eq!(healthy.cause(), Some(Cause::FunctionNotRunnable));
        for words in ["`a.b/c/f:v0.1.0`", "covers >=1", "ferroplane.io/native", "Development"] {
            assert!(healthy.message.contains(words), "{}", healthy.message);
        }
    }

    #[test]
    fn every_standing_has_conditions_that_are_known_to_be_ours() {
        let replacement = Replacement { function: "f".to_owned(), version: None };
        let address = SocketAddr::from(([127, 0, 0, 1], 9443));
        let running = LocalProgram::Running { address, instance: "1".to_owned() };
        let program = |state| FunctionStanding::Program { command: "./f", state };
        let standings = [
            program(None),
            program(Some(LocalProgram::Starting)),
            program(Some(running)),
            program(Some(LocalProgram::Down("it ended".to_owned()))),
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
                let is_failure_of_program = condition.reason == "CommandFailed";
                let is_sentence = !condition.message.starts_with(char::is_lowercase);
                assert!(is_sentence || is_failure_of_program, "{condition:?}");
                assert_eq!(condition.status == Status::False, condition.cause().is_some(), "{condition:?}");
            }
        }
        assert!(!is_own_condition(&Condition::new("Healthy", Status::True, "HealthyPackageRevision")));
    }
}
