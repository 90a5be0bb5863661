//! `ferroplane completions`: let a shell complete our command lines.

use clap_complete::Shell;

use crate::Verdict;
use crate::terminal::Terminal;

/// Print a shell completion script
///
/// Save it where your shell looks for completions. In bash and fish, names of objects on the control plane are completed, too.
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
        script.extend_from_slice(names_of_objects(self.shell).as_bytes());
        terminal.data(&script)?;
        Ok(Verdict::Yes)
    }
}

/// The part of a script that asks the control plane for names, by `ferroplane internal names`. It is written by hand, for two shells.
fn names_of_objects(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("completions/names.bash"),
        Shell::Fish => include_str!("completions/names.fish"),
        _ => "",
    }
}
