//! What controllers have done, and have to do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::head;
use super::series::{Histogram, labels};

/// How a look at something ended, in controller-runtime's words.
const RESULTS: [&str; 4] = ["success", "requeue_after", "requeue", "error"];

/// The work of one controller.
#[derive(Debug, Default)]
pub(crate) struct Work {
    added: AtomicU64,
    retried: AtomicU64,
    waiting: AtomicUsize,
    busy: AtomicUsize,
    ended: [AtomicU64; RESULTS.len()],
    took: Mutex<Histogram>,
}

/// How a piece of work ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Success,
    Later,
    Again,
    Failure,
}

impl Work {
    /// Somebody asked for something.
    pub(crate) fn add(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
    }

    /// How much there is to do, and how much is being done.
    pub(crate) fn set_load(&self, waiting: usize, busy: usize) {
        self.waiting.store(waiting, Ordering::Relaxed);
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Something was done.
    pub(crate) fn end(&self, ending: Ending, took: Duration) {
        self.ended[ending as usize].fetch_add(1, Ordering::Relaxed);
        if matches!(ending, Ending::Again | Ending::Failure) {
            self.retried.fetch_add(1, Ordering::Relaxed);
        }
        self.took.lock().unwrap_or_else(PoisonError::into_inner).add(took);
    }
}

/// The work of all controllers, by name.
#[derive(Debug, Default)]
pub(super) struct Works(Mutex<BTreeMap<String, Arc<Work>>>);

impl Works {
    pub(super) fn of(&self, controller: &str) -> Arc<Work> {
        let mut works = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        works.entry(controller.to_owned()).or_default().clone()
    }

    pub(super) fn write(&self, text: &mut String) {
        let works = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if works.is_empty() {
            return;
        }
        let name = "controller_runtime_reconcile_total";
        head(text, name, "counter", "Looks at objects, by how they ended.");
        for (controller, work) in &works {
            for (result, count) in RESULTS.iter().zip(&work.ended) {
                let labels = labels(&[("controller", controller), ("result", result)]);
                let _ = writeln!(text, "{name}{{{labels}}} {}", count.load(Ordering::Relaxed));
            }
        }
        let name = "controller_runtime_reconcile_time_seconds";
        head(text, name, "histogram", "How long looks at objects took.");
        for (controller, work) in &works {
            let took = work.took.lock().unwrap_or_else(PoisonError::into_inner).clone();
            took.write(text, name, &labels(&[("controller", controller)]));
        }
        let failures = Ending::Failure as usize;
        numbers(text, &works, "controller_runtime_reconcile_errors_total", "counter", |work| {
            work.ended[failures].load(Ordering::Relaxed)
        });
        numbers(text, &works, "controller_runtime_active_workers", "gauge", |work| {
            work.busy.load(Ordering::Relaxed) as u64
        });
        numbers(text, &works, "workqueue_depth", "gauge", |work| work.waiting.load(Ordering::Relaxed) as u64);
        numbers(text, &works, "workqueue_adds_total", "counter", |work| work.added.load(Ordering::Relaxed));
        numbers(text, &works, "workqueue_retries_total", "counter", |work| {
            work.retried.load(Ordering::Relaxed)
        });
    }
}

fn numbers(
    text: &mut String,
    works: &BTreeMap<String, Arc<Work>>,
    name: &str,
    kind: &str,
    number: impl Fn(&Work) -> u64,
) {
    head(text, name, kind, "What controllers have to do and have done.");
    for (controller, work) in works {
        // controller-runtime's queues have the name of their controller twice.
        let labels = if name.starts_with("workqueue") {
            labels(&[("controller", controller), ("name", controller)])
        } else {
            labels(&[("controller", controller)])
        };
        let _ = writeln!(text, "{name}{{{labels}}} {}", number(work));
    }
}
