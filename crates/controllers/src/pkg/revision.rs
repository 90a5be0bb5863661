//! Revisions: each is fetched and validated, waits for its dependencies, and writes its objects.
//!
//! # Invariants
//! * The newest active revision of a package controls its objects; all others are owners without control.
//! * A revision leaves the `Lock` before it is deleted, and before it reports that it is inactive.
//! * What is done after a registry has answered is decided from the objects of that moment: a revision, policy or Secret that changed meanwhile is
//!   reconciled again, and the answer is dropped.
//! * The contents of a package are in memory only while they are written, and never for more packages than are reconciled at the same
//!   time. Of large ones, one at a time.

mod memory;
mod report;
mod runtime;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ferroplane_api::{Cause, ImageConfig, LockPackage, NameReference, Object, PackageKind, keys, meta};
use ferroplane_client::{Change, ObjectPath, Subresource};
use ferroplane_engine::packages::{
    Establishing, Party, RuntimeNames, WebhookAddress, converts_by_webhook, copied_labels,
    examine_dependencies, is_webhook_configuration, managed_definition, with_webhook_address,
};
use ferroplane_engine::{chain, defined_group, is_reserved_group};
use ferroplane_package::{PackageManifest, lint, validate};
use ferroplane_runner::PROTOCOL_ANNOTATION;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;

use super::caches::{PackageCache, PackageKey, PackageQueue};
use super::deployments::Program;
use super::establish::{EstablishError, establish_all, release_all};
use super::images::PreparedImage;
use super::lock::entry;
use super::status::{self, write};
use super::verification::VerificationProblem;
use super::{LoadedPackage, Manager};
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::finalizers;
use crate::runtime::owner::is_unchanged;
use crate::runtime::queue::{Next, Slot};
use crate::runtime::refused::cause_of;
use memory::{Establishment, Known, LOOK_AGAIN, Memory};
use report::{Report, Trouble};
use runtime::RuntimeStanding;

const COMPONENT: &str = "revisions/pkg.crossplane.io";
const CONCURRENCY: usize = 4;
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// Keeps a revision until it has left the lock.
const FINALIZER: &str = "revision.pkg.crossplane.io";
const ACTIVE: &str = "Active";
/// The version of Crossplane that packages require.
const CROSSPLANE: &str = "v2.4.0";

/// Manages revisions.
#[derive(Debug)]
pub(super) struct Revisions {
    pub(super) manager: Arc<Manager>,
    recorder: Recorder,
    pub(super) queue: PackageQueue,
    memory: Arc<Memory>,
}

/// A revision that is being reconciled, and its package.
struct Look {
    key: PackageKey,
    package: Object,
    revision: Object,
    siblings: Vec<Object>,
    spec: RevisionSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RevisionSpec {
    desired_state: String,
    image: String,
    revision: i64,
    package_pull_secrets: Vec<NameReference>,
    package_pull_policy: Option<String>,
    ignore_crossplane_constraints: Option<bool>,
    skip_dependency_resolution: Option<bool>,
    common_labels: BTreeMap<String, String>,
    common_annotations: BTreeMap<String, String>,
}

impl RevisionSpec {
    fn of(revision: &Object) -> Self {
        serde_json::from_value(revision.get("spec").cloned().unwrap_or_default()).unwrap_or_default()
    }
}

impl Look {
    fn kind(&self) -> PackageKind {
        self.key.0
    }

    fn is_active(&self) -> bool {
        self.spec.desired_state == ACTIVE
    }

    /// Whether no other active revision is newer.
    fn is_leading(&self) -> bool {
        let number =
            |revision: &Object| (RevisionSpec::of(revision).revision, meta::name(revision).to_owned());
        let own = number(&self.revision);
        let is_newer =
            |other: &Object| RevisionSpec::of(other).desired_state == ACTIVE && number(other) > own;
        !self.siblings.iter().any(is_newer)
    }

    /// What it takes to run the revision in pods.
    fn program<'a>(
        &'a self,
        siblings: &'a BTreeSet<String>,
        image: &'a str,
        image_configs: &'a [ImageConfig],
    ) -> Program<'a> {
        let party = Party { package: &self.package, revision: &self.revision, siblings };
        Program {
            kind: self.kind(),
            party,
            siblings: &self.siblings,
            image,
            pinned: image,
            may_keep_tag: false,
            image_configs,
            awaits_activation: false,
            adapted: None,
            names: RuntimeNames::default(),
        }
    }

    fn sibling_uids(&self) -> BTreeSet<String> {
        self.siblings.iter().map(|sibling| meta::uid(sibling).to_owned()).collect()
    }
}

