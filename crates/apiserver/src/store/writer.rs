//! The one thread that writes.
//!
//! Takes what is queued, judges it, makes it durable, publishes it, answers: in this order, and no other. Nothing is visible
//! before it is durable, so everything that was ever seen is still there after a crash.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError, RwLockReadGuard};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::{error, warn};

use super::batch::Pending;
use super::directory::Directory;
use super::entry::{Entry, Operation};
use super::history::{Due, History};
use super::in_flight::InFlightGuard;
use super::key::Collection;
use super::log::{Batch, Log, LogError, Marks};
use super::state::State;
use super::watch_cache::Event;
use super::{Refused, Shared, SubmitError};

/// How many submissions share a commit at most. A flush costs the same for one as for many, so that all who wait share it; but
/// the first of them waits for the last, so that there is an end to it.
const SUBMISSIONS: usize = 256;
/// How many bytes they may have together, but for the last one.
const BYTES: usize = 4 << 20;
/// How many rows are forgotten with a commit at least, if there are so many. They ride on a flush that is due anyway.
const FORGET: usize = 64;
/// How many rows are forgotten at once when there is nothing else to do.
const FORGET_IDLE: usize = 1024;
/// How long nothing must happen before there is time for housekeeping.
const IDLE: Duration = Duration::from_millis(20);

/// Answers a submission.
type Reply = oneshot::Sender<Result<Vec<Arc<Entry>>, SubmitError>>;

/// What the writer is asked to do.
#[derive(Debug)]
pub(super) enum Message {
    Submit(Submission),
    Close,
}

/// One transaction.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) operations: Vec<Operation>,
    pub(super) reply: Reply,
    /// Room in the queue, given back with the answer.
    pub(super) permit: OwnedSemaphorePermit,
    /// Ends with the answer, too.
    pub(super) begun: InFlightGuard,
    /// Kept until the answer: what may be let go of only when the submission is visible, or will never be.
    pub(super) held: Box<dyn Any + Send>,
}

/// An answer that waits until it is true.
struct Answer {
    verdict: Result<Vec<Arc<Entry>>, Refused>,
    reply: Reply,
    _permit: OwnedSemaphorePermit,
    _begun: InFlightGuard,
    _held: Box<dyn Any + Send>,
}

