//! What a pipeline run came to.

use std::time::Duration;

use ferroplane_api::{Condition, FailurePoint};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::SchemaSelector;

use crate::failure::Failure;
use crate::inputs::Requirement;
use crate::pipeline::Callee;
use crate::plan::Plan;

/// What a pipeline run came to. What functions said is kept even when the run failed.
#[derive(Debug)]
pub struct Outcome {
    pub result: Result<Plan, Failure>,
    /// What functions had to say, and what the engine noticed, in order.
    pub events: Vec<Event>,
    /// Conditions that functions set, in order.
    pub conditions: Vec<FunctionCondition>,
    /// The resources every step needed: to be watched, and handed to the step the next time.
    pub requirements: Vec<Requirement>,
    /// The schemas that steps asked for.
    pub schemas: Vec<SchemaSelector>,
    /// What the last step that ran left in the context.
    pub context: Option<Struct>,
    /// The shortest time for which any answer holds. Nothing: until something changes.
    pub ttl: Option<Duration>,
    /// The steps that ran, in order.
    pub ran: Vec<Ran>,
    /// What steps have to say as data, in order. Only operations keep it.
    pub outputs: Vec<StepOutput>,
}

/// What a step has to say as data.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    pub step: String,
    pub output: Struct,
}

/// A step that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub step: String,
    pub function: String,
    /// Which version it was, if there are several.
    pub callee: Option<Callee>,
    /// How often the function was called before it had all it asked for.
    pub calls: u32,
}

/// Something to tell the user about a composite resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    pub reason: String,
    pub message: String,
    /// Who said it, for those who cannot tell otherwise.
    pub detail: Option<String>,
    pub target: Target,
    /// What failed, if the event tells of a failure.
    pub failure: Option<FailurePoint>,
}

impl Event {
    /// Something to tell the composite resource alone.
    pub fn new(kind: EventKind, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.to_owned(),
            message: message.into(),
            detail: None,
            target: Target::Composite,
            failure: None,
        }
    }

    /// A failure to tell the composite resource of.
    pub fn failure(reason: &str, message: impl Into<String>, failure: FailurePoint) -> Self {
        Self { failure: Some(failure), ..Self::new(EventKind::Warning, reason, message) }
    }

    /// The message with who said it.
    pub fn detailed(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{detail}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Normal,
    Warning,
}

impl EventKind {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Composite,
    CompositeAndClaim,
}

/// A condition that a function set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCondition {
    pub condition: Condition,
    pub target: Target,
}
