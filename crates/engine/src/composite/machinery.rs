//! The plane's own fields of a composite resource: its composition and its composed resources. Only this code reads and writes them. They
//! are under `spec.crossplane`, or under `spec` in legacy composite resources.

use std::collections::BTreeMap;

use ferroplane_api::{Object, keys, meta};
use serde_json::{Value, json};

use super::begin::Selected;
use super::connection::default_connection_secret;
use crate::inputs::Layout;
use crate::plan::Reference;
use crate::selection::Why;

/// The plane's own fields of a composite resource, to be read.
#[derive(Debug, Clone, Copy)]
pub struct Machinery<'a> {
    fields: Option<&'a Object>,
    /// The namespace of the composite resource.
    namespace: &'a str,
}

impl<'a> Machinery<'a> {
    /// Those of a composite resource of this layout.
    pub fn of(composite: &'a Object, layout: Layout) -> Self {
        let spec = composite.get("spec").and_then(Value::as_object);
        let fields = match layout {
            Layout::Modern => spec.and_then(|spec| spec.get("crossplane")?.as_object()),
            Layout::Legacy => spec,
        };
        Self { fields, namespace: meta::namespace(composite) }
    }

    /// Those of a composite resource whose definition is not at hand: the layout follows from its fields.
    pub fn guess(composite: &'a Object) -> Self {
        let modern = Self::of(composite, Layout::Modern);
        if modern.fields.is_some() { modern } else { Self::of(composite, Layout::Legacy) }
    }

    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields?.get(field)
    }

    /// The composition that it names.
    pub fn composition(&self) -> Option<&'a str> {
        self.name("compositionRef")
    }

    /// The revision that it names.
    pub fn revision(&self) -> Option<&'a str> {
        self.name("compositionRevisionRef")
    }

    /// The labels that it selects its composition by.
    pub fn composition_selector(&self) -> Option<BTreeMap<String, String>> {
        match_labels(self.get("compositionSelector"))
    }

    /// The labels that it selects revisions by.
    pub fn revision_selector(&self) -> Option<BTreeMap<String, String>> {
        match_labels(self.get("compositionRevisionSelector"))
    }

    /// Whether it keeps its revision until a user changes it.
    pub fn is_manual(&self) -> bool {
        self.get("compositionUpdatePolicy").and_then(Value::as_str) == Some("Manual")
    }

    /// The composed resources. References without a name are ignored. A namespaced composite resource has none in other namespaces.
    pub fn references(&self) -> Vec<Reference> {
        let references = self.get("resourceRefs").and_then(Value::as_array);
        let read = |reference: &Value| {
            let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
            // A namespaced XR must not reach into other namespaces by editing its references.
            let namespace = if self.namespace.is_empty() { text("namespace") } else { self.namespace };
            let reference = Reference {
                api_version: text("apiVersion").to_owned(),
                kind: text("kind").to_owned(),
                name: text("name").to_owned(),
                namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            };
            (!reference.name.is_empty()).then_some(reference)
        };
        references.into_iter().flatten().filter_map(read).collect()
    }

    fn name(&self, field: &str) -> Option<&'a str> {
        self.get(field)?.get("name")?.as_str().filter(|name| !name.is_empty())
    }
}

/// The labels of a selector.
pub(crate) fn match_labels(selector: Option<&Value>) -> Option<BTreeMap<String, String>> {
    let labels = selector?.get("matchLabels")?.as_object()?;
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    Some(labels.iter().filter_map(text).collect())
}

/// The plane's own fields, to be written.
pub(super) fn machinery_mut(composite: &mut Object, layout: Layout) -> &mut Object {
    let spec = meta::child(composite, "spec");
    match layout {
        Layout::Modern => meta::child(spec, "crossplane"),
        Layout::Legacy => spec,
    }
}

/// Replace the references of a composite resource.
pub fn set_references(composite: &mut Object, layout: Layout, references: &[Reference]) {
    machinery_mut(composite, layout).insert("resourceRefs".to_owned(), to_json(references));
}

