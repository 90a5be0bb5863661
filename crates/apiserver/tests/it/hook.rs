//! A webhook that does what a test wants.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What a webhook says to a request; nothing if it never answers.
type Answer = dyn Fn(&Value) -> Option<Response<Full<Bytes>>> + Send + Sync;

/// A webhook that listens. It ends with the test.
pub(crate) struct Hook {
    pub(crate) port: u16,
    pub(crate) authority: String,
    requests: Arc<Mutex<Vec<Value>>>,
    connections: Arc<AtomicUsize>,
}

impl Hook {
    /// A webhook that answers with a response, made of the request.
    pub(crate) async fn saying(response: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self::behaving(move |request| {
            let mut response = response(request);
            if response.get("uid").is_none() {
                response["uid"] = request["uid"].clone();
            }
            let review =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            Some(Response::new(Full::from(review.to_string())))
        })
        .await
    }

    pub(crate) async fn behaving(
        answer: impl Fn(&Value) -> Option<Response<Full<Bytes>>> + Send + Sync + 'static,
    ) -> Self {
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1".to_owned(), "hook.default.svc".to_owned()];
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hook = Self {
            port: listener.local_addr().unwrap().port(),
            authority: certificate.pem(),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (requests, connections) = (Arc::clone(&hook.requests), Arc::clone(&hook.connections));
        tokio::spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            requests,
            connections,
            Arc::new(answer),
        ));
        hook
    }

    /// What it was asked.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// How to reach it.
    pub(crate) fn client(&self) -> Value {
        json!({
            "url": format!("https://127.0.0.1:{}/ask", self.port),
            "caBundle": STANDARD.encode(&self.authority),
        })
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    requests: Arc<Mutex<Vec<Value>>>,
    connections: Arc<AtomicUsize>,
    answer: Arc<Answer>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        let (acceptor, requests, answer) = (acceptor.clone(), Arc::clone(&requests), Arc::clone(&answer));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request: Request<Incoming>| {
                let (requests, answer) = (Arc::clone(&requests), Arc::clone(&answer));
                async move {
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let review: Value = serde_json::from_slice(&body).unwrap();
                    requests.lock().unwrap().push(review["request"].clone());
                    match answer(&review["request"]) {
                        Some(response) => Ok::<_, Infallible>(response),
                        None => std::future::pending().await,
                    }
                }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
