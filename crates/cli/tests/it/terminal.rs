//! What the binary prints on a terminal: as wide as there is room for, with colours that say nothing alone, and with progress.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::plane::Plane;
use crate::sandbox::{Ran, Sandbox, composition, dummy};
use crate::screens::shown;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A terminal of so many columns: our side of it, and that of a program. No other program inherits it.
pub(crate) fn open(columns: u16) -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&theirs, size).unwrap();
    (File::from(ours), theirs)
}

/// Starts a command on a terminal of so many columns. Returns it with our side of the terminal.
fn start(mut command: Command, columns: u16) -> (Child, File) {
    let (ours, theirs) = open(columns);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    command.stdout(theirs.try_clone().unwrap()).stderr(theirs);
    // The command has a copy of the other side, which is closed here: the terminal ends with the program.
    (command.spawn().unwrap(), ours)
}

/// All that a command prints on a terminal of so many columns.
fn printed(command: Command, columns: u16) -> String {
    let (mut child, mut terminal) = start(command, columns);
    let mut printed = Vec::new();
    // Linux reports the end of a terminal as an error.
    let _ = terminal.read_to_end(&mut printed);
    child.wait().unwrap();
    String::from_utf8(printed).unwrap().replace("\r\n", "\n")
}

/// Reads until a terminal shows these words.
fn read_until(terminal: &mut File, words: &str) {
    let (mut shown, mut buffer) = (String::new(), [0; 4096]);
    while !shown.contains(words) {
        let length = terminal.read(&mut buffer).unwrap_or_default();
        assert!(length > 0, "the program ends before it shows `{words}`: {shown}");
        shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[test]
fn table_is_as_wide_as_the_terminal() {
    let sandbox = Sandbox::new();
    let table = |columns| printed(sandbox.command(&["functions", "versions"]), columns);
    for columns in [80, 160] {
        let widest = table(columns).lines().map(|line| line.chars().count()).max();
        assert_eq!(widest, Some(usize::from(columns)));
    }
    assert_eq!(table(1000), sandbox.run(&["functions", "versions"]).ok());
}

#[test]
fn colours_add_nothing_to_what_a_pipe_gets() {
    let (sandbox, examples) = (Sandbox::new(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"));
    for arguments in [&["validate", "validate"][..], &["render", "missing.yaml", "missing.yaml"]] {
        let command = || {
            let mut command = sandbox.command(arguments);
            command.current_dir(&examples);
            command
        };
        let coloured = printed(command(), 1000);
        assert!(coloured.contains("\x1b["), "{arguments:?}: {coloured}");
        let plain = Ran::from(command().output().unwrap());
        assert_eq!(without_colours(&coloured), plain.stdout + &plain.stderr);
    }
}

/// What a command prints to a program that reads one line and leaves. It must end with its reader, though it would go on by itself.
fn first_line(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it goes on though nobody reads it: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    line
}

#[test]
fn command_that_goes_on_ends_when_nobody_reads_it_any_more() {
    let composition = composition(&[("ready", "function-auto-ready", "")]);
    let sandbox = Sandbox::new().with("composition.yaml", &composition);
    let line = first_line(sandbox.command(&["render", "xr.yaml", "composition.yaml", "--watch"]));
    assert!(!line.is_empty());
    let plane = Plane::new();
    let mut trace = plane.client(Path::new(env!("CARGO_BIN_EXE_ferroplane")));
    trace.args(["trace", "namespace/default", "--watch"]);
    let line = first_line(trace);
    assert!(line.starts_with("NAME"), "{line}");
}

#[test]
fn slow_work_shows_progress_on_a_terminal_and_nothing_in_a_pipe() {
    // It accepts connections and never answers.
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    let package = format!("{}/org/function", registry.local_addr().unwrap());
    let dependency = format!(
        "{{apiVersion: pkg.crossplane.io/v1, kind: Function, package: '{package}', version: '>=v1.0.0'}}"
    );
    let sandbox = Sandbox::new().with(
        "package/crossplane.yaml",
        &format!("apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {{name: slow}}\nspec: {{dependsOn: [{dependency}]}}\n"),
    );
    let lock = || {
        let mut command = sandbox.command(&["xpkg", "lock"]);
        command.current_dir(sandbox.path("package"));
        command
    };
    let mut in_pipe = lock().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = registry.accept().unwrap();

    let (mut on_terminal, mut terminal) = start(lock(), 100);
    read_until(&mut terminal, "asking registries (1s)");

    on_terminal.kill().unwrap();
    on_terminal.wait().unwrap();
    in_pipe.kill().unwrap();
    let output = in_pipe.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn request_that_is_not_answered_shows_progress_on_a_terminal_and_nothing_in_a_pipe() {
    // It accepts connections and never answers.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}", server.local_addr().unwrap());
    let cluster = json!({"server": address, "insecure-skip-tls-verify": true});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "slow",
        "clusters": [{"name": "slow", "cluster": cluster}],
        "users": [{"name": "slow", "user": {}}],
        "contexts": [{"name": "slow", "context": {"cluster": "slow", "user": "slow"}}],
    });
    let operation = "apiVersion: ops.crossplane.io/v1alpha1\nkind: Operation\nmetadata: {name: slow}\n";
    let sandbox =
        Sandbox::new().with("kubeconfig", &kubeconfig.to_string()).with("operation.yaml", operation);
    let command = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        command.env("KUBECONFIG", sandbox.path("kubeconfig"));
        command
    };
    for (arguments, words) in [
        (&["trace", "app/hello"][..], "reading objects"),
        (&["why", "app/hello"], "reading objects"),
        (&["rollout", "status"], "asking the control plane"),
        (&["rollout", "promote", "own"], "asking the control plane"),
        (&["operation", "history"], "asking the control plane"),
        (&["operation", "run", "operation.yaml"], "asking the control plane"),
        (
            &["actionset", "create", "-a", "backup", "-b", "mysql", "-d", "shop/db"],
            "asking the control plane",
        ),
        (&["logs", "function/own"], "asking the control plane"),
        (&["start", "--dry-run"], "asking the API server"),
    ] {
        let mut in_pipe = command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut on_terminal, mut terminal) = start(command(arguments), 100);
        read_until(&mut terminal, words);
        on_terminal.kill().unwrap();
        on_terminal.wait().unwrap();
        in_pipe.kill().unwrap();
        let output = in_pipe.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{arguments:?}");
    }
}

#[test]
fn backup_that_arrives_slowly_shows_progress() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["restore", "-", "--data-dir", "data"]);
    // Nothing is written to it.
    command.stdin(Stdio::piped());
    let (mut restoring, mut terminal) = start(command, 100);
    read_until(&mut terminal, "reading the backup");
    restoring.kill().unwrap();
    restoring.wait().unwrap();
}

