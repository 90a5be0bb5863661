//! Answers a real API server over HTTPS whether something may be deleted.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crate::Pki;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ferroplane_controllers::{PROTECTION_PATH, Protection};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A webhook that listens until the test ends. It is where it is, whoever answers.
pub(super) struct Webhook {
    port: u16,
    authority: String,
    desk: Arc<Mutex<Desk>>,
}

#[derive(Default)]
struct Desk {
    /// Who answers. Nobody before the first controllers have started.
    protection: Option<Protection>,
    was_asked: bool,
}

impl Webhook {
    pub(super) async fn start() -> Self {
        let pki = Pki::new();
        let leaf = pki.issue(&["127.0.0.1"]);
        let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth();
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let desk = Arc::new(Mutex::new(Desk::default()));
        let ours = desk.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), desk.clone()));
            }
        });
        Self { port, authority: pki.ca(), desk: ours }
    }

    /// Where it is, as a `clientConfig`.
    pub(super) fn address(&self) -> Value {
        let url = format!("https://127.0.0.1:{}{PROTECTION_PATH}", self.port);
        json!({"url": url, "caBundle": STANDARD.encode(&self.authority)})
    }

    /// From now on, this one answers.
    pub(super) fn seat(&self, protection: Protection) {
        *self.desk.lock().unwrap() = Desk { protection: Some(protection), was_asked: false };
    }

    /// Whether anybody asked the one who answers now.
    pub(super) fn was_asked(&self) -> bool {
        self.desk.lock().unwrap().was_asked
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, desk: Arc<Mutex<Desk>>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request: Request<Incoming>| {
        let protection = {
            let mut desk = desk.lock().unwrap();
            desk.was_asked = true;
            desk.protection.clone().expect("nobody asks before somebody is seated")
        };
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let answer = protection.review(serde_json::from_slice(&body).unwrap()).await;
            let response = Response::builder().header("content-type", "application/json");
            Ok::<_, Infallible>(response.body(Full::new(Bytes::from(answer.to_string()))).unwrap())
        }
    });
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
