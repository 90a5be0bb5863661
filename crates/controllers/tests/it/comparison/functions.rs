//! The functions that both sides call, over mutual TLS.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ferroplane_testkit::plane::send;
use ferroplane_testkit::{Pki, free_port};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::chapter::apply;

const NAMES: [&str; 4] =
    ["function-auto-ready", "function-patch-and-transform", "greeter-go", "function-environment-configs"];

/// Functions that run, and certificates of all who take part. Ends them when it is dropped.
pub(super) struct Functions {
    directory: TempDir,
    pki: Pki,
    served: Vec<(&'static str, u16, Child)>,
}

impl Functions {
    /// Certificates, and nothing that runs yet.
    pub(super) fn prepare() -> Self {
        let functions = Self { directory: TempDir::new().unwrap(), pki: Pki::new(), served: Vec::new() };
        functions.write(&functions.certificates());
        functions
    }

    /// Start them. Some want a port of their own for metrics, but can do without: a user who cannot comes first.
    fn start(&mut self) {
        for name in NAMES.into_iter().filter(|name| peer(name).exists()) {
            let port = free_port();
            let child = Command::new(peer(name))
                .args(["--address", &format!("127.0.0.1:{port}"), "--tls-certs-dir"])
                .arg(self.certificates())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            self.served.push((name, port, child));
        }
    }

    /// A directory with `ca.crt`, `tls.crt` and `tls.key`, for a caller that takes part.
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

    /// Start them and have them called: as a package manager would leave them, were it not told to keep away.
    pub(super) async fn install(&mut self, client: &kube::Client) {
        self.start();
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
            // The only one that can be called by operations, too.
            let capabilities = if *name == "greeter-go" {
                json!(["composition", "operation"])
            } else {
                json!(["composition"])
            };
            let status = json!({"endpoint": format!("localhost:{port}"), "capabilities": capabilities});
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

/// Where a peer is installed, or an executable that somebody has put beside the peers.
pub(super) fn peer(name: &str) -> PathBuf {
    let directory = std::env::var_os("FERROPLANE_PEERS").expect("`cargo xtask compare` says where peers are");
    match name {
        "function-environment-configs" => {
            Path::new(&directory).with_file_name("originals").join("bin/function-environment-configs@v0.7.1")
        }
        name => Path::new(&directory).join(name),
    }
}

/// Whether environments can be read.
pub(super) fn has_environment() -> bool {
    peer("function-environment-configs").exists()
}

/// Whatever is JSON, in a body.
pub(super) fn base64(text: &str) -> Value {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text).into()
}
