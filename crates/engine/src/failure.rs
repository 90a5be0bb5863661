//! The failures of a pipeline run.

use std::error::Error;
use std::fmt::Write as _;

use ferroplane_api::{Cause, FailurePoint};
use ferroplane_wire::{BadResponse, StructError};

use crate::access::{DeniedRead, DeniedRun};

/// Why a pipeline run failed. Every text is stable, because it is repeated in a condition.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("pipeline step `{step}` returned a fatal result: {message}")]
    Fatal { step: String, message: String },

    #[error("cannot run pipeline step `{step}`")]
    Call { step: String, cause: Cause, source: Box<dyn Error + Send + Sync> },

    #[error("cannot use the answer of pipeline step `{step}`")]
    BadResponse { step: String, source: BadResponse },

    #[error("pipeline step `{step}` never settles: it changed its requirements after each of {calls} calls")]
    NeverSettles { step: String, calls: u32 },

    #[error("cannot fetch `{requirement}`, which pipeline step `{step}` requires: {reason}")]
    Requirement { step: String, requirement: String, reason: String },

    #[error(
        "cannot get credential `{credential}` of pipeline step `{step}` from Secret `{secret}`: {reason}"
    )]
    Credential { step: String, credential: String, secret: String, reason: String },

    #[error("cannot get the input of pipeline step `{step}`, {object}: {reason}")]
    Input { step: String, object: String, reason: String },

    #[error("cannot let pipeline step `{step}` read {read}")]
    Denied {
        step: String,
        /// The name of the requirement in the composition or the response.
        requirement: String,
        read: Box<DeniedRead>,
    },

    #[error("cannot let pipeline step `{step}` {run}")]
    NotPermitted { step: String, run: Box<DeniedRun> },

    #[error("cannot read the composite resource")]
    Composite { source: StructError },

    #[error("cannot read the operation")]
    Operation { source: StructError },

    #[error("desired resource `{resource}` of step `{step}` cannot be applied: {problem}")]
    Inapplicable { step: String, resource: String, problem: Inapplicable },

    #[error("composite resource has no label `{label}`, which names its composed resources")]
    NoPrefix { label: &'static str },

    #[error("cannot read observed resource `{resource}`")]
    Observed { resource: String, source: StructError },

    #[error("composed resource `{resource}` of step `{step}` is not an object")]
    NotAnObject { step: String, resource: String },

    #[error("composed resource `{resource}` of step `{step}` has no {field}")]
    NoType { step: String, resource: String, field: &'static str },

    #[error("metadata of composed resource `{resource}` of step `{step}` is not an object")]
    Metadata { step: String, resource: String },

    #[error(
        "cannot tell whether composed resource `{resource}` of step `{step}` ({kind}) is namespaced: {reason}"
    )]
    UnknownScope { step: String, resource: String, kind: String, reason: String },

    #[error(
        "composed resource `{resource}` of step `{step}` is cluster scoped ({kind}), but the composite resource is \
         namespaced and may only compose resources in its own namespace"
    )]
    ClusterScoped { step: String, resource: String, kind: String },

    #[error(
        "composed resource `{resource}` of step `{step}` lives in a namespace ({kind}), but has no metadata.namespace, and the \
         composite resource is cluster scoped: set metadata.namespace, or make the composite resource namespaced"
    )]
    NamespaceMissing { step: String, resource: String, kind: String },

    #[error(
        "composed resource `{resource}` of step `{step}` has the invalid name `{name}`: use lower-case letters, \
         digits, `-` and `.`, starting and ending with a letter or digit"
    )]
    InvalidName { step: String, resource: String, name: String },

    #[error("composed resource `{resource}` of step `{step}` already names a controller, {owner}")]
    Controlled { step: String, resource: String, owner: String },

    #[error(
        "composed resource `{resource}` of step `{step}` is {object}, which belongs to the control plane: \
         give it another name"
    )]
    OfControlPlane { step: String, resource: String, object: String },

    #[error(
        "composed resources `{first}` and `{second}` are the same object, {object}: give them different names"
    )]
    SameObject { first: String, second: String, object: String },

    #[error("desired status of the composite resource is not an object")]
    Status,
}

/// Why an operation cannot apply what a step wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inapplicable {
    #[error("it is not an object")]
    NotAnObject,
    #[error("it has no {0}")]
    Missing(&'static str),
    #[error("kind {0} is namespaced, and metadata.namespace is not set")]
    NoNamespace(String),
    #[error(
        "its name `{0}` is invalid: use lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit"
    )]
    Name(String),
    #[error("`{0}` is the same object, {1}")]
    SameAs(String, String),
}

impl Failure {
    /// The step that failed, if one did.
    pub fn step(&self) -> Option<&str> {
        match self {
            Self::Fatal { step, .. }
            | Self::Call { step, .. }
            | Self::BadResponse { step, .. }
            | Self::NeverSettles { step, .. }
            | Self::Requirement { step, .. }
            | Self::Credential { step, .. }
            | Self::Input { step, .. }
            | Self::Denied { step, .. }
            | Self::NotPermitted { step, .. }
            | Self::NotAnObject { step, .. }
            | Self::NoType { step, .. }
            | Self::Metadata { step, .. }
            | Self::UnknownScope { step, .. }
            | Self::ClusterScoped { step, .. }
            | Self::NamespaceMissing { step, .. }
            | Self::InvalidName { step, .. }
            | Self::Controlled { step, .. }
            | Self::OfControlPlane { step, .. }
            | Self::Inapplicable { step, .. } => Some(step),
            _ => None,
        }
    }

