//! Serves small pages over plain HTTP: health, metrics and recordings.
//!
//! # Guarantees
//! * A client that connects and does nothing, or little, is disconnected, and there are never more than so many connections.
//! * No client can keep kubelets and Prometheus from being answered by holding connections: a new one takes the place of the oldest.
//! * Recordings, plans and versions of functions are served to this machine only, under its own names, and to those whom the API server lets
//!   `get` the path (`post` for plans).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use ferroplane_recorder::Recorder;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tracing::{info, warn};

use super::callers::Callers;
use super::health::Health;
use super::plans::Plans;
use super::site::Site;
use super::{Configuration, Unending};
use crate::functions::discovery::{self, VersionsPage};
use crate::plans::PATH as PLANS;

/// How many connections each address has at a time.
const CONNECTIONS: usize = 64;
/// How long a connection may take to ask, and to be answered.
const HEADER: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_mins(1);
/// Where recordings are, and what those may `get` who may read them.
const RECORDINGS: &str = "/recordings";
/// The response to a request for another host than this machine.
const WRONG_HOST: &str = "use localhost, 127.0.0.1 or [::1] as the host\n";

/// Addresses that are listened on.
pub(super) struct Pages {
    health: TcpListener,
    metrics: TcpListener,
    /// If anything is recorded.
    recordings: Option<TcpListener>,
    state: Arc<Health>,
    recorder: Recorder,
    /// Who may read recordings.
    callers: Callers,
    plans: Plans,
    versions: Arc<OnceLock<VersionsPage>>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
struct Question<'a> {
    path: &'a str,
    /// What the client calls us, if it says so once and only once.
    host: Option<&'a str>,
}

/// The page at a path.
type Page = Arc<dyn Fn(Question<'_>) -> (StatusCode, Bytes) + Send + Sync>;

/// What is served, and to whom.
#[derive(Clone)]
struct Served {
    page: Page,
    /// Checks the tokens of clients. None: every client is served.
    callers: Option<Callers>,
    /// What those may ask for who may post.
    plans: Option<Plans>,
    /// What can be called, for those who may read that.
    versions: Option<Arc<OnceLock<VersionsPage>>>,
}

impl Served {
    fn to_everybody(page: Page) -> Self {
        Self { page, callers: None, plans: None, versions: None }
    }
}

impl Pages {
    pub(super) async fn open(configuration: &Configuration, site: &Site) -> anyhow::Result<Self> {
        let health = listen(configuration.health_address, "--health-address").await?;
        let metrics = listen(configuration.metrics_address, "--metrics-address").await?;
        info!(health = %health.local_addr()?, metrics = %metrics.local_addr()?, "serving health checks and metrics");
        let recordings = match &configuration.recordings {
            Some(recordings) => Some(listen(recordings.address, "--recording-address").await?),
            None => None,
        };
        if let Some(recordings) = &recordings {
            info!(address = %recordings.local_addr()?, "serving recordings");
        }
        let (state, recorder, callers) = (site.health.clone(), site.recorder.clone(), site.callers.clone());
        let (plans, versions) = (site.plans.clone(), site.versions.clone());
        Ok(Self { health, metrics, recordings, state, recorder, callers, plans, versions })
    }

    /// Answers for as long as it is polled.
    pub(super) async fn serve(&self) -> Unending {
        let (state, counted, recorder) = (self.state.clone(), self.state.clone(), self.recorder.clone());
        let health = Served::to_everybody(Arc::new(move |question| health(&state, question.path)));
        let metrics = Served::to_everybody(Arc::new(move |question| metrics(&counted, question.path)));
        let page: Page = Arc::new(move |question| recordings(&recorder, question));
        let recordings = Served {
            page,
            callers: Some(self.callers.clone()),
            plans: Some(self.plans.clone()),
            versions: Some(self.versions.clone()),
        };
        tokio::select! {
            biased;
            never = serve(&self.health, health, WhenFull::DropOldest) => never,
            never = serve(&self.metrics, metrics, WhenFull::DropOldest) => never,
            never = serve_if_any(self.recordings.as_ref(), recordings) => never,
        }
    }
}

async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
}

fn health(state: &Health, path: &str) -> (StatusCode, Bytes) {
    match path {
        // It answers, so it lives.
        "/livez" | "/healthz" => (StatusCode::OK, "ok".into()),
        "/readyz" => {
            let (is_ready, text) = state.readiness();
            (if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text.into())
        }
        _ => (StatusCode::NOT_FOUND, "there are /livez, /readyz and /healthz\n".into()),
    }
}

fn metrics(state: &Health, path: &str) -> (StatusCode, Bytes) {
    match path {
        "/metrics" => (StatusCode::OK, state.metrics().into()),
        _ => (StatusCode::NOT_FOUND, "there is /metrics\n".into()),
    }
}

/// All of them, as a file for `ferroplane replay --recordings`.
fn recordings(recorder: &Recorder, question: Question<'_>) -> (StatusCode, Bytes) {
    if !question.host.is_some_and(is_loopback) {
        return (StatusCode::MISDIRECTED_REQUEST, WRONG_HOST.into());
    }
    match question.path {
        RECORDINGS => match recorder.archive().export_all() {
            Ok(file) => (StatusCode::OK, file.into()),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n").into()),
        },
        _ => (StatusCode::NOT_FOUND, "there is /recordings\n".into()),
    }
}

/// Whether a `Host` header names this machine, as clients of a forwarded port do.
///
/// A page in a browser can let its own name resolve to 127.0.0.1, and could then read the pages here as its own (DNS rebinding).
/// Its requests still carry that name.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn serve_if_any(listener: Option<&TcpListener>, served: Served) -> Unending {
    match listener {
        // Plans and recordings may take long, and those who ask are known.
        Some(listener) => serve(listener, served, WhenFull::Wait).await,
        None => std::future::pending().await,
    }
}

