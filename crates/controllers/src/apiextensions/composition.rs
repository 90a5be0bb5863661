//! Compositions: every content is kept as a revision.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_client::{Change, Error, ObjectPath, Subresource};
use ferroplane_engine::{chain, plan_revisions};

use crate::context::Context;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::owner::is_still_there;
use crate::runtime::queue::{Next, Queue};
use crate::runtime::refused::cause_of;

const COMPONENT: &str = "revisions/composition.apiextensions.crossplane.io";
const CONCURRENCY: usize = 16;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Maintain the revisions of all compositions, until dropped.
pub(crate) async fn run(context: Arc<Context>) {
    let controller = Arc::new(Controller {
        recorder: context.recorder.of(COMPONENT),
        context,
        revisions: Mutex::default(),
    });
    let queue = controller.context.queue(LONGEST_PAUSE, COMPONENT);
    controller.listen(&queue);
    queue.work(CONCURRENCY, |name| controller.clone().reconcile(name)).await;
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    /// The names of revisions, by the composition in their label when they were last seen.
    revisions: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl Controller {
    fn listen(self: &Arc<Self>, queue: &Queue<String>) {
        // Revisions before compositions: a composition that is reconciled before its revisions are cached would get
        // one that exists.
        let (controller, compositions) = (Arc::downgrade(self), queue.clone());
        self.context.revisions.listen(move |_, change| {
            let Some(controller) = controller.upgrade() else { return };
            for composition in controller.note(change) {
                compositions.add(composition);
            }
        });
        let queue = queue.clone();
        self.context
            .compositions
            .listen(move |_, change| queue.add(change.header().metadata.name.to_string()));
    }

    /// Record the composition of a revision. Returns the compositions to reconcile.
    fn note(&self, change: Change<'_>) -> Vec<String> {
        let header = change.header();
        let name = header.metadata.name.as_ref();
        let composition = header.label(keys::COMPOSITION_NAME).map(str::to_owned);
        if let Some(composition) = &composition {
            match change {
                Change::Applied { .. } => self.remember(composition, name),
                Change::Deleted { .. } => self.forget(composition, name),
            }
        }
        let owner = header.controller().filter(|owner| owner.kind == "Composition");
        composition.into_iter().chain(owner.map(|owner| owner.name.to_string())).collect()
    }

    fn remember(&self, composition: &str, revision: &str) {
        let mut revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        revisions.entry(composition.to_owned()).or_default().insert(revision.to_owned());
    }

    fn forget(&self, composition: &str, revision: &str) {
        let mut revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = revisions.get_mut(composition) else { return };
        known.remove(revision);
        if known.is_empty() {
            revisions.remove(composition);
        }
    }

    /// All revisions with the label of this composition.
    fn revisions_of(&self, composition: &str) -> Vec<Object> {
        let revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<_> = revisions.get(composition).into_iter().flatten().cloned().collect();
        drop(revisions);
        let objects = names.iter().filter_map(|name| self.context.revisions.object("", name));
        // By the label again: it may have changed since the name was recorded.
        objects.filter(|revision| meta::label(revision, keys::COMPOSITION_NAME) == composition).collect()
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(composition) = self.context.compositions.object("", &name) else { return Next::Rest };
        if meta::is_being_deleted(&composition) {
            return Next::Rest;
        }
        cause_of_writes(&composition).scope(self.revise(&name, &composition)).await
    }

    /// Create and update the revisions of a Composition.
    async fn revise(&self, name: &str, composition: &Object) -> Next {
        let plan = match plan_revisions(composition, &self.revisions_of(name)) {
            Ok(plan) => plan,
            Err(foreign) => {
                // Only a change of the revision can help, and that is watched.
                self.recorder.failure(
                    composition,
                    "UpdateRevision",
                    foreign.to_string(),
                    Cause::ObjectControlled,
                );
                return Next::Rest;
            }
        };
        for revision in &plan.update {
            if let Err(error) = self.update(revision).await {
                return self.failed(composition, "UpdateRevision", &error);
            }
        }
        let Some(revision) = plan.create else { return Next::Rest };
        let compositions = self.context.compositions.resource();
        match is_still_there(&self.context.cluster, compositions, composition).await {
            Ok(true) => {}
            Ok(false) => return Next::Rest,
            Err(error) => return self.failed(composition, "CreateRevision", &error),
        }
        match self.create(&revision).await {
            Ok(()) => {
                let (name, number) = (meta::name(&revision), &revision["spec"]["revision"]);
                let message = format!("Created revision `{name}`, number {number}");
                self.recorder.normal(composition, "CreateRevision", message);
                Next::Rest
            }
            // It was created before its watch event arrived.
            Err(error) if error.is_already_exists() && !self.is_known(&revision) => Next::Conflict,
            Err(error) => self.failed(composition, "CreateRevision", &error),
        }
    }

    async fn update(&self, revision: &Object) -> Result<(), Error> {
        let resource = self.context.revisions.resource();
        let path = ObjectPath { resource, namespace: "", name: meta::name(revision) };
        let bytes = self.context.cluster.replace(path, Subresource::None, revision).await?;
        self.context.revisions.insert_written(&bytes);
        Ok(())
    }

    async fn create(&self, revision: &Object) -> Result<(), Error> {
        let resource = self.context.revisions.resource();
        let bytes = self.context.cluster.create(resource, "", revision).await?;
        self.context.revisions.insert_written(&bytes);
        // The informer calls no listeners for objects that it learns this way.
        let (composition, name) = (meta::label(revision, keys::COMPOSITION_NAME), meta::name(revision));
        self.remember(composition, name);
        Ok(())
    }

    fn is_known(&self, revision: &Object) -> bool {
        self.context.revisions.get("", meta::name(revision)).is_some()
    }

    fn failed(&self, composition: &Object, reason: &str, error: &Error) -> Next {
        if error.is_conflict() {
            return Next::Conflict;
        }
        self.recorder.failure(composition, reason, chain(error), cause_of(error));
        Next::Retry
    }
}