    /// The name of the desired resource that the failure concerns, if there is one.
    pub fn resource(&self) -> Option<&str> {
        match self {
            Self::Observed { resource, .. }
            | Self::NotAnObject { resource, .. }
            | Self::NoType { resource, .. }
            | Self::Metadata { resource, .. }
            | Self::UnknownScope { resource, .. }
            | Self::ClusterScoped { resource, .. }
            | Self::NamespaceMissing { resource, .. }
            | Self::InvalidName { resource, .. }
            | Self::Controlled { resource, .. }
            | Self::OfControlPlane { resource, .. }
            | Self::Inapplicable { resource, .. } => Some(resource),
            Self::Requirement { requirement, .. } | Self::Denied { requirement, .. } => Some(requirement),
            Self::Credential { credential, .. } => Some(credential),
            _ => None,
        }
    }

    /// The cause, for programs.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Fatal { .. } => Cause::FunctionFatalResult,
            Self::Call { cause, .. } => *cause,
            // Some step desired that status, but it is unknown which one.
            Self::BadResponse { .. } | Self::Status => Cause::FunctionResponseInvalid,
            Self::NeverSettles { .. } => Cause::FunctionRequirementsUnstable,
            Self::Requirement { .. } => Cause::RequirementUnavailable,
            Self::Credential { .. } => Cause::CredentialUnavailable,
            Self::Input { .. } => Cause::StepInputUnavailable,
            Self::Denied { .. } | Self::NotPermitted { .. } => Cause::AccessNotGranted,
            Self::Composite { .. } | Self::NoPrefix { .. } => Cause::CompositeResourceInvalid,
            Self::Operation { .. } => Cause::OperationInvalid,
            Self::Inapplicable { .. } => Cause::DesiredResourceInvalid,
            Self::Observed { .. } => Cause::ComposedResourceUnreadable,
            Self::NotAnObject { .. }
            | Self::NoType { .. }
            | Self::Metadata { .. }
            | Self::InvalidName { .. } => Cause::ComposedResourceInvalid,
            Self::UnknownScope { .. } => Cause::ComposedKindUnavailable,
            Self::ClusterScoped { .. } => Cause::ComposedResourceClusterScoped,
            Self::NamespaceMissing { .. } => Cause::ComposedResourceNamespaceMissing,
            Self::Controlled { .. } => Cause::ComposedResourceControlled,
            Self::OfControlPlane { .. } => Cause::ObjectControlled,
            Self::SameObject { .. } => Cause::ComposedResourceDuplicate,
        }
    }

    /// What failed, and where.
    pub fn point(&self) -> FailurePoint {
        let point = FailurePoint::new(self.cause()).in_step(self.step().unwrap_or_default());
        point.of_resource(self.resource().unwrap_or_default())
    }

    /// Whether a function returned a fatal result.
    pub fn is_fatal_result(&self) -> bool {
        matches!(self, Self::Fatal { .. })
    }
}

/// An error and all its causes, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        // A transparent error has the same text as its source, which would be repeated.
        if !text.ends_with(&words) {
            // Writing to a `String` cannot fail.
            let _ = write!(text, ": {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn failures_of_composed_resources_have_causes() {
        let (step, resource, kind) = (|| "s".to_owned(), || "r".to_owned(), || "K".to_owned());
        let source = StructError::NotFinite;
        let cases = [
            (Failure::NoPrefix { label: "l" }, Cause::CompositeResourceInvalid),
            (Failure::Observed { resource: resource(), source }, Cause::ComposedResourceUnreadable),
            (Failure::NotAnObject { step: step(), resource: resource() }, Cause::ComposedResourceInvalid),
            (
                Failure::NoType { step: step(), resource: resource(), field: "kind" },
                Cause::ComposedResourceInvalid,
            ),
            (Failure::Metadata { step: step(), resource: resource() }, Cause::ComposedResourceInvalid),
            (
                Failure::InvalidName { step: step(), resource: resource(), name: "A".to_owned() },
                Cause::ComposedResourceInvalid,
            ),
            (
                Failure::UnknownScope {
                    step: step(),
                    resource: resource(),
                    kind: kind(),
                    reason: String::new(),
                },
                Cause::ComposedKindUnavailable,
            ),
            (
                Failure::ClusterScoped { step: step(), resource: resource(), kind: kind() },
                Cause::ComposedResourceClusterScoped,
            ),
            (
                Failure::NamespaceMissing { step: step(), resource: resource(), kind: kind() },
                Cause::ComposedResourceNamespaceMissing,
            ),
            (
                Failure::Controlled { step: step(), resource: resource(), owner: "o".to_owned() },
                Cause::ComposedResourceControlled,
            ),
            (
                Failure::OfControlPlane { step: step(), resource: resource(), object: "o".to_owned() },
                Cause::ObjectControlled,
            ),
            (
                Failure::SameObject { first: resource(), second: resource(), object: "o".to_owned() },
                Cause::ComposedResourceDuplicate,
            ),
        ];
        for (failure, cause) in cases {
            assert_eq!(failure.point().cause, cause, "{failure}");
        }
    }

    #[test]
    fn cause_that_was_told_is_not_told_again() {
        let link = |text, source: Option<Link>| Link { text, source: source.map(Box::new) };
        let told = link("no version is referenceable", None);
        assert_eq!(chain(&link("no version is referenceable", Some(told))), "no version is referenceable");
        assert_eq!(
            chain(&link("cannot define it", Some(link("no version", None)))),
            "cannot define it: no version"
        );
    }
}
