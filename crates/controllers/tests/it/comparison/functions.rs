//! The functions that both sides call, over mutual TLS.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ferroplane_testkit::Pki;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::chapter::apply;
use crate::plane::send;

const NAMES: [&str; 3] = ["function-auto-ready", "function-patch-and-transform", "greeter-go"];

/// Functions that run, and certificates of all who take part. Ends them when it is dropped.
pub(super) struct Functions {
    directory: TempDir,
    pki: Pki,
    served: Vec<(&'static str, u16, Child)>,
}

impl Functions {
    pub(super) fn start() -> Self {
        let mut functions = Self { directory: TempDir::new().unwrap(), pki: Pki::new(), served: Vec::new() };
        let certificates = functions.certificates();
        functions.write(&certificates);
        for name in NAMES {
            let port = free_port();
            let child = Command::new(peer(name))
                .args(["--address", &format!("127.0.0.1:{port}"), "--tls-certs-dir"])
                .arg(&certificates)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            functions.served.push((name, port, child));
        }
        functions
    }

    /// A directory with `ca.crt`, `tls.crt` and `tls.key`, for whoever takes part.
    pub(super) fn certificates(&self) -> PathBuf {
        self.directory.path().join("tls")
    }

    /// What signed the certificates.
    pub(super) fn authority(&self) -> String {
        self.pki.ca()
    }

    fn write(&self, directory: &Path) {
        let leaf = self.pki.issue(&["localhost", "127.0.0.1"]);
        std::fs::create_dir_all(directory).unwrap();
        for (name, content) in
            [("ca.crt", self.pki.ca()), ("tls.crt", leaf.certificate), ("tls.key", leaf.key)]
        {
            std::fs::write(directory.join(name), content).unwrap();
        }
    }

    /// Have them called: as a package manager would leave them, were it not told to keep away.
    pub(super) async fn install(&self, client: &kube::Client) {
        let annotations = json!({"crossplane.io/paused": "true", "ferroplane.io/native": "false"});
        for (name, port, _) in &self.served {
            let image = format!("registry.example.org/{name}:v1.0.0");
            let function = json!({
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "Function",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"package": image},
            });
            apply(client, &function).await;
            let revision = json!({
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "FunctionRevision",
                "metadata": {
                    "name": format!("{name}-1"),
                    "labels": {"pkg.crossplane.io/package": name},
                    "annotations": annotations,
                },
                "spec": {"desiredState": "Active", "image": image, "revision": 1},
            });
            apply(client, &revision).await;
            let path = format!("/apis/pkg.crossplane.io/v1/functionrevisions/{name}-1/status");
            let status = json!({"endpoint": format!("localhost:{port}"), "capabilities": ["composition"]});
            let change = json!({"status": status});
            let answer = send(client, Method::PATCH, &path, "application/merge-patch+json", &change).await;
            assert_eq!(answer.0, 200, "{}", answer.1);
        }
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        for (_, _, child) in &mut self.served {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Where a peer is installed.
pub(super) fn peer(name: &str) -> PathBuf {
    let directory = std::env::var_os("FERROPLANE_PEERS").expect("`cargo xtask compare` says where peers are");
    Path::new(&directory).join(name)
}

/// A port that was free just now.
pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Whatever is JSON, in a body.
pub(super) fn base64(text: &str) -> Value {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text).into()
}
