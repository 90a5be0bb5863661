//! Applies manifests in files to the control plane, and again when they are saved.
//!
//! # Invariants
//! * A file that cannot be read stops no other file, and nothing that stood in it is taken for removed.
//! * Nothing is deleted that this process did not apply.
//! * Nothing is taken for removed while files change: editors save a file by emptying it or moving it away, and then writing it.

mod order;
mod refusal;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_client::{
    ApiClient, ApplyOptions, Error, InformerScope, ObjectHeader, ObjectPath, Propagation, Query, Resource,
};
use ferroplane_offline::manifest::{Files, Located, Manifest, ManifestSource};
use ferroplane_offline::validate::{composition_mistakes, is_composition};

use super::Wanted;
use super::follow::Followed;
use super::programs::Programs;
use crate::terminal::Terminal;
pub(crate) use order::rank;

/// Owns what is applied.
const MANAGER: &str = "ferroplane/up";
/// How long a kind may take to be served that something is waiting for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long files must not change before they are read: what is saved in several steps is one change.
const QUIET: Duration = Duration::from_millis(250);
/// How long to wait for that. A file that never stops to change must not keep others from being applied.
const LONGEST_UNREST: Duration = Duration::from_secs(5);
/// How long files must stay as they are before what is in none of them is taken for removed.
const STAYS_GONE: Duration = Duration::from_secs(3);

/// Files and directories whose objects are to be on the plane.
#[derive(Debug)]
pub(super) struct Manifests {
    client: ApiClient,
    paths: Vec<PathBuf>,
    is_pruning: bool,
    applied: BTreeMap<Identity, Applied>,
}

/// What makes an object this one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    group: String,
    kind: String,
    namespace: String,
    name: String,
}

/// An object that was applied as a file said.
#[derive(Debug)]
struct Applied {
    object: Object,
    resource: Arc<Resource>,
}

/// The result of applying manifests.
#[derive(Debug, Default)]
struct Tally {
    created: usize,
    changed: usize,
    unchanged: usize,
    failed: usize,
}

/// What became of one.
enum ApplyOutcome {
    Created,
    Changed,
    Unchanged,
    /// Its kind is not served, or not yet.
    NotServed,
}

/// What was applied and is named no longer. Objects go before the definitions of their kinds, and what is composed by a Composition
/// goes before that: the other way around, they would be deleted by a user who deletes a definition, and not as they say themselves.
fn gone(applied: &BTreeMap<Identity, Applied>, named: &BTreeSet<Identity>) -> Vec<Identity> {
    let mut gone: Vec<_> = applied.iter().filter(|(identity, _)| !named.contains(identity)).collect();
    gone.sort_by_key(|(_, applied)| Reverse(rank(&applied.object)));
    gone.into_iter().map(|(identity, _)| identity.clone()).collect()
}

impl Manifests {
    pub(super) fn new(client: ApiClient, wanted: &Wanted) -> Self {
        let (paths, is_pruning) = (wanted.paths.clone(), wanted.are_pruned);
        Self { client, paths, is_pruning, applied: BTreeMap::new() }
    }

    /// Apply everything, and again whenever a file is saved.
    pub(super) async fn keep(&mut self, programs: &mut Programs, terminal: &mut Terminal) -> Infallible {
        loop {
            let (files, named) = self.apply(programs, terminal).await;
            if let Some(named) = named
                && !gone(&self.applied, &named).is_empty()
                && tokio::time::timeout(STAYS_GONE, files.until_changed()).await.is_err()
            {
                self.part_with_others(&named, terminal).await;
            }
            terminal.note("waiting for a file to change; Ctrl-C ends");
            tokio::select! {
                () = files.until_changed() => {}
                never = programs.restart_on_change() => match never {},
            }
            self.until_quiet().await;
        }
    }

    /// Apply everything once. Returns the files that were read, and what is in them if all of them could be.
    pub(super) async fn apply(
        &mut self,
        programs: &mut Programs,
        terminal: &mut Terminal,
    ) -> (Files, Option<BTreeSet<Identity>>) {
        let mut files = Files::default();
        let (mut manifests, is_complete) = self.read(&mut files, terminal);
        self.warn_of_mistakes(&manifests, terminal).await;
        // Before anything calls them.
        programs.keep(&manifests, is_complete, terminal).await;
        manifests.sort_by_key(|manifest| rank(manifest.object()));
        let named: BTreeSet<_> = manifests.iter().map(|manifest| Identity::of(manifest.object())).collect();
        let mut tally = Tally::default();
        // A definition may have been deleted since the last time.
        self.client.forget_resources();
        let waiting = self.apply_all(manifests, &mut tally, terminal).await;
        if !waiting.is_empty() {
            self.apply_late(waiting, &mut tally, terminal).await;
        }
        terminal.note(&tally.to_string());
        (files, is_complete.then_some(named))
    }

