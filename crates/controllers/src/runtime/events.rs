//! Records events about objects, which `kubectl describe` shows.
//!
//! # Invariants
//! * Nothing waits for an event to be written, and nothing fails because of one: if there are too many, some are dropped and counted.
//! * The same event is written again only after a while, with an increased count.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferroplane_api::{FailurePoint, Object, keys, meta};
use ferroplane_client::{ApiClient, ObjectPath, Resource, Subresource};
use ferroplane_engine::EventKind;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::debug;

use crate::runtime::clock::Clock;

/// How many events may wait to be written.
const WAITING: usize = 4096;
/// How many are written at the same time.
const WRITERS: usize = 4;
/// The same event is not written again before this time.
const REPEAT_AFTER: Duration = Duration::from_mins(5);
/// How many different events about an object may be written in a row, and after what time one more may be.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(12);
/// How many events and objects are remembered.
const REMEMBERED: usize = 8192;

/// Something that happened to an object.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) about: About,
    pub(crate) kind: EventKind,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The cause, if it reports a failure.
    pub(crate) failure: Option<FailurePoint>,
}

/// The object of an event.
#[derive(Debug, Clone)]
pub(crate) struct About {
    reference: Value,
    namespace: String,
    name: String,
}

impl About {
    pub(crate) fn new(object: &Object) -> Self {
        let (namespace, name) = (meta::namespace(object), meta::name(object));
        let mut reference = json!({
            "apiVersion": meta::api_version(object), "kind": meta::kind(object), "name": name, "uid": meta::uid(object),
            // With the version, as client-go's references have it: events outlive the state that they are about.
            "resourceVersion": meta::resource_version(object),
        });
        if !namespace.is_empty() {
            reference["namespace"] = namespace.into();
        }
        Self { reference, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Writes events in the background. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    sender: mpsc::Sender<(Event, Arc<str>)>,
    lost: Arc<AtomicU64>,
    component: Arc<str>,
}

impl Recorder {
    /// A recorder that writes as long as it or a clone of it exists.
    pub(crate) fn start(cluster: ApiClient, clock: Clock) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        tokio::spawn(Scribe { cluster, clock, said: HashMap::new(), budgets: HashMap::new() }.run(receiver));
        Self { sender, lost, component: "ferroplane".into() }
    }

    /// The same recorder with another source.
    pub(crate) fn of(&self, component: &str) -> Self {
        Self { component: component.into(), ..self.clone() }
    }

    /// Record an event.
    pub(crate) fn say(&self, event: Event) {
        // Never waits: many events must not slow down a reconcile.
        if self.sender.try_send((event, self.component.clone())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn normal(&self, object: &Object, reason: &str, message: impl Into<String>) {
        let (about, message) = (About::new(object), message.into());
        self.say(Event { about, kind: EventKind::Normal, reason: reason.to_owned(), message, failure: None });
    }

    pub(crate) fn warning(&self, object: &Object, reason: &str, message: impl Into<String>) {
        let (about, message) = (About::new(object), message.into());
        self.say(Event {
            about,
            kind: EventKind::Warning,
            reason: reason.to_owned(),
            message,
            failure: None,
        });
    }

    /// A warning that something failed.
    pub(crate) fn failure(
        &self,
        object: &Object,
        reason: &str,
        message: impl Into<String>,
        failure: impl Into<FailurePoint>,
    ) {
        let (about, message, failure) = (About::new(object), message.into(), Some(failure.into()));
        self.say(Event { about, kind: EventKind::Warning, reason: reason.to_owned(), message, failure });
    }
}

type Digest = [u8; 32];

struct Scribe {
    cluster: ApiClient,
    clock: Clock,
    said: HashMap<Digest, WrittenEvent>,
    /// How many more events may be written about each object.
    budgets: HashMap<String, (u32, Instant)>,
}

/// An event that was written before.
struct WrittenEvent {
    name: String,
    count: u64,
    at: Instant,
}

/// An event to write.
enum PendingEvent {
    New(Object),
    /// With the event itself, in case it was deleted.
    Again {
        name: String,
        patch: Value,
        event: Object,
    },
}

impl Scribe {
    async fn run(mut self, mut receiver: mpsc::Receiver<(Event, Arc<str>)>) {
        let mut writing = tokio::task::JoinSet::new();
        while let Some((event, component)) = receiver.recv().await {
            let namespace = match event.about.namespace.as_str() {
                // Events have a namespace. Those about objects without one are in `default`, where kubectl looks for them.
                "" => "default".to_owned(),
                namespace => namespace.to_owned(),
            };
            let Some(entry) = self.entry(event, &component, &namespace) else { continue };
            // Backpressure ends here: while all writers are busy nothing is received, and events that do not fit
            // into the channel are dropped.
            if writing.len() >= WRITERS {
                writing.join_next().await;
            }
            writing.spawn(write(self.cluster.clone(), namespace, entry));
        }
        while writing.join_next().await.is_some() {}
    }

    /// The event to write, unless it was written before or there are too many about the object.
    fn entry(&mut self, event: Event, component: &str, namespace: &str) -> Option<PendingEvent> {
        let now = Instant::now();
        let time = self.clock.now();
        let digest = digest(&event, component);
        if let Some(said) = self.said.get_mut(&digest) {
            // A reconcile that fails every few seconds would write as often; the count shows that it still happens.
            if now.duration_since(said.at) < REPEAT_AFTER {
                return None;
            }
            (said.count, said.at) = (said.count + 1, now);
            let (name, count) = (said.name.clone(), said.count);
            // A patch without the version: only we write our events, and a conflict would have to be read and tried
            // again.
            let patch = json!({"count": count, "lastTimestamp": time});
            let event = written(event, component, namespace, (&name, &time, count))?;
            return Some(PendingEvent::Again { name, patch, event });
        }
        if !self.is_within_budget(&event, now) {
            return None;
        }
        let name = name(&event.about.name, &digest, &time);
        self.said.insert(digest, WrittenEvent { name: name.clone(), count: 1, at: now });
        // Only when something is added, so that memory is bounded without a timer.
        self.tidy();
        written(event, component, namespace, (&name, &time, 1)).map(PendingEvent::New)
    }

    fn is_within_budget(&mut self, event: &Event, now: Instant) -> bool {
        let uid = event.about.reference["uid"].as_str().unwrap_or_default().to_owned();
        let (left, since) = self.budgets.entry(uid).or_insert((BURST, now));
        // A token bucket in whole tokens, like client-go's spam filter, so that one object cannot crowd out all others.
        let refills = now.duration_since(*since).as_secs() / REFILL.as_secs();
        if refills > 0 {
            *left = left.saturating_add(u32::try_from(refills).unwrap_or(BURST)).min(BURST);
            *since = now;
        }
        let is_within_budget = *left > 0;
        *left = left.saturating_sub(1);
        is_within_budget
    }

    /// Remove old entries, rather too many than too few.
    fn tidy(&mut self) {
        let now = Instant::now();
        if self.said.len() > REMEMBERED {
            self.said.retain(|_, said| now.duration_since(said.at) < REPEAT_AFTER);
        }
        if self.said.len() > REMEMBERED {
            self.said.clear();
        }
        if self.budgets.len() > REMEMBERED {
            self.budgets
                .retain(|_, (left, since)| *left < BURST && now.duration_since(*since) < REPEAT_AFTER);
        }
        if self.budgets.len() > REMEMBERED {
            self.budgets.clear();
        }
    }
}

async fn write(cluster: ApiClient, namespace: String, entry: PendingEvent) {
    let events = Resource {
        api_version: "v1".to_owned(),
        kind: "Event".to_owned(),
        plural: "events".to_owned(),
        is_namespaced: true,
    };
    let result = match &entry {
        PendingEvent::New(event) => cluster.create(&events, &namespace, event).await,
        PendingEvent::Again { name, patch, event } => {
            let target = ObjectPath { resource: &events, namespace: &namespace, name };
            match cluster.merge(target, Subresource::None, patch).await {
                // API servers delete events after an hour. An event that happens again must be written again.
                Err(error) if error.is_not_found() => cluster.create(&events, &namespace, event).await,
                result => result,
            }
        }
    };
    if let Err(error) = result {
        // Not a warning: an API server that is down would fill the log with events that were not written.
        debug!(error = &error as &dyn std::error::Error, "cannot write an event");
    }
}

/// The event as it is stored, with this name, time and count.
fn written(
    event: Event,
    component: &str,
    namespace: &str,
    (name, time, count): (&str, &str, u64),
) -> Option<Object> {
    let mut metadata = json!({"name": name, "namespace": namespace});
    if let Some(failure) = &event.failure {
        metadata["annotations"] = annotations(failure);
    }
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": metadata,
        "involvedObject": event.about.reference, "type": event.kind.as_str(), "reason": event.reason,
        "message": shortened(event.message), "source": {"component": component}, "reportingComponent": component,
        "reportingInstance": "", "firstTimestamp": time, "lastTimestamp": time, "count": count,
    });
    match event {
        Value::Object(event) => Some(event),
        _ => None,
    }
}

/// Annotations for programs, which do not read the message.
fn annotations(failure: &FailurePoint) -> Value {
    let mut annotations = json!({keys::CAUSE: failure.cause.code()});
    for (key, name) in [(keys::STEP, &failure.step), (keys::RESOURCE, &failure.resource)] {
        if !name.is_empty() {
            annotations[key] = name.as_str().into();
        }
    }
    annotations
}

fn digest(event: &Event, component: &str) -> Digest {
    let mut digest = Sha256::new();
    let uid = event.about.reference["uid"].as_str().unwrap_or_default();
    for part in [component, uid, &event.about.name, event.kind.as_str(), &event.reason, &event.message] {
        // With its length, so that two events whose parts are split differently have different digests.
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

/// A unique name.
fn name(object: &str, digest: &Digest, time: &str) -> String {
    let hash = Sha256::new().chain_update(digest).chain_update(time).finalize();
    // With the time in it: after a restart nothing is remembered, and the name of the last event of this kind
    // exists.
    let suffix = ferroplane_wire::to_hex(&hash[..8]);
    let mut object = object.to_owned();
    // The longest name that an API server takes, less the dot.
    object.truncate(object.floor_char_boundary(253 - 1 - suffix.len()));
    format!("{object}.{suffix}")
}

/// The message within the limit of the API server.
fn shortened(mut message: String) -> String {
    const LONGEST: usize = 1024;
    if message.len() > LONGEST {
        message.truncate(message.floor_char_boundary(LONGEST - 3));
        message.push_str("...");
    }
    message
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::sync::{Mutex, PoisonError};
    use std::task::{Context, Poll};

    use http::{Method, Request, Response, StatusCode};
    use kube::client::Body;
    use tower_service::Service;

    use super::*;

    /// An API server that has no events, and takes new ones. Keeps what it was asked.
    #[derive(Clone, Default)]
    struct ForgetfulServer(Arc<Mutex<Vec<Method>>>);

    impl Service<Request<Body>> for ForgetfulServer {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let (code, answer) = match *request.method() {
                Method::POST => (StatusCode::CREATED, "{}"),
                _ => (StatusCode::NOT_FOUND, r#"{"kind":"Status","code":404,"reason":"NotFound"}"#),
            };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request.method().clone());
            let mut response = Response::new(Body::from(answer.as_bytes().to_vec()));
            *response.status_mut() = code;
            ready(Ok(response))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn event_that_the_server_has_deleted_is_written_anew_when_it_happens_again() {
        let server = ForgetfulServer::default();
        let cluster = ApiClient::new(kube::Client::new(server.clone(), "default"));
        let mut scribe =
            Scribe { cluster, clock: Clock::system(), said: HashMap::new(), budgets: HashMap::new() };
        let about = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}});
        let event = Event {
            about: About::new(about.as_object().unwrap()),
            kind: EventKind::Normal,
            reason: "Happened".to_owned(),
            message: "it happened".to_owned(),
            failure: None,
        };
        for _ in 0..2 {
            let entry = scribe.entry(event.clone(), "test", "default").unwrap();
            write(scribe.cluster.clone(), "default".to_owned(), entry).await;
            tokio::time::advance(REPEAT_AFTER).await;
        }
        let asked = server.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert_eq!(asked, [Method::POST, Method::PATCH, Method::POST]);
    }
}
