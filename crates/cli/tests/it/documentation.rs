//! Every command that a page shows works, and prints what the page says.
//!
//! A page is followed from top to bottom, as a reader does it, in one shell and an empty home directory:
//! * A block after a line with "Save this as `NAME`" or "Change `NAME`" is written to that file.
//! * Commands of `console` blocks (`$ …`) are run, and their output is compared with what follows them. One that exits with 3 has to show
//!   a negative result.
//! * `sh` blocks are run.
//! * `ferroplane up` runs in the background until the page starts another one.
//! * Lines of a comment `<!-- run first: … -->` are run before what follows. They bring about what a page takes for granted, such as a
//!   control plane with an example.
//!
//! A block after a line `<!-- not run: REASON -->` is left out, and counted in [`NOT_RUN`].

mod compare;
mod languages;
mod page;
mod session;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages::LocalRegistry;
use crate::peers::peer;
use page::{Action, Page};
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

/// One test for each page that is followed, and the list of these pages.
macro_rules! followed {
    ($($test:ident => $page:literal,)+) => {
        const FOLLOWED: &[&str] = &[$($page),+];

        $(
            #[test]
            fn $test() {
                follow($page);
            }
        )+
    };
}

followed! {
    readme_works_as_printed => "README.md",
    getting_started_works_as_printed => "docs/getting-started.md",
    writing_functions_works_as_printed => "docs/writing-functions.md",
    blueprints_works_as_printed => "docs/blueprints.md",
    certificates_works_as_printed => "docs/certificates.md",
    composition_works_as_printed => "docs/composition.md",
    diff_works_as_printed => "docs/diff.md",
    environment_configs_works_as_printed => "docs/environment-configs.md",
    functions_works_as_printed => "docs/functions.md",
    observability_works_as_printed => "docs/observability.md",
    operations_works_as_printed => "docs/operations.md",
    recorder_works_as_printed => "docs/recorder.md",
    rights_works_as_printed => "docs/rights.md",
    rollout_works_as_printed => "docs/rollout.md",
    simulate_works_as_printed => "docs/simulate.md",
    up_works_as_printed => "docs/up.md",
    usages_works_as_printed => "docs/usages.md",
    validate_works_as_printed => "docs/validate.md",
    who_can_works_as_printed => "docs/who-can.md",
    why_works_as_printed => "docs/why.md",
    blueprint_example_works_as_printed => "examples/blueprint/README.md",
    demo_example_works_as_printed => "examples/demo/README.md",
    hello_example_works_as_printed => "examples/hello/README.md",
    pause_on_storm_example_works_as_printed => "examples/pause-on-storm/README.md",
    rolling_upgrade_example_works_as_printed => "examples/rolling-upgrade/README.md",
    scheduling_example_works_as_printed => "examples/scheduling/README.md",
}

/// Is followed by a test of its own, which needs more than the others.
const TUTORIAL: &str = "docs/tutorial.md";

/// Why blocks are not run, and how many there are of each kind. A new block is run unless it really cannot be.
const NOT_RUN: [(&str, usize); 16] = [
    ("builds an image", 4),
    ("builds for minutes", 5),
    ("downloads the SDK", 2),
    ("needs Crossplane's command line", 1),
    ("needs a cluster", 16),
    ("needs a damaged store", 1),
    ("needs a debugger", 1),
    ("needs a registry", 6),
    ("needs a target of Rust", 3),
    ("needs an interpreter of Starlark", 5),
    ("needs systemd", 1),
    ("needs your files", 8),
    ("needs your function", 10),
    ("needs your objects", 7),
    ("runs for minutes", 5),
    ("the test has a registry of its own", 1),
];

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
    Session::new().replacing(REGISTRY, &registry.address).follow(&read(TUTORIAL));
}

#[test]
fn other_examples_work_as_printed() {
    // Those of the list need a control plane. They take longer, and run beside each other.
    for name in examples().iter().filter(|name| !FOLLOWED.contains(&name.as_str())) {
        follow(name);
    }
}

