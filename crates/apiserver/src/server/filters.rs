//! Requests from outside: whose they are, whether there is room for them, and a line in the log of what they changed.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_schema::status::Status;
use http::header::{HeaderName, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use jiff::Timestamp;

use super::{AuditAnnotations, GrantReason, ImpersonatedIdentity, Server};
use crate::audit::{AuditLog, Event, Level, ObjectReference, Outcome};
use crate::auth::authenticate::Peer;
use crate::auth::identity::Identity;
use crate::flow_control::RequestClass;
use crate::listeners::https::Connection;
use crate::negotiate;
use crate::request::{Query, ResourcePath, Target, Verb};
use crate::response::{self, Body};

/// By which a request is found in the log.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// The longest name that a client may give its request.
const LONGEST_ID: usize = 64;

impl Server {
    /// Answers a request from outside.
    pub async fn handle_remote<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let form = negotiate::error_form(request.headers());
        let id = audit_id(request.headers());
        let reads_gzip = response::is_compression_welcome(request.headers());
        let answered = self.admitted(request, &id).await;
        let mut response = answered.unwrap_or_else(|status| response::status(&status, form));
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        if reads_gzip { response::compress(response).await } else { response }
    }

    async fn admitted<B>(&self, request: Request<B>, id: &str) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let received = Timestamp::now();
        let connection = request.extensions().get::<Arc<Connection>>().cloned();
        let peer = connection.as_ref().map_or(&Peer::Unknown, |connection| &connection.peer);
        let caller = match self.state.authenticator.get() {
            Some(authenticator) => authenticator.authenticate(request.headers(), peer, received)?,
            None => Identity::anonymous(),
        };
        let asked = Asked::of(&request);
        let permit = self.state.flow_control.enter(asked.class(), &caller.name).await?;
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(caller.clone());
        let granted = GrantReason::default();
        parts.extensions.insert(granted.clone());
        let line =
            self.state.audit.get().filter(|_| asked.verb.is_some_and(Verb::changes_something)).map(|log| {
                let source = connection.map(|connection| connection.remote.ip());
                let (uri, agent) = (parts.uri.to_string(), user_agent(&parts));
                AuditLine {
                    log,
                    asked: &asked,
                    caller: &caller,
                    granted,
                    id,
                    received,
                    uri,
                    agent,
                    source,
                    is_written: false,
                }
            });
        let mut response = self.handle(Request::from_parts(parts, body)).await;
        if let Some(line) = line {
            line.finish(&response);
        }
        if asked.class() == RequestClass::Watch {
            response = response.map(|body| body.holding(permit));
        }
        Ok(response)
    }
}

/// A line for the log. It is written when the request is answered, or when nobody waits for the answer any more: what was
/// begun by then may well have happened.
struct AuditLine<'r> {
    log: &'r AuditLog,
    asked: &'r Asked,
    caller: &'r Identity,
    granted: GrantReason,
    id: &'r str,
    received: Timestamp,
    uri: String,
    agent: String,
    source: Option<IpAddr>,
    is_written: bool,
}

impl AuditLine<'_> {
    fn finish(mut self, response: &Response<Body>) {
        self.is_written = true;
        let extensions = response.extensions();
        let impersonated = extensions.get::<ImpersonatedIdentity>().map(|impersonated| &impersonated.0);
        let annotations = extensions.get::<AuditAnnotations>().map_or(&[][..], |annotations| &annotations.0);
        let code = response.status().as_u16();
        let outcome = match extensions.get::<Arc<Status>>() {
            Some(status) if code >= 400 => Outcome::Failure(status),
            _ => Outcome::Success(code),
        };
        self.write(outcome, impersonated, annotations);
    }

    fn write(&self, outcome: Outcome<'_>, impersonated: Option<&Identity>, annotations: &[(String, String)]) {
        let sources: Vec<_> = self.source.into_iter().collect();
        self.log.record(&Event {
            level: Level::Metadata,
            id: self.id,
            received: self.received,
            answered: Timestamp::now(),
            uri: &self.uri,
            verb: self.asked.verb.map_or("", Verb::name),
            user: self.caller,
            impersonated,
            sources: &sources,
            user_agent: &self.agent,
            object: self.asked.path.as_ref().map(reference),
            outcome,
            reason: self.granted.0.get().map(String::as_str),
            request: None,
            annotations,
        });
    }
}

impl Drop for AuditLine<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            self.write(Outcome::Unanswered, None, &[]);
        }
    }
}

/// What is asked for, as far as room and log are concerned.
struct Asked {
    path: Option<ResourcePath>,
    verb: Option<Verb>,
}

impl Asked {
    fn of<B>(request: &Request<B>) -> Self {
        let Target::Resource(path) = Target::parse(request.uri().path()) else {
            return Self { path: None, verb: None };
        };
        let verb = Verb::of(request.method(), &path, &Query::parse(request.uri().query()));
        Self { path: Some(path), verb }
    }

    fn class(&self) -> RequestClass {
        match self.verb {
            Some(Verb::Watch) => RequestClass::Watch,
            Some(verb) if verb.changes_something() => RequestClass::Mutating,
            _ => RequestClass::ReadOnly,
        }
    }
}

fn reference(path: &ResourcePath) -> ObjectReference<'_> {
    ObjectReference {
        group: &path.group,
        version: &path.version,
        resource: &path.resource,
        subresource: &path.subresource,
        namespace: &path.namespace,
        name: &path.name,
        uid: "",
        resource_version: "",
    }
}

fn user_agent(parts: &Parts) -> String {
    let agent = parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
    agent.unwrap_or_default().to_owned()
}

/// The name that a client gave its request, or a new one.
fn audit_id(headers: &HeaderMap) -> String {
    let given = headers.get(AUDIT_ID).and_then(|id| id.to_str().ok());
    let given = given.filter(|id| !id.is_empty() && id.len() <= LONGEST_ID);
    given.map_or_else(|| crate::random::uuid().to_string(), str::to_owned)
}
