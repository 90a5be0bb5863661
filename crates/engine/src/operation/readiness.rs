//! Decides when an operation that a composite resource composes is ready. None of the three kinds has a condition `Ready`.

use ferroplane_api::{Object, Status, keys, meta};

use super::attempt::{Standing, standing};
use crate::settle::conditions_in;

/// Whether an operation has succeeded, a schedule is scheduled, or a watch watches. False if it is none of them.
pub(crate) fn is_ready(object: &Object) -> bool {
    if meta::group(meta::api_version(object)) != keys::OPS {
        return false;
    }
    match meta::kind(object) {
        "Operation" => standing(object) == Standing::Succeeded,
        "CronOperation" => says(object, "Scheduling"),
        "WatchOperation" => says(object, "Watching"),
        _ => false,
    }
}

fn says(object: &Object, kind: &str) -> bool {
    let conditions = object.get("status").and_then(|status| status.get("conditions"));
    let conditions = conditions.map(conditions_in).unwrap_or_default();
    conditions.iter().any(|condition| condition.kind == kind && condition.status == Status::True)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_has_its_own_word_for_it() {
        let object = |api_version: &str, kind: &str, condition: &str, status: &str| {
            let condition = json!({"type": condition, "status": status, "reason": "x"});
            let object =
                json!({"apiVersion": api_version, "kind": kind, "status": {"conditions": [condition]}});
            object.as_object().unwrap().clone()
        };
        let ops = "ops.crossplane.io/v1alpha1";
        for (kind, condition) in
            [("Operation", "Succeeded"), ("CronOperation", "Scheduling"), ("WatchOperation", "Watching")]
        {
            assert!(is_ready(&object(ops, kind, condition, "True")), "{kind}");
            assert!(!is_ready(&object(ops, kind, condition, "Unknown")), "{kind}");
            assert!(!is_ready(&object(ops, kind, "Synced", "True")), "{kind}");
            assert!(!is_ready(&object("example.org/v1", kind, condition, "True")), "{kind}");
        }
    }
}
