//! The help of all commands as one Markdown page.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

const OPENING: &str = "\
# Commands

This page lists every command with its arguments and flags. `cargo xtask reference` writes it from the program; `ferroplane COMMAND --help` prints
the same.
";

/// The page. Hidden commands and flags are left out, as in help.
pub(super) fn page(mut command: Command) -> String {
    command.build();
    let mut out = OPENING.to_owned();
    write_command(&command, "", &mut out);
    out
}

fn write_command(command: &Command, parent: &str, out: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let name = name.trim();
    let _ = writeln!(out, "\n## `{name}`\n");
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        let _ = writeln!(out, "{}\n", prose(&about.to_string()));
    }
    let usage = command.clone().render_usage().to_string();
    let _ = writeln!(out, "```text\n{}\n```", usage.trim_start_matches("Usage: "));
    write_arguments("Arguments", command.get_positionals(), out);
    write_arguments(
        "Options",
        command.get_arguments().filter(|arg| !arg.is_positional() && !is_help(arg)),
        out,
    );
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(out, "\n```text\n{after}\n```");
    }
    let is_shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for below in command.get_subcommands().filter(is_shown) {
        write_command(below, name, out);
    }
}

fn is_help(arg: &Arg) -> bool {
    matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

fn write_arguments<'a>(title: &str, arguments: impl Iterator<Item = &'a Arg>, out: &mut String) {
    let shown: Vec<_> = arguments.filter(|arg| !arg.is_hide_set()).collect();
    if shown.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}:\n");
    for arg in shown {
        write_argument(arg, out);
    }
}

fn write_argument(arg: &Arg, out: &mut String) {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let _ = write!(out, "- `{arg}`");
    if let (Some(short), Some(_)) = (arg.get_short(), arg.get_long()) {
        let _ = write!(out, ", `-{short}`");
    }
    let _ = writeln!(out, ": {}{}", prose(&help), facts(arg));
    // The long help begins with the short one.
    let long = arg.get_long_help().map(ToString::to_string).unwrap_or_default();
    let rest = long.strip_prefix(&help).unwrap_or(&long).trim();
    if !rest.is_empty() {
        let indented = prose(rest).replace('\n', "\n  ").replace("\n  \n", "\n\n");
        let _ = writeln!(out, "\n  {indented}\n");
    }
}

/// What clap adds to the help of a flag in brackets.
fn facts(arg: &Arg) -> String {
    let mut facts = Vec::new();
    if arg.get_action().takes_values() && !arg.is_hide_default_value_set() {
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        facts.extend((!defaults.is_empty()).then(|| format!("default: `{}`", defaults.join(","))));
        let values: Vec<_> =
            arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect();
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        facts.extend((!values.is_empty()).then(|| format!("values: {}", values.join(", "))));
    }
    facts.extend(arg.get_env().map(|name| format!("environment: `{}`", name.to_string_lossy())));
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join("; ")) }
}

/// Text of help as Markdown: words in angle brackets are no HTML, and indented lines stay as they are.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for line in text.trim_end().lines() {
        let is_indented = line.starts_with("  ");
        if is_indented != is_code && !(is_code && line.is_empty()) {
            out.push_str("```\n");
            is_code = is_indented;
        }
        let line = if is_code { line.to_owned() } else { escape(line) };
        out.push_str(&line);
        out.push('\n');
    }
    if is_code {
        out.push_str("```\n");
    }
    out.trim_end().replace("```\n  ", "```text\n  ")
}

/// Outside of backticks, `<` would begin an element of HTML.
fn escape(line: &str) -> String {
    let parts = line.split('`').enumerate();
    let parts: Vec<_> = parts
        .map(|(at, part)| if at % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() })
        .collect();
    parts.join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_written_with_its_arguments_flags_and_examples() {
        let command = Command::new("tool")
            .about("Do things")
            .after_help("Examples:\n  tool a")
            .arg(Arg::new("file").help("File to read"))
            .arg(Arg::new("output").long("output").short('o').help("Output <format>").default_value("yaml"))
            .arg(Arg::new("secret").long("secret").hide(true))
            .subcommand(Command::new("sub").about("Do less"))
            .subcommand(Command::new("internal").hide(true));
        let expected = "
## `tool`

Do things

```text
tool [OPTIONS] [file] [COMMAND]
```

Arguments:

- `[file]`: File to read

Options:

- `--output <output>`, `-o`: Output \\<format> (default: `yaml`)

```text
Examples:
  tool a
```

## `tool sub`

Do less

```text
tool sub
```
";
        assert_eq!(page(command).strip_prefix(OPENING), Some(expected));
    }

    #[test]
    fn indented_lines_of_help_are_a_block() {
        assert_eq!(prose("Text:\n\n  a: 1\n  b: 2"), "Text:\n\n```text\n  a: 1\n  b: 2\n```");
    }
}