/// Everything the thread owns.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) log: Box<dyn Log>,
    pub(super) history: History,
    pub(super) queue: Receiver<Message>,
    /// Let go of last.
    pub(super) directory: Option<Directory>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    /// Write until no client is left. If it ends early, that is a failure that all of them receive.
    pub(super) fn run_to_the_end(self) {
        let shared = self.shared.clone();
        // Without this, requests that wait for a commit would wait for ever after a panic.
        if catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            let source = "the thread that writes has panicked".into();
            shared.fail(&Arc::new(LogError::Failed { action: "write to", file: "store".into(), source }));
        }
    }

    fn run(mut self) {
        let mut is_tidy = false;
        loop {
            match self.wait(is_tidy) {
                Ok(Message::Submit(submission)) => {
                    let (batch, is_last) = self.gather(submission);
                    self.commit(batch);
                    // Between commits: if the store is never idle, the write-ahead log must not grow without end.
                    self.tidy(true);
                    is_tidy = false;
                    if is_last {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => is_tidy = self.housekeep(),
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // In this order: the database is closed before another process may open it.
        drop(self.log);
        drop(self.directory);
    }

    fn wait(&self, is_tidy: bool) -> Result<Message, RecvTimeoutError> {
        let patience = if is_tidy { self.history.patience(Instant::now()) } else { Some(IDLE) };
        match patience {
            Some(patience) => self.queue.recv_timeout(patience),
            None => self.queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Take what else is queued. Also returns whether the writer was asked to stop.
    fn gather(&self, first: Submission) -> (Vec<Submission>, bool) {
        let mut bytes = first.size();
        let mut batch = vec![first];
        while batch.len() < SUBMISSIONS && bytes < BYTES {
            match self.queue.try_recv() {
                Ok(Message::Submit(submission)) => {
                    bytes += submission.size();
                    batch.push(submission);
                }
                Ok(Message::Close) => return (batch, true),
                Err(_) => break,
            }
        }
        (batch, false)
    }

    /// Judge, make durable, publish, answer.
    pub(super) fn commit(&mut self, batch: Vec<Submission>) {
        if let Some(failure) = self.shared.failure.get() {
            for submission in batch {
                let _ = submission.reply.send(Err(SubmitError::Failed(failure.clone())));
            }
            return;
        }
        let (pending, answers) = self.evaluate(batch);
        // Twice as many may go as come, so that the file does not grow however long there is no idle moment.
        let due = self.history.due(FORGET.max(pending.events().len() * 2));
        let unacknowledged = match self.append(&pending, &due) {
            Ok(()) => None,
            Err(error @ LogError::Unacknowledged { .. }) => Some(self.note_unacknowledged(error)),
            Err(error) => {
                self.refuse(answers, error);
                return;
            }
        };
        // It is shown even if it could not be acknowledged: after a restart it will be there, too.
        self.history.settle(&due);
        // In this order: watchers see it when it is durable; observers (rights, webhooks, addresses) before the answer, so that the
        // client that removed a right can rely on it.
        self.publish(pending.events());
        if let Some(observer) = self.shared.observer.get() {
            pending.events().iter().for_each(|event| (observer.0)(event));
        }
        if unacknowledged.is_none() {
            self.shared.note_room();
        }
        for Answer { verdict, reply, _permit, _begun, _held } in answers {
            let verdict = verdict.map_err(SubmitError::from);
            let _ = reply.send(verdict.and_then(|entries| match &unacknowledged {
                Some(error) => Err(SubmitError::Unknown(error.clone())),
                None => Ok(entries),
            }));
        }
    }

    fn evaluate(&self, batch: Vec<Submission>) -> (Pending, Vec<Answer>) {
        let state = self.state();
        // Only this thread changes the state, so that what is judged now is still true when it is published.
        let mut pending = Pending::after(state.revision());
        let mut evaluate = |Submission { operations, reply, permit, begun, held }| {
            let verdict = pending.admit(&state, operations);
            Answer { verdict, reply, _permit: permit, _begun: begun, _held: held }
        };
        let answers = batch.into_iter().map(&mut evaluate).collect();
        (pending, answers)
    }

    fn append(&mut self, pending: &Pending, due: &Due) -> Result<(), LogError> {
        // Refusals and writes that change nothing need no disk.
        if pending.events().is_empty() {
            return if due.rows.is_empty() { Ok(()) } else { self.forget(due) };
        }
        self.log.append(&Batch {
            events: pending.events(),
            forget: &due.rows,
            marks: Marks { revision: pending.revision(), floor: due.floor },
        })
    }

    fn forget(&mut self, due: &Due) -> Result<(), LogError> {
        let revision = self.state().revision();
        self.log.append(&Batch {
            events: &[],
            forget: &due.rows,
            marks: Marks { revision, floor: due.floor },
        })
    }

    fn refuse(&self, answers: Vec<Answer>, error: LogError) {
        let error = Arc::new(error);
        let is_full = matches!(*error, LogError::Full { .. });
        if is_full {
            warn!(%error, "refused writes");
            self.shared.note_full(&error);
        } else {
            self.fail(&error);
        }
        for answer in answers {
            // Even refusals: they were judged by what did not happen.
            let error = error.clone();
            let error = if is_full { SubmitError::Full(error) } else { SubmitError::Unknown(error) };
            let _ = answer.reply.send(Err(error));
        }
    }

    /// What was appended is there, but no client may rely on it. If it is only for want of room, the next write notes it.
    fn note_unacknowledged(&self, error: LogError) -> Arc<LogError> {
        let is_full = match &error {
            LogError::Unacknowledged { source, .. } => matches!(**source, LogError::Full { .. }),
            _ => false,
        };
        let error = Arc::new(error);
        if is_full {
            warn!(%error, "cannot acknowledge writes");
            self.shared.note_full(&error);
        } else {
            self.fail(&error);
        }
        error
    }

    fn fail(&self, error: &Arc<LogError>) {
        let source = std::error::Error::source(&**error).map(ToString::to_string).unwrap_or_default();
        error!(%error, source, "stopped writing");
        self.shared.fail(error);
    }

    /// Show what is durable, to readers and watchers at once: who saw an event finds the object as it says, or newer.
    fn publish(&mut self, events: &[Arc<Event>]) {
        let Some(last) = events.last() else { return };
        let mut state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            state.apply(event);
        }
        // While the state is locked: a list of the past takes the state and undoes the events after it, which must be the same.
        let touched = push(events);
        self.shared.published.store(last.revision(), Ordering::Release);
        drop(state);
        // After the lock is free, or those who are woken would only wait for it.
        for collection in touched {
            collection.watch_cache().wake();
        }
        self.shared.revisions.send_replace(last.revision());
        for event in events {
            self.history.push(event.clone());
        }
        self.history.evict(Instant::now());
    }

    /// Housekeeping while nothing waits. Returns whether all is tidy.
    fn housekeep(&mut self) -> bool {
        if self.shared.failure.get().is_some() {
            return true;
        }
        self.history.evict(Instant::now());
        if self.history.is_anything_due() {
            let due = self.history.due(FORGET_IDLE);
            match self.forget(&due) {
                Ok(()) => self.history.settle(&due),
                // They are forgotten, and must not be a second time.
                Err(error @ LogError::Unacknowledged { .. }) => {
                    self.note_unacknowledged(error);
                    self.history.settle(&due);
                }
                // Forgetting needs room, too. There will be another time.
                Err(LogError::Full { .. }) => return true,
                Err(error) => self.fail(&Arc::new(error)),
            }
            return false;
        }
        !self.tidy(false)
    }

    /// Let the log keep house. Returns whether there is more to do.
    fn tidy(&mut self, is_urgent: bool) -> bool {
        match self.log.tidy(is_urgent) {
            Ok(is_more) => is_more,
            Err(LogError::Full { .. }) => false,
            Err(error) => {
                self.fail(&Arc::new(error));
                false
            }
        }
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.shared.read()
    }
}

/// Add events to the rings of their collections, and return these.
fn push(events: &[Arc<Event>]) -> Vec<&Collection> {
    let mut touched = Vec::new();
    for run in events.chunk_by(|one, other| one.collection() == other.collection()) {
        let collection = run[0].collection();
        let mut ring = collection.watch_cache().write();
        for event in run {
            ring.push(event.clone());
        }
        if !touched.contains(&collection) {
            touched.push(collection);
        }
    }
    touched
}

impl Submission {
    fn size(&self) -> usize {
        self.operations.iter().map(Operation::size).sum()
    }
}
