//! `cargo xtask oracle`: a real Kubernetes API server, to compare with.
//!
//! Starts etcd and kube-apiserver (and, if asked to, kube-controller-manager) on loopback, with a new directory, new
//! keys and free ports, says how to reach them, and stops them when its own work is done.
//!
//! # Invariants
//! * What was started ends with this program, however it ends: see `oracle/supervise.sh`.

mod credentials;
mod flags;

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, Result, bail};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::peers;
use credentials::Credentials;

/// How long a server may take to become ready on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A real Kubernetes API server, to compare with
#[derive(Debug, clap::Args)]
pub(crate) struct Oracle {
    #[command(flatten)]
    manner: Manner,
    /// Compare what it answers to generated requests with what we answer
    #[arg(long, conflicts_with = "command")]
    compare: bool,
    /// How many sequences of requests to compare
    #[arg(long, default_value_t = 1000, requires = "compare")]
    cases: u32,
    /// Where the generator starts
    #[arg(long, default_value_t = 1, requires = "compare")]
    seed: u64,
    /// Run this beside the server, then stop
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// How the servers run.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Manner {
    /// Also start the controllers: garbage collection, namespaces, and the like
    #[arg(long)]
    controllers: bool,
    /// Let etcd wait for the disk, as it would where it matters
    #[arg(long)]
    durable: bool,
    /// Write an audit log of all requests and whether they were allowed, and be as strict about rights as some clusters are
    #[arg(long)]
    audit: bool,
}

impl Oracle {
    /// With controllers, for one command.
    pub(crate) fn beside(command: Vec<OsString>) -> Self {
        let manner = Manner { controllers: true, durable: false, audit: false };
        Self { manner, compare: false, cases: 0, seed: 0, command }
    }

    /// The same with an audit log.
    pub(crate) fn audited(command: Vec<OsString>) -> Self {
        let mut oracle = Self::beside(command);
        oracle.manner.audit = true;
        oracle
    }

    pub(crate) fn run(self, root: &Path) -> Result<()> {
        peers::ensure_oracle()?;
        let servers = Servers::start(self.manner)?;
        let Some(mut command) = self.command(root) else {
            servers.describe()?;
            return servers.wait();
        };
        servers.introduce(&mut command);
        let status = command.status().with_context(|| format!("cannot run {command:?}"));
        servers.stop()?;
        match status? {
            status if status.success() => Ok(()),
            status => bail!("the command failed: {status}"),
        }
    }

    fn command(&self, root: &Path) -> Option<Command> {
        if self.compare {
            let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
            command.current_dir(root).args(["test", "--package", "ferroplane-schema", "--test", "it"]);
            command.args(["--", "api_server::", "--nocapture", "--test-threads=1"]);
            command.env("FERROPLANE_CASES", self.cases.to_string());
            command.env("FERROPLANE_SEED", self.seed.to_string());
            return Some(command);
        }
        let (program, arguments) = self.command.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments);
        Some(command)
    }
}

/// The servers while they run.
#[derive(Debug)]
struct Servers {
    supervisor: Child,
    url: String,
    etcd: String,
    manner: Manner,
    /// The audit log.
    audit: Option<PathBuf>,
    /// How long that took.
    ready: Duration,
    credentials: Credentials,
    directory: PathBuf,
}

