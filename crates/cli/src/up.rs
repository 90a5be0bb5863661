//! Wires the control plane together: the store, the API server, its listeners.

mod audit;
mod client_certificates;
pub(crate) mod controllers;
mod demo;
mod follow;
pub(crate) mod function_containers;
pub(crate) mod function_logs;
mod function_processes;
mod kubeconfig;
mod manifests;
mod on_demand;
mod packaged_programs;
mod plane;
mod plans;
mod programs;
mod provider_containers;
mod renewal;
mod simulate;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ferroplane_client::ApiClient;
use ferroplane_engine::packages::ResolveOptions;
use ferroplane_recorder::FieldName;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::level_filters::LevelFilter;

use crate::Verdict;
use crate::interrupt::Interrupts;
use crate::package_source::RegistryAccess;
use crate::telemetry::Telemetry;
use crate::terminal::Terminal;
use manifests::Manifests;
use plane::Plane;
use programs::Programs;
use simulate::Simulation;

pub(crate) use audit::AuditFlags;
pub(crate) use manifests::rank as apply_rank;
pub(crate) use simulate::Selection;

/// What to run, and where.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(crate) struct Configuration {
    /// None keeps nothing.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) listen: SocketAddr,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    /// How long tokens of service accounts hold at most.
    pub(crate) max_token_expiration: Duration,
    pub(crate) audit: AuditFlags,
    pub(crate) has_controllers: bool,
    /// Whether images are run and webhooks called that Compositions name.
    pub(crate) enables_alpha_functions: bool,
    /// Whether a version of a phase that does not exist is an error.
    pub(crate) has_strict_function_versions: bool,
    /// Whether steps may name revisions and labels of functions.
    pub(crate) enables_function_revision_selectors: bool,
    /// Whether packages are installed.
    pub(crate) installs_packages: bool,
    /// Which versions of dependencies may be changed.
    pub(crate) dependencies: ResolveOptions,
    /// Whether functions run as processes where containers cannot be run, or where a step asks for that and is granted it.
    pub(crate) allows_unisolated_functions: bool,
    /// How the registries of packages, steps and phases are asked.
    pub(crate) registries: RegistryAccess,
    /// Where templates may be fetched from.
    pub(crate) remote_templates: Vec<String>,
    /// Where the certificates are that functions are called with.
    pub(crate) client_certificates: Option<PathBuf>,
    /// Whether to show what this is for.
    pub(crate) has_demo: bool,
    /// How many bytes of recordings are kept.
    pub(crate) recording_size: u64,
    /// Further names of fields that are not recorded.
    pub(crate) redacted_fields: Vec<FieldName>,
    pub(crate) manifests: Wanted,
    pub(crate) simulated: Simulated,
    pub(crate) telemetry: Telemetry,
}

/// Manifests of what is to be there.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Files and directories.
    pub(crate) paths: Vec<PathBuf>,
    /// Whether they are applied again when they are saved.
    pub(crate) are_watched: bool,
    /// Whether what is in no file any more is deleted.
    pub(crate) are_pruned: bool,
    /// Whether the programs are run that Functions among them name.
    pub(crate) may_run_commands: bool,
}

/// What becomes ready by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Simulated {
    pub(crate) kinds: Selection,
    /// How long it takes.
    pub(crate) delay: Duration,
}

/// The default data directory.
pub(crate) fn data_directory() -> anyhow::Result<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).and_then(absolute);
    let home = || std::env::home_dir().and_then(absolute).map(|home| home.join(".local/share"));
    let data = data.or_else(home).context("cannot find a home directory; name one with --data-dir")?;
    Ok(data.join("ferroplane"))
}