impl Revisions {
    pub(super) fn new(manager: Arc<Manager>) -> Arc<Self> {
        let queue = manager.context.queue(LONGEST_PAUSE, COMPONENT);
        let recorder = manager.context.recorder.of(COMPONENT);
        Arc::new(Self { manager, recorder, queue, memory: Arc::default() })
    }

    /// Listen to other objects that affect revisions.
    pub(super) fn listen(&self) {
        let (memory, queue) = (self.memory.clone(), self.queue.clone());
        self.manager.locks.listen(move |_, _| {
            for key in memory.dependents() {
                queue.add(key);
            }
        });
        if let Some(deployments) = &self.manager.deployments {
            let names = self.manager.caches.names();
            deployments.listen(&self.queue, move || names().1);
        }
        if self.manager.deployments.is_some() || self.manager.accounts.is_some() {
            let queue = self.queue.clone();
            // A provider may wait for one of its kinds.
            self.manager.managed_definitions.listen(move |_, change| {
                for owner in change.header().metadata.owner_references.iter().flatten() {
                    if let Some(kind) = PackageKind::of_revision(&owner.kind) {
                        queue.add((kind, owner.name.to_string()));
                    }
                }
            });
        }
        if let Some(accounts) = &self.manager.accounts {
            accounts.listen(&self.queue);
        }
        self.follow_deletions();
    }

    /// Write objects of packages again when users delete them. Others than these kinds are missed within an hour.
    fn follow_deletions(&self) {
        let context = &self.manager.context;
        for informer in [
            &context.kinds,
            &context.definitions,
            &context.compositions,
            &self.manager.managed_definitions,
            &self.manager.activation_policies,
        ] {
            let (memory, queue) = (self.memory.clone(), self.queue.clone());
            informer.listen(move |_, change| {
                let Change::Deleted { header, .. } = change else { return };
                for owner in header.metadata.owner_references.iter().flatten() {
                    let Some(kind) = PackageKind::of_revision(&owner.kind) else { continue };
                    let key = (kind, owner.name.to_string());
                    memory.forget_objects(&key);
                    queue.add(key);
                }
            });
        }
    }

    pub(super) async fn run(self: &Arc<Self>) {
        self.queue.work_in_slots(CONCURRENCY, |key, slot| self.clone().reconcile(key, slot)).await;
    }

    /// Reconcile the revisions of Functions again whenever the state of a packaged function changes.
    pub(super) async fn follow_functions(&self) {
        let Some(functions) = &self.manager.options.functions else { return };
        self.follow(PackageKind::Function, functions.changes()).await;
    }

    /// The same for Providers.
    pub(super) async fn follow_providers(&self) {
        let Some(providers) = &self.manager.options.providers else { return };
        self.follow(PackageKind::Provider, providers.changes()).await;
    }

    async fn follow(&self, kind: PackageKind, mut changes: watch::Receiver<u64>) {
        while changes.changed().await.is_ok() {
            for name in self.cache(kind).revisions.names() {
                self.queue.add((kind, name));
            }
        }
    }

    /// Stop a revision on this machine.
    fn release(&self, key: &PackageKey) {
        let options = &self.manager.options;
        match key.0 {
            PackageKind::Function => options.functions.iter().for_each(|it| it.release(&key.1)),
            PackageKind::Provider => options.providers.iter().for_each(|it| it.release(&key.1)),
            PackageKind::Configuration => {}
        }
    }

    fn cache(&self, kind: PackageKind) -> &Arc<PackageCache> {
        self.manager.caches.of(kind)
    }

    async fn reconcile(self: Arc<Self>, key: PackageKey, slot: Slot) -> Next {
        let Some(revision) = self.cache(key.0).revisions.object("", &key.1) else {
            self.memory.forget(&key);
            self.release(&key);
            return Next::Rest;
        };
        cause_of_writes(&revision).scope(self.sync(key, revision.clone(), &slot)).await
    }

