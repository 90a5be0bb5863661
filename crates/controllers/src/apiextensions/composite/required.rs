//! Reads required resources, and watches them from then on.

use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::{Object, meta};
use ferroplane_client::{Error, ObjectHeader, ObjectPath, Resource};
use ferroplane_engine::composite::secret_data;
use ferroplane_engine::{Answer, Requirement, Want, chain};
use ferroplane_runner::Resources;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::ResourceSelector;

use super::dependencies::Wanted;
use super::memory::Name;
use super::{Shared, secrets};
use crate::live_resources::LiveResources;

/// The required resources of one reconcile.
pub(super) struct RequiredResources<'a> {
    shared: &'a Shared,
    definition: &'a str,
    name: Name,
    /// The epoch of each selector when it was read.
    epochs: Mutex<Vec<(ResourceSelector, u64)>>,
    /// The Secrets that were read as credentials of steps.
    credentials: Mutex<Vec<Requirement>>,
}

impl<'a> RequiredResources<'a> {
    pub(super) fn new(shared: &'a Shared, definition: &'a str, name: &Name) -> Self {
        Self {
            shared,
            definition,
            name: name.clone(),
            epochs: Mutex::default(),
            credentials: Mutex::default(),
        }
    }

    /// The epochs of these requirements when they were read.
    pub(super) fn epochs_of(&self, requirements: &[Requirement]) -> Vec<u64> {
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = |requirement: &Requirement| {
            // The last read: functions of later calls saw the objects of that one.
            let read = epochs.iter().rev().find(|(selector, _)| *selector == requirement.selector);
            // A requirement that was not read is no input.
            read.map_or(u64::MAX, |(_, epoch)| *epoch)
        };
        requirements.iter().map(epoch).collect()
    }

    /// Whether these objects were read, and so passed to the step that requires them.
    pub(super) fn has_read(&self, selector: &ResourceSelector) -> bool {
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.iter().any(|(read, _)| read == selector)
    }

    /// All requirements that were read.
    pub(super) fn asked(&self) -> Vec<Requirement> {
        let epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let requirement = |(selector, _): &(ResourceSelector, u64)| Requirement {
            step: String::new(),
            name: String::new(),
            selector: selector.clone(),
        };
        epochs.iter().map(requirement).collect()
    }

