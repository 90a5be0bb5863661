//! `ferroplane composition render`: Crossplane's command line, and that of the design of composition functions, for those who call it
//! like that.

use clap::Subcommand;

use super::render::Render;
use crate::Verdict;
use crate::terminal::Terminal;

/// What Crossplane's command line does to Compositions
#[derive(Debug, clap::Args)]
pub(crate) struct Composition {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Render(Box<Render>),
}

impl Composition {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let Command::Render(render) = self.command;
        render.in_either_order().run(terminal)
    }
}
