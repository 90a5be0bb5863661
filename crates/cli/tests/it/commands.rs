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
fn seam_refuses_what_is_no_request() {
    let sandbox = Sandbox::new();
    let said = sandbox.run(&["internal", "render"]).fails_with(1);
    assert!(said.contains("the render request is empty"), "{said}");
}
