//! Functions on Crossplane's Go SDK that are programs of their own, called over mutual TLS as packages would serve them.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ferroplane_runner::grpc;
use ferroplane_testkit::Pki;
use tempfile::TempDir;

use crate::process::peers;

/// Functions that run. They end when this is dropped.
pub(crate) struct ServedFunctions {
    certificates: TempDir,
    pub(crate) programs: Vec<Program>,
}

pub(crate) struct Program {
    pub(crate) name: &'static str,
    child: Child,
    /// Host and port.
    pub(crate) endpoint: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServedFunctions {
    /// Start these, if they are installed.
    pub(crate) fn start(names: &[&'static str]) -> Option<Self> {
        if !names.iter().all(|name| peers().join(name).exists()) {
            return None;
        }
        let certificates = tempfile::tempdir().expect("there is room");
        let pki = Pki::new();
        for side in ["server", "client"] {
            write_certificates(&pki, &certificates.path().join(side));
        }
        let server = certificates.path().join("server");
        let programs = names.iter().copied().map(|name| Program::start(name, &server)).collect();
        Some(Self { certificates, programs })
    }

    /// How they are called.
    pub(crate) fn calls(&self) -> grpc::Options {
        let tls = grpc::Tls::read(&self.certificates.path().join("client")).expect("they were just written");
        grpc::Options { tls: Some(tls), ..grpc::Options::default() }
    }
}

impl Program {
    fn start(name: &'static str, certificates: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let child = Command::new(peers().join(name))
            .args(["--address", &format!("127.0.0.1:{port}"), "--tls-certs-dir"])
            .arg(certificates)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is installed");
        Self { name, child, endpoint: format!("localhost:{port}") }
    }
}

fn write_certificates(pki: &Pki, directory: &Path) {
    std::fs::create_dir_all(directory).expect("there is room");
    let leaf = pki.issue(&["localhost"]);
    for (name, content) in [("ca.crt", pki.ca()), ("tls.crt", leaf.certificate), ("tls.key", leaf.key)] {
        std::fs::write(directory.join(name), content).expect("there is room");
    }
}
