//! Causes that are known. Each is a small rule; the first that holds at an object, from the top of the table, is the cause
//! there. Rules that say `Last` hold only if nothing below the object is to blame.

mod actions;
mod deletion;
mod existence;
mod functions;
mod operations;
mod readiness;
mod refusals;
mod rollouts;
mod selection;
mod state;
mod suspect;

use ferroplane_api::Cause;

use crate::complaint::Complaint;
use crate::finding::Finding;

pub(crate) use suspect::{Suspect, controllers_of, describe, since};

/// When a rule is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Before anything below the object is checked.
    First,
    /// When nothing below the object is to blame.
    Last,
}

/// One known cause.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// What has happened if it holds.
    means: &'static str,
    pub(crate) when: When,
    /// What can have failed if it holds. Empty if it does not go by what was said about a failure.
    pub(crate) causes: &'static [Cause],
    check: Check,
}

/// How a rule finds out whether it holds at an object.
enum Check {
    /// By how things are.
    State(fn(&Suspect<'_>) -> Option<Finding>),
    /// By what was said about one of the rule's causes.
    Failure(fn(&Suspect<'_>, Complaint<'_>) -> Finding),
}

impl Rule {
    /// What it comes to, if it holds at an object.
    pub(crate) fn apply(&self, suspect: &Suspect<'_>) -> Option<Finding> {
        let finding = match self.check {
            Check::State(check) => check(suspect)?,
            Check::Failure(check) => {
                let said = suspect.said(self.causes)?;
                check(suspect, said).code(said.cause)
            }
        };
        Some(Finding { rule: self.name, ..finding })
    }
}

/// All known causes: a name, and what it means.
pub fn causes() -> impl Iterator<Item = (&'static str, &'static str)> {
    // What can be seen in two ways has two rules in a row.
    let mut before = "";
    RULES
        .iter()
        .filter(move |rule| std::mem::replace(&mut before, rule.name) != rule.name)
        .map(|rule| (rule.name, rule.means))
}

const fn first(name: &'static str, means: &'static str, check: fn(&Suspect<'_>) -> Option<Finding>) -> Rule {
    Rule { name, means, when: When::First, causes: &[], check: Check::State(check) }
}

const fn last(name: &'static str, means: &'static str, check: fn(&Suspect<'_>) -> Option<Finding>) -> Rule {
    Rule { name, means, when: When::Last, causes: &[], check: Check::State(check) }
}

/// A rule that goes by what failed.
const fn failed(
    name: &'static str,
    means: &'static str,
    causes: &'static [Cause],
    check: fn(&Suspect<'_>, Complaint<'_>) -> Finding,
) -> Rule {
    Rule { name, means, when: When::First, causes, check: Check::Failure(check) }
}

/// Causes that no rule has more to say about than their message does.
#[cfg(test)]
const SHOWN: &[Cause] = &[
    // Of definitions, Compositions and Usages: rules look at those themselves.
    Cause::DefinitionInvalid,
    Cause::UsageInvalid,
    Cause::UsageOutOfReach,
    Cause::UsageTargetNotFound,
    // The condition of the rollout says what to change.
    Cause::RolloutRefused,
    Cause::RolloutNotCompleted,
    Cause::StableRevisionGone,
    Cause::CompositeResourceInvalid,
    Cause::ComposedResourceUnreadable,
    // Only an event says it, and the CronOperation or WatchOperation goes on.
    Cause::StartDeadlineMissed,
    // Only an event says it, and the ActionSet is gone.
    Cause::DeferPhaseTimeout,
    // Its events say more, and each has a cause of its own.
    Cause::ComposedResourcesUnsynced,
    // They say themselves what helps.
    Cause::CompositionTimeout,
    Cause::RequestRefused,
    Cause::ConnectionSecretNotFound,
    Cause::ConnectionSecretControlled,
    Cause::CompositeResourceNameTaken,
    // Packages say themselves what they lack.
    Cause::PackageUnavailable,
    Cause::PackageUnverified,
    Cause::PackageInvalid,
    Cause::PackageDependenciesUnmet,
    Cause::PackageNotRun,
    // Only an event says it, and the package is installed without them.
    Cause::PackageWebhooksNotServed,
];

pub(crate) const RULES: &[Rule] = &[
    first("definition-invalid", "an XRD cannot be converted to a CRD", existence::definition_invalid),
    first(
        "definition-not-established",
        "the kind has an XRD that is not established",
        existence::not_established,
    ),
    first("no-definition", "neither an XRD nor a CRD defines the kind", existence::no_definition),
    first(
        "provider-not-installed",
        "a composed kind does not exist: its provider is not installed",
        existence::no_kind,
    ),
    first(
        "unreadable",
        "you may not read an object, or the API server cannot serve it",
        existence::unreadable,
    ),
    first("not-found", "there is no object of this name", existence::not_found),
    Rule {
        causes: &[Cause::KindNotSupported],
        ..first(
            "kind-not-supported",
            "no controller of this control plane acts on the kind",
            state::not_supported,
        )
    },
    first("usage", "a Usage protects an object that is to be deleted", deletion::usage),
    first("finalizer", "a finalizer keeps an object that is being deleted", deletion::finalizer_below),
    first("paused", "an annotation pauses the object", state::paused),
    first("suspended", "a CronOperation or WatchOperation is suspended", operations::suspended),
    failed(
        "no-composition",
        "no Composition composes the kind, or none with the labels",
        &[Cause::NoMatchingComposition],
        selection::no_composition,
    ),
    failed(
        "composition-missing",
        "the Composition that was named does not exist",
        &[Cause::CompositionNotFound],
        selection::composition_missing,
    ),
    failed(
        "revision-missing",
        "a CompositionRevision that was named does not exist, or none matches",
        &[Cause::CompositionRevisionNotFound, Cause::NoMatchingCompositionRevision],
        selection::revision_missing,
    ),
    failed(
        "revision-incompatible",
        "the Composition composes another kind",
        &[Cause::CompositionIncompatible],
        selection::incompatible,
    ),
    failed(
        "function-missing",
        "a step calls a function that does not exist",
        &[Cause::FunctionNotFound],
        functions::missing,
    ),
    failed(
        "function-not-runnable",
        "a Function exists, but nothing runs its package",
        &[Cause::FunctionNotRunnable],
        functions::not_runnable,
    ),
    failed(
        "function-inactive",
        "no revision of a function is active",
        &[Cause::FunctionInactive],
        functions::inactive,
    ),
    failed(
        "function-version",
        "a function does not have the version that a step asks for",
        &[Cause::FunctionVersionNotFound, Cause::FunctionVersionInvalid, Cause::FunctionVersionRemoved],
        functions::version,
    ),
    failed(
        "function-selectors-off",
        "a step names a revision or labels of a function, and the flag for that is off",
        &[Cause::FunctionRevisionSelectorsDisabled],
        functions::selectors_off,
    ),
    failed(
        "function-capability",
        "a function lacks the capability that its pipeline needs",
        &[Cause::FunctionCapabilityMissing],
        functions::capability,
    ),
    failed("function-tls", "TLS with a function fails", &[Cause::FunctionTlsFailed], functions::tls),
    failed("function-slow", "a function does not answer in time", &[Cause::FunctionTimeout], functions::slow),
    failed(
        "function-crashing",
        "a function ends before it answers",
        &[Cause::FunctionConnectionLost, Cause::FunctionExited],
        functions::crashing,
    ),
    failed(
        "function-unreachable",
        "nothing listens where a function should be",
        &[Cause::FunctionUnreachable, Cause::FunctionNotConnectable],
        functions::unreachable,
    ),
    failed(
        "function-answer",
        "the response of a function cannot be used",
        &[
            Cause::FunctionProtocolUnsupported,
            Cause::FunctionRequestTooLarge,
            Cause::FunctionResponseTooLarge,
            Cause::FunctionResponseInvalid,
            Cause::ComposedResourceInvalid,
        ],
        functions::answer,
    ),
    failed(
        "function-fatal",
        "a function returned a fatal result",
        &[Cause::FunctionFatalResult],
        functions::fatal,
    ),
    failed(
        "function-requirements-unstable",
        "a function never stops changing its requirements",
        &[Cause::FunctionRequirementsUnstable],
        functions::requirements_unstable,
    ),
    failed(
        "requirement",
        "an object that a function requires cannot be read",
        &[Cause::RequirementUnavailable],
        functions::requirement,
    ),
    failed(
        "credential",
        "a Secret with credentials for a function is missing",
        &[Cause::CredentialUnavailable],
        functions::credential,
    ),
    failed(
        "access-not-granted",
        "a step reads something outside of the namespace of the XR, or its image asks for more than computing, and no AccessGrant allows that",
        &[Cause::AccessNotGranted],
        functions::access_not_granted,
    ),
    failed(
        "step-input",
        "the object that a step takes its input from cannot be read",
        &[Cause::StepInputUnavailable],
        functions::input,
    ),
    failed("function-failed", "a call of a function fails", &[Cause::FunctionCallFailed], functions::failed),
    failed(
        "revision-invalid",
        "a CompositionRevision cannot be used",
        &[Cause::PipelineInvalid, Cause::CompositionRevisionNotValidated],
        selection::invalid,
    ),
    failed(
        "kind-not-installed",
        "a composed resource has a kind that does not exist",
        &[Cause::ComposedKindUnavailable],
        refusals::unknown_kind,
    ),
    failed("quota", "a quota is used up", &[Cause::QuotaExceeded], refusals::quota),
    failed(
        "namespace-terminating",
        "the namespace is being deleted",
        &[Cause::NamespaceTerminating],
        refusals::namespace_terminating,
    ),
    first("namespace-terminating", "the namespace is being deleted", refusals::namespace_leaving),
    failed(
        "namespace-missing",
        "the namespace does not exist",
        &[Cause::NamespaceNotFound],
        refusals::namespace_missing,
    ),
    failed(
        "rights",
        "the control plane does not have the right to do it",
        &[Cause::PermissionDenied],
        refusals::rights,
    ),
    failed(
        "webhook-unreachable",
        "an admission webhook cannot be reached",
        &[Cause::WebhookUnreachable],
        refusals::webhook_unreachable,
    ),
    failed(
        "webhook-denied",
        "an admission webhook denies the request",
        &[Cause::WebhookDenied],
        refusals::webhook_denied,
    ),
    failed(
        "name-conflict",
        "an object of this name belongs to something else",
        &[Cause::ObjectControlled, Cause::ComposedResourceControlled],
        refusals::name_conflict,
    ),
    failed(
        "same-name",
        "two composed resources are the same object",
        &[Cause::ComposedResourceDuplicate],
        refusals::same_object,
    ),
    failed(
        "field-conflict",
        "another manager owns a field",
        &[Cause::FieldConflict],
        refusals::field_conflict,
    ),
    failed("immutable", "an immutable field was changed", &[Cause::FieldImmutable], refusals::immutable),
    failed(
        "rule-rejection",
        "a CEL rule of a kind rejects a composed resource",
        &[Cause::ValidationRuleViolated],
        refusals::rule,
    ),
    failed(
        "schema-rejection",
        "the schema of a kind rejects a composed resource",
        &[Cause::SchemaViolated],
        refusals::schema,
    ),
    failed(
        "scope",
        "a namespaced XR composes something outside of its namespace",
        &[Cause::ComposedResourceClusterScoped],
        refusals::scope,
    ),
    failed(
        "namespace-not-set",
        "a cluster scoped XR composes a namespaced resource without a namespace",
        &[Cause::ComposedResourceNamespaceMissing],
        refusals::namespace_not_set,
    ),
    failed(
        "overload",
        "the API server has too much to do, or does not answer",
        &[Cause::ApiServerOverloaded, Cause::ApiServerUnreachable],
        refusals::overload,
    ),
    failed(
        "operation-invalid",
        "an operation cannot be run as it is written",
        &[Cause::OperationInvalid],
        operations::invalid,
    ),
    failed(
        "desired-resource-invalid",
        "a step of an operation returns an object that cannot be applied",
        &[Cause::DesiredResourceInvalid],
        operations::desired_invalid,
    ),
    failed(
        "desired-resource-refused",
        "the API server refuses an object of a step of an operation",
        &[Cause::DesiredResourceNotApplied],
        operations::desired_refused,
    ),
    failed(
        "attempts-exhausted",
        "an operation may not be tried any more",
        &[Cause::OperationAttemptsExhausted],
        operations::exhausted,
    ),
    failed(
        "operation-slow",
        "an attempt of an operation takes longer than it may",
        &[Cause::OperationTimeout],
        operations::slow,
    ),
    failed(
        "operation-panicked",
        "an attempt of an operation ended with a panic",
        &[Cause::OperationPanicked],
        operations::panicked,
    ),
    Rule {
        causes: &[Cause::ActionSetFailed],
        ..first(
            "action-set-gone",
            "an ActionSet of an operation was deleted before it ended",
            operations::action_set_gone,
        )
    },
    failed(
        "operation-not-created",
        "an operation cannot be created from its template, or operations cannot be listed",
        &[Cause::OperationNotCreated, Cause::OperationsUnlisted],
        operations::not_created,
    ),
    failed(
        "schedule",
        "the schedule of a CronOperation cannot be read, or matches no time",
        &[Cause::ScheduleInvalid],
        operations::schedule,
    ),
    failed(
        "watch",
        "a WatchOperation watches a kind that does not exist, or that cannot be watched",
        &[Cause::WatchNotStarted],
        operations::watch,
    ),
    failed(
        "watch-loop",
        "operations of a WatchOperation keep changing what triggered them",
        &[Cause::WatchLoop],
        operations::watch_loop,
    ),
    failed(
        "blueprint",
        "an ActionSet names a Blueprint or an action that does not exist, or that cannot be run as it is written",
        &[Cause::BlueprintNotFound, Cause::BlueprintInvalid],
        actions::blueprint,
    ),
    failed(
        "action-input",
        "an ActionSet does not supply what its Blueprint asks for, or what it names cannot be read",
        &[Cause::ActionInvalid, Cause::ActionInputUnavailable],
        actions::input,
    ),
    failed(
        "phase-needs",
        "a phase runs commands in pods or images, and the control plane has no pods",
        &[Cause::PhaseNeedsUnmet],
        actions::needs,
    ),
    failed(
        "phase-template",
        "a template of a phase cannot be rendered, or its arguments are not those that its function takes",
        &[Cause::PhaseTemplateFailed, Cause::PhaseArgumentsInvalid],
        actions::template,
    ),
    failed(
        "phase-timeout",
        "the condition that a phase waits for was not met in time",
        &[Cause::PhaseTimeout],
        actions::timeout,
    ),
    failed(
        "phase-failed",
        "the function of a phase failed",
        &[Cause::PhaseFailed, Cause::PhaseInterrupted],
        actions::phase,
    ),
    failed(
        "action-cancelled",
        "an ActionSet was cancelled or deleted while it ran",
        &[Cause::ActionCancelled],
        actions::cancelled,
    ),
    first("action-failed", "an ActionSet failed for another reason, which its status names", actions::failed),
    failed(
        "claim-bound",
        "the XR is bound to another claim",
        &[Cause::CompositeResourceBound],
        state::claim_bound,
    ),
    first("sync-error", "an object reports that it cannot be synced", state::sync_error),
    last("contested", "another manager keeps changing a composed field", state::contested),
    last("waiting-for-deletion", "a finalizer keeps the object itself", deletion::finalizer),
    last("stale", "a change has not been reconciled yet", state::stale),
    last("reported", "a controller reports a failure in an event, and in no condition", state::reported),
    Rule {
        causes: &[Cause::NotReconciled],
        ..last("unattended", "no controller has ever reconciled the object", state::unattended)
    },
    last("action-running", "an ActionSet has not ended yet", actions::running),
    last("operation-running", "the pipeline of an operation has not ended yet", operations::running),
    last("readiness-check", "a readiness check of patch-and-transform does not hold", readiness::check_unmet),
    last("not-ready", "an object reports that it is not ready", readiness::own_condition),
    last(
        "controller-not-running",
        "a composed resource was never reconciled: its controller is not running",
        readiness::controller_not_running,
    ),
    last(
        "required-patch",
        "a field that a patch requires is missing, so a resource is not composed",
        readiness::required_patch,
    ),
    last("readiness-undeclared", "no function says that composed resources are ready", readiness::undeclared),
    last("condition", "a function has set a condition that does not hold", readiness::function_condition),
    last("storm", "composed resources change so often that the XR is reconciled less often", state::storm),
    last("pinned", "the XR stays at an old revision", selection::pinned),
    last(
        "several-compositions",
        "several Compositions compose the kind, and nothing says which",
        selection::several,
    ),
    last("function-warning", "a function returned a warning, and the XR is not ready", readiness::warned),
    last("declared-unready", "a function says that it is not ready", readiness::declared),
    last(
        "nothing-composed",
        "a later step drops everything that earlier steps returned",
        readiness::nothing_composed,
    ),
    last(
        "intercepted",
        "a developer's process answers for a function, by a FunctionIntercept",
        rollouts::intercepted,
    ),
    last(
        "held-by-rollout",
        "a FunctionRollout keeps the XR on an older revision of a function, or has moved it to the new one",
        rollouts::held,
    ),
];

#[cfg(test)]
mod tests;
