//! Composite resources: one controller for each kind, started and stopped with its definition.
//!
//! # Invariants
//! * Nothing is created before the reference to it is recorded; no reference is removed before its object is deleted.
//! * A composite resource whose inputs did not change costs no function call and no request.
//! * A composite resource does not slow down another.

mod apply;
mod circuit_breaker;
mod claim_secrets;
mod connection;
mod controller;
mod dependencies;
mod field_fights;
mod fingerprints;
mod intercept;
mod memory;
mod observe;
mod own_writes;
pub(crate) mod plan;
mod problem;
mod reconcile;
mod redact;
mod referenced_kind;
mod requeue;
mod required;
mod rights;
mod secrets;
mod select;
mod settle;
mod spans;
mod subjects;
mod trial;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use ferroplane_api::{Object, Scope};
use ferroplane_client::Resource;

use crate::apiextensions::composition_cache::CompositionCache;
use crate::apiextensions::grants::GrantCache;
use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::runtime::queue::Queue;
pub(crate) use claim_secrets::{ClaimName, ClaimSecrets, SecretName};
use controller::Controller;
use dependencies::Dependencies;
use fingerprints::LastReconcile;
use triggers::{follow_functions, follow_selections};

/// A kind of composite resource.
#[derive(Debug, Clone)]
pub(crate) struct CompositeKind {
    /// The name of its definition.
    pub(crate) definition: String,
    /// The generation of its definition.
    pub(crate) generation: i64,
    /// The version that compositions refer to.
    pub(crate) resource: Arc<Resource>,
    pub(crate) scope: Scope,
    /// The definition itself.
    pub(crate) object: Arc<Object>,
}

/// The controllers of all kinds of composite resources.
#[derive(Debug)]
pub(crate) struct Composites {
    shared: Arc<Shared>,
    running: RwLock<Running>,
}

/// The controllers that run.
#[derive(Debug, Default)]
struct Running {
    by_definition: BTreeMap<String, Arc<Controller>>,
    /// The same, by the kind of their composite resources.
    by_kind: BTreeMap<GroupKind, Arc<Controller>>,
    /// Increases when one is started or stopped.
    epoch: u64,
}

impl Running {
    fn insert(&mut self, controller: Arc<Controller>) {
        self.epoch += 1;
        self.by_kind.insert(controller.group_kind(), controller.clone());
        self.by_definition.insert(controller.kind.definition.clone(), controller);
    }

    fn remove(&mut self, definition: &str) -> Option<Arc<Controller>> {
        let old = self.by_definition.remove(definition)?;
        self.epoch += 1;
        self.by_kind.remove(&old.group_kind());
        Some(old)
    }
}

/// The group and the name of a kind.
type GroupKind = (String, String);

/// How much is held in memory because of composite resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Copies of composite and composed resources, and of all objects of kinds that functions required.
    pub objects: usize,
    /// For how many the last reconcile is remembered.
    pub remembered: usize,
    /// How many are queued, now or later.
    pub queued: usize,
    /// How many objects and selectors they depend on.
    pub interests: usize,
}

/// What the controllers of all kinds share.
#[derive(Debug)]
struct Shared {
    context: Arc<Context>,
    compositions: Arc<CompositionCache>,
    functions: Arc<FunctionRegistry>,
    grants: Arc<GrantCache>,
    dependencies: Dependencies,
}

impl Composites {
    pub(crate) fn new(context: Arc<Context>, functions: Arc<FunctionRegistry>) -> Arc<Self> {
        let composites = Arc::new_cyclic(|composites| {
            let compositions = CompositionCache::new(&context.compositions, &context.revisions);
            let dependencies =
                Dependencies::new(context.cluster.clone(), composites.clone(), context.tuning.poll_interval);
            let grants = GrantCache::new(&context.grants);
            let shared = Arc::new(Shared { context, compositions, functions, grants, dependencies });
            Self { shared, running: RwLock::default() }
        });
        follow_selections(&composites);
        follow_functions(&composites);
        composites
    }

