//! The metadata of composed resources. Ferroplane leaves what functions wrote there for the API server to judge;
//! Crossplane reads it, drops what it cannot read, and writes the rest anew.

use serde_json::Value;

use super::{Views, items};

/// Labels, annotations and owner references that no object may have.
pub(super) fn odd(views: &mut Views<'_>) -> bool {
    let ours = views.ours["output"]["composedResources"].clone();
    let theirs = views.theirs.pointer_mut("/output/composedResources").and_then(Value::as_object_mut);
    let mut is_found = false;
    for (name, theirs) in theirs.into_iter().flatten() {
        let ours = &ours[name]["metadata"];
        for field in ["labels", "annotations"] {
            let is_odd =
                ours[field].as_object().is_some_and(|entries| !entries.values().all(Value::is_string));
            if is_odd && ours[field] != theirs["metadata"][field] {
                theirs["metadata"][field] = ours[field].clone();
                is_found = true;
            }
        }
        let ours = &ours["ownerReferences"];
        for (index, owner) in items(theirs, "/metadata/ownerReferences").enumerate() {
            let said = ours[index].get("controller").filter(|said| !said.is_boolean());
            if let (Some(said), None) = (said, owner.get("controller")) {
                owner["controller"] = said.clone();
                is_found = true;
            }
        }
    }
    is_found
}

/// References say which object is meant by kind and name alone. Crossplane's have the uid too, if a function
/// wrote one.
pub(super) fn reference_uid(views: &mut Views<'_>) -> bool {
    let mut is_found = false;
    for machinery in ["/spec/crossplane", "/spec"] {
        let path = format!("/output/compositeResource{machinery}/resourceRefs");
        for reference in items(&mut views.theirs, &path) {
            is_found |= reference.as_object_mut().is_some_and(|fields| fields.remove("uid").is_some());
        }
    }
    is_found
}
