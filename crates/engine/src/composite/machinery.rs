//! The plane's own fields of a composite resource: which composition it follows, what it composes. The only code that reads and
//! writes them, wherever they are: under `spec.crossplane`, or under `spec` of legacy ones.

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

    /// Those of a composite resource whose definition is not at hand: the layout follows from what is there.
    pub fn guess(composite: &'a Object) -> Self {
        let modern = Self::of(composite, Layout::Modern);
        if modern.fields.is_some() { modern } else { Self::of(composite, Layout::Legacy) }
    }

    /// A field as it stands.
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

    /// Whether it stays with its revision until somebody changes that.
    pub fn is_manual(&self) -> bool {
        self.get("compositionUpdatePolicy").and_then(Value::as_str) == Some("Manual")
    }

    /// What it refers to. Those without a name refer to nothing. One in a namespace refers to nothing outside of it.
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

/// Have a composite resource refer to these resources.
pub fn set_references(composite: &mut Object, layout: Layout, references: &[Reference]) {
    machinery_mut(composite, layout).insert("resourceRefs".to_owned(), to_json(references));
}

/// What only our definitions have in the status of composite resources: which functions ran.
pub const OWN_STATUS: &str = "ferroplane";

/// Take out of a composite resource what the plane says of its own work. It is not for functions: what they are asked must not change
/// because another revision of them was asked before.
pub fn remove_own_status(composite: &mut Object) {
    if let Some(Value::Object(status)) = composite.get_mut("status") {
        status.remove(OWN_STATUS);
    }
}

/// What to apply so that a composite resource says what was selected for it and what it refers to. Without references, those that it
/// has stay. Fields that somebody else has set are left to them: `is_ours` says of the path of a field whether it is the plane's.
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
    // A field that was applied once has to be applied for ever: server-side apply removes what its manager
    // leaves out.
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
            // Left out, they would be removed, and with them the only memory of what exists.
            if let Some(recorded) = before.get("resourceRefs") {
                set("resourceRefs", recorded.clone());
            }
        }
    }
    body
}

/// What a composite resource is, with the finalizer and the label that the plane gives it.
fn labelled_identity(live: &Object, is_our_label: bool) -> Object {
    let mut body = Object::new();
    body.insert("apiVersion".to_owned(), meta::api_version(live).into());
    body.insert("kind".to_owned(), meta::kind(live).into());
    for (field, value) in [
        ("name", meta::name(live)),
        ("namespace", meta::namespace(live)),
        // Makes the apply fail if somebody wrote in between: what was selected followed from the object as it
        // was read.
        ("resourceVersion", meta::resource_version(live)),
        // What is gone in the meantime must not come back.
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
        // What is ours and not applied again would be gone.
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
