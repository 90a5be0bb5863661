//! The outcome of a pipeline run.

use std::time::Duration;

use ferroplane_api::{Condition, FailurePoint};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::SchemaSelector;

use crate::failure::Failure;
use crate::inputs::Requirement;
use crate::pipeline::Callee;
use crate::plan::Plan;

/// The result of a pipeline run. What functions returned is kept even if the run failed.
#[derive(Debug)]
pub struct Outcome {
    pub result: Result<Plan, Failure>,
    /// Results of functions and findings of the engine, in order.
    pub events: Vec<Event>,
    /// Conditions that functions set, in order.
    pub conditions: Vec<FunctionCondition>,
    /// The objects that steps required: to be watched, and passed to the step in the next run.
    pub requirements: Vec<Requirement>,
    /// The schemas that steps asked for.
    pub schemas: Vec<SchemaSelector>,
    /// The context after the last step that ran.
    pub context: Option<Struct>,
    /// The shortest time for which a response is valid. None: until something changes.
    pub ttl: Option<Duration>,
    /// The steps that ran, in order.
    pub ran: Vec<Ran>,
    /// The outputs of steps, in order. Only operations keep them.
    pub outputs: Vec<StepOutput>,
}

/// The output of a step.
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
    /// The version that was called, if the function has several.
    pub callee: Option<Callee>,
    /// How often the function was called until its requirements were met.
    pub calls: u32,
}

/// An event about the object that the pipeline runs for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    pub reason: String,
    pub message: String,
    /// The step that reported it, where the message alone does not show that.
    pub detail: Option<String>,
    pub target: Target,
    /// The cause, if the event reports a failure.
    pub failure: Option<FailurePoint>,
}

impl Event {
    /// An event for the composite resource alone.
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

    /// An event for the composite resource about a failure.
    pub fn failure(reason: &str, message: impl Into<String>, failure: FailurePoint) -> Self {
        Self { failure: Some(failure), ..Self::new(EventKind::Warning, reason, message) }
    }

    /// The message with the step that reported it.
    pub fn detailed(&self) -> String {
        match &self.detail {
            // Crossplane puts the step before the message; otherwise events of two steps would look the same.
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

/// The objects that get an event.
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
