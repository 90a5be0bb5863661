//! Caches of packages and revisions of all kinds, and the packages to reconcile when one of them changes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::{Object, PackageKind, keys, meta};
use ferroplane_client::{Change, Informer, InformerScope};

use super::cluster_scoped;
use crate::context::Context;
use crate::metrics::Metrics;
use crate::runtime::queue::Queue;

/// A package or a revision: its kind, and its name.
pub(super) type PackageKey = (PackageKind, String);
pub(super) type PackageQueue = Queue<PackageKey>;

/// All packages and their revisions.
#[derive(Debug)]
pub(super) struct PackageCaches {
    kinds: [Arc<PackageCache>; 3],
}

/// The packages of one kind, and their revisions.
#[derive(Debug)]
pub(super) struct PackageCache {
    kind: PackageKind,
    pub(super) packages: Arc<Informer>,
    pub(super) revisions: Arc<Informer>,
    /// The names of revisions, by the package in their label when they were last seen.
    by_package: Mutex<HashMap<String, BTreeSet<String>>>,
    /// Whether this cache has to stop the informers.
    owns_informers: bool,
    metrics: Arc<Metrics>,
}

impl PackageCaches {
    pub(super) fn start(context: &Context) -> Self {
        let follow = |kind: &str, plural: &str| {
            let resource = cluster_scoped(&format!("{}/v1", keys::PKG), kind, plural);
            Informer::start(context.cluster.clone(), InformerScope::new(Arc::new(resource)))
        };
        let cache = |kind, packages, revisions, owns_informers| {
            let (by_package, metrics) = (Mutex::default(), context.metrics.clone());
            Arc::new(PackageCache { kind, packages, revisions, by_package, owns_informers, metrics })
        };
        let providers = (follow("Provider", "providers"), follow("ProviderRevision", "providerrevisions"));
        let configurations = (
            follow("Configuration", "configurations"),
            follow("ConfigurationRevision", "configurationrevisions"),
        );
        let functions = (context.functions.clone(), context.function_revisions.clone());
        Self {
            kinds: [
                cache(PackageKind::Provider, providers.0, providers.1, true),
                cache(PackageKind::Configuration, configurations.0, configurations.1, true),
                cache(PackageKind::Function, functions.0, functions.1, false),
            ],
        }
    }

    pub(super) async fn synced(&self) {
        for cache in &self.kinds {
            cache.packages.synced().await;
            cache.revisions.synced().await;
        }
    }

    pub(super) fn stop(&self) {
        for cache in self.kinds.iter().filter(|cache| cache.owns_informers) {
            cache.packages.stop();
            cache.revisions.stop();
        }
    }

    pub(super) fn of(&self, kind: PackageKind) -> &Arc<PackageCache> {
        match kind {
            PackageKind::Provider => &self.kinds[0],
            PackageKind::Configuration => &self.kinds[1],
            PackageKind::Function => &self.kinds[2],
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (PackageKind, &Arc<PackageCache>)> {
        self.kinds.iter().map(|cache| (cache.kind, cache))
    }

    /// A function that returns the names of all packages, and of all revisions.
    pub(super) fn names(&self) -> impl Fn() -> (Vec<PackageKey>, Vec<PackageKey>) + Send + Sync + 'static {
        let kinds = self.kinds.clone();
        move || {
            let names = |informer: fn(&PackageCache) -> &Informer| {
                let of = |cache: &Arc<PackageCache>| {
                    let kind = cache.kind;
                    let mut names = informer(cache).names();
                    names.sort();
                    names.into_iter().map(move |name| (kind, name))
                };
                kinds.iter().flat_map(of).collect()
            };
            (names(|cache| &cache.packages), names(|cache| &cache.revisions))
        }
    }

    /// Requeue the packages and revisions that a change affects.
    pub(super) fn listen(&self, packages: &PackageQueue, revisions: &PackageQueue, resolver: &Queue<()>) {
        for cache in &self.kinds {
            cache.listen_to_revisions(packages, revisions);
        }
        for cache in &self.kinds {
            cache.listen_to_packages(packages, revisions, resolver);
        }
    }
}

impl PackageCache {
    /// All revisions with the label of this package.
    pub(super) fn revisions_of(&self, package: &str) -> Vec<Object> {
        let names = self.names_of(package);
        let objects = names.iter().filter_map(|name| self.revisions.object("", name));
        // By the label again: it may have changed since the name was recorded.
        objects.filter(|revision| meta::label(revision, keys::PACKAGE) == package).collect()
    }

    /// Record a revision that was just created: the informer calls no listeners for our own writes.
    pub(super) fn remember(&self, package: &str, revision: &str) {
        let mut known = self.by_package.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(package.to_owned()).or_default().insert(revision.to_owned());
    }

    fn forget(&self, package: &str, revision: &str) {
        let mut known = self.by_package.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(revisions) = known.get_mut(package) else { return };
        revisions.remove(revision);
        if revisions.is_empty() {
            known.remove(package);
        }
    }

    fn names_of(&self, package: &str) -> Vec<String> {
        let known = self.by_package.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(package).into_iter().flatten().cloned().collect()
    }

    fn listen_to_revisions(self: &Arc<Self>, packages: &PackageQueue, revisions: &PackageQueue) {
        let (cache, packages, revisions) = (Arc::downgrade(self), packages.clone(), revisions.clone());
        self.revisions.listen(move |_, change| {
            let Some(cache) = cache.upgrade() else { return };
            let name = change.header().metadata.name.to_string();
            let package = change.header().label(keys::PACKAGE).unwrap_or_default().to_owned();
            match change {
                Change::Applied { .. } => cache.remember(&package, &name),
                Change::Deleted { .. } => cache.forget(&package, &name),
            }
            // All revisions of a package decide together which of them controls its objects.
            if changes_siblings(change) {
                for name in cache.names_of(&package) {
                    revisions.add((cache.kind, name));
                }
            }
            revisions.add((cache.kind, name));
            packages.add((cache.kind, package));
        });
    }

    fn listen_to_packages(
        self: &Arc<Self>,
        packages: &PackageQueue,
        revisions: &PackageQueue,
        resolver: &Queue<()>,
    ) {
        let (cache, packages) = (Arc::downgrade(self), packages.clone());
        let (revisions, resolver) = (revisions.clone(), resolver.clone());
        self.packages.listen(move |_, change| {
            let Some(cache) = cache.upgrade() else { return };
            let name = change.header().metadata.name.to_string();
            if matches!(change, Change::Deleted { .. }) {
                cache.metrics.forget_package(cache.kind, &name);
            }
            // Annotations of a package decide how its revisions run.
            if cache.kind.has_runtime() {
                for name in cache.names_of(&name) {
                    revisions.add((cache.kind, name));
                }
            }
            packages.add((cache.kind, name));
            resolver.add(());
        });
    }
}

/// Whether a change of a revision is more than one of its status.
fn changes_siblings(change: Change<'_>) -> bool {
    let Change::Applied { object, before: Some(before), .. } = change else { return true };
    generation(&object.bytes) != generation(&before.bytes)
}

fn generation(bytes: &[u8]) -> Option<i64> {
    #[derive(serde::Deserialize)]
    struct Head {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        generation: Option<i64>,
    }
    serde_json::from_slice::<Head>(bytes).ok()?.metadata.generation
}
