//! What a namespace that is going says about what keeps it.

use ferroplane_schema::status::Status;
use serde_json::{Value, json};

use super::RemainingContent;

/// A condition that mentions trouble, or of its absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamespaceCondition {
    kind: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

/// Type, reason and message of each condition when all is well, in the order in which they are listed.
const FINE: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// All conditions, given what is left and what could not be deleted.
pub(super) fn of(left: &RemainingContent, failures: &[Status]) -> Vec<NamespaceCondition> {
    FINE.iter()
        .map(|(kind, reason, message)| {
            let trouble = trouble(kind, left, failures);
            let is_true = trouble.is_some();
            let (reason, message) = trouble.unwrap_or((*reason, (*message).to_owned()));
            NamespaceCondition { kind, is_true, reason, message }
        })
        .collect()
}

fn trouble(kind: &str, left: &RemainingContent, failures: &[Status]) -> Option<(&'static str, String)> {
    let list = |texts: Vec<String>| texts.join(", ");
    match kind {
        "NamespaceDeletionContentFailure" if !failures.is_empty() => {
            let mut messages: Vec<_> = failures.iter().map(|failure| failure.message.clone()).collect();
            messages.sort();
            let count = failures.len();
            let words = format!("Failed to delete all resource types, {count} remaining: {}", list(messages));
            Some(("ContentDeletionFailed", words))
        }
        "NamespaceContentRemaining" if !left.resources.is_empty() => {
            let counts = left.resources.iter();
            let counts =
                counts.map(|(name, count)| format!("{name} has {count} resource instances")).collect();
            Some(("SomeResourcesRemain", format!("Some resources are remaining: {}", list(counts))))
        }
        "NamespaceFinalizersRemaining" if !left.finalizers.is_empty() => {
            let counts = left.finalizers.iter();
            let counts =
                counts.map(|(name, count)| format!("{name} in {count} resource instances")).collect();
            let words = "Some content in the namespace has finalizers remaining";
            Some(("SomeFinalizersRemain", format!("{words}: {}", list(counts))))
        }
        _ => None,
    }
}

/// The conditions after these came to be. What has not changed keeps its time.
pub(super) fn updated(old: &[Value], new: &[NamespaceCondition], now: &str) -> Vec<Value> {
    let mut conditions = old.to_vec();
    for condition in new {
        let status = if condition.is_true { "True" } else { "False" };
        let known = conditions.iter_mut().find(|known| known["type"] == condition.kind);
        let time = known.as_ref().filter(|known| known["status"] == status);
        let time = time.and_then(|known| known["lastTransitionTime"].as_str()).unwrap_or(now).to_owned();
        let written = json!({
            "type": condition.kind,
            "status": status,
            "lastTransitionTime": time,
            "reason": condition.reason,
            "message": condition.message,
        });
        match known {
            Some(known) => *known = written,
            None => conditions.push(written),
        }
    }
    conditions
}
