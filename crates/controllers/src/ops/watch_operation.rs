//! `WatchOperation`s: create operations when objects change.
//!
//! # Invariants
//! * Operations are created before the mark that covers them is written, and deleted only afterwards: after a crash at any time, the
//!   handled changes can be derived from the objects.

mod followed;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Cause, Condition, FailurePoint, Object, Status, meta};
use ferroplane_client::{DataStandIn, Informer, ObjectPath};
use ferroplane_engine::operation::{
    Mark, Trigger, TriggerNote, WATCH_LABEL, WatchDecision, WatchSpec, deleted_object, digests_of_data,
    longer_watch_operation_name, operation_of_watch, too_many, watch_operation_name,
};
use ferroplane_engine::{chain, conditions_in};
use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use serde_json::Value;
use tracing::warn;

use super::children::{Children, report_operations};
use super::digest_key::DigestKey;
use super::follow;
use super::status::{status_with, write_status};
use crate::context::Context;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::finalizers;
use crate::runtime::queue::{Next, Queue};
use followed::Followed;

const COMPONENT: &str = "watchoperation/watchoperation.ops.crossplane.io";
/// Crossplane's finalizer. We need none, and remove this one.
const FINALIZER: &str = "watchoperation.ops.crossplane.io";
const CONCURRENCY: usize = 32;
/// How many operations of one `WatchOperation` are created at a time.
const CREATIONS: usize = 16;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How many names a condition lists before it only counts.
const NAMES_LISTED: usize = 3;

const WATCHING: &str = "Watching";
const SYNCED: &str = "Synced";
const ERROR: &str = "ReconcileError";

/// Create the operations of all `WatchOperation`s, until dropped.
pub(crate) async fn run(context: Arc<Context>, operations: Arc<Informer>, key: DigestKey) {
    let watches = follow(&context, "WatchOperation", "watchoperations");
    let recorder = context.recorder.of(COMPONENT);
    let children = Children::new(context.clone(), recorder.clone(), operations, WATCH_LABEL);
    let queue = context.queue(LONGEST_PAUSE, COMPONENT);
    let controller = Arc::new(Controller {
        context,
        recorder,
        watches,
        children,
        digests: DataStandIn::new(move |secret| digests_of_data(secret, key.bytes())),
        queue: queue.clone(),
        followed: Mutex::default(),
    });
    controller.children.synced().await;
    controller.listen();
    queue.work(CONCURRENCY, |name| controller.clone().reconcile(name)).await;
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    watches: Arc<Informer>,
    children: Arc<Children>,
    /// What is cached in place of the data of Secrets.
    digests: DataStandIn,
    queue: Queue<String>,
    /// The watched objects, by the names of `WatchOperation`s. Only one worker has a name at a time.
    followed: Mutex<HashMap<String, Followed>>,
}

/// How a reconcile of a `WatchOperation` ended.
struct Ending {
    conditions: [Condition; 2],
    next: Next,
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.watches.stop();
    }
}

impl Controller {
    fn listen(self: &Arc<Self>) {
        self.children.listen(&self.queue);
        let queue = self.queue.clone();
        self.watches.listen(move |_, change| queue.add(change.header().metadata.name.to_string()));
        // A watched kind may have been installed or removed.
        let (controller, queue) = (Arc::downgrade(self), self.queue.clone());
        self.context.kinds.listen(move |_, _| {
            let names = controller.upgrade().map(|controller| controller.watches.names());
            for name in names.into_iter().flatten() {
                queue.add(name);
            }
        });
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(watch) = self.watches.object("", &name) else {
            self.take(&name);
            self.children.forget_doubts(&name);
            return Next::Rest;
        };
        if meta::is_being_deleted(&watch) {
            self.take(&name);
            return self.let_go(&watch).await;
        }
        let cause = cause_of_writes(&watch);
        cause.scope(self.watch(&name, watch)).await
    }

