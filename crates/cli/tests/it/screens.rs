//! What the main commands print on a terminal of 80 and of 120 columns, kept as files in `screens/`.
//!
//! `FERROPLANE_UPDATE_GOLDEN=1` writes the files anew. Ages, times and generated parts of names differ from run to run: they are replaced by
//! something of the same width. No line is wider than its terminal, except one with a command to copy. Notes, warnings and errors are on the
//! screen, too.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::plane::Plane;
use crate::sandbox::Sandbox;
use crate::terminal::open;

const WIDTHS: [u16; 2] = [80, 120];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares what a command shows at each width with the files of this name.
fn check(name: &str, command: impl Fn() -> Command) {
    for columns in WIDTHS {
        let shown = shown(command(), columns);
        for line in shown.lines() {
            let width = line.chars().count();
            // Commands stay in one line, so that users can copy them.
            let is_command = line.contains("kubectl ") || line.contains("ferroplane ");
            assert!(is_command || width <= usize::from(columns), "{name}: {width} columns: {line}\n{shown}");
        }
        let masked: String = shown.lines().map(|line| masked(line) + "\n").collect();
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/screens/{name}.{columns}.txt"));
        if std::env::var_os("FERROPLANE_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
            std::fs::write(&file, &masked).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(masked, kept, "{name} at {columns} columns: it is not as in {}", file.display());
    }
}

/// All that a command prints on a terminal of so many columns, without colours. A dumb terminal shows no progress, which comes and goes.
pub(crate) fn shown(mut command: Command, columns: u16) -> String {
    let (mut ours, theirs) = open(columns);
    command.env("TERM", "dumb").env("NO_COLOR", "1").env("COLUMNS", columns.to_string());
    let mut child = command.stdout(theirs.try_clone().unwrap()).stderr(theirs).spawn().unwrap();
    // It holds the other side of the terminal, which ends with the program.
    drop(command);
    let mut shown = Vec::new();
    // Linux reports the end of a terminal as an error.
    let _ = ours.read_to_end(&mut shown);
    child.wait().unwrap();
    String::from_utf8(shown).unwrap().replace("\r\n", "\n")
}

/// A line with the same in the place of everything that differs from run to run.
fn masked(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let next = after.find(|letter: char| letter != ' ').unwrap_or(after.len());
        let (spaces, after) = after.split_at(next);
        let replaced = masked_word(word);
        let width = word.chars().count() + spaces.len();
        out.push_str(&replaced);
        // What follows stays in its column.
        let gap =
            if spaces.len() > 1 { width.saturating_sub(replaced.chars().count()) } else { spaces.len() };
        out.push_str(&" ".repeat(gap));
        rest = after;
    }
    out.trim_end().to_owned()
}

fn masked_word(word: &str) -> String {
    let bare = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let replacement = match bare {
        age if is_age(age) => "0s".to_owned(),
        time if is_time(time) => time.replace(|letter: char| letter.is_ascii_digit(), "0"),
        digest if digest.starts_with("sha256:") => "sha256:#".to_owned(),
        other => other.split('-').map(masked_part).collect::<Vec<_>>().join("-"),
    };
    if bare.is_empty() { word.to_owned() } else { word.replacen(bare, &replacement, 1) }
}

/// A part of a name, or `#` for each letter if it is generated.
fn masked_part(part: &str) -> String {
    let is_generated = part.len() >= 7
        && part.chars().all(|letter| letter.is_ascii_hexdigit())
        && part.contains(|letter: char| letter.is_ascii_digit());
    if is_generated { "#".repeat(part.len()) } else { part.to_owned() }
}

/// `5s`, `2m30s`, `3d4h`
fn is_age(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd'])
        && word.chars().all(|letter| letter.is_ascii_digit() || "smhd".contains(letter))
}

/// `2026-11-15T22:00:00Z`
fn is_time(word: &str) -> bool {
    word.len() == "2026-11-15T22:00:00Z".len() && word.ends_with('Z') && word.starts_with("20")
}

