//! A kubelet as an API server sees it: the part that runs commands in containers, over WebSocket with `v4.channel.k8s.io`, and the one
//! that reads logs of containers.
//!
//! Runs nothing. A test says what a command prints, how it ends, and what happens to the connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::Pki;
use crate::background::Background;
use crate::tcp::bind;

const PROTOCOL: &str = "v4.channel.k8s.io";
/// What servers of WebSocket add to the key of a client before they hash it (RFC 6455).
const HANDSHAKE: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const LONGEST_HEAD: usize = 64 << 10;

/// How a connection ends that the test has ended.
const LOST: io::ErrorKind = io::ErrorKind::Interrupted;

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;

/// What happens next to the connection of a command.
#[derive(Debug, Clone)]
pub enum ExecStep {
    /// The command prints, as one message.
    Stdout(Vec<u8>),
    /// The same, in two frames of one message, with a ping between them.
    StdoutInFrames(&'static str, &'static str),
    Stderr(Vec<u8>),
    /// A log that never ends: this line is printed again and again, until the client has as much as it asked for, or leaves.
    StdoutForEver(&'static str),
    /// The command ends with this code, and the connection is closed.
    Exit(i32),
    /// The container runtime cannot run the command, for this reason.
    Fail(&'static str),
    /// The connection is closed without a word about the command.
    Close,
    /// The connection is lost.
    Lose,
    /// Nothing, until the client leaves.
    Hang,
    /// Bytes that are no frames of this protocol.
    Raw(Vec<u8>),
}

/// What answers the request for a command: a refusal, or what happens then. If a log is asked for, it has what is printed.
pub type ExecScript = Result<Vec<ExecStep>, u16>;

/// A kubelet. Ends when it is dropped, with all its connections.
pub struct Kubelet {
    address: SocketAddr,
    authority: String,
    state: Arc<State>,
    _background: Background,
}

struct State {
    script: Box<dyn Fn(&str) -> ExecScript + Send + Sync>,
    /// The paths and queries of all requests.
    targets: Mutex<Vec<String>>,
    /// One permit for every client that has left before its command ended.
    left: Semaphore,
}

impl fmt::Debug for Kubelet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubelet").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Kubelet {
    /// Answer requests for commands and logs like this, given their paths and queries.
    pub fn start(script: impl Fn(&str) -> ExecScript + Send + Sync + 'static) -> Self {
        let listener = bind("127.0.0.1:0").expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let pki = Pki::new();
        let acceptor = acceptor(&pki);
        let state =
            Arc::new(State { script: Box::new(script), targets: Mutex::default(), left: Semaphore::new(0) });
        let (background, own) = (Background::new(), state.clone());
        background.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("it does not block");
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), own.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    // A client may leave before everything is written to it.
                    if let Err(error) = state.serve(stream).await
                        && error.kind() != LOST
                    {
                        state.left.add_permits(1);
                    }
                });
            }
        });
        Self { address, authority: pki.ca(), state, _background: background }
    }

    /// Where it listens, as `127.0.0.1:10250`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The certificate of the authority that has signed its own, in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The paths and queries of all requests, in order.
    pub fn targets(&self) -> Vec<String> {
        self.state.targets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wait until one more client has left before its command ended.
    pub async fn until_left(&self) {
        self.state.left.acquire().await.expect("it is never closed").forget();
    }
}

impl State {
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, mut stream: S) -> io::Result<()> {
        let head = read_head(&mut stream).await?;
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let script = (self.script)(&target);
        let limit = target.starts_with("/containerLogs/").then(|| log_limit(&target));
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).push(target);
        if let Some(limit) = limit {
            return print_log(&mut stream, script, limit).await;
        }
        let (Some(key), true) = (header(&head, "sec-websocket-key"), offers_protocol(&head)) else {
            return refuse(&mut stream, 400).await;
        };
        let steps = match script {
            Ok(steps) => steps,
            Err(code) => return refuse(&mut stream, code).await,
        };
        let agreed = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n",
            accepted(key)
        );
        stream.write_all(agreed.as_bytes()).await?;
        // As kubelets do: a first message without text says that there is a connection.
        stream.write_all(&frame(true, BINARY, &[STDOUT])).await?;
        stream.flush().await?;
        for step in steps {
            self.play(&mut stream, step).await?;
        }
        Ok(())
    }

    async fn play<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        step: ExecStep,
    ) -> io::Result<()> {
        match step {
            ExecStep::Stdout(text) => stream.write_all(&message(STDOUT, &text)).await?,
            ExecStep::Stderr(text) => stream.write_all(&message(STDERR, &text)).await?,
            ExecStep::StdoutInFrames(first, second) => {
                stream.write_all(&frame(false, BINARY, &channel(STDOUT, first.as_bytes()))).await?;
                stream.write_all(&frame(true, PING, b"are you there")).await?;
                stream.write_all(&frame(true, CONTINUATION, second.as_bytes())).await?;
            }
            ExecStep::StdoutForEver(line) => loop {
                stream.write_all(&message(STDOUT, line.as_bytes())).await?;
            },
            ExecStep::Exit(code) => {
                stream.write_all(&message(ERROR, &exit_status(code))).await?;
                close(stream).await?;
            }
            ExecStep::Fail(reason) => {
                let status = json!({"metadata": {}, "status": "Failure", "message": reason});
                stream.write_all(&message(ERROR, status.to_string().as_bytes())).await?;
                close(stream).await?;
            }
            ExecStep::Close => close(stream).await?,
            ExecStep::Lose => return Err(LOST.into()),
            ExecStep::Hang => {
                stream.flush().await?;
                read_to_end(stream).await;
                self.left.add_permits(1);
            }
            ExecStep::Raw(bytes) => stream.write_all(&bytes).await?,
        }
        stream.flush().await
    }
}

