//! `ferroplane blueprint`: checks Blueprints, and shows the rendered arguments of their phases.

mod render;
mod validate;

use clap::Subcommand;

use crate::Verdict;
use crate::terminal::Terminal;

/// Check Blueprints, and show the rendered arguments of their phases
///
/// Works on files, without a control plane.
#[derive(Debug, clap::Args)]
pub(crate) struct Blueprint {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(validate::Validate),
    Render(render::Render),
}

impl Blueprint {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Validate(validate) => validate.run(terminal),
            Command::Render(render) => render.run(terminal),
        }
    }
}
