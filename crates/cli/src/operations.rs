//! Operations on a control plane: reads them, makes them, and waits until they are done.

use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{ApiClient, ObjectPath, Propagation, Query, Resource};
use ferroplane_engine::operation::{Standing, standing};
use serde_json::Value;

use crate::Verdict;
use crate::client::Access;
use crate::follow::{Followed, follow};
use crate::interrupt::Interrupts;
use crate::object_events::{ObjectEvent, events_about};
use crate::terminal::Terminal;

/// The operations of a control plane.
pub(crate) struct Operations {
    client: ApiClient,
    server: String,
}

impl Operations {
    pub(crate) fn connect(access: &Access) -> anyhow::Result<Self> {
        let connection = access.connect()?;
        Ok(Self { client: connection.client, server: connection.server })
    }

    /// An object of the group, which must be there.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> anyhow::Result<Object> {
        self.find(kind, name).await?.with_context(|| format!("there is no {kind} `{name}`"))
    }

    async fn find(&self, kind: &str, name: &str) -> anyhow::Result<Option<Object>> {
        let resource = resource(kind);
        let path = ObjectPath { resource: &resource, namespace: "", name };
        let found = self.client.get_object(path).await;
        let mut found = found.with_context(|| format!("cannot read {kind} `{name}` from {}", self.server))?;
        if let Some(found) = &mut found {
            resource.add_kind(found);
        }
        Ok(found)
    }

    pub(crate) async fn list(&self) -> anyhow::Result<Vec<Object>> {
        let list = self.client.list_objects(&resource("Operation"), "", &Query::default()).await;
        let mut list = list.with_context(|| format!("cannot list Operations of {}", self.server))?;
        list.sort_by_cached_key(|it| (created(it).to_owned(), meta::name(it).to_owned()));
        Ok(list)
    }

    /// Create an operation. Returns it as it was created.
    pub(crate) async fn create(&self, operation: &Object) -> anyhow::Result<Object> {
        match self.client.create(&resource("Operation"), "", operation).await {
            Ok(bytes) => serde_json::from_slice(&bytes).context("cannot read the response"),
            Err(error) if error.is_already_exists() => bail!(
                "Operation `{}` exists already, and an operation runs once: `ferroplane operation retry` runs it again under another name",
                meta::name(operation)
            ),
            Err(error) => Err(error).context("cannot create the Operation"),
        }
    }

    pub(crate) async fn delete(&self, operation: &Object) -> anyhow::Result<()> {
        let (resource, name) = (resource("Operation"), meta::name(operation));
        let path = ObjectPath { resource: &resource, namespace: "", name };
        let deleted = self.client.delete(path, Some(meta::uid(operation)), Propagation::Background).await;
        deleted.map(drop).with_context(|| format!("cannot delete Operation `{name}`"))
    }

    /// The events about an operation, oldest first.
    pub(crate) async fn events(&self, operation: &Object) -> anyhow::Result<Vec<ObjectEvent>> {
        events_about(operation, "", &self.client).await
    }

    /// Wait until an operation is done, and print its new events meanwhile. An interrupt stops the waiting, and not the operation.
    pub(crate) async fn follow(
        &self,
        created: &Object,
        timeout: Duration,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        let mut interrupts = Interrupts::listen().context("cannot listen for signals")?;
        let followed = CreatedOperation { operations: self, created };
        let interrupted = tokio::select! {
            result = follow(&followed, timeout, terminal) => return result,
            verdict = interrupts.next() => verdict,
        };
        let name = meta::name(created);
        terminal.note(&format!(
            "Operation `{name}` continues to run; `ferroplane operation cancel {name}` stops it"
        ));
        Ok(interrupted)
    }
}

/// An operation that this command has created.
struct CreatedOperation<'a> {
    operations: &'a Operations,
    created: &'a Object,
}

impl Followed for CreatedOperation<'_> {
    fn subject(&self) -> String {
        format!("Operation `{}`", meta::name(self.created))
    }

    async fn read(&self) -> anyhow::Result<Option<(Object, Vec<ObjectEvent>)>> {
        // One of the same name may have been created since.
        let found = self.operations.find("Operation", meta::name(self.created)).await?;
        let Some(operation) = found.filter(|found| meta::uid(found) == meta::uid(self.created)) else {
            return Ok(None);
        };
        let events = self.operations.events(&operation).await?;
        Ok(Some((operation, events)))
    }

    fn is_done(&self, operation: &Object) -> bool {
        standing(operation) != Standing::Running
    }

    fn conclude(&self, operation: &Object, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        conclude(operation, terminal)
    }

    fn still_runs(&self, operation: &Object, timeout: Duration) -> String {
        still_runs(operation, timeout)
    }
}

/// The message about an operation that still runs after the timeout.
fn still_runs(operation: &Object, timeout: Duration) -> String {
    let (name, seconds) = (meta::name(operation), timeout.as_secs());
    if meta::annotation(operation, keys::PAUSED) == "true" {
        return format!(
            "Operation `{name}` is paused by the annotation `{}`: it runs once that is removed",
            keys::PAUSED
        );
    }
    if operation.get("status").is_none() {
        return format!(
            "no controller has reconciled Operation `{name}` for {seconds}s: does the control plane run operations? `ferroplane start` does with --enable-operations"
        );
    }
    format!(
        "Operation `{name}` still runs after {seconds}s; `ferroplane operation logs {name}` shows its events and outputs"
    )
}

/// Print what became of an operation.
fn conclude(operation: &Object, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    let name = meta::name(operation);
    terminal.text(&outputs(operation))?;
    if standing(operation) == Standing::Failed {
        terminal.failure(&format!("Operation `{name}` failed: {}", message(operation)));
        return Ok(Verdict::No);
    }
    let applied = operation.get("status").and_then(|status| status.get("appliedResourceRefs")?.as_array());
    let objects = match applied.map_or(0, Vec::len) {
        1 => "1 object".to_owned(),
        count => format!("{count} objects"),
    };
    terminal.line(&format!("Operation `{name}` succeeded, and applied {objects}"));
    Ok(Verdict::Yes)
}

/// What the steps of an operation put out, a line of JSON for each.
pub(crate) fn outputs(operation: &Object) -> String {
    let steps = operation.get("status").and_then(|status| status.get("pipeline")?.as_array());
    let line = |step: &Value| format!("{}: {}\n", step["step"].as_str().unwrap_or_default(), step["output"]);
    steps.into_iter().flatten().map(line).collect()
}

/// Why an operation stands as it does.
pub(crate) fn message(operation: &Object) -> String {
    let conditions = operation.get("status").and_then(|status| status.get("conditions")?.as_array());
    let mut conditions = conditions.into_iter().flatten();
    let succeeded = conditions.find(|condition| condition["type"] == "Succeeded");
    succeeded.and_then(|condition| condition["message"].as_str()).unwrap_or_default().to_owned()
}

/// When an object was created, in RFC 3339.
pub(crate) fn created(object: &Object) -> &str {
    let created = object.get("metadata").and_then(|metadata| metadata.get("creationTimestamp")?.as_str());
    created.unwrap_or_default()
}

fn resource(kind: &str) -> Resource {
    Resource {
        api_version: format!("{}/v1alpha1", keys::OPS),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        is_namespaced: false,
    }
}
