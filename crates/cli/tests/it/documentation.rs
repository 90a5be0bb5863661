//! Every command that a page shows works, and prints what the page says.
//!
//! A page is followed from top to bottom, as a reader does it, in one shell and an empty home directory:
//! * A block after a line with "Save this as `NAME`" or "Change `NAME`" is written to that file.
//! * Commands of `console` blocks (`$ …`) are run, and their output is compared with what follows them.
//! * `sh` blocks are run.
//! * `ferroplane up` runs in the background until the page starts another one.
//!
//! A block after a line `<!-- not run: REASON -->` is left out.

mod compare;
mod page;
mod session;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::packages::LocalRegistry;
use crate::peers::peer;
use page::Page;
use session::Session;

/// Where a page says that a registry listens. The test has one elsewhere.
const REGISTRY: &str = "127.0.0.1:5000";

fn read(name: &str) -> Page {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    Page::parse(name, &std::fs::read_to_string(path).unwrap())
}

/// Follows a page. Does nothing where kubectl is not installed.
fn follow(name: &str) {
    if peer("kubectl").is_some() {
        Session::new().follow(&read(name));
    }
}

#[test]
fn readme_works_as_printed() {
    follow("README.md");
}

#[test]
fn getting_started_works_as_printed() {
    follow("docs/getting-started.md");
}

#[test]
fn tutorial_works_as_printed() {
    let can = |program: &str, arguments: &[&str]| {
        let status =
            Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let can = status.is_ok_and(|status| status.success());
        if !can {
            eprintln!("skipped: {program} is not installed");
        }
        can
    };
    if peer("kubectl").is_none() || !can("go", &["version"]) || crate::containers::images::machine().is_none()
    {
        return;
    }
    let Some(registry) = LocalRegistry::start() else { return };
    Session::new().replacing(REGISTRY, &registry.address).follow(&read("docs/tutorial.md"));
}

#[test]
fn writing_functions_works_as_printed() {
    follow("docs/writing-functions.md");
}

#[test]
fn every_page_that_is_followed_has_commands() {
    for name in ["README.md", "docs/getting-started.md", "docs/tutorial.md", "docs/writing-functions.md"] {
        let commands = read(name).actions.iter().filter(|action| action.is_command()).count();
        assert!(commands >= 5, "{name} has {commands} commands");
    }
}
