//! A function server in a container, as the product serves images, against the same server in a process. Both are called by our client
//! over mutual TLS.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use ferroplane_runner::grpc::{Client, Options, Tls};
use ferroplane_runner::{ImageSettings, ImageSource, Images, ServeImage};
use ferroplane_testkit::{Leaf, Pki, free_port};
use prost::Message as _;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use super::{ECHO, ROUNDS, helper, row};
use crate::grpc::{echo, request, timed};
use crate::measure::Times;

/// The variable that tells servers where their certificates are.
const CERTIFICATES: &str = "TLS_SERVER_CERTS_DIR";
/// Where servers listen unless they are configured otherwise.
const PORT: u16 = 9443;
const CALLS: u32 = 2000;
/// So many that a request has about 17 kB.
const RESOURCES: usize = 17;

/// Serves, in a container or in a process. With a port, there.
pub(super) fn serve() {
    let port = std::env::args().nth(2).map_or(PORT, |port| port.parse().expect("it is a port"));
    let directory = PathBuf::from(std::env::var_os(CERTIFICATES).expect("there are certificates"));
    let read = |name: &str| fs::read(directory.join(name)).expect("there are certificates");
    let identity = Identity::from_pem(read("tls.crt"), read("tls.key"));
    let tls = ServerTlsConfig::new().identity(identity).client_ca_root(Certificate::from_pem(read("ca.crt")));
    Runtime::new().expect("there is a runtime").block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("there is a port");
        echo::serve(listener, Some(tls)).await;
    });
}

pub(super) fn run(runtime: &Runtime, image: &Path, directory: &Path) {
    let request = request(RESOURCES);
    println!(
        "gRPC echo of {} bytes over one connection with mutual TLS, the same server in a process and in a container, in turns\n",
        request.encoded_len()
    );
    println!("| what | best | p50 | p99 | against the process |\n|---|---|---|---|---|");
    let config = json!({"config": {"Entrypoint": ["/bin/benches", ECHO], "User": "1000:1000"}});
    fs::write(image.join("config.json"), config.to_string()).expect("there is room");
    let (plain_times, our_times) = runtime.block_on(async {
        let (process, plain) = EchoProcess::start(&directory.join("certificates"));
        let images = Images::new(ImageSettings::new(directory.join("images"), helper()));
        let serve = ServeImage::function("echo", ImageSource::Path(image.to_owned()));
        let server = images.serve(serve).await.expect("it serves");
        let (mut plain_times, mut our_times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let call = async || drop(plain.call(&request).await.expect("it answers"));
            plain_times.extend(timed(CALLS, call).await.0);
            let call = async || drop(server.call(&request).await.expect("it answers"));
            our_times.extend(timed(CALLS, call).await.0);
        }
        drop(process);
        server.end().await;
        images.close().await;
        (plain_times, our_times)
    });
    let (plain, ours) = (Times::from(plain_times), Times::from(our_times));
    row("server in a process, mutual TLS", &plain, None);
    row("server in a container, mutual TLS", &ours, Some(plain.p50()));
}

/// The server in a process. It ends when this is dropped.
struct EchoProcess(Child);

impl EchoProcess {
    fn start(certificates: &Path) -> (Self, Client) {
        let pki = Pki::new();
        let (server, client) = (pki.issue(&["localhost"]), pki.issue(&["localhost"]));
        write(&pki, &server, certificates);
        let port = free_port();
        let own = std::env::current_exe().expect("this program is somewhere");
        let mut command = Command::new(own);
        command.args([ECHO, &port.to_string()]).env(CERTIFICATES, certificates);
        let process = Self(command.spawn().expect("it starts"));
        let tls = Tls {
            ca: pki.ca().into_bytes(),
            certificate: client.certificate.into_bytes(),
            key: client.key.into_bytes(),
        };
        let target = format!("localhost:{port}").parse().expect("it is an address");
        let options = Options { tls: Some(tls), ..Options::default() };
        (process, Client::new(target, options).expect("it is a client"))
    }
}

fn write(pki: &Pki, leaf: &Leaf, directory: &Path) {
    fs::create_dir_all(directory).expect("there is room");
    for (name, content) in [("ca.crt", &pki.ca()), ("tls.crt", &leaf.certificate), ("tls.key", &leaf.key)] {
        fs::write(directory.join(name), content).expect("there is room");
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