    /// Wait until the files have not changed for a while.
    async fn until_quiet(&self) {
        let quiet = async {
            loop {
                let mut files = Files::default();
                for path in &self.paths {
                    // What cannot be found is reported when it is read.
                    let _ = files.find(path);
                }
                if tokio::time::timeout(QUIET, files.until_changed()).await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LONGEST_UNREST, quiet).await;
    }

    /// Say what `validate` finds in Compositions, by what the files define and what the plane serves already.
    async fn warn_of_mistakes(&self, manifests: &[Manifest], terminal: &mut Terminal) {
        if !manifests.iter().any(is_composition) {
            return;
        }
        // Those of composite resources come first: they say more than the definitions that are made of them.
        let mut served = self.list(&composite_definitions()).await;
        served.extend(self.list(&definitions()).await);
        for mistake in composition_mistakes(manifests, &served, &self.list(&functions()).await) {
            terminal.warn(&mistake.to_string());
        }
    }

    /// All objects of a kind. None if they cannot be read: the API server is reported when the manifests are applied.
    async fn list(&self, resource: &Resource) -> Vec<Object> {
        self.client.list_objects(resource, "", &Query::default()).await.unwrap_or_default()
    }

    /// The objects in all files, and whether every file could be read.
    fn read(&self, files: &mut Files, terminal: &mut Terminal) -> (Vec<Manifest>, bool) {
        let (mut manifests, mut is_complete) = (Vec::new(), true);
        let mut take = |result: anyhow::Result<Vec<Manifest>>| match result {
            Ok(some) => manifests.extend(some),
            Err(error) => {
                is_complete = false;
                terminal.error(&error);
            }
        };
        for path in &self.paths {
            match files.find(path) {
                Err(error) => take(Err(error.into())),
                Ok(sources) => sources.iter().for_each(|source| take(read_source(files, source))),
            }
        }
        (manifests, is_complete)
    }

    /// Apply these. Returns those whose kind is not served.
    async fn apply_all(
        &mut self,
        manifests: Vec<Manifest>,
        tally: &mut Tally,
        terminal: &mut Terminal,
    ) -> Vec<Manifest> {
        let mut waiting = Vec::new();
        for manifest in manifests {
            let name = Identity::of(manifest.object());
            match self.apply_one(&manifest, terminal).await {
                Ok(ApplyOutcome::NotServed) => waiting.push(manifest),
                Ok(ApplyOutcome::Unchanged) => tally.unchanged += 1,
                Ok(ApplyOutcome::Created) => {
                    tally.created += 1;
                    terminal.line(&format!("{name} created"));
                }
                Ok(ApplyOutcome::Changed) => {
                    tally.changed += 1;
                    terminal.line(&format!("{name} changed"));
                }
                Err(error) => {
                    tally.failed += 1;
                    for located in refusal::locate(&error, &manifest) {
                        terminal.error(&located.into());
                    }
                }
            }
        }
        waiting
    }

    /// Apply what waits for its kind whenever definitions change, for as long as that is worth it.
    async fn apply_late(&mut self, mut waiting: Vec<Manifest>, tally: &mut Tally, terminal: &mut Terminal) {
        let scope = InformerScope { metadata_only: true, ..InformerScope::new(definitions().into()) };
        let definitions = Followed::start(&self.client, scope);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !waiting.is_empty() {
            let Ok(()) = tokio::time::timeout_at(deadline, definitions.changed()).await else { break };
            waiting = self.apply_all(waiting, tally, terminal).await;
        }
        for manifest in waiting {
            tally.failed += 1;
            let (kind, version) = (meta::kind(manifest.object()), meta::api_version(manifest.object()));
            let words = format!("no kind `{kind}` is served in `{version}`: is its definition missing?");
            terminal.error(&manifest.error(&["kind"], words).into());
        }
    }

    async fn apply_one(
        &mut self,
        manifest: &Manifest,
        terminal: &mut Terminal,
    ) -> Result<ApplyOutcome, Error> {
        let object = manifest.object();
        let identity = Identity::of(object);
        let found = self.client.resource(meta::api_version(object), meta::kind(object)).await?;
        let Some(resource) = found else { return Ok(ApplyOutcome::NotServed) };
        let target = path_of(&resource, object);
        let before = self.client.get(target).await?;
        let (after, warnings) = match self.apply_as(target, object, false).await {
            // A user who edits a file wants its fields to win.
            Err(Error::Refused(status)) if status.is_conflict() => {
                for located in refusal::conflicts(&status, manifest) {
                    terminal.warn(&located.to_string());
                }
                self.apply_as(target, object, true).await?
            }
            applied => applied?,
        };
        self.applied.insert(identity, Applied { object: object.clone(), resource });
        let outcome = match before {
            None => ApplyOutcome::Created,
            Some(before) if version(&before) == version(&after) => return Ok(ApplyOutcome::Unchanged),
            Some(_) => ApplyOutcome::Changed,
        };
        // What is wrong with Compositions has been said already, with lines.
        for warning in warnings.into_iter().filter(|_| !is_composition(manifest)) {
            terminal.warn(&manifest.error(&["kind"], warning).to_string());
        }
        Ok(outcome)
    }

    async fn apply_as(
        &self,
        target: ObjectPath<'_>,
        object: &Object,
        is_forced: bool,
    ) -> Result<(Bytes, Vec<String>), Error> {
        let options = ApplyOptions { field_manager: MANAGER, is_forced, is_strict: true };
        self.client.apply_with_warnings(target, options, object).await
    }

    /// Delete what is in no file any more, or say that it stays.
    async fn part_with_others(&mut self, named: &BTreeSet<Identity>, terminal: &mut Terminal) {
        for identity in gone(&self.applied, named) {
            let Some(applied) = self.applied.remove(&identity) else { continue };
            if !self.is_pruning {
                terminal.warn(&format!(
                    "{identity} is no longer in any file and stays; `kubectl delete` removes it, or --prune next time"
                ));
                continue;
            }
            match self.prune(&applied).await {
                Ok(true) => terminal.line(&format!("{identity} deleted")),
                Ok(false) => {}
                Err(error) => terminal.warn(&format!("cannot delete {identity}: {error}")),
            }
        }
    }

    /// Delete an object if it is still one that was applied from a file.
    async fn prune(&self, applied: &Applied) -> Result<bool, Error> {
        let target = path_of(&applied.resource, &applied.object);
        let Some(present) = self.client.get_object(target).await? else { return Ok(false) };
        if !is_ours(&present) {
            return Ok(false);
        }
        self.client.delete(target, Some(meta::uid(&present)), Propagation::Background).await?;
        Ok(true)
    }
}

fn read_source(files: &mut Files, source: &ManifestSource) -> anyhow::Result<Vec<Manifest>> {
    let path = match source {
        ManifestSource::File(path) => path.clone(),
        ManifestSource::Stdin => PathBuf::from("-"),
    };
    let manifests = files.load(&path)?;
    for manifest in &manifests {
        manifest.require_identity("the object")?;
        manifest.require_sane_metadata()?;
    }
    Ok(manifests)
}

fn composite_definitions() -> Resource {
    Resource {
        // As the controllers read them, so that both see the same.
        api_version: "apiextensions.crossplane.io/v1".to_owned(),
        kind: "CompositeResourceDefinition".to_owned(),
        plural: "compositeresourcedefinitions".to_owned(),
        is_namespaced: false,
    }
}

fn functions() -> Resource {
    Resource {
        api_version: "pkg.crossplane.io/v1".to_owned(),
        kind: "Function".to_owned(),
        plural: "functions".to_owned(),
        is_namespaced: false,
    }
}

fn definitions() -> Resource {
    Resource {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        is_namespaced: false,
    }
}

/// Where an object is, or would be. A manifest need not name the default namespace.
fn path_of<'a>(resource: &'a Resource, object: &'a Object) -> ObjectPath<'a> {
    let namespace = match meta::namespace(object) {
        "" => "default",
        namespace => namespace,
    };
    ObjectPath { resource, namespace, name: meta::name(object) }
}

/// The resource version of what the server sent.
fn version(object: &[u8]) -> Option<String> {
    ObjectHeader::read(object).map(|header| header.metadata.resource_version.into_owned())
}

fn is_ours(object: &Object) -> bool {
    let managed = object.get("metadata").and_then(|metadata| metadata.get("managedFields")?.as_array());
    managed.into_iter().flatten().any(|entry| entry["manager"] == MANAGER)
}

impl Identity {
    fn of(object: &Object) -> Self {
        Self {
            group: meta::group(meta::api_version(object)).to_owned(),
            kind: meta::kind(object).to_owned(),
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
        }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, kind, namespace, name } = self;
        let kind = kind.to_lowercase();
        if group.is_empty() {
            write!(f, "{kind}/{name}")?;
        } else {
            write!(f, "{kind}.{group}/{name}")?;
        }
        if namespace.is_empty() { Ok(()) } else { write!(f, " in {namespace}") }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { created, changed, unchanged, failed } = self;
        write!(f, "applied: {created} created, {changed} changed, {unchanged} unchanged")?;
        if *failed == 0 { Ok(()) } else { write!(f, ", {failed} failed") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_deleted_before_the_definitions_of_their_kinds_whatever_they_are_called() {
        let kinds = [
            ("apiextensions.crossplane.io/v2", "CompositeResourceDefinition"),
            ("apiextensions.crossplane.io/v1", "Composition"),
            ("acme.example/v1", "App"),
            ("zebra.example/v1", "App"),
            ("v1", "Namespace"),
        ];
        let applied: BTreeMap<_, _> = kinds
            .iter()
            .map(|(api_version, kind)| {
                let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
                let object = object.as_object().cloned().unwrap();
                let resource = Arc::new(Resource {
                    api_version: (*api_version).to_owned(),
                    kind: (*kind).to_owned(),
                    plural: String::new(),
                    is_namespaced: false,
                });
                (Identity::of(&object), Applied { object, resource })
            })
            .collect();
        let gone = gone(&applied, &BTreeSet::new());
        let groups: Vec<_> = gone.iter().map(|identity| identity.group.as_str()).collect();
        assert_eq!(groups[..2], ["acme.example", "zebra.example"]);
        let kinds: Vec<_> = gone.iter().map(|identity| identity.kind.as_str()).collect();
        assert_eq!(kinds[2..], ["Composition", "CompositeResourceDefinition", "Namespace"]);
    }
}
