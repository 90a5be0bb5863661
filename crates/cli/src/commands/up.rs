//! `ferroplane up`: a control plane in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;

use crate::Verdict;
use crate::telemetry::Telemetry;
use crate::terminal::Terminal;
use crate::up::{self, Configuration, Selection, Simulated, Wanted, data_directory};
use crate::{duration, size};

/// Start a control plane on this machine, without Kubernetes
///
/// Starts a Kubernetes-compatible API server and the controllers in this process, and keeps everything in one directory.
/// kubectl and every other Kubernetes client can use it: the kubeconfig that is written says how. Runs until it is told to end (Ctrl-C), and
/// goes on from where it was when it is started again.
#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    #[command(flatten)]
    manifests: Manifests,

    /// Where to keep everything [default: ~/.local/share/ferroplane]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR", conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,

    /// Where to listen for clients; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,

    /// Where to write the kubeconfig for clients [default: kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Forget everything at the end
    #[arg(long)]
    in_memory: bool,

    /// Static tokens: a file with lines of token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Where to write down who changed what [default: audit.log in the data directory]
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,

    /// How much is kept of what was recorded of every reconcile, without secrets; 0 records nothing
    ///
    /// `ferroplane replay` has a recorded reconcile again, `ferroplane why --at` says what was wrong then. Recordings are in the data
    /// directory; the oldest go first.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse_recording)]
    recording_size: u64,

    /// Install a small platform with a simulated cloud, and show what becomes of it
    ///
    /// A kind of composite resource, a Composition with a pipeline of several functions, two composite resources, and kinds of
    /// a cloud that is simulated in this process. It stays until it is removed; what of it is there already is left as it is.
    #[arg(long)]
    demo: bool,

    #[command(flatten)]
    simulation: Simulation,

    /// Only the API server: nothing is composed
    #[arg(long)]
    no_controllers: bool,

    /// Certificates to call functions with: a directory with ca.crt, tls.crt and tls.key
    #[arg(long, value_name = "DIR", env = "TLS_CLIENT_CERTS_DIR")]
    tls_client_certs_dir: Option<PathBuf>,

    #[command(flatten)]
    telemetry: Telemetry,
}

/// What is to be on the plane.
#[derive(Debug, clap::Args)]
struct Manifests {
    /// Files and directories of manifests to apply (`-` is standard input)
    ///
    /// They are applied on the server's side by the manager `ferroplane/up`: definitions first, and objects whose kind is not
    /// served yet when it is. What a file says wins over what others have changed, and that is said. A mistake is
    /// shown with its file and line, and stops nothing else.
    #[arg(value_name = "MANIFESTS")]
    paths: Vec<PathBuf>,

    /// Apply the manifests again whenever one is saved
    #[arg(long, requires = "paths")]
    watch: bool,

    /// Run the programs that Functions in these files name with render.ferroplane.io/command
    ///
    /// A program runs as you, until the control plane ends. Its output is in the log with the name of the Function; when it ends, it is
    /// started again; with --watch, also when its files change. Functions that come through the API never start programs.
    #[arg(long, requires = "paths")]
    allow_commands: bool,

    /// Delete what was applied and is in no file any more; otherwise it stays
    ///
    /// Only objects that this process has applied itself are deleted.
    #[arg(long, requires = "watch")]
    prune: bool,
}

/// What becomes ready by itself.
#[derive(Debug, clap::Args)]
struct Simulation {
    /// Make resources ready that no controller looks after: workloads, and objects of CRDs
    ///
    /// There is no kubelet and no cloud here. Ferroplane writes the status that they would write, for
    /// Deployments, Jobs, Pods and other workloads, and for objects of CRDs that belong neither to an XRD
    /// nor to Crossplane. An object whose status somebody else writes is left alone. KINDS limits it:
    /// `--simulate=deployments.apps,*.example.org`. Annotations of an object, or of its CRD, ask for delays,
    /// failures and fields of the status:
    ///
    ///   simulate.ferroplane.io/delay: 5s
    ///   simulate.ferroplane.io/failure: quota exceeded
    ///   simulate.ferroplane.io/status: '{"atProvider": {"id": "db-${metadata.name}"}}'
    ///   simulate.ferroplane.io/ignore: "true"
    #[arg(
        long,
        value_name = "KINDS",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = "*",
        verbatim_doc_comment
    )]
    simulate: Vec<String>,

    /// How long simulated resources take to become ready [default: no time]
    #[arg(long, value_name = "DURATION", requires = "simulate", value_parser = duration::parse)]
    simulate_delay: Option<Duration>,
}

impl Up {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        if self.demo && self.no_controllers {
            let words =
                "--demo shows what controllers do, so there have to be some: leave out --no-controllers\n";
            clap::Error::raw(ErrorKind::ArgumentConflict, words).exit();
        }
        if self.manifests.watch && self.manifests.paths.iter().any(|path| path.as_os_str() == "-") {
            let words =
                "standard input cannot be watched: give a file instead of `-`, or leave out --watch\n";
            clap::Error::raw(ErrorKind::ArgumentConflict, words).exit();
        }
        let data_dir =
            if self.in_memory { None } else { Some(self.data_dir.map_or_else(data_directory, Ok)?) };
        let configuration = Configuration {
            data_dir,
            listen: self.listen,
            kubeconfig: self.kubeconfig,
            token_file: self.token_auth_file,
            audit_log: self.audit_log,
            has_controllers: !self.no_controllers,
            client_certificates: self.tls_client_certs_dir,
            has_demo: self.demo,
            recording_size: self.recording_size,
            manifests: Wanted {
                paths: self.manifests.paths,
                are_watched: self.manifests.watch,
                are_pruned: self.manifests.prune,
                may_run_commands: self.manifests.allow_commands && !self.no_controllers,
            },
            simulated: Simulated {
                kinds: Selection::new(&self.simulation.simulate),
                delay: self.simulation.simulate_delay.unwrap_or_default(),
            },
            telemetry: self.telemetry,
        };
        up::run(&configuration, terminal)
    }
}