    async fn sync(&self, key: PackageKey, revision: Object, slot: &Slot) -> Next {
        if meta::is_being_deleted(&revision) {
            return self.let_go(&key, &revision).await;
        }
        if status::is_paused(&revision) {
            return self.pause(key.0, &revision).await;
        }
        let name = meta::label(&revision, keys::PACKAGE).to_owned();
        // Without a package it is deleted soon, or a user created it by hand.
        let Some(package) = self.cache(key.0).packages.object("", &name) else { return Next::Rest };
        if meta::is_being_deleted(&package) || meta::controller_uid(&revision) != Some(meta::uid(&package)) {
            return Next::Rest;
        }
        let siblings = self.siblings(&key, &name);
        let spec = RevisionSpec::of(&revision);
        let mut look = Look { key, package, revision, siblings, spec };
        if let Err(next) = self.add_finalizer(&mut look).await {
            return next;
        }
        let mut report = Report::default();
        let outcome = if look.is_active() {
            self.install(&mut look, &mut report, slot).await
        } else {
            self.stand_by(&mut look, &mut report, slot).await
        };
        let runtime = match &outcome {
            Ok(()) if look.is_active() => self.runtime(&look, &mut report).await,
            Err(trouble) if trouble.stops() && look.is_active() => self.stopped_runtime(&look),
            _ => RuntimeStanding::default(),
        };
        let is_installed = outcome.is_ok() && look.is_active();
        match self.conclude(&look, report, outcome, runtime).await {
            Next::Rest if is_installed => Next::After(LOOK_AGAIN),
            next => next,
        }
    }

    /// Install an active revision. Each line must hold before the next may happen.
    async fn install(&self, look: &mut Look, report: &mut Report, slot: &Slot) -> Result<(), Trouble> {
        let (image, known) = self.contents_of(look, report, slot).await?;
        report.runs = Some(image.pinned(&known.digest));
        report.is_verified = image.demands.is_some();
        report.program = known.program.clone();
        report.protocol = known.manifest.annotations.get(PROTOCOL_ANNOTATION).cloned();
        self.adopt_metadata(look, &known.manifest).await?;
        if look.spec.ignore_crossplane_constraints != Some(true) {
            known.manifest.check_crossplane(CROSSPLANE).map_err(|error| Trouble::invalid(&error))?;
        }
        self.depend(look, &known.manifest, report).await?;
        self.establish(look, &image, &known, report, slot).await
    }

    /// An inactive revision controls nothing, and is validated once.
    async fn stand_by(&self, look: &mut Look, report: &mut Report, slot: &Slot) -> Result<(), Trouble> {
        self.release(&look.key);
        // It is no longer listed, so that its program can end as soon as nothing calls it.
        drop(self.manager.registry.current());
        self.end_pods(look).await?;
        self.leave(&look.key.1).await?;
        let references = object_refs(&look.revision);
        let siblings = look.sibling_uids();
        let party = Party { package: &look.package, revision: &look.revision, siblings: &siblings };
        // The kinds of a Function have no controller: there is nothing to release.
        if look.kind() != PackageKind::Function {
            release_all(&self.manager.context.cluster, &references, party)
                .await
                .map_err(|error| Trouble::establishing(&error))?;
        }
        self.memory.forget_objects(&look.key);
        if references.is_empty() && !status::holds(&look.revision, "RevisionHealthy") {
            self.contents_of(look, report, slot).await?;
        }
        Ok(())
    }

    /// The contents of the package. The image is fetched and validated, unless it was.
    async fn contents_of(
        &self,
        look: &mut Look,
        report: &mut Report,
        slot: &Slot,
    ) -> Result<(PreparedImage, Known), Trouble> {
        let prepared = self.prepare(look).await?;
        report.image(&prepared);
        let known = if let Some(known) = self.recall(look, &prepared) {
            known
        } else {
            let examined = self.examine(look, &prepared, slot).await;
            // The registry may have taken long: everything that decides is read again.
            self.look_again(look)?;
            // A policy that was replaced meanwhile must not decide, nor a Secret.
            if self.prepare(look).await? != prepared {
                return Err(Trouble::again(Next::Conflict));
            }
            examined.inspect_err(|trouble| self.stop_unverified(look, trouble))?
        };
        report.manifest(&known.manifest);
        report.verified(&prepared, &known.digest);
        Ok((prepared, known))
    }

