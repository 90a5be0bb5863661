//! Classifies the errors with which an API server refuses a request.
//!
//! Kubernetes explains most of them in prose only: an exceeded quota and a missing right have the same code and the same reason. Only
//! this file matches that prose. It follows Kubernetes 1.36; the texts have not changed for many releases.

use ferroplane_api::Cause;

/// The words with which admission begins. The first in the message counts, before all other texts: after these words follows
/// the message of a policy or a webhook, or the failure of the call, and each of them may quote any other text.
const ADMISSION: &[(Cause, &str)] = &[
    // apiserver/pkg/admission/plugin/policy/validating
    (Cause::ValidationRuleViolated, "ValidatingAdmissionPolicy '"),
    // apiserver/pkg/admission/plugin/webhook/errors
    (Cause::WebhookDenied, "admission webhook \""),
    (Cause::WebhookUnreachable, "failed calling webhook"),
    (Cause::WebhookUnreachable, "failed to call webhook"),
];

/// The cause of a refusal, by a text in its message. The first match counts.
// The order is from the specific to the general: "is invalid" would swallow an immutable field.
const TEXTS: &[(Cause, &[&str])] = &[
    // kubectl's and client-go's words for a kind that discovery does not list; the API server's for a path of such a kind.
    (Cause::ComposedKindUnavailable, &["no matches for kind", "could not find the requested resource"]),
    // plugin/pkg/admission/resourcequota
    (Cause::QuotaExceeded, &["exceeded quota"]),
    // plugin/pkg/admission/namespace/lifecycle
    (Cause::NamespaceTerminating, &["is being terminated"]),
    // apiserver/pkg/endpoints/handlers/responsewriters: what the authorizer does not allow, and impersonation.
    (Cause::PermissionDenied, &["is forbidden: User ", "cannot impersonate"]),
    // What admission says without the name of the webhook, in Kubernetes and in servers like it.
    (Cause::WebhookDenied, &["denied the request", "denied request"]),
    // apimachinery/pkg/api/validation/objectmeta.go: an owner reference beside that of another controller.
    (Cause::ObjectControlled, &["Only one reference can have Controller set to true"]),
    // apimachinery/pkg/util/managedfields: another manager applied it.
    (Cause::FieldConflict, &["Apply failed with "]),
    // apimachinery/pkg/api/validation, pkg/apis/core/validation, and what most CRDs say in their transition rules.
    (Cause::FieldImmutable, &["is immutable", "may not be changed", "are forbidden: updates to"]),
    // apiextensions-apiserver/pkg/apiserver/schema/cel
    (
        Cause::ValidationRuleViolated,
        &["failed rule: ", "Invalid value: \"object\": ", "Invalid value: \"array\": ", "no such key: "],
    ),
    // apiextensions-apiserver/pkg/apiserver/validation; structured-merge-diff for what no schema has.
    (
        Cause::SchemaViolated,
        &[" is invalid: ", "field not declared in schema", "unknown field", "failed to create typed patch"],
    ),
    // apiserver/pkg/util/flowcontrol and etcd.
    (
        Cause::ApiServerOverloaded,
        &[
            "too many requests",
            "Too many requests",
            "unable to handle the request",
            "request timed out",
            "etcdserver:",
            "the server was unable to return a response",
        ],
    ),
];

/// The cause of a refusal, from the reason and the message of its status.
pub fn refusal_cause(reason: &str, message: &str) -> Cause {
    recognised_refusal(message).unwrap_or(match reason {
        "Invalid" => Cause::SchemaViolated,
        "Conflict" => Cause::FieldConflict,
        "TooManyRequests" | "ServerTimeout" | "Timeout" | "ServiceUnavailable" => Cause::ApiServerOverloaded,
        _ => Cause::RequestRefused,
    })
}

/// The same, if only the message is known. None if the message is not recognised.
pub fn recognised_refusal(message: &str) -> Option<Cause> {
    if let Some(cause) = admission_cause(message) {
        return Some(cause);
    }
    // registry/rest: what is created in a namespace that does not exist.
    // Before the other texts, because a refusal about a missing namespace also says "could not find".
    if message.contains("namespaces \"") && message.contains("not found") {
        return Some(Cause::NamespaceNotFound);
    }
    let is_said = |words: &[&str]| words.iter().any(|word| message.contains(word));
    let (cause, _) = TEXTS.iter().find(|(_, words)| is_said(words))?;
    let is_rule = *cause == Cause::SchemaViolated && is_without_value(message);
    Some(if is_rule { Cause::ValidationRuleViolated } else { *cause })
}

