//! Texts of other programs, where they have no code for what they mean: the only prose that any rule here goes by.
//!
//! What an API server means by a refusal is in [`ferroplane_engine::recognised_refusal`]; this plane's own failures have
//! codes, and no rule matches their words. Once a rule is found, texts of ours are taken apart to be displayed, by the constants of
//! [`ferroplane_engine::wording`] that they are written with: the operations that a message begins with are left out, and the
//! `AccessGrant` that it ends with becomes advice. A message of another release that has other words is displayed whole. The names of
//! composed resources that are not synced or not ready follow words of Crossplane, which are such constants, too.

use ferroplane_api::Cause;
use ferroplane_engine::recognised_refusal;
use ferroplane_engine::wording::{UNREADY_RESOURCES, UNSYNCED_RESOURCES, without_operation};

use crate::words::{behind, between};

/// What Crossplane 2.4 means, by what stands in a condition. The first that fits counts.
const CROSSPLANE: &[(Cause, &[&str])] = &[
    // internal/controller/apiextensions/composite/composition_revision.go, api.go
    (Cause::NoMatchingComposition, &["no compatible Compositions"]),
    (Cause::CompositionIncompatible, &["not compatible with"]),
    // internal/xfn/function_runner.go
    (Cause::FunctionNotFound, &["cannot find an active FunctionRevision", "cannot find function"]),
    // internal/controller/apiextensions/revision/reconciler.go
    (Cause::FunctionCapabilityMissing, &["missing capabilit", "MissingCapabilities"]),
    // internal/controller/apiextensions/composite/composition_functions.go: of the event that names the right.
    (Cause::PermissionDenied, &["is not allowed to ["]),
    // What gRPC and Go's net and crypto/tls say of a call.
    (Cause::FunctionTlsFailed, &["x509:", "tls: ", "authentication handshake failed"]),
    (Cause::FunctionTimeout, &["DeadlineExceeded", "context deadline exceeded"]),
    (Cause::FunctionConnectionLost, &["connection reset"]),
    (Cause::FunctionUnreachable, &["code = Unavailable", "connection refused", "no such host"]),
    // internal/controller/apiextensions/composite/composition_functions.go
    (Cause::FunctionFatalResult, &["fatal result"]),
    (Cause::FunctionRequirementsUnstable, &["requirements didn't stabilize"]),
    (Cause::FunctionCallFailed, &["cannot run Composition pipeline step"]),
    (Cause::PipelineInvalid, &["invalid pipeline", "ValidPipeline"]),
    // crossplane-runtime, pkg/meta and pkg/resource
    (Cause::ObjectControlled, &["is not controlled by", "not controllable"]),
    // internal/controller/apiextensions/claim/syncer.go
    (Cause::CompositeResourceBound, &["bound to another claim"]),
];

/// The cause, from the message. None if it is unknown.
pub(crate) fn cause_in(text: &str) -> Option<Cause> {
    let is_said = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let crossplane = || CROSSPLANE.iter().find(|(_, words)| is_said(words)).map(|(cause, _)| *cause);
    // What an API server says comes last in a text, so that it is what is meant.
    recognised_refusal(text).or_else(crossplane)
}

/// Whether an API server said it.
pub(crate) fn is_refusal(text: &str) -> bool {
    recognised_refusal(text).is_some()
}

/// The step that Crossplane blames: `cannot run Composition pipeline step "compose"`.
pub(crate) fn step_in(text: &str) -> Option<&str> {
    between(text, "step \"", "\"")
}

/// The composed resource that Crossplane blames: `cannot apply composed resource "bucket"`.
pub(crate) fn resource_in(text: &str) -> Option<&str> {
    between(text, "composed resource \"", "\"")
}

/// A text without the operations that it begins with, Crossplane's or ours. Of steps it leaves out only the one that failed, once:
/// functions may mention others.
pub(crate) fn failure_in<'t>(text: &'t str, step: Option<&str>) -> &'t str {
    let rest = without_operation(text, step);
    // Crossplane begins with the same words as we do, which are gone, and puts steps in other quotes.
    let is_theirs = |operation: &str| {
        let begins = ["cannot run Composition pipeline step", "pipeline step"];
        step.is_some_and(|step| begins.iter().any(|it| operation.starts_with(&format!("{it} \"{step}\""))))
    };
    match rest.split_once(": ") {
        Some((operation, failure)) if !failure.is_empty() && is_theirs(operation) => failure,
        _ => rest,
    }
}

/// The composed resources that are not synced. The words are Crossplane's, and ours as well.
pub(crate) fn unsynced_in(message: &str) -> Option<&str> {
    message.strip_prefix(UNSYNCED_RESOURCES)
}

/// The composed resources that are not ready.
pub(crate) fn unready_in(message: &str) -> Option<&str> {
    message.strip_prefix(UNREADY_RESOURCES)
}

