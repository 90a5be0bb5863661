//! Packages: decides which revisions they have and which of those are active, and reports their health.
//!
//! # Invariants
//! * What is decided after a registry has answered is decided from the objects of that moment. A package, policy or Secret that changed meanwhile is
//!   reconciled again, and the answer is dropped.
//! * A change of a status alone asks no registry.

mod tag_cache;

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, Condition, Object, PackageKind, PackageSpec, meta};
use ferroplane_client::{ObjectPath, Propagation, Subresource};
use ferroplane_engine::composite::{PAUSED_EVENT, RECONCILIATION_PAUSED};
use ferroplane_engine::packages::{
    FetchedPackage, PackageRevisions, RevisionOptions, installed, known_digest, package_health,
    plan_package_revisions, unpacking,
};
use ferroplane_engine::versions::Replacement;
use ferroplane_engine::{FunctionStanding, chain};
use serde_json::{Value, json};

use super::caches::{PackageKey, PackageQueue};
use super::images::PreparedImage;
use super::status::{self, Fields, with_status, write_status};
use super::verification::VerificationProblem;
use super::{Manager, PackagePullPolicy};
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::owner::is_unchanged;
use crate::runtime::queue::{Next, Slot};
use crate::runtime::refused::cause_of;
use tag_cache::{Question, TagCache};

const COMPONENT: &str = "packages/pkg.crossplane.io";
const CONCURRENCY: usize = 4;
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How often a registry is asked for the digest of a tag, if the package wants that.
const ASK_AGAIN: Duration = Duration::from_mins(1);
/// How long a built-in function waits for its registry before it reports that it can be called.
const PATIENCE: Duration = Duration::from_secs(1);

/// Manages packages.
#[derive(Debug)]
pub(super) struct Packages {
    manager: Arc<Manager>,
    recorder: Recorder,
    pub(super) queue: PackageQueue,
    tags: TagCache,
}

/// The image of a package.
struct Resolved {
    image: PreparedImage,
    /// With its algorithm.
    digest: String,
    /// When the registry is asked again, if it is.
    ask_again: Option<Duration>,
}

/// Why an image cannot be installed.
enum Unresolved {
    Failed {
        why: String,
        cause: Cause,
    },
    /// The answer of the registry is about an image that the package no longer names.
    Outdated,
}

impl Unresolved {
    fn unavailable(why: String) -> Self {
        Self::Failed { why, cause: Cause::PackageUnavailable }
    }

    fn unverified(problem: &VerificationProblem) -> Self {
        Self::Failed { why: problem.to_string(), cause: Cause::PackageUnverified }
    }

    /// The registry does not say which digest the image has. Its signatures cannot be verified then, if that is demanded.
    fn unanswered(image: &PreparedImage, error: &super::SourceError) -> Self {
        VerificationProblem::of_demanded(image, error)
            .map_or_else(|| Self::unavailable(image.explain(error)), |problem| Self::unverified(&problem))
    }
}

impl Packages {
    pub(super) fn new(manager: Arc<Manager>) -> Arc<Self> {
        let queue = manager.context.queue(LONGEST_PAUSE, COMPONENT);
        let (recorder, tags) = (manager.context.recorder.of(COMPONENT), TagCache::default());
        Arc::new(Self { manager, recorder, queue, tags })
    }

    pub(super) async fn run(self: &Arc<Self>) {
        self.queue.work_in_slots(CONCURRENCY, |key, slot| self.clone().reconcile(key, slot)).await;
    }

    async fn reconcile(self: Arc<Self>, key: PackageKey, slot: Slot) -> Next {
        let kind = key.0;
        let Some(package) = self.manager.caches.of(kind).packages.object("", &key.1) else {
            self.tags.forget(&key);
            return Next::Rest;
        };
        // Garbage collection deletes the revisions: the package owns them.
        if meta::is_being_deleted(&package) {
            return Next::Rest;
        }
        let work = self.sync(kind, &package, &slot);
        cause_of_writes(&package).scope(work).await
    }

