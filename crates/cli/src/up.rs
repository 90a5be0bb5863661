//! Wires the control plane together: the store, the API server, its doors.

mod controllers;
mod logging;
mod plane;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Verdict;
use crate::interrupt::Interrupts;
use crate::terminal::Terminal;
use plane::Plane;

/// What to run, and where.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// None keeps nothing.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) listen: SocketAddr,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) audit_log: Option<PathBuf>,
    pub(crate) has_controllers: bool,
    /// Where the certificates are that functions are called with.
    pub(crate) client_certificates: Option<PathBuf>,
}

/// Where everything is kept if nobody says otherwise.
pub(crate) fn data_directory() -> anyhow::Result<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).and_then(absolute);
    let home = || std::env::home_dir().and_then(absolute).map(|home| home.join(".local/share"));
    let data = data.or_else(home).context("cannot find a home directory; name one with --data-dir")?;
    Ok(data.join("ferroplane"))
}

/// Runs until somebody says that it is enough.
pub(crate) fn run(configuration: &Configuration, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    logging::start();
    make_room_for_connections();
    let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
    runtime.block_on(async {
        let began = std::time::Instant::now();
        // Whoever sees that it is ready may end it, and expects a clean end.
        let mut interrupts = Interrupts::listen().context("cannot wait for signals")?;
        let plane = Plane::start(configuration).await?;
        welcome(&plane, began.elapsed(), terminal);
        let signal = interrupts.next().await;
        terminal.note("stopping; press Ctrl-C again to stop at once");
        tokio::select! {
            () = plane.stop() => Ok(Verdict::Yes),
            _ = interrupts.next() => Ok(signal),
        }
    })
}

/// Every connection is an open file, and many systems give few to those who do not ask.
fn make_room_for_connections() {
    let limit = getrlimit(Resource::Nofile);
    // Whoever may not have more makes do with less.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn welcome(plane: &Plane, time: std::time::Duration, terminal: &mut Terminal) {
    let kubeconfig = plane.kubeconfig().display();
    terminal.note(&format!(
        "the API server is ready at https://{} after {} ms\n\n    export KUBECONFIG={kubeconfig}\n    kubectl get namespaces\n",
        plane.address(),
        time.as_millis()
    ));
}
