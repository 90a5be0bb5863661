//! Decides whether a reconcile runs the pipeline, and how functions see the composite resource.

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

use super::connection::default_connection_secret;
use super::machinery::{remove_own_status, set_selected};
use crate::inputs::Layout;
use crate::selection::Why;

/// What a reconcile of a composite resource has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Nothing, until the annotation is removed.
    Paused,
    /// Delete its composed resources and remove the finalizer.
    Deleting,
    /// Run its pipeline.
    Run,
}

/// What a reconcile of a composite resource has to do.
pub fn begin(composite: &Object) -> Begin {
    // Pausing comes first: a paused composite resource that is being deleted keeps its finalizer.
    if meta::annotation(composite, keys::PAUSED) == "true" {
        return Begin::Paused;
    }
    if meta::is_being_deleted(composite) { Begin::Deleting } else { Begin::Run }
}

/// The composition and the revision that a composite resource uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    pub composition: String,
    pub why: Why,
    /// The revision of the composition. None where compositions have none, as in files.
    pub revision: Option<String>,
    /// Where connection details are written if the composite resource does not say.
    pub connection_namespace: Option<String>,
}

/// The composite resource with its selected composition, as functions see it.
///
/// `finalizer` is the plane's own. None where there is none, as for a composite resource that is read from a file.
pub fn composite_for_functions(
    composite: &Object,
    layout: Layout,
    selected: &Selected,
    finalizer: Option<&str>,
) -> Object {
    let mut seen = composite.clone();
    remove_own_status(&mut seen);
    // A nested XR carries the label of the root already, and hands that on to what it composes.
    if meta::label(composite, keys::COMPOSITE).is_empty() {
        meta::set_label(&mut seen, keys::COMPOSITE, meta::name(composite));
    }
    if let Some(finalizer) = finalizer {
        add_finalizer(&mut seen, finalizer);
    }
    let secret = default_connection_secret(composite, layout, selected.connection_namespace.as_deref());
    set_selected(&mut seen, layout, selected, secret);
    seen
}

fn add_finalizer(object: &mut Object, finalizer: &str) {
    let metadata = meta::child(object, "metadata");
    let finalizers = metadata.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    if !finalizers.is_array() {
        *finalizers = Value::Array(Vec::new());
    }
    let finalizers = finalizers.as_array_mut().expect("was made a list");
    if !finalizers.iter().any(|present| present == finalizer) {
        finalizers.push(finalizer.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(json: &Value) -> Object {
        json.as_object().unwrap().clone()
    }

    fn begin_of(metadata: Value) -> Begin {
        begin(&Object::from_iter([("metadata".to_owned(), metadata)]))
    }

    fn selected() -> Selected {
        Selected {
            composition: "sites".to_owned(),
            why: Why::Found,
            revision: Some("sites-1".to_owned()),
            connection_namespace: Some("secrets".to_owned()),
        }
    }

    #[test]
    fn paused_and_deleted_composites_are_left_alone() {
        let (paused, deleted) = (json!({"crossplane.io/paused": "true"}), "2020-01-01T00:00:00Z");
        assert_eq!(begin_of(json!({"annotations": paused})), Begin::Paused);
        assert_eq!(begin_of(json!({"annotations": {"crossplane.io/paused": "false"}})), Begin::Run);
        assert_eq!(begin_of(json!({"deletionTimestamp": deleted})), Begin::Deleting);
        assert_eq!(begin_of(json!({"deletionTimestamp": null})), Begin::Run);
        assert_eq!(begin_of(json!({"annotations": paused, "deletionTimestamp": deleted})), Begin::Paused);
    }

    #[test]
    fn functions_see_what_was_selected_and_who_keeps_it() {
        let xr = object(&json!({"metadata": {"name": "blog", "uid": "1", "finalizers": ["other"]}}));
        let seen = composite_for_functions(&xr, Layout::Modern, &selected(), Some("ours"));
        assert_eq!(
            Value::Object(seen),
            json!({
                "metadata": {
                    "name": "blog", "uid": "1", "finalizers": ["other", "ours"],
                    "labels": {"crossplane.io/composite": "blog"},
                },
                "spec": {"crossplane": {
                    "compositionRef": {"name": "sites"}, "compositionRevisionRef": {"name": "sites-1"},
                }},
            })
        );
    }

    #[test]
    fn functions_see_where_a_legacy_composite_has_its_connection_details_written_to() {
        let xr = object(&json!({"metadata": {"name": "blog", "uid": "1"}}));
        let selected = Selected { revision: None, ..selected() };
        let seen = composite_for_functions(&xr, Layout::Legacy, &selected, None);
        assert_eq!(
            seen["spec"],
            json!({
                "compositionRef": {"name": "sites"},
                "writeConnectionSecretToRef": {"name": "1", "namespace": "secrets"},
            })
        );
        let own = json!({"name": "own", "namespace": "here"});
        let xr = object(&json!({"metadata": {"uid": "1"}, "spec": {"writeConnectionSecretToRef": own}}));
        let seen = composite_for_functions(&xr, Layout::Legacy, &selected, None);
        assert_eq!(seen["spec"]["writeConnectionSecretToRef"], own);
    }

    #[test]
    fn functions_do_not_see_which_revision_of_them_ran() {
        let xr = object(&json!({"status": {"color": "red", "ferroplane": {"functions": []}}}));
        let seen = composite_for_functions(&xr, Layout::Modern, &selected(), None);
        assert_eq!(seen["status"], json!({"color": "red"}));
    }
}
