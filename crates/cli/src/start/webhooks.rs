//! Serves admission webhooks over HTTPS. The decisions are made by the same code as in a control plane of one process.
//!
//! # Guarantees
//! * Whatever is sent, and however slowly, is answered or cut off: bodies have a size and a time, and connections a number.
//! * Who does not know the secret that is part of webhooks' addresses is no API server. Their questions change nothing.

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
use crate::up::controllers::advisor;

/// An API server sends an object at most twice, and none is larger than some megabytes.
const LARGEST: usize = 16 << 20;
/// How long a question may take to arrive. API servers wait for 30 seconds at most.
const ARRIVAL: Duration = Duration::from_secs(10);

/// A listener for the API server.
pub(super) struct WebhookServer {
    listener: Mutex<Option<Https>>,
    service: WebhookService,
    certificate: Arc<CurrentCertificate>,
}

/// The certificate that is shown at the moment.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl WebhookServer {
    pub(super) async fn open(address: SocketAddr, credentials: &Credentials) -> anyhow::Result<Self> {
        let certificate = Arc::new(CurrentCertificate(RwLock::new(certified(credentials)?)));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .context("cannot set up TLS")?;
        let resolver: Arc<dyn ResolvesServerCert> = certificate.clone();
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        // Go's client asks for HTTP/2 and shares one connection for all questions; without it, each question in flight costs
        // one.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let settings = https::Settings { connections: 256, streams: 256, ..https::Settings::default() };
        let listener = Https::with_config(address, config, settings).await;
        let listener =
            listener.context("cannot serve webhooks; choose another address with --webhook-address")?;
        info!(address = %listener.address(), "serving webhooks");
        Ok(Self { listener: Mutex::new(Some(listener)), service: WebhookService::default(), certificate })
    }

    /// Where it listens, as long as it is not served yet.
    #[cfg(test)]
    pub(super) fn address(&self) -> SocketAddr {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        listener.as_ref().expect("it is not served yet").address()
    }

    /// Shows another certificate from now on.
    pub(super) fn show(&self, credentials: &Credentials) -> anyhow::Result<()> {
        *self.certificate.0.write().unwrap_or_else(PoisonError::into_inner) = certified(credentials)?;
        if let Some(reviewers) = &mut *self.service.0.write().unwrap_or_else(PoisonError::into_inner) {
            reviewers.secret = credentials.webhook_secret.as_str().into();
        }
        Ok(())
    }

    /// From now on, those answer who know what this one knows.
    pub(super) fn serve_reviews_of(&self, standby: &Standby, site: &Site, credentials: &Credentials) {
        let reviewers = Reviewers {
            // A replica that does not lead refuses, too, and has to report it.
            protection: standby.protection().noting_by(site.client.clone()),
            advisor: advisor(standby.advisor()),
            secret: credentials.webhook_secret.as_str().into(),
        };
        *self.service.0.write().unwrap_or_else(PoisonError::into_inner) = Some(reviewers);
    }

    /// Answers for as long as it is polled. Once.
    pub(super) async fn serve(&self) -> Unending {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listener = listener.ok_or_else(|| anyhow!("the webhooks have been started already"))?;
        listener.serve(self.service.clone(), std::future::pending()).await;
        Err(anyhow!("the webhooks have stopped"))
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

/// The handlers of the webhooks.
#[derive(Clone)]
struct Reviewers {
    protection: Protection,
    advisor: Advisor,
    /// The secret end of the paths, which only the API server knows.
    secret: Arc<str>,
}

/// What is asked for.
enum Question {
    Protection,
    Advice,
}

impl Question {
    /// What is asked for at a path, and the secret that the path ends in. Nothing is the secret of a path without one.
    fn at(path: &str) -> Option<(Self, &str)> {
        let after = |known: &str| match path.strip_prefix(known)? {
            "" => Some(""),
            rest => rest.strip_prefix('/'),
        };
        let protection = after(PROTECTION_PATH).map(|secret| (Self::Protection, secret));
        protection.or_else(|| after(ADVISOR_PATH).map(|secret| (Self::Advice, secret)))
    }
}

/// Where questions arrive.
#[derive(Clone, Default)]
struct WebhookService(Arc<RwLock<Option<Reviewers>>>);

/// What is wrong with a question.
struct BadReview(StatusCode, &'static str);

impl tower_service::Service<Request<Incoming>> for WebhookService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let reviewers = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            let (code, kind, text) = match answer(reviewers, request).await {
                Ok(review) => (StatusCode::OK, "application/json", review.to_string()),
                Err(BadReview(code, words)) => (code, "text/plain", format!("{words}\n")),
            };
            let mut response = Response::new(Full::new(Bytes::from(text)));
            *response.status_mut() = code;
            response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
            Ok(response)
        })
    }
}

async fn answer(reviewers: Option<Reviewers>, request: Request<Incoming>) -> Result<Value, BadReview> {
    let (parts, body) = request.into_parts();
    let question = Question::at(parts.uri.path());
    let (question, secret) = question.ok_or(BadReview(StatusCode::NOT_FOUND, "there is no such webhook"))?;
    if parts.method != Method::POST {
        return Err(BadReview(StatusCode::METHOD_NOT_ALLOWED, "use the method POST"));
    }
    let reviewers =
        reviewers.ok_or(BadReview(StatusCode::SERVICE_UNAVAILABLE, "the webhooks are not ready yet"))?;
    // Before anything of the body is read: anybody may reach this port.
    if !is_same(secret, &reviewers.secret) {
        return Err(BadReview(StatusCode::FORBIDDEN, "only the API server may call this webhook"));
    }
    let review = read(body).await?;
    Ok(match question {
        Question::Protection => reviewers.protection.review(review).await,
        Question::Advice => reviewers.advisor.review(&review).await,
    })
}

/// Whether a client knows a secret. Takes the same time however much of it is right.
fn is_same(shown: &str, secret: &str) -> bool {
    let differences =
        shown.bytes().zip(secret.bytes()).fold(0, |sum, (shown, secret)| sum | (shown ^ secret));
    shown.len() == secret.len() && differences == 0
}

async fn read(body: Incoming) -> Result<Value, BadReview> {
    let body = Limited::new(body, LARGEST).collect();
    let body = tokio::time::timeout(ARRIVAL, body).await;
    let body = body
        .map_err(|_| BadReview(StatusCode::REQUEST_TIMEOUT, "the AdmissionReview did not arrive in time"))?;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            BadReview(StatusCode::PAYLOAD_TOO_LARGE, "the AdmissionReview is too large")
        } else {
            BadReview(StatusCode::BAD_REQUEST, "the AdmissionReview did not arrive completely")
        }
    })?;
    let review: Result<Value, _> = serde_json::from_slice(&body.to_bytes());
    match review {
        Ok(review) if review["kind"] == "AdmissionReview" && review["request"]["uid"].is_string() => {
            Ok(review)
        }
        _ => Err(BadReview(StatusCode::BAD_REQUEST, "the request is not an AdmissionReview")),
    }
}
