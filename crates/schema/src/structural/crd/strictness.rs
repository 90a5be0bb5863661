//! How strict to be with a definition: what an old one got away with, a new one may keep.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/validation/validation.go`.

use super::definition::{Definition, is_same_schema};
use super::parts::MAX_SELECTABLE_FIELDS;
use super::{bundle, check_schema, conversion};
use crate::field::Path;
use crate::structural::compile::{Purpose, SchemaNode};
use crate::structural::{Props, rules, surround};

/// How strict to be. What an old definition got away with, a new one may keep.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be overlooked")]
#[derive(Debug, Clone)]
pub(super) struct Strictness {
    pub(super) requires_understood_review: bool,
    pub(super) has_immutable_names: bool,
    pub(super) requires_schema: bool,
    pub(super) requires_valid_types: bool,
    pub(super) requires_structural: bool,
    pub(super) requires_pruned_defaults: bool,
    pub(super) requires_atomic_sets: bool,
    pub(super) requires_sound_keys: bool,
    pub(super) allows_invalid_bundle: bool,
    /// Versions whose schema did not change: rules in it may cost what they cost before.
    pub(super) unchanged: Vec<String>,
    /// Versions that may have more selectable fields than allowed; the empty name is for all.
    pub(super) crowded: Vec<String>,
    /// Rules in the version at hand may cost what they cost.
    pub(super) forgives_cost: bool,
    /// How many versions there are, each of which is compiled by itself.
    pub(super) versions: usize,
}

impl Strictness {
    pub(super) const fn for_new() -> Self {
        Self {
            requires_understood_review: true,
            has_immutable_names: false,
            requires_schema: true,
            requires_valid_types: true,
            requires_structural: true,
            requires_pruned_defaults: true,
            requires_atomic_sets: true,
            requires_sound_keys: true,
            // A definition that is new is not established yet, and a bad bundle keeps it from nothing.
            allows_invalid_bundle: true,
            unchanged: Vec::new(),
            crowded: Vec::new(),
            forgives_cost: false,
            versions: 1,
        }
    }

    pub(super) fn for_update(new: &Definition, old: &Definition) -> Self {
        let never =
            |predicate: &mut dyn FnMut(&Props) -> bool| !old.schemas().any(|schema| schema.has(predicate));
        let reviews =
            old.conversion.as_ref().and_then(|it| it.review_versions.as_deref()).unwrap_or_default();
        Self {
            requires_understood_review: conversion::has_understood_version(reviews),
            has_immutable_names: old.is_established,
            requires_schema: has_all_schemas(old),
            requires_valid_types: never(&mut |schema| {
                !schema.kind.is_empty() && !check_schema::KINDS.contains(&schema.kind.as_str())
            }),
            requires_structural: old.schemas().all(is_structural),
            requires_pruned_defaults: old.schemas().all(has_pruned_defaults),
            requires_atomic_sets: never(&mut check_schema::has_loose_set),
            requires_sound_keys: never(&mut |schema| {
                let mut errors = Vec::new();
                check_schema::check_keys(schema, &Path::NIL, &mut errors);
                !errors.is_empty()
            }),
            allows_invalid_bundle: allows_invalid_bundle(old),
            unchanged: unchanged_versions(new, old),
            crowded: crowded_versions(new, old),
            forgives_cost: false,
            versions: 1,
        }
    }

    pub(super) fn for_version(&self, name: &str) -> Self {
        let mut strictness = self.clone();
        strictness.forgives_cost = self.unchanged.iter().any(|unchanged| unchanged == name);
        strictness
    }
}

fn has_all_schemas(definition: &Definition) -> bool {
    let has = |schema: &Option<Option<Props>>| schema.as_ref().is_some_and(Option::is_some);
    has(&definition.common.schema) || definition.versions.iter().all(|version| has(&version.schema))
}

pub(super) fn is_structural(schema: &Props) -> bool {
    rules::unsupported(schema).is_none() && rules::check(schema, &Path::NIL).is_empty()
}

/// Whether the defaults of a structural schema stay as they are when pruned.
fn has_pruned_defaults(schema: &Props) -> bool {
    // Kubernetes cannot build an object around these, and does not look further.
    let has_default = |schema: &Props| schema.has(&mut |schema| schema.default.is_some());
    let is_odd = schema.default.as_ref().is_some_and(|default| !default.is_object())
        || schema.item().is_some_and(has_default);
    if is_odd || !schema.has(&mut |schema| schema.default.is_some()) || !is_structural(schema) {
        return true;
    }
    let as_written = SchemaNode::compile(schema, Purpose::Objects, false);
    let mut pruned = as_written.clone();
    surround::prune_defaults(&mut pruned);
    as_written.has_same_defaults(&pruned)
}

fn allows_invalid_bundle(old: &Definition) -> bool {
    let client = old.conversion.as_ref().and_then(|conversion| conversion.client.as_ref());
    let bundle = client.map(|client| &client.ca_bundle).filter(|bundle| !bundle.is_empty());
    !old.is_established || bundle.is_some_and(|bundle| bundle::problem(bundle).is_some())
}

fn unchanged_versions(new: &Definition, old: &Definition) -> Vec<String> {
    let schema = |definition: &Definition, name: &str| definition.schema(name).cloned();
    let names = new.versions.iter().map(|version| version.name.clone());
    let exists = |name: &String| old.versions.iter().any(|version| version.name == *name);
    names
        .filter(exists)
        .filter(|name| is_same_schema(Some(&schema(new, name)), Some(&schema(old, name))))
        .collect()
}

fn crowded_versions(new: &Definition, old: &Definition) -> Vec<String> {
    let is_kept = |new: Option<&Vec<String>>, old: Option<&Vec<String>>| {
        old.is_some_and(|old| old.len() > MAX_SELECTABLE_FIELDS) && new == old
    };
    let mut crowded = Vec::new();
    if is_kept(new.common.selectable_fields.as_ref(), old.common.selectable_fields.as_ref()) {
        crowded.push(String::new());
    }
    for version in &new.versions {
        // Kubernetes puts them into a map by name, where the last one wins.
        let before = old.versions.iter().rfind(|candidate| candidate.name == version.name);
        if before
            .is_some_and(|old| is_kept(version.selectable_fields.as_ref(), old.selectable_fields.as_ref()))
        {
            crowded.push(version.name.clone());
        }
    }
    crowded
}
