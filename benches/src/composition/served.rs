//! Functions that are programs of their own, called over mutual TLS as packages would serve them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ferroplane_runner::grpc;
use ferroplane_testkit::Pki;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::plane::Functions;

/// Functions that run. They end when this is dropped.
pub(super) struct Served {
    certificates: TempDir,
    programs: Vec<Program>,
}

struct Program {
    name: &'static str,
    child: Child,
    endpoint: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    /// Start them, if they are installed.
    pub(super) fn start() -> Option<Self> {
        let peers = PathBuf::from(std::env::var_os("FERROPLANE_PEERS")?);
        let names = ["function-patch-and-transform", "function-auto-ready"];
        if !names.iter().all(|name| peers.join(name).exists()) {
            return None;
        }
        let certificates = tempfile::tempdir().expect("there is room");
        let pki = Pki::new();
        for side in ["server", "client"] {
            write_certificates(&pki, &certificates.path().join(side));
        }
        let server = certificates.path().join("server");
        let programs = names.map(|name| Program::start(&peers, name, &server)).into();
        Some(Self { certificates, programs })
    }

    pub(super) fn functions(&self) -> Functions {
        let tls = grpc::Tls::read(&self.certificates.path().join("client")).expect("they were just written");
        Functions {
            patch_and_transform: "served-patch-and-transform".to_owned(),
            auto_ready: "served-auto-ready".to_owned(),
            template: None,
            calls: grpc::Options { tls: Some(tls), ..grpc::Options::default() },
            revisions: self.programs.iter().map(Program::revision).collect(),
        }
    }
}

impl Program {
    fn start(peers: &Path, name: &'static str, certificates: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let child = Command::new(peers.join(name))
            .args(["--address", &format!("127.0.0.1:{port}"), "--tls-certs-dir"])
            .arg(certificates)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is installed");
        Self { name, child, endpoint: format!("localhost:{port}") }
    }

    /// A revision of a function, as a package manager would write it.
    fn revision(&self) -> Value {
        let function = self.name.replace("function-", "served-");
        json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision",
            "metadata": {"name": format!("{function}-1"), "labels": {"pkg.crossplane.io/package": function}},
            "spec": {"desiredState": "Active", "image": format!("example.org/{function}:v0.1.0"), "revision": 1},
            "status": {"endpoint": self.endpoint, "capabilities": ["composition"]},
        })
    }
}

fn write_certificates(pki: &Pki, directory: &Path) {
    std::fs::create_dir_all(directory).expect("there is room");
    let leaf = pki.issue(&["localhost"]);
    for (name, content) in [("ca.crt", pki.ca()), ("tls.crt", leaf.certificate), ("tls.key", leaf.key)] {
        std::fs::write(directory.join(name), content).expect("there is room");
    }
}
