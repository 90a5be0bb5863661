//! Metrics of controllers, with the names of controller-runtime.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_metrics::{Exposition, Histogram, Labels, labels};
use tokio::time::Instant;

/// The results of reconciles, as controller-runtime names them.
const RESULTS: [&str; 4] = ["success", "requeue_after", "requeue", "error"];

/// The metrics of one controller.
#[derive(Debug, Default)]
pub(crate) struct Work {
    added: AtomicU64,
    retried: AtomicU64,
    panicked: AtomicU64,
    waiting: AtomicUsize,
    busy: AtomicUsize,
    limit: AtomicUsize,
    ended: [AtomicU64; RESULTS.len()],
    took: Mutex<Histogram>,
    waited: Mutex<Histogram>,
    /// When running reconciles began.
    begun: Mutex<Begun>,
}

#[derive(Debug, Default)]
struct Begun {
    counter: u64,
    times: BTreeMap<u64, Instant>,
}

/// A running reconcile.
#[derive(Debug)]
pub(crate) struct Piece {
    work: Arc<Work>,
    id: u64,
    began_at: Instant,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Success,
    Later,
    Again,
    Failure,
}

impl Work {
    /// An object was added to the queue.
    pub(crate) fn add(&self) {
        self.added.fetch_add(1, Ordering::Relaxed);
    }

    /// The maximum number of concurrent reconciles.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The number of waiting and of running reconciles.
    pub(crate) fn set_load(&self, waiting: usize, busy: usize) {
        self.waiting.store(waiting, Ordering::Relaxed);
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// How long an object waited in the queue.
    pub(crate) fn waited(&self, time: Duration) {
        self.waited.lock().unwrap_or_else(PoisonError::into_inner).observe(time);
    }

    /// A reconcile begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Piece {
        let began_at = Instant::now();
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.counter += 1;
        let id = begun.counter;
        begun.times.insert(id, began_at);
        Piece { work: self.clone(), id, began_at }
    }

    /// The total and the longest duration of running reconciles.
    fn unfinished(&self) -> (Duration, Duration) {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let ages = begun.times.values().map(Instant::elapsed);
        ages.fold(Default::default(), |(sum, longest), age| (sum + age, age.max(longest)))
    }
}

impl Piece {
    /// It panicked.
    pub(crate) fn panicked(&self) {
        self.work.panicked.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn end(self, ending: Ending) {
        self.work.ended[ending as usize].fetch_add(1, Ordering::Relaxed);
        // Conflicts count as retries, as in client-go, where they are requeued with a rate limit.
        if matches!(ending, Ending::Again | Ending::Failure) {
            self.work.retried.fetch_add(1, Ordering::Relaxed);
        }
        self.work.took.lock().unwrap_or_else(PoisonError::into_inner).observe(self.began_at.elapsed());
    }
}

impl Drop for Piece {
    /// An aborted reconcile is no longer running either.
    fn drop(&mut self) {
        // Here and not in `end`: a reconcile that panics or is cancelled never gets there.
        self.work.begun.lock().unwrap_or_else(PoisonError::into_inner).times.remove(&self.id);
    }
}

/// The metrics of all controllers, by name.
#[derive(Debug, Default)]
pub(super) struct Works(Mutex<BTreeMap<String, Arc<Work>>>);

impl Works {
    pub(super) fn of(&self, controller: &str) -> Arc<Work> {
        let mut works = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        works.entry(controller.to_owned()).or_default().clone()
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        let works = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut page = Page { page, works: &works };
        page.reconciles();
        page.queues();
    }
}

fn load(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

/// What is written about all controllers.
struct Page<'a> {
    page: &'a mut Exposition,
    works: &'a BTreeMap<String, Arc<Work>>,
}

impl Page<'_> {
    /// The names and meanings are controller-runtime's, so that dashboards for other controllers show ours.
    fn reconciles(&mut self) {
        self.results();
        self.durations(
            "controller_runtime_reconcile_time_seconds",
            "Time that reconciles took, in seconds",
            |work| &work.took,
        );
        self.numbers("controller_runtime_reconcile_errors_total", "Reconciles that failed", |work| {
            load(&work.ended[Ending::Failure as usize])
        });
        self.numbers("controller_runtime_reconcile_panics_total", "Reconciles that panicked", |work| {
            load(&work.panicked)
        });
        self.numbers("controller_runtime_active_workers", "Reconciles that are running", |work| {
            work.busy.load(Ordering::Relaxed) as u64
        });
        self.numbers(
            "controller_runtime_max_concurrent_reconciles",
            "Limit of concurrent reconciles",
            |work| work.limit.load(Ordering::Relaxed) as u64,
        );
    }

