//! Small pages over plain HTTP, for kubelets, Prometheus, and those who want to know what happened.
//!
//! # Guarantees
//! * Whoever connects and does nothing, or little, is disconnected, and there are never more than so many connections.
//! * Recordings are served to this machine only, under its own names: who reaches them has a shell here, or may forward ports of the pod.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
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
use tracing::{info, warn};

use super::health::Health;
use super::site::Site;
use super::{Configuration, Unending};

/// How many connections each address has at a time.
const CONNECTIONS: usize = 64;
/// How long a connection may take to ask, and to be answered.
const HEADER: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_mins(1);

/// Addresses that are listened on.
pub(super) struct Pages {
    health: TcpListener,
    metrics: TcpListener,
    /// If anything is recorded.
    recordings: Option<TcpListener>,
    state: Arc<Health>,
    recorder: Recorder,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
struct Question<'a> {
    path: &'a str,
    /// What the client calls us, if it says so once and only once.
    host: Option<&'a str>,
}

/// What there is at a path.
type Page = Arc<dyn Fn(Question<'_>) -> (StatusCode, Bytes) + Send + Sync>;

impl Pages {
    pub(super) async fn open(configuration: &Configuration, site: &Site) -> anyhow::Result<Self> {
        let health = listen(configuration.health_address, "--health-address").await?;
        let metrics = listen(configuration.metrics_address, "--metrics-address").await?;
        info!(health = %health.local_addr()?, metrics = %metrics.local_addr()?, "listens");
        let recordings = match &configuration.recordings {
            Some(recordings) => Some(listen(recordings.address, "--recording-address").await?),
            None => None,
        };
        if let Some(recordings) = &recordings {
            info!(address = %recordings.local_addr()?, "serves recordings");
        }
        Ok(Self { health, metrics, recordings, state: site.health.clone(), recorder: site.recorder.clone() })
    }

    /// Answers for as long as it is polled.
    pub(super) async fn serve(&self) -> Unending {
        let (state, counted, recorder) = (self.state.clone(), self.state.clone(), self.recorder.clone());
        tokio::select! {
            biased;
            never = serve(&self.health, Arc::new(move |question| health(&state, question.path))) => never,
            never = serve(&self.metrics, Arc::new(move |question| metrics(&counted, question.path))) => never,
            never = serve_if_any(self.recordings.as_ref(), Arc::new(move |question| recordings(&recorder, question))) => never,
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
        return (StatusCode::MISDIRECTED_REQUEST, "use localhost, 127.0.0.1 or [::1] as the host\n".into());
    }
    match question.path {
        "/recordings" => match recorder.archive().export_all() {
            Ok(file) => (StatusCode::OK, file.into()),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n").into()),
        },
        _ => (StatusCode::NOT_FOUND, "there is /recordings\n".into()),
    }
}

/// Whether a `Host` header names this machine, as clients of a forwarded port do.
///
/// Somebody's page in a browser can have its own name lead to 127.0.0.1, and could then read what is here as its own (DNS rebinding).
/// Its requests still carry that name.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn serve_if_any(listener: Option<&TcpListener>, page: Page) -> Unending {
    match listener {
        Some(listener) => serve(listener, page).await,
        None => std::future::pending().await,
    }
}

async fn serve(listener: &TcpListener, page: Page) -> Unending {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = places.clone().acquire_owned().await.context("cannot serve any longer")?;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let page = page.clone();
        tokio::spawn(async move {
            let _place = place;
            let answer = service_fn(move |request: Request<Incoming>| {
                let response = answer(&page, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER)
                .serve_connection(TokioIo::new(stream), answer);
            let _ = tokio::time::timeout(WHOLE, connection).await;
        });
    }
}

fn question(request: &Request<Incoming>) -> Question<'_> {
    let mut hosts = request.headers().get_all(http::header::HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none()).and_then(|host| host.to_str().ok());
    Question { path: request.uri().path(), host }
}

fn answer(page: &Page, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (code, content) = match *request.method() {
        Method::GET | Method::HEAD => page(question(request)),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".into()),
    };
    let mut response = Response::new(Full::new(content));
    *response.status_mut() = code;
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

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