    /// Reconcile a package.
    async fn sync(&self, kind: PackageKind, package: &Object, slot: &Slot) -> Next {
        if kind == PackageKind::Function && self.manager.registry.is_served_by_hand(package) {
            return Next::Rest;
        }
        if status::is_paused(package) {
            return self.pause(kind, package).await;
        }
        let cache = self.manager.caches.of(kind);
        let revisions = cache.revisions_of(meta::name(package));
        let outcome = self.resolve(kind, package, &revisions, slot).await;
        // The registry may have taken long: everything that decides is read again.
        let newest = self.newest(kind, package);
        let Some(package) = &newest else { return Next::Conflict };
        let revisions = cache.revisions_of(meta::name(package));
        let resolved = match outcome {
            Ok(resolved) => resolved,
            Err(Unresolved::Outdated) => return Next::Conflict,
            Err(Unresolved::Failed { why, cause }) => return self.give_up(kind, package, &why, cause).await,
        };
        let digest = resolved.digest.rsplit(':').next().unwrap_or_default();
        let fetched = FetchedPackage { digest };
        let mut plan =
            match plan_package_revisions(kind, package, &revisions, fetched, self.revision_options(kind)) {
                Ok(plan) => plan,
                Err(foreign) => {
                    // Only a change of the revision can help, and that is watched.
                    let (reason, cause) = ("InstallPackageRevision", Cause::ObjectControlled);
                    self.recorder.failure(package, reason, foreign.to_string(), cause);
                    return Next::Rest;
                }
            };
        if kind == PackageKind::Function {
            plan.keep_active(&self.manager.registry.held_revisions(meta::name(package)));
        }
        if let Err(next) = self.carry_out(kind, package, &plan).await {
            return next;
        }
        self.conclude(kind, package, &plan, &resolved).await
    }

    /// The settings for planning revisions.
    fn revision_options(&self, kind: PackageKind) -> RevisionOptions {
        RevisionOptions {
            function_revision_selectors: self.manager.registry.has_revision_selectors(),
            runs_packages: self.manager.runs_in_pods(kind),
            reports_runtime: !self.manager.leaves_running_to_others(kind),
        }
    }

    /// The package as it is now. None if it changed since it was read in what decides about its revisions, or if it is to be left alone.
    fn newest(&self, kind: PackageKind, package: &Object) -> Option<Object> {
        let is_same = |newest: &Object| {
            meta::uid(newest) == meta::uid(package)
                && meta::generation(newest) == meta::generation(package)
                && !meta::is_being_deleted(newest)
                && !status::is_paused(newest)
        };
        self.manager.caches.of(kind).packages.object("", meta::name(package)).filter(is_same)
    }

    /// Find the digest of the image, from an existing revision if the package allows that, and verify it.
    async fn resolve(
        &self,
        kind: PackageKind,
        package: &Object,
        revisions: &[Object],
        slot: &Slot,
    ) -> Result<Resolved, Unresolved> {
        let image = self.prepare(package, revisions).await?;
        let key = (kind, meta::name(package).to_owned());
        let question = Question::of(package, &image.request.image);
        let known = image.digest().map(str::to_owned);
        let known = known.or_else(|| self.recall(&key, package, &image, &question, revisions));
        let is_known = known.is_some();
        let asks = known.as_ref().is_none_or(|digest| !self.manager.is_verified(&image, digest));
        let found = self.find_verified(kind, package, revisions, &image, known, slot).await;
        // A policy that was replaced while the registry was asked must not decide, nor a Secret.
        if asks && self.prepare(package, revisions).await? != image {
            return Err(Unresolved::Outdated);
        }
        let digest = found?;
        if !is_known {
            self.tags.set(key.clone(), question.clone(), &digest);
        }
        // The digest in a reference never changes.
        let follows_tag = image.request.policy == PackagePullPolicy::Always && image.digest().is_none();
        let ask_again = follows_tag.then(|| ASK_AGAIN.saturating_sub(self.tags.age(&key, &question)));
        Ok(Resolved { image, digest, ask_again })
    }

