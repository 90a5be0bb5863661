//! `ferroplane certificates`: manages the certificates of a control plane on this machine.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_apiserver::certificates;
use ferroplane_offline::times;
use jiff::Timestamp;

use crate::Verdict;
use crate::terminal::Terminal;
use crate::up::data_directory;

/// Manage the certificates of a control plane on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct Certificates {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Revoke(Revoke),
}

/// Revoke all client certificates issued so far
///
/// Use this when another person may have a copy of the kubeconfig. A running control plane refuses these certificates after some seconds
/// and writes a new kubeconfig; otherwise the next start does. Open watches continue until they end or you restart the control plane.
/// Tokens of service accounts and static tokens still count.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane certificates revoke
  ferroplane certificates revoke --data-dir /var/lib/ferroplane")]
struct Revoke {
    /// Data directory of the control plane [default: that of `ferroplane up`]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR")]
    data_dir: Option<PathBuf>,
}

impl Certificates {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Revoke(revoke) => revoke.run(terminal),
        }
    }
}

impl Revoke {
    fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let directory = self.data_dir.map_or_else(data_directory, Ok)?.join("certificates");
        if !directory.is_dir() {
            bail!("cannot revoke certificates: there are none in `{}`", directory.display());
        }
        let until = certificates::revoke_clients(&directory, Timestamp::now());
        let until = until.context("cannot revoke certificates")?;
        // Certificates have whole seconds. One that is issued after this returns must not be among those that are revoked.
        while Timestamp::now().as_second() <= until.as_second() {
            std::thread::sleep(Duration::from_millis(20));
        }
        terminal.note(&format!(
            "revoked all client certificates that were issued until {}; a control plane that runs writes a new kubeconfig within \
             10 seconds, otherwise the next start does",
            times::local(until)
        ));
        Ok(Verdict::Yes)
    }
}
