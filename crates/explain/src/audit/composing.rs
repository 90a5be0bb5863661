//! Kinds of composite resources: where there are some, and what their Compositions compose.

use std::collections::BTreeSet;

use ferroplane_api::{CompositionSpec, Mode, Object, Scope, keys, meta};
use ferroplane_engine::{ImageReference, RESOURCES_STEP};
use serde_json::Value;

use super::input::{AuditInput, DEFINITIONS};
use crate::look::{at, text_at};

/// A kind of composite resource.
#[derive(Debug)]
pub(super) struct CompositeKind {
    /// The name of the definition.
    pub(super) definition: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) claim_plural: Option<String>,
    pub(super) is_namespaced: bool,
    pub(super) compositions: Vec<KnownComposition>,
    /// Where there are some. Empty if they are in no namespace.
    pub(super) namespaces: BTreeSet<String>,
}

/// A Composition of the kind.
#[derive(Debug)]
pub(super) struct KnownComposition {
    pub(super) name: String,
    pub(super) functions: BTreeSet<String>,
    pub(super) composes: Composes,
}

/// What a Composition composes, by groups and plural names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Composes {
    Known(BTreeSet<(String, String)>),
    /// A function decides.
    Unknown,
}

impl CompositeKind {
    pub(super) fn title(&self) -> String {
        format!("{}.{}", self.kind, self.group)
    }

    /// The names of its Compositions.
    pub(super) fn composition_names(&self) -> String {
        let names: Vec<_> = self.compositions.iter().map(|it| it.name.as_str()).collect();
        match names.as_slice() {
            [] => "no Composition".to_owned(),
            [one] => format!("Composition {one}"),
            few @ ([_, _] | [_, _, _]) => format!("Compositions {}", few.join(", ")),
            many => format!("Compositions {}, {} and {} more", many[0], many[1], many.len() - 2),
        }
    }

    /// Whether its Compositions compose this: surely, perhaps (None), or not.
    pub(super) fn composes(&self, group: &str, plural: &str) -> Option<bool> {
        let is_known = |it: &KnownComposition| match &it.composes {
            Composes::Known(kinds) => kinds.iter().any(|(its, name)| its == group && name == plural),
            Composes::Unknown => false,
        };
        if self.compositions.iter().any(is_known) {
            return Some(true);
        }
        let is_unknown = self.compositions.iter().any(|it| it.composes == Composes::Unknown);
        if is_unknown { None } else { Some(false) }
    }
}

/// All kinds of composite resources, in the order of their definitions.
pub(super) fn composite_kinds(input: &AuditInput) -> Vec<CompositeKind> {
    input.of_kind(DEFINITIONS, "CompositeResourceDefinition").filter_map(|it| read(input, it)).collect()
}

fn read(input: &AuditInput, definition: &Object) -> Option<CompositeKind> {
    let text = |path: &[&str]| text_at(definition, path).to_owned();
    let (group, kind) = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
    let plural = text(&["spec", "names", "plural"]);
    if group.is_empty() || kind.is_empty() || plural.is_empty() {
        return None;
    }
    let claim_plural = Some(text(&["spec", "claimNames", "plural"])).filter(|plural| !plural.is_empty());
    let scope: Option<Scope> =
        at(definition, &["spec", "scope"]).and_then(|it| serde_json::from_value(it.clone()).ok());
    let is_old = meta::api_version(definition).ends_with("/v1");
    let default = if is_old { Scope::LegacyCluster } else { Scope::Namespaced };
    let is_namespaced = scope.unwrap_or(default) == Scope::Namespaced;
    let enforced = text(&["spec", "enforcedCompositionRef", "name"]);
    let compositions = compositions(input, &group, &kind, &enforced);
    let here = input.composites.iter().filter(|it| it.group == group && it.kind == kind);
    let namespaces = here.map(|it| it.namespace.clone()).collect();
    let definition = meta::name(definition).to_owned();
    Some(CompositeKind {
        definition,
        group,
        kind,
        plural,
        claim_plural,
        is_namespaced,
        compositions,
        namespaces,
    })
}

