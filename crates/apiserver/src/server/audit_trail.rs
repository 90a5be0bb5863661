//! What a request leaves in the audit log: nothing, or an event for each of its stages.
//!
//! The last one is written when the request is answered, when the body of a watch ends, or when nothing waits for the answer any
//! more: what was begun by then may well have happened.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use ferroplane_schema::status::Status;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderName, USER_AGENT};
use http::request::Parts;
use jiff::Timestamp;
use serde_json::Value;

use super::{AuditAnnotations, ImpersonatedIdentity, ServerState, body};
use crate::audit::event::{Authorization, Event, LazyObject, Level, ObjectReference, Outcome, Stage};
use crate::audit::{Attributes, AuditLog, Decision};
use crate::auth::identity::Identity;
use crate::auth::rbac;
use crate::listeners::InProcess;
use crate::listeners::https::Connection;
use crate::negotiate::BodyForm;
use crate::request::{RequestInfo, ResourcePath, Verb};
use crate::response::Body;
use crate::verbs::Subject;

/// On requests of controllers in this process: the object on whose behalf they write. It is ignored on all other requests.
const CAUSE: HeaderName = HeaderName::from_static("ferroplane-cause");

/// The audit data of a request while it is served. It is logged even if the request is dropped before it is answered.
#[derive(Debug, Default)]
pub(super) struct AuditNotes {
    /// Whether the log is to show what was sent.
    wants_object: AtomicBool,
    /// Put into words only if the log shows it: most requests are in no log.
    authorization: OnceLock<rbac::Decision>,
    subject: OnceLock<Subject>,
    request: OnceLock<LazyObject>,
}

impl AuditNotes {
    /// Whether the request is allowed, and why.
    pub(super) fn authorize(&self, decision: rbac::Decision) {
        let _ = self.authorization.set(decision);
    }

    /// Which object was written.
    pub(super) fn written(&self, subject: Subject) {
        let _ = self.subject.set(subject);
    }

    /// What was sent, about an object of this kind.
    pub(super) fn sent(&self, parts: &Parts, text: &Bytes, kind: &str) {
        if self.wants_object.load(Ordering::Relaxed) && !text.is_empty() {
            let _ = self.request.set(sent_object(parts, text.clone(), kind.to_owned()));
        }
    }
}

/// A request, as far as it is known before it is served.
#[derive(Clone, Copy)]
pub(super) struct AuditedRequest<'r> {
    /// None if the user is not known.
    pub(super) caller: Option<&'r Identity>,
    pub(super) info: &'r RequestInfo,
    pub(super) parts: &'r Parts,
    pub(super) received: Timestamp,
    /// Its name. One that is not given is made up when it is needed.
    pub(super) id: Option<&'r str>,
}

impl AuditedRequest<'_> {
    fn verb(&self) -> Cow<'static, str> {
        let verb = self.info.verb.map(|verb| Verb::name(verb).into());
        verb.unwrap_or_else(|| self.parts.method.as_str().to_ascii_lowercase().into())
    }
}

/// The events of one request.
pub(super) struct AuditTrail<'r> {
    state: &'r Arc<ServerState>,
    log: &'r AuditLog,
    decision: Decision,
    request: AuditedRequest<'r>,
    notes: &'r AuditNotes,
    id: OnceLock<String>,
    is_finished: bool,
}

impl<'r> AuditTrail<'r> {
    /// Begins to follow a request, if there is a log. The notes are handed on with the request.
    pub(super) fn begin(
        state: &'r Arc<ServerState>,
        request: AuditedRequest<'r>,
        notes: &'r AuditNotes,
    ) -> Option<Self> {
        let log = state.audit.get()?;
        let decision = log.policy().decide(&Attributes {
            user: request.caller,
            verb: &request.verb(),
            path: request.parts.uri.path(),
            resource: request.info.resource(),
        });
        notes.wants_object.store(decision.level >= Level::Request, Ordering::Relaxed);
        let id = request.id.map_or_else(OnceLock::new, |id| OnceLock::from(id.to_owned()));
        let trail = Self { state, log, decision, request, notes, id, is_finished: false };
        if decision.includes(Stage::RequestReceived) {
            trail.log.record(trail.event(Stage::RequestReceived, None));
        }
        Some(trail)
    }

    /// Logs how a request ended that was refused before it was served.
    pub(super) fn refuse(mut self, status: &Status) {
        self.is_finished = true;
        self.note_refusal(status.code);
        if self.decision.includes(Stage::ResponseComplete) {
            let outcome = Outcome::Failure(Arc::new(status.clone()));
            self.log.record(self.event(Stage::ResponseComplete, Some(outcome)));
        }
    }

    /// Logs how a request was answered. A watch continues: its end is logged later.
    pub(super) fn finish(mut self, response: Response<Body>) -> Response<Body> {
        self.is_finished = true;
        let code = response.status().as_u16();
        self.note_refusal(code);
        if self.decision.level == Level::None {
            return response;
        }
        let outcome = match response.extensions().get::<Arc<Status>>() {
            Some(status) if code >= 400 => Outcome::Failure(Arc::clone(status)),
            _ => Outcome::Success(code),
        };
        let mut event = self.event(Stage::ResponseComplete, Some(outcome));
        event.add_answer(&response);
        if let (Body::Stream(_), true) = (response.body(), self.request.info.is_watch()) {
            if self.decision.includes(Stage::ResponseStarted) {
                self.log.record(Event { stage: Stage::ResponseStarted, ..event.clone() });
            }
            let end = self
                .decision
                .includes(Stage::ResponseComplete)
                .then(|| EndOfWatch { state: Arc::clone(self.state), event: Some(event) });
            return response.map(|body| body.holding(end));
        }
        if self.decision.includes(Stage::ResponseComplete) {
            self.log.record(event);
        }
        response
    }

