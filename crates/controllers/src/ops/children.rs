//! The operations of a `CronOperation` or `WatchOperation`: finds, creates and deletes them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::{Cause, Object, meta};
use ferroplane_client::{Change, Error, Informer, ObjectPath, Propagation};
use ferroplane_engine::chain;
use ferroplane_engine::operation::{Standing, standing, succeeded_at};
use serde_json::{Value, json};
use tracing::warn;

use crate::context::Context;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};
use crate::runtime::refused::cause_of;

/// The operations of all parents of one kind.
pub(super) struct Children {
    context: Arc<Context>,
    recorder: Recorder,
    operations: Arc<Informer>,
    /// The label that has the name of the parent.
    label: &'static str,
    /// The names of operations, by the names of their parents: otherwise all operations would have to be searched.
    names: Mutex<HashMap<String, BTreeSet<String>>>,
    /// The names of operations that may or may not have been created, by the names of their parents.
    doubtful: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl Children {
    pub(super) fn new(
        context: Arc<Context>,
        recorder: Recorder,
        operations: Arc<Informer>,
        label: &'static str,
    ) -> Arc<Self> {
        let (names, doubtful) = (Mutex::default(), Mutex::default());
        Arc::new(Self { context, recorder, operations, label, names, doubtful })
    }

    /// Requeue a parent whenever one of its operations changes.
    pub(super) fn listen(self: &Arc<Self>, queue: &Queue<String>) {
        let (children, queue) = (Arc::downgrade(self), queue.clone());
        self.operations.listen(move |_, change| {
            let (Some(children), header) = (children.upgrade(), change.header()) else { return };
            let Some(parent) = header.label(children.label) else { return };
            children.index(parent, &header.metadata.name, matches!(change, Change::Deleted { .. }));
            queue.add(parent.to_owned());
        });
    }

    fn index(&self, parent: &str, name: &str, is_gone: bool) {
        let mut all = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_gone {
            all.entry(parent.to_owned()).or_default().insert(name.to_owned());
        } else if let Some(names) = all.get_mut(parent) {
            names.remove(name);
            if names.is_empty() {
                all.remove(parent);
            }
        }
    }

    /// Wait until all operations are cached: otherwise one that exists could be created again.
    pub(super) async fn synced(&self) {
        self.operations.synced().await;
    }

    /// The operations of a parent. Those of another one of the same name are not its own.
    pub(super) fn of(&self, parent: &Object) -> Vec<Object> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let names = names.get(meta::name(parent)).cloned().unwrap_or_default();
        let operations = names.iter().filter_map(|name| self.operations.object("", name));
        let is_own = |operation: &Object| meta::controller_uid(operation) == Some(meta::uid(parent));
        operations.filter(is_own).collect()
    }

    /// The operation of this name on the API server, whatever created it.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Object>, Error> {
        self.context.cluster.get_object(self.path(name)).await
    }

    /// Find out whether operations were created whose creation is uncertain. Nothing may be decided before that: the watch may be late.
    /// The error is how to requeue if that fails.
    pub(super) async fn settle(&self, parent: &Object) -> Result<(), Next> {
        for name in &self.doubts(meta::name(parent)) {
            match self.context.cluster.get(self.path(name)).await {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    self.operations.insert_written(&bytes);
                    self.index(meta::name(parent), name, false);
                }
                Err(error) => {
                    warn!(name, error = chain(&error), "cannot find out whether an operation was created");
                    return Err(Next::Retry);
                }
            }
        }
        self.forget_doubts(meta::name(parent));
        Ok(())
    }

    /// A parent was deleted, or all of its operations are certain.
    pub(super) fn forget_doubts(&self, parent: &str) {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner).remove(parent);
    }

    fn doubts(&self, parent: &str) -> BTreeSet<String> {
        let doubtful = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner);
        doubtful.get(parent).cloned().unwrap_or_default()
    }

    fn doubt(&self, parent: &str, name: &str) {
        let mut doubtful = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner);
        doubtful.entry(parent.to_owned()).or_default().insert(name.to_owned());
    }

    pub(super) async fn create(&self, parent: &Object, operation: &Object) -> Result<Object, Error> {
        let created = self.context.cluster.create(self.operations.resource(), "", operation).await;
        let bytes = created.inspect_err(|error| {
            // An existing one may be ours, before its watch event arrived.
            if error.is_inconclusive() || error.is_already_exists() {
                self.doubt(meta::name(parent), meta::name(operation));
            }
        })?;
        // Before its watch event arrives: the next reconcile must not assume that nothing runs.
        self.operations.insert_written(&bytes);
        self.index(meta::name(parent), meta::name(operation), false);
        Ok(serde_json::from_slice(&bytes).unwrap_or_else(|_| operation.clone()))
    }

    /// Record that an operation cannot be created. Returns the message.
    pub(super) fn not_created(&self, parent: &Object, operation: &str, error: &Error) -> String {
        let message = format!("cannot create Operation `{operation}`: {}", chain(error));
        self.recorder.failure(parent, "CreateOperation", &message, Cause::OperationNotCreated);
        message
    }

    /// Delete an operation. The error is how to requeue if that fails.
    pub(super) async fn delete(
        &self,
        parent: &Object,
        name: &str,
        uid: Option<&str>,
        reason: &str,
    ) -> Result<(), Next> {
        match self.context.cluster.delete(self.path(name), uid, Propagation::Background).await {
            // Another operation of the same name has replaced it.
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                let message = format!("cannot delete Operation `{name}`: {}", chain(&error));
                self.recorder.failure(parent, reason, message, cause_of(&error));
                Err(Next::Retry)
            }
            _ => Ok(()),
        }
    }

    /// Delete finished operations beyond the history limits.
    pub(super) async fn forget(&self, parent: &Object, operations: Vec<&Object>) -> Result<(), Next> {
        for operation in operations {
            let (name, uid) = (meta::name(operation), meta::uid(operation));
            self.delete(parent, name, Some(uid), "GarbageCollectOperations").await?;
        }
        Ok(())
    }

    fn path<'a>(&'a self, name: &'a str) -> ObjectPath<'a> {
        ObjectPath { resource: self.operations.resource(), namespace: "", name }
    }
}

/// Set which operations run, and when one last succeeded, in a status.
pub(super) fn report_operations(status: &mut Object, operations: &[Object]) {
    let running = operations.iter().filter(|operation| standing(operation) == Standing::Running);
    let mut running: Vec<_> = running.map(meta::name).collect();
    running.sort_unstable();
    let references: Vec<_> = running.iter().map(|name| json!({"name": name})).collect();
    if references.is_empty() {
        status.remove("runningOperationRefs");
    } else {
        status.insert("runningOperationRefs".to_owned(), references.into());
    }
    let written = status.get("lastSuccessfulTime").and_then(Value::as_str).map(str::to_owned);
    if let Some(time) = operations.iter().filter_map(succeeded_at).chain(written).max() {
        status.insert("lastSuccessfulTime".to_owned(), time.into());
    }
}
