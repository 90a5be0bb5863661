//! Owner references that are there twice are there once.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/handlers/rest.go`.

use serde_json::Value;

use super::{Proposal, metadata_mut};

/// Drops what is there twice, and says so.
pub(super) fn deduplicate(proposal: &mut Proposal, is_after_admission: bool) {
    let has_several = |value: &Value| value.as_array().is_some_and(|references| references.len() > 1);
    let metadata = metadata_mut(&mut proposal.object);
    let Some(Value::Array(references)) =
        metadata.get_mut("ownerReferences").filter(|value| has_several(value))
    else {
        return;
    };
    let mut kept: Vec<Value> = Vec::with_capacity(references.len());
    let mut dropped = Vec::new();
    for reference in references.drain(..) {
        // Equal in all fields: two references to one owner that differ are refused by validation instead.
        if kept.contains(&reference) {
            dropped.push(reference.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        } else {
            kept.push(reference);
        }
    }
    *references = kept;
    if dropped.is_empty() {
        return;
    }
    let what = if is_after_admission {
        ".metadata.ownerReferences contains duplicate entries after mutating admission happens"
    } else {
        ".metadata.ownerReferences contains duplicate entries"
    };
    proposal.warnings.push(format!(
        "{what}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix \
         your requests; duplicate UID(s) observed: {}",
        dropped.join(", ")
    ));
}