/// The status field that only our definitions have: which functions ran.
pub const OWN_STATUS: &str = "ferroplane";

/// Remove the plane's own status from a composite resource before functions see it. Otherwise requests would change whenever another
/// revision of a function ran.
pub fn remove_own_status(composite: &mut Object) {
    if let Some(Value::Object(status)) = composite.get_mut("status") {
        status.remove(OWN_STATUS);
    }
}

/// The object to apply so that a composite resource names its selection and its composed resources. Without references, the existing ones
/// stay. Fields that other field managers have set are left to them: `is_ours` tells whether the field at a path is the plane's.
pub fn machinery_to_record(
    live: &Object,
    layout: Layout,
    selected: &Selected,
    references: Option<&[Reference]>,
    is_ours: impl Fn(&[&str]) -> bool,
) -> Object {
    let before = Machinery::of(live, layout);
    let is_our_field = |name: &str| match layout {
        Layout::Modern => is_ours(&["spec", "crossplane", name]),
        Layout::Legacy => is_ours(&["spec", name]),
    };
    let mut body = labelled_identity(live, is_ours(&["metadata", "labels", keys::COMPOSITE]));
    let machinery = machinery_mut(&mut body, layout);
    let mut set = |field: &str, value: Value| machinery.insert(field.to_owned(), value);
    // A field that was applied once has to be applied every time: server-side apply removes what its manager leaves
    // out.
    if selected.why != Why::Named || is_our_field("compositionRef") {
        set("compositionRef", json!({"name": selected.composition}));
    }
    if let Some(revision) = &selected.revision
        && (before.revision() != Some(revision) || is_our_field("compositionRevisionRef"))
    {
        set("compositionRevisionRef", json!({"name": revision}));
    }
    if let Some(secret) = secret_to_record(live, layout, selected, is_our_field("writeConnectionSecretToRef"))
    {
        set("writeConnectionSecretToRef", secret);
    }
    match references {
        Some(references) => {
            set("resourceRefs", to_json(references));
        }
        None => {
            // If they were left out, they would be removed, and with them the only record of what exists.
            if let Some(recorded) = before.get("resourceRefs") {
                set("resourceRefs", recorded.clone());
            }
        }
    }
    body
}

/// The identity of a composite resource, with the finalizer and the label that the plane adds.
fn labelled_identity(live: &Object, is_our_label: bool) -> Object {
    let mut body = Object::new();
    body.insert("apiVersion".to_owned(), meta::api_version(live).into());
    body.insert("kind".to_owned(), meta::kind(live).into());
    for (field, value) in [
        ("name", meta::name(live)),
        ("namespace", meta::namespace(live)),
        // Makes the apply fail if a user wrote in between: the selection was made from the object as it was read.
        ("resourceVersion", meta::resource_version(live)),
        // Applying must not create an object again that was deleted in the meantime.
        ("uid", meta::uid(live)),
    ] {
        meta::set_field(&mut body, field, value);
    }
    meta::child(&mut body, "metadata").insert("finalizers".to_owned(), json!([keys::COMPOSITE_FINALIZER]));
    match meta::label(live, keys::COMPOSITE) {
        "" => meta::set_label(&mut body, keys::COMPOSITE, meta::name(live)),
        label if is_our_label => meta::set_label(&mut body, keys::COMPOSITE, label),
        _ => {}
    }
    body
}

fn secret_to_record(live: &Object, layout: Layout, selected: &Selected, is_ours: bool) -> Option<Value> {
    let namespace = selected.connection_namespace.as_deref().filter(|_| layout == Layout::Legacy)?;
    let present = Machinery::of(live, layout).get("writeConnectionSecretToRef");
    match present {
        // A field of ours that is not applied again would be removed.
        Some(present) => is_ours.then(|| present.clone()),
        None => default_connection_secret(live, layout, Some(namespace)),
    }
}

