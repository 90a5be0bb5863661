//! The command line.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::Verdict;
use crate::commands::actionset::ActionSet;
use crate::commands::apply::Apply;
use crate::commands::audit::Audit;
use crate::commands::backup::{Backup, Restore};
use crate::commands::blueprint::Blueprint;
use crate::commands::certificates::Certificates;
use crate::commands::completions::Completions;
use crate::commands::composition::Composition;
use crate::commands::diff::Diff;
use crate::commands::functions::Functions;
use crate::commands::intercept::Intercept;
use crate::commands::internal::Internal;
use crate::commands::logs::Logs;
use crate::commands::man::Man;
use crate::commands::operation::Operation;
use crate::commands::render::Render;
use crate::commands::replay::Replay;
use crate::commands::resource::Resource;
use crate::commands::rollout::Rollout;
use crate::commands::start::Start;
use crate::commands::trace::Trace;
use crate::commands::up::Up;
use crate::commands::validate::Validate;
use crate::commands::version::Version;
use crate::commands::why::Why;
use crate::commands::xpkg::Xpkg;
use crate::terminal::Terminal;

/// A Crossplane-compatible control plane in one binary
///
/// Define your own APIs, compose them from other resources with functions, and run the result with or without Kubernetes.
#[derive(Debug, Parser)]
#[command(
    name = "ferroplane",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 success; 1 error; 2 usage error; 3 negative result
(fatal function result, invalid, different, or not ready)

Try:
  ferroplane up --demo                        an example platform to play with
  ferroplane render xr.yaml composition.yaml  what an XR would become
  ferroplane diff FILES                       what a change would do
  ferroplane why KIND/NAME                    why it is not ready"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The name of the command that is read without the others.
const RENDER: &str = "render";

#[derive(Debug, Subcommand)]
enum Command {
    Up(Box<Up>),
    Start(Box<Start>),
    Why(Why),
    Trace(Trace),
    Logs(Logs),
    Replay(Box<Replay>),
    Render(Box<Render>),
    Validate(Box<Validate>),
    Diff(Box<Diff>),
    Apply(Apply),
    #[command(alias = "function")]
    Functions(Functions),
    #[command(alias = "op")]
    Operation(Operation),
    Blueprint(Blueprint),
    #[command(name = "actionset")]
    ActionSet(ActionSet),
    Rollout(Rollout),
    Intercept(Box<Intercept>),
    Xpkg(Box<Xpkg>),
    Audit(Audit),
    Backup(Backup),
    Restore(Restore),
    Certificates(Certificates),
    Version(Version),
    Completions(Completions),
    Man(Man),
    #[command(hide = true, alias = "beta")]
    Resource(Resource),
    #[command(hide = true)]
    Composition(Composition),
    #[command(hide = true)]
    Internal(Internal),
}

impl Arguments {
    pub(crate) fn read() -> Self {
        let arguments = without_help_of_help(std::env::args_os().collect());
        let command = Self::command_for(&arguments);
        let command =
            if is_plugin(arguments.first()) { command.bin_name("kubectl ferroplane") } else { command };
        let parsed =
            command.try_get_matches_from(arguments).and_then(|matches| Self::from_arg_matches(&matches));
        parsed.unwrap_or_else(|error| suggest_visible(error).exit())
    }

    /// The command line for these arguments. For what is run in loops, of that command alone: to describe all the others would be a
    /// twentieth of a small render.
    fn command_for(arguments: &[OsString]) -> clap::Command {
        if arguments.get(1).is_none_or(|name| name != RENDER) {
            return Self::command();
        }
        let root =
            clap::Command::new("ferroplane").version(env!("CARGO_PKG_VERSION")).propagate_version(true);
        root.subcommand(Render::augment_args(clap::Command::new(RENDER)))
    }

    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            Command::Up(up) => up.run(terminal),
            Command::Start(start) => start.run(terminal),
            Command::Why(why) => why.run(terminal),
            Command::Trace(trace) => trace.run(terminal),
            Command::Logs(logs) => logs.run(terminal),
            Command::Replay(replay) => replay.run(terminal),
            Command::Audit(audit) => audit.run(terminal),
            Command::Backup(backup) => backup.run(terminal),
            Command::Restore(restore) => restore.run(terminal),
            Command::Certificates(certificates) => certificates.run(terminal),
            Command::Render(render) => render.run(terminal),
            Command::Validate(validate) => validate.run(terminal),
            Command::Diff(diff) => diff.run(terminal),
            Command::Apply(apply) => apply.run(terminal),
            Command::Resource(resource) => resource.run(terminal),
            Command::Composition(composition) => composition.run(terminal),
            Command::Functions(functions) => functions.run(terminal),
            Command::Operation(operation) => operation.run(terminal),
            Command::Blueprint(blueprint) => blueprint.run(terminal),
            Command::ActionSet(action_set) => action_set.run(terminal),
            Command::Rollout(rollout) => rollout.run(terminal),
            Command::Intercept(intercept) => intercept.run(terminal),
            Command::Xpkg(xpkg) => xpkg.run(terminal),
            Command::Version(version) => version.run(terminal),
            Command::Completions(completions) => completions.run(Self::command(), terminal),
            Command::Man(man) => man.run(&Self::command()),
            Command::Internal(internal) => internal.run(Self::command, terminal),
        }
    }
}

