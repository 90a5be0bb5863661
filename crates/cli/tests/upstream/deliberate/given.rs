//! What functions are given to see: schemas and secrets.

use serde_json::{Value, json};

use super::{Views, items};
use crate::case::list;

pub(super) fn field_description(views: &mut Views<'_>) -> bool {
    give_fields_their_own_description(&mut views.theirs)
}

/// The schema of a field keeps its own description and default, though the rest of it stands elsewhere.
/// Crossplane replaces them by those of what the field refers to.
pub(crate) fn give_fields_their_own_description(theirs: &mut Value) -> bool {
    let mut is_found = false;
    for request in items(theirs, "/requests") {
        let schemas = request.get_mut("requiredSchemas").and_then(Value::as_object_mut);
        for (_, schema) in schemas.into_iter().flatten() {
            let Some(field) = schema.pointer_mut("/openapiV3/properties/metadata") else { continue };
            if field["description"] == "Metadata." {
                field["description"] = "Standard object's metadata.".into();
                field["default"] = json!({});
                is_found = true;
            }
        }
    }
    is_found
}

/// What stands in a Secret in clear is what the API server would have encoded. When it renders, Crossplane does
/// not see it.
pub(super) fn clear_text(views: &mut Views<'_>) -> bool {
    let clear = json!({"token": "clear"});
    let encoded = json!({"token": "Y2xlYXI="});
    if !list(&views.case.0["credentials"]).iter().any(|secret| secret["stringData"] == clear) {
        return false;
    }
    let is_connected = views.ours["requests"][0]["observed"]["composite"]["connectionDetails"] == encoded;
    let mut is_found = false;
    for request in items(&mut views.theirs, "/requests") {
        if let Some(credential) = request.pointer_mut("/credentials/odd/credentialData") {
            is_found |= *credential == json!({});
            credential["data"] = encoded.clone();
        }
        let composite = request.pointer_mut("/observed/composite").and_then(Value::as_object_mut);
        if let Some(composite) = composite.filter(|_| is_connected) {
            is_found |= !composite.contains_key("connectionDetails");
            composite.insert("connectionDetails".to_owned(), encoded.clone());
        }
    }
    is_found
}

/// A function is not called again to be given the same. Crossplane tells nothing that was found by name from
/// nothing that was found by labels, though functions cannot.
pub(super) fn spared_call(views: &mut Views<'_>) -> bool {
    let ours = list(&views.ours["requests"]).to_vec();
    let gives_the_same = |one: &Value, other: &Value| {
        let fields =
            ["input", "observed", "desired", "requiredResources", "extraResources", "requiredSchemas"];
        fields.iter().all(|field| one[field] == other[field])
    };
    let Some(theirs) = views.theirs["requests"].as_array_mut() else { return false };
    let before = theirs.len();
    let mut index = 1;
    while index < theirs.len() {
        let is_again = gives_the_same(&theirs[index], &theirs[index - 1]);
        if is_again && ours.get(index) != Some(&theirs[index]) {
            theirs.remove(index);
        } else {
            index += 1;
        }
    }
    theirs.len() < before
}
