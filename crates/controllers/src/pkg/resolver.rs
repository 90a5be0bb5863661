//! Installs the dependencies in the `Lock`, and changes their versions where that is allowed.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::image::ImageReference;
use ferroplane_api::{
    Cause, Condition, LockPackage, Object, PackageKind, PackageSpec, Status, lock_packages, meta,
};
use ferroplane_client::{Error, Subresource};
use ferroplane_engine::chain;
use ferroplane_engine::packages::{
    InstalledPackage, KnownTags, PackageChange, Resolution, resolve_dependencies,
};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::Manager;
use super::status::{Fields, with_status, write_status};
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};
use crate::runtime::refused::cause_of;

const COMPONENT: &str = "resolver/lock.pkg.crossplane.io";
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// When to look for accepted versions again: a new one may have been published.
const TRY_AGAIN: Duration = Duration::from_mins(5);
/// How many registries are asked for their tags at the same time.
const CONCURRENCY: usize = 4;
const REASON: &str = "ResolveDependencies";

/// Manages the lock.
#[derive(Debug)]
pub(super) struct Resolver {
    manager: Arc<Manager>,
    recorder: Recorder,
    pub(super) queue: Queue<()>,
}

impl Resolver {
    pub(super) fn new(manager: Arc<Manager>) -> Arc<Self> {
        let queue: Queue<()> = manager.context.queue(LONGEST_PAUSE, COMPONENT);
        let lock_changes = queue.clone();
        manager.locks.listen(move |_, _| lock_changes.add(()));
        Arc::new(Self { recorder: manager.context.recorder.of(COMPONENT), manager, queue })
    }

    pub(super) async fn run(self: &Arc<Self>) {
        // One worker for the one lock: two resolutions at the same time would install two versions.
        self.queue.work(1, |()| self.clone().reconcile()).await;
    }

    async fn reconcile(self: Arc<Self>) -> Next {
        let Some(lock) = self.manager.lock().filter(|lock| !meta::is_being_deleted(lock)) else {
            return Next::Rest;
        };
        cause_of_writes(&lock).scope(self.resolve(&lock)).await
    }

    async fn resolve(&self, lock: &Object) -> Next {
        let (packages, installed) = (lock_packages(lock), self.installed());
        // Everything is decided before anything is changed: half of a resolution could install what the other half
        // excludes.
        let resolution = self.decide(&packages, &installed).await;
        // Registries may have taken long: what was decided about a former state is dropped.
        let is_same = |lock: &Object| lock_packages(lock) == packages && !meta::is_being_deleted(lock);
        let newest = self.manager.lock().filter(is_same).filter(|_| self.installed() == installed);
        let Some(lock) = &newest else { return Next::Conflict };
        let mut failed = None;
        for change in &resolution.changes {
            if let Err(error) = self.carry_out(change, &installed).await {
                if error.is_conflict() {
                    return Next::Conflict;
                }
                self.recorder.failure(lock, REASON, chain(&error), cause_of(&error));
                failed = Some(chain(&error));
            }
        }
        let mut problems: Vec<String> = resolution.conflicts.iter().map(ToString::to_string).collect();
        // Sorted, so that the condition does not change with the order of packages in the lock.
        problems.sort();
        let has_conflicts = !problems.is_empty();
        problems.extend(failed.clone());
        if let Err(next) = self.conclude(lock, &problems).await {
            return next;
        }
        match (failed, has_conflicts) {
            (Some(_), _) => Next::Retry,
            (None, true) => Next::After(TRY_AGAIN),
            (None, false) => Next::Rest,
        }
    }

    /// Decide the changes that the lock requires. Registries are asked for tags if that depends on them.
    async fn decide(&self, packages: &[LockPackage], installed: &[InstalledPackage]) -> Resolution {
        let mut tags = KnownTags::new();
        loop {
            let resolution =
                resolve_dependencies(packages, installed, &tags, self.manager.options.dependencies);
            // The engine names the registries whose tags it needs, and only those are asked: most constraints name a
            // version.
            if resolution.ask.is_empty() {
                return resolution;
            }
            let asking: Vec<_> = resolution.ask.into_iter().map(|source| self.list_tags(source)).collect();
            // A registry that fails is an answer, too: otherwise the engine would ask for it for ever.
            let answers: Vec<_> = stream::iter(asking).buffered(CONCURRENCY).collect().await;
            tags.extend(answers);
        }
    }