    fn take(&self, name: &str) -> Option<Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    async fn let_go(&self, watch: &Object) -> Next {
        let path = ObjectPath { resource: self.watches.resource(), namespace: "", name: meta::name(watch) };
        match finalizers::remove(&self.context.cluster, path, watch, FINALIZER).await {
            Ok(_) => Next::Rest,
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(error) => {
                warn!(name = meta::name(watch), error = chain(&error), "cannot remove a finalizer");
                Next::Retry
            }
        }
    }

    async fn watch(&self, name: &str, watch: Object) -> Next {
        if let Err(next) = self.children.settle(&watch).await {
            return next;
        }
        let operations = self.children.of(&watch);
        let spec = match WatchSpec::of(&watch) {
            Ok(spec) => spec,
            Err(invalid) => {
                self.take(name);
                let message = format!("cannot watch: {invalid}");
                let ending = self.not_watching(&watch, &message, Cause::OperationInvalid, Next::Rest);
                return self.conclude(watch, &operations, None, ending).await;
            }
        };
        let mut followed = match self.take(name).filter(|followed| followed.is_of(&watch)) {
            Some(followed) => followed,
            None => Followed::new(&watch, &spec, self.digests.clone()),
        };
        followed.learn(&operations);
        let ending = match followed.follow(&self.context, &spec, name, &self.queue).await {
            Err(message) => self.not_watching(&watch, &message, Cause::WatchNotStarted, Next::Retry),
            Ok(()) => self.work(&watch, &spec, &mut followed, &operations).await,
        };
        let next = self.conclude(watch, &operations, Some(&mut followed), ending).await;
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), followed);
        next
    }

    fn not_watching(&self, watch: &Object, message: &str, cause: Cause, next: Next) -> Ending {
        let failure = FailurePoint::from(cause);
        self.recorder.failure(watch, "EstablishWatched", message, failure.clone());
        let watching = Condition::new(WATCHING, Status::False, "WatchFailed");
        let watching = watching.with_message(message).with_failure(failure.clone());
        let synced = Condition::new(SYNCED, Status::False, ERROR).with_message(message).with_failure(failure);
        Ending { conditions: [watching, synced], next }
    }

    /// Create the operations that are due.
    async fn work(
        &self,
        watch: &Object,
        spec: &WatchSpec,
        followed: &mut Followed,
        operations: &[Object],
    ) -> Ending {
        let now = self.now();
        followed.look(spec, now);
        if is_edited(watch) {
            followed.state.forgive();
        }
        if spec.is_suspended {
            let watching = Condition::new(WATCHING, Status::False, "WatchPaused");
            let synced = Condition::new(SYNCED, Status::False, "ReconcilePaused");
            return Ending { conditions: [watching, synced], next: Next::Rest };
        }
        let decision = followed.state.decide(spec, operations, &Mark::of(watch), now);
        self.tell(watch, &decision);
        let next = decision.requeue_at.map_or(Next::Rest, |at| {
            Next::After(Duration::from_millis(u64::try_from(at - now).unwrap_or_default()))
        });
        let failure = self.carry_out(watch, spec, followed, decision.triggers).await;
        let watching = Condition::new(WATCHING, Status::True, "WatchActive");
        let (synced, next) = match failure {
            Some(message) => {
                let synced = Condition::new(SYNCED, Status::False, ERROR).with_message(message);
                (synced.with_failure(Cause::OperationNotCreated.into()), Next::Retry)
            }
            None => (synced(followed), next),
        };
        Ending { conditions: [watching, synced], next }
    }

    /// Record events for changes that get no operation.
    fn tell(&self, watch: &Object, decision: &WatchDecision) {
        for key in &decision.stopped {
            self.recorder.failure(watch, "WatchLoop", looping(&[key]), Cause::WatchLoop);
        }
        for key in &decision.missed {
            let message = format!("{} waited too long: no Operation is created for it", said(key));
            self.recorder.failure(watch, "MissedDeadline", message, Cause::StartDeadlineMissed);
        }
    }

    /// Create operations. Returns why one could not be created.
    async fn carry_out(
        &self,
        watch: &Object,
        spec: &WatchSpec,
        followed: &mut Followed,
        triggers: Vec<Trigger>,
    ) -> Option<String> {
        let informer = followed.informer.clone()?;
        let make = triggers.into_iter().map(|trigger| {
            let informer = informer.clone();
            async move {
                match self.changed(spec, &informer, &trigger).await {
                    Ok(Some((trigger, object))) => {
                        let made = self.make(watch, &object, &trigger).await;
                        (trigger, made.map(Some))
                    }
                    Ok(None) => (trigger, Ok(None)),
                    Err(message) => (trigger, Err(message)),
                }
            }
        });
        let mut failure = None;
        let mut creations = stream::iter(make).buffer_unordered(CREATIONS);
        while let Some((trigger, made)) = creations.next().await {
            match made {
                Ok(Some(operation)) => followed.state.made(&trigger, &operation, self.now()),
                Ok(None) => followed.state.failed(&trigger),
                Err(message) => {
                    followed.state.failed(&trigger);
                    failure.get_or_insert(message);
                }
            }
        }
        failure
    }

    /// Create the operation for a change, or return why that is not possible.
    async fn make(&self, watch: &Object, object: &Object, trigger: &Trigger) -> Result<Object, String> {
        for name in &trigger.replaced {
            let deleted = self.children.delete(watch, name, None, "ReplaceRunningOperation").await;
            deleted.map_err(|_| format!("cannot delete Operation `{name}`, which is to be replaced"))?;
        }
        let name = watch_operation_name(meta::name(watch), object);
        let operation = noting(watch, object, &trigger.note, &name);
        let error = match self.children.create(watch, &operation).await {
            Ok(created) => return Ok(created),
            Err(error) => error,
        };
        if !error.is_already_exists() {
            return Err(self.children.not_created(watch, &name, &error));
        }
        let present = self.children.get(&name).await.map_err(|error| chain(&error))?;
        let is_ours = |present: &Object| meta::controller_uid(present) == Some(meta::uid(watch));
        let is_same =
            |present: &Object| TriggerNote::of(present).is_some_and(|note| note.is_same(&trigger.note));
        // We created it, and the response was lost: creating it twice is the same as once.
        if let Some(present) = present.filter(|present| is_ours(present) && is_same(present)) {
            return Ok(present);
        }
        let name = longer_watch_operation_name(meta::name(watch), object);
        let operation = noting(watch, object, &trigger.note, &name);
        let created = self.children.create(watch, &operation).await;
        created.map_err(|error| self.children.not_created(watch, &name, &error))
    }

    /// The changed object, or a placeholder for it. None if it was deleted meanwhile, which is the next change.
    async fn changed(
        &self,
        spec: &WatchSpec,
        informer: &Informer,
        trigger: &Trigger,
    ) -> Result<Option<(Trigger, Object)>, String> {
        let (namespace, name) = (trigger.sighting.namespace(), trigger.sighting.name());
        if !trigger.sighting.is_gone() {
            let object = informer.object(namespace, name);
            return Ok(object.map(|object| (trigger.clone().about(&object, spec), object)));
        }
        let path = ObjectPath { resource: informer.resource(), namespace, name };
        let present = self.context.cluster.get_object(path).await;
        let present = present
            .map_err(|error| format!("cannot read {}: {}", said(&trigger.sighting.key), chain(&error)))?;
        // It may exist, and no longer be selected.
        let present = present.filter(|present| trigger.sighting.is_of(present));
        let mut object = present.unwrap_or_else(|| {
            let since = Timestamp::from_second(trigger.since / 1000).unwrap_or_default().to_string();
            deleted_object(&spec.selection.api_version, &spec.selection.kind, namespace, name, &since)
        });
        informer.resource().add_kind(&mut object);
        Ok(Some((trigger.clone(), object)))
    }

    /// Write the status, and delete operations beyond the history limits.
    async fn conclude(
        &self,
        mut watch: Object,
        operations: &[Object],
        mut followed: Option<&mut Followed>,
        ending: Ending,
    ) -> Next {
        let written = Mark::of(&watch);
        let limits = WatchSpec::of(&watch).map(|spec| spec.limits);
        if let (Some(followed), Ok(limits)) = (&followed, limits) {
            let mut old = too_many(operations, limits);
            old.retain(|operation| followed.state.may_forget(&written, operation));
            if let Err(next) = self.children.forget(&watch, old).await {
                return next;
            }
        }
        let mut status = status_with(&watch, ending.conditions, &self.context.clock.now());
        let operations = self.children.of(&watch);
        report_operations(&mut status, &operations);
        report_last_creation(&mut status, &operations);
        let mut mark = None;
        if let Some(followed) = &mut followed {
            match followed.informer.as_ref().map_or(0, |informer| informer.len()) {
                0 => status.remove("watchingResources"),
                count => status.insert("watchingResources".to_owned(), count.into()),
            };
            mark = followed.state.mark(&written);
        }
        if let Some(mark) = &mark {
            status.insert("handled".to_owned(), mark.to_json());
        }
        if let Err(next) = write_status(&self.context.cluster, &self.watches, &mut watch, status).await {
            return next;
        }
        if let (Some(followed), Some(mark)) = (followed, &mark) {
            followed.state.written(mark);
        }
        ending.next
    }

    /// The milliseconds since 1970.
    fn now(&self) -> i64 {
        i64::try_from(self.context.clock.milliseconds()).unwrap_or(i64::MAX)
    }
}

