//! Crossplane, as processes beside an API server.

use std::fs::OpenOptions;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ferroplane_testkit::{Pki, free_ports};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::super::ground::Ground;
use crate::peers::{heavy_peer, write_certificates};
use crate::plane::has_oracle;

/// How often an installation is tried, a second apart: what it needs takes a moment to be served, and it does not wait.
const ATTEMPTS: u32 = 30;

/// The program, and the sources that it was built from: they hold its definitions.
pub(super) struct CrossplanePeer {
    program: PathBuf,
    source: PathBuf,
}

impl CrossplanePeer {
    /// Nothing if it is not installed, or if there is no real API server with controllers.
    pub(super) fn find() -> Option<Self> {
        let program = heavy_peer("crossplane")?;
        let source = std::env::var_os("FERROPLANE_CROSSPLANE_SOURCE").map(PathBuf::from);
        let has_controllers = std::env::var_os("FERROPLANE_ORACLE_CONTROLLERS").is_some();
        if let (Some(source), true, true) = (source, has_oracle(), has_controllers) {
            return Some(Self { program, source });
        }
        eprintln!(
            "skipped: there is no API server with controllers; `cargo xtask compare --packages` starts one"
        );
        None
    }

    /// A command of it, for the administrator of the cluster.
    fn command(&self, ground: &Ground, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("KUBECONFIG", ground.kubeconfig()).env_remove("POD_NAMESPACE");
        command.stdin(Stdio::null());
        command
    }
}

/// Its controllers, and those that give rights. Ends them when it is dropped.
pub(super) struct Crossplane {
    processes: Vec<Child>,
    /// Its cache and certificates.
    directory: TempDir,
    log: PathBuf,
}

impl Crossplane {
    /// Install it as the first container of its pod does, and start it.
    pub(super) fn start(peer: &CrossplanePeer, ground: &Ground) -> Self {
        let directory = TempDir::new().unwrap();
        let log = super::directory().unwrap_or_else(|| ground.path("")).join("packages-crossplane.log");
        let mut crossplane = Self { processes: Vec::new(), directory, log };
        crossplane.install(peer, ground);
        let certificates = crossplane.directory.path().join("tls");
        write_certificates(&Pki::new(), &certificates);
        let [health, metrics, hooks] = free_ports();
        let mut core = peer.command(ground, &["core", "start"]);
        core.arg(format!("--webhook-port={hooks}")).arg(format!("--health-probe-port={health}"));
        core.arg(format!("--metrics-port={metrics}"));
        core.arg("--tls-client-certs-dir").arg(&certificates);
        core.arg("--tls-server-certs-dir").arg(&certificates);
        core.arg("--xpkg-cache-dir").arg(crossplane.directory.path());
        crossplane.spawn(core);
        crossplane.spawn(peer.command(ground, &["rbac", "start"]));
        crossplane.wait_until_ready(health);
        crossplane
    }

    /// Ask it to end, and wait until it has.
    pub(super) fn stop(mut self) {
        for process in &mut self.processes {
            kill_process(Pid::from_child(process), Signal::TERM).unwrap();
            process.wait().unwrap();
        }
        self.processes.clear();
    }

    fn install(&self, peer: &CrossplanePeer, ground: &Ground) {
        for _ in 0..ATTEMPTS {
            let mut init = peer.command(ground, &["core", "init"]);
            init.arg("--cr-ds-path").arg(peer.source.join("cluster/crds"));
            init.arg("--webhook-configurations-path").arg(peer.source.join("cluster/webhookconfigurations"));
            init.args(["--webhook-service-name=hooks", "--webhook-service-namespace=crossplane-system"]);
            init.args(["--webhook-service-port=9443", "--tlsca-secret-name=crossplane-root-ca"]);
            init.args(["--tls-server-secret-name=crossplane-tls-server"]);
            init.args(["--tls-client-secret-name=crossplane-tls-client"]);
            if self.logged(init).status().unwrap().success() {
                return;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        panic!("Crossplane cannot be installed: {} says why", self.log.display());
    }

    fn logged(&self, mut command: Command) -> Command {
        let log = OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        command
    }

    fn spawn(&mut self, command: Command) {
        let process = self.logged(command).spawn().unwrap();
        self.processes.push(process);
    }

    fn wait_until_ready(&mut self, port: u16) {
        for _ in 0..600 {
            for process in &mut self.processes {
                let ended = process.try_wait().unwrap();
                assert!(ended.is_none(), "Crossplane has ended: {} says why", self.log.display());
            }
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("Crossplane does not become ready: {} says why", self.log.display());
    }
}

impl Drop for Crossplane {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
