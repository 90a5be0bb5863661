//! `ferroplane xpkg`: packages, from their source to a control plane.

mod build;
mod bundle;
mod extract;
mod init;
mod install;
mod lock;
mod pull;
mod push;
mod update;

use clap::Subcommand;

use crate::Verdict;
use crate::terminal::Terminal;

/// Build, publish and install packages
///
/// A package is an OCI image that brings Functions, Providers, or the definitions and Compositions of a Configuration. No command needs
/// Docker. Credentials for registries are those of Docker's config.json.
#[derive(Debug, clap::Args)]
pub(crate) struct Xpkg {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    Build(build::Build),
    Push(push::Push),
    Pull(pull::Pull),
    Install(install::Install),
    Update(update::Update),
    Extract(extract::Extract),
    Lock(lock::Lock),
    Bundle(bundle::Bundle),
}

impl Xpkg {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Init(init) => init.run(terminal),
            Command::Build(build) => build.run(terminal),
            Command::Push(push) => push.run(terminal),
            Command::Pull(pull) => pull.run(terminal),
            Command::Install(install) => install.run(terminal),
            Command::Update(update) => update.run(terminal),
            Command::Extract(extract) => extract.run(terminal),
            Command::Lock(lock) => lock.run(terminal),
            Command::Bundle(bundle) => bundle.run(terminal),
        }
    }
}
