//! Answers the API server's questions over HTTPS. What is answered is decided by the same code as in a plane of one process.
//!
//! # Guarantees
//! * Whatever is sent, and however slowly, is answered or cut off: bodies have a size and a time, and connections a number.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use ferroplane_apiserver::listeners::https::{self, Https};
use ferroplane_controllers::{ADVISOR_PATH, Advisor, Credentials, PROTECTION_PATH, Protection, Standby};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use tracing::info;

use super::Unending;
use super::site::Site;

/// An API server sends an object at most twice, and none is larger than some megabytes.
const LARGEST: usize = 16 << 20;
/// How long a question may take to arrive. API servers wait for 30 seconds at most.
const ARRIVAL: Duration = Duration::from_secs(10);

/// A door for the API server.
pub(super) struct Hooks {
    door: Mutex<Option<Https>>,
    desk: Desk,
    shown: Arc<Shown>,
}

/// The certificate that is shown at the moment.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Hooks {
    pub(super) async fn open(address: SocketAddr, credentials: &Credentials) -> anyhow::Result<Self> {
        let shown = Arc::new(Shown(RwLock::new(certified(credentials)?)));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .context("cannot speak TLS")?;
        let resolver: Arc<dyn ResolvesServerCert> = shown.clone();
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let settings = https::Settings { connections: 256, streams: 256, ..https::Settings::default() };
        let door = Https::with_config(address, config, settings).await;
        let door =
            door.context("cannot serve webhooks; another address can be named with --webhook-address")?;
        info!(address = %door.address(), "serves webhooks");
        Ok(Self { door: Mutex::new(Some(door)), desk: Desk::default(), shown })
    }

    /// Shows another certificate from now on.
    pub(super) fn show(&self, credentials: &Credentials) -> anyhow::Result<()> {
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = certified(credentials)?;
        Ok(())
    }

    /// From now on, those answer who know what this one knows.
    pub(super) fn seat(&self, standby: &Standby, site: &Site) {
        let seated = Seated {
            // Whoever does not lead refuses, too, and has to say that it did.
            protection: standby.protection().noting_by(site.client.clone()),
            advisor: standby.advisor(),
        };
        *self.desk.0.write().unwrap_or_else(PoisonError::into_inner) = Some(seated);
    }

    /// Answers for as long as it is polled. Once.
    pub(super) async fn serve(&self) -> Unending {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).take();
        let door = door.ok_or_else(|| anyhow!("webhooks are served already"))?;
        door.serve(self.desk.clone(), std::future::pending()).await;
        Err(anyhow!("webhooks are served no longer"))
    }
}

fn certified(credentials: &Credentials) -> anyhow::Result<Arc<CertifiedKey>> {
    let pair = credentials.server.as_ref().context("there is no certificate for webhooks")?;
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.context("cannot read the certificate of webhooks")?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes());
    let key = key.context("cannot read the key of webhooks")?;
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    Ok(Arc::new(certified.context("cannot use the certificate of webhooks")?))
}

/// Whoever answers.
#[derive(Clone)]
struct Seated {
    protection: Protection,
    advisor: Advisor,
}

/// Where questions arrive.
#[derive(Clone, Default)]
struct Desk(Arc<RwLock<Option<Seated>>>);

/// What is wrong with a question.
struct Complaint(StatusCode, &'static str);

impl tower_service::Service<Request<Incoming>> for Desk {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let seated = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            let (code, kind, text) = match answer(seated, request).await {
                Ok(review) => (StatusCode::OK, "application/json", review.to_string()),
                Err(Complaint(code, words)) => (code, "text/plain", format!("{words}\n")),
            };
            let mut response = Response::new(Full::new(Bytes::from(text)));
            *response.status_mut() = code;
            response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
            Ok(response)
        })
    }
}

async fn answer(seated: Option<Seated>, request: Request<Incoming>) -> Result<Value, Complaint> {
    let is_protection = match request.uri().path() {
        PROTECTION_PATH => true,
        ADVISOR_PATH => false,
        _ => return Err(Complaint(StatusCode::NOT_FOUND, "nobody is here to ask")),
    };
    if request.method() != Method::POST {
        return Err(Complaint(StatusCode::METHOD_NOT_ALLOWED, "questions are posted"));
    }
    let review = read(request.into_body()).await?;
    let seated = seated.ok_or(Complaint(StatusCode::SERVICE_UNAVAILABLE, "nobody can answer yet"))?;
    if is_protection {
        return Ok(seated.protection.review(review).await);
    }
    Ok(seated.advisor.review(&review))
}

async fn read(body: Incoming) -> Result<Value, Complaint> {
    let body = Limited::new(body, LARGEST).collect();
    let body = tokio::time::timeout(ARRIVAL, body).await;
    let body =
        body.map_err(|_| Complaint(StatusCode::REQUEST_TIMEOUT, "the question did not arrive in time"))?;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Complaint(StatusCode::PAYLOAD_TOO_LARGE, "the question is too large")
        } else {
            Complaint(StatusCode::BAD_REQUEST, "the question did not arrive whole")
        }
    })?;
    let review: Result<Value, _> = serde_json::from_slice(&body.to_bytes());
    match review {
        Ok(review) if review["kind"] == "AdmissionReview" && review["request"]["uid"].is_string() => {
            Ok(review)
        }
        _ => Err(Complaint(StatusCode::BAD_REQUEST, "the question is no AdmissionReview")),
    }
}
