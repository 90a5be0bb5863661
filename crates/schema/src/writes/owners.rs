//! Owner references that are there twice are there once.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/handlers/rest.go`.

use std::collections::HashSet;

use ferroplane_cancellation::checkpoint;
use serde_json::Value;

use super::{Proposal, metadata_mut};

/// Drops duplicates, and reports them.
pub(super) fn deduplicate(proposal: &mut Proposal, is_after_admission: bool) {
    let has_several = |value: &Value| value.as_array().is_some_and(|references| references.len() > 1);
    let metadata = metadata_mut(&mut proposal.object);
    let Some(Value::Array(references)) =
        metadata.get_mut("ownerReferences").filter(|value| has_several(value))
    else {
        return;
    };
    // Equal in all fields: two references to one owner that differ are refused by validation instead.
    // Upstream compares each with all before it. Ten thousand references fit into a request, and would take it half a minute.
    let mut seen = HashSet::with_capacity(references.len());
    let is_first: Vec<_> = references
        .iter()
        .map(|reference| {
            checkpoint();
            seen.insert(reference)
        })
        .collect();
    if seen.len() == references.len() {
        return;
    }
    let (mut kept, mut dropped) = (Vec::with_capacity(references.len()), Vec::new());
    for (reference, is_first) in references.drain(..).zip(is_first) {
        if is_first {
            kept.push(reference);
        } else {
            dropped.push(reference.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        }
    }
    *references = kept;
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