#[test]
fn notes_and_errors_are_as_wide_as_the_terminal() {
    let sandbox = Sandbox::new();
    // There is nothing to copy in it.
    let name = "a very long name of a file that does not exist ".repeat(3);
    let shown = printed(sandbox.command(&["render", name.trim(), "missing.yaml"]), 60);
    let shown = without_colours(&shown);
    assert!(shown.starts_with("error: ") && shown.contains("\n  "), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
}

#[test]
fn sentences_of_a_dry_run_are_as_wide_as_the_terminal() {
    let plane = Plane::new();
    let mut command = plane.client(Path::new(env!("CARGO_BIN_EXE_ferroplane")));
    command.args(["start", "--dry-run"]);
    let shown = shown(command, 80);
    assert!(shown.contains("It would refuse to start: "), "{shown}");
    let wide = shown.lines().find(|line| line.chars().count() > 80 && !line.contains("kubectl "));
    assert_eq!(wide, None, "{shown}");
}

/// The control sequence introducer of eight bits, and what turns the direction of text. Neither JSON nor YAML escapes both.
const OBEYED: [char; 2] = ['\u{9b}', '\u{202e}'];

/// A name that a terminal would show as `gnpexe.txt`.
const TURNED: &str = "gnp\u{202e}txt.exe";

/// JSON that YAML parsers read, too.
fn escaped(value: &Value) -> String {
    let escape =
        |text: String, character: char| text.replace(character, &format!("\\u{:04x}", u32::from(character)));
    OBEYED.into_iter().fold(value.to_string(), escape)
}

/// All that was printed as JSON, or as a stream of YAML.
fn read_documents(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| serde_saphyr::from_multiple::<Value>(text).unwrap().into())
}

#[test]
fn terminal_shows_what_it_would_obey_and_a_pipe_gets_it_unchanged() {
    let notes = json!({"moves": "a\u{9b}2Jb", "turns": TURNED});
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config", "annotations": notes}});
    let desired = json!({"desired": {"resources": {"config": {"resource": config_map}}}});
    let app = json!({"apiVersion": "example.org/v1", "kind": "App", "metadata": {"name": TURNED}});
    let make = composition(&[("make", "function-dummy", &dummy(&escaped(&desired)))]);
    let sandbox = Sandbox::new()
        .with("composition.yaml", &make)
        .with("request.json", &escaped(&desired))
        .with("app.json", &escaped(&app));
    for arguments in [
        &["render", "xr.yaml", "composition.yaml"][..],
        &["render", "xr.yaml", "composition.yaml", "--output", "json"],
        &["functions", "run", "function-auto-ready", "request.json"],
        &["validate", "app.json", "--output", "yaml"],
        &["validate", "app.json", "--output", "json"],
    ] {
        let shown = printed(sandbox.command(arguments), 200);
        assert!(!shown.contains(OBEYED), "{arguments:?}: {shown:?}");
        assert!(shown.contains(r"gnp\u202etxt.exe"), "{arguments:?}: {shown:?}");

        let piped = sandbox.run(arguments).ok();
        assert!(piped.contains(TURNED), "{arguments:?}: {piped:?}");
        let documents = read_documents(&piped).to_string();
        assert!(documents.contains(TURNED), "{arguments:?}: {documents}");
    }
}