    async fn prepare(&self, look: &Look) -> Result<PreparedImage, Trouble> {
        let RevisionSpec { image, package_pull_secrets, package_pull_policy, .. } = &look.spec;
        let (policy, revisions) = (package_pull_policy.as_deref(), std::slice::from_ref(&look.revision));
        let prepared = self.manager.prepare_image(image, package_pull_secrets, policy, revisions).await;
        prepared
            .map_err(|problem| Trouble::preparing(&problem))
            .inspect_err(|trouble| self.stop_unverified(look, trouble))
    }

    /// The contents of the package, if they are known without its registry, and verified.
    fn recall(&self, look: &Look, image: &PreparedImage) -> Option<Known> {
        let (uid, name) = (meta::uid(&look.revision), &image.request.image);
        let known = self.memory.get(&look.key, uid, name, noted_digest(look, image))?;
        self.manager.is_verified(image, &known.digest).then_some(known)
    }

    /// Fetch, verify and validate the image.
    async fn examine(&self, look: &Look, image: &PreparedImage, slot: &Slot) -> Result<Known, Trouble> {
        let digest = self.digest_of(look, image, slot).await?;
        let revisions = std::slice::from_ref(&look.revision);
        let verified = self.manager.verify(image, &digest, revisions, slot).await;
        verified.map_err(|problem| Trouble::unverified(problem.to_string()))?;
        let (uid, name) = (meta::uid(&look.revision), image.request.image.clone());
        if let Some(known) = self.memory.get(&look.key, uid, &name, Some(&digest)) {
            // The same content under another name: an `ImageConfig` may rewrite it now.
            let known = Known { image: name, ..known };
            self.memory.set(&look.key, uid, known.clone());
            return Ok(known);
        }
        let contents = self.fetch(image, &digest, slot).await?;
        let manifest = validate(look.kind(), &contents).map_err(|error| Trouble::invalid(&error))?;
        for lint in lint(look.kind(), &contents).1 {
            self.recorder.warning(&look.revision, "LintPackage", lint.to_string());
        }
        let asking = self.manager.options.source.program(image.pinned(&digest));
        let program = asking.await.map_err(|error| Trouble::source(image, &error))?;
        let manifest = Arc::new(manifest);
        let known = Known { image: name, digest, manifest, program, established: None };
        self.memory.set(&look.key, uid, known.clone());
        Ok(known)
    }

    /// An image without the required signatures does not run, even if it did until now.
    fn stop_unverified(&self, look: &Look, trouble: &Trouble) {
        if trouble.stops() {
            self.release(&look.key);
        }
    }

    /// Read the revision, its package and its siblings again. Fails if the revision is another one by now, or is to be left alone.
    fn look_again(&self, look: &mut Look) -> Result<(), Trouble> {
        let cache = self.cache(look.kind());
        let is_same = |newest: &Object, known: &Object| {
            meta::uid(newest) == meta::uid(known) && !meta::is_being_deleted(newest)
        };
        let is_revision = |newest: &Object| {
            is_same(newest, &look.revision)
                && meta::generation(newest) == meta::generation(&look.revision)
                && !status::is_paused(newest)
        };
        let revision = cache.revisions.object("", &look.key.1).filter(is_revision);
        let package = cache.packages.object("", meta::name(&look.package));
        let both = revision.zip(package.filter(|newest| is_same(newest, &look.package)));
        let (revision, package) = both.ok_or_else(|| Trouble::again(Next::Conflict))?;
        look.siblings = self.siblings(&look.key, meta::name(&package));
        (look.revision, look.package) = (revision, package);
        Ok(())
    }

    /// The other revisions of a package.
    fn siblings(&self, key: &PackageKey, package: &str) -> Vec<Object> {
        let mut siblings = self.cache(key.0).revisions_of(package);
        siblings.retain(|sibling| meta::name(sibling) != key.1);
        siblings
    }

    /// The digest of the image. A revision that Crossplane made does not have it.
    async fn digest_of(&self, look: &Look, image: &PreparedImage, slot: &Slot) -> Result<String, Trouble> {
        if let Some(digest) = noted_digest(look, image) {
            return Ok(digest.to_owned());
        }
        let asking = self.manager.options.source.resolve(image.request.clone());
        slot.wait_for(asking).await.map_err(|error| {
            // Its signatures cannot be verified without its digest, if that is demanded.
            let unverified = VerificationProblem::of_demanded(image, &error);
            unverified.map_or_else(
                || Trouble::source(image, &error),
                |problem| Trouble::unverified(problem.to_string()),
            )
        })
    }

