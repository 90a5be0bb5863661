//! Claims: one controller for each kind, started and stopped with its definition.
//!
//! # Invariants
//! * A claim names its composite resource before that is created: none is ever orphaned.
//! * A claim and a composite resource that are up to date cost no request.
//! * A composite resource or a Secret that belongs to something else is not changed.

mod connection;
mod controller;
mod deletion;
mod propagated;
mod reconcile;
mod settle;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ferroplane_client::Resource;

use crate::apiextensions::composite::Composites;
use crate::context::Context;
pub(crate) use connection::{copied, details, own_data};
use controller::Controller;

/// A kind of claim.
#[derive(Debug, Clone)]
pub(crate) struct ClaimKind {
    /// The name of its definition.
    pub(crate) definition: String,
    pub(crate) resource: Arc<Resource>,
    /// The kind of the composite resources.
    pub(crate) composite: Arc<Resource>,
    /// Whether the definition enforces a composition.
    pub(crate) is_enforced: bool,
}

/// The controllers of all kinds of claims.
#[derive(Debug)]
pub(crate) struct Claims {
    context: Arc<Context>,
    /// Watches the connection Secrets of claims with those of composite resources.
    composites: Arc<Composites>,
    running: RwLock<BTreeMap<String, Arc<Controller>>>,
}

impl Claims {
    pub(crate) fn new(context: Arc<Context>, composites: Arc<Composites>) -> Arc<Self> {
        Arc::new(Self { context, composites, running: RwLock::default() })
    }

    /// Start the controller of a kind, unless it runs. One that runs for another version is started anew.
    pub(crate) fn start(&self, kind: ClaimKind) {
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = running.get(&kind.definition).filter(|known| known.is_of(&kind)) {
            known.enforce(kind.is_enforced);
            return;
        }
        let name = kind.definition.clone();
        let controller = Controller::start(kind, self.context.clone(), self.composites.clone());
        if let Some(old) = running.insert(name, controller) {
            old.stop();
        }
    }

    /// Stop the controller of a kind, if it runs.
    pub(crate) fn stop(&self, definition: &str) {
        let stopped = self.running.write().unwrap_or_else(PoisonError::into_inner).remove(definition);
        if let Some(controller) = stopped {
            controller.stop();
        }
    }

    /// Stop all of them.
    pub(crate) fn stop_all(&self) {
        let running = std::mem::take(&mut *self.running.write().unwrap_or_else(PoisonError::into_inner));
        for controller in running.into_values() {
            controller.stop();
        }
    }

    pub(crate) fn is_running(&self, definition: &str) -> bool {
        self.running.read().unwrap_or_else(PoisonError::into_inner).contains_key(definition)
    }
}
