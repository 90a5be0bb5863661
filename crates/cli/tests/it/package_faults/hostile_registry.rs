//! A registry whose packages attack whoever installs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_image::tar::{Member, Writer};
use ferroplane_image::{Descriptor, Hasher, ImageConfig, Manifest, RootFilesystem, media_type};
use ferroplane_testkit::TcpServer;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// More than any chunk, and hardly anything.
const PIECE: [u8; 1 << 13] = [b'0'; 1 << 13];

/// How the layer of a package is hostile.
#[derive(Debug, Clone, Copy)]
pub(super) enum Attack {
    /// It has this file, beside `package.yaml`.
    File(&'static str),
    /// The manifest says that it has this media type.
    MediaType(&'static str),
    /// It is sent for as long as anybody reads. The manifest says that it has this size.
    Endless(u64),
}

/// A registry on the loopback. Ends when it is dropped.
pub(super) struct HostileRegistry {
    /// Host and port.
    pub(super) address: String,
    _server: TcpServer,
}

/// What it sends, by the last part of a path.
#[derive(Debug, Default)]
struct Contents {
    manifests: BTreeMap<String, Vec<u8>>,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl HostileRegistry {
    /// A registry with a package `acme/NAME:v1.0.0` for each attack.
    pub(super) fn start(attacks: &[(&str, Attack)], package: &str) -> Self {
        let mut contents = Contents::default();
        for (name, attack) in attacks {
            contents.add(name, *attack, package);
        }
        let contents = Arc::new(contents);
        let server = TcpServer::start(move |stream, _| {
            let contents = contents.clone();
            async move {
                let _ = contents.serve(stream).await;
            }
        });
        Self { address: server.address(), _server: server }
    }
}

impl Contents {
    fn add(&mut self, name: &str, attack: Attack, package: &str) {
        let mut archive = Writer::new(Vec::new());
        let mut add = |path: &str, content: &[u8]| {
            archive.add_file(Member::file(path.as_bytes(), 0o644, content.len() as u64), content).unwrap();
        };
        add("package.yaml", package.as_bytes());
        if let Attack::File(path) = attack {
            add(path, b"from a package");
        }
        let content = archive.finish().unwrap();
        let rootfs = RootFilesystem { kind: "layers".to_owned(), diff_ids: vec![Hasher::digest(&content)] };
        let config = ImageConfig { rootfs, ..ImageConfig::default() }.to_bytes();
        let mut layer = Descriptor::of(media_type::OCI_LAYER, &content);
        layer.annotations.insert("io.crossplane.xpkg".to_owned(), "base".to_owned());
        match attack {
            Attack::File(_) => {}
            Attack::MediaType(foreign) => foreign.clone_into(&mut layer.media_type),
            // Another digest: nothing is served under it.
            Attack::Endless(size) => (layer.digest, layer.size) = (Hasher::digest(name.as_bytes()), size),
        }
        let manifest = Manifest::new(Descriptor::of(media_type::OCI_CONFIG, &config), vec![layer]).to_bytes();
        for blob in [content, config] {
            self.blobs.insert(Hasher::digest(&blob).to_string(), blob);
        }
        self.manifests.insert(Hasher::digest(&manifest).to_string(), manifest.clone());
        self.manifests.insert(format!("acme/{name}"), manifest);
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        while let Some((method, path)) = read(&mut stream).await? {
            let last = path.rsplit('/').next().unwrap_or_default();
            let found = match path.strip_prefix("/v2/").and_then(|path| path.split_once("/manifests/")) {
                Some((name, tag)) => self.manifests.get(if tag.contains(':') { tag } else { name }),
                None => self.blobs.get(last),
            };
            let Some(content) = found else {
                if path.contains("/blobs/") {
                    return send_without_end(stream.get_mut()).await;
                }
                let code = if path == "/v2/" { "200 OK" } else { "404 Not Found" };
                let head = format!("HTTP/1.1 {code}\r\nContent-Length: 0\r\n\r\n");
                stream.get_mut().write_all(head.as_bytes()).await?;
                continue;
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
                media_type::OCI_MANIFEST,
                content.len()
            );
            stream.get_mut().write_all(head.as_bytes()).await?;
            if method != "HEAD" {
                stream.get_mut().write_all(content).await?;
            }
        }
        Ok(())
    }
}

async fn send_without_end(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    loop {
        stream.write_all(&PIECE).await?;
    }
}

/// The method and the path of a request. None at the end of a connection.
async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<(String, String)>> {
    let mut request = None;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        match (&request, words.next(), words.next()) {
            (None, Some(method), Some(path)) => request = Some((method, path)),
            (_, None, _) => return Ok(request),
            _ => {}
        }
    }
}
