//! How Kubernetes' own kinds behave.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry`.

mod rules;
mod special;

use std::sync::{Arc, OnceLock};

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::merge::set::Set;
use ferroplane_ownership::{Convert, ResetFields, Version, VersionedKind};
use serde_json::Value;

use super::{Behaviour, Part, metadata_mut};
use crate::builtin::{self, Scope};
use crate::field::Error;
use crate::meta;
use crate::patch::facts::{self, Facts};
use crate::status::Resource;
use rules::Rules;

/// One of Kubernetes' own kinds, ready to be written to.
#[derive(Debug)]
pub struct Builtin {
    kind: builtin::BuiltinKind,
    resource: Resource,
    api_version: String,
    /// The kind in all its versions, if it has several, each with its group and version.
    forms: Vec<(String, builtin::BuiltinKind)>,
    is_namespaced: bool,
    has_status: bool,
    rules: Rules,
    reset: ResetFields,
    reset_by_status: ResetFields,
    /// Computed on demand: it takes time and memory, and may never be needed.
    details: OnceLock<Details>,
}

#[derive(Debug)]
struct Details {
    /// An object that says nothing.
    blank: JsonObject,
    ownership: VersionedKind,
    facts: Facts,
}

impl Builtin {
    /// The kind of a resource, if the tables have it.
    pub fn new(resource: &builtin::Resource) -> Option<Self> {
        let kind = builtin::kind(resource.group, resource.version, resource.kind)?;
        let api_version = api_version(resource.group, resource.version);
        let rules = Rules::of(resource.group, resource.kind);
        let forms = rules.special.forms().iter().filter_map(|(group, version)| {
            Some((self::api_version(group, version), builtin::kind(group, version, resource.kind)?))
        });
        let forms: Vec<_> = forms.collect();
        let has_status = resource.subresources.iter().any(|part| part.name == "status");
        let reset = |fields: &'static [&'static [&'static str]]| {
            let others = forms.iter().map(|(api_version, _)| api_version);
            let all = others.chain([&api_version]).cloned();
            all.map(|api_version| (api_version, Set::of_fields(fields).into())).collect::<ResetFields>()
        };
        let by_status: &'static [&'static [&'static str]] = match resource.group {
            // Status updates of these kinds keep labels, too (`deploymentStatusStrategy` and its siblings).
            "apps" => &[&["spec"], &["metadata", "labels"]],
            _ => &[&["spec"]],
        };
        Some(Self {
            kind,
            resource: Resource::new(resource.group, resource.kind),
            is_namespaced: resource.scope == Scope::Namespaced,
            has_status,
            rules,
            reset: if has_status { reset(&[&["status"]]) } else { ResetFields::new() },
            reset_by_status: reset(by_status),
            api_version,
            forms,
            details: OnceLock::new(),
        })
    }

    fn details(&self) -> &Details {
        self.details.get_or_init(|| {
            let version = |(api_version, kind): &(String, builtin::BuiltinKind)| Version {
                api_version: api_version.clone(),
                shapes: Arc::new(kind.shapes()),
            };
            // Who wrote an object of another group is forgotten, as in Kubernetes.
            let of_group = self.forms.iter().filter(|(_, kind)| kind.group() == self.kind.group());
            let mut versions: Vec<_> = of_group.map(version).collect();
            if versions.is_empty() {
                versions.push(version(&(self.api_version.clone(), self.kind)));
            }
            Details {
                blank: self.kind.read(&Value::Object(JsonObject::new())).unwrap_or_default().object,
                ownership: VersionedKind { name: self.resource.name.clone(), versions },
                facts: self.kind.patch_facts(),
            }
        })
    }

    /// A status that says nothing, as objects have it that were just made.
    fn empty_status(&self) -> Option<&Value> {
        self.details().blank.get("status").filter(|_| self.has_status)
    }

    fn set_generation(&self, object: &mut JsonObject, generation: i64) {
        let metadata = metadata_mut(object);
        if self.rules.has_generation && generation > 0 {
            metadata.insert("generation".to_owned(), generation.into());
        } else {
            metadata.remove("generation");
        }
    }
}

impl Behaviour for Builtin {
    fn kind(&self) -> &Resource {
        &self.resource
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn api_version(&self) -> &str {
        &self.api_version
    }

    fn is_namespaced(&self) -> bool {
        self.is_namespaced
    }

    fn ownership(&self) -> &VersionedKind {
        &self.details().ownership
    }

    fn converter(&self) -> Option<&dyn Convert> {
        (!self.forms.is_empty()).then_some(self)
    }

    fn reset_fields(&self, part: Part) -> Option<&ResetFields> {
        match part {
            Part::Whole | Part::Scale | Part::Finalize | Part::EphemeralContainers => Some(&self.reset),
            Part::Status => Some(&self.reset_by_status),
        }
    }

    fn strategy(&self) -> Option<facts::PatchedKind<'_>> {
        self.details().facts.kind(self.kind.name())
    }

    fn allows_unconditional_update(&self) -> bool {
        self.rules.allows_unconditional_update
    }

    fn allows_create_on_update(&self) -> bool {
        self.rules.allows_create_on_update
    }

