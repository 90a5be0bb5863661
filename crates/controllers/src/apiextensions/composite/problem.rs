//! Why a composite resource could not be composed.

use ferroplane_api::{Cause, FailurePoint, meta};
use ferroplane_client::Error;
use ferroplane_engine::{Failure, Outcome, Trouble, Wanted, chain};

use crate::runtime::refused::cause_of;

/// What stands in a condition instead of a refusal that would never be the same twice.
const UNSTABLE: &str = "cannot compose resources: the API server finds an object invalid; its events say why";

/// Why a composite resource could not be composed.
#[derive(Debug)]
pub(super) enum Problem {
    /// Somebody else was faster: look again, and tell nobody.
    Conflict,
    /// It is gone.
    Gone,
    /// It is too early: wait for what is on its way, and tell nobody.
    Early,
    /// Something that the user should know.
    Trouble(Box<Report>),
}

/// What to tell the user.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) trouble: Trouble,
    /// What functions had said by then.
    pub(super) outcome: Option<Box<Outcome>>,
    /// What we may not do, if that is the trouble.
    pub(super) denied: Option<String>,
    /// The step that composed what could not be applied.
    step: Option<String>,
    /// Whether that is a Secret: what the API server says about it may quote it.
    is_about_secret: bool,
}

impl Report {
    fn new(trouble: Trouble) -> Self {
        Self { trouble, outcome: None, denied: None, step: None, is_about_secret: false }
    }

    /// The step that it is about, if it is about one.
    pub(super) fn step(&self) -> Option<&str> {
        let failure = self.outcome.as_ref().and_then(|outcome| outcome.result.as_ref().err());
        failure.and_then(Failure::step).or(self.step.as_deref())
    }

    /// What may stand in a log, which more people see than the object.
    pub(super) fn log_message(&self) -> &str {
        if self.is_about_secret {
            return "a composed Secret could not be applied; the events of the composite resource say why";
        }
        &self.trouble.message
    }
}

impl From<Trouble> for Problem {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(Box::new(Report::new(trouble)))
    }
}

impl Problem {
    pub(super) fn new(
        reason: &'static str,
        failure: impl Into<FailurePoint>,
        message: impl Into<String>,
    ) -> Self {
        Self::from(Trouble::new(reason, message, failure))
    }

    /// The API server would not have it.
    pub(super) fn refused(reason: &'static str, what: &str, error: &Error) -> Self {
        if error.is_conflict() {
            return Self::Conflict;
        }
        let message = format!("{what}: {}", chain(error));
        // Such an error quotes values and lists mistakes in any order. In a condition it would change, and wake the composite
        // resource, for ever.
        let stable_message = error.is_invalid().then(|| UNSTABLE.to_owned());
        Self::from(Trouble { stable_message, ..Trouble::new(reason, message, cause_of(error)) })
    }

    /// The same, with what functions had said by then.
    pub(super) fn after(mut self, outcome: Outcome) -> Self {
        if let Self::Trouble(report) = &mut self {
            report.outcome = Some(Box::new(outcome));
        }
        self
    }

    /// The same, with what it is about.
    pub(super) fn about(mut self, wanted: &Wanted) -> Self {
        if let Self::Trouble(report) = &mut self {
            report.step = Some(wanted.step.clone());
            report.trouble.failure = point_of(report.trouble.failure.cause, wanted);
            report.is_about_secret = meta::kind(&wanted.object) == "Secret";
        }
        self
    }

    /// The same, with what we may not do.
    pub(super) fn with_denial(mut self, denied: Option<String>) -> Self {
        if let Self::Trouble(report) = &mut self {
            if denied.is_some() {
                report.trouble.failure.cause = Cause::PermissionDenied;
            }
            report.denied = denied;
        }
        self
    }
}

/// What failed of a composed resource.
pub(super) fn point_of(cause: Cause, wanted: &Wanted) -> FailurePoint {
    FailurePoint::new(cause).in_step(&wanted.step).of_resource(&wanted.resource)
}