fn compositions(input: &AuditInput, group: &str, kind: &str, enforced: &str) -> Vec<KnownComposition> {
    let is_its = |it: &&Object| {
        let of = meta::group(text_at(it, &["spec", "compositeTypeRef", "apiVersion"]));
        of == group && text_at(it, &["spec", "compositeTypeRef", "kind"]) == kind
    };
    let all = input.of_kind(DEFINITIONS, "Composition").filter(is_its);
    let chosen = all.filter(|it| enforced.is_empty() || meta::name(it) == enforced);
    chosen.map(|it| composition(input, it)).collect()
}

fn composition(input: &AuditInput, composition: &Object) -> KnownComposition {
    let name = meta::name(composition).to_owned();
    let spec = composition.get("spec").cloned().unwrap_or_default();
    let Ok(spec) = serde_json::from_value::<CompositionSpec>(spec) else {
        // What cannot be read may compose anything.
        return KnownComposition { name, functions: BTreeSet::new(), composes: Composes::Unknown };
    };
    if spec.mode() == Mode::Resources {
        let resources: Vec<_> = spec.resources.iter().collect();
        let composes = bases(input, &resources, spec.patch_sets.iter().any(patches_its_kind));
        return KnownComposition { name, functions: BTreeSet::new(), composes };
    }
    let functions = spec.pipeline.iter().map(|step| step.function_ref.name.clone()).collect();
    let mut known = BTreeSet::new();
    for step in &spec.pipeline {
        let called = &step.function_ref.name;
        if input.passive_functions.iter().any(|passive| is_function(input, called, passive)) {
            continue;
        }
        let empty = Object::new();
        let input_of_step = step.input.as_ref().unwrap_or(&empty);
        let (_, patches) = RESOURCES_STEP;
        let is_readable = is_function(input, called, patches) && step.input_ref.is_none();
        match (is_readable, patch_and_transform(input, input_of_step)) {
            (true, Composes::Known(kinds)) => known.extend(kinds),
            _ => return KnownComposition { name, functions, composes: Composes::Unknown },
        }
    }
    KnownComposition { name, functions, composes: Composes::Known(known) }
}

/// Whether a function is this one. People call functions what they like: their package tells.
fn is_function(input: &AuditInput, called: &str, name: &str) -> bool {
    let installed = input.of_kind(keys::PKG, "Function").find(|function| meta::name(function) == called);
    match installed {
        Some(function) => ImageReference::parse(text_at(function, &["spec", "package"])).name() == name,
        None => called.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('-')),
    }
}

fn patch_and_transform(input: &AuditInput, of_step: &Object) -> Composes {
    let list = |field: &str| -> Vec<&Object> {
        let list = of_step.get(field).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_object).collect()
    };
    bases(input, &list("resources"), list("patchSets").into_iter().any(patches_its_kind))
}

/// The kinds of resources by their bases.
fn bases(input: &AuditInput, resources: &[&Object], is_patched: bool) -> Composes {
    let mut known = BTreeSet::new();
    for resource in resources {
        let (api_version, kind) =
            (text_at(resource, &["base", "apiVersion"]), text_at(resource, &["base", "kind"]));
        let found = input.kind(meta::group(api_version), kind);
        match found {
            Some(found) if !is_patched && !patches_its_kind(resource) => {
                known.insert((found.group.clone(), found.plural.clone()));
            }
            // Without a base it is another step's resource, or none; the step that patches a kind decides on it.
            _ => return Composes::Unknown,
        }
    }
    Composes::Known(known)
}

/// Whether one of its patches may change what kind a resource is.
fn patches_its_kind(patches: &Object) -> bool {
    let list = patches.get("patches").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_object).any(|patch| {
        let to = Some(text_at(patch, &["toFieldPath"])).filter(|to| !to.is_empty());
        let to = to.unwrap_or_else(|| text_at(patch, &["fromFieldPath"]));
        to == "kind" || to == "apiVersion"
    })
}