    /// Start the controller of a kind, unless it runs. One that runs for another generation is started anew.
    pub(crate) fn start(&self, kind: CompositeKind) {
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if running.by_definition.get(&kind.definition).is_some_and(|known| known.is_of(&kind)) {
            return;
        }
        if let Some(old) = running.remove(&kind.definition) {
            self.end(&old);
        }
        // Under the lock, so that no reader finds two controllers of one kind, or none in between.
        running.insert(Controller::start(kind, self.shared.clone()));
    }

    fn end(&self, controller: &Controller) {
        controller.stop();
        // Reconciles of the old controller are abandoned.
        self.shared.dependencies.forget_kind(&controller.kind.definition);
    }

    /// Stop the controller of a kind, if it runs.
    pub(crate) fn stop(&self, definition: &str) {
        let stopped = self.running.write().unwrap_or_else(PoisonError::into_inner).remove(definition);
        if let Some(controller) = stopped {
            self.end(&controller);
        }
    }

    /// Stop all of them.
    pub(crate) fn stop_all(&self) {
        let running = std::mem::take(&mut *self.running.write().unwrap_or_else(PoisonError::into_inner));
        for controller in running.by_definition.into_values() {
            controller.stop();
        }
        self.shared.dependencies.stop();
    }

    /// Requeue a claim when its connection Secret changes. Returns the epoch of the Secret.
    pub(crate) fn follow_claim_secret(
        &self,
        secret: &SecretName,
        claim: ClaimName,
        queue: &Queue<String>,
    ) -> u64 {
        self.shared.dependencies.follow_claim_secret(secret, claim, queue)
    }

    /// The connection Secrets of claims.
    pub(crate) fn claim_secrets(&self) -> &ClaimSecrets {
        &self.shared.dependencies.claim_secrets
    }

    /// The generation of the definition for which the controller of a kind runs.
    pub(crate) fn generation(&self, definition: &str) -> Option<i64> {
        self.get(definition).map(|controller| controller.generation())
    }

    /// How much is held in memory because of composite resources.
    pub(crate) fn holdings(&self) -> Holdings {
        let (dependencies, interests) = self.shared.dependencies.len();
        let mut holdings = Holdings { objects: dependencies, interests, ..Holdings::default() };
        for controller in self.all() {
            holdings.objects += controller.informer.len();
            holdings.queued += controller.queue.len();
            holdings.remembered += controller.memory.len();
        }
        holdings
    }

    /// Increases when a controller is started or stopped.
    fn epoch(&self) -> u64 {
        self.running.read().unwrap_or_else(PoisonError::into_inner).epoch
    }

    fn get(&self, definition: &str) -> Option<Arc<Controller>> {
        self.running.read().unwrap_or_else(PoisonError::into_inner).by_definition.get(definition).cloned()
    }

    fn all(&self) -> Vec<Arc<Controller>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.by_definition.values().cloned().collect()
    }

    fn of_kind(&self, kind: &GroupKind) -> Option<Arc<Controller>> {
        self.running.read().unwrap_or_else(PoisonError::into_inner).by_kind.get(kind).cloned()
    }

    /// The controller of the composite resources that have the schema of a kind: those of the kind, or those that it claims.
    fn with_schema_of(&self, kind: &GroupKind) -> Option<Arc<Controller>> {
        self.of_kind(kind)
            .or_else(|| self.all().into_iter().find(|controller| controller.is_claimed_by(kind)))
    }

    /// Reconcile those in one of these namespaces, or all.
    fn wake_in(&self, namespaces: Option<&BTreeSet<String>>) {
        let is_there = |name: &str| {
            let namespace = name.split_once('/').map_or("", |(namespace, _)| namespace);
            namespaces.is_none_or(|namespaces| namespaces.contains(namespace))
        };
        for controller in self.all().into_iter().filter(|controller| controller.is_namespaced()) {
            for name in controller.memory.names_of(|_| true).into_iter().filter(|name| is_there(name)) {
                controller.queue.add(name);
            }
        }
    }

    /// Reconcile those whose last reconcile, if there was one, matches.
    fn wake(&self, is_concerned: impl Fn(Option<&LastReconcile>) -> bool) {
        for controller in self.all() {
            for name in controller.memory.names_of(&is_concerned) {
                controller.queue.add(name);
            }
        }
    }
}
