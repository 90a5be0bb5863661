//! `ferroplane up`: a control plane in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use clap::error::ErrorKind;
use ferroplane_engine::packages::ResolveOptions;
use ferroplane_recorder::FieldName;

use crate::Verdict;
use crate::telemetry::Telemetry;
use crate::terminal::Terminal;
use crate::up::{self, AuditFlags, Configuration, Selection, Simulated, Wanted, data_directory};
use crate::xpkg::registry::ClientFlags;
use crate::{address, duration, size};

/// Start a control plane on this machine, without Kubernetes
///
/// Starts a Kubernetes-compatible API server and the controllers in this process, stores all data in one directory, and writes a
/// kubeconfig for kubectl and other clients. It runs until you press Ctrl-C, and continues where it stopped when you start it again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane up --demo
  ferroplane up manifests/ --watch --simulate
  ferroplane up manifests/ --watch --allow-commands
  ferroplane up --data-dir /var/lib/ferroplane --listen 127.0.0.1:7443")]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(crate) struct Up {
    #[command(flatten)]
    manifests: Manifests,

    /// Data directory [default: ~/.local/share/ferroplane]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR", conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,

    /// Address to listen on for clients: HOST:PORT, or :PORT for all interfaces; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6443", value_parser = address::parse)]
    listen: SocketAddr,

    /// Kubeconfig file to write for clients [default: kubeconfig in the data directory]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Keep all data in memory only
    #[arg(long)]
    in_memory: bool,

    /// File of static tokens, a line each: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,

    /// Maximum lifetime of the tokens of service accounts; longer requests are shortened, with a warning
    #[arg(long, value_name = "DURATION", default_value = "48h", value_parser = duration::parse_token_expiration)]
    service_account_max_token_expiration: Duration,

    #[command(flatten)]
    audit: AuditFlags,

    /// Maximum size of the reconcile recordings (secrets redacted); 0 disables recording
    ///
    /// `ferroplane replay` repeats a recorded reconcile, and `ferroplane why --at` explains the past. Recordings are in the data
    /// directory; the oldest are removed first.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse_recording)]
    recording_size: u64,

    /// Also redact fields in recordings whose names end with these, such as `pin`
    ///
    /// Secrets, credentials, connection details and fields that are named like passwords, tokens or keys are always redacted, as are fields
    /// that an XRD marks with `format: password`, `writeOnly: true` or its annotation `ferroplane.io/sensitive-fields`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    recording_redact_fields: Vec<FieldName>,

    /// Install an example platform on a simulated cloud
    ///
    /// The platform is an XRD, a Composition with a pipeline of five functions, two composite resources, and the CRDs of a cloud that is
    /// simulated in this process. It stays until you delete it; objects that exist already are not changed.
    #[arg(long)]
    demo: bool,

    #[command(flatten)]
    simulation: Simulation,

    /// Start the API server without controllers
    #[arg(long)]
    no_controllers: bool,

    /// Run the images and call the webhooks that Compositions name, an alpha feature
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    enable_alpha_functions: bool,

    /// Refuse a `funcVersion` of a Blueprint's phase that does not exist, instead of running v0.0.0 with a warning
    #[arg(long)]
    strict_function_versions: bool,

    /// Let steps choose revisions of functions, and several revisions of a Function be active
    ///
    /// Steps choose with functionRevisionRef and functionRevisionSelector, and `activeRevisionLimit` of a Function says how many revisions
    /// are active. See docs/rollout.md.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    enable_function_revision_selectors: bool,

    /// Install the packages of Functions, Providers and Configurations from their registries
    ///
    /// Without it, no registry is contacted. Built-in functions run either way.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true",
        default_missing_value = "true", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    install_packages: bool,

    /// Upgrade packages that others depend on
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    enable_dependency_version_upgrades: bool,

    /// Downgrade packages that others depend on, too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    enable_dependency_version_downgrades: bool,

    /// Run functions as processes, without isolation, if this machine cannot run containers
    ///
    /// Only functions whose program is a static executable. Such a process can use the network of this machine and, unless you are root,
    /// everything that you can. The condition `RuntimeHealthy` of its revision says so. Steps of `type: Chroot`, which run without a container on
    /// every machine, need this flag beside their AccessGrant. See docs/containers.md.
    #[arg(long)]
    allow_unisolated_functions: bool,

    #[command(flatten)]
    registries: ClientFlags,

    /// Host, with an optional path prefix, from which templates may be fetched; may be repeated
    ///
    /// For steps of function-go-templating with `source: Remote`: repositories of git and artefacts in registries, pinned by commit or digest.
    #[arg(long, value_name = "PLACE", env = "ALLOW_REMOTE_TEMPLATES", value_delimiter = ',')]
    allow_remote_templates: Vec<String>,

    /// Directory of the client certificate for calls to functions: ca.crt, tls.crt and tls.key
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
    /// They are applied with server-side apply by the field manager `ferroplane/up`: definitions first, and objects as soon as their kind is
    /// served. Files win over changes that others made, with a warning. A mistake is shown with its file and line; everything else is
    /// still applied.
    #[arg(value_name = "MANIFESTS")]
    paths: Vec<PathBuf>,

    /// Apply the manifests again whenever a file is saved
    #[arg(long, requires = "paths")]
    watch: bool,

    /// Run the programs that Functions in these files name with `render.ferroplane.io/command`
    ///
    /// A program runs with your rights until the control plane ends, and its output is in the log. It is restarted when it ends and, with
    /// --watch, when its files change. Functions that are written through the API never start programs.
    #[arg(long, requires = "paths")]
    allow_commands: bool,

    /// Delete applied objects that are removed from the files; otherwise they stay
    ///
    /// Only objects that this process has applied are deleted.
    #[arg(long, requires = "watch")]
    prune: bool,
}