/// The operation for a change, with the record of it.
fn noting(watch: &Object, object: &Object, note: &TriggerNote, name: &str) -> Object {
    let mut operation = operation_of_watch(watch, object, name);
    note.write(&mut operation);
    operation
}

/// Set when the last operation was created, even if it was deleted.
fn report_last_creation(status: &mut Object, operations: &[Object]) {
    let created = |operation: &Object| {
        let created =
            operation.get("metadata").and_then(|metadata| metadata.get("creationTimestamp")?.as_str());
        created.map(str::to_owned)
    };
    let written = status.get("lastScheduleTime").and_then(Value::as_str).map(str::to_owned);
    if let Some(time) = operations.iter().filter_map(created).chain(written).max() {
        status.insert("lastScheduleTime".to_owned(), time.into());
    }
}

/// The condition about creating operations.
fn synced(followed: &Followed) -> Condition {
    let stopped = followed.state.stopped();
    if stopped.is_empty() {
        return Condition::new(SYNCED, Status::True, "ReconcileSuccess");
    }
    let synced = Condition::new(SYNCED, Status::False, ERROR).with_message(looping(&stopped));
    synced.with_failure(Cause::WatchLoop.into())
}

/// The message about objects that their own operations keep changing.
fn looping(keys: &[impl AsRef<str>]) -> String {
    let names: Vec<_> = keys.iter().take(NAMES_LISTED).map(|key| said(key.as_ref())).collect();
    let more = match keys.len().saturating_sub(NAMES_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "Operations keep changing what triggered them: {}{more}; no Operation is created until another client changes it",
        names.join(", ")
    )
}

/// An object by its namespace and name, for people.
fn said(key: &str) -> String {
    format!("`{}`", key.trim_start_matches('/'))
}

/// Whether a user has changed the spec since the last reconcile.
fn is_edited(watch: &Object) -> bool {
    let conditions = watch.get("status").and_then(|status| status.get("conditions")).unwrap_or(&Value::Null);
    let looked_at = conditions_in(conditions).into_iter().find(|condition| condition.kind == SYNCED);
    looked_at.is_some_and(|condition| condition.observed_generation < meta::generation(watch))
}