/// What is in a directory of the repository, by name.
fn names_in(directory: &str) -> Vec<String> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

/// The pages of the examples.
fn examples() -> Vec<String> {
    let folders = names_in("examples").into_iter().filter(|name| !name.contains('.'));
    folders.map(|name| format!("examples/{name}/README.md")).collect()
}

/// The pages beside those of docs/ and the examples.
const OTHER_PAGES: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "deploy/chart/ferroplane/README.md",
    "examples/README.md",
    "guests/examples/README.md",
];

/// All pages that people read, by their names.
fn pages() -> Vec<String> {
    let docs = ["docs", "docs/contributing"].into_iter().flat_map(|directory| {
        let names = names_in(directory).into_iter();
        let pages = names.filter(|name| Path::new(name).extension().is_some_and(|it| it == "md"));
        pages.map(move |name| format!("{directory}/{name}"))
    });
    OTHER_PAGES.map(str::to_owned).into_iter().chain(docs).chain(examples()).collect()
}

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    let mut reasons = BTreeMap::<String, usize>::new();
    for name in pages() {
        let page = read(&name);
        let commands: Vec<_> = page.actions.iter().filter(|action| action.is_command()).collect();
        let is_example = name.starts_with("examples/");
        let is_followed = is_example || name == TUTORIAL || FOLLOWED.contains(&name.as_str());
        assert!(
            is_followed || commands.is_empty(),
            "{name} is not followed, and does not say why: {commands:#?}"
        );
        for reason in page.not_run {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let counted: Vec<_> = reasons.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(counted, NOT_RUN);
}

/// What a newcomer does first, and the page and the command that show it.
const NEWCOMERS_PATH: [(&str, &str, &str); 14] = [
    ("see the demo", "README.md", "ferroplane up --demo"),
    ("start a control plane", "docs/getting-started.md", "ferroplane up --simulate"),
    ("render an own API", "docs/getting-started.md", "ferroplane render website.yaml composition.yaml"),
    ("apply an own API", "docs/getting-started.md", "kubectl apply -f definition.yaml -f composition.yaml"),
    ("find a cause", "docs/getting-started.md", "ferroplane why website/hello"),
    ("begin an own function", "docs/writing-functions.md", "ferroplane xpkg init function-labels function"),
    ("run an own function", "docs/tutorial.md", "ferroplane functions run ./function/bin request.json"),
    ("build a package", "docs/tutorial.md", "ferroplane xpkg build -f platform -o platform.xpkg"),
    ("publish a package", "docs/tutorial.md", "ferroplane xpkg push"),
    ("install a package", "docs/tutorial.md", "ferroplane xpkg install configuration"),
    ("roll out a function", "docs/tutorial.md", "ferroplane rollout status shops"),
    ("run an operation", "docs/tutorial.md", "ferroplane operation run grow.yaml"),
    ("run an action", "docs/tutorial.md", "kubectl apply -f record.yaml"),
    ("run a Provider", "docs/tutorial.md", "kubectl wait provider/shop-provider-domains"),
];

#[test]
fn pages_that_are_followed_have_the_whole_path_of_a_newcomer() {
    for (step, page, command) in NEWCOMERS_PATH {
        let has_command = |action: &Action| match action {
            Action::Run { command: shown, .. } | Action::Script { commands: shown, .. } => {
                shown.contains(command)
            }
            Action::Save { .. } => false,
        };
        assert!(read(page).actions.iter().any(has_command), "{page} does not show how to {step}: {command}");
    }
}

#[test]
fn every_page_that_is_followed_has_commands() {
    for name in ["README.md", "docs/getting-started.md", TUTORIAL, "docs/writing-functions.md"] {
        let commands = read(name).actions.iter().filter(|action| action.is_command()).count();
        assert!(commands >= 5, "{name} has {commands} commands");
    }
}
