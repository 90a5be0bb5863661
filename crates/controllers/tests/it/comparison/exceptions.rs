//! Differences that are meant. `docs/differences.md` says why, under the same name.

use super::verdict::{Difference, EVENTS};

/// A difference that is meant.
pub(super) struct Exception {
    pub(super) name: &'static str,
    pub(super) explains: fn(&Difference<'_>) -> bool,
}

/// What a condition says of a failure for programs.
const CODE_FIELDS: [&str; 3] = ["code", "step", "resource"];

/// What is said of the pipeline of a revision, as managers of fields name it.
const VALID_PIPELINE: &str = r#"/status/conditions/{"type":"ValidPipeline"}/"#;

/// The condition `Synced`, as managers of fields name it.
const SYNCED: &str = r#"/status/conditions/{"type":"Synced"}/"#;

/// Where a `WatchOperation` notes on an operation what it was made for.
const WATCHED_STATE: &str = "/metadata/annotations/ferroplane.io/watched-state";

/// Each has to explain something.
pub(super) const EXCEPTIONS: &[Exception] = &[
    // One apply instead of many updates, and a status that is applied as a whole.
    Exception {
        name: "OneApply",
        explains: |difference| {
            let path = difference.path.strip_prefix("/metadata/managers/").unwrap_or_default();
            difference.is_about_composites()
                && (path.starts_with("plane Update") && difference.is_more_about("")
                    || path.starts_with("apiextensions.crossplane.io/composite Apply"))
        },
    },
    // What is composed is ready when its composite resource is told for the first time.
    Exception { name: "NotYetReady", explains: |difference| difference.is_event("Normal ComposeResources") },
    // A revision that nobody has looked at yet is no trouble.
    Exception {
        name: "NewRevision",
        explains: |difference| {
            let words = difference.theirs.map(ToString::to_string).unwrap_or_default();
            difference.is_event("Warning ComposeResources") && words.contains("pipeline status unknown")
        },
    },
    // What follows no composition composes nothing that would have to go.
    Exception {
        name: "NothingToFinish",
        explains: |difference| {
            difference.path == "/metadata/finalizers"
                && difference.ours.is_none()
                && difference.title.starts_with("missing ")
        },
    },
    Exception {
        name: "HandledRequest",
        explains: |difference| {
            let path = &difference.path;
            path.ends_with("/status/properties/lastHandledReconcileAt")
                || path == "/status/lastHandledReconcileAt" && difference.theirs.is_none()
        },
    },
    // Which revisions of functions composed it.
    Exception {
        name: "FunctionsThatRan",
        explains: |difference| {
            let path = &difference.path;
            let is_managed = path.starts_with("/metadata/managers/")
                && difference.is_more_of_ours(|path| path.starts_with("/status/ferroplane"));
            difference.theirs.is_none()
                && (path.ends_with("/status/properties/ferroplane") || path.starts_with("/status/ferroplane"))
                || is_managed
        },
    },
    // What failed, for programs.
    Exception {
        name: "CauseCode",
        explains: |difference| {
            let (place, field) = difference.path.rsplit_once('/').unwrap_or_default();
            let is_schema = place.ends_with("/conditions/items/properties") && difference.theirs.is_none();
            let is_managed = difference.path.starts_with("/metadata/managers/")
                && difference.is_more_of_ours(|path| {
                    path.starts_with("/status/conditions/")
                        && CODE_FIELDS.iter().any(|field| path.ends_with(&format!("/{field}")))
                });
            is_schema && CODE_FIELDS.contains(&field) || is_managed
        },
    },
    // A pipeline that calls what does not exist is not valid.
    Exception {
        name: "MissingFunctions",
        explains: |difference| {
            let is_condition = difference.path == "/status/conditions/ValidPipeline"
                && difference.ours.is_some_and(|ours| ours.to_string().contains("MissingFunctions"));
            let is_managed = difference.path.starts_with("/metadata/managers/")
                && difference.is_more_of_ours(|path| path.starts_with(VALID_PIPELINE));
            difference.object.starts_with("CompositionRevision ") && (is_condition || is_managed)
        },
    },
    // A claim that cannot be made has no kind.
    Exception {
        name: "NoClaimKind",
        explains: |difference| {
            difference.object.starts_with("CompositeResourceDefinition ")
                && (difference.path == "/status/controllers/compositeResourceClaimType"
                    && difference.ours.is_none()
                    || difference.is_more_about("compositeResourceClaimType"))
        },
    },
    // Who is given which rights is not news.
    Exception { name: "SilentRoles", explains: |difference| difference.is_event("ApplyClusterRoles") },
    // What is on its way is no trouble.
    Exception {
        name: "PatientDefinition",
        explains: |difference| {
            let words = ["Warning EstablishComposite", "Warning OfferClaim", "Warning TerminateComposite"];
            words.iter().any(|words| difference.is_event(words))
        },
    },
    // An Operation that has failed for good says so at once.
    Exception {
        name: "FailureLimit",
        explains: |difference| {
            let is_told = difference.path.ends_with("Warning MaxFailures");
            difference.object == EVENTS && is_told && difference.theirs.is_none()
        },
    },
    // A CronOperation is in order before it has made an Operation, and as soon as it was edited.
    Exception {
        name: "EarlySynced",
        explains: |difference| {
            let is_older =
                |theirs: &serde_json::Value| theirs.as_str().is_some_and(|it| it.ends_with("stale"));
            let is_condition =
                difference.path == "/status/conditions/Synced" && difference.theirs.is_none_or(is_older);
            let is_managed = difference.path.starts_with("/metadata/managers/")
                && difference.is_more_of_ours(|path| path.starts_with(SYNCED));
            difference.object.starts_with("CronOperation ") && (is_condition || is_managed)
        },
    },
    // Nothing has to be done before a WatchOperation goes. Crossplane also writes an empty field when it adds its finalizer.
    Exception {
        name: "WatchFinalizer",
        explains: |difference| {
            let paths = [
                "/metadata/finalizers",
                "/metadata/managers/plane Update",
                "/spec/operationTemplate/metadata",
            ];
            difference.object.starts_with("WatchOperation ")
                && paths.contains(&difference.path.as_str())
                && difference.ours.is_none()
        },
    },
    // What a WatchOperation has handled, for the time after a restart.
    Exception {
        name: "HandledChanges",
        explains: |difference| {
            let is_noted = |path: &str| path == WATCHED_STATE || path.starts_with("/status/handled");
            let is_managed =
                difference.path.starts_with("/metadata/managers/") && difference.is_more_of_ours(is_noted);
            difference.theirs.is_none() && is_noted(&difference.path) || is_managed
        },
    },
    // The function of an Operation is given something for an object that is gone.
    Exception {
        name: "DeletedObject",
        explains: |difference| {
            let is_told =
                |path: &str| ["/output/watched", "/output/isGone"].iter().any(|it| path.ends_with(it));
            let is_managed =
                difference.path.starts_with("/metadata/managers/") && difference.is_more_of_ours(is_told);
            let is_output = difference.theirs.is_none() && is_told(&difference.path);
            difference.object.starts_with("Operation ") && (is_output || is_managed)
        },
    },
];
