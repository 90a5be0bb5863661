//! The known kinds: those in the given files, and our own.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use ferroplane_api::Object;
use ferroplane_api::crds::{self, Crd};
use ferroplane_schema::structural::{CustomResource, DecodeError, Schema, crd};
use serde_json::Value;

use crate::manifest::yaml;

/// What is known about kinds. Schemas are compiled when the first object needs them, and then kept.
#[derive(Debug)]
pub(super) struct Kinds {
    /// By group, then by kind.
    given: HashMap<String, HashMap<String, Known>>,
    ours: Vec<(&'static Crd, OnceLock<Option<Known>>)>,
    /// The groups of all kinds, if an API server lists them.
    served_groups: Option<BTreeSet<String>>,
}

/// A kind, in all its versions.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) definition: crd::Definition,
    resources: HashMap<String, OnceLock<Option<CustomResource>>>,
    /// For composite resources: the version that compositions are for.
    pub(super) referenceable: Option<String>,
}

impl Kinds {
    pub(super) fn new() -> Self {
        let ours = crds::ALL.iter().map(|crd| (crd, OnceLock::new())).collect();
        Self { given: HashMap::new(), ours, served_groups: None }
    }

    /// The same on an API server that has kinds of these groups: what is not given of them does not exist.
    pub(super) fn served(groups: BTreeSet<String>) -> Self {
        Self { served_groups: Some(groups), ..Self::new() }
    }

    /// How definitions are called of which these are all that matter here.
    pub(super) fn given_word(&self) -> &'static str {
        if self.served_groups.is_some() { "" } else { "given " }
    }

    /// Add a kind. Of two definitions of a kind, the first one counts.
    pub(super) fn add(&mut self, known: Known) {
        let (group, kind) = (known.definition.group.clone(), known.definition.names.kind.clone());
        // Files come before what is fetched or cached, so that the first is the one that its user edits.
        self.given.entry(group).or_default().entry(kind).or_insert(known);
    }

    /// What is known about a kind.
    pub(super) fn find(&self, group: &str, kind: &str) -> Option<&Known> {
        if let Some(known) = self.given(group, kind) {
            return Some(known);
        }
        // What is given wins over our own: it may be of the version that its user has installed.
        let (crd, known) = self.ours.iter().find(|(crd, _)| crd.group == group && crd.kind == kind)?;
        known.get_or_init(|| read_ours(crd)).as_ref()
    }

    /// What is known about a kind that is given.
    pub(super) fn given(&self, group: &str, kind: &str) -> Option<&Known> {
        self.given.get(group)?.get(kind)
    }

    /// Whether anything of this group is given.
    pub(super) fn has_group(&self, group: &str) -> bool {
        self.given.contains_key(group)
            || self.served_groups.as_ref().is_some_and(|groups| groups.contains(group))
    }

    /// Whether all kinds of this group are known, because they are ours.
    pub(super) fn is_group_of_ours(&self, group: &str) -> bool {
        self.ours.iter().any(|(crd, _)| crd.group == group)
    }

    /// Whether composite resources of this group are given.
    pub(super) fn has_composites_of(&self, group: &str) -> bool {
        self.given.get(group).is_some_and(|kinds| kinds.values().any(|known| known.referenceable.is_some()))
    }
}

fn read_ours(crd: &Crd) -> Option<Known> {
    let nodes = yaml::parse(crd.yaml).ok()?;
    let Value::Object(object) = nodes.first()?.to_json() else { return None };
    Known::read(object, None).ok()
}

impl Known {
    /// Read a definition of custom resources.
    pub(super) fn read(mut definition: Object, referenceable: Option<String>) -> Result<Self, DecodeError> {
        crd::default(&mut definition);
        let definition = crd::Definition::decode(&definition)?;
        let names = definition.versions.iter().map(|version| version.name.clone());
        let resources = names.map(|name| (name, OnceLock::new())).collect();
        Ok(Self { definition, resources, referenceable })
    }

    /// One version of the kind, if there is one and it has a schema.
    pub(super) fn resource(&self, version: &str) -> Option<&CustomResource> {
        self.resources.get(version)?.get_or_init(|| self.compile(version)).as_ref()
    }

    /// The names of all versions.
    pub(super) fn versions(&self) -> Vec<&str> {
        self.definition.versions.iter().map(|version| version.name.as_str()).collect()
    }

    fn compile(&self, version: &str) -> Option<CustomResource> {
        let definition = &self.definition;
        let schema = Schema::compile(definition.schema(version)?);
        Some(CustomResource {
            group: definition.group.clone(),
            version: version.to_owned(),
            kind: definition.names.kind.clone(),
            is_namespaced: definition.scope == "Namespaced",
            preserves_unknown_fields: definition.preserve_unknown_fields,
            scale: definition.subresources(version).and_then(|subresources| subresources.scale.clone()),
            schema,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_ours_are_what_an_api_server_accepts() {
        for ours in crds::ALL {
            let nodes = yaml::parse(ours.yaml).unwrap();
            let Value::Object(mut object) = nodes[0].to_json() else { panic!("{} is no object", ours.kind) };
            crd::default(&mut object);
            let definition = crd::Definition::decode(&object).unwrap();
            assert_eq!((definition.group.as_str(), definition.names.kind.as_str()), (ours.group, ours.kind));
            let errors = crd::validate(&definition);
            assert!(errors.is_empty(), "{}: {errors:#?}", ours.kind);
            let known = read_ours(ours).unwrap();
            assert!(known.versions().into_iter().all(|version| known.resource(version).is_some()));
        }
    }
}