fn to_json(references: &[Reference]) -> Value {
    let references = references.iter().map(|reference| {
        let fields = [
            ("apiVersion", reference.api_version.as_str()),
            ("kind", &reference.kind),
            ("name", &reference.name),
            ("namespace", reference.namespace.as_deref().unwrap_or_default()),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        Value::Object(fields.map(|(key, value)| (key.to_owned(), value.into())).collect())
    });
    Value::Array(references.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &Value) -> Object {
        json.as_object().unwrap().clone()
    }

    fn selected(why: Why) -> Selected {
        Selected {
            composition: "sites".to_owned(),
            why,
            revision: Some("sites-1".to_owned()),
            connection_namespace: None,
        }
    }

    #[test]
    fn machinery_is_found_whatever_the_layout() {
        let fields = json!({"compositionRef": {"name": "sites"}, "compositionUpdatePolicy": "Manual"});
        let modern = object(&json!({"spec": {"crossplane": fields}}));
        let legacy = object(&json!({"spec": fields}));
        for machinery in [
            Machinery::of(&modern, Layout::Modern),
            Machinery::of(&legacy, Layout::Legacy),
            Machinery::guess(&modern),
            Machinery::guess(&legacy),
        ] {
            assert_eq!((machinery.composition(), machinery.is_manual()), (Some("sites"), true));
        }
        assert_eq!(Machinery::of(&legacy, Layout::Modern).composition(), None);
    }

    #[test]
    fn composite_in_a_namespace_refers_to_nothing_outside_of_it() {
        let references = json!([
            {"apiVersion": "v1", "kind": "Secret", "name": "a", "namespace": "elsewhere"},
            {"apiVersion": "v1", "kind": "Secret"},
        ]);
        let namespaces = |metadata: Value| {
            let xr =
                object(&json!({"metadata": metadata, "spec": {"crossplane": {"resourceRefs": references}}}));
            let read = Machinery::of(&xr, Layout::Modern).references();
            read.into_iter().map(|reference| reference.namespace.unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(namespaces(json!({"namespace": "here"})), ["here"]);
        assert_eq!(namespaces(json!({})), ["elsewhere"]);
    }

    #[test]
    fn what_somebody_else_has_chosen_is_left_to_them() {
        let chosen =
            json!({"compositionRef": {"name": "sites"}, "compositionRevisionRef": {"name": "sites-1"}});
        let live = object(&json!({
            "metadata": {"name": "blog", "labels": {"crossplane.io/composite": "root"}},
            "spec": {"crossplane": chosen},
        }));
        let record = |why, is_ours: bool| {
            machinery_to_record(&live, Layout::Modern, &selected(why), Some(&[]), |_| is_ours)
        };
        let theirs = record(Why::Named, false);
        assert_eq!(theirs["spec"], json!({"crossplane": {"resourceRefs": []}}));
        assert_eq!(theirs["metadata"].get("labels"), None);
        let ours = record(Why::Named, true);
        assert_eq!(ours["spec"]["crossplane"]["compositionRef"], json!({"name": "sites"}));
        assert_eq!(ours["spec"]["crossplane"]["compositionRevisionRef"], json!({"name": "sites-1"}));
        assert_eq!(ours["metadata"]["labels"], json!({"crossplane.io/composite": "root"}));
    }

    #[test]
    fn references_stay_when_nothing_new_is_known_of_them() {
        let recorded = json!([{"apiVersion": "v1", "kind": "Secret", "name": "a"}]);
        let live = object(&json!({"spec": {"crossplane": {"resourceRefs": recorded}}}));
        let body = machinery_to_record(&live, Layout::Modern, &selected(Why::Found), None, |_| false);
        assert_eq!(body["spec"]["crossplane"]["resourceRefs"], recorded);
        let new = Reference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: "b".to_owned(),
            namespace: None,
        };
        let body = machinery_to_record(&live, Layout::Modern, &selected(Why::Found), Some(&[new]), |_| false);
        let expected = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "b"}]);
        assert_eq!(body["spec"]["crossplane"]["resourceRefs"], expected);
    }
}
