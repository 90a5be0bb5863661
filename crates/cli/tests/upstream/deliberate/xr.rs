//! What is seen of the composite resource itself.

use ferroplane_api::Cause;
use serde_json::{Map, Value, json};

use super::{Views, items};
use crate::case::{Case, list};

/// Where the reference to the composition stands.
const PLACES: [&str; 2] = ["/spec/crossplane", "/spec"];

/// The composite resource names the composition it is rendered with, wherever it is seen. When Crossplane has
/// nothing else to write to it, it is seen as it was before a composition was chosen.
pub(super) fn chosen_composition(views: &mut Views<'_>) -> bool {
    let case = views.case;
    let mut is_found = false;
    if views.theirs["verdict"] == "Fatal" {
        let (ours, theirs) = (views.ours.pointer_mut(OUTPUT), views.theirs.pointer(OUTPUT));
        is_found |= ours.zip(theirs).is_some_and(|(ours, theirs)| forget_choice(case, ours, theirs));
    }
    let theirs = views.theirs["requests"].clone();
    for (index, request) in items(&mut views.ours, "/requests").enumerate() {
        for field in ["requiredResources", "extraResources"] {
            let required = request.get_mut(field).and_then(Value::as_object_mut);
            for (name, required) in required.into_iter().flatten() {
                for (position, item) in items(required, "/items").enumerate() {
                    let theirs = &theirs[index][field][name]["items"][position]["resource"];
                    is_found |= forget_choice(case, &mut item["resource"], theirs);
                }
            }
        }
    }
    is_found
}

const OUTPUT: &str = "/output/compositeResource";

fn forget_choice(case: &Case, ours: &mut Value, theirs: &Value) -> bool {
    let is_xr = ["/kind", "/metadata/name"].iter().all(|path| ours.pointer(path) == case.xr().pointer(path));
    let chosen = json!({"name": case.0["composition"]["metadata"]["name"]});
    let mut is_found = false;
    for place in PLACES.iter().filter(|_| is_xr) {
        let path = format!("{place}/compositionRef");
        let (before, shown) = (case.xr().pointer(&path), theirs.pointer(&path));
        if ours.pointer(&path) == Some(&chosen) && shown != Some(&chosen) && shown == before {
            put(ours, place, "compositionRef", before);
            is_found = true;
        }
    }
    // What held nothing but the choice was not there before.
    for (parent, key) in [("/spec", "crossplane"), ("", "spec")] {
        let path = format!("{parent}/{key}");
        if is_found && ours.pointer(&path) == Some(&json!({})) && theirs.pointer(&path).is_none() {
            put(ours, parent, key, None);
        }
    }
    is_found
}

fn put(object: &mut Value, parent: &str, key: &str, value: Option<&Value>) {
    let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
    match value {
        Some(value) => parent.insert(key.to_owned(), value.clone()),
        None => parent.remove(key),
    };
}

/// A condition that reports a failure has the code of its cause, and says where it failed.
pub(super) fn cause_code(views: &mut Views<'_>) -> bool {
    let mut is_found = false;
    for condition in items(&mut views.ours, &format!("{OUTPUT}/status/conditions")) {
        let is_coded = condition["code"].as_str().is_some_and(|code| code.parse::<Cause>().is_ok());
        let Some(fields) = condition.as_object_mut().filter(|_| is_coded) else { continue };
        fields.retain(|field, _| !["code", "step", "resource"].contains(&field.as_str()));
        is_found = true;
    }
    is_found
}

/// What a function writes as a condition, and the API server would not take for one, is dropped.
pub(super) fn no_condition(views: &mut Views<'_>) -> bool {
    let is_condition = |condition: &Value| {
        let status = condition["status"].as_str().unwrap_or_default();
        condition["type"].is_string() && ["True", "False", "Unknown"].contains(&status)
    };
    let is_told = views.case.inputs().any(|input| {
        let conditions = &input["response"]["desired"]["composite"]["resource"]["status"]["conditions"];
        !list(conditions).iter().all(is_condition)
    });
    let path = format!("{OUTPUT}/status/conditions");
    if !is_told || views.ours.pointer(&path) == views.theirs.pointer(&path) {
        return false;
    }
    // One that replaces what is no condition takes its place.
    for view in [&mut views.ours, &mut views.theirs] {
        if let Some(conditions) = view.pointer_mut(&path).and_then(Value::as_array_mut) {
            conditions.retain(|condition| is_condition(condition) && condition["type"] != "");
            conditions.sort_by_cached_key(|condition| condition["type"].to_string());
        }
    }
    true
}

/// A status that is null is none. When it renders, Crossplane then has no place for conditions, or shows the
/// composite resource as it was before it was composed.
pub(super) fn null_status(views: &mut Views<'_>) -> bool {
    let ours = views.ours["output"]["compositeResource"].clone();
    let is_told = views.case.inputs().any(|input| {
        input["response"]["desired"]["composite"]["resource"].get("status") == Some(&Value::Null)
    });
    let Some(theirs) = views.theirs.pointer_mut(OUTPUT).filter(|_| is_told) else { return false };
    let is_before = theirs["metadata"].get("uid").is_some() && ours["metadata"].get("uid").is_none();
    if is_before {
        *theirs = ours;
    } else if theirs["status"].is_null() {
        theirs["status"] = ours["status"].clone();
    } else {
        return false;
    }
    true
}

/// What is shown does not depend on whether it is new. When there is nothing to write to the status, Crossplane
/// shows the composite resource as it was before it was composed.
pub(super) fn unchanged(views: &mut Views<'_>) -> bool {
    let (Some(ours), Some(theirs)) = (views.ours.pointer(OUTPUT), views.theirs.pointer_mut(OUTPUT)) else {
        return false;
    };
    let is_before = theirs["metadata"].get("uid").is_some() && ours["metadata"].get("uid").is_none();
    let is_old =
        list(&ours["status"]["conditions"]).iter().all(|condition| condition["lastTransitionTime"] != "now");
    let is_found = is_before && is_old && ours["status"] == theirs["status"];
    if is_found {
        theirs.clone_from(ours);
    }
    is_found
}

/// A condition that becomes unknown because of a failure does so now. Crossplane keeps the time at which it
/// became what it was before.
pub(super) fn fatal_time(views: &mut Views<'_>) -> bool {
    let mut is_found = false;
    let path = format!("{OUTPUT}/status/conditions");
    let ours = views.ours.pointer(&path).cloned().unwrap_or_default();
    let before = list(&views.case.xr()["status"]["conditions"]);
    for (theirs, ours) in items(&mut views.theirs, &path).zip(list(&ours)) {
        let before = before.iter().find(|condition| condition["type"] == theirs["type"]);
        let is_kept =
            before.is_some_and(|before| before["lastTransitionTime"] == theirs["lastTransitionTime"]);
        if is_kept && theirs["reason"] == "FatalError" && ours["lastTransitionTime"] == "now" {
            theirs["lastTransitionTime"] = "now".into();
            is_found = true;
        }
    }
    is_found
}

/// A reconcile request is handled when composing has succeeded.
pub(super) fn request_not_handled(views: &mut Views<'_>) -> bool {
    let token = &views.case.xr()["metadata"]["annotations"]["crossplane.io/reconcile-requested-at"];
    let status = views.theirs.pointer_mut(&format!("{OUTPUT}/status")).and_then(Value::as_object_mut);
    let is_noted = |status: &&mut Map<String, Value>| status.get("lastHandledReconcileAt") == Some(token);
    let Some(status) = status.filter(is_noted) else { return false };
    status.remove("lastHandledReconcileAt");
    true
}
