//! `ferroplane completions`: let a shell complete our command lines.

use anyhow::Context as _;
use clap_complete::Shell;

use crate::Verdict;
use crate::terminal::Terminal;

/// Print a shell completion script
///
/// Save it where your shell looks for completions. Names of objects and namespaces on the control plane, and of contexts of the kubeconfig,
/// are completed, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane completions bash > /etc/bash_completion.d/ferroplane
  ferroplane completions zsh > ~/.zfunc/_ferroplane
  ferroplane completions fish > ~/.config/fish/completions/ferroplane.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut command: clap::Command, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "ferroplane", &mut script);
        let script = String::from_utf8(script).context("the script is not UTF-8")?;
        terminal.data(with_names(self.shell, &script).as_bytes())?;
        Ok(Verdict::Yes)
    }
}

/// A generated script that completes names, too. It gets them from `ferroplane internal complete`.
fn with_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}{}", include_str!("completions/names.bash")),
        Shell::Fish => format!("{script}{}", include_str!("completions/names.fish")),
        Shell::Elvish => format!("{script}{}", include_str!("completions/names.elv")),
        Shell::PowerShell => before(script, "    $completions.Where{", include_str!("completions/names.ps1")),
        // The script hands values that it does not know to `_default`, and the words change while it reads the commands.
        Shell::Zsh => {
            let script = script.replace(":_default'", ":_ferroplane_names'");
            let script = before(&script, "    typeset -A opt_args", include_str!("completions/words.zsh"));
            before(&script, "if [ \"$funcstack[1]\"", include_str!("completions/names.zsh"))
        }
        _ => script.to_owned(),
    }
}

/// A script with a text before the first place where the mark is.
fn before(script: &str, mark: &str, text: &str) -> String {
    script.replacen(mark, &format!("{text}{mark}"), 1)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    fn script(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Arguments::command(), "ferroplane", &mut script);
        with_names(shell, &String::from_utf8(script).unwrap())
    }

    #[test]
    fn every_script_asks_for_names_once() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = script(shell);
            let calls =
                ["internal complete -- ", "'internal', 'complete'"].map(|call| script.matches(call).count());
            assert_eq!(calls.iter().sum::<usize>(), 1, "{shell}");
        }
    }

    #[test]
    fn zsh_asks_for_names_where_a_value_is_unknown() {
        let script = script(Shell::Zsh);
        assert!(!script.contains(":_default'") && script.contains(":NAME:_ferroplane_names'"));
        let (first, rest) = script.split_once("_ferroplane_words=").unwrap();
        assert!(
            first.trim_end().ends_with("local -a _ferroplane_words") && first.contains("_ferroplane() {\n")
        );
        // Before the line that runs the script when zsh loads it.
        let (before, after) = rest.split_once("\n_ferroplane_names() {\n").unwrap();
        assert!(!before.contains("$funcstack") && after.contains("$funcstack"));
    }

    #[test]
    fn powershell_asks_for_names_before_it_filters_commands() {
        let script = script(Shell::PowerShell);
        let (before, after) = script.split_once("'internal', 'complete'").unwrap();
        assert!(before.contains("$commandElements =") && after.contains("$completions.Where{"));
    }
}
