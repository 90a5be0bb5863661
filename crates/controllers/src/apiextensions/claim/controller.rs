//! The controller of one kind of claim, and the watches that enqueue claims.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::TypeRef;
use ferroplane_client::{CachedObject, Change, Informer, InformerScope, ObjectPath, Resource, cache_key};
use serde::Deserialize;
use tokio::task::JoinHandle;
use tracing::info;

use super::ClaimKind;
use super::propagated::PropagatedDetails;
use super::settle::ClaimProblem;
use crate::apiextensions::composite::Composites;
use crate::context::Context;
use crate::runtime::events::Recorder;
use crate::runtime::queue::Queue;

/// How many claims of a kind are reconciled at a time.
const CONCURRENCY: usize = 50;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The source of events.
const COMPONENT: &str = "offered/compositeresourcedefinition.apiextensions.crossplane.io";

/// The key of a claim: `namespace/name`.
pub(super) type Name = String;

pub(super) struct Controller {
    pub(super) kind: ClaimKind,
    /// The kind of the composite resources.
    pub(super) type_ref: TypeRef,
    pub(super) context: Arc<Context>,
    pub(super) recorder: Recorder,
    pub(super) claims: Arc<Informer>,
    pub(super) composites: Arc<Informer>,
    /// The names of composite resources that claims are binding now.
    binding: Mutex<HashSet<String>>,
    /// The connection details that were copied last.
    pub(super) propagated: PropagatedDetails,
    is_enforced: AtomicBool,
    queue: Queue<Name>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Controller {
    pub(super) fn start(kind: ClaimKind, context: Arc<Context>, controllers: Arc<Composites>) -> Arc<Self> {
        info!(definition = kind.definition, "started a claim controller");
        let name = format!("claim/{}", kind.definition);
        context.metrics.controller_started(&name);
        let follow = |resource: &Arc<Resource>| {
            let scope = InformerScope::new(resource.clone());
            Informer::start(context.cluster.clone(), scope)
        };
        let composite = &kind.composite;
        let queue = context.queue(LONGEST_PAUSE, &name);
        let controller = Arc::new(Self {
            type_ref: TypeRef { api_version: composite.api_version.clone(), kind: composite.kind.clone() },
            recorder: context.recorder.of(COMPONENT),
            claims: follow(&kind.resource),
            composites: follow(composite),
            binding: Mutex::default(),
            propagated: PropagatedDetails::new(&kind.definition, controllers, &queue),
            is_enforced: AtomicBool::new(kind.is_enforced),
            queue,
            worker: Mutex::default(),
            kind,
            context,
        });
        let queue = controller.queue.clone();
        controller.claims.listen(move |_, change| queue.add(change.header().key()));
        let queue = controller.queue.clone();
        controller.composites.listen(move |_, change| {
            let before = match change {
                Change::Applied { before, .. } => before,
                Change::Deleted { .. } => None,
            };
            // If it was bound to another claim, both claims are reconciled.
            for held in [Some(change.object()), before].into_iter().flatten() {
                if let Some(claim) = claim_of(held) {
                    queue.add(claim);
                }
            }
        });
        let worker = tokio::spawn(Self::work(controller.clone()));
        *controller.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker);
        controller
    }

    pub(super) fn stop(&self) {
        self.claims.stop();
        self.composites.stop();
        self.propagated.forget_all();
        if let Some(worker) = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            worker.abort();
        }
        self.context.metrics.controller_stopped(&format!("claim/{}", self.kind.definition));
        info!(definition = self.kind.definition, "stopped a claim controller");
    }

    /// Whether the controller is for just this kind.
    pub(super) fn is_of(&self, kind: &ClaimKind) -> bool {
        self.kind.resource == kind.resource && self.kind.composite == kind.composite
    }

    /// Set whether the definition enforces a composition.
    pub(super) fn enforce(&self, is_enforced: bool) {
        if self.is_enforced.swap(is_enforced, Ordering::Relaxed) == is_enforced {
            return;
        }
        for claim in self.claims.objects() {
            self.queue
                .add(cache_key(ferroplane_api::meta::namespace(&claim), ferroplane_api::meta::name(&claim)));
        }
    }

    pub(super) fn is_enforced(&self) -> bool {
        self.is_enforced.load(Ordering::Relaxed)
    }

    pub(super) fn path<'p>(&'p self, namespace: &'p str, name: &'p str) -> ObjectPath<'p> {
        ObjectPath { resource: &self.kind.resource, namespace, name }
    }

    pub(super) fn composite_path<'p>(&'p self, name: &'p str) -> ObjectPath<'p> {
        ObjectPath { resource: &self.kind.composite, namespace: "", name }
    }

    /// Reserve the name of a composite resource for one claim. Fails while another claim has it: two claims that find no composite
    /// resource of the name would both apply it, and the second would take it from the first.
    pub(super) fn reserve(&self, composite: &str) -> Result<Reservation<'_>, ClaimProblem> {
        let is_free =
            self.binding.lock().unwrap_or_else(PoisonError::into_inner).insert(composite.to_owned());
        if !is_free {
            return Err(ClaimProblem::outrun(composite));
        }
        Ok(Reservation { controller: self, composite: composite.to_owned() })
    }

    async fn work(self: Arc<Self>) {
        // A composite resource that was not read yet would look as if it had been deleted.
        self.claims.synced().await;
        self.composites.synced().await;
        let queue = self.queue.clone();
        let concurrency = self.context.tuning.concurrency(CONCURRENCY);
        queue.work(concurrency, |name| self.clone().reconcile(name)).await;
    }
}

/// The name of a composite resource that no other claim binds meanwhile.
pub(super) struct Reservation<'c> {
    controller: &'c Controller,
    composite: String,
}

impl Reservation<'_> {
    pub(super) fn composite(&self) -> &str {
        &self.composite
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let binding = &self.controller.binding;
        binding.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.composite);
    }
}

/// The claim of a composite resource, read without parsing the rest.
fn claim_of(composite: &CachedObject) -> Option<Name> {
    #[derive(Deserialize)]
    struct Composite {
        spec: Spec,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        claim_ref: Option<ObjectReference>,
    }
    #[derive(Deserialize)]
    struct ObjectReference {
        #[serde(default)]
        namespace: String,
        #[serde(default)]
        name: String,
    }
    let composite: Composite = serde_json::from_slice(&composite.bytes).ok()?;
    let ObjectReference { namespace, name } = composite.spec.claim_ref?;
    Some(cache_key(&namespace, &name))
}
