//! Containers that are added to a pod to look into it. They are added by a subresource, and never changed or removed.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry/core/pod/strategy.go`, `pkg/apis/core/validation/validation.go`.

use std::collections::{HashMap, HashSet};

use ferroplane_golang::json::JsonObject;
use ferroplane_golang::strconv::quote;
use serde_json::Value;

use crate::field::{Error, Path};

/// The old pod, with the ephemeral containers of the new one.
pub(in super::super) fn keep_all_but_ephemeral_containers(object: &mut JsonObject, old: &JsonObject) {
    let new = std::mem::replace(object, old.clone());
    let take = |part: &str, name: &str| new.get(part).and_then(|part| part.get(name)).cloned();
    for (part, name) in
        [("metadata", "resourceVersion"), ("metadata", "managedFields"), ("spec", "ephemeralContainers")]
    {
        let Some(Value::Object(fields)) = object.get_mut(part) else { continue };
        match take(part, name) {
            Some(value) => drop(fields.insert(name.to_owned(), value)),
            None => drop(fields.remove(name)),
        }
    }
}

fn containers<'p>(pod: &'p Value, list: &str) -> &'p [Value] {
    pod["spec"][list].as_array().map_or(&[], Vec::as_slice)
}

fn name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

/// What is wrong with the ephemeral containers of a changed pod.
pub(in super::super) fn check_ephemeral_containers(object: &Value, old: &Value) -> Vec<Error> {
    let spec = Path::new("spec");
    let path = spec.child("ephemeralContainers");
    let mut errors = Vec::new();
    let others = ["containers", "initContainers"].map(|list| containers(object, list));
    let mut seen: HashSet<_> = others.into_iter().flatten().map(name).collect();
    for (index, container) in containers(object, "ephemeralContainers").iter().enumerate() {
        let at = path.index(index);
        if name(container).is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        } else if !seen.insert(name(container)) {
            errors.push(Error::duplicate(&at.child("name"), name(container)));
        }
        if container["image"].as_str().unwrap_or_default().is_empty() {
            errors.push(Error::required(&at.child("image"), ""));
        }
    }
    let new: HashMap<_, _> = containers(object, "ephemeralContainers")
        .iter()
        .map(|container| (name(container), container))
        .collect();
    for before in containers(old, "ephemeralContainers") {
        let what = match new.get(name(before)) {
            None => "removed",
            Some(now) if *now != before => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {} may not be {what}\n", quote(name(before)));
        errors.push(Error::forbidden(&path, detail));
    }
    errors
}
