//! A real server, over HTTPS.

use std::env;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::uri::Authority;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::exchange::{Answer, Server};

pub(super) struct Theirs {
    authority: Authority,
    token: String,
    connector: TlsConnector,
}

impl Theirs {
    /// The server that the environment names, if it does. Without controllers nothing is collected.
    pub(super) fn find(needs_controllers: bool) -> Option<Self> {
        if needs_controllers && env::var_os("FERROPLANE_ORACLE_CONTROLLERS").is_none() {
            return None;
        }
        let url: http::Uri =
            env::var("FERROPLANE_ORACLE_URL").ok().filter(|url| !url.is_empty())?.parse().unwrap();
        let token = env::var("FERROPLANE_ORACLE_TOKEN").expect("the server has a token");
        let certificate = env::var("FERROPLANE_ORACLE_CA").expect("the server has a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let authority = url.authority().expect("the server has an address").clone();
        Some(Self { authority, token, connector: TlsConnector::from(Arc::new(config)) })
    }
}

impl Server for Theirs {
    async fn ask(&self, mut request: Request<Full<Bytes>>) -> Answer {
        let stream = TcpStream::connect(self.authority.as_str()).await.unwrap();
        let name = ServerName::try_from(self.authority.host().to_owned()).unwrap();
        let stream = self.connector.connect(name, stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        request.headers_mut().insert(http::header::HOST, self.authority.as_str().parse().unwrap());
        let answer = match sender.send_request(request).await {
            Ok(response) => Answer::read(response).await,
            // There are requests at which a real server panics and hangs up.
            Err(_) => Answer { code: 0, headers: http::HeaderMap::new(), body: Bytes::new() },
        };
        connection.abort();
        answer
    }

    async fn forget(&self, version: &str) {
        let etcd: http::Uri =
            env::var("FERROPLANE_ORACLE_ETCD").expect("the server has a store").parse().unwrap();
        let stream = TcpStream::connect(etcd.authority().unwrap().as_str()).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let body = format!(r#"{{"revision": {version}, "physical": true}}"#);
        let request = Request::post("/v3/kv/compaction").header("host", "etcd");
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = Answer::read(sender.send_request(request).await.unwrap()).await;
        assert_eq!(answer.code, 200, "{}", String::from_utf8_lossy(&answer.body));
        connection.abort();
    }

    fn master(&self) -> String {
        self.token.clone()
    }
}
