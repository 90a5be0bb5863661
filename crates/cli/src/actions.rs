//! ActionSets on a control plane: reads them, makes them, and waits until they are done.

pub(crate) mod spec;
pub(crate) mod targets;

use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, ObjectPath, Resource, Subresource};
use serde_json::{Value, json};

use crate::Verdict;
use crate::client::Access;
use crate::follow::{Followed, follow};
use crate::object_events::{ObjectEvent, events_about};
use crate::terminal::Terminal;

/// The API of Blueprints and ActionSets.
pub(crate) const API_VERSION: &str = "cr.kanister.io/v1alpha1";
/// Ends an ActionSet that runs.
const CANCEL: &str = "ferroplane.io/cancel";

/// The ActionSets in a namespace of a control plane.
pub(crate) struct ActionSets {
    pub(crate) client: ApiClient,
    server: String,
    pub(crate) namespace: String,
}

impl ActionSets {
    pub(crate) fn connect(access: &Access, namespace: Option<&str>) -> anyhow::Result<Self> {
        let connection = access.connect()?;
        let namespace = namespace.map_or(connection.namespace, str::to_owned);
        Ok(Self { client: connection.client, server: connection.server, namespace })
    }

    /// An object of the group, which must be there.
    pub(crate) async fn get(&self, kind: &str, name: &str) -> anyhow::Result<Object> {
        let resource = resource(kind);
        let path = ObjectPath { resource: &resource, namespace: &self.namespace, name };
        let found = self.client.get_object(path).await;
        let found = found.with_context(|| format!("cannot read {kind} `{name}` from {}", self.server))?;
        let mut found = found
            .with_context(|| format!("there is no {kind} `{name}` in namespace `{}`", self.namespace))?;
        resource.add_kind(&mut found);
        Ok(found)
    }

    /// Create an ActionSet. Returns its name.
    pub(crate) async fn create(&self, action_set: &Object) -> anyhow::Result<String> {
        match self.client.create(&resource("ActionSet"), &self.namespace, action_set).await {
            Ok(bytes) => {
                let created: Object = serde_json::from_slice(&bytes).context("cannot read the response")?;
                Ok(meta::name(&created).to_owned())
            }
            Err(error) if error.is_already_exists() => bail!(
                "ActionSet `{}` exists already, and an ActionSet runs once: choose another --name, or leave it out",
                meta::name(action_set)
            ),
            Err(error) => Err(error).context("cannot create the ActionSet"),
        }
    }

    /// End an ActionSet that runs. Its deferred phases still run.
    pub(crate) async fn cancel(&self, name: &str) -> anyhow::Result<()> {
        let resource = resource("ActionSet");
        let path = ObjectPath { resource: &resource, namespace: &self.namespace, name };
        let change = json!({"metadata": {"annotations": {CANCEL: "true"}}});
        let changed = self.client.merge(path, Subresource::None, &change).await;
        changed.map(drop).with_context(|| format!("cannot cancel ActionSet `{name}`"))
    }

    /// The events about an ActionSet, oldest first.
    pub(crate) async fn events(&self, action_set: &Object) -> anyhow::Result<Vec<ObjectEvent>> {
        events_about(action_set, &self.namespace, &self.client).await
    }

    /// Wait until an ActionSet has ended, and print its new events meanwhile.
    pub(crate) async fn follow(
        &self,
        name: &str,
        timeout: Duration,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        // A server that has never answered is not waited for: its address may be wrong.
        terminal.wait_for_server(self.get("ActionSet", name)).await?;
        follow(&NamedActionSet { action_sets: self, name }, timeout, terminal).await
    }
}

/// An ActionSet that is followed.
struct NamedActionSet<'a> {
    action_sets: &'a ActionSets,
    name: &'a str,
}

impl Followed for NamedActionSet<'_> {
    fn subject(&self) -> String {
        format!("ActionSet `{}`", self.name)
    }

    async fn read(&self) -> anyhow::Result<Option<(Object, Vec<ObjectEvent>)>> {
        let action_set = self.action_sets.get("ActionSet", self.name).await?;
        let events = self.action_sets.events(&action_set).await?;
        Ok(Some((action_set, events)))
    }

    fn is_done(&self, action_set: &Object) -> bool {
        matches!(state(action_set), "complete" | "failed")
    }

    fn conclude(&self, action_set: &Object, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        conclude(action_set, terminal)
    }

    fn still_runs(&self, _: &Object, timeout: Duration) -> String {
        format!("ActionSet `{}` still runs after {}s", self.name, timeout.as_secs())
    }
}

/// How far an ActionSet is: `pending`, `running`, `failed` or `complete`.
pub(crate) fn state(action_set: &Object) -> &str {
    let state = action_set.get("status").and_then(|status| status["state"].as_str());
    state.filter(|state| !state.is_empty()).unwrap_or("pending")
}

fn conclude(action_set: &Object, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    terminal.text(&phases(action_set))?;
    let name = meta::name(action_set);
    if state(action_set) == "complete" {
        terminal.line(&format!("ActionSet `{name}` is complete"));
        return Ok(Verdict::Yes);
    }
    terminal.failure(&format!("ActionSet `{name}` failed: {}", error(action_set)));
    Ok(Verdict::No)
}

fn error(action_set: &Object) -> &str {
    action_set.get("status").and_then(|status| status["error"]["message"].as_str()).unwrap_or_default()
}

/// Every phase of an ActionSet in a line: what it called, in which version, how far it is, and what it put out.
pub(crate) fn phases(action_set: &Object) -> String {
    let actions = action_set.get("status").and_then(|status| status["actions"].as_array());
    let mut text = String::new();
    for action in actions.into_iter().flatten() {
        let phases = action["phases"].as_array().into_iter().flatten();
        let deferred = action.get("deferPhase").filter(|phase| !name_of(phase).is_empty());
        for phase in phases.chain(deferred) {
            text.push_str(&phase_line(name_of(action), phase));
        }
    }
    text
}

fn phase_line(action: &str, phase: &Value) -> String {
    let function = &phase["function"];
    let called = match (function["name"].as_str(), function["version"].as_str()) {
        (Some(name), Some(version)) => format!(" ({name} {version})"),
        _ => String::new(),
    };
    let state = phase["state"].as_str().unwrap_or("pending");
    let output =
        match phase.get("output").filter(|output| output.as_object().is_some_and(|it| !it.is_empty())) {
            Some(output) => format!(": {output}"),
            None => String::new(),
        };
    format!("{action}/{}{called} {state}{output}\n", name_of(phase))
}

fn name_of(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

pub(crate) fn resource(kind: &str) -> Resource {
    Resource {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        is_namespaced: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_told_with_function_version_state_and_output() {
        let action_set = json!({"status": {"actions": [{"name": "backup", "phases": [
            {"name": "stop", "state": "complete", "function": {"name": "ScaleWorkload", "version": "v0.1.0"},
             "output": {"originalReplicaCount": "3"}},
            {"name": "copy", "state": "pending"},
        ], "deferPhase": {"name": "start", "state": "running"}}, {"name": "other", "phases": [], "deferPhase": {"name": ""}}]}});
        assert_eq!(
            phases(action_set.as_object().unwrap()),
            "backup/stop (ScaleWorkload v0.1.0) complete: {\"originalReplicaCount\":\"3\"}\nbackup/copy pending\n\
             backup/start running\n"
        );
    }

    #[test]
    fn action_set_without_status_is_pending() {
        assert_eq!(state(&Object::new()), "pending");
    }
}
