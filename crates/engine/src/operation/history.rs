//! Decides which finished operations are kept.

use ferroplane_api::{Object, meta};
use ferroplane_golang::time::rfc3339;
use serde_json::Value;

use super::attempt::{Standing, standing};

/// How many finished operations are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    pub succeeded: usize,
    pub failed: usize,
}

impl HistoryLimits {
    /// The limits in a spec, or Crossplane's defaults.
    pub(super) fn of(spec: &Object) -> Self {
        let limit = |field: &str, default: usize| {
            let limit = spec.get(field).and_then(Value::as_i64);
            limit.map_or(default, |limit| usize::try_from(limit).unwrap_or_default())
        };
        Self { succeeded: limit("successfulHistoryLimit", 3), failed: limit("failedHistoryLimit", 1) }
    }
}

/// The operations of one `CronOperation` or `WatchOperation` that exceed the limits. The newest are kept, and those that run.
pub fn too_many(operations: &[Object], limits: HistoryLimits) -> Vec<&Object> {
    let mut newest_first: Vec<_> = operations.iter().collect();
    // By name if they are equally old, so that every reconcile decides the same.
    newest_first.sort_by_cached_key(|it| std::cmp::Reverse((created_at(it), meta::name(it).to_owned())));
    let (mut succeeded, mut failed) = (0, 0);
    newest_first.retain(|operation| {
        let (count, limit) = match standing(operation) {
            Standing::Running => return false,
            Standing::Succeeded => (&mut succeeded, limits.succeeded),
            Standing::Failed => (&mut failed, limits.failed),
        };
        *count += 1;
        *count > limit
    });
    newest_first
}

/// When an object was created, in seconds since 1970.
pub(super) fn created_at(object: &Object) -> i64 {
    let created = object.get("metadata").and_then(|metadata| metadata.get("creationTimestamp")?.as_str());
    created.and_then(rfc3339::moment).map_or(0, |moment| moment.seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation(name: &str, minute: u32, succeeded: &str) -> Object {
        let operation = json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z")},
            "status": {"conditions": [{"type": "Succeeded", "status": succeeded, "reason": "x"}]},
        });
        operation.as_object().unwrap().clone()
    }

    #[test]
    fn newest_of_each_are_kept_and_those_that_run() {
        let all = [
            operation("a", 1, "True"),
            operation("b", 2, "True"),
            operation("c", 3, "False"),
            operation("d", 4, "False"),
            operation("e", 0, "Unknown"),
        ];
        let names = |succeeded, failed| -> Vec<_> {
            too_many(&all, HistoryLimits { succeeded, failed }).into_iter().map(meta::name).collect()
        };
        assert_eq!(names(1, 1), ["c", "a"]);
        assert_eq!(names(0, 0), ["d", "c", "b", "a"]);
        assert!(names(2, 2).is_empty());
    }
}
