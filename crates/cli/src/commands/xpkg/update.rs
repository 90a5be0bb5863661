//! `ferroplane xpkg update`: another version of a package on a control plane.

use std::time::Duration;

use ferroplane_image::Reference;

use super::install::KindArgument;
use crate::Verdict;
use crate::client::Access;
use crate::duration;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::install::{Installer, WantedPackage};

/// Update a package on a control plane to another version
///
/// Exit codes: 0 updated; 3 not healthy in time; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg update function r.example.org/function-tags:v1.1.0
  ferroplane xpkg update configuration r.example.org/platform:v2.2.0 \\
    platform --wait 2m")]
pub(crate) struct Update {
    /// Kind of the package
    #[arg(value_enum)]
    kind: KindArgument,

    /// The version to update to: registry, repository, and tag or digest
    #[arg(value_name = "REGISTRY/REPOSITORY:TAG")]
    package: Reference,

    /// Name of the object [default: derived from the repository]
    name: Option<String>,

    /// Wait until the package is healthy, for this long at most
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,

    #[command(flatten)]
    access: Access,
}

impl Update {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let wanted = WantedPackage::new(self.kind.kind(), &self.package, self.name.as_deref())?;
        block_on(async {
            let installer = Installer::new(&self.access)?;
            terminal.wait_for_server(installer.update(&wanted)).await?;
            let outcome = installer.wait_for(&wanted, self.wait, terminal).await?;
            terminal.text(&format!("{} updated\n", wanted.title()))?;
            Ok(outcome.verdict(&wanted, terminal))
        })
    }
}