    /// Read a Secret and watch it from now on. None if it does not exist (yet).
    pub(super) async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Object>, Error> {
        let secret = secrets::requirement(namespace, name);
        let dependencies = &self.shared.dependencies;
        // Register the dependency first, then read: otherwise a change in between would be missed.
        let before = dependencies.follow_secret(self.definition, &self.name, &secret);
        let target = ObjectPath { resource: &secrets::resource(), namespace, name };
        let read = self.shared.context.cluster.get_object(target).await;
        let version = |object: &Object| meta::resource_version(object).parse().unwrap_or_default();
        let epoch = match &read {
            Ok(object) => {
                let version = object.as_ref().map_or(0, version);
                dependencies.secret_read((self.definition, &self.name), &secret.selector, version, before)
            }
            Err(_) => before,
        };
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).push((secret.selector, epoch));
        read
    }

    /// Read the credentials of a step, and watch them from now on: functions must see those that are valid.
    async fn credential(&self, namespace: &str, name: &str) -> Result<Answer, String> {
        self.note_credential(secrets::requirement(namespace, name));
        let secret = self.secret(namespace, name).await.map_err(|error| text(&error))?;
        // No API server stores an invalid Secret.
        Ok(Answer::Secret(secret.map(|secret| secret_data(&secret).unwrap_or_default())))
    }

    fn note_credential(&self, credential: Requirement) {
        let mut credentials = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        if !credentials.contains(&credential) {
            credentials.push(credential);
        }
    }

    /// The credentials of steps that were read.
    pub(super) fn credentials(&self) -> Vec<Requirement> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Record that a Secret that was read before was written, with this version.
    pub(super) fn secret_written(&self, namespace: &str, name: &str, version: u64) {
        let secret = secrets::requirement(namespace, name);
        let before = self.epochs_of(std::slice::from_ref(&secret));
        let before = before.first().copied().unwrap_or_default();
        let writer = (self.definition, &self.name);
        let epoch = self.shared.dependencies.secret_written(writer, &secret.selector, version, before);
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).push((secret.selector, epoch));
    }

    /// Read Secrets that are selected by labels, and watch them from now on.
    async fn selected_secrets(&self, selector: &ResourceSelector) -> Result<Vec<Object>, Error> {
        let secrets = Requirement { step: String::new(), name: String::new(), selector: selector.clone() };
        let dependencies = &self.shared.dependencies;
        // Register the dependency first, then read: otherwise a change in between would be missed.
        let before = dependencies.follow_secret(self.definition, &self.name, &secrets);
        let found = secrets::list(&self.shared.context.cluster, selector).await;
        let reader = Some((self.definition, &self.name, before));
        let epoch = match &found {
            Ok(found) => dependencies.secrets_listed(reader, selector, found),
            Err(_) => before,
        };
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).push((selector.clone(), epoch));
        found
    }

    /// Read Secrets that functions require. They are read every time, and not cached.
    async fn secrets(&self, selector: &ResourceSelector) -> Result<Vec<Struct>, String> {
        let found = match Wanted::of(selector).name() {
            // No API server has a Secret without a namespace.
            Some(("", _)) => Vec::new(),
            Some((namespace, name)) => {
                self.secret(namespace, name).await.map_err(|error| text(&error))?.into_iter().collect()
            }
            None => self.selected_secrets(selector).await.map_err(|error| text(&error))?,
        };
        found.into_iter().map(|object| Struct::try_from(object).map_err(|error| error.to_string())).collect()
    }

    /// Read objects of a kind that has to be cluster-scoped.
    async fn cluster_resources(&self, selector: &ResourceSelector) -> Result<Answer, String> {
        // Before a watch starts: objects that may not be read must not be watched either.
        match self.resource(&selector.api_version, &selector.kind).await? {
            Some(resource) if resource.is_namespaced => Ok(Answer::Scope { is_namespaced: true }),
            _ => self.resources(selector).await.map(Answer::Resources),
        }
    }

    async fn resources(&self, selector: &ResourceSelector) -> Result<Vec<Struct>, String> {
        if secrets::are_selected(selector) {
            return self.secrets(selector).await;
        }
        // Register the dependency first, then read: otherwise a change in between would be missed.
        let interest = Requirement { step: String::new(), name: String::new(), selector: selector.clone() };
        self.shared.dependencies.follow(self.definition, &self.name, &[], &[interest]);
        let epoch = self.shared.dependencies.epoch(selector);
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).push((selector.clone(), epoch));

        let resource = self.resource(&selector.api_version, &selector.kind).await?;
        let Some(resource) = resource else {
            return Err(format!("there is no kind {} in {}", selector.kind, selector.api_version));
        };
        let informer = self.shared.dependencies.required(&resource);
        informer.synced_or_failed().await.map_err(|error| chain(&error))?;
        let wanted = Wanted::of(selector);
        let found = match wanted.name() {
            Some((namespace, name)) => informer.get(namespace, name).into_iter().collect(),
            None => informer.all(),
        };
        let found = found.iter().filter(|held| {
            let header = ObjectHeader::read(&held.bytes);
            header.is_some_and(|header| wanted.matches(&header))
        });
        let objects = found.filter_map(|held| informer.to_object(held));
        objects.map(|object| Struct::try_from(object).map_err(|error| error.to_string())).collect()
    }

    async fn resource(&self, api_version: &str, kind: &str) -> Result<Option<Arc<Resource>>, String> {
        self.live().resource(api_version, kind).await
    }

    fn live(&self) -> LiveResources<'_> {
        LiveResources(&self.shared.context.cluster)
    }
}

impl Resources for RequiredResources<'_> {
    async fn fetch(&self, want: &Want) -> Answer {
        let answer = match want {
            Want::Resources(selector) => self.resources(selector).await.map(Answer::Resources),
            Want::ClusterResources(selector) => self.cluster_resources(selector).await,
            Want::Schema(selector) => self.live().schema(selector).await.map(Answer::Schema),
            Want::Secret { namespace, name } => self.credential(namespace, name).await,
            Want::Scope { api_version, kind } => self
                .live()
                .scope(api_version, kind)
                .await
                .map(|is_namespaced| Answer::Scope { is_namespaced }),
        };
        answer.unwrap_or_else(Answer::Failed)
    }
}

/// Read a Secret. None if it does not exist.
pub(super) async fn read_secret(
    shared: &Shared,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, Error> {
    let target = ObjectPath { resource: &secrets::resource(), namespace, name };
    shared.context.cluster.get_object(target).await
}

fn text(error: &Error) -> String {
    chain(error)
}
