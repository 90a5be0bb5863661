//! Functions see the composite resource as it was read. Crossplane shows them a condition that is not written
//! yet, and when it renders, a resource version that is made up.

use serde_json::{Value, json};

use super::{Views, items};
use crate::case::{Case, list};

pub(super) fn as_read(views: &mut Views<'_>) -> bool {
    let case = views.case;
    let mut is_found = false;
    for request in items(&mut views.theirs, "/requests") {
        if let Some(xr) = request.pointer_mut("/observed/composite/resource") {
            is_found |= restore(case, xr);
        }
        for field in ["requiredResources", "extraResources"] {
            let required = request.get_mut(field).and_then(Value::as_object_mut);
            for item in required.into_iter().flatten().flat_map(|(_, required)| items(required, "/items")) {
                is_found |= restore(case, &mut item["resource"]);
            }
        }
    }
    let output = views.theirs.pointer_mut("/output/compositeResource");
    is_found | output.is_some_and(|xr| is_xr(case, xr) && forget_made_up_version(case, xr))
}

/// Make the composite resource what it was when it was read.
fn restore(case: &Case, object: &mut Value) -> bool {
    if !is_xr(case, object) {
        return false;
    }
    let is_found = [
        forget_made_up_version(case, object),
        forget_handled_request(case, object),
        forget_pending_condition(case, object),
        forget_empty_fields(case, object),
    ];
    if object["status"] == json!({}) {
        put_back(object, "status", &case.xr()["status"]);
    }
    is_found.contains(&true)
}

fn is_xr(case: &Case, object: &Value) -> bool {
    ["/apiVersion", "/kind", "/metadata/name"]
        .iter()
        .all(|path| object.pointer(path) == case.xr().pointer(path))
}

fn forget_made_up_version(case: &Case, xr: &mut Value) -> bool {
    let is_made_up = xr["metadata"]["resourceVersion"] == "999";
    if is_made_up {
        put_back(&mut xr["metadata"], "resourceVersion", &case.xr()["metadata"]["resourceVersion"]);
    }
    is_made_up
}

/// Composing has only begun when a request to do so counts as handled.
fn forget_handled_request(case: &Case, xr: &mut Value) -> bool {
    let token = &case.xr()["metadata"]["annotations"]["crossplane.io/reconcile-requested-at"];
    let is_handled = !token.is_null() && xr.pointer("/status/lastHandledReconcileAt") == Some(token);
    if is_handled {
        put_back(&mut xr["status"], "lastHandledReconcileAt", &case.xr()["status"]["lastHandledReconcileAt"]);
    }
    is_handled
}

fn forget_pending_condition(case: &Case, xr: &mut Value) -> bool {
    let Some(conditions) = conditions(xr) else { return false };
    let is_pending = |condition: &Value| {
        condition["type"] == "Responsive"
            && condition["reason"] == "WatchCircuitClosed"
            && condition["lastTransitionTime"] == "now"
    };
    let Some(index) = conditions.iter().position(is_pending) else { return false };
    let read = &case.xr()["status"]["conditions"];
    match list(read).iter().find(|condition| condition["type"] == "Responsive") {
        Some(read) => conditions[index] = read.clone(),
        None => {
            conditions.remove(index);
        }
    }
    if conditions.is_empty() {
        put_back(&mut xr["status"], "conditions", read);
    }
    true
}

/// Written anew, conditions have every field that conditions must have.
fn forget_empty_fields(case: &Case, xr: &mut Value) -> bool {
    let mut is_found = false;
    for condition in conditions(xr).into_iter().flatten() {
        let read =
            list(&case.xr()["status"]["conditions"]).iter().find(|read| read["type"] == condition["type"]);
        for (field, nothing) in [("lastTransitionTime", Value::Null), ("reason", "".into())] {
            if condition.get(field) == Some(&nothing) && read.is_some_and(|read| read.get(field).is_none()) {
                put_back(condition, field, &Value::Null);
                is_found = true;
            }
        }
    }
    is_found
}

fn conditions(xr: &mut Value) -> Option<&mut Vec<Value>> {
    xr.pointer_mut("/status/conditions")?.as_array_mut()
}

/// What was there before, or nothing.
fn put_back(object: &mut Value, key: &str, before: &Value) {
    match (object.as_object_mut(), before) {
        (None, _) => {}
        (Some(object), Value::Null) => {
            object.remove(key);
        }
        (Some(object), before) => {
            object.insert(key.to_owned(), before.clone());
        }
    }
}