    async fn fetch(
        &self,
        image: &PreparedImage,
        digest: &str,
        slot: &Slot,
    ) -> Result<LoadedPackage, Trouble> {
        let (source, request) = (&self.manager.options.source, image.pinned(digest));
        let fetched = slot.wait_for(source.fetch(request.clone())).await;
        fetched.map_err(|error| Trouble::source(image, &error))?;
        let turn = slot.wait_for(source.turn(request.clone())).await;
        let turn = turn.map_err(|error| Trouble::source(image, &error))?;
        // With a slot: contents that are read are in memory.
        source.read(request, turn).await.map_err(|error| Trouble::source(image, &error))
    }

    /// Copy the labels and annotations of the package to its revision.
    async fn adopt_metadata(&self, look: &mut Look, manifest: &PackageManifest) -> Result<(), Trouble> {
        let mut revision = look.revision.clone();
        // Annotations of a Function override those of its package.
        let copied = copied_labels(&revision);
        let is_free = |key: &str| key != keys::PACKAGE && !copied.contains(key);
        for (key, value) in manifest.labels.iter().filter(|(key, _)| is_free(key)) {
            meta::set_label(&mut revision, key, value);
        }
        // A package must not set annotations that only users may set.
        let is_reserved = |key: &str| key == keys::PAUSED || key.starts_with("ferroplane.io/");
        for (key, value) in manifest.annotations.iter().filter(|(key, _)| !is_reserved(key)) {
            meta::set_annotation(&mut revision, key, value);
        }
        if revision != look.revision {
            let revisions = &self.cache(look.kind()).revisions;
            let written = write(&self.manager.context, revisions, &revision, Subresource::None).await;
            look.revision = written.map_err(Trouble::again)?;
        }
        Ok(())
    }

    /// Add the revision to the lock with its dependencies, and check that they are met.
    async fn depend(
        &self,
        look: &Look,
        manifest: &PackageManifest,
        report: &mut Report,
    ) -> Result<(), Trouble> {
        if look.spec.skip_dependency_resolution == Some(true) || !look.is_leading() {
            return self.leave(&look.key.1).await;
        }
        let own = LockPackage {
            dependencies: manifest.dependencies.clone(),
            ..entry(look.kind(), &look.revision, &look.spec.image)
        };
        let packages = self.manager.join(&own).await.map_err(|error| Trouble::writing("Lock", &error))?;
        let standing = examine_dependencies(&packages, &own);
        let problem = standing.problem.clone();
        report.dependencies = Some(standing);
        match problem {
            None => Ok(()),
            // The lock changes before this does.
            Some(problem) => Err(Trouble {
                reason: "ResolveDependencies",
                message: format!("cannot resolve package dependencies: {problem}"),
                cause: Cause::PackageDependenciesUnmet,
                next: Next::Rest,
                is_unreachable: false,
            }),
        }
    }

    async fn leave(&self, revision: &str) -> Result<(), Trouble> {
        self.manager.leave(revision).await.map_err(|error| Trouble::writing("Lock", &error))
    }

    /// Write the objects of the package.
    async fn establish(
        &self,
        look: &mut Look,
        image: &PreparedImage,
        known: &Known,
        report: &mut Report,
        slot: &Slot,
    ) -> Result<(), Trouble> {
        let (generation, control) = (meta::generation(&look.revision), look.is_leading());
        let wanted = Establishment { generation, control, service: self.service_of(look, image) };
        if known.is_established(&wanted) {
            return Ok(());
        }
        // Before anything is written: what is deleted meanwhile may have been written before.
        let deletions = self.memory.deletions(&look.key);
        let contents = self.read_again(look, image, &known.digest, slot).await?;
        // Another revision may lead by now.
        if look.is_leading() != control {
            return Err(Trouble::again(Next::Conflict));
        }
        let (objects, _) = lint(look.kind(), &contents);
        refuse_reserved(&objects)?;
        let managed = self.managed_definitions(look, &objects, &known.manifest.capabilities);
        let objects: Vec<&Object> = managed.iter().map(|object| &**object).collect();
        let pointed = if self.manager.runs_in_pods(look.kind()) {
            self.with_webhooks(look, image, &objects).await?
        } else {
            self.without_webhooks(look, objects)?.into_iter().map(Cow::Borrowed).collect()
        };
        let objects: Vec<&Object> = pointed.iter().map(|object| &**object).collect();
        self.confirm(look).await?;
        let siblings = look.sibling_uids();
        let how = Establishing {
            party: Party { package: &look.package, revision: &look.revision, siblings: &siblings },
            control,
            common_labels: &look.spec.common_labels,
            common_annotations: &look.spec.common_annotations,
        };
        let cluster = &self.manager.context.cluster;
        let concurrency = self.manager.options.establishers.max(1);
        let references = establish_all(cluster, look.kind(), &objects, &how, concurrency).await;
        report.references = Some(references.map_err(|error| Trouble::establishing(&error))?);
        self.memory.set_established(&look.key, meta::uid(&look.revision), known, wanted, deletions);
        Ok(())
    }

