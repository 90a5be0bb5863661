//! A plain client of an API server: one connection, HTTP/1.1 over TLS.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where a server is, whom to trust there, and who to be.
#[derive(Debug, Clone)]
pub struct ApiAddress {
    authority: String,
    config: Arc<rustls::ClientConfig>,
    token: Option<String>,
}

/// A connection to an API server.
#[derive(Debug)]
pub struct ApiClient {
    sender: SendRequest<Full<Bytes>>,
    address: ApiAddress,
}

/// The events of a watch, as they come.
#[derive(Debug)]
pub struct ApiWatch {
    body: Incoming,
    read: BytesMut,
    /// The connection lasts as long as somebody could ask for more.
    _client: ApiClient,
}

/// An answer that has been read.
#[derive(Debug)]
pub struct ApiAnswer {
    pub code: u16,
    pub body: Bytes,
}

impl ApiAddress {
    /// A server whose authority is in PEM, for the owner of a token.
    pub fn with_token(url: &str, authorities: &[u8], token: Option<String>) -> Self {
        let authority = url.trim_start_matches("https://").trim_end_matches('/').to_owned();
        Self { authority, config: client_config(authorities, None), token }
    }

    /// What a kubeconfig with a client certificate says; nothing if there is none yet.
    pub fn from_kubeconfig(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let value: Value = serde_saphyr::from_str(&text).ok()?;
        let cluster = &value["clusters"][0]["cluster"];
        let user = &value["users"][0]["user"];
        let data = |value: &Value| STANDARD.decode(value.as_str()?).ok();
        let authority = cluster["server"].as_str()?.trim_start_matches("https://").to_owned();
        let identity = (data(&user["client-certificate-data"])?, data(&user["client-key-data"])?);
        let config = client_config(&data(&cluster["certificate-authority-data"])?, Some(identity));
        Some(Self { authority, config, token: None })
    }
}

/// A connection over TLS on which nothing has been said yet.
pub type RawConnection = TlsStream<TcpStream>;

impl ApiAddress {
    /// The same server, for somebody who does not show who they are.
    #[must_use]
    pub fn without_identity(&self) -> Self {
        let mut config = (*self.config).clone();
        config.client_auth_cert_resolver = Arc::new(NoCertificate);
        Self { authority: self.authority.clone(), config: Arc::new(config), token: None }
    }

    /// Connects from an address of this machine, as a stranger, to speak a protocol by oneself.
    pub async fn dial(&self, source: IpAddr, protocol: &str) -> io::Result<RawConnection> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let remote = self.authority.parse().map_err(io::Error::other)?;
        let stream = socket.connect(remote).await?;
        let mut config = (*self.without_identity().config).clone();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("localhost").expect("it is a name");
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

/// Shows no certificate, a caller that asks.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

fn client_config(authorities: &[u8], identity: Option<(Vec<u8>, Vec<u8>)>) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities).flatten() {
        roots.add(certificate).expect("it is a certificate");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("there are versions")
        .with_root_certificates(roots);
    Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificates = CertificateDer::pem_slice_iter(&certificate).flatten().collect();
            let key = PrivateKeyDer::from_pem_slice(&key).expect("it is a key");
            builder.with_client_auth_cert(certificates, key).expect("they belong together")
        }
    })
}

impl ApiClient {
    pub async fn connect(address: &ApiAddress) -> io::Result<Self> {
        let stream = TcpStream::connect(&address.authority).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").expect("it is a name");
        let stream = TlsConnector::from(Arc::clone(&address.config)).connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self { sender, address: address.clone() })
    }

    /// Sends a request with a body of JSON, and begins to read the answer.
    pub async fn begin(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> io::Result<http::Response<Incoming>> {
        self.begin_with(method, path, &[("content-type", "application/json")], body).await
    }

    /// The same with these headers, which say what the body is.
    pub async fn begin_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<http::Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address.authority)
            .header("user-agent", "testkit");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.address.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).map_err(io::Error::other)?;
        self.sender.ready().await.map_err(io::Error::other)?;
        self.sender.send_request(request).await.map_err(io::Error::other)
    }

    /// Begins a watch, which takes the connection.
    pub async fn watch(mut self, path: &str) -> io::Result<ApiWatch> {
        let response = self.begin("GET", path, "").await?;
        if response.status() != http::StatusCode::OK {
            return Err(io::Error::other(format!("the watch is refused: {}", response.status())));
        }
        Ok(ApiWatch { body: response.into_body(), read: BytesMut::new(), _client: self })
    }

    /// Sends a request with a body of JSON, and reads the answer.
    pub async fn send(&mut self, method: &str, path: &str, body: &str) -> io::Result<ApiAnswer> {
        self.send_with(method, path, &[("content-type", "application/json")], body).await
    }

    /// The same with these headers, which say what the body is.
    pub async fn send_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<ApiAnswer> {
        let response = self.begin_with(method, path, headers, body).await?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(ApiAnswer { code, body })
    }
}

impl ApiWatch {
    /// The next event, as it was sent; nothing when the watch has ended.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.read.split_to(end + 1).freeze()));
            }
            match self.body.frame().await.transpose().map_err(io::Error::other)? {
                None => return Ok(None),
                Some(frame) => self.read.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            }
        }
    }
}
