//! `ferroplane resource validate`: `ferroplane validate` with the arguments of Crossplane's command line.

use std::path::PathBuf;

use clap::Subcommand;
use ferroplane_offline::validate::Layout;

use super::validate::Options;
use crate::Verdict;
use crate::terminal::Terminal;

/// What Crossplane's command line does to resources
#[derive(Debug, clap::Args)]
pub(crate) struct Resource {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(Box<Validate>),
}

/// Validate resources by schemas, as `crossplane resource validate` does
#[derive(Debug, clap::Args)]
struct Validate {
    /// What defines kinds: files, directories or `-`, separated by commas. It is not validated itself
    extensions: String,

    /// What is validated: files, directories or `-`, separated by commas
    resources: String,

    #[command(flatten)]
    options: Options,
}

impl Resource {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let Command::Validate(validate) = self.command;
        let paths = |list: &str| list.split(',').map(PathBuf::from).collect::<Vec<_>>();
        let (schemas, files) = (paths(&validate.extensions), paths(&validate.resources));
        validate.options.validate(&files, &schemas, Layout::Upstream, terminal)
    }
}