const CONTINUATION: u8 = 0x0;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;

/// A frame as servers send it: without a mask.
fn frame(is_last: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![if is_last { 0x80 | opcode } else { opcode }];
    let length = payload.len();
    if let Some(short) = u8::try_from(length).ok().filter(|length| *length < 126) {
        frame.push(short);
    } else if let Ok(length) = u16::try_from(length) {
        frame.push(126);
        frame.extend(length.to_be_bytes());
    } else {
        frame.push(127);
        frame.extend((length as u64).to_be_bytes());
    }
    frame.extend_from_slice(payload);
    frame
}

fn message(stream: u8, text: &[u8]) -> Vec<u8> {
    frame(true, BINARY, &channel(stream, text))
}

/// A message begins with the number of its stream.
fn channel(stream: u8, text: &[u8]) -> Vec<u8> {
    let mut payload = vec![stream];
    payload.extend_from_slice(text);
    payload
}

async fn close<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    stream.write_all(&frame(true, CLOSE, &[])).await?;
    stream.flush().await?;
    // A client that still sends must not see a reset before it has read everything.
    read_to_end(stream).await;
    Ok(())
}

/// Read until the client leaves.
async fn read_to_end<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

fn exit_status(code: i32) -> Vec<u8> {
    let status = if code == 0 {
        json!({"metadata": {}, "status": "Success"})
    } else {
        let causes = json!([{"reason": "ExitCode", "message": code.to_string()}]);
        let message = format!("command terminated with non-zero exit code: exit status {code}");
        json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": message,
            "details": {"causes": causes},
        })
    };
    status.to_string().into_bytes()
}

/// How many bytes of a log are asked for.
fn log_limit(target: &str) -> usize {
    let (_, query) = target.split_once('?').unwrap_or_default();
    let limit = query.split('&').find_map(|pair| pair.strip_prefix("limitBytes="));
    limit.and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX)
}

/// Answer with what is printed, up to a limit. As kubelets do, without saying how much that will be.
async fn print_log<S: AsyncWrite + Unpin>(
    stream: &mut S,
    script: ExecScript,
    mut limit: usize,
) -> io::Result<()> {
    let steps = match script {
        Ok(steps) => steps,
        Err(code) => return refuse(stream, code).await,
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n").await?;
    for step in steps {
        match step {
            ExecStep::Stdout(text) | ExecStep::Stderr(text) => print(stream, &text, &mut limit).await?,
            ExecStep::StdoutForEver(line) => {
                let page = line.repeat(1 + (64 << 10) / line.len());
                while limit > 0 {
                    print(stream, page.as_bytes(), &mut limit).await?;
                }
            }
            _ => {}
        }
    }
    stream.shutdown().await
}

async fn print<S: AsyncWrite + Unpin>(stream: &mut S, text: &[u8], limit: &mut usize) -> io::Result<()> {
    let text = &text[..text.len().min(*limit)];
    *limit -= text.len();
    stream.write_all(text).await
}

async fn refuse<S: AsyncWrite + Unpin>(stream: &mut S, code: u16) -> io::Result<()> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": "Refused",
        "message": format!("refused with {code}"),
    });
    let body = status.to_string();
    let answer = format!(
        "HTTP/1.1 {code} Refused\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// The line and the headers of a request.
async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > LONGEST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(stream.read_u8().await?);
    }
    String::from_utf8(head).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut named = headers.filter(|(found, _)| found.eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value.trim())
}

fn offers_protocol(head: &str) -> bool {
    let offered = header(head, "sec-websocket-protocol").unwrap_or_default();
    offered.split(',').any(|protocol| protocol.trim() == PROTOCOL)
}

/// What proves that the server speaks WebSocket.
fn accepted(key: &str) -> String {
    let text = format!("{key}{HANDSHAKE}");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(digest)
}

fn acceptor(pki: &Pki) -> TlsAcceptor {
    let leaf = pki.issue(&["localhost", "127.0.0.1"]);
    let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).expect("it is PEM");
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).expect("it is PEM");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key is that of the certificate");
    TlsAcceptor::from(Arc::new(config))
}
