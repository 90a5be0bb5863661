//! Settings of the simulation, in annotations of objects and of CRDs. Performs no I/O.

use std::time::Duration;

use ferroplane_api::{Object, meta};
use ferroplane_golang::time::duration;
use serde_json::Value;

/// How long it takes to become ready, or to fail: `5s`.
pub(super) const DELAY: &str = "simulate.ferroplane.io/delay";
/// It fails, with this message.
pub(super) const FAILURE: &str = "simulate.ferroplane.io/failure";
/// Fields of its status, as YAML, with `${spec.some.field}` for values of the object.
pub(super) const STATUS: &str = "simulate.ferroplane.io/status";
/// `true` leaves it alone.
pub(super) const IGNORE: &str = "simulate.ferroplane.io/ignore";

/// What is asked for an object, or for all objects of a kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Requests {
    pub(super) delay: Option<Duration>,
    /// Why it fails.
    pub(super) failure: Option<String>,
    /// More fields of the status, not filled in yet.
    pub(super) status: Option<Object>,
    pub(super) is_ignored: bool,
}

impl Requests {
    /// Read the annotations of an object or a CRD. A mistake in them is a failure that says what is wrong: `why` shows it.
    pub(super) fn read(object: &Object) -> Self {
        let annotation = |key| Some(meta::annotation(object, key)).filter(|text| !text.is_empty());
        let mut requests = Self {
            failure: annotation(FAILURE).map(str::to_owned),
            is_ignored: annotation(IGNORE) == Some("true"),
            ..Self::default()
        };
        match annotation(DELAY).map(|text| duration::parse_positive(text).ok_or(text)).transpose() {
            Ok(delay) => requests.delay = delay,
            Err(text) => {
                requests.failure =
                    Some(format!("the annotation {DELAY} is not a duration such as 30s or 500ms: {text:?}"));
            }
        }
        match annotation(STATUS).map(serde_saphyr::from_str::<Value>).transpose() {
            Ok(None) => {}
            Ok(Some(Value::Object(status))) => requests.status = Some(status),
            Ok(Some(_)) => requests.failure = Some(format!("the annotation {STATUS} is not a YAML object")),
            Err(error) => {
                requests.failure = Some(format!("the annotation {STATUS} is not YAML: {error}"));
            }
        }
        requests
    }

    /// The same, with what is asked for all objects of the kind where these ask for nothing.
    pub(super) fn or(self, kind: &Self) -> Self {
        Self {
            delay: self.delay.or(kind.delay),
            failure: self.failure.or_else(|| kind.failure.clone()),
            status: self.status.or_else(|| kind.status.clone()),
            is_ignored: self.is_ignored || kind.is_ignored,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(annotations: &Value) -> Requests {
        Requests::read(json!({"metadata": {"annotations": annotations}}).as_object().unwrap())
    }

    #[test]
    fn annotations_are_read() {
        let requests = read(&json!({DELAY: "1.5s", FAILURE: "no quota", STATUS: "{id: 7}", IGNORE: "true"}));
        let status = json!({"id": 7}).as_object().cloned();
        let failure = Some("no quota".to_owned());
        let delay = Some(Duration::from_millis(1500));
        assert_eq!(requests, Requests { delay, failure, status, is_ignored: true });
        assert_eq!(read(&json!({})), Requests::default());
    }

    #[test]
    fn mistake_is_a_failure_that_names_the_annotation() {
        for (key, value) in
            [(DELAY, "soon"), (DELAY, "-1s"), (STATUS, "[1]"), (STATUS, "a: ["), (STATUS, "x")]
        {
            let failure = read(&json!({key: value})).failure;
            assert!(failure.as_deref().is_some_and(|text| text.contains(key)), "{key}: {value}: {failure:?}");
        }
    }

    #[test]
    fn object_wins_over_its_kind() {
        let kind = read(&json!({DELAY: "5s", FAILURE: "no quota"}));
        let both = read(&json!({DELAY: "1s"})).or(&kind);
        assert_eq!((both.delay, both.failure.as_deref()), (Some(Duration::from_secs(1)), Some("no quota")));
    }
}
