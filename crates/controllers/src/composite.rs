//! Composite resources: one controller for each kind, started and stopped as definitions come and go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ferroplane_api::{Object, Scope};

use crate::cluster::Resource;
use crate::context::Context;

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
    context: Weak<Context>,
    running: Mutex<BTreeMap<String, Kind>>,
}

impl Composites {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        Self { context: Arc::downgrade(context), running: Mutex::default() }
    }

    /// Start the controller of a kind, unless it runs. One that runs for another generation is started anew.
    pub(crate) fn start(&self, kind: Kind) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.definition.clone(), kind);
    }

    /// Stop the controller of a kind, if it runs.
    pub(crate) fn stop(&self, definition: &str) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(definition);
    }

    /// The generation of the definition for which the controller of a kind runs.
    pub(crate) fn generation(&self, definition: &str) -> Option<i64> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(definition).map(|kind| kind.generation)
    }
}
