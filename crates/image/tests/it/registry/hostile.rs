//! A server that answers as it is told, however wrong that is, and remembers what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_testkit::TcpServer;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::images::TestImage;

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// What to answer.
pub(crate) enum Reply {
    /// A status, headers and a body, with its length.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// These bytes, and then the end of the connection.
    Raw(Vec<u8>),
    /// These bytes, and then zeros for as long as somebody reads.
    Endless(Vec<u8>),
    /// These bytes, and then a space now and then for as long as somebody reads.
    Drip(Vec<u8>),
    /// These bytes, and then nothing.
    Hang(Vec<u8>),
}

pub(crate) struct Hostile {
    /// Host and port.
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _server: TcpServer,
}

impl Hostile {
    pub(crate) fn start(reply: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, reply) = (asked.clone(), Arc::new(reply));
        let server = TcpServer::start(move |stream, _| {
            let (log, reply) = (log.clone(), reply.clone());
            async move {
                let _ = converse(stream, &log, &*reply).await;
            }
        });
        Self { address: server.address(), asked, _server: server }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// How often a path was asked for.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.asked().iter().filter(|asked| asked.path.contains(part)).count()
    }
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

pub(crate) fn status(code: u16) -> Reply {
    Reply::Answer(code, Vec::new(), Vec::new())
}

/// What a proper registry with one image answers.
pub(crate) fn proper(image: &TestImage, asked: &Asked) -> Reply {
    if asked.path.contains("/manifests/") {
        return manifest(&image.manifest);
    }
    for content in image.layers.iter().chain([&image.config]) {
        if asked.path.contains(ferroplane_image::Hasher::digest(content).hex()) {
            return Reply::Answer(200, Vec::new(), content.clone());
        }
    }
    status(404)
}

pub(crate) fn manifest(content: &[u8]) -> Reply {
    let media_type = ferroplane_image::media_type::OCI_MANIFEST.to_owned();
    Reply::Answer(200, vec![("Content-Type", media_type)], content.to_vec())
}

async fn converse(
    stream: TcpStream,
    log: &Mutex<Vec<Asked>>,
    reply: &(dyn Fn(&Asked) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream).await? {
        log.lock().unwrap().push(asked.clone());
        match reply(&asked) {
            Reply::Answer(code, headers, body) => {
                let headers: Vec<String> =
                    headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {code} X\r\nContent-Length: {length}\r\n{}\r\n", headers.concat());
                stream.get_mut().write_all(head.as_bytes()).await?;
                if asked.method != "HEAD" {
                    stream.get_mut().write_all(&body).await?;
                }
            }
            Reply::Raw(bytes) => {
                stream.get_mut().write_all(&bytes).await?;
                return stream.get_mut().shutdown().await;
            }
            Reply::Drip(bytes) => {
                stream.get_mut().write_all(&bytes).await?;
                loop {
                    stream.get_mut().write_all(b" ").await?;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            Reply::Endless(bytes) => {
                stream.get_mut().write_all(&bytes).await?;
                loop {
                    stream.get_mut().write_all(&[b'0'; 1 << 13]).await?;
                }
            }
            Reply::Hang(bytes) => {
                stream.get_mut().write_all(&bytes).await?;
                tokio::time::sleep(Duration::from_mins(10)).await;
            }
        }
    }
    Ok(())
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Asked>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines[0].split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let pair = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut asked =
        Asked { method, path, headers: lines[1..].iter().filter_map(pair).collect(), body: String::new() };
    let length = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    asked.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(asked))
}