    /// The contents of a package that was fetched. They may have to wait for those of others, so that the revision is read again.
    async fn read_again(
        &self,
        look: &mut Look,
        image: &PreparedImage,
        digest: &str,
        slot: &Slot,
    ) -> Result<LoadedPackage, Trouble> {
        let (source, request) = (&self.manager.options.source, image.pinned(digest));
        let read = async {
            let turn = slot.wait_for(source.turn(request.clone())).await?;
            // With a slot: contents that are read are in memory.
            source.read(request, turn).await
        };
        let contents = read.await.map_err(|error| {
            // It was there just now, and is fetched again.
            self.memory.forget(&look.key);
            Trouble::source(image, &error)
        })?;
        self.look_again(look)?;
        Ok(contents)
    }

    /// The Service of the pods that run the revision, if pods do and it is known how.
    fn service_of(&self, look: &Look, image: &PreparedImage) -> Option<Object> {
        let deployments = self.manager.deployments.as_ref().filter(|it| it.runs(look.kind()))?;
        let (siblings, image_configs) = (look.sibling_uids(), self.image_configs());
        let program = look.program(&siblings, &image.request.image, &image_configs);
        // If it is not known, the program reports that.
        deployments.service_of(&program).ok()
    }

    /// Make sure that the revision did not change, as the API server has it: caches lag behind, and one that is no longer active must not take
    /// control of anything.
    async fn confirm(&self, look: &Look) -> Result<(), Trouble> {
        let resource = self.cache(look.kind()).revisions.resource();
        match is_unchanged(&self.manager.context.cluster, resource, &look.revision).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Trouble::again(Next::Conflict)),
            Err(source) => {
                let (kind, name) = (resource.kind.clone(), look.key.1.clone());
                Err(Trouble::establishing(&EstablishError::Read { kind, name, source }))
            }
        }
    }

    /// The objects, with managed resource definitions in the place of definitions of managed resources.
    fn managed_definitions<'a>(
        &self,
        look: &Look,
        objects: &[&'a Object],
        capabilities: &[String],
    ) -> Vec<Cow<'a, Object>> {
        let converts = self.manager.options.converts_definitions && look.kind() == PackageKind::Provider;
        let converted = |object: &&'a Object| match managed_definition(object, capabilities) {
            Some(definition) if converts => Cow::Owned(definition),
            _ => Cow::Borrowed(*object),
        };
        objects.iter().map(converted).collect()
    }

    /// The objects, with the address of the webhooks that the program of the package serves.
    async fn with_webhooks<'a>(
        &self,
        look: &Look,
        image: &PreparedImage,
        objects: &[&'a Object],
    ) -> Result<Vec<Cow<'a, Object>>, Trouble> {
        let names_webhooks =
            |object: &&Object| is_webhook_configuration(object) || converts_by_webhook(object);
        let deployments = self.manager.deployments.as_ref().filter(|_| objects.iter().any(names_webhooks));
        let Some(deployments) = deployments else {
            return Ok(objects.iter().map(|object| Cow::Borrowed(*object)).collect());
        };
        let (siblings, image_configs) = (look.sibling_uids(), self.image_configs());
        let program = look.program(&siblings, &image.request.image, &image_configs);
        let service = deployments.service_of(&program).map_err(|problem| Trouble::running(&problem))?;
        let authority = deployments.authority().await.map_err(|problem| Trouble::running(&problem))?;
        let authority = BASE64_STANDARD.encode(authority.certificate());
        let package = meta::name(&look.package);
        let address = WebhookAddress { kind: look.kind(), package, service: &service, authority: &authority };
        let pointed = |object: &&'a Object| match with_webhook_address(object, &address) {
            Some(object) => Cow::Owned(object),
            None => Cow::Borrowed(*object),
        };
        Ok(objects.iter().map(pointed).collect())
    }

    /// The objects without those that only work if the program of the package serves webhooks.
    fn without_webhooks<'a>(
        &self,
        look: &Look,
        objects: Vec<&'a Object>,
    ) -> Result<Vec<&'a Object>, Trouble> {
        let (webhooks, objects): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|object| is_webhook_configuration(object));
        for webhook in webhooks {
            let (kind, name) = (meta::kind(webhook), meta::name(webhook));
            let message = format!(
                "{kind} `{name}` is left out: this control plane does not serve the webhooks of packages"
            );
            self.recorder.failure(&look.revision, "LintPackage", message, Cause::PackageWebhooksNotServed);
        }
        match objects.iter().find(|object| converts_by_webhook(object)) {
            None => Ok(objects),
            Some(object) => {
                let why = "a webhook of the package converts its versions, and this control plane does not serve webhooks of packages";
                Err(refused(object, why))
            }
        }
    }

    async fn add_finalizer(&self, look: &mut Look) -> Result<(), Next> {
        let revisions = &self.cache(look.kind()).revisions;
        let path = ObjectPath { resource: revisions.resource(), namespace: "", name: &look.key.1 };
        let added = finalizers::add(&self.manager.context.cluster, path, &look.revision, FINALIZER).await;
        match added {
            Ok(None) => Ok(()),
            Ok(Some(bytes)) => {
                revisions.insert_written(&bytes);
                look.revision = serde_json::from_slice(&bytes).map_err(|_| Next::Retry)?;
                Ok(())
            }
            Err(error) if error.is_conflict() => Err(Next::Conflict),
            Err(error) if error.is_not_found() => Err(Next::Rest),
            Err(error) => {
                self.recorder.failure(&look.revision, "AddFinalizer", chain(&error), cause_of(&error));
                Err(Next::Retry)
            }
        }
    }

    /// A revision that is being deleted leaves the lock, and loses its finalizer.
    async fn let_go(&self, key: &PackageKey, revision: &Object) -> Next {
        self.memory.forget(key);
        self.release(key);
        let revisions = &self.cache(key.0).revisions;
        let path = ObjectPath { resource: revisions.resource(), namespace: "", name: &key.1 };
        let gone = match self.manager.leave(&key.1).await {
            Ok(()) => {
                finalizers::remove(&self.manager.context.cluster, path, revision, FINALIZER).await.map(drop)
            }
            Err(error) => Err(error),
        };
        match gone {
            Ok(()) => Next::Rest,
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(error) => {
                self.recorder.failure(revision, "RemoveFinalizer", chain(&error), cause_of(&error));
                Next::Retry
            }
        }
    }
}