/// Whether a list of names such as `a, b, c, and 2 more` may have a name in it.
pub(crate) fn lists(names: &str, name: &str) -> bool {
    let mut words = names.split([',', ' ']);
    words.any(|word| word == name || word == "more")
}

/// Whether an API server mentions an object of this name: `buckets.cloud.io "b" is forbidden`.
pub(crate) fn names_object(text: &str, name: &str) -> bool {
    text.contains(&format!("\"{name}\""))
}

/// The namespace that an API server does not have: `namespaces "a" not found`.
pub(crate) fn missing_namespace_in(text: &str) -> Option<&str> {
    between(text, "namespaces \"", "\"")
}

/// The field in an API server's refusal, and the message about it:
/// `Bucket.cloud.io "b" is invalid: spec.size: Required value`. The field is empty if the complaint is about the whole object.
pub(crate) fn field_in(text: &str) -> Option<(&str, &str)> {
    let complaint = behind(text, "is invalid: ")?;
    // Several complaints stand in brackets. The first may begin with a bracket itself: `[[]: Too long, spec.a: Required value]`.
    let several = complaint.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let complaint = several.unwrap_or(complaint);
    let (field, rest) = complaint.split_once(": ")?;
    // Kubernetes' words for no field at all: that of an empty path, and that of an empty list.
    let field = if ["<nil>", "[]"].contains(&field) { "" } else { field };
    (!field.contains(' ')).then_some((field, rest))
}

/// A resource that patch-and-transform did not make because a field is missing that one of its patches requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequiredPatch<'a> {
    pub(crate) resource: &'a str,
    /// The type of the patch.
    pub(crate) patch: &'a str,
    pub(crate) field: &'a str,
    /// Whether the field is one of the environment, not of the composite resource.
    pub(crate) is_of_environment: bool,
}

/// What function-patch-and-transform warns of (fn.go), since its v0.2.
pub(crate) fn required_patch_in(text: &str) -> Option<RequiredPatch<'_>> {
    let resource = between(text, "not adding new composed resource \"", "\"")?;
    let patch = between(text, "to desired state because \"", "\"")?;
    // The message of the path begins with the path itself.
    let (field, _) = behind(text, "'policy.fromFieldPath: Required': ")?.split_once(": ")?;
    let is_of_environment = patch.contains("FromEnvironment");
    Some(RequiredPatch { resource, patch, field, is_of_environment })
}

/// What a function said, without the step that an event begins with.
pub(crate) fn result_in(text: &str) -> &str {
    let rest = text.strip_prefix("Pipeline step \"").and_then(|rest| rest.split_once("\": "));
    rest.map_or(text, |(_, message)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_what_api_servers_say() {
        let one = "Bucket.e.org \"b\" is invalid: spec.size: Invalid value: 9: should be less than 5";
        assert_eq!(field_in(one), Some(("spec.size", "Invalid value: 9: should be less than 5")));
        let many = "X \"b\" is invalid: [spec.a: Required value, spec.b: Required value]";
        assert_eq!(field_in(many), Some(("spec.a", "Required value, spec.b: Required value")));
        assert_eq!(
            field_in("X \"b\" is invalid: []: Too long: may not be so"),
            Some(("", "Too long: may not be so"))
        );
        let bracket = "X \"b\" is invalid: [[]: Too long, spec.b: Required value]";
        assert_eq!(field_in(bracket), Some(("", "Too long, spec.b: Required value")));
        let listed = "X \"b\" is invalid: spec.a: Invalid value: [\"c\"]";
        assert_eq!(field_in(listed), Some(("spec.a", "Invalid value: [\"c\"]")));
        assert_eq!(field_in("X \"b\" is invalid: something is wrong: really"), None);
        assert_eq!(field_in("all is well"), None);
    }

    #[test]
    fn crossplanes_words_are_understood() {
        let text = "cannot compose resources: cannot run Composition pipeline step \"a\": cannot run Function \"f\": \
                    rpc error: code = Unavailable desc = connection error";
        assert_eq!((cause_in(text), step_in(text)), (Some(Cause::FunctionUnreachable), Some("a")));
        assert_eq!(
            failure_in(text, Some("a")),
            "cannot run Function \"f\": rpc error: code = Unavailable desc = connection error"
        );
        let fatal = "cannot compose resources: pipeline step \"a\" returned a fatal result: no region";
        assert_eq!(
            (cause_in(fatal), failure_in(fatal, Some("a"))),
            (Some(Cause::FunctionFatalResult), "no region")
        );
        let quoted = "pipeline step \"a\" returned a fatal result: pipeline step \"a\": quota exceeded";
        assert_eq!(failure_in(quoted, Some("a")), "pipeline step \"a\": quota exceeded");
        assert_eq!(cause_in("something new"), None);
        assert_eq!(step_in("no st\u{e9}p"), None);
    }

    #[test]
    fn names_are_found_in_lists() {
        assert!(lists("a, b, and c", "c") && lists("a, b, c, and 2 more", "z") && !lists("ab, b", "a"));
    }
}
