//! Follows the objects of one kind and writes their statuses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, InformerScope, ObjectPath};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::kind::{SimulatedKind, StatusChange};
use super::requests::Requests;
use crate::up::follow::Followed;

/// The pause after the first failure. It doubles with each one that follows, up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Manages the objects of one kind.
pub(super) struct Controller {
    client: ApiClient,
    kind: Arc<SimulatedKind>,
    delay: Duration,
    objects: Followed,
    /// When something will be written, by key.
    due: BTreeMap<String, Instant>,
    /// What the API server did not take as it was meant, by key. To try it again would be to try it forever.
    given_up: BTreeMap<String, Attempt>,
    /// How many writes failed in a row that are tried again, by key.
    failures: BTreeMap<String, u32>,
}

/// What was tried for an object.
#[derive(Debug, Clone, PartialEq)]
struct Attempt {
    uid: String,
    generation: i64,
    requests: Requests,
}

impl Controller {
    /// Runs until the task is aborted.
    pub(super) fn start(client: &ApiClient, kind: Arc<SimulatedKind>, delay: Duration) -> JoinHandle<()> {
        let scope = InformerScope::new(kind.resource().clone().into());
        let objects = Followed::start(client, scope);
        let (sender, changed) = unbounded_channel();
        objects.informer().listen(move |_, change| {
            let _ = sender.send(change.header().key());
        });
        let (due, given_up, failures) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let controller = Self { client: client.clone(), kind, delay, objects, due, given_up, failures };
        tokio::spawn(controller.run(changed))
    }

    async fn run(mut self, mut changed: UnboundedReceiver<String>) {
        loop {
            let first =
                self.due.iter().min_by_key(|(_, time)| **time).map(|(key, time)| (key.clone(), *time));
            // Never slept until if nothing is due: the branch below is off then.
            let (key, time) = first.clone().unwrap_or_else(|| (String::new(), Instant::now()));
            tokio::select! {
                biased;
                key = changed.recv() => match key {
                    Some(key) => self.reconcile(key).await,
                    None => return,
                },
                () = tokio::time::sleep_until(time), if first.is_some() => self.finish(key).await,
            }
        }
    }

    async fn reconcile(&mut self, key: String) {
        let Some(object) = self.object(&key) else {
            self.due.remove(&key);
            self.given_up.remove(&key);
            self.failures.remove(&key);
            return;
        };
        match self.next(&key, &object) {
            StatusChange::Rest => drop(self.due.remove(&key)),
            StatusChange::Write(status) => self.write(key, &object, status).await,
            // What changes again meanwhile is finished no later.
            StatusChange::WriteAfter(delay, _) => {
                let time = Instant::now() + delay;
                self.due.entry(key).and_modify(|due| *due = time.min(*due)).or_insert(time);
            }
        }
    }

    async fn finish(&mut self, key: String) {
        self.due.remove(&key);
        let Some(object) = self.object(&key) else { return };
        if let StatusChange::Write(status) | StatusChange::WriteAfter(_, status) = self.next(&key, &object) {
            self.write(key, &object, status).await;
        }
    }

    fn object(&self, key: &str) -> Option<Object> {
        let informer = self.objects.informer();
        informer.to_object(&informer.get_by_key(key)?)
    }

    fn next(&self, key: &str, object: &Object) -> StatusChange {
        match self.given_up.get(key) {
            Some(attempt) if *attempt == self.attempt(object) => StatusChange::Rest,
            _ => self.kind.next(object, self.delay, &now()),
        }
    }

    fn attempt(&self, object: &Object) -> Attempt {
        let requests = self.kind.requests(object);
        Attempt { uid: meta::uid(object).to_owned(), generation: meta::generation(object), requests }
    }

    /// Writes the status of an object, if it still is as it was read.
    async fn write(&mut self, key: String, object: &Object, status: Object) {
        let resource = self.kind.resource();
        let (kind, name) = (resource.kind.as_str(), meta::name(object));
        let target = ObjectPath { resource, namespace: meta::namespace(object), name };
        let changes = patch(object, &status);
        let written = self.client.merge(target, self.kind.subresource, &changes).await;
        let failures = self.failures.remove(&key).unwrap_or_default();
        match written {
            Ok(answer) if is_status(&answer, &status) => debug!(kind, name, "simulated a status"),
            // The schema of the kind dropped or changed something. The next write would have the same result, and wake us again.
            Ok(_) => drop(self.given_up.insert(key, self.attempt(object))),
            // A user who changed or deleted it meanwhile makes it be checked again.
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) if is_final(&error) => {
                warn!(kind, name, %error, "cannot simulate a status; simulate.ferroplane.io/status can add fields to it");
                self.given_up.insert(key, self.attempt(object));
            }
            Err(error) => {
                if failures == 0 {
                    warn!(kind, name, %error, "cannot simulate a status yet; trying again");
                }
                // Bounded before shifting: there may be any number of failures.
                let pause = PAUSE * (1 << failures.min(8));
                self.due.insert(key.clone(), Instant::now() + pause.min(LONGEST_PAUSE));
                self.failures.insert(key, failures + 1);
            }
        }
    }
}

/// Whether the API server refuses the status itself, so that it would refuse it again.
fn is_final(error: &Error) -> bool {
    let is_refusal = |code: u16| (400..500).contains(&code) && ![408, 409, 429].contains(&code);
    matches!(error, Error::InvalidPath(_)) || error.code().is_some_and(is_refusal)
}

/// The merge patch that sets the status of an object. Fields to remove are null.
fn patch(object: &Object, status: &Object) -> Value {
    let mut wanted: Object = status.clone();
    let present = object.get("status").and_then(Value::as_object);
    for field in present.into_iter().flat_map(Object::keys) {
        wanted.entry(field.clone()).or_insert(Value::Null);
    }
    json!({"metadata": {"resourceVersion": meta::resource_version(object)}, "status": wanted})
}

/// Whether the API server has taken a status as it was meant.
fn is_status(answer: &Bytes, status: &Object) -> bool {
    let answer: Result<Object, _> = serde_json::from_slice(answer);
    answer.is_ok_and(|answer| answer.get("status").and_then(Value::as_object) == Some(status))
}

/// Without fractions, as Kubernetes writes it.
fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
