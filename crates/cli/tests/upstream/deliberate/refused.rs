//! What one engine composes and the other refuses: because a cluster would not take it, or would fight over it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Views;
use crate::case::list;

/// Two composed resources that are the same object.
pub(super) fn same_object(views: &mut Views<'_>) -> bool {
    let mut seen = BTreeSet::new();
    let identity = |object: &Value| {
        let group =
            object["apiVersion"].as_str().and_then(|version| Some(version.rsplit_once('/')?.0.to_owned()));
        let metadata = &object["metadata"];
        format!("{group:?} {} {} {}", object["kind"], metadata["namespace"], metadata["name"])
    };
    let is_twice = composed(&views.theirs).any(|object| !seen.insert(identity(object)));
    is_twice && views.our_words.contains(" are the same object, ") && excuse(views, REFUSED)
}

/// Composed resources without version or kind.
pub(super) fn no_type(views: &mut Views<'_>) -> bool {
    let is_empty = |value: &Value| value.as_str().is_none_or(str::is_empty);
    let lacks_type =
        composed(&views.theirs).any(|object| is_empty(&object["apiVersion"]) || is_empty(&object["kind"]));
    let is_refused = [" has no apiVersion", " has no kind", " is not an object"]
        .iter()
        .any(|words| views.our_words.contains(words));
    lacks_type && is_refused && excuse(views, REFUSED)
}

/// A status of the composite resource that is not an object.
pub(super) fn no_status(views: &mut Views<'_>) -> bool {
    let status = &views.theirs["output"]["compositeResource"]["status"];
    let is_odd = !status.is_object();
    let is_refused = views.our_words.contains("desired status of the composite resource is not an object");
    is_odd && is_refused && excuse(views, REFUSED)
}

/// Metadata of a composed resource that is null, which Crossplane takes for a name that is not valid.
pub(super) fn null_metadata(views: &mut Views<'_>) -> bool {
    let is_null = views.case.inputs().any(|input| {
        let resources = input["response"]["desired"]["resources"].as_object();
        resources
            .into_iter()
            .flatten()
            .any(|(_, desired)| desired["resource"].get("metadata") == Some(&Value::Null))
    });
    is_null && views.their_words.contains("has an invalid name \"\"") && excuse(views, ["Rendered", "Failed"])
}

/// An answer that is not JSON is refused, wherever that stands. Crossplane refuses it only where it has to read
/// it, and then blames whoever was given it.
pub(super) fn garbled(views: &mut Views<'_>) -> bool {
    let is_told = views.case.inputs().any(|input| !input["garbled"].is_null());
    if !is_told || !views.our_words.contains("cannot use the answer of pipeline step ") {
        return false;
    }
    let heard = list(&views.ours["requests"]).len();
    if let Some(requests) = views.theirs["requests"].as_array_mut() {
        requests.truncate(heard);
    }
    let verdict = views.theirs["verdict"].as_str().unwrap_or_default().to_owned();
    excuse(views, ["Failed", &verdict])
}

fn composed(view: &Value) -> impl Iterator<Item = &Value> {
    view["output"]["composedResources"].as_object().into_iter().flat_map(|composed| composed.values())
}

const REFUSED: [&str; 2] = ["Failed", "Rendered"];

/// One engine rendered, the other did not. Until then they must have done the same.
fn excuse(views: &mut Views<'_>, [ours, theirs]: [&str; 2]) -> bool {
    if views.ours["verdict"] != ours || views.theirs["verdict"] != theirs {
        return false;
    }
    for view in [&mut views.ours, &mut views.theirs] {
        view["verdict"] = "refused".into();
        view["output"] = Value::Null;
    }
    true
}
