//! Protects providers from deletion while managed resources of their kinds exist: a `ClusterUsage` for each kind of which there are any.
//!
//! # Invariants
//! * Only the metadata of managed resources is read.
//! * A change of a managed resource causes no request: only the first one and the last one of a kind do.
//! * A `ClusterUsage` that a user made is never deleted.
//! * A provider with managed resources stays protected while it is upgraded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Object, PackageKind, keys, meta};
use ferroplane_client::{
    Change, Error, Informer, InformerScope, ObjectPath, Propagation, Resource, Subresource,
};
use ferroplane_engine::chain;
use ferroplane_engine::packages::{
    PROTECTION_MANAGER, is_active_kind, is_protecting_usage, protecting_usage, protecting_usage_name,
    protects_the_same,
};
use serde_json::Value;
use tracing::warn;

use super::status::holds;
use super::{Manager, cluster_scoped};
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "protection/managedresourcedefinition.apiextensions.crossplane.io";
const CONCURRENCY: usize = 8;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Protect providers, until dropped.
pub(super) async fn run(manager: Arc<Manager>) {
    let queue = manager.context.queue(LONGEST_PAUSE, COMPONENT);
    let usages = cluster_scoped(&format!("{}/v1beta1", keys::PROTECTION), "ClusterUsage", "clusterusages");
    let kinds = Mutex::default();
    let controller = Arc::new(ProviderProtection { manager, queue: queue.clone(), usages, kinds });
    let changed = queue.clone();
    controller.manager.managed_definitions.listen(move |_, change| {
        changed.add(change.header().metadata.name.to_string());
    });
    queue.work(CONCURRENCY, |definition| controller.clone().reconcile(definition)).await;
}

struct ProviderProtection {
    manager: Arc<Manager>,
    queue: Queue<String>,
    usages: Resource,
    /// The managed resources of each kind, by the name of its definition.
    kinds: Mutex<BTreeMap<String, Arc<Informer>>>,
}

impl ProviderProtection {
    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let definition = self.manager.managed_definitions.object("", &name);
        let is_kept = |it: &Object| !meta::is_being_deleted(it) && is_active_kind(it);
        let Some(definition) = definition.filter(is_kept) else {
            self.forget(&name);
            return self.settle(&name, None).await;
        };
        // Its kind is not served now. The definition changes when it is.
        if !holds(&definition, "Established") {
            return Next::Rest;
        }
        let resources = self.follow(&name, managed_resource(&definition));
        if let Err(error) = resources.synced_or_failed().await {
            let error = chain(&error);
            warn!(definition = name, error, "cannot list managed resources, which protect their provider");
            return Next::Retry;
        }
        if resources.is_empty() {
            return self.settle(&name, None).await;
        }
        // While a provider is upgraded, there is a time in which no revision controls its definitions. The usage stays.
        let Some(revision) = controlling_revision(&definition) else { return Next::Rest };
        // The cache of revisions may be older than that of definitions.
        let Some(provider) = self.provider_of(revision) else { return Next::Retry };
        self.settle(&name, Some(protecting_usage(&definition, &provider))).await
    }

    /// The provider that a revision is of.
    fn provider_of(&self, revision: &str) -> Option<String> {
        let revision = self.manager.caches.of(PackageKind::Provider).revisions.object("", revision)?;
        let provider = meta::label(&revision, keys::PACKAGE);
        (!provider.is_empty()).then(|| provider.to_owned())
    }

    /// The managed resources of a kind, from now on.
    fn follow(&self, definition: &str, resource: Resource) -> Arc<Informer> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kinds.get(definition).filter(|known| **known.resource() == resource) {
            return known.clone();
        }
        let scope = InformerScope { metadata_only: true, ..InformerScope::new(Arc::new(resource)) };
        let informer = Informer::start(self.manager.context.cluster.clone(), scope);
        let (queue, name, resources) = (self.queue.clone(), definition.to_owned(), Arc::downgrade(&informer));
        informer.listen(move |_, change| {
            let is_changed = matches!(change, Change::Applied { before: Some(_), .. });
            // How many there are does not matter, as long as there are any.
            if !is_changed && resources.upgrade().is_some_and(|resources| resources.len() <= 1) {
                queue.add(name.clone());
            }
        });
        if let Some(former) = kinds.insert(definition.to_owned(), informer.clone()) {
            former.stop();
        }
        informer
    }

    fn forget(&self, definition: &str) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(former) = kinds.remove(definition) {
            former.stop();
        }
    }

    /// Have the usage for a definition be as it should be. None is none.
    async fn settle(&self, definition: &str, wanted: Option<Object>) -> Next {
        match self.write(definition, wanted).await {
            Ok(next) => next,
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(error) => {
                warn!(definition, error = chain(&error), "cannot write the usage that protects a provider");
                Next::Retry
            }
        }
    }

    async fn write(&self, definition: &str, wanted: Option<Object>) -> Result<Next, Error> {
        let name = protecting_usage_name(definition);
        let path = ObjectPath { resource: &self.usages, namespace: "", name: &name };
        let cluster = &self.manager.context.cluster;
        let present = cluster.get_object(path).await?;
        match (wanted, present) {
            // It was deleted when there were no managed resources, and has to go before there can be another one.
            (Some(_), Some(present)) if meta::is_being_deleted(&present) => return Ok(Next::Retry),
            (Some(wanted), Some(present)) if protects_the_same(&present, &wanted) => {}
            (Some(wanted), _) => {
                cluster.apply(path, Subresource::None, PROTECTION_MANAGER, &wanted).await?;
            }
            (None, Some(present)) if is_protecting_usage(&present) => {
                cluster.delete(path, Some(meta::uid(&present)), Propagation::Background).await?;
            }
            (None, _) => {}
        }
        Ok(Next::Rest)
    }
}

impl Drop for ProviderProtection {
    fn drop(&mut self) {
        for informer in self.kinds.lock().unwrap_or_else(PoisonError::into_inner).values() {
            informer.stop();
        }
    }
}

/// The name of the revision of a provider that controls a definition.
fn controlling_revision(definition: &Object) -> Option<&str> {
    let controller = meta::controller(definition)?;
    let is_revision = controller.get("kind")?.as_str() == Some(PackageKind::Provider.revision());
    controller.get("name")?.as_str().filter(|_| is_revision)
}

/// The kind that a definition defines, in the version in which it is stored.
fn managed_resource(definition: &Object) -> Resource {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let versions = spec.get("versions").and_then(Value::as_array);
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let version = stored.and_then(|version| version["name"].as_str()).unwrap_or_default();
    Resource {
        api_version: format!("{}/{version}", text("/group")),
        kind: text("/names/kind").to_owned(),
        plural: text("/names/plural").to_owned(),
        is_namespaced: text("/scope") == "Namespaced",
    }
}
