//! Long requests, such as commands in pods: an ActionSet does not occupy a worker while one runs.
//!
//! In-memory state: after a restart, a phase with such a request gets no answer, and decides how to continue.
//!
//! # Invariants
//! * Answers are kept until the status has their result. A worker whose write fails gets them again, so that no command is taken for
//!   interrupted or run twice.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_engine::action::Answer;
use tokio::task::AbortHandle;

use super::action_set::Key;

/// Running requests, by ActionSet and the identity of their phase.
#[derive(Default)]
pub(super) struct Background {
    tasks: Mutex<HashMap<Key, HashMap<String, Task>>>,
}

enum Task {
    Running(AbortHandle),
    Ended(Vec<Answer>),
}

/// The state of the requests of a phase.
pub(super) enum Progress {
    /// There are none.
    None,
    Running,
    Ended(Vec<Answer>),
}

impl Background {
    /// The state of the requests of a phase.
    pub(super) fn progress(&self, key: &Key, identity: &str) -> Progress {
        match self.lock().get(key).and_then(|tasks| tasks.get(identity)) {
            None => Progress::None,
            Some(Task::Running(_)) => Progress::Running,
            Some(Task::Ended(answers)) => Progress::Ended(answers.clone()),
        }
    }

    /// The status has the result of a phase's answers: drop them.
    pub(super) fn settle(&self, key: &Key, identity: &str) {
        let mut tasks = self.lock();
        let Some(of_key) = tasks.get_mut(key) else { return };
        if let Some(Task::Ended(_)) = of_key.get(identity) {
            of_key.remove(identity);
        }
    }

    /// Run requests, and notify the caller when they have ended.
    pub(super) fn start(
        self: &Arc<Self>,
        key: &Key,
        identity: &str,
        work: impl Future<Output = Vec<Answer>> + Send + 'static,
        tell: impl FnOnce() + Send + 'static,
    ) {
        let (background, own, phase) = (Arc::downgrade(self), key.clone(), identity.to_owned());
        // Held while it starts, so that it cannot end before it is listed.
        let mut tasks = self.lock();
        let task = tokio::spawn(async move {
            let answers = work.await;
            let Some(background) = background.upgrade() else { return };
            if let Some(task) = background.lock().get_mut(&own).and_then(|tasks| tasks.get_mut(&phase)) {
                *task = Task::Ended(answers);
            }
            tell();
        });
        let task = Task::Running(task.abort_handle());
        tasks.entry(key.clone()).or_default().insert(identity.to_owned(), task);
    }

    /// Abort the requests of a phase.
    pub(super) fn stop(&self, key: &Key, identity: &str) {
        if let Some(Task::Running(task)) = self.lock().get_mut(key).and_then(|tasks| tasks.remove(identity)) {
            task.abort();
        }
    }

    /// Abort all requests of an ActionSet.
    pub(super) fn forget(&self, key: &Key) {
        for task in self.lock().remove(key).into_iter().flat_map(HashMap::into_values) {
            if let Task::Running(task) = task {
                task.abort();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, HashMap<String, Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for task in self.lock().drain().flat_map(|(_, tasks)| tasks.into_values()) {
            if let Task::Running(task) = task {
                task.abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn key() -> Key {
        Arc::new(("shop".to_owned(), "s".to_owned()))
    }

    fn answers(progress: Progress) -> Option<Vec<Answer>> {
        match progress {
            Progress::Ended(answers) => Some(answers),
            Progress::None | Progress::Running => None,
        }
    }

    #[tokio::test]
    async fn answers_are_handed_out_until_they_are_settled() {
        let background = Arc::<Background>::default();
        let (ended, told) = oneshot::channel();
        background.start(&key(), "p", async { vec![Answer::Absent] }, move || ended.send(()).unwrap());
        told.await.unwrap();
        for _ in 0..2 {
            assert_eq!(answers(background.progress(&key(), "p")), Some(vec![Answer::Absent]));
        }
        background.settle(&key(), "p");
        assert!(matches!(background.progress(&key(), "p"), Progress::None));
    }

    #[tokio::test]
    async fn requests_that_run_are_not_settled_with_the_answers_of_earlier_ones() {
        let background = Arc::<Background>::default();
        background.start(&key(), "p", std::future::pending(), || {});
        background.settle(&key(), "p");
        assert!(matches!(background.progress(&key(), "p"), Progress::Running));
    }
}