    /// The digest of a tag, if its registry need not be asked: a revision names it, or the registry has answered.
    fn recall(
        &self,
        key: &PackageKey,
        package: &Object,
        image: &PreparedImage,
        question: &Question,
        revisions: &[Object],
    ) -> Option<String> {
        if image.request.policy == PackagePullPolicy::Always {
            return self.tags.get(key, question, Some(ASK_AGAIN));
        }
        let source = PackageSpec::of(package).package;
        let is_of_source = |revision: &Object| {
            revision.get("spec").and_then(|spec| spec.get("image")?.as_str()) == Some(&*source)
        };
        // Without a revision the package is installed anew, from what its tag names now.
        if !revisions.iter().any(is_of_source) {
            return None;
        }
        // Revisions that Crossplane made do not name the digest.
        known_digest(&source, revisions).or_else(|| self.tags.get(key, question, None))
    }

    async fn prepare(&self, package: &Object, revisions: &[Object]) -> Result<PreparedImage, Unresolved> {
        let spec = PackageSpec::of(package);
        let policy = spec.package_pull_policy.as_deref();
        let secrets = &spec.package_pull_secrets;
        let prepared = self.manager.prepare_image(&spec.package, secrets, policy, revisions).await;
        prepared.map_err(|problem| Unresolved::Failed { why: chain(&problem), cause: problem.cause() })
    }

    /// The digest of an image that has the required signatures.
    async fn find_verified(
        &self,
        kind: PackageKind,
        package: &Object,
        revisions: &[Object],
        image: &PreparedImage,
        known: Option<String>,
        slot: &Slot,
    ) -> Result<String, Unresolved> {
        let digest = if let Some(digest) = known {
            digest
        } else {
            let asked = slot.wait_for(self.ask(kind, package, image)).await;
            asked.map_err(|error| {
                let source = PackageSpec::of(package).package;
                let is_verified = image
                    .demands
                    .as_ref()
                    .is_some_and(|demands| self.manager.has_verified(demands, &source, revisions));
                // What is installed is verified, and where its tag leads is not known.
                if error.is_unreachable && is_verified {
                    return Unresolved::unavailable(image.explain(&error));
                }
                Unresolved::unanswered(image, &error)
            })?
        };
        // Before there is a revision: the installed one stays in use if its successor cannot be verified.
        let verified = self.manager.verify(image, &digest, revisions, slot).await;
        verified.map_err(|problem| Unresolved::unverified(&problem))?;
        Ok(digest)
    }

    /// Ask the registry. A built-in function reports meanwhile that it can be called.
    async fn ask(
        &self,
        kind: PackageKind,
        package: &Object,
        image: &PreparedImage,
    ) -> Result<String, super::SourceError> {
        let mut asking = self.manager.options.source.resolve(image.request.clone());
        // Where signatures are demanded, nothing takes the place of a package that is not verified.
        let native = self.native(kind, package).filter(|_| image.demands.is_none());
        let Some(native) = native else { return asking.await };
        if let Ok(answer) = tokio::time::timeout(PATIENCE, &mut asking).await {
            return answer;
        }
        if !status::holds(package, "Healthy") {
            let conditions = FunctionStanding::BuiltIn(native).conditions();
            // If this write fails, the status is written when the registry has answered.
            let _ = self.say(kind, package, conditions, Fields::new()).await;
        }
        asking.await
    }

    /// The built-in function that runs instead of a Function.
    fn native(&self, kind: PackageKind, package: &Object) -> Option<Replacement> {
        let image = PackageSpec::of(package).package;
        (kind == PackageKind::Function)
            .then(|| self.manager.registry.native_runtime(package, &image).ok())
            .flatten()
    }

