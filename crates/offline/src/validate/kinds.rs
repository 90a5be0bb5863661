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
    /// How many versions share what the patterns and rules of all of them may cost.
    sharers: usize,
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
        let resources: HashMap<_, _> = names.map(|name| (name, OnceLock::new())).collect();
        let sharers = resources.len();
        Ok(Self { definition, resources, sharers, referenceable })
    }

    /// The same with what its patterns and rules may cost shared by so many versions, of this kind and others.
    #[must_use]
    pub(super) fn sharing(self, versions: usize) -> Self {
        Self { sharers: versions, ..self }
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
        // Not every definition was accepted by an API server: an XRD that is refused is stored all the same.
        let schema = Schema::compile_shared(definition.schema(version)?, self.sharers);
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
pub(super) mod tests {
    use ferroplane_schema::field::Path;
    use serde_json::json;

    use super::*;

    /// A definition with so many versions, each of which has so many patterns that take a tenth of a second to compile.
    pub(crate) fn heavy(kind: &str, versions: usize, patterns: usize) -> Object {
        let pattern = |number: usize| {
            let pattern = format!(r"(a|b|c){{500}}[\pL]{{300}}{number}");
            (format!("p{number}"), json!({"type": "string", "pattern": pattern}))
        };
        let properties: Object = (0..patterns).map(pattern).collect();
        let version = |number: usize| {
            json!({
                "name": format!("v{number}"), "served": true, "storage": number == 1,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            })
        };
        let versions: Vec<_> = (1..=versions).map(version).collect();
        let plural = format!("{}s", kind.to_lowercase());
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.e.org")},
            "spec": {
                "group": "e.org", "scope": "Namespaced", "versions": versions,
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            },
        });
        definition.as_object().unwrap().clone()
    }

    /// How many of the patterns are withheld instead of compiled.
    pub(crate) fn withheld(known: &Known, version: &str, patterns: usize) -> usize {
        let object = (0..patterns).map(|number| (format!("p{number}"), json!("x"))).collect();
        let schema = &known.resource(version).unwrap().schema;
        let errors = schema.validate(&Value::Object(object), &Path::NIL);
        errors.iter().filter(|error| error.to_string().contains("too complex together")).count()
    }

    #[test]
    fn patterns_of_a_definition_that_are_too_heavy_together_are_withheld() {
        let known = Known::read(heavy("One", 1, 10), None).unwrap();
        let withheld = withheld(&known, "v1", 10);
        assert!((1..10).contains(&withheld), "{withheld}");
    }

    #[test]
    fn versions_of_a_definition_share_what_their_patterns_may_cost() {
        let known = Known::read(heavy("One", 8, 1), None).unwrap();
        assert_eq!((1..=8).map(|number| withheld(&known, &format!("v{number}"), 1)).sum::<usize>(), 8);
        let alone = Known::read(heavy("One", 1, 1), None).unwrap();
        assert_eq!(withheld(&alone, "v1", 1), 0);
    }

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
