//! Registries that are reached through a proxy.

use std::sync::{Arc, Mutex};

use ferroplane_image::registry::{Options, Proxies, Push};
use ferroplane_testkit::{DebianRegistry, Pki, RegistrySetup, TcpServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;

use super::images::{TestImage, noise};
use super::{chain, client, quick, reference, store};

/// A proxy that connects to one address, whatever it is asked for, and remembers that. With no address it refuses.
struct Proxy {
    server: TcpServer,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(to: Option<String>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let server = TcpServer::start(move |stream, _| {
            let (to, log) = (to.clone(), log.clone());
            async move {
                let _ = serve(stream, to, &log).await;
            }
        });
        Self { server, asked }
    }

    fn variables(&self, user: &str) -> Proxies {
        let address = format!("http://{user}{}", self.server.address());
        Proxies::from_variables(move |name| (name == "HTTPS_PROXY").then(|| address.clone()))
    }
}

async fn serve(mut stream: TcpStream, to: Option<String>, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    log.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
    let Some(to) = to else {
        return stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut stream, &mut TcpStream::connect(to).await?).await.map(drop)
}

#[tokio::test]
async fn registry_is_reached_through_the_proxy_and_its_certificate_is_verified() {
    let pki = Pki::new();
    let leaf = pki.issue(&["registry.example.org"]);
    let Some(debian) = DebianRegistry::start(&RegistrySetup { tls: Some(&leaf), ..RegistrySetup::default() })
    else {
        return;
    };
    let proxy = Proxy::start(Some(debian.address.clone()));
    let options = |authorities: String| Options {
        proxies: proxy.variables("alice:sesame@"),
        authorities: authorities.into_bytes(),
        ..quick()
    };
    let (_directory, images) = store();
    let digest = TestImage::new(&[noise(1000, 1)]).write(&images);
    let name = reference("registry.example.org/name:v1");
    let registry = client(options(pki.ca()));
    registry.push(&name, &digest, &Push::from(&images)).await.unwrap();
    assert_eq!(registry.resolve(&name).await.unwrap().digest, digest);
    let asked = proxy.asked.lock().unwrap().concat();
    assert!(asked.starts_with("CONNECT registry.example.org:443 HTTP/1.1\r\n"), "{asked}");
    // alice:sesame
    assert!(asked.to_lowercase().contains("proxy-authorization: basic yw"), "{asked}");

    let error = client(options(Pki::new().ca())).resolve(&name).await.map_err(|error| chain(&error));
    assert!(error.unwrap_err().contains("cannot establish TLS"), "the proxy must not be able to read along");
}

#[tokio::test]
async fn proxy_that_refuses_is_named_and_its_password_is_not() {
    let proxy = Proxy::start(None);
    let options = Options { proxies: proxy.variables("alice:sesame@"), ..quick() };
    let error = client(options).resolve(&reference("registry.example.org/name:v1")).await.unwrap_err();
    let error = chain(&error);
    assert!(error.contains("the proxy refuses the connection with status 403"), "{error}");
    assert!(!error.contains("sesame"), "{error}");
}