    /// The built-in function that runs for a Function now. None if its installed package is refused.
    fn running_native(&self, kind: PackageKind, package: &Object) -> Option<Replacement> {
        if kind != PackageKind::Function {
            return None;
        }
        let revisions = self.manager.caches.of(kind).revisions_of(meta::name(package));
        match self.manager.registry.standing(package, &revisions) {
            FunctionStanding::BuiltIn(native) => Some(native),
            _ => None,
        }
    }

    /// Report that the image cannot be fetched.
    async fn give_up(&self, kind: PackageKind, package: &Object, why: &str, cause: Cause) -> Next {
        // Only an unavailable registry is stood in for: a package that a policy refuses does not run in any form.
        let native = self.running_native(kind, package).filter(|_| cause == Cause::PackageUnavailable);
        if let Some(native) = native {
            // It is built in, so that it can be called all the same.
            let mut conditions = FunctionStanding::BuiltIn(native).conditions();
            for condition in &mut conditions {
                condition.message =
                    format!("{}; the package itself is not installed: {why}", condition.message);
            }
            return self.say(kind, package, conditions, Fields::new()).await.err().unwrap_or(Next::Retry);
        }
        let why = &self.with_remedy(kind, package, why);
        let conditions = unpacking(why, cause);
        match self.say(kind, package, conditions.into(), Fields::new()).await {
            Ok(true) => self.recorder.failure(package, "UnpackPackage", why, cause),
            Ok(false) => {}
            Err(next) => return next,
        }
        Next::Retry
    }

    /// Why an image cannot be fetched, and the remedy if that is final.
    fn with_remedy(&self, kind: PackageKind, package: &Object, why: &str) -> String {
        let image = PackageSpec::of(package).package;
        let remedy = match kind {
            PackageKind::Function => self.manager.registry.native_runtime(package, &image).err(),
            PackageKind::Provider | PackageKind::Configuration => None,
        };
        remedy.map_or_else(|| why.to_owned(), |remedy| format!("{why}; {}", remedy.remedy()))
    }

    /// Write the planned revisions. The error is how to requeue if that fails.
    async fn carry_out(
        &self,
        kind: PackageKind,
        package: &Object,
        plan: &PackageRevisions,
    ) -> Result<(), Next> {
        let (context, cache) = (&self.manager.context, self.manager.caches.of(kind));
        if !plan.is_empty() {
            self.confirm(kind, package).await?;
        }
        // In this order: two active revisions would both control the objects of the package.
        for revision in plan.deactivate.iter().chain(&plan.update) {
            status::write(context, &cache.revisions, revision, Subresource::None).await?;
        }
        if let Some(revision) = &plan.create {
            self.create_revision(kind, package, revision).await?;
        }
        for name in &plan.delete {
            let path = ObjectPath { resource: cache.revisions.resource(), namespace: "", name };
            if let Err(error) = context.cluster.delete(path, None, Propagation::Background).await {
                self.recorder.failure(package, "GarbageCollect", chain(&error), cause_of(&error));
                return Err(Next::Retry);
            }
        }
        Ok(())
    }