    /// The names and meanings are client-go's.
    fn queues(&mut self) {
        self.numbers("workqueue_depth", "Objects that wait in the queue", |work| {
            work.waiting.load(Ordering::Relaxed) as u64
        });
        self.numbers("workqueue_adds_total", "Times that an object was queued", |work| load(&work.added));
        self.numbers("workqueue_retries_total", "Reconciles that were retried", |work| load(&work.retried));
        self.durations(
            "workqueue_queue_duration_seconds",
            "Time that objects waited in the queue, in seconds",
            |work| &work.waited,
        );
        self.durations("workqueue_work_duration_seconds", "Time that reconciles took, in seconds", |work| {
            &work.took
        });
        self.numbers(
            "workqueue_unfinished_work_seconds",
            "Time since running reconciles began, in seconds, summed up",
            |work| work.unfinished().0.as_secs_f64(),
        );
        self.numbers(
            "workqueue_longest_running_processor_seconds",
            "Time since the longest running reconcile began, in seconds",
            |work| work.unfinished().1.as_secs_f64(),
        );
    }

    fn results(&mut self) {
        let name = "controller_runtime_reconcile_total";
        let mut samples = self.page.counter(name, "Reconciles, by result");
        for (controller, work) in self.works {
            for (result, count) in RESULTS.iter().zip(&work.ended) {
                samples.series(&labels(&[("controller", controller), ("result", result)]), load(count));
            }
        }
    }

    fn durations(&mut self, name: &str, help: &str, times: impl Fn(&Work) -> &Mutex<Histogram>) {
        let mut samples = self.page.histogram(name, help);
        for (controller, work) in self.works {
            let times = times(work).lock().unwrap_or_else(PoisonError::into_inner).clone();
            samples.histogram(&labels_of(name, controller), &times);
        }
    }

    fn numbers<T: std::fmt::Display>(&mut self, name: &str, help: &str, number: impl Fn(&Work) -> T) {
        // The convention of Prometheus decides, so that no number can be called a counter and be served as a gauge.
        let mut samples = if name.ends_with("_total") {
            self.page.counter(name, help)
        } else {
            self.page.gauge(name, help)
        };
        for (controller, work) in self.works {
            samples.series(&labels_of(name, controller), number(work));
        }
    }
}

/// controller-runtime's queues have the name of their controller twice.
fn labels_of(name: &str, controller: &str) -> Labels {
    if name.starts_with("workqueue") {
        labels(&[("controller", controller), ("name", controller)])
    } else {
        labels(&[("controller", controller)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_is_told_until_it_ends_or_is_broken_off() {
        let works = Works::default();
        let work = works.of("c");
        let (first, second) = (work.begin(), work.begin());
        tokio::time::advance(Duration::from_secs(2)).await;
        let told = |line: &str| {
            let mut page = Exposition::default();
            works.write(&mut page);
            let text = page.into_text();
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        };
        told(r#"workqueue_unfinished_work_seconds{controller="c",name="c"} 4"#);
        told(r#"workqueue_longest_running_processor_seconds{controller="c",name="c"} 2"#);
        first.end(Ending::Success);
        drop(second);
        told(r#"workqueue_unfinished_work_seconds{controller="c",name="c"} 0"#);
        told(r#"workqueue_work_duration_seconds_count{controller="c",name="c"} 1"#);
    }
}
