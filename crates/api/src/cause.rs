//! Causes: what can fail, each with a stable code.
//!
//! A condition or an event that reports a failure carries the code of its cause beside the words. People read the
//! words, which may change with every release; programs match the code.
//!
//! # Guarantees
//! * A code that was released keeps its meaning. Renaming or removing one is a breaking change: `causes.ledger` lists
//!   all that ever were.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines the enum, the code of each cause (the name of the variant) and its meaning in one list, so that none of
/// the three can be forgotten.
macro_rules! causes {
    ($($cause:ident: $meaning:literal,)*) => {
        /// What failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(clippy::doc_markdown, reason = "users read the same sentences in docs/causes.md")]
        pub enum Cause {
            $(#[doc = $meaning] $cause,)*
        }

        impl Cause {
            /// All causes, grouped by what they are about.
            pub const ALL: &'static [Self] = &[$(Self::$cause,)*];

            /// The code, as it stands in conditions and events.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$cause => stringify!($cause),)*
                }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$cause => $meaning,)*
                }
            }
        }
    };
}

causes! {
    // Definitions.
    DefinitionInvalid: "No CustomResourceDefinition can be made of the CompositeResourceDefinition.",

    // Compositions and their revisions.
    CompositionNotFound: "The Composition that was named does not exist.",
    NoMatchingComposition: "No Composition composes the kind, or none that does has the labels of the selector.",
    CompositionRevisionNotFound: "The CompositionRevision that was named does not exist.",
    NoMatchingCompositionRevision: "The Composition has no CompositionRevision, or none with the labels of the selector.",
    CompositionIncompatible: "The CompositionRevision composes another kind.",
    CompositionRevisionNotValidated: "The pipeline of the CompositionRevision has not been validated yet.",
    PipelineInvalid: "The pipeline of the CompositionRevision cannot be run as it is written.",

    // Which function a step calls.
    FunctionNotFound: "A step calls a function that does not exist.",
    FunctionNotRunnable: "The Function that a step calls is installed, but nothing here can run its package.",
    FunctionInactive: "The function, or the revision of it that a step names, is not active.",
    FunctionVersionNotFound: "The function does not have the version or the revision that a step names.",
    FunctionVersionInvalid: "The version that a step asks for is invalid, or the step asks for two different ones.",
    FunctionVersionRemoved: "The version of the function that a step names was removed.",
    FunctionRevisionSelectorsDisabled: "A step names a revision or labels of a function, and the flag --enable-function-revision-selectors is off.",
    FunctionCapabilityMissing: "The function cannot be used for compositions.",
    FunctionNotConnectable: "The function cannot be called: it has no endpoint, or there is no certificate to call it with.",

    // Rollouts.
    RolloutRefused: "A FunctionRollout cannot be used: an older one is for the same target, or its Function keeps one revision active.",
    RolloutNotCompleted: "A rollout was rolled back, or is paused because the new revision failed. Its message says why.",
    StableRevisionGone: "The stable revision of a rollout is no longer active: composite resources call the newest revision in service.",

    // Calling a function.
    FunctionTlsFailed: "TLS with the function fails.",
    FunctionTimeout: "The function did not respond in time.",
    FunctionConnectionLost: "The connection to the function was lost before it responded.",
    FunctionExited: "The program of the function ended before it responded.",
    FunctionUnreachable: "Nothing listens where the function should be.",
    FunctionProtocolUnsupported: "The server at the address of the function does not serve the function protocol.",
    FunctionRequestTooLarge: "The request is larger than the function may be sent.",
    FunctionResponseTooLarge: "The response of the function is larger than is accepted.",
    FunctionResponseInvalid: "The response of the function cannot be used.",
    FunctionCallFailed: "The function returned an error.",
    FunctionFatalResult: "The function returned a fatal result.",
    FunctionRequirementsUnstable: "The function requires something else each time it is called.",

    // What a step needs.
    RequirementUnavailable: "A resource or schema that a step requires cannot be read.",
    CredentialUnavailable: "A Secret with credentials for a step cannot be read.",
    StepInputUnavailable: "The object that a step takes its input from cannot be read.",
    AccessNotGranted: "A step reads an object outside of the namespace of the composite resource, its image asks for network access or to run without a container, or an action reaches an object outside of the namespace of its ActionSet, and no AccessGrant allows that.",

    // What is composed.
    CompositeResourceInvalid: "The composite resource cannot be composed as it is.",
    ComposedResourceUnreadable: "A composed resource that exists cannot be read, or does not say which one it is.",
    ComposedResourceInvalid: "A function returned a composed resource that no API server would accept.",
    ComposedKindUnavailable: "The kind of a composed resource is not installed, or cannot be looked up.",
    ComposedResourceClusterScoped: "A namespaced composite resource composes a cluster scoped resource.",
    ComposedResourceNamespaceMissing: "A cluster scoped composite resource composes a namespaced resource without a namespace.",
    ComposedResourceControlled: "A function returned a composed resource that names another controller.",
    ComposedResourceDuplicate: "Two composed resources are the same object.",
    ComposedResourcesUnsynced: "The API server refused composed resources; an event for each says why.",
    CompositionTimeout: "Composing took too long.",

    // What an API server refuses.
    ApiServerUnreachable: "The API server did not answer.",
    ApiServerOverloaded: "The API server has too much to do.",
    PermissionDenied: "The control plane does not have the permission.",
    QuotaExceeded: "A ResourceQuota is used up.",
    NamespaceNotFound: "The namespace does not exist.",
    NamespaceTerminating: "The namespace is being deleted.",
    WebhookUnreachable: "An admission webhook cannot be called.",
    WebhookDenied: "An admission webhook denied the request.",
    ObjectControlled: "An object of this name exists, and something else controls it.",
    FieldConflict: "Another field manager owns a field.",
    FieldImmutable: "An immutable field was changed.",
    ValidationRuleViolated: "A CEL rule of the kind, or a policy, rejects the object.",
    SchemaViolated: "The schema of the kind rejects the object.",
    RequestRefused: "The API server refused a request for another reason.",

    // Connection details.
    ConnectionSecretNotFound: "The connection secret of the composite resource does not exist.",
    ConnectionSecretControlled: "Something else controls the connection secret.",

    // Claims.
    CompositeResourceBound: "The composite resource is bound to another claim.",
    CompositeResourceNameTaken: "All names that were tried for the composite resource are taken.",

    // Usages.
    UsageInvalid: "A Usage does not identify the resource in use, or the resource that uses it.",
    UsageOutOfReach: "A Usage names an object outside its namespace.",
    UsageTargetNotFound: "A Usage names or selects an object that does not exist.",

    // Operations.
    OperationInvalid: "The Operation cannot be run as it is written.",
    DesiredResourceInvalid: "A function of an Operation returned an object that cannot be applied.",
    DesiredResourceNotApplied: "The API server refused an object that an Operation applies.",
    OperationAttemptsExhausted: "An Operation failed or was interrupted as often as its retry limit allows.",
    OperationTimeout: "An attempt of an Operation, or all of them together, took too long.",
    OperationPanicked: "An attempt of an Operation ended with a panic of a function that is built in, or of the control plane.",
    OperationsUnlisted: "The Operations of a CronOperation or WatchOperation cannot be listed. Only older releases wrote it.",
    OperationNotCreated: "An Operation cannot be created from its template.",
    ScheduleInvalid: "The schedule of a CronOperation is not a crontab, or matches no time.",
    WatchNotStarted: "The kind that a WatchOperation watches is not installed, or cannot be watched.",
    WatchLoop: "An Operation of a WatchOperation changes the object that triggered it.",
    StartDeadlineMissed: "A change of a watched object, or a time of a schedule, got no Operation, because that would have started too late.",
    ActionSetFailed: "An ActionSet that an Operation applied failed, or was deleted before it ended.",

    // Blueprints and ActionSets.
    BlueprintNotFound: "The Blueprint that an action names does not exist, or does not have the action.",
    BlueprintInvalid: "The Blueprint of an action cannot be run as it is written.",
    ActionInvalid: "An action of an ActionSet does not supply the inputs that its Blueprint requires.",
    ActionInputUnavailable: "An object, Secret, ConfigMap or Profile that an action names cannot be read.",
    ActionCancelled: "The ActionSet was cancelled or deleted while an action ran.",
    PhaseNeedsUnmet: "A phase runs commands in pods or images, and this control plane has no pods.",
    PhaseTemplateFailed: "A template of a phase or of an output artifact cannot be rendered.",
    PhaseArgumentsInvalid: "The arguments of a phase are not those that its function takes.",
    PhaseTimeout: "The condition that a phase waits for was not met in time.",
    PhaseInterrupted: "A phase was interrupted, and its effects are unknown.",
    PhaseFailed: "The function of a phase failed.",
    DeferPhaseTimeout: "The deferred phases of an ActionSet that was deleted took too long, and were abandoned.",

    // Packages, operations, managed resource definitions.
    KindNotSupported: "Nothing acts on objects of the kind on this control plane.",
    NotReconciled: "No controller has reconciled the object yet.",
    PackageUnavailable: "The image of a package cannot be fetched.",
    PackageUnverified: "The image of a package is not signed as an ImageConfig demands, or its signatures cannot be read.",
    PackageInvalid: "An object of a package cannot be installed.",
    PackageWebhooksNotServed: "The admission webhooks of a package are left out, because the control plane does not serve them.",
    PackageDependenciesUnmet: "A dependency of a package is missing.",
    PackageNotRun: "The program in a package does not run here.",
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A code that this release does not know. A later one may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCause;

impl FromStr for Cause {
    type Err = UnknownCause;

    fn from_str(code: &str) -> Result<Self, UnknownCause> {
        // Linear over some sixty codes, and only where an object is explained.
        Self::ALL.iter().copied().find(|cause| cause.code() == code).ok_or(UnknownCause)
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Cause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        code.parse().map_err(|_| D::Error::custom(format!("unknown code `{code}`")))
    }
}

/// What failed, and in which part of a composition: for programs, beside what is said to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailurePoint {
    pub cause: Cause,
    /// The step of the pipeline. Empty if it is about none.
    pub step: String,
    /// The name by which the composition knows the composed resource. Empty if it is about none.
    pub resource: String,
}

