//! What requests from remote clients go through before they are served: authentication and the audit log.

use std::sync::Arc;

use bytes::Bytes;
use ferroplane_schema::status::Status;
use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use jiff::Timestamp;

use super::Server;
use super::audit_trail::{AuditNotes, AuditTrail, AuditedRequest};
use super::routes::AuthenticatedRequest;
use super::turns::Turn;
use crate::auth::authenticate::Peer;
use crate::auth::identity::{Identity, MASTERS};
use crate::listeners::https::{Connection, TrackedConnection};
use crate::negotiate;
use crate::request::RequestInfo;
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
        let turn = response.extensions_mut().remove::<Turn>();
        // The request has its place until then: compressing is work, for which users take turns.
        if reads_gzip {
            response = response::compress(response, turn.clone()).await;
        }
        match turn {
            Some(turn) => turn.finish(response),
            None => response,
        }
    }

    /// Authenticates a request, and notes in the audit log what became of it.
    async fn filter<B>(&self, request: Request<B>, id: &str) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let received = Timestamp::now();
        let (parts, body) = request.into_parts();
        let info = RequestInfo::parse(&parts.method, &parts.uri);
        let notes = AuditNotes::default();
        let audited = AuditedRequest { caller: None, info: &info, parts: &parts, received, id: Some(id) };
        let caller = self.authenticate(&parts, received).inspect_err(|refused| {
            if let Some(trail) = AuditTrail::begin(&self.state, audited, &notes) {
                trail.refuse(&Status { message: attempted(&parts), ..refused.clone() });
            }
        })?;
        let audited = AuditedRequest { caller: Some(&caller), ..audited };
        let trail = AuditTrail::begin(&self.state, audited, &notes);
        let request = AuthenticatedRequest {
            caller: &caller,
            info: &info,
            parts: &parts,
            notes: &notes,
            is_limited: true,
        };
        let response = match note_user(&parts, &caller) {
            Ok(()) => self.serve(request, body).await,
            Err(status) => response::status(&status, negotiate::error_form(&parts.headers)),
        };
        Ok(match trail {
            Some(trail) => trail.finish(response),
            None => response,
        })
    }

    fn authenticate(&self, parts: &Parts, now: Timestamp) -> Result<Identity, Status> {
        let connection = parts.extensions.get::<Arc<Connection>>();
        let peer = connection.map_or(&Peer::Unknown, |connection| &connection.peer);
        match self.state.authenticator.get() {
            Some(authenticator) => authenticator.authenticate(&parts.headers, peer, now),
            None => Ok(Identity::anonymous()),
        }
    }
}

/// Tells the connection who uses it. Refuses users who have too many connections that are all in use.
fn note_user(parts: &Parts, caller: &Identity) -> Result<(), Status> {
    let Some(connection) = parts.extensions.get::<Arc<TrackedConnection>>() else { return Ok(()) };
    if caller.is_anonymous() || connection.identify(caller.flow(), caller.is_in(MASTERS)) {
        return Ok(());
    }
    Err(Status::too_many_requests("Too many connections, please close some of them.", 1))
}

/// How a client tried to authenticate. It is not part of the response, but of the log.
fn attempted(parts: &Parts) -> String {
    let has_certificate =
        parts.extensions.get::<Arc<Connection>>().is_some_and(|connection| connection.peer != Peer::Unknown);
    let has_token = parts.headers.contains_key(AUTHORIZATION);
    let methods: Vec<_> = [("bearer", has_token), ("x509", has_certificate)]
        .into_iter()
        .filter_map(|(method, is_used)| is_used.then_some(method))
        .collect();
    // In the words of kube-apiserver.
    format!("Authentication failed, attempted: {}", methods.join(", "))
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
    use crate::audit::AuditLog;
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