#[test]
fn what_differs_from_run_to_run_is_masked_in_its_width() {
    let one = masked("Shop/a-0a1b2c3d4e5f   True   2s    since 2026-11-15T22:00:00Z, for 3s: 4 of 5");
    let other = masked("Shop/a-1a1b2c3d4e5f   True   12s   since 2027-01-05T02:10:09Z, for 14s: 4 of 5");
    assert_eq!(one, other);
    assert_eq!(one, "Shop/a-############   True   0s    since 0000-00-00T00:00:00Z, for 0s: 4 of 5");
}

#[test]
fn screens_of_commands_without_a_control_plane() {
    let sandbox = Sandbox::new().with(
        "package/crossplane.yaml",
        "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: shops}\n",
    );
    let plain = |arguments: &'static [&'static str]| move |sandbox: &Sandbox| sandbox.command(arguments);
    let in_examples = |arguments: &'static [&'static str]| {
        move |sandbox: &Sandbox| {
            let mut command = sandbox.command(arguments);
            command.current_dir(root().join("examples"));
            command
        }
    };
    check("help", || plain(&["--help"])(&sandbox));
    check("help-operation", || plain(&["operation", "--help"])(&sandbox));
    check("functions-versions", || plain(&["functions", "versions"])(&sandbox));
    check("functions-versions-of-one", || plain(&["functions", "versions", "auto-ready"])(&sandbox));
    let next: &'static [&'static str] =
        &["operation", "next", "--schedule", "0 3 * * *", "--after", "2026-01-01T00:00:00Z"];
    check("operation-next", || plain(next)(&sandbox));
    check("render", || in_examples(&["render", "hello/xr.yaml", "hello/composition.yaml"])(&sandbox));
    check("validate", || in_examples(&["validate", "validate"])(&sandbox));
    check("xpkg", || plain(&["xpkg", "--help"])(&sandbox));
    check("xpkg-build", || plain(&["xpkg", "build", "-f", "package", "-o", "shops.xpkg"])(&sandbox));
}

#[test]
fn screens_of_commands_that_ask_a_control_plane() {
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::write(directory.path().join("scene.yaml"), include_str!("screens/scene.yaml")).unwrap();
    let changed =
        include_str!("screens/scene.yaml").split("---\n").find(|it| it.contains("metadata: {name: shops, "));
    let changed = changed.unwrap().replace("name }}-catalogue", "name }}-stock");
    std::fs::write(directory.path().join("composition.yaml"), changed).unwrap();
    let plane = Plane::start(directory, &["scene.yaml", "--data-dir", "data"]);
    plane.until("note: applied: ");
    let run = |arguments: &[&str]| {
        let mut command = plane.client(Path::new(env!("CARGO_BIN_EXE_ferroplane")));
        command.args(arguments).env("TZ", "UTC");
        command
    };
    let until = |arguments: &[&str], words: &[&str]| {
        let began = std::time::Instant::now();
        loop {
            let output = run(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if words.iter().all(|word| said.contains(word)) {
                break;
            }
            assert!(began.elapsed().as_secs() < 60, "{arguments:?}: {said}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    };
    until(&["why"], &["Shop default/flowers", "Shop default/records", "Operation stocktaking"]);
    until(&["trace", "shop/books"], &["Shop/books (default)", "books-catalogue"]);
    until(&["operation", "history"], &["Failed"]);
    until(&["rollout", "status", "shops"], &["shops-"]);
    check("why", || run(&["why", "shop/flowers"]));
    check("why-not-composed", || run(&["why", "shop/records"]));
    check("why-all", || run(&["why"]));
    check("trace", || run(&["trace", "shop/flowers"]));
    check("diff", || run(&["diff", "composition.yaml"]));
    check("rollout-status", || run(&["rollout", "status", "shops"]));
    check("operation-history", || run(&["operation", "history"]));
    check("who-can", || run(&["audit", "who-can", "delete", "secrets", "-n", "prod"]));
}