/// Runs until it is stopped by a signal.
pub(crate) fn run(configuration: &Configuration, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    let began = Instant::now();
    // Who looks on for the first time is shown what happens in other words.
    let usual = if configuration.has_demo { LevelFilter::WARN } else { LevelFilter::INFO };
    // Messages and log lines have the same format: both are text, or both are JSON.
    let is_json = configuration.telemetry.is_json(true);
    if is_json {
        terminal.speak_json();
    }
    let telemetry = configuration.telemetry.install(usual, is_json)?;
    check_paths(&configuration.manifests)?;
    make_room_for_connections();
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    runtime.block_on(async {
        // A user who sees that it is ready may end it, and expects a clean end.
        let mut interrupts = Interrupts::listen().context("cannot wait for signals")?;
        let plane = Plane::start(configuration, &telemetry).await?;
        welcome(&plane, configuration, began.elapsed(), terminal);
        let mut programs = Programs::new(plane.local_functions(), configuration.manifests.may_run_commands);
        let ended = tokio::select! {
            signal = interrupts.next() => Ok(signal),
            Err(error) = work_beside(&plane, &mut programs, configuration, began, terminal) => Err(error),
        };
        if ended.is_ok() {
            terminal.note("stopping; press Ctrl-C again to stop at once");
        }
        // Programs last: until the controllers have ended, they may still be called.
        let stopping = async {
            plane.stop().await;
            programs.stop().await;
        };
        tokio::select! {
            () = stopping => ended.map(|_| Verdict::Yes),
            _ = interrupts.next() => ended,
        }
    })
}

/// A file that does not exist is reported before anything else.
fn check_paths(wanted: &Wanted) -> anyhow::Result<()> {
    for path in wanted.paths.iter().filter(|path| path.as_os_str() != "-") {
        std::fs::metadata(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    }
    Ok(())
}

/// What people want beside a control plane. Does not end unless it fails.
async fn work_beside(
    plane: &Plane,
    programs: &mut Programs,
    configuration: &Configuration,
    began: Instant,
    terminal: &mut Terminal,
) -> anyhow::Result<std::convert::Infallible> {
    let client = ApiClient::new(plane.client());
    let _simulation = simulate(&client, configuration, terminal);
    if configuration.has_demo {
        let is_in_memory = configuration.data_dir.is_none();
        let home = demo::DemoHome { kubeconfig: plane.kubeconfig(), is_in_memory };
        demo::show(&client, home, began, terminal).await?;
    } else if !configuration.simulated.kinds.includes_group(demo::CLOUD)
        && let Some(words) = demo::leftover(&client).await
    {
        terminal.note(&words);
    }
    let wanted = &configuration.manifests;
    if !wanted.paths.is_empty() {
        let mut manifests = Manifests::new(client, wanted);
        if wanted.are_watched {
            match manifests.keep(programs, terminal).await {}
        }
        manifests.apply(programs, terminal).await;
    }
    std::future::pending().await
}

/// Play the controllers of kinds that nothing manages, for as long as what is returned lives.
fn simulate(
    client: &ApiClient,
    configuration: &Configuration,
    terminal: &mut Terminal,
) -> Option<Simulation> {
    let Simulated { kinds, delay } = configuration.simulated.clone();
    if !kinds.is_empty() {
        terminal.note("simulating: resources that no controller manages become ready by themselves");
    }
    let kinds = if configuration.has_demo { kinds.with_group(demo::CLOUD) } else { kinds };
    (!kinds.is_empty()).then(|| Simulation::start(client, kinds, delay))
}

/// Every connection is an open file, and many systems give few to those who do not ask.
fn make_room_for_connections() {
    let limit = getrlimit(Resource::Nofile);
    // A user who may not have more makes do with less.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn welcome(plane: &Plane, configuration: &Configuration, time: Duration, terminal: &mut Terminal) {
    let mut words =
        format!("the API server is ready at https://{} after {} ms", plane.address(), time.as_millis());
    if !configuration.has_demo {
        let kubeconfig = plane.kubeconfig().display();
        words += &format!("\n\n    export KUBECONFIG={kubeconfig}\n    kubectl get namespaces\n");
    }
    terminal.note(&words);
}