    async fn list_tags(&self, source: String) -> (String, Result<Vec<String>, String>) {
        let prepared = self.manager.prepare_image(&source, &[], None).await;
        let tags = match prepared {
            Err(problem) => Err(chain(&problem)),
            Ok(image) => {
                let tags = self.manager.options.source.tags(image.request.clone()).await;
                tags.map_err(|error| image.explain(&error))
            }
        };
        (source, tags)
    }

    /// All packages that exist, in an order that does not change.
    fn installed(&self) -> Vec<InstalledPackage> {
        let caches = self.manager.caches.all();
        let packages = caches.flat_map(|(kind, cache)| {
            cache.packages.objects().into_iter().map(move |package| (kind, package))
        });
        let mut installed: Vec<_> = packages.map(|(kind, package)| read(kind, &package)).collect();
        installed.sort_by(|one, other| (one.kind.name(), &one.name).cmp(&(other.kind.name(), &other.name)));
        installed
    }

    /// Carry out a change that was decided while these packages were installed.
    async fn carry_out(&self, change: &PackageChange, installed: &[InstalledPackage]) -> Result<(), Error> {
        let context = &self.manager.context;
        match change {
            PackageChange::Install { kind, name, image } => {
                let packages = &self.manager.caches.of(*kind).packages;
                let mut package = Object::new();
                packages.resource().add_kind(&mut package);
                meta::set_field(&mut package, "name", name);
                package.insert("spec".to_owned(), json!({"package": image}));
                match context.cluster.create(packages.resource(), "", &package).await {
                    Ok(bytes) => packages.insert_written(&bytes),
                    // A package of that name exists. The lock shows whether it is the right one.
                    Err(error) if error.is_already_exists() => {}
                    Err(error) => return Err(error),
                }
            }
            PackageChange::Move { kind, name, image } => {
                let packages = &self.manager.caches.of(*kind).packages;
                let is_same = |package: &Object| installed.contains(&read(*kind, package));
                // Deleted or changed meanwhile: everything is resolved again.
                let Some(mut package) = packages.object("", name).filter(is_same) else { return Ok(()) };
                // As an update, with the version that was read: a user who changes the package at the same moment
                // wins.
                meta::child(&mut package, "spec").insert("package".to_owned(), image.clone().into());
                let path =
                    ferroplane_client::ObjectPath { resource: packages.resource(), namespace: "", name };
                let bytes = context.cluster.replace(path, Subresource::None, &package).await?;
                packages.insert_written(&bytes);
            }
        }
        Ok(())
    }

    async fn conclude(&self, lock: &Object, problems: &[String]) -> Result<(), Next> {
        let condition = if problems.is_empty() {
            Condition::new("Resolved", Status::True, "DependencyResolutionSucceeded")
        } else {
            Condition::new("Resolved", Status::False, "DependencyResolutionFailed")
                .with_message(problems.join("; "))
                .with_failure(Cause::PackageDependenciesUnmet.into())
        };
        let message = condition.message.clone();
        let context = &self.manager.context;
        let Some(changed) = with_status(context, lock, vec![condition], Fields::new()) else { return Ok(()) };
        write_status(context, &self.manager.locks, &changed).await?;
        if !message.is_empty() {
            self.recorder.failure(lock, REASON, message, Cause::PackageDependenciesUnmet);
        }
        Ok(())
    }
}

/// What decides about a package that exists.
fn read(kind: PackageKind, package: &Object) -> InstalledPackage {
    let image = PackageSpec::of(package).package;
    let parts = ImageReference::parse(&image);
    InstalledPackage {
        kind,
        name: meta::name(package).to_owned(),
        source: parts.repository.to_owned(),
        version: parts.digest.or(parts.tag).unwrap_or_default().to_owned(),
    }
}
