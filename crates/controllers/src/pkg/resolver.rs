//! Installs the dependencies in the `Lock`, and changes their versions where that is allowed.
//!
//! # Invariants
//! * No dependency waits for the registry of another one: what needs no tags that are still to come is installed at once.
//! * While any registry is still to answer, those that have answered are not asked again, however often the `Lock` changes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroplane_api::image::ImageReference;
use ferroplane_api::{Cause, Condition, Object, PackageKind, PackageSpec, Status, lock_packages, meta};
use ferroplane_client::{Error, Subresource};
use ferroplane_engine::chain;
use ferroplane_engine::packages::{
    InstalledPackage, KnownTags, PackageChange, Resolution, resolve_dependencies,
};
use serde_json::json;

use super::Manager;
use super::status::{Fields, with_status, write_status};
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};
use crate::runtime::refused::cause_of;

const COMPONENT: &str = "resolver/lock.pkg.crossplane.io";
const TAGS_COMPONENT: &str = "tags/lock.pkg.crossplane.io";
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// When to look for accepted versions again: a new one may have been published.
const TRY_AGAIN: Duration = Duration::from_mins(5);
/// How many registries are asked for their tags at the same time.
const CONCURRENCY: usize = 16;
const REASON: &str = "ResolveDependencies";

/// Manages the lock.
#[derive(Debug)]
pub(super) struct Resolver {
    manager: Arc<Manager>,
    recorder: Recorder,
    pub(super) queue: Queue<()>,
    /// The sources whose registries are asked for tags.
    asking: Queue<String>,
    answers: Mutex<Answers>,
}

/// What registries answered about the tags of a source. None: it is still to answer.
type Answers = BTreeMap<String, Option<Result<Vec<String>, String>>>;

impl Resolver {
    pub(super) fn new(manager: Arc<Manager>) -> Arc<Self> {
        let queue: Queue<()> = manager.context.queue(LONGEST_PAUSE, COMPONENT);
        let lock_changes = queue.clone();
        manager.locks.listen(move |_, _| lock_changes.add(()));
        let asking = manager.context.queue(LONGEST_PAUSE, TAGS_COMPONENT);
        let (recorder, answers) = (manager.context.recorder.of(COMPONENT), Mutex::default());
        Arc::new(Self { manager, recorder, queue, asking, answers })
    }

    pub(super) async fn run(self: &Arc<Self>) {
        // One worker for the one lock: two resolutions at the same time would install two versions.
        let resolving = self.queue.work(1, |()| self.clone().reconcile());
        let asking = self.asking.work(CONCURRENCY, |source| self.clone().ask(source));
        tokio::join!(resolving, asking);
    }

    async fn reconcile(self: Arc<Self>) -> Next {
        let Some(lock) = self.manager.lock().filter(|lock| !meta::is_being_deleted(lock)) else {
            return Next::Rest;
        };
        cause_of_writes(&lock).scope(self.resolve(&lock)).await
    }

    async fn resolve(&self, lock: &Object) -> Next {
        let (packages, installed) = (lock_packages(lock), self.installed());
        let known = self.known_tags();
        let resolution =
            resolve_dependencies(&packages, &installed, &known, self.manager.options.dependencies);
        // What is decided about a source depends on its own tags only, and on all that want it: nothing that is
        // decided later excludes it.
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
        if self.has_to_ask(&resolution) {
            return if failed.is_some() { Next::Retry } else { Next::Rest };
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

    fn known_tags(&self) -> KnownTags {
        let answers = self.answers();
        answers.iter().filter_map(|(source, answer)| Some((source.clone(), answer.clone()?))).collect()
    }

    /// Ask for the tags that a resolution lacks. Returns whether it lacks any. If not, what was answered is forgotten: the next resolution
    /// asks for what is there then.
    fn has_to_ask(&self, resolution: &Resolution) -> bool {
        let mut answers = self.answers();
        if resolution.ask.is_empty() {
            answers.retain(|_, answer| answer.is_none());
            return false;
        }
        // The engine names the sources whose tags it needs, and only those are asked for: most constraints name a
        // version.
        for source in &resolution.ask {
            if let Entry::Vacant(unasked) = answers.entry(source.clone()) {
                unasked.insert(None);
                self.asking.add(source.clone());
            }
        }
        true
    }

    /// Ask a registry for the tags of a source.
    async fn ask(self: Arc<Self>, source: String) -> Next {
        // A registry that fails is an answer, too: otherwise the engine would ask for it for ever.
        let answer = self.list_tags(&source).await;
        self.answers().insert(source, Some(answer));
        self.queue.add(());
        Next::Rest
    }

    async fn list_tags(&self, source: &str) -> Result<Vec<String>, String> {
        let prepared = self.manager.prepare_image(source, &[], None, &[]).await;
        let image = prepared.map_err(|problem| chain(&problem))?;
        let tags = self.manager.options.source.tags(image.request.clone()).await;
        tags.map_err(|error| image.explain(&error))
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
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
                    // The cache does not have it yet. When it does, everything is resolved again.
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
