//! Events have two forms, in which the same fields have different names.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/events/v1/conversion.go`.

use ferroplane_golang::json::JsonObject;

/// Names in the first form, and in that of the group of events.
const NAMES: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// Brings an event into the other form.
pub(super) fn convert(event: &mut JsonObject, api_version: &str) {
    for (core, group) in NAMES {
        let (from, to) = if api_version == "v1" { (group, core) } else { (core, group) };
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
    // Only the first form says that it does not say who reports.
    if api_version != "v1" {
        event.retain(|name, value| !(name.starts_with("reporting") && value == ""));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_in_the_other_form_and_back_is_the_same() {
        let event = json!({"involvedObject": {"name": "a"}, "message": "m", "count": 2, "type": "Normal"});
        let event = event.as_object().unwrap();
        let mut other = event.clone();
        convert(&mut other, "events.k8s.io/v1");
        let expected =
            json!({"regarding": {"name": "a"}, "note": "m", "deprecatedCount": 2, "type": "Normal"});
        assert_eq!(other, *expected.as_object().unwrap());
        convert(&mut other, "v1");
        assert_eq!(other, *event);
    }
}
