//! Metrics of circuit breakers, with Crossplane's names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_metrics::{Exposition, labels};

const RESULTS: [&str; 3] = ["Allowed", "Dropped", "HalfOpenAllowed"];

/// How a change was handled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Passage {
    /// It was reconciled at once.
    Allowed,
    /// It has to wait, because the circuit is open.
    Dropped,
    /// It is the periodic reconcile while the circuit is open.
    Probe,
}

/// The circuit breakers of one controller.
#[derive(Debug, Default)]
pub(crate) struct Breaking {
    opened: AtomicU64,
    closed: AtomicU64,
    passed: [AtomicU64; RESULTS.len()],
}

impl Breaking {
    pub(crate) fn open(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn close(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn pass(&self, passage: Passage) {
        self.passed[passage as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The same of all controllers, by name.
#[derive(Debug, Default)]
pub(super) struct Breakings(Mutex<BTreeMap<String, Arc<Breaking>>>);

impl Breakings {
    pub(super) fn of(&self, controller: &str) -> Arc<Breaking> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(controller.to_owned()).or_default().clone()
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut number = |name: &str, help: &str, of: fn(&Breaking) -> &AtomicU64| {
            let mut samples = page.counter(name, help);
            for (controller, breaking) in &all {
                samples.series(&labels(&[("controller", controller)]), of(breaking).load(Ordering::Relaxed));
            }
        };
        number(
            "circuit_breaker_opens_total",
            "Times that the circuit breaker of a composite resource opened",
            |breaking| &breaking.opened,
        );
        number(
            "circuit_breaker_closes_total",
            "Times that the circuit breaker of a composite resource closed",
            |breaking| &breaking.closed,
        );
        let mut samples = page.counter(
            "circuit_breaker_events_total",
            "Changes of composed resources, by what the circuit breaker did with them",
        );
        for (controller, breaking) in &all {
            for (result, count) in RESULTS.iter().zip(&breaking.passed) {
                let labels = labels(&[("controller", controller), ("result", result)]);
                samples.series(&labels, count.load(Ordering::Relaxed));
            }
        }
    }
}
