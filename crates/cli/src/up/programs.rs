//! Runs the programs of Functions that name a command, if the user allows it.
//!
//! # Invariants
//! * Only Functions in files that were named on the command line start programs, never those that come through the API.
//! * Programs end with the control plane, even if that is killed.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{keys, meta};
use ferroplane_controllers::{LocalFunction, LocalFunctions};
use ferroplane_engine::LocalProgram;
use ferroplane_offline::manifest::Manifest;
use ferroplane_runner::{Command, ProgramState, Reports, Supervisor, grpc};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{info, warn};

use crate::commands::internal::supervising_command;
use crate::terminal::Terminal;
use sources::Sources;

/// How long a program may take until it listens. Some compile themselves first.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// How often the files of programs are checked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The programs of Functions.
#[derive(Debug)]
pub(super) struct Programs {
    local: Arc<LocalFunctions>,
    is_allowed: bool,
    running: BTreeMap<String, Running>,
    /// The Functions for which it was reported that their commands are not run.
    declined: BTreeSet<String>,
}

/// What a Function says about its program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    /// As the annotation has it.
    text: String,
    command: Command,
}

#[derive(Debug)]
struct Running {
    wanted: Wanted,
    supervisor: Supervisor,
    sources: Sources,
    /// Passes on how the program is doing.
    reporter: JoinHandle<()>,
}

impl Programs {
    pub(super) fn new(local: Arc<LocalFunctions>, is_allowed: bool) -> Self {
        Self { local, is_allowed, running: BTreeMap::new(), declined: BTreeSet::new() }
    }

    /// Run the programs of these Functions, and no others unless some files could not be read.
    pub(super) async fn keep(&mut self, manifests: &[Manifest], is_complete: bool, terminal: &mut Terminal) {
        let wanted = wanted(manifests, terminal);
        if !self.is_allowed {
            self.decline(wanted.keys(), terminal);
            return;
        }
        if is_complete {
            let gone: Vec<_> =
                self.running.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
            for name in gone {
                self.end(&name).await;
                self.local.remove(&name);
            }
        }
        for (name, wanted) in wanted {
            if self.running.get(&name).is_none_or(|running| running.wanted != wanted) {
                // It is never missing in between: its package would be installed.
                self.end(&name).await;
                self.start(name, wanted);
            }
        }
        // Until all files are read, any Function may be one of theirs.
        if is_complete {
            self.local.complete();
        }
    }

    fn decline<'a>(&mut self, names: impl Iterator<Item = &'a String>, terminal: &mut Terminal) {
        for name in names {
            if self.declined.insert(name.clone()) {
                terminal.warn(&format!(
                    "the command of function `{name}` is not run; --allow-commands runs programs that files name"
                ));
            }
        }
    }

    fn start(&mut self, name: String, wanted: Wanted) {
        let (sender, states) = watch::channel(ProgramState::Starting);
        let function = name.clone();
        let line = Arc::new(move |line: &str| info!(target: "ferroplane::function", function, "{line}"));
        let options = grpc::Options { timeout: START_TIMEOUT, ..grpc::Options::default() };
        let command = wanted.command.clone().run_by(supervising_command());
        let supervisor = Supervisor::start(command, options, Reports { line, state: sender });
        let reporter =
            Reporter { name: name.clone(), command: wanted.text.clone(), local: self.local.clone() };
        // At once: the Function is applied next.
        reporter.tell(LocalProgram::Starting);
        let sources = Sources::of(&wanted.command);
        let reporter = tokio::spawn(reporter.run(states));
        self.running.insert(name, Running { wanted, supervisor, sources, reporter });
    }

    async fn end(&mut self, name: &str) {
        if let Some(running) = self.running.remove(name) {
            running.reporter.abort();
            running.supervisor.stop().await;
        }
    }

    /// Start programs again whenever their files change. Does not end.
    pub(super) async fn restart_on_change(&mut self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            for (name, running) in &mut self.running {
                if let Some(path) = running.sources.take_change() {
                    info!(function = name, file = %path.display(), "restarting a function whose files changed");
                    running.supervisor.restart();
                }
            }
        }
    }

    /// End all programs, and wait until they have.
    pub(super) async fn stop(self) {
        let mut stopping = JoinSet::new();
        for running in self.running.into_values() {
            running.reporter.abort();
            stopping.spawn(running.supervisor.stop());
        }
        while stopping.join_next().await.is_some() {}
    }
}

/// Tells the controllers how a program is doing.
struct Reporter {
    name: String,
    command: String,
    local: Arc<LocalFunctions>,
}

impl Reporter {
    async fn run(self, mut states: watch::Receiver<ProgramState>) {
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                // One that is started again is said to be what it was, until that is known to be otherwise.
                ProgramState::Starting => {}
                ProgramState::Running(address) => {
                    info!(function = self.name, %address, "started a function");
                    // Another instance may be of another text: what the last one answered holds no longer.
                    let instance = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
                    self.tell(LocalProgram::Running { address, instance });
                }
                ProgramState::Down(why) => {
                    warn!(function = self.name, why, "a function does not run; restarting it");
                    self.tell(LocalProgram::Down(why));
                }
            }
            if states.changed().await.is_err() {
                return;
            }
        }
    }

    fn tell(&self, state: LocalProgram) {
        self.local.set(&self.name, LocalFunction { command: self.command.clone(), state });
    }
}

/// What Functions among manifests say about their programs. A command that is none is shown where it stands.
fn wanted(manifests: &[Manifest], terminal: &mut Terminal) -> BTreeMap<String, Wanted> {
    let mut found = BTreeMap::new();
    for manifest in manifests {
        let object = manifest.object();
        let is_function =
            meta::kind(object) == "Function" && meta::group(meta::api_version(object)) == keys::PKG;
        let text = meta::annotation(object, keys::FUNCTION_COMMAND);
        if !is_function || text.is_empty() {
            continue;
        }
        match Command::parse(text, manifest.source().directory()) {
            Ok(command) => {
                found.insert(meta::name(object).to_owned(), Wanted { text: text.to_owned(), command });
            }
            Err(error) => {
                let path = ["metadata", "annotations", keys::FUNCTION_COMMAND];
                terminal.error(&manifest.error(&path, error.to_string()).into());
            }
        }
    }
    found
}
