//! `ferroplane completions`: let a shell complete our command lines.

use clap_complete::Shell;

use crate::Verdict;
use crate::terminal::Terminal;

/// Print a shell completion script
///
/// Save it where your shell looks for completions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane completions bash > /etc/bash_completion.d/ferroplane
  ferroplane completions zsh > ~/.zfunc/_ferroplane")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut command: clap::Command, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "ferroplane", &mut script);
        terminal.data(&script)?;
        Ok(Verdict::Yes)
    }
}
