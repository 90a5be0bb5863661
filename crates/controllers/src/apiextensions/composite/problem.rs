//! Why a composite resource could not be composed.

use ferroplane_api::{Cause, FailurePoint, meta};
use ferroplane_client::Error;
use ferroplane_engine::{Failure, Outcome, Trouble, Wanted, chain};

use crate::runtime::refused::cause_of;

/// Replaces the message of a refusal in a condition if it changes every time.
const UNSTABLE: &str = "cannot compose resources: the API server finds an object invalid; its events say why";

/// Why a composite resource could not be composed.
#[derive(Debug)]
pub(super) enum Problem {
    /// Another writer was faster: reconcile again, without an event.
    Conflict,
    /// It is gone.
    Gone,
    /// An object that is needed does not exist yet: wait for it, without an event.
    Early,
    /// A problem to report to the user.
    Trouble(Box<Report>),
}

/// The report to the user.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) trouble: Trouble,
    /// The results of functions up to then.
    pub(super) outcome: Option<Box<Outcome>>,
    /// The right that the plane lacks, if that is the problem.
    pub(super) denied: Option<String>,
    /// The step that desired the resource that could not be applied.
    step: Option<String>,
    /// Whether that is a Secret: the API server's message may quote its values.
    is_about_secret: bool,
}

impl Report {
    fn new(trouble: Trouble) -> Self {
        Self { trouble, outcome: None, denied: None, step: None, is_about_secret: false }
    }

    /// The step that the problem concerns, if there is one.
    pub(super) fn step(&self) -> Option<&str> {
        let failure = self.outcome.as_ref().and_then(|outcome| outcome.result.as_ref().err());
        failure.and_then(Failure::step).or(self.step.as_deref())
    }

    /// The message for the log, which more people can read than the object.
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

    /// The API server refused a request.
    pub(super) fn refused(reason: &'static str, what: &str, error: &Error) -> Self {
        if error.is_conflict() {
            return Self::Conflict;
        }
        let message = format!("{what}: {}", chain(error));
        // Such an error quotes values and lists mistakes in any order. In a condition it would change, and
        // reconcile the composite resource, for ever.
        let stable_message = error.is_invalid().then(|| UNSTABLE.to_owned());
        Self::from(Trouble { stable_message, ..Trouble::new(reason, message, cause_of(error)) })
    }

    /// Add the results of functions up to then.
    pub(super) fn after(mut self, outcome: Outcome) -> Self {
        if let Self::Trouble(report) = &mut self {
            report.outcome = Some(Box::new(outcome));
        }
        self
    }

    /// Add the composed resource.
    pub(super) fn about(mut self, wanted: &Wanted) -> Self {
        if let Self::Trouble(report) = &mut self {
            report.step = Some(wanted.step.clone());
            report.trouble.failure = point_of(report.trouble.failure.cause, wanted);
            report.is_about_secret = meta::kind(&wanted.object) == "Secret";
        }
        self
    }

    /// Add the right that the plane lacks.
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

/// The failure point of a composed resource.
pub(super) fn point_of(cause: Cause, wanted: &Wanted) -> FailurePoint {
    FailurePoint::new(cause).in_step(&wanted.step).of_resource(&wanted.resource)
}
