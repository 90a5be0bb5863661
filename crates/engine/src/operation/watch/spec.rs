//! Reads the spec of a `WatchOperation`.

use std::collections::BTreeMap;

use ferroplane_api::{Object, keys, meta};
use ferroplane_golang::time::duration;
use ferroplane_wire::to_hex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::fields::{FieldPath, InvalidFieldPath};
use crate::operation::cron::ConcurrencyPolicy;
use crate::operation::history::HistoryLimits;

/// Which objects are watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub api_version: String,
    pub kind: String,
    /// None for all namespaces.
    pub namespace: Option<String>,
    pub labels: BTreeMap<String, String>,
}

/// The spec of a `WatchOperation`.
#[derive(Debug, Clone)]
pub struct WatchSpec {
    pub selection: Selection,
    /// Only changes of these fields count. Empty: of all fields.
    pub fields: Vec<FieldPath>,
    pub policy: ConcurrencyPolicy,
    /// How many seconds a change may wait for its operation.
    pub deadline: Option<i64>,
    pub limits: HistoryLimits,
    pub is_suspended: bool,
}

impl WatchSpec {
    pub fn of(watch: &Object) -> Result<Self, InvalidFieldPath> {
        let nothing = Object::new();
        let spec = watch.get("spec").and_then(Value::as_object).unwrap_or(&nothing);
        let watched = spec.get("watch").and_then(Value::as_object).unwrap_or(&nothing);
        let text = |field: &str| watched.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let labels = watched.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let fields = watched.get("fields").and_then(Value::as_array).into_iter().flatten();
        let fields = fields.map(|field| FieldPath::parse(field["fieldPath"].as_str().unwrap_or_default()));
        let is_paused = meta::annotation(watch, keys::PAUSED) == "true";
        Ok(Self {
            selection: Selection {
                api_version: text("apiVersion"),
                kind: text("kind"),
                namespace: Some(text("namespace")).filter(|namespace| !namespace.is_empty()),
                labels: labels.collect(),
            },
            fields: fields.collect::<Result<_, _>>()?,
            policy: ConcurrencyPolicy::of(spec),
            deadline: deadline(spec),
            limits: HistoryLimits::of(spec),
            is_suspended: is_paused || spec.get("suspend").and_then(Value::as_bool) == Some(true),
        })
    }

    /// A short text that identifies the watched objects and fields.
    pub(super) fn selector(&self) -> String {
        let Selection { api_version, kind, namespace, labels } = &self.selection;
        let fields: Vec<_> = self.fields.iter().map(ToString::to_string).collect();
        let text = serde_json::json!([api_version, kind, namespace, labels, fields]).to_string();
        to_hex(&Sha256::digest(text.as_bytes())[..4])
    }
}

/// How many seconds late an operation may start, in Crossplane's spelling or that of the design.
pub(in crate::operation) fn deadline(spec: &Object) -> Option<i64> {
    let seconds = spec.get("startingDeadlineSeconds").and_then(Value::as_i64);
    let text = spec.get("startDeadline").and_then(Value::as_str).unwrap_or_default();
    seconds.or_else(|| duration::parse(text).ok().map(|nanoseconds| nanoseconds / 1_000_000_000))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(spec: &Value) -> Result<WatchSpec, InvalidFieldPath> {
        WatchSpec::of(json!({"spec": spec}).as_object().unwrap())
    }

    #[test]
    fn spec_is_read() {
        let read = spec(&json!({
            "watch": {
                "apiVersion": "example.org/v1", "kind": "App", "namespace": "a", "matchLabels": {"k": "v"},
                "fields": [{"fieldPath": "metadata.generation"}],
            },
            "concurrencyPolicy": "Forbid", "startDeadline": "10m", "suspend": true, "successfulHistoryLimit": 0,
        }))
        .unwrap();
        assert_eq!(read.selection.namespace.as_deref(), Some("a"));
        assert_eq!(read.selection.labels["k"], "v");
        assert_eq!((read.fields.len(), read.policy), (1, ConcurrencyPolicy::Forbid));
        assert_eq!((read.deadline, read.is_suspended), (Some(600), true));
        assert_eq!(read.limits, HistoryLimits { succeeded: 0, failed: 1 });
        assert!(spec(&json!({"watch": {"fields": [{"fieldPath": "a..b"}]}})).is_err());
    }

    #[test]
    fn selector_tells_what_is_watched_and_nothing_else() {
        let selector = |watch: &Value, policy: &str| {
            spec(&json!({"watch": watch, "concurrencyPolicy": policy})).unwrap().selector()
        };
        let app = json!({"kind": "App"});
        assert_eq!(selector(&app, "Allow"), selector(&app, "Forbid"));
        for other in [
            json!({"kind": "App", "namespace": "a"}),
            json!({"kind": "App", "matchLabels": {"a": "b"}}),
            json!({"kind": "App", "fields": [{"fieldPath": "a"}]}),
        ] {
            assert_ne!(selector(&app, "Allow"), selector(&other, "Allow"), "{other}");
        }
    }
}