    /// Make sure that the package did not change, as the API server has it: caches lag behind, and a revision of a former image would be
    /// activated. The error is how to requeue otherwise.
    async fn confirm(&self, kind: PackageKind, package: &Object) -> Result<(), Next> {
        let (context, cache) = (&self.manager.context, self.manager.caches.of(kind));
        match is_unchanged(&context.cluster, cache.packages.resource(), package).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Next::Conflict),
            Err(error) => {
                self.recorder.failure(package, "InstallPackageRevision", chain(&error), cause_of(&error));
                Err(Next::Retry)
            }
        }
    }

    /// Create a revision. The error is how to requeue if that fails.
    async fn create_revision(
        &self,
        kind: PackageKind,
        package: &Object,
        revision: &Object,
    ) -> Result<(), Next> {
        let (context, cache) = (&self.manager.context, self.manager.caches.of(kind));
        match context.cluster.create(cache.revisions.resource(), "", revision).await {
            Ok(bytes) => {
                cache.revisions.insert_written(&bytes);
                cache.remember(meta::name(package), meta::name(revision));
                Ok(())
            }
            // It was created before its watch event arrived.
            Err(error) if error.is_already_exists() => Err(Next::Conflict),
            Err(error) => {
                self.recorder.failure(package, "InstallPackageRevision", chain(&error), cause_of(&error));
                Err(Next::Retry)
            }
        }
    }

    /// Write the status of the package.
    async fn conclude(
        &self,
        kind: PackageKind,
        package: &Object,
        plan: &PackageRevisions,
        resolved: &Resolved,
    ) -> Next {
        let current = self.manager.caches.of(kind).revisions.object("", &plan.current);
        let health = self.health(kind, package, current.as_ref());
        let was_healthy = status::holds(package, "Healthy");
        let is_healthy = health.status == ferroplane_api::Status::True;
        let fields: Fields = vec![
            ("currentRevision", plan.current.clone().into()),
            ("currentIdentifier", PackageSpec::of(package).package.into()),
            ("resolvedPackage", resolved.image.request.image.clone().into()),
            ("appliedImageConfigRefs", or_null(resolved.image.applied_refs())),
        ];
        let conditions = vec![installed(plan.is_active), health];
        match self.say(kind, package, conditions, fields).await {
            Ok(true) if is_healthy && !was_healthy => {
                let message = format!("Package revision `{}` is installed and healthy", plan.current);
                self.recorder.normal(package, "InstallPackageRevision", message);
            }
            Ok(_) => {}
            Err(next) => return next,
        }
        resolved.ask_again.map_or(Next::Rest, Next::After)
    }

    /// Whether a package is healthy. A built-in one stays healthy while its revision is new.
    fn health(&self, kind: PackageKind, package: &Object, current: Option<&Object>) -> Condition {
        let is_new = current.is_none_or(|current| status::conditions_of(current).is_empty());
        let native = self.native(kind, package).filter(|_| is_new);
        let built_in = native.and_then(|native| FunctionStanding::BuiltIn(native).conditions().pop());
        built_in.unwrap_or_else(|| package_health(kind, current))
    }

    async fn pause(&self, kind: PackageKind, package: &Object) -> Next {
        match self.say(kind, package, vec![status::paused()], Fields::new()).await {
            Ok(true) => self.recorder.normal(package, RECONCILIATION_PAUSED, PAUSED_EVENT),
            Ok(false) => {}
            Err(next) => return next,
        }
        Next::Rest
    }

    /// Write a status if it changed. Returns whether it did; the error is how to requeue if that fails.
    async fn say(
        &self,
        kind: PackageKind,
        package: &Object,
        conditions: Vec<Condition>,
        fields: Fields,
    ) -> Result<bool, Next> {
        let context = &self.manager.context;
        // The newest object: it may have been written since this reconcile began. A change of the spec reconciles
        // it again.
        let packages = &self.manager.caches.of(kind).packages;
        let newest = packages.object("", meta::name(package));
        let is_same = |newest: &Object| meta::generation(newest) == meta::generation(package);
        let Some(newest) = newest.filter(is_same) else { return Ok(false) };
        let Some(changed) = with_status(context, &newest, conditions, fields) else {
            context.metrics.package(kind, &newest);
            return Ok(false);
        };
        let written = write_status(context, packages, &changed).await?;
        context.metrics.package(kind, &written);
        Ok(true)
    }
}

/// A list, if anything is in it.
fn or_null(list: Value) -> Value {
    if list == json!([]) { Value::Null } else { list }
}
