//! A composite resource, made ready to be rendered as a controller would find it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use ferroplane_api::{CompositeResourceDefinition, Composition, Object, keys, meta};
use ferroplane_engine::composite::{Begin, Selected, begin, composite_for_functions, set_references};
use ferroplane_engine::{Candidate, Defaults, Layout, Preferences, Reference, Why, choose_composition};
use serde_json::Value;
use uuid::Uuid;

/// A composite resource.
#[derive(Debug)]
pub(crate) struct Composite {
    /// As functions see it, or as it was read if nothing is done to it.
    pub(crate) object: Object,
    pub(crate) layout: Layout,
    pub(crate) begin: Begin,
    pub(crate) selected: Selected,
}

impl Composite {
    /// Make a composite resource ready: it gets an identity, and what a controller gives it before it runs the pipeline.
    pub(crate) fn new(
        mut object: Object,
        layout: Layout,
        composition: &Composition,
        defaults: &Defaults,
    ) -> Self {
        if meta::uid(&object).is_empty() {
            let uid = stable_uid(&object);
            meta::set_field(&mut object, "uid", &uid);
        }
        let selected = select(&object, layout, composition, defaults);
        let begin = begin(&object);
        if begin == Begin::Run {
            // Nothing keeps what is read from a file: there is no finalizer to be seen.
            object = composite_for_functions(&object, layout, &selected, None);
        }
        Self { object, layout, begin, selected }
    }

    /// What is left of it when only what was applied is shown: identity and references.
    pub(crate) fn applied(&self, references: &[Reference]) -> Object {
        let mut applied = Object::new();
        for key in ["apiVersion", "kind"] {
            if let Some(value) = self.object.get(key) {
                applied.insert(key.to_owned(), value.clone());
            }
        }
        meta::set_field(&mut applied, "name", meta::name(&self.object));
        meta::set_field(&mut applied, "namespace", meta::namespace(&self.object));
        set_references(&mut applied, self.layout, references);
        applied
    }
}

/// The composition is given, so it is the one. Compositions that are read from files have no revisions.
fn select(object: &Object, layout: Layout, composition: &Composition, defaults: &Defaults) -> Selected {
    let given = candidate(composition);
    let why = match choose(object, layout, &given, defaults) {
        Some((name, why)) if name == given.name => why,
        // A control plane would use another one, or none. This one is rendered as if it had been found.
        _ => Why::Found,
    };
    Selected {
        composition: given.name,
        why,
        revision: None,
        connection_namespace: composition.spec.write_connection_secrets_to_namespace.clone(),
    }
}

/// Notes about composite resources for which a control plane would use another composition than the given one. Each is there once: there
/// may be thousands of composite resources.
pub(crate) fn selection_notes<'x>(
    xrs: impl IntoIterator<Item = &'x Object>,
    layout: Layout,
    composition: &Composition,
    defaults: &Defaults,
) -> BTreeSet<String> {
    let given = candidate(composition);
    let note = |xr: &Object| {
        let (name, why) = choose(xr, layout, &given, defaults).filter(|(name, _)| *name != given.name)?;
        let reason = match why {
            _ if defaults.enforced.is_some() => "which the definition enforces",
            Why::Default => "which is the default of the definition",
            Why::Named | Why::Enforced | Why::Found => "which the composite resource names",
        };
        let rendered = &given.name;
        Some(format!("a control plane would use composition `{name}`, {reason}, and not `{rendered}`"))
    };
    xrs.into_iter().filter_map(note).collect()
}

/// The composition that a control plane would use if it had no other than the given one.
fn choose(object: &Object, layout: Layout, given: &Candidate, defaults: &Defaults) -> Option<(String, Why)> {
    let preferences = Preferences::read(object, layout);
    choose_composition(&preferences, defaults, &given.composes, [given]).ok()
}

fn candidate(composition: &Composition) -> Candidate {
    let labels = composition.metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    Candidate {
        name: composition.name().to_owned(),
        // Only revisions refer to it.
        uid: String::new(),
        labels: labels.filter_map(text).collect::<BTreeMap<_, _>>(),
        composes: composition.spec.composite_type_ref.clone(),
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
    // The names of composed resources follow from the UID, so that a random one would change all of them every time.
    Uuid::new_v5(&Uuid::nil(), name.as_bytes()).to_string()
}
