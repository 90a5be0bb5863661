//! Events about an object: reads them, and prints those that are new while a command waits for the object.

use std::collections::HashSet;

use anyhow::Context as _;
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Query, Resource};
use ferroplane_offline::times;
use jiff::Timestamp;
use serde_json::Value;

use crate::operations::created;
use crate::terminal::Terminal;

/// An event, as commands print it.
#[derive(Debug)]
pub(crate) struct ObjectEvent {
    pub(crate) time: String,
    kind: String,
    reason: String,
    message: String,
}

impl ObjectEvent {
    pub(crate) fn of(event: &Object) -> Self {
        let text = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let time =
            ["lastTimestamp", "eventTime", "firstTimestamp"].map(text).into_iter().find(|it| !it.is_empty());
        let time = time.unwrap_or_else(|| created(event).to_owned());
        Self { time, kind: text("type"), reason: text("reason"), message: text("message") }
    }

    /// The event with its local time and its age.
    pub(crate) fn line_with_age(&self, now: Timestamp) -> String {
        format!("{} {}", times::with_age_of(&self.time, now), self.text())
    }

    /// The event with its local time, for one that has just happened.
    fn line(&self) -> String {
        format!("{} {}", times::local_of(&self.time), self.text())
    }

    fn text(&self) -> String {
        let Self { kind, reason, message, .. } = self;
        let warning = if kind == "Warning" { "warning: " } else { "" };
        format!("{warning}{reason}: {message}")
    }
}

/// Read the events about an object, oldest first. The namespace is that of the object, and empty if it has none.
pub(crate) async fn events_about(
    object: &Object,
    namespace: &str,
    client: &ApiClient,
) -> anyhow::Result<Vec<ObjectEvent>> {
    let events = Resource {
        api_version: "v1".to_owned(),
        kind: "Event".to_owned(),
        plural: "events".to_owned(),
        is_namespaced: true,
    };
    let list = client.list_objects(&events, namespace, &Query::default()).await;
    let list = list.context("cannot list events")?;
    let is_about =
        |event: &&Object| event.get("involvedObject").is_some_and(|it| it["uid"] == meta::uid(object));
    let mut about: Vec<_> = list.iter().filter(is_about).map(ObjectEvent::of).collect();
    about.sort_by(|one, other| one.time.cmp(&other.time));
    Ok(about)
}

/// Prints each event about an object once. An event that happens again has another time, and is not printed again.
#[derive(Debug, Default)]
pub(crate) struct PrintedEvents(HashSet<(String, String)>);

impl PrintedEvents {
    /// Returns how many were new.
    pub(crate) fn print_new(&mut self, events: Vec<ObjectEvent>, terminal: &mut Terminal) -> usize {
        let before = self.0.len();
        for event in events {
            let line = event.line();
            if self.0.insert((event.reason, event.message)) {
                terminal.line(&line);
            }
        }
        self.0.len() - before
    }

    /// Whether some of these have not been printed.
    pub(crate) fn lacks(&self, events: &[ObjectEvent]) -> bool {
        events.iter().any(|event| !self.0.contains(&(event.reason.clone(), event.message.clone())))
    }
}
