//! The kinds of composite resources of a simulation: sites, towns that are composed of sites, and libraries, which are of
//! the old kind and claimed as books.

use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::plane::sites::SITES;
use serde_json::{Value, json};

use super::functions::NAME;

pub(super) const TOWNS: &str = "/apis/example.org/v1/namespaces/default/towns";
pub(super) const LIBRARIES: &str = "/apis/legacy.example.org/v1/libraries";
pub(super) const BOOKS: &str = "/apis/legacy.example.org/v1/namespaces/default/books";

const DEFINITIONS: &str = "/apis/apiextensions.crossplane.io";

/// What towns and libraries become.
pub(super) const TOWN: [(&str, &str); 2] = [("hall", "ConfigMap"), ("home", "Site")];
pub(super) const LIBRARY: [(&str, &str); 1] = [("shelf", "Secret")];

/// Where composite resources of a kind are.
pub(super) fn path_of(kind: &str) -> Option<&'static str> {
    match kind {
        "Site" => Some(SITES),
        "Town" => Some(TOWNS),
        "Library" => Some(LIBRARIES),
        _ => None,
    }
}

/// What a composite resource refers to.
pub(super) fn references(composite: &Value) -> Vec<Value> {
    let spec = &composite["spec"];
    let machinery = if spec["crossplane"].is_null() { spec } else { &spec["crossplane"] };
    machinery["resourceRefs"].as_array().cloned().unwrap_or_default()
}

/// Define towns and libraries, and say what they become.
pub(super) async fn define(plane: &Plane) {
    let towns = json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "towns.example.org"},
        "spec": {
            "group": "example.org", "names": {"kind": "Town", "plural": "towns"}, "scope": "Namespaced",
            "versions": versions(),
        },
    });
    let libraries = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "libraries.legacy.example.org"},
        "spec": {
            "group": "legacy.example.org", "names": {"kind": "Library", "plural": "libraries"},
            "claimNames": {"kind": "Book", "plural": "books"}, "versions": versions(),
        },
    });
    plane.apply(&format!("{DEFINITIONS}/v2/compositeresourcedefinitions/towns.example.org"), &towns).await;
    let path = format!("{DEFINITIONS}/v1/compositeresourcedefinitions/libraries.legacy.example.org");
    plane.apply(&path, &libraries).await;
    compose(plane, "towns", &json!({"apiVersion": "example.org/v1", "kind": "Town"}), &TOWN).await;
    let library = json!({"apiVersion": "legacy.example.org/v1", "kind": "Library"});
    compose(plane, "libraries", &library, &LIBRARY).await;
    for (group, plural) in [("example.org", "towns"), ("legacy.example.org", "books")] {
        let is_there = |kinds: &Value| {
            let kinds = kinds["resources"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["name"] == plural))
        };
        plane.until(&format!("/apis/{group}/v1"), is_there).await;
    }
}

fn versions() -> Value {
    let color = json!({"type": "object", "properties": {"color": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": color, "status": color}});
    json!([{"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema}}])
}

async fn compose(plane: &Plane, name: &str, composes: &Value, wishes: &[(&str, &str)]) {
    let wishes: serde_json::Map<_, _> =
        wishes.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).into())).collect();
    let input = json!({"apiVersion": "example.org/v1", "kind": "Wishes", "wishes": wishes});
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": name},
        "spec": {
            "compositeTypeRef": composes, "mode": "Pipeline",
            "pipeline": [{"step": "wishes", "functionRef": {"name": NAME}, "input": input}],
        },
    });
    plane.apply(&format!("/apis/apiextensions.crossplane.io/v1/compositions/{name}"), &composition).await;
}
