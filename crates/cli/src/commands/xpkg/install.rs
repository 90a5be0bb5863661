//! `ferroplane xpkg install`: a package on a control plane.

use std::path::PathBuf;
use std::time::Duration;

use ferroplane_api::PackageKind;
use ferroplane_image::Reference;
use serde_json::json;

use crate::Verdict;
use crate::client::Access;
use crate::duration;
use crate::explain::block_on;
use crate::terminal::Terminal;
use crate::xpkg::bundle;
use crate::xpkg::install::{Installer, WantedPackage};

/// Install a package on a control plane
///
/// Creates a Provider, a Configuration or a Function; the control plane then pulls the package and what it depends on. With --wait, the command
/// ends when the package is healthy.
///
/// With --from-bundle, no registry is contacted: the packages of a bundle are put into the image store of `ferroplane up` on this machine,
/// and those that the package depends on are installed, too.
///
/// Exit codes: 0 installed; 3 not healthy in time; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane xpkg install function r.example.org/function-tags:v1.0.0
  ferroplane xpkg install configuration r.example.org/platform:v2.1.0 \\
    platform --wait 2m
  ferroplane xpkg install configuration r.example.org/platform:v2.1.0 \\
    --from-bundle platform.tar")]
pub(crate) struct Install {
    /// Kind of the package
    #[arg(value_enum)]
    kind: KindArgument,

    /// The package: registry, repository, and tag or digest
    #[arg(value_name = "REGISTRY/REPOSITORY:TAG")]
    package: Reference,

    /// Name of the new object [default: derived from the repository]
    name: Option<String>,

    #[arg(
        long,
        value_name = "NAME",
        help = "Runtime configuration of its program, such as a DeploymentRuntimeConfig"
    )]
    runtime_config: Option<String>,

    /// Do not activate the first revision
    #[arg(short, long)]
    manual_activation: bool,

    /// Secrets with credentials for the registry
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    package_pull_secrets: Vec<String>,

    /// How many inactive revisions are kept [default: the server's, 1]
    #[arg(short, long, value_name = "COUNT")]
    revision_history_limit: Option<u32>,

    /// Wait until the package is healthy, for this long at most
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,

    /// Bundle to install from, instead of registries
    #[arg(long, value_name = "PATH")]
    from_bundle: Option<PathBuf>,

    #[command(flatten)]
    access: Access,
}

/// Kinds of packages, as they are written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum KindArgument {
    Provider,
    Configuration,
    Function,
}

impl KindArgument {
    pub(super) fn kind(self) -> PackageKind {
        match self {
            Self::Provider => PackageKind::Provider,
            Self::Configuration => PackageKind::Configuration,
            Self::Function => PackageKind::Function,
        }
    }
}

impl Install {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let wanted = self.wanted()?;
        let others = match &self.from_bundle {
            Some(path) => bundle::load(path, &self.package, self.access.data_dir(), terminal)?,
            None => Vec::new(),
        };
        block_on(async {
            let installer = Installer::new(&self.access)?;
            for other in &others {
                if terminal.wait_for_server(installer.create_if_absent(other)).await? {
                    terminal.line(&format!("{} created", other.title()));
                }
            }
            terminal.wait_for_server(installer.create(&wanted)).await?;
            let outcome = installer.wait_for(&wanted, self.wait, terminal).await?;
            terminal.text(&format!("{} created\n", wanted.title()))?;
            Ok(outcome.verdict(&wanted, terminal))
        })
    }

    fn wanted(&self) -> anyhow::Result<WantedPackage> {
        let mut wanted = WantedPackage::new(self.kind.kind(), &self.package, self.name.as_deref())?;
        if self.manual_activation {
            wanted.spec.insert("revisionActivationPolicy".to_owned(), json!("Manual"));
        }
        if let Some(limit) = self.revision_history_limit {
            wanted.spec.insert("revisionHistoryLimit".to_owned(), json!(limit));
        }
        if !self.package_pull_secrets.is_empty() {
            let secrets: Vec<_> =
                self.package_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
            wanted.spec.insert("packagePullSecrets".to_owned(), json!(secrets));
        }
        if let Some(name) = &self.runtime_config {
            anyhow::ensure!(
                wanted.kind.has_runtime(),
                "cannot use --runtime-config: a {} has no program",
                wanted.kind
            );
            wanted.spec.insert("runtimeConfigRef".to_owned(), json!({ "name": name }));
        }
        Ok(wanted)
    }
}
