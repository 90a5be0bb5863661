//! Makes resources ready that nothing else manages: `ferroplane up --simulate`, and the cloud of the demo.
//!
//! A control plane on a laptop has no kubelet and no cloud. This plays both, as far as their users can see it: it writes
//! the status that a Deployment, or an object of any CRD, would get from its controller. Nothing is run or created.
//!
//! # Invariants
//! * It runs in `up` only, beside the embedded API server: no status on a real cluster is ever made up.
//! * An object whose status another user writes is left alone.
//! * A status that is as it should be is not written again.

mod controller;
mod custom;
mod kind;
mod requests;
mod selection;
mod status;
mod template;
mod workloads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_client::{ApiClient, InformerScope};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tracing::info;

use super::follow::Followed;
use controller::Controller;
use kind::SimulatedKind;

pub(crate) use selection::Selection;

/// Owns the statuses that are made up.
const MANAGER: &str = "ferroplane/simulate";

/// A simulation that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Simulation {
    task: JoinHandle<()>,
}

impl Simulation {
    /// Follow all kinds that are selected, those that are defined later too.
    pub(super) fn start(client: &ApiClient, selection: Selection, delay: Duration) -> Self {
        let client = client.clone().with_field_manager(MANAGER);
        let definitions = Followed::start(&client, InformerScope::new(kind::definitions().into()));
        let (sender, changed) = unbounded_channel();
        definitions.informer().listen(move |_, change| {
            let _ = sender.send(change.header().key());
        });
        let simulator = Simulator { client, selection, delay, definitions, running: BTreeMap::new() };
        Self { task: tokio::spawn(simulator.run(changed)) }
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts and stops a controller for every kind that is simulated.
struct Simulator {
    client: ApiClient,
    selection: Selection,
    /// How long an object takes that does not ask for a delay.
    delay: Duration,
    definitions: Followed,
    /// By the names of their definitions, which built-in kinds could have too.
    running: BTreeMap<String, Running>,
}

/// A controller, which ends when this is dropped.
struct Running {
    kind: Arc<SimulatedKind>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Simulator {
    async fn run(mut self, mut changed: UnboundedReceiver<String>) {
        for kind in workloads::kinds() {
            self.follow(kind.definition_name(), Some(kind));
        }
        while let Some(key) = changed.recv().await {
            let informer = self.definitions.informer();
            let definition = informer.get_by_key(&key).and_then(|cached| informer.to_object(&cached));
            self.follow(key, definition.as_ref().and_then(SimulatedKind::of_definition));
        }
    }

    /// Simulate a kind from now on as its definition says now, or no longer.
    fn follow(&mut self, name: String, kind: Option<SimulatedKind>) {
        let Some(kind) = kind.filter(|kind| self.selection.includes(kind.resource())) else {
            self.running.remove(&name);
            return;
        };
        // Definitions change all the time: their conditions do.
        if self.running.get(&name).is_some_and(|running| *running.kind == kind) {
            return;
        }
        info!(kind = name.trim_end_matches('.'), "simulating the controller of a kind");
        let kind = Arc::new(kind);
        let controller = Controller::start(&self.client, kind.clone(), self.delay);
        self.running.insert(name, Running { kind, task: controller });
    }
}
