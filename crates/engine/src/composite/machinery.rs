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

const COMPOSITION: &str = "compositionRef";
const REVISION: &str = "compositionRevisionRef";
const CONNECTION_SECRET: &str = "writeConnectionSecretToRef";
const REFERENCES: &str = "resourceRefs";

/// The fields that the plane writes, also to a composite resource that another field manager applies.
const WRITTEN: [&str; 4] = [COMPOSITION, REVISION, CONNECTION_SECRET, REFERENCES];

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
        Self::of(composite, guess_layout(composite))
    }

    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&'a Value> {
        self.fields?.get(field)
    }

    /// The composition that it names.
    pub fn composition(&self) -> Option<&'a str> {
        self.name(COMPOSITION)
    }

    /// The revision that it names.
    pub fn revision(&self) -> Option<&'a str> {
        self.name(REVISION)
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
        let references = self.get(REFERENCES).and_then(Value::as_array);
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

/// Where a composite resource has the plane's own fields, as far as it shows that itself.
fn guess_layout(composite: &Object) -> Layout {
    let spec = composite.get("spec").and_then(Value::as_object);
    let is_modern = spec.and_then(|spec| spec.get("crossplane")).is_some_and(Value::is_object);
    if is_modern { Layout::Modern } else { Layout::Legacy }
}

/// The plane's own fields, to be written.
fn machinery_mut(composite: &mut Object, layout: Layout) -> &mut Object {
    let spec = meta::child(composite, "spec");
    match layout {
        Layout::Modern => meta::child(spec, "crossplane"),
        Layout::Legacy => spec,
    }
}

/// Replace the references of a composite resource.
pub fn set_references(composite: &mut Object, layout: Layout, references: &[Reference]) {
    machinery_mut(composite, layout).insert(REFERENCES.to_owned(), to_json(references));
}

/// Let a composite resource name what was selected for it, and where its connection details go.
pub(super) fn set_selected(
    composite: &mut Object,
    layout: Layout,
    selected: &Selected,
    secret: Option<Value>,
) {
    let machinery = machinery_mut(composite, layout);
    machinery.insert(COMPOSITION.to_owned(), json!({"name": selected.composition}));
    if let Some(revision) = &selected.revision {
        machinery.insert(REVISION.to_owned(), json!({"name": revision}));
    }
    if let Some(secret) = secret {
        machinery.insert(CONNECTION_SECRET.to_owned(), secret);
    }
}

/// Let a composite resource name what a reconcile has used and composed. Its definition is not at hand: the layout follows from its fields.
/// A name is empty and references are `None` if the reconcile failed before they were known: those fields stay as they are.
pub fn set_recorded(
    composite: &mut Object,
    composition: &str,
    revision: &str,
    references: Option<&[Reference]>,
) {
    let layout = guess_layout(composite);
    let machinery = machinery_mut(composite, layout);
    for (field, name) in [(COMPOSITION, composition), (REVISION, revision)] {
        if !name.is_empty() {
            machinery.insert(field.to_owned(), json!({"name": name}));
        }
    }
    if let Some(references) = references {
        set_references(composite, layout, references);
    }
}

/// Keep what the plane has written to a composite resource when another field manager applies it without these fields, as its composer does.
/// `applied` is what is applied, `before` is what was there, and `after` becomes what is stored.
pub fn keep_machinery(after: &mut Object, layout: Layout, before: &Object, applied: &Object) {
    let (before, applied) = (Machinery::of(before, layout), Machinery::of(applied, layout));
    for field in WRITTEN {
        if let (None, Some(own)) = (applied.get(field), before.get(field)) {
            machinery_mut(after, layout).insert(field.to_owned(), own.clone());
        }
    }
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
    if selected.why != Why::Named || is_our_field(COMPOSITION) {
        set(COMPOSITION, json!({"name": selected.composition}));
    }
    if let Some(revision) = &selected.revision
        && (before.revision() != Some(revision) || is_our_field(REVISION))
    {
        set(REVISION, json!({"name": revision}));
    }
    if let Some(secret) = secret_to_record(live, layout, selected, is_our_field(CONNECTION_SECRET)) {
        set(CONNECTION_SECRET, secret);
    }
    match references {
        Some(references) => {
            set(REFERENCES, to_json(references));
        }
        None => {
            // If they were left out, they would be removed, and with them the only record of what exists.
            if let Some(recorded) = before.get(REFERENCES) {
                set(REFERENCES, recorded.clone());
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
    let present = Machinery::of(live, layout).get(CONNECTION_SECRET);
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

    #[test]
    fn everything_that_the_plane_records_is_kept_when_a_composer_applies_again() {
        let identity =
            json!({"apiVersion": "e.org/v1", "kind": "Site", "metadata": {"name": "blog", "uid": "1"}});
        let reference = Reference {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            name: "a".to_owned(),
            namespace: None,
        };
        let selected = Selected { connection_namespace: Some("keys".to_owned()), ..selected(Why::Found) };
        for layout in [Layout::Modern, Layout::Legacy] {
            let live = object(&identity);
            let before =
                machinery_to_record(&live, layout, &selected, Some(std::slice::from_ref(&reference)), |_| {
                    true
                });
            let mut after = live.clone();
            keep_machinery(&mut after, layout, &before, &live);
            assert_eq!(after.get("spec"), before.get("spec"));

            // What the composer sets itself is its own.
            let mut applied = live;
            machinery_mut(&mut applied, layout).insert(COMPOSITION.to_owned(), json!({"name": "others"}));
            let mut after = applied.clone();
            keep_machinery(&mut after, layout, &before, &applied);
            let after = Machinery::of(&after, layout);
            assert_eq!((after.composition(), after.revision()), (Some("others"), Some("sites-1")));
        }
    }

    #[test]
    fn recorded_selection_is_where_the_composite_resource_has_its_own_fields() {
        let reference = Reference {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            name: "a".to_owned(),
            namespace: None,
        };
        let references = json!([{"apiVersion": "v1", "kind": "Secret", "name": "a"}]);
        let all = json!({
            "compositionRef": {"name": "sites"}, "compositionRevisionRef": {"name": "sites-1"}, "resourceRefs": references,
        });
        for (spec, expected) in
            [(json!({"crossplane": {}}), json!({"crossplane": all})), (json!({}), all.clone())]
        {
            let mut xr = object(&json!({"spec": spec}));
            set_recorded(&mut xr, "sites", "sites-1", Some(std::slice::from_ref(&reference)));
            assert_eq!(xr["spec"], expected);
            // What is not known of a reconcile changes nothing.
            set_recorded(&mut xr, "", "", None);
            assert_eq!(xr["spec"], expected);
        }
    }
}
