//! Composite resources: one controller for each kind, started and stopped as definitions come and go.
//!
//! # Invariants
//! * Nothing is created before the reference to it is recorded; nothing is forgotten before it is deleted.
//! * A composite resource whose inputs did not change costs no function call and no request.
//! * What happens to one composite resource does not slow down another.

mod apply;
mod choose;
mod connection;
mod controller;
mod dependencies;
mod memory;
mod observe;
mod problem;
mod read;
mod reconcile;
mod rights;
mod settle;
mod settled;
mod story;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ferroplane_api::{Object, Scope, meta};

use crate::apiextensions::composition_cache::CompositionCache;
use crate::cluster::Resource;
use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::head::Owner;
use crate::mirror::Change;
use controller::Controller;
use dependencies::Dependencies;

/// A kind of composite resource.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
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
}

impl Running {
    fn insert(&mut self, controller: Arc<Controller>) {
        self.by_kind.insert(controller.group_kind(), controller.clone());
        self.by_definition.insert(controller.kind.definition.clone(), controller);
    }

    fn remove(&mut self, definition: &str) -> Option<Arc<Controller>> {
        let old = self.by_definition.remove(definition)?;
        self.by_kind.remove(&old.group_kind());
        Some(old)
    }
}

/// The group and the name of a kind.
type GroupKind = (String, String);

/// What is held in memory because of composite resources, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Copies of them, of what they compose, and of everything of a kind of which functions required something.
    pub objects: usize,
    /// Of how many it is remembered how they were looked at last.
    pub remembered: usize,
    /// How many are to be looked at, now or later.
    pub queued: usize,
    /// How many things they want to know of.
    pub interests: usize,
}

/// What the controllers of all kinds share.
#[derive(Debug)]
struct Shared {
    context: Arc<Context>,
    compositions: Arc<CompositionCache>,
    functions: Arc<FunctionRegistry>,
    dependencies: Dependencies,
}

impl Composites {
    pub(crate) fn new(context: Arc<Context>, functions: Arc<FunctionRegistry>) -> Arc<Self> {
        let composites = Arc::new_cyclic(|composites| {
            let compositions = CompositionCache::new(&context.compositions, &context.revisions);
            let dependencies = Dependencies::new(context.cluster.clone(), composites.clone());
            let shared = Arc::new(Shared { context, compositions, functions, dependencies });
            Self { shared, running: RwLock::default() }
        });
        composites.follow();
        composites
    }

    /// Start the controller of a kind, unless it runs. One that runs for another generation is started anew.
    pub(crate) fn start(&self, kind: Kind) {
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if running
            .by_definition
            .get(&kind.definition)
            .is_some_and(|known| known.generation() == kind.generation)
        {
            return;
        }
        if let Some(old) = running.remove(&kind.definition) {
            self.end(&old);
        }
        running.insert(Controller::start(kind, self.shared.clone()));
    }

    fn end(&self, controller: &Controller) {
        controller.stop();
        // What was under way is of no interest any more.
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

    /// The generation of the definition for which the controller of a kind runs.
    pub(crate) fn generation(&self, definition: &str) -> Option<i64> {
        self.get(definition).map(|controller| controller.generation())
    }

    /// What is held in memory because of composite resources.
    pub(crate) fn holdings(&self) -> Holdings {
        let (dependencies, interests) = self.shared.dependencies.len();
        let mut holdings = Holdings { objects: dependencies, interests, ..Holdings::default() };
        for controller in self.all() {
            holdings.objects += controller.mirror.len();
            holdings.queued += controller.queue.len();
            holdings.remembered += controller.memory.len();
        }
        holdings
    }

    fn get(&self, definition: &str) -> Option<Arc<Controller>> {
        self.running.read().unwrap_or_else(PoisonError::into_inner).by_definition.get(definition).cloned()
    }

    fn all(&self) -> Vec<Arc<Controller>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        running.by_definition.values().cloned().collect()
    }

    /// Look again at whatever compositions or functions that change have to do with.
    fn follow(self: &Arc<Self>) {
        let context = &self.shared.context;
        let composites = Arc::downgrade(self);
        context.revisions.listen(move |_, change| {
            let Some(composites) = composites.upgrade() else { return };
            let composition = change.head().label(ferroplane_api::keys::COMPOSITION_NAME).unwrap_or_default();
            for controller in composites.all() {
                controller.composition_changed(composition);
            }
        });
        let composites = Arc::downgrade(self);
        context.compositions.listen(move |_, change| {
            let Some(composites) = composites.upgrade() else { return };
            for controller in composites.all() {
                controller.composition_changed(&change.head().metadata.name);
            }
        });
        for mirror in [&context.functions, &context.function_revisions] {
            let composites = Arc::downgrade(self);
            mirror.listen(move |_, _| {
                let Some(composites) = composites.upgrade() else { return };
                for controller in composites.all() {
                    controller.look_at_all();
                }
            });
        }
    }

    /// Something that a composite resource composes has changed.
    fn composed_changed(&self, owner: &Owner<'_>, resource: &Resource, change: Change<'_>) {
        let kind = (meta::group(&owner.api_version).to_owned(), owner.kind.clone().into_owned());
        let controller = {
            let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
            running.by_kind.get(&kind).cloned()
        };
        if let Some(controller) = controller {
            controller.composed_changed(&owner.name, resource, change);
        }
    }
}
