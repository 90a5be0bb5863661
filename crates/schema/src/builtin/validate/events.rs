//! Events. Those of the core group are hardly checked; those of `events.k8s.io`, which newer clients use, are checked more strictly.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/core/validation/events.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::read;
use crate::field::{Error, Path};

const MAX_TEXT: usize = 128;
const MAX_NOTE: usize = 1024;

/// The names of fields, which differ between the groups.
struct Names {
    object: &'static str,
    message: &'static str,
    controller: &'static str,
    source: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
}

const CORE: Names = Names {
    object: "involvedObject",
    message: "message",
    controller: "reportingComponent",
    source: "source",
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
};
const NEW: Names = Names {
    object: "regarding",
    message: "note",
    controller: "reportingController",
    source: "deprecatedSource",
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
};

/// What is wrong with a new event.
pub(super) fn create(group: &str, event: &JsonObject) -> Vec<Error> {
    if group.is_empty() {
        return check(&CORE, event);
    }
    let mut errors = check(&NEW, event);
    errors.extend(series(event));
    if read::text(event, "eventTime").is_empty() {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    let kind = read::text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        // The value is shown as empty text and named in the words, as in `ValidateEventCreate`.
        errors.push(Error::invalid(&Path::new("type"), "", format!("has invalid value: {kind}")));
    }
    let is_set = |name: &str| match event.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Number(number)) => number.as_i64() != Some(0),
        Some(Value::Object(source)) => !source.is_empty(),
        Some(_) => true,
    };
    // Kubernetes checks its internal type, whose fields have the names of the core group: messages show those
    // even to clients of the new group.
    let old =
        [(NEW.first, CORE.first), (NEW.last, CORE.last), (NEW.count, CORE.count), (NEW.source, CORE.source)];
    for (_, shown) in old.into_iter().filter(|(name, _)| is_set(name)) {
        errors.push(Error::invalid(&Path::new(shown), "", "needs to be unset"));
    }
    errors
}

/// What is wrong with an event that replaces an old one.
pub(super) fn update(group: &str, event: &JsonObject, old: &JsonObject) -> Vec<Error> {
    if group.is_empty() {
        return check(&CORE, event);
    }
    let mut errors = check(&NEW, event);
    if event.get("series") != old.get("series") {
        errors.extend(series(event));
    }
    let frozen = [
        (NEW.object, CORE.object),
        ("reason", "reason"),
        (NEW.message, CORE.message),
        (NEW.source, CORE.source),
        (NEW.first, CORE.first),
        (NEW.last, CORE.last),
        (NEW.count, CORE.count),
        // Twice, as in `ValidateEventUpdate`: a changed reason is reported twice.
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        (NEW.controller, NEW.controller),
        ("reportingInstance", "reportingInstance"),
    ];
    for (name, shown) in frozen.into_iter().filter(|(name, _)| event.get(*name) != old.get(*name)) {
        let value = event.get(name).cloned().unwrap_or_default();
        errors.push(Error::invalid(&Path::new(shown), value, "field is immutable"));
    }
    errors
}

fn check(names: &Names, event: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let namespace = read::object(event, "metadata").map_or("", |metadata| read::text(metadata, "namespace"));
    let about = read::object(event, names.object).map_or("", |object| read::text(object, "namespace"));
    let is_new = !read::text(event, "eventTime").is_empty();
    let belongs = match (about, is_new) {
        // `default` for old clients, who put events of cluster-scoped objects there.
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (about, false) => about == namespace,
        (_, true) => true,
    };
    if !belongs {
        let path = Path::new("involvedObject");
        errors.push(Error::invalid(&path.child("namespace"), about, "does not match event.namespace"));
    }
    if is_new {
        errors.extend(check_new(names, event));
    }
    errors
}

fn check_new(names: &Names, event: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let controller = read::text(event, names.controller);
    let path = Path::new(names.controller);
    if controller.is_empty() {
        errors.push(Error::required(&path, ""));
    }
    let problems = crate::names::qualified(controller).into_iter();
    errors.extend(problems.map(|problem| Error::invalid(&path, controller, problem)));
    let limits = [("reportingInstance", MAX_TEXT), ("action", MAX_TEXT), ("reason", MAX_TEXT)];
    for (name, most) in limits {
        if read::text(event, name).is_empty() {
            errors.push(Error::required(&Path::new(name), ""));
        }
        errors.extend(too_long(event, name, name, most));
    }
    errors.extend(too_long(event, names.message, "message", MAX_NOTE));
    errors
}

fn too_long(event: &JsonObject, name: &str, shown: &'static str, most: usize) -> Option<Error> {
    let words = format!("can have at most {most} characters");
    (read::text(event, name).len() > most).then(|| Error::invalid(&Path::new(shown), "", words))
}

fn series(event: &JsonObject) -> Vec<Error> {
    let Some(series) = read::object(event, "series") else { return Vec::new() };
    let mut errors = Vec::new();
    if read::integer(series, "count").unwrap_or_default() < 2 {
        errors.push(Error::invalid(&Path::new("series.count"), "", "should be at least 2"));
    }
    if read::text(series, "lastObservedTime").is_empty() {
        errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
    errors
}