/// Whether kubectl runs this program: it runs `kubectl-NAME` for `kubectl NAME`.
fn is_plugin(program: Option<&OsString>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_stem());
    name.is_some_and(|name| name == "kubectl-ferroplane")
}

/// `help --help` is `help`: clap takes what follows for the name of a command.
fn without_help_of_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|command| command == "help") {
        arguments.retain(|argument| argument != "--help" && argument != "-h");
    }
    arguments
}

/// The same error, without suggestions of commands and flags that are hidden.
fn suggest_visible(mut error: clap::Error) -> clap::Error {
    let command = Arguments::command();
    let suggests_hidden_flag = matches!(
        error.get(ContextKind::SuggestedArg),
        Some(ContextValue::String(flag)) if is_hidden(&command, flag.trim_start_matches('-'))
    );
    if suggests_hidden_flag {
        error.remove(ContextKind::SuggestedArg);
    }
    let visible: Vec<_> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let is_visible = |name: &String| visible.iter().any(|command| command.get_name() == name);
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => return error,
    };
    // At the top only: commands of commands hide nothing.
    if error.get(ContextKind::InvalidSubcommand).is_some() && !suggested.iter().all(is_visible) {
        let left: Vec<_> = suggested.into_iter().filter(is_visible).collect();
        if left.is_empty() {
            error.remove(ContextKind::SuggestedSubcommand);
        } else {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(left));
        }
    }
    error
}

/// Whether a flag is hidden in every command that has it. Those that clap adds, such as `--help`, are not.
fn is_hidden(command: &clap::Command, flag: &str) -> bool {
    let flags = flags_called(command, flag);
    !flags.is_empty() && flags.iter().all(|flag| flag.is_hide_set())
}

fn flags_called<'a>(command: &'a clap::Command, name: &str) -> Vec<&'a clap::Arg> {
    let mut flags: Vec<_> = command.get_arguments().filter(|flag| flag.get_long() == Some(name)).collect();
    for below in command.get_subcommands() {
        flags.extend(flags_called(below, name));
    }
    flags
}

#[cfg(test)]
mod documented;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_is_hidden_if_no_command_shows_it() {
        let command = Arguments::command();
        assert!(is_hidden(&command, "sync-interval"));
        assert!(!is_hidden(&command, "lease-duration") && !is_hidden(&command, "help"));
    }

    /// The most letters of the line that lists a command in the help of the command above it.
    const LONGEST_ABOUT: usize = 70;

    #[test]
    fn every_command_is_described_in_a_line_without_a_full_stop() {
        fn check(command: &clap::Command, wrong: &mut Vec<String>) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let is_line = !about.contains('\n') && about.chars().count() <= LONGEST_ABOUT;
            if !is_line || about.ends_with('.') || !about.starts_with(char::is_uppercase) {
                wrong.push(format!("{}: {about}", command.get_name()));
            }
            command.get_subcommands().for_each(|below| check(below, wrong));
        }
        let mut wrong = Vec::new();
        check(&Arguments::command(), &mut wrong);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn command_that_is_read_without_the_others_is_the_same() {
        let arguments = ["ferroplane", RENDER, "xr.yaml", "composition.yaml", "--output", "json"];
        let alone = Arguments::command_for(&arguments.map(OsString::from));
        let helps = [alone.clone(), Arguments::command()].map(|mut command| {
            command.build();
            let render = command.find_subcommand_mut(RENDER).unwrap();
            (
                render.render_long_help().to_string(),
                render.render_usage().to_string(),
                render.render_version(),
            )
        });
        assert_eq!(helps[0], helps[1]);
        let matches = alone.try_get_matches_from(arguments).unwrap();
        assert!(matches!(Arguments::from_arg_matches(&matches).unwrap().command, Command::Render(_)));
    }
}
