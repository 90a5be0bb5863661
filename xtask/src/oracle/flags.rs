//! How each server is started, as a line for a shell.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Every request, but not what was said in it: who asked, for what, and by which right it was allowed.
const AUDIT_POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"Metadata"}]}"#;
const AUDIT_POLICY_FILE: &str = "audit-policy.json";

/// Write what is audited. Returns where the log will be.
pub(super) fn prepare_audit(directory: &Path) -> Result<PathBuf> {
    fs::write(directory.join(AUDIT_POLICY_FILE), AUDIT_POLICY).context("cannot write the audit policy")?;
    Ok(directory.join("audit.log"))
}

/// etcd, with one member, and with or without care for power cuts.
pub(super) fn etcd(programs: &Path, directory: &Path, port: u16, peer_port: u16, is_durable: bool) -> String {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut line = Line::new(programs, "etcd");
    line.path("data-dir", directory, "etcd");
    line.flag("listen-client-urls", &client).flag("advertise-client-urls", &client);
    line.flag("listen-peer-urls", &peer).flag("initial-advertise-peer-urls", &peer);
    line.flag("initial-cluster", format!("default={peer}"));
    line.flag("unsafe-no-fsync", !is_durable).flag("log-level", "warn");
    line.0
}

/// kube-apiserver, with RBAC and its usual admission. Pods may be created where no controller makes service accounts.
pub(super) fn api_server(
    programs: &Path,
    directory: &Path,
    etcd: u16,
    port: u16,
    audit: Option<&Path>,
) -> String {
    let mut line = Line::new(programs, "kube-apiserver");
    line.flag("etcd-servers", format!("http://127.0.0.1:{etcd}"));
    line.flag("bind-address", "127.0.0.1").flag("advertise-address", "127.0.0.1").flag("secure-port", port);
    line.flag("endpoint-reconciler-type", "none").flag("service-cluster-ip-range", "10.96.0.0/12");
    line.path("cert-dir", directory, ".");
    line.path("tls-cert-file", directory, "server.crt").path("tls-private-key-file", directory, "server.key");
    line.path("token-auth-file", directory, "tokens.csv").flag("authorization-mode", "RBAC");
    line.flag("service-account-issuer", "https://kubernetes.default.svc");
    line.path("service-account-key-file", directory, "accounts.pub");
    line.path("service-account-signing-key-file", directory, "accounts.key");
    line.flag("disable-admission-plugins", "ServiceAccount");
    if let Some(log) = audit {
        // Who reads rights should see all of them: some clusters ask for one to keep an owner from going, too.
        line.flag("enable-admission-plugins", "OwnerReferencesPermissionEnforcement");
        line.path("audit-policy-file", directory, AUDIT_POLICY_FILE).flag("audit-log-path", log.display());
        line.flag("audit-log-mode", "blocking");
    }
    line.0
}

/// kube-controller-manager, with everything that it starts by default.
pub(super) fn controller_manager(programs: &Path, directory: &Path, port: u16) -> String {
    let mut line = Line::new(programs, "kube-controller-manager");
    line.path("kubeconfig", directory, "kubeconfig")
        .flag("bind-address", "127.0.0.1")
        .flag("secure-port", port);
    line.path("cert-dir", directory, ".").path("root-ca-file", directory, "server.crt");
    line.path("service-account-private-key-file", directory, "accounts.key");
    line.flag("use-service-account-credentials", true).flag("leader-elect", false);
    line.0
}

/// A program and its flags, quoted for a shell.
struct Line(String);

impl Line {
    fn new(programs: &Path, name: &str) -> Self {
        Self(quote(&programs.join(name).display().to_string()))
    }

    fn flag(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.0.push(' ');
        self.0.push_str(&quote(&format!("--{name}={value}")));
        self
    }

    fn path(&mut self, name: &str, directory: &Path, file: &str) -> &mut Self {
        self.flag(name, directory.join(file).display())
    }
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
