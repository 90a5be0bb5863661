//! What requests from remote clients go through before they are served: authentication and the audit log.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use ferroplane_schema::status::Status;
use http::header::{HeaderName, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use jiff::Timestamp;

use super::routes::AuthenticatedRequest;
use super::{AuditAnnotations, ImpersonatedIdentity, Server};
use crate::audit::{AuditLog, Event, Level, ObjectReference, Outcome};
use crate::auth::authenticate::Peer;
use crate::auth::identity::{Identity, MASTERS};
use crate::listeners::https::{Connection, TrackedConnection};
use crate::negotiate;
use crate::request::{RequestInfo, ResourcePath, Verb};
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
        // Read now, because the request is gone when the answer is there.
        let reads_gzip = response::is_compression_welcome(request.headers());
        let answered = self.filter(request, &id).await;
        let mut response = answered.unwrap_or_else(|status| response::status(&status, form));
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        if reads_gzip { response::compress(response).await } else { response }
    }

    /// Authenticates a request and notes it in the audit log.
    async fn filter<B>(&self, request: Request<B>, id: &str) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let received = Timestamp::now();
        let (parts, body) = request.into_parts();
        let connection = parts.extensions.get::<Arc<Connection>>().map(Arc::as_ref);
        let caller = self.authenticate(&parts, connection, received)?;
        note_user(&parts, &caller)?;
        let info = RequestInfo::parse(&parts.method, &parts.uri);
        let grant = OnceLock::new();
        let log = self.state.audit.get().filter(|_| info.changes_something());
        let line = log.map(|log| AuditLine {
            log,
            info: &info,
            caller: &caller,
            grant: &grant,
            id,
            received,
            uri: parts.uri.to_string(),
            agent: user_agent(&parts),
            source: connection.map(|connection| connection.remote.ip()),
            is_written: false,
        });
        let request = AuthenticatedRequest {
            caller: &caller,
            info: &info,
            parts: &parts,
            grant: Some(&grant),
            is_limited: true,
        };
        let response = self.serve(request, body).await;
        if let Some(line) = line {
            line.finish(&response);
        }
        Ok(response)
    }

    fn authenticate(
        &self,
        parts: &Parts,
        connection: Option<&Connection>,
        now: Timestamp,
    ) -> Result<Identity, Status> {
        let peer = connection.map_or(&Peer::Unknown, |connection| &connection.peer);
        match self.state.authenticator.get() {
            Some(authenticator) => authenticator.authenticate(&parts.headers, peer, now),
            None => Ok(Identity::anonymous()),
        }
    }
}

/// A line for the log. It is written when the request is answered, or when nobody waits for the answer any more: what was
/// begun by then may well have happened.
struct AuditLine<'r> {
    log: &'r AuditLog,
    info: &'r RequestInfo,
    caller: &'r Identity,
    grant: &'r OnceLock<String>,
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
            verb: self.info.verb.map_or("", Verb::name),
            user: self.caller,
            impersonated,
            sources: &sources,
            user_agent: &self.agent,
            object: self.info.resource().map(reference),
            outcome,
            reason: self.grant.get().map(String::as_str),
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

/// Tells the connection who uses it. Refuses users who have too many connections that are all in use.
fn note_user(parts: &Parts, caller: &Identity) -> Result<(), Status> {
    let Some(connection) = parts.extensions.get::<Arc<TrackedConnection>>() else { return Ok(()) };
    if caller.is_anonymous() || connection.identify(&caller.name, caller.is_in(MASTERS)) {
        return Ok(());
    }
    Err(Status::too_many_requests("Too many connections, please close some of them.", 1))
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

#[cfg(test)]
mod tests {
    use http_body_util::Empty;

    use super::*;
    use crate::request::count::parsed;
    use crate::server::Settings;
    use crate::store::{Options, Store};

    fn request(method: &str, uri: &str) -> Request<Empty<Bytes>> {
        Request::builder().method(method).uri(uri).body(Empty::new()).unwrap()
    }

    #[tokio::test]
    async fn request_line_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::in_memory(Options::default()).unwrap();
        let server = Server::start(store, Settings::default()).await.unwrap();
        let log = AuditLog::open(&directory.path().join("audit.log"), &crate::audit::Settings::default());
        server.set_audit_log(log.unwrap());
        let requests = [
            ("GET", "/api/v1/namespaces/default", 200),
            ("GET", "/api/v1/configmaps?watch=true&timeoutSeconds=1", 200),
            ("HEAD", "/api/v1/namespaces?limit=1", 405),
            ("POST", "/api/v1/namespaces/default/configmaps?fieldManager=me", 400),
            ("GET", "/apis/nothing/v1/here", 404),
            ("GET", "/readyz?verbose", 200),
        ];
        for (method, uri, code) in requests {
            let before = parsed();
            server.handle_remote(request(method, uri)).await;
            assert_eq!(parsed() - before, 1, "{method} {uri} from a remote client");

            let mut request = request(method, uri);
            let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
            request.extensions_mut().insert(admin);
            let before = parsed();
            let response = server.handle(request).await;
            assert_eq!((parsed() - before, response.status().as_u16()), (1, code), "{method} {uri}");
        }
    }
}
