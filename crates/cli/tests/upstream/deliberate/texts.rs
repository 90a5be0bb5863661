//! What is said of failures, and of numbers that nobody has named.

use serde_json::{Value, json};

use super::{Views, items};
use crate::case::list;

/// The words about a fatal result differ in nothing but the quotes around the name of the step.
pub(super) fn failure(views: &mut Views<'_>) -> bool {
    if views.ours["verdict"] != "Fatal" {
        return false;
    }
    let mut is_found = false;
    for place in ["/output/events", "/output/compositeResource/status/conditions"] {
        for item in items(&mut views.ours, place) {
            let message = item["message"].as_str().unwrap_or_default();
            if message.starts_with("cannot compose resources: pipeline step `") {
                item["message"] = message.replacen('`', "\"", 2).into();
                is_found = true;
            }
        }
    }
    is_found
}

/// Crossplane says nothing at all of a severity it does not know, and has no status for a status it does not know.
pub(super) fn unknown_number(views: &mut Views<'_>) -> bool {
    let is_told = |field: &'static str, key: &'static str| {
        let responses = views.case.inputs().map(move |input| list(&input["response"][field]));
        responses.flatten().any(move |said| said[key].is_number())
    };
    let (has_severity, has_status) = (is_told("results", "severity"), is_told("conditions", "status"));
    let mut is_found = false;
    if has_severity {
        let ours = list(&views.ours["output"]["events"]).to_vec();
        for (theirs, ours) in items(&mut views.theirs, "/output/events").zip(ours) {
            let is_ours_loud =
                ours["type"] == "Warning" && text(&ours).contains(" returned a result of unknown severity ");
            if *theirs == json!({"type": "", "reason": "", "message": ""}) && is_ours_loud {
                *theirs = ours;
                is_found = true;
            }
        }
    }
    if has_status {
        for condition in items(&mut views.theirs, "/output/compositeResource/status/conditions") {
            if condition["status"] == "" {
                condition["status"] = "Unknown".into();
                is_found = true;
            }
        }
    }
    is_found
}

fn text(event: &Value) -> &str {
    event["message"].as_str().unwrap_or_default()
}
