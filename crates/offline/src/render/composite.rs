//! A composite resource, made ready to be rendered as a controller would find it.

use anyhow::bail;
use ferroplane_api::{CompositeResourceDefinition, Composition, Condition, Object, keys, meta};
use ferroplane_engine::{Event, EventKind, Layout, Reference, conditions_in};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::rest::Rest;

/// On composite resources: a token that asks to look at it now.
const RECONCILE_REQUESTED: &str = "crossplane.io/reconcile-requested-at";

/// A composite resource.
#[derive(Debug)]
pub(crate) struct Composite {
    object: Object,
    layout: Layout,
    /// The composition that was named before one was chosen.
    named: Option<String>,
}

impl Composite {
    /// Make a composite resource ready: it gets an identity, and unless it is left alone, the label that names
    /// what it composes and a reference to the composition.
    pub(crate) fn new(mut object: Object, layout: Layout, composition: &Composition) -> Self {
        if meta::uid(&object).is_empty() {
            let uid = stable_uid(&object);
            meta::set_field(&mut object, "uid", &uid);
        }
        let mut composite = Self { object, layout, named: None };
        if Rest::of(&composite.object).is_none() {
            composite.label();
            composite.select(composition);
        }
        composite
    }

    fn label(&mut self) {
        if meta::label(&self.object, keys::COMPOSITE).is_empty() {
            let name = meta::name(&self.object).to_owned();
            meta::set_label(&mut self.object, keys::COMPOSITE, &name);
        }
    }

    fn select(&mut self, composition: &Composition) {
        let name = composition.name().to_owned();
        let uid = meta::uid(&self.object).to_owned();
        let layout = self.layout;
        let machinery = self.machinery_mut();
        let reference = machinery.insert("compositionRef".to_owned(), json!({ "name": name }));
        let secrets = composition.spec.write_connection_secrets_to_namespace.as_ref();
        if let (Layout::Legacy, Some(namespace)) = (layout, secrets) {
            machinery
                .entry("writeConnectionSecretToRef")
                .or_insert_with(|| json!({"name": uid, "namespace": namespace}));
        }
        self.named = reference.and_then(|reference| Some(reference.get("name")?.as_str()?.to_owned()));
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    pub(crate) fn into_object(self) -> Object {
        self.object
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The conditions it has. What is no condition is none.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        let conditions = self.object.get("status").and_then(|status| status.get("conditions"));
        conditions.map(conditions_in).unwrap_or_default()
    }

    /// What it refers to.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let references = self.machinery().and_then(|machinery| machinery.get("resourceRefs")?.as_array());
        let references = references.into_iter().flatten().map(|reference| Reference {
            api_version: text(reference, "apiVersion"),
            kind: text(reference, "kind"),
            name: text(reference, "name"),
            namespace: Some(text(reference, "namespace")).filter(|namespace| !namespace.is_empty()),
        });
        references.filter(|reference| !reference.name.is_empty()).collect()
    }

    /// Let it refer to these resources.
    pub(crate) fn refer_to(&mut self, references: &[Reference]) {
        self.machinery_mut().insert("resourceRefs".to_owned(), to_json(references));
    }

    /// What is told about a request to look at it now, unless it was told before.
    pub(crate) fn requested(&self) -> Option<Event> {
        let token = meta::annotation(&self.object, RECONCILE_REQUESTED);
        let handled = self.object.get("status").and_then(|status| status.get("lastHandledReconcileAt"));
        let is_new = !token.is_empty() && handled.and_then(Value::as_str) != Some(token);
        let message = "Handling reconcile request".to_owned();
        is_new.then(|| Event::new(EventKind::Normal, "ReconcileRequestHandled", message))
    }

    /// What is told about the choice of the composition, unless it was named all along.
    pub(crate) fn selected(&self, composition: &Composition) -> Option<Event> {
        let name = composition.name();
        (self.named.as_deref() != Some(name)).then(|| {
            let message = format!("Successfully selected composition: {name}");
            Event::new(EventKind::Normal, "SelectComposition", message)
        })
    }

    /// What is left of it when only what was applied is shown: identity and references.
    pub(crate) fn applied(&self, references: &[Reference]) -> Object {
        let mut applied = Self { object: Map::new(), layout: self.layout, named: None };
        for key in ["apiVersion", "kind"] {
            if let Some(value) = self.object.get(key) {
                applied.object.insert(key.to_owned(), value.clone());
            }
        }
        meta::set_field(&mut applied.object, "name", meta::name(&self.object));
        meta::set_field(&mut applied.object, "namespace", meta::namespace(&self.object));
        applied.refer_to(references);
        applied.object
    }

    fn machinery(&self) -> Option<&Object> {
        machinery(&self.object, self.layout)
    }

    fn machinery_mut(&mut self) -> &mut Object {
        let spec = meta::child(&mut self.object, "spec");
        match self.layout {
            Layout::Modern => meta::child(spec, "crossplane"),
            Layout::Legacy => spec,
        }
    }
}

/// The labels that a composite resource chooses its composition by.
pub(crate) fn composition_selector(object: &Object, layout: Layout) -> Option<&Object> {
    machinery(object, layout)?.get("compositionSelector")?.get("matchLabels")?.as_object()
}

fn machinery(object: &Object, layout: Layout) -> Option<&Object> {
    let spec = object.get("spec")?;
    match layout {
        Layout::Modern => spec.get("crossplane")?.as_object(),
        Layout::Legacy => spec.as_object(),
    }
}

/// The layout that a definition gives its composite resources. Without a definition: the modern one.
pub(crate) fn layout_of(definition: Option<&CompositeResourceDefinition>) -> Layout {
    if definition.is_some_and(CompositeResourceDefinition::is_legacy) {
        Layout::Legacy
    } else {
        Layout::Modern
    }
}

/// Refuse a composition for another kind.
pub(crate) fn check_type(composition: &Composition, xr: &Object) -> anyhow::Result<()> {
    let wanted = &composition.spec.composite_type_ref;
    let (api_version, kind) = (meta::api_version(xr), meta::kind(xr));
    if wanted.api_version == api_version && wanted.kind == kind {
        return Ok(());
    }
    bail!(
        "the composition is for {} ({}), but the composite resource is of kind {kind} ({api_version})",
        wanted.kind,
        wanted.api_version
    )
}

/// Refuse a definition of another kind.
pub(crate) fn check_definition(definition: &CompositeResourceDefinition, xr: &Object) -> anyhow::Result<()> {
    let (group, kind) = (meta::group(meta::api_version(xr)), meta::kind(xr));
    let version = definition.api_version.strip_prefix(keys::APIEXTENSIONS);
    if !version.is_some_and(|version| ["/v1", "/v2"].contains(&version)) {
        bail!("expected a CompositeResourceDefinition, got {} ({})", definition.kind, definition.api_version);
    }
    if definition.spec.group == group && definition.spec.names.kind == kind {
        return Ok(());
    }
    bail!(
        "the definition is of {} ({}), but the composite resource is of kind {kind} ({group})",
        definition.spec.names.kind,
        definition.spec.group
    )
}

/// The same for the same composite resource, so that what is rendered twice is the same.
fn stable_uid(object: &Object) -> String {
    let api_version = meta::api_version(object);
    let version = meta::version(api_version);
    let name = format!(
        "{}/{version}, Kind={}\0{}\0{}",
        meta::group(api_version),
        meta::kind(object),
        meta::namespace(object),
        meta::name(object)
    );
    Uuid::new_v5(&Uuid::nil(), name.as_bytes()).to_string()
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