    /// Requests that were refused may be logged even if no rule asks for it.
    fn note_refusal(&mut self, code: u16) {
        if self.decision.level == Level::None && matches!(code, 401 | 403) {
            self.decision = self.log.policy().decide_refused();
        }
    }

    fn event(&self, stage: Stage, outcome: Option<Outcome>) -> Event {
        let AuditedRequest { caller, info, parts, received, .. } = self.request;
        let notes = self.notes;
        let header = |name: HeaderName| parts.headers.get(name).and_then(|text| text.to_str().ok());
        let is_in_process = parts.extensions.get::<InProcess>().is_some();
        Event {
            level: self.decision.level,
            stage,
            id: self.id.get_or_init(|| crate::random::uuid().to_string()).clone(),
            received,
            reached: Timestamp::now(),
            // Without the server: over HTTP/2 it is a part of the address, and Kubernetes leaves it out, too.
            uri: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            verb: self.request.verb(),
            user: caller.cloned(),
            impersonated: None,
            source: source(parts),
            user_agent: header(USER_AGENT).unwrap_or_default().to_owned(),
            object: info.resource().map(|path| reference(path, notes.subject.get())),
            outcome,
            authorization: notes.authorization.get().map(|decision| Authorization {
                is_allowed: decision.is_allowed(),
                reason: decision.reason(),
            }),
            request: notes.request.get().cloned(),
            response: None,
            omits_managed_fields: self.decision.omits_managed_fields,
            cause: header(CAUSE).filter(|_| is_in_process).map(str::to_owned),
            annotations: Vec::new(),
        }
    }
}

impl Drop for AuditTrail<'_> {
    fn drop(&mut self) {
        if !self.is_finished && self.decision.includes(Stage::ResponseComplete) {
            self.log.record(self.event(Stage::ResponseComplete, Some(Outcome::Unanswered)));
        }
    }
}

/// Logs that a watch has ended.
struct EndOfWatch {
    state: Arc<ServerState>,
    event: Option<Event>,
}

impl Drop for EndOfWatch {
    fn drop(&mut self) {
        if let (Some(log), Some(event)) = (self.state.audit.get(), self.event.take()) {
            log.record(Event { reached: Timestamp::now(), ..event });
        }
    }
}

impl Event {
    /// Adds data of the response: the impersonated user, annotations of webhooks, and the body.
    fn add_answer(&mut self, response: &Response<Body>) {
        let extensions = response.extensions();
        self.impersonated = extensions.get::<ImpersonatedIdentity>().map(|identity| identity.0.clone());
        let annotations = extensions.get::<AuditAnnotations>();
        self.annotations = annotations.map(|annotations| annotations.0.clone()).unwrap_or_default();
        if self.level >= Level::RequestResponse {
            let bytes = response.body().bytes();
            self.response = match response.body() {
                Body::Chunks(chunks) => Some(sent_pieces(chunks.clone(), bytes)),
                Body::List(list) => Some(sent_pieces(list.clone(), bytes)),
                Body::Stream(_) | Body::Counted(_) => None,
            };
        }
    }
}

/// What a request is about. The path of one that creates an object does not name it.
pub(super) fn reference(path: &ResourcePath, subject: Option<&Subject>) -> ObjectReference {
    let mut reference = ObjectReference { path: path.clone(), ..ObjectReference::default() };
    if let Some(subject) = subject {
        if reference.path.name.is_empty() {
            reference.path.name.clone_from(&subject.name);
        }
        reference.uid.clone_from(&subject.uid);
        reference.generation = subject.generation;
    }
    reference
}

fn source(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<Arc<Connection>>().map(|connection| connection.remote.ip())
}

fn sent_object(parts: &Parts, text: Bytes, kind: String) -> LazyObject {
    let form = parts.headers.get(CONTENT_TYPE).and_then(|form| form.to_str().ok()).unwrap_or_default();
    let is_protobuf = form.contains("protobuf");
    let bytes = text.len();
    let read = Arc::new(move || {
        if is_protobuf {
            return body::read(BodyForm::Protobuf, &text, &kind).ok().map(|body| body.value);
        }
        read_text(&text)
    });
    LazyObject { bytes, read }
}

fn sent_pieces<P>(pieces: P, bytes: usize) -> LazyObject
where
    P: IntoIterator<Item = Bytes> + Clone + Send + Sync + 'static,
{
    let read = Arc::new(move || {
        let text: Vec<u8> = pieces.clone().into_iter().flatten().collect();
        read_text(&text)
    });
    LazyObject { bytes, read }
}

/// JSON or YAML, whatever it is.
fn read_text(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok().or_else(|| serde_saphyr::from_str(str::from_utf8(text).ok()?).ok())
}
