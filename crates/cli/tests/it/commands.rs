//! The small commands.

use crate::sandbox::Sandbox;

#[test]
fn version_is_printed_for_people_and_programs() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["version"]).ok(), concat!("ferroplane ", env!("CARGO_PKG_VERSION"), "\n"));
    let json: serde_json::Value =
        serde_json::from_str(&sandbox.run(&["version", "--output", "json"]).ok()).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(Sandbox::new().run(&["completions", shell]).ok().contains("render"), "{shell}");
    }
}

#[test]
fn manual_has_a_page_per_command() {
    let sandbox = Sandbox::new();
    sandbox.run(&["man", "manual"]).ok();
    for page in ["ferroplane.1", "ferroplane-render.1", "ferroplane-validate.1"] {
        assert!(sandbox.path("manual").join(page).exists(), "{page}");
    }
}

#[test]
fn help_teaches() {
    let help = Sandbox::new().run(&["render", "--help"]).ok();
    for words in ["Examples:", "render.ferroplane.io/command", "Exits with 3"] {
        assert!(help.contains(words), "{words}\n{help}");
    }
}

#[test]
fn help_of_help_is_help() {
    let sandbox = Sandbox::new();
    let help = sandbox.run(&["help"]).ok();
    assert_eq!(sandbox.run(&["help", "--help"]).ok(), help);
    assert!(help.contains("Exit codes: 0 success; 1 error; 2 usage error; 3 negative result"), "{help}");
    assert_eq!(sandbox.run(&["help", "up", "-h"]).ok(), sandbox.run(&["help", "up"]).ok());
}

#[test]
fn nothing_is_coloured_in_a_pipe() {
    for arguments in [
        &["--help"][..],
        &["functions", "versions"],
        &["render", "missing.yaml", "missing.yaml"],
        &["renders"],
    ] {
        let output = Sandbox::new().command(arguments).output().unwrap();
        let is_coloured = output.stdout.contains(&0x1b) || output.stderr.contains(&0x1b);
        assert!(!is_coloured, "{arguments:?}: {output:?}");
    }
}

#[test]
fn hidden_commands_are_not_suggested() {
    for command in ["get", "init", "install", "resources"] {
        let said = Sandbox::new().run(&[command]).fails_with(2);
        assert!(
            !said.contains("beta") && !said.contains("internal") && !said.contains("'resource'"),
            "{said}"
        );
    }
    assert!(Sandbox::new().run(&["rendr"]).fails_with(2).contains("'render'"));
}

#[test]
fn hidden_flags_are_not_suggested() {
    let said = Sandbox::new().run(&["start", "--sync-interva", "1m"]).fails_with(2);
    assert!(!said.contains("'--sync-interval'"), "{said}");
    let said = Sandbox::new().run(&["start", "--lease-durations", "15s"]).fails_with(2);
    assert!(said.contains("'--lease-duration'"), "{said}");
}

#[test]
fn seam_refuses_what_is_no_request() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["internal", "render"]).fails_with(1);
    assert!(said.contains("the render request is empty"), "{said}");
}

#[test]
fn reference_of_commands_is_up_to_date() {
    let sandbox = Sandbox::new();
    sandbox.run(&["man", "--format", "markdown", "reference"]).ok();
    let written = std::fs::read_to_string(sandbox.path("reference").join("commands.md")).unwrap();
    let page = include_str!("../../../../docs/reference/commands.md");
    assert!(written == page, "docs/reference/commands.md is stale; run `cargo xtask reference`");
}

/// Every command that help shows, with those below it.
fn visible_commands() -> Vec<Vec<String>> {
    let page = include_str!("../../../../docs/reference/commands.md");
    let titles = page.lines().filter_map(|line| line.strip_prefix("## `ferroplane")?.strip_suffix('`'));
    titles.map(|title| title.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn help_fits_a_terminal_of_80_columns_without_breaking_examples() {
    let commands = visible_commands();
    assert!(commands.len() > 40, "{commands:?}");
    for command in commands {
        for flag in ["-h", "--help"] {
            let mut arguments: Vec<_> = command.iter().map(String::as_str).collect();
            arguments.push(flag);
            let output = Sandbox::new().command(&arguments).env("COLUMNS", "80").output().unwrap();
            let help = String::from_utf8(output.stdout).unwrap();
            // Usage is a line, however long.
            let lines = help.lines().filter(|line| !line.starts_with("Usage: "));
            let long: Vec<_> = lines.filter(|line| line.chars().count() > 80).collect();
            assert!(long.is_empty(), "{arguments:?}: {long:#?}");
            let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
            let broken: Vec<_> = examples.lines().filter(|line| !line.starts_with("  ")).collect();
            assert!(broken.iter().all(|line| line.is_empty()), "{arguments:?}: {broken:#?}");
        }
    }
}