impl Servers {
    fn start(manner: Manner) -> Result<Self> {
        // The supervisor removes it, because it may live longer than we do.
        let directory = tempfile::Builder::new()
            .prefix("ferroplane-oracle-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .context("cannot create a directory for the servers")?
            .keep();
        let [etcd, etcd_peers, api, controllers] = free_ports()?;
        let url = format!("https://127.0.0.1:{api}");
        let credentials = Credentials::create(&directory, &url)?;
        let audit = manner.audit.then(|| flags::prepare_audit(&directory)).transpose()?;
        let programs = peers::directory();
        let mut commands = vec![
            flags::etcd(&programs, &directory, etcd, etcd_peers, manner.durable),
            flags::api_server(&programs, &directory, etcd, api, audit.as_deref()),
        ];
        if manner.controllers {
            commands.push(flags::controller_manager(&programs, &directory, controllers));
        }
        let started = Instant::now();
        let supervisor = supervise(&directory, &commands)?;
        let etcd = format!("http://127.0.0.1:{etcd}");
        let ready = Duration::ZERO;
        let servers = Self { supervisor, url, etcd, manner, audit, ready, credentials, directory };
        match servers.wait_until_ready() {
            Ok(()) => Ok(Self { ready: started.elapsed(), ..servers }),
            Err(error) => {
                let log = servers.log();
                servers.stop()?;
                Err(error.context(log))
            }
        }
    }

    /// Asks until the server says that it is ready.
    fn wait_until_ready(&self) -> Result<()> {
        let authority = fs::read(&self.credentials.authority).context("cannot read the certificate")?;
        let roots = RootCerts::Specific(Arc::new(vec![Certificate::from_pem(&authority)?]));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build();
        let agent = ureq::Agent::config_builder().tls_config(tls).proxy(None).build().new_agent();
        let address = format!("{}/readyz", self.url);
        let token = format!("Bearer {}", self.credentials.token);
        let started = Instant::now();
        loop {
            match agent.get(&address).header("Authorization", &token).call() {
                Ok(_) => return Ok(()),
                Err(error) if started.elapsed() > PATIENCE => {
                    return Err(error).context("the API server does not become ready");
                }
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// The last that each server said.
    fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        let tail = |text: String| {
            let lines: Vec<_> = text.lines().rev().take(15).map(str::to_owned).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        format!("cannot start the servers:\n{}\n{}", tail(read("1.log")), tail(read("2.log")))
    }

    /// Tells a command where the server is.
    fn introduce(&self, command: &mut Command) {
        command
            .env("KUBECONFIG", &self.credentials.kubeconfig)
            .env("FERROPLANE_ORACLE_URL", &self.url)
            .env("FERROPLANE_ORACLE_TOKEN", &self.credentials.token)
            .env("FERROPLANE_ORACLE_CA", &self.credentials.authority)
            .env("FERROPLANE_ORACLE_ETCD", &self.etcd);
        command.env("FERROPLANE_ORACLE_SUPERVISOR", self.supervisor.id().to_string());
        command.env("FERROPLANE_ORACLE_READY", self.ready.as_millis().to_string());
        if let Some(log) = &self.audit {
            command.env("FERROPLANE_ORACLE_AUDIT", log);
        }
        for (name, is_so) in [("CONTROLLERS", self.manner.controllers), ("DURABLE", self.manner.durable)] {
            if is_so {
                command.env(format!("FERROPLANE_ORACLE_{name}"), "1");
            }
        }
    }

    /// Tells a person where the server is.
    fn describe(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "export KUBECONFIG={}", self.credentials.kubeconfig.display())?;
        writeln!(out, "export FERROPLANE_ORACLE_URL={}", self.url)?;
        writeln!(out, "export FERROPLANE_ORACLE_TOKEN={}", self.credentials.token)?;
        writeln!(out, "export FERROPLANE_ORACLE_CA={}", self.credentials.authority.display())?;
        out.flush()?;
        eprintln!(
            "The API server is ready; what it and the others say is in {}/*.log.",
            self.directory.display()
        );
        eprintln!(
            "Try `kubectl api-resources`, or `cargo test -p ferroplane-schema --test it api_server::`. Ctrl-C stops it."
        );
        Ok(())
    }

    /// Waits for a signal, which ends us and thereby the servers.
    fn wait(&self) -> Result<()> {
        loop {
            thread::sleep(Duration::from_secs(1));
            if !self.directory.exists() {
                bail!("the supervisor of the servers is gone");
            }
        }
    }

    /// Stops the servers, and waits until they are gone.
    fn stop(mut self) -> Result<()> {
        drop(self.supervisor.stdin.take());
        self.supervisor.wait().context("cannot wait for the servers to end")?;
        Ok(())
    }
}

/// Starts commands that end when this program does.
fn supervise(directory: &Path, commands: &[String]) -> Result<Child> {
    Command::new("sh")
        .args(["-c", include_str!("oracle/supervise.sh"), "supervise"])
        .arg(directory)
        .args(commands)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // A Ctrl-C is for us. It must not reach etcd before the API server has ended.
        .process_group(0)
        .spawn()
        .context("cannot start a shell")
}

/// Ports that were free just now.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot find a free port")?;
        *port = listener.local_addr().context("cannot find a free port")?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
