//! The descriptor of a resource.

use std::sync::Arc;

use ferroplane_schema::selector::SelectableFields;
use ferroplane_schema::status;
use ferroplane_schema::structural::Scale;
use ferroplane_schema::structural::crd::Definition;
use ferroplane_schema::table::Printer;
use ferroplane_schema::writes::Behaviour;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::options::Propagation;
use crate::request::Verb;
use crate::webhooks::Converter;

/// A resource: its names, and its versions, of which one is stored.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) is_namespaced: bool,
    pub(crate) versions: Vec<Version>,
    /// Which of the versions is stored.
    pub(crate) storage: usize,
    /// Where its objects are in the store.
    pub(crate) collection: Arc<str>,
    /// As errors name it.
    pub(crate) identity: status::Resource,
    pub(crate) origin: Origin,
    pub(crate) deletion: DeletionStrategy,
    /// Whether who deletes an object is shown it, rather than told that it is gone.
    pub(crate) shows_deleted: bool,
    /// Differs whenever what defines the resource does.
    pub(crate) fingerprint: String,
    /// Who converts between versions, if they differ in more than their names.
    pub(crate) converter: Option<Converter>,
    /// Says to those who watch its objects that it is gone, or is no longer as it was.
    pub(crate) end: watch::Sender<bool>,
}

/// What happens to an object between the request to delete it and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeletionStrategy {
    /// What becomes of what it owns if a client does not say; nothing leaves that to its finalizers.
    pub(crate) default_propagation: Option<Propagation>,
    /// What clients are notified that do not say it.
    pub(crate) warning: Option<&'static str>,
    /// Added when the deletion begins, so that a controller can clean up.
    pub(crate) finalizer: Option<&'static str>,
    /// Whether it also stays while `spec.finalizers` has any, as a namespace does.
    pub(crate) has_spec_finalizers: bool,
    /// Whether the beginning is noted as that of a graceful deletion: with a grace period of zero, and a new generation.
    pub(crate) is_graceful: bool,
    /// What `status.phase` says from the beginning on.
    pub(crate) phase: Option<&'static str>,
}

impl DeletionStrategy {
    /// That of most kinds, and of all custom ones.
    pub(crate) const PLAIN: Self = Self {
        default_propagation: None,
        warning: None,
        finalizer: None,
        has_spec_finalizers: false,
        is_graceful: true,
        phase: None,
    };
}

/// Where a resource comes from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    Builtin,
    /// Nothing is kept: it is a question.
    Review,
    /// From a definition.
    Custom {
        definition: Arc<Definition>,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short: Vec<String>,
    pub(crate) categories: Vec<String>,
}

/// A version of a resource.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) is_served: bool,
    pub(crate) behaviour: Arc<dyn Behaviour>,
    /// Whether stored bytes are what a client of this version gets.
    pub(crate) is_verbatim: bool,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<Scale>,
    pub(crate) printer: Printer,
    pub(crate) selectable: SelectableFields,
    /// The warning for clients that still use this version.
    pub(crate) deprecation: Option<String>,
    pub(crate) verbs: Vec<Verb>,
    /// Subresources besides status and scale.
    pub(crate) parts: &'static [Part],
}

/// A subresource that is neither status nor scale.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// Group, version and kind of what it holds, unless that is the object itself.
    pub(crate) kind: Option<(&'static str, &'static str, &'static str)>,
    pub(crate) verbs: &'static [Verb],
}

impl Resource {
    /// A version, if it is served.
    pub(crate) fn served(&self, version: &str) -> Option<&Version> {
        self.versions.iter().find(|candidate| candidate.is_served && candidate.name == version)
    }

    pub(crate) fn stored(&self) -> &Version {
        &self.versions[self.storage]
    }

    /// Reads a stored object in the version in which it is stored, which may have been the one to be stored long ago.
    pub(crate) fn revive(&self, object: &mut Map<String, Value>) {
        let is_its = |version: &&Version| {
            object.get("apiVersion").is_some_and(|found| found == version.behaviour.api_version())
        };
        // A version that the definition does not have any more cannot be read by its own schema.
        let own = self.versions.iter().find(is_its).unwrap_or_else(|| self.stored());
        own.behaviour.revive(object);
    }
}

impl Version {
    /// Makes of an object in any version one of this version, unless that takes a webhook. Fields that the version lacks
    /// are dropped.
    pub(crate) fn adopt(&self, object: &mut Map<String, Value>) {
        if object.get("apiVersion").is_none_or(|found| found != self.behaviour.api_version()) {
            self.behaviour.adopt(object);
        }
    }
}

/// Where the objects of a resource are in the store.
pub(crate) fn collection(group: &str, plural: &str) -> Arc<str> {
    format!("{group}/{plural}").into()
}
