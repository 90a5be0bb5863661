//! The controller of one kind of composite resource.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Scope, TypeRef, keys, meta};
use ferroplane_client::{Informer, InformerScope};
use ferroplane_engine::{Defaults, Layout};
use ferroplane_recorder::SensitiveFields;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::memory::{Memory, Name};
use super::triggers::follow_composites;
use super::{CompositeKind, GroupKind, Shared};
use crate::metrics::Tally;
use crate::runtime::events::Recorder;
use crate::runtime::queue::Queue;

/// The default number of composite resources of a kind that are reconciled at a time.
const CONCURRENCY: usize = 100;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The source of events.
const COMPONENT: &str = "defined/compositeresourcedefinition.apiextensions.crossplane.io";

#[derive(Debug)]
pub(super) struct Controller {
    pub(super) kind: CompositeKind,
    pub(super) layout: Layout,
    pub(super) defaults: Defaults,
    pub(super) type_ref: TypeRef,
    pub(super) shared: Arc<Shared>,
    pub(super) informer: Arc<Informer>,
    pub(super) memory: Memory,
    pub(super) recorder: Recorder,
    pub(super) queue: Queue<Name>,
    /// Counts their conditions, for metrics.
    pub(super) tally: Arc<Tally>,
    /// Which of their fields plans and intercepts do not show.
    pub(super) sensitive: SensitiveFields,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Controller {
    pub(super) fn start(kind: CompositeKind, shared: Arc<Shared>) -> Arc<Self> {
        info!(definition = kind.definition, "started a composite controller");
        let (resource, metrics) = (kind.resource.clone(), shared.context.metrics.clone());
        let name = format!("composite/{}", kind.definition);
        metrics.controller_started(&name);
        let scope = InformerScope::new(resource);
        let (sensitive, unreadable) = SensitiveFields::of(&kind.object);
        if !unreadable.is_empty() {
            warn!(
                definition = kind.definition,
                ?unreadable,
                "cannot read paths in the annotation {}; expected paths such as spec.users[*].pin",
                keys::SENSITIVE_FIELDS
            );
        }
        let controller = Arc::new(Self {
            layout: if kind.scope == Scope::LegacyCluster { Layout::Legacy } else { Layout::Modern },
            defaults: Defaults::read(&kind.object),
            type_ref: TypeRef {
                api_version: kind.resource.api_version.clone(),
                kind: kind.resource.kind.clone(),
            },
            informer: Informer::start(shared.context.cluster.clone(), scope),
            memory: Memory::new(metrics.breaking(&name), shared.context.tuning.circuit_breaker),
            recorder: shared.context.recorder.of(COMPONENT),
            queue: shared.context.queue(LONGEST_PAUSE, &name),
            tally: metrics.tally(&kind.resource),
            sensitive,
            worker: Mutex::default(),
            kind,
            shared,
        });
        follow_composites(&controller);
        let worker = tokio::spawn(Self::work(controller.clone()));
        *controller.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker);
        controller
    }

    pub(super) fn stop(&self) {
        self.informer.stop();
        if let Some(worker) = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            worker.abort();
        }
        let metrics = &self.shared.context.metrics;
        metrics.end_tally(&self.kind.resource, &self.tally);
        metrics.controller_stopped(&format!("composite/{}", self.kind.definition));
        info!(definition = self.kind.definition, "stopped a composite controller");
    }

    /// Whether the controller of another kind would do the same.
    pub(super) fn is_of(&self, kind: &CompositeKind) -> bool {
        // Annotations do not increment the generation.
        let annotation =
            |kind: &CompositeKind| meta::annotation(&kind.object, keys::SENSITIVE_FIELDS).to_owned();
        self.kind.generation == kind.generation && annotation(&self.kind) == annotation(kind)
    }

    pub(super) fn generation(&self) -> i64 {
        self.kind.generation
    }

    pub(super) fn group_kind(&self) -> GroupKind {
        (self.kind.resource.group().to_owned(), self.kind.resource.kind.clone())
    }

    /// Whether a kind is that of their claims.
    pub(super) fn is_claimed_by(&self, (group, kind): &GroupKind) -> bool {
        let names = self.kind.object.get("spec").and_then(|spec| spec.get("claimNames"));
        let claim = names.and_then(|names| names.get("kind")?.as_str());
        claim == Some(kind.as_str()) && self.kind.resource.group() == group.as_str()
    }

    pub(super) fn is_namespaced(&self) -> bool {
        self.kind.scope == Scope::Namespaced
    }

    async fn work(self: Arc<Self>) {
        // Waits until all caches are complete: a reconcile before that would be repeated.
        self.informer.synced().await;
        let queue = self.queue.clone();
        let concurrency = self.shared.context.tuning.concurrency(CONCURRENCY);
        queue.work_in_slots(concurrency, |name, slot| self.clone().reconcile(name, slot)).await;
    }
}