/// What becomes ready by itself.
#[derive(Debug, clap::Args)]
struct Simulation {
    /// Simulate resources that no controller manages: workloads, and objects of CRDs
    ///
    /// There is no kubelet and no cloud here. Ferroplane writes the status that they would
    /// write, for Deployments, Jobs, Pods and other workloads, and for objects of CRDs that
    /// belong neither to an XRD nor to Crossplane. An object whose status another client
    /// writes is left alone. KINDS limits it: `--simulate=deployments.apps,*.example.org`.
    /// Annotations of an object, or of its CRD, ask for delays, failures and fields:
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

    /// Time that simulated resources take to become ready [default: none]
    #[arg(long, value_name = "DURATION", requires = "simulate", value_parser = duration::parse)]
    simulate_delay: Option<Duration>,
}

impl Up {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        if self.demo && self.no_controllers {
            let words = "--demo needs controllers: leave out --no-controllers\n";
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
            max_token_expiration: self.service_account_max_token_expiration,
            audit: self.audit,
            has_controllers: !self.no_controllers,
            enables_alpha_functions: self.enable_alpha_functions,
            has_strict_function_versions: self.strict_function_versions,
            enables_function_revision_selectors: self.enable_function_revision_selectors,
            installs_packages: self.install_packages,
            dependencies: ResolveOptions::allowing(
                self.enable_dependency_version_upgrades,
                self.enable_dependency_version_downgrades,
            ),
            allows_unisolated_functions: self.allow_unisolated_functions,
            registries: self.registries.access()?,
            remote_templates: self.allow_remote_templates,
            client_certificates: self.tls_client_certs_dir,
            has_demo: self.demo,
            recording_size: self.recording_size,
            redacted_fields: self.recording_redact_fields,
            manifests: Wanted {
                paths: self.manifests.paths,
                are_watched: self.manifests.watch,
                are_pruned: self.manifests.prune,
                // Without controllers nothing calls the programs.
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