/// Why packages may not define a kind in a reserved group.
pub(super) const RESERVED: &str = "its group belongs to Kubernetes or to the control plane";

/// Refuse objects that define a kind of ours.
fn refuse_reserved(objects: &[&Object]) -> Result<(), Trouble> {
    match objects.iter().find(|object| is_reserved(object)) {
        None => Ok(()),
        Some(object) => Err(refused(object, RESERVED)),
    }
}

fn refused(object: &Object, why: &str) -> Trouble {
    Trouble::unacceptable(format!("cannot write {} `{}`: {why}", meta::kind(object), meta::name(object)))
}

/// Whether an object defines a kind in a reserved group: it could change what all users rely on.
pub(super) fn is_reserved(object: &Object) -> bool {
    meta::kind(object).ends_with("ResourceDefinition") && is_reserved_group(defined_group(object))
}

/// The digest of the image of a revision, if no registry has to be asked for it.
fn noted_digest<'a>(look: &'a Look, image: &'a PreparedImage) -> Option<&'a str> {
    let noted = meta::annotation(&look.revision, keys::PACKAGE_DIGEST);
    Some(noted).filter(|noted| !noted.is_empty()).or_else(|| image.digest())
}

/// The objects in the status of a revision.
fn object_refs(revision: &Object) -> Vec<Value> {
    let references = revision.get("status").and_then(|status| status.get("objectRefs")?.as_array());
    references.cloned().unwrap_or_default()
}