/// What becomes of a new connection while there are as many as there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenFull {
    /// It waits until another one ends.
    Wait,
    /// The oldest one ends. A client that asks at once is answered long before they are the oldest.
    DropOldest,
}

async fn serve(listener: &TcpListener, served: Served, when_full: WhenFull) -> Unending {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut open = VecDeque::<AbortHandle>::new();
    loop {
        let place = match when_full {
            WhenFull::Wait => Some(places.clone().acquire_owned().await.context("cannot serve any longer")?),
            WhenFull::DropOldest => None,
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if when_full == WhenFull::DropOldest
            && open.len() >= CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let served = served.clone();
        let connection = tokio::spawn(async move {
            let _place = place;
            let answer = service_fn(move |request: Request<Incoming>| {
                let served = served.clone();
                async move { Ok::<_, Infallible>(answer(&served, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER)
                .keep_alive(when_full == WhenFull::Wait)
                .serve_connection(TokioIo::new(stream), answer);
            let _ = tokio::time::timeout(WHOLE, connection).await;
        });
        open.push_back(connection.abort_handle());
    }
}

fn question(request: &Request<Incoming>) -> Question<'_> {
    let mut hosts = request.headers().get_all(http::header::HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none()).and_then(|host| host.to_str().ok());
    Question { path: request.uri().path(), host }
}

async fn answer(served: &Served, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() == Method::POST
        && request.uri().path() == PLANS
        && let (Some(plans), Some(callers)) = (&served.plans, &served.callers)
    {
        return plan(plans, callers, request).await;
    }
    if discovery::is_at(request.uri().path())
        && let (Some(versions), Some(callers)) = (&served.versions, &served.callers)
    {
        return list_versions(versions, callers, &request).await;
    }
    let (code, content) = match *request.method() {
        Method::GET | Method::HEAD => page(served, &request).await,
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".into()),
    };
    let mut response = Response::new(Full::new(content));
    *response.status_mut() = code;
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    if code == StatusCode::UNAUTHORIZED {
        let scheme = http::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(http::header::WWW_AUTHENTICATE, scheme);
    }
    response
}

/// The plan that a client asks for under a name of this machine.
async fn plan(plans: &Plans, callers: &Callers, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let is_of_this_machine = question(&request).host.is_some_and(is_loopback);
    let (code, content) = if is_of_this_machine {
        let (parts, body) = request.into_parts();
        plans.answer(&parts.headers, body, callers).await
    } else {
        (StatusCode::MISDIRECTED_REQUEST, WRONG_HOST.into())
    };
    let mut response = Response::new(Full::new(content));
    *response.status_mut() = code;
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

/// What can be called, for those who may know, under a name of this machine.
async fn list_versions(
    versions: &OnceLock<VersionsPage>,
    callers: &Callers,
    request: &Request<Incoming>,
) -> Response<Full<Bytes>> {
    let refuse = |code: StatusCode, words: String| {
        let mut response = Response::new(Full::new(words.into()));
        *response.status_mut() = code;
        response
    };
    if !question(request).host.is_some_and(is_loopback) {
        return refuse(StatusCode::MISDIRECTED_REQUEST, WRONG_HOST.to_owned());
    }
    if let Err((code, words)) = callers.authorize(request.headers(), "get", request.uri().path()).await {
        return refuse(code, words);
    }
    match versions.get() {
        Some(versions) => versions.answer(request).map(|body| Full::new(body.into())),
        None => refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "the functions are not listed yet; try again\n".to_owned(),
        ),
    }
}

/// The page, for those who may read it.
async fn page(served: &Served, request: &Request<Incoming>) -> (StatusCode, Bytes) {
    let question = question(request);
    if let Some(callers) = &served.callers
        // A token is not sent on for a request that is answered otherwise in any case.
        && question.host.is_some_and(is_loopback)
        && question.path == RECORDINGS
        && let Err((code, words)) = callers.authorize(request.headers(), "get", RECORDINGS).await
    {
        return (code, words.into());
    }
    (served.page)(question)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn connections_that_ask_nothing_do_not_keep_health_from_being_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let healthy = Served::to_everybody(Arc::new(|_| (StatusCode::OK, "ok".into())));
        tokio::spawn(async move { serve(&listener, healthy, WhenFull::DropOldest).await.is_ok() });
        let mut silent = Vec::new();
        for _ in 0..3 * CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut asking = TcpStream::connect(address).await.unwrap();
        asking.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        // The server closes the connection behind its answer.
        let read = asking.read_to_string(&mut answer);
        tokio::time::timeout(HEADER / 2, read).await.expect("it answers at once").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    }

    #[test]
    fn recordings_are_served_under_names_of_this_machine_only() {
        let recorder = Recorder::in_memory(1 << 20, &[]).unwrap();
        let code = |host| recordings(&recorder, Question { path: "/recordings", host }).0;
        for host in ["localhost", "LOCALHOST:8082", "127.0.0.1:8082", "127.1.2.3", "[::1]:8082"] {
            assert_eq!(code(Some(host)), StatusCode::OK, "{host}");
        }
        for host in
            ["evil.example", "evil.example:8082", "localhost.evil.example", "10.0.0.1:8082", "", "[", "a b"]
        {
            assert_eq!(code(Some(host)), StatusCode::MISDIRECTED_REQUEST, "{host}");
        }
        assert_eq!(code(None), StatusCode::MISDIRECTED_REQUEST);
    }
}
