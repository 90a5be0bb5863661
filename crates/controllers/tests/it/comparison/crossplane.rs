//! Crossplane, as processes beside an API server.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ferroplane_testkit::free_port;
use ferroplane_testkit::plane::send;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::chapter::apply;
use super::functions::{Functions, base64, peer};

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Its controllers, and those that give rights. Ends them when it is dropped.
pub(super) struct Crossplane {
    children: Vec<Child>,
    cache: TempDir,
}

impl Crossplane {
    /// Install it as its chart does, and start it.
    pub(super) async fn start(client: &kube::Client, functions: &Functions) -> Self {
        let directory = TempDir::new().unwrap();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "crossplane-system"}});
        apply(client, &namespace).await;
        install().await;
        let hook = free_port();
        redirect(client, hook, functions).await;
        let mut crossplane = Self { children: Vec::new(), cache: directory };
        let health = free_port();
        let mut core = Command::new(peer("crossplane"));
        core.args(["core", "start", "--package-runtime=External", "--enable-operations"]);
        core.arg(format!("--webhook-port={hook}")).arg(format!("--health-probe-port={health}"));
        core.arg(format!("--metrics-port={}", free_port()));
        core.arg("--tls-client-certs-dir").arg(functions.certificates());
        core.arg("--tls-server-certs-dir").arg(functions.certificates());
        core.arg("--xpkg-cache-dir").arg(crossplane.cache.path());
        crossplane.spawn(core, "core");
        let mut rights = Command::new(peer("crossplane"));
        rights.args(["rbac", "start"]);
        crossplane.spawn(rights, "rbac");
        crossplane.until_ready(health).await;
        crossplane
    }

    /// Its processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    fn spawn(&mut self, mut command: Command, name: &str) {
        let log = super::directory().unwrap().join(format!("{name}.log"));
        let log = File::create(log).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.children.push(command.spawn().unwrap());
    }

    async fn until_ready(&mut self, port: u16) {
        for _ in 0..600 {
            for child in &mut self.children {
                assert!(child.try_wait().unwrap().is_none(), "Crossplane has ended: its log says why");
            }
            if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("Crossplane does not become ready");
    }
}

/// Do what has to be done before it is started. What it needs takes a moment to be served, and it does not wait.
async fn install() {
    let source = PathBuf::from(std::env::var_os("FERROPLANE_CROSSPLANE_SOURCE").unwrap());
    for _ in 0..30 {
        let status = Command::new(peer("crossplane"))
            .args(["core", "init", "--cr-ds-path"])
            .arg(source.join("cluster/crds"))
            .arg("--webhook-configurations-path")
            .arg(source.join("cluster/webhookconfigurations"))
            .args(["--webhook-service-name=hooks", "--webhook-service-namespace=crossplane-system"])
            .args(["--webhook-service-port=9443", "--tlsca-secret-name=crossplane-root-ca"])
            .args(["--tls-server-secret-name=crossplane-tls-server"])
            .args(["--tls-client-secret-name=crossplane-tls-client"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        if status.success() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("Crossplane cannot be installed");
}

impl Drop for Crossplane {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Services lead nowhere where there are no nodes: have the API server ask the process itself.
async fn redirect(client: &kube::Client, port: u16, functions: &Functions) {
    let path = format!("{HOOKS}/crossplane-no-usages");
    let (_, mut hook) = send(client, Method::GET, &path, "application/json", &Value::Null).await;
    let url = format!("https://localhost:{port}/validate-no-usages");
    hook["webhooks"][0]["clientConfig"] = json!({"url": url, "caBundle": base64(&functions.authority())});
    let (code, answer) = send(client, Method::PUT, &path, "application/json", &hook).await;
    assert_eq!(code, 200, "{answer}");
}