/// Whether no value follows the words for an invalid value. Newer releases of Kubernetes leave it out for rules, and never for schemas.
fn is_without_value(message: &str) -> bool {
    let begins_value = |rest: &str| {
        rest.starts_with(['"', '{', '[', '-']) || rest.starts_with(|first: char| first.is_ascii_digit())
    };
    let is_word = |rest: &str| ["true", "false", "null"].iter().any(|word| rest.starts_with(word));
    let mut rests = message.split("Invalid value: ").skip(1).peekable();
    rests.peek().is_some() && rests.all(|rest| !begins_value(rest) && !is_word(rest))
}

fn admission_cause(message: &str) -> Option<Cause> {
    let found = ADMISSION.iter().filter_map(|(cause, words)| Some((message.find(*words)?, *cause)));
    found.min_by_key(|(at, _)| *at).map(|(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let cases = [
            (
                "Forbidden",
                "buckets.cloud.io \"b\" is forbidden: exceeded quota: few, requested: 1",
                Cause::QuotaExceeded,
            ),
            (
                "Forbidden",
                "buckets.cloud.io \"b\" is forbidden: User \"x\" cannot patch resource \"buckets\"",
                Cause::PermissionDenied,
            ),
            (
                "Forbidden",
                "buckets.cloud.io \"b\" is forbidden: unable to create new content in namespace a because it is being terminated",
                Cause::NamespaceTerminating,
            ),
            ("NotFound", "namespaces \"a\" not found", Cause::NamespaceNotFound),
            (
                "InternalError",
                "Internal error occurred: failed calling webhook \"a.b\": refused",
                Cause::WebhookUnreachable,
            ),
            ("Forbidden", "admission webhook \"a.b\" denied the request: too big", Cause::WebhookDenied),
            (
                "Forbidden",
                "admission webhook \"a.b\" denied the request: exceeded quota: few, namespaces \"x\" not found",
                Cause::WebhookDenied,
            ),
            (
                "Forbidden",
                "admission webhook \"a.b\" denied the request: see ValidatingAdmissionPolicy 'p'",
                Cause::WebhookDenied,
            ),
            (
                "InternalError",
                "Internal error occurred: failed calling webhook \"a.b\": no matches for kind \"X\"",
                Cause::WebhookUnreachable,
            ),
            (
                "Forbidden",
                "buckets.cloud.io \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too big",
                Cause::ValidationRuleViolated,
            ),
            (
                "Invalid",
                "buckets.cloud.io \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: \
                 as admission webhook \"a.b\" does, name is immutable",
                Cause::ValidationRuleViolated,
            ),
            (
                "Invalid",
                "Bucket.cloud.io \"b\" is invalid: spec: Invalid value: \"object\": odd",
                Cause::ValidationRuleViolated,
            ),
            (
                "Invalid",
                "Bucket.cloud.io \"b\" is invalid: spec: Invalid value: size must be even",
                Cause::ValidationRuleViolated,
            ),
            (
                "Invalid",
                "Bucket.cloud.io \"b\" is invalid: spec.size: Invalid value: 9: must be even",
                Cause::SchemaViolated,
            ),
            (
                "Invalid",
                "Bucket.cloud.io \"b\" is invalid: spec.on: Invalid value: true: must be off",
                Cause::SchemaViolated,
            ),
            ("Invalid", "Bucket.cloud.io \"b\" is invalid: spec.size: Required value", Cause::SchemaViolated),
            (
                "Invalid",
                "Job.batch \"j\" is invalid: spec.template: Invalid value: {}: field is immutable",
                Cause::FieldImmutable,
            ),
            (
                "Invalid",
                "Secret \"s\" is invalid: type: Invalid value: \"a\": may not be changed once set",
                Cause::FieldImmutable,
            ),
            ("Invalid", "something else", Cause::SchemaViolated),
            ("TooManyRequests", "later", Cause::ApiServerOverloaded),
            ("Forbidden", "pods \"p\" is forbidden: violates PodSecurity", Cause::RequestRefused),
            ("", "", Cause::RequestRefused),
        ];
        for (reason, message, cause) in cases {
            assert_eq!(refusal_cause(reason, message), cause, "{message}");
        }
    }
}
