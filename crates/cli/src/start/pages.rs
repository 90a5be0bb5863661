//! Small pages over plain HTTP, for kubelets and Prometheus.
//!
//! # Guarantees
//! * Whoever connects and does nothing, or little, is disconnected, and there are never more than so many connections.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
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
    state: Arc<Health>,
}

type Page = fn(&Health, &str) -> (StatusCode, String);

impl Pages {
    pub(super) async fn open(configuration: &Configuration, site: &Site) -> anyhow::Result<Self> {
        let health = listen(configuration.health_address, "--health-address").await?;
        let metrics = listen(configuration.metrics_address, "--metrics-address").await?;
        info!(health = %health.local_addr()?, metrics = %metrics.local_addr()?, "listens");
        Ok(Self { health, metrics, state: site.health.clone() })
    }

    /// Answers for as long as it is polled.
    pub(super) async fn serve(&self) -> Unending {
        tokio::select! {
            biased;
            never = serve(&self.health, &self.state, health) => never,
            never = serve(&self.metrics, &self.state, metrics) => never,
        }
    }
}

async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}; another address can be named with {flag}"))
}

fn health(state: &Health, path: &str) -> (StatusCode, String) {
    match path {
        // It answers, so it lives.
        "/livez" | "/healthz" => (StatusCode::OK, "ok".to_owned()),
        "/readyz" => {
            let (is_ready, text) = state.readiness();
            (if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
        }
        _ => (StatusCode::NOT_FOUND, "there are /livez, /readyz and /healthz\n".to_owned()),
    }
}

fn metrics(state: &Health, path: &str) -> (StatusCode, String) {
    match path {
        "/metrics" => (StatusCode::OK, state.metrics()),
        _ => (StatusCode::NOT_FOUND, "there is /metrics\n".to_owned()),
    }
}

async fn serve(listener: &TcpListener, state: &Arc<Health>, page: Page) -> Unending {
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
        let state = state.clone();
        tokio::spawn(async move {
            let _place = place;
            let answer = service_fn(move |request: Request<Incoming>| {
                let response = answer(&state, page, &request);
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

fn answer(state: &Health, page: Page, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (code, text) = match *request.method() {
        Method::GET | Method::HEAD => page(state, request.uri().path()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