impl FailurePoint {
    pub fn new(cause: Cause) -> Self {
        Self { cause, step: String::new(), resource: String::new() }
    }

    /// The same in a step of the pipeline.
    #[must_use]
    pub fn in_step(mut self, step: &str) -> Self {
        step.clone_into(&mut self.step);
        self
    }

    /// The same for a composed resource.
    #[must_use]
    pub fn of_resource(mut self, resource: &str) -> Self {
        resource.clone_into(&mut self.resource);
        self
    }
}

impl From<Cause> for FailurePoint {
    fn from(cause: Cause) -> Self {
        Self::new(cause)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every code that was ever released.
    fn ledger() -> BTreeSet<&'static str> {
        let lines = include_str!("../causes.ledger").lines();
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }

    #[test]
    fn released_code_is_never_renamed_or_removed() {
        let known: BTreeSet<_> = Cause::ALL.iter().map(|cause| cause.code()).collect();
        let removed: Vec<_> = ledger().difference(&known).copied().collect();
        assert!(removed.is_empty(), "somebody matches these codes: {removed:?}");
        let unlisted: Vec<_> = known.difference(&ledger()).copied().collect();
        assert!(unlisted.is_empty(), "add these to crates/api/causes.ledger: {unlisted:?}");
    }

    #[test]
    fn code_is_parsed_as_it_is_printed() {
        for cause in Cause::ALL {
            assert_eq!(cause.to_string().parse(), Ok(*cause));
        }
        assert_eq!("SomethingNew".parse::<Cause>(), Err(UnknownCause));
        let (text, cause) = (serde_json::json!("PhaseFailed"), Cause::PhaseFailed);
        assert_eq!(serde_json::to_value(cause).unwrap(), text);
        assert_eq!(serde_json::from_value::<Cause>(text).unwrap(), cause);
    }

    #[test]
    fn every_code_is_documented() {
        let page = include_str!("../../../docs/causes.md");
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let row = |cause: &Cause| format!("| `{cause}` | {} |", cause.meaning());
        let expected: Vec<_> = Cause::ALL.iter().map(row).collect();
        assert_eq!(rows, expected, "docs/causes.md has another table; it should be\n{}", expected.join("\n"));
    }
}