    fn normalise(&self, object: &mut JsonObject) -> Result<Vec<String>, String> {
        let value = Value::Object(std::mem::take(object));
        let read = self.kind.read(&value)?;
        *object = read.object;
        self.kind.default(object);
        special::normalise(self.rules.special, object, &self.api_version);
        Ok(read.unknown)
    }

    fn revive(&self, object: &mut JsonObject) {
        object.insert("apiVersion".to_owned(), self.api_version.as_str().into());
        self.kind.default(object);
    }

    fn adopt(&self, object: &mut JsonObject) {
        if let Ok(converted) = self.convert(object, &self.api_version) {
            *object = converted;
        }
        object.insert("apiVersion".to_owned(), self.api_version.as_str().into());
    }

    fn blank(&self) -> Option<&JsonObject> {
        Some(&self.details().blank)
    }

    fn default(&self, object: &mut JsonObject) {
        // What was merged is given its fields that are always there, and those their defaults. It has been checked.
        let _ = self.normalise(object);
    }

    fn prepare_create(&self, object: &mut JsonObject) {
        // Who creates a node, which is mostly the node, may say how it is.
        let keeps_status = self.rules.special == special::Special::Node;
        if let Some(status) = self.empty_status().filter(|_| !keeps_status) {
            object.insert("status".to_owned(), status.clone());
        }
        special::prepare_create(self.rules.special, object);
        self.kind.default(object);
        self.set_generation(object, 1);
    }

    fn prepare_update(&self, part: Part, object: &mut JsonObject, old: &JsonObject) {
        match part {
            Part::Status => {
                let is_kept = |name: &String| !matches!(name.as_str(), "metadata" | "status");
                object.retain(|name, _| !is_kept(name));
                object.extend(
                    old.iter()
                        .filter(|(name, _)| is_kept(name))
                        .map(|(name, value)| (name.clone(), value.clone())),
                );
                if self.resource.group == "apps" {
                    keep_labels(object, old);
                }
            }
            Part::Finalize => keep_status(object, old),
            Part::EphemeralContainers => {
                special::keep_all_but_ephemeral_containers(object, old);
                self.set_generation(object, meta::generation_after(object, old, self.has_status));
            }
            Part::Whole | Part::Scale => {
                if self.has_status {
                    keep_status(object, old);
                }
                special::prepare_update(self.rules.special, object, old);
                let generation = meta::generation_after(object, old, self.has_status);
                let before = old.get("metadata").and_then(|metadata| metadata.get("generation"));
                let is_told = self.resource.name == "Deployment" && annotations(object) != annotations(old);
                // Annotations tell those who roll out a Deployment what to do.
                // One step for one write: a change of the spec has counted already.
                let is_counted = before.and_then(Value::as_i64).is_some_and(|before| before < generation);
                self.set_generation(object, generation + i64::from(is_told && !is_counted));
            }
        }
    }

    fn may_take_long(&self) -> bool {
        // The patterns and rules of a schema are read to check it, and some kilobytes of them can take a second.
        self.rules.special == special::Special::Definition
    }

    fn check_create(&self, object: &Value) -> Vec<Error> {
        special::check(self.rules.special, object).unwrap_or_else(|| {
            let empty = JsonObject::new();
            self.kind.validate(object.as_object().unwrap_or(&empty))
        })
    }

    fn check_update(&self, part: Part, object: &Value, old: &Value) -> Vec<Error> {
        if part == Part::Status {
            return Vec::new();
        }
        if part == Part::EphemeralContainers {
            return special::check_ephemeral_containers(object, old);
        }
        if let Some(errors) = special::check_update(self.rules.special, object, old) {
            return errors;
        }
        let empty = JsonObject::new();
        self.kind.validate_update(object.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty))
    }

    fn warnings(&self, object: &JsonObject, _old: Option<&JsonObject>) -> Vec<String> {
        special::warnings(self.rules.special, object)
    }
}

impl Convert for Builtin {
    fn convert(&self, object: &JsonObject, api_version: &str) -> Result<JsonObject, String> {
        let form = self.forms.iter().find(|(known, _)| known == api_version);
        let Some((_, kind)) = form else { return Err(format!("there is no version {api_version:?}")) };
        let mut object = object.clone();
        special::convert(self.rules.special, &mut object, api_version);
        object.insert("apiVersion".to_owned(), api_version.into());
        // What is always written in a version is written now.
        Ok(kind.read(&Value::Object(object))?.object)
    }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn keep_status(object: &mut JsonObject, old: &JsonObject) {
    match old.get("status") {
        Some(status) => drop(object.insert("status".to_owned(), status.clone())),
        None => drop(object.remove("status")),
    }
}

fn keep_labels(object: &mut JsonObject, old: &JsonObject) {
    let labels = old.get("metadata").and_then(|metadata| metadata.get("labels"));
    match labels {
        Some(labels) => drop(metadata_mut(object).insert("labels".to_owned(), labels.clone())),
        None => drop(metadata_mut(object).remove("labels")),
    }
}

fn annotations(object: &JsonObject) -> Option<&JsonObject> {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.and_then(Value::as_object).filter(|annotations| !annotations.is_empty())
}
