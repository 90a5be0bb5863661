//! A terminal in which a page is followed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::slice;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use ferroplane_testkit::Process;
use rustix::process::Signal;
use tempfile::TempDir;

use super::compare::compare;
use super::page::{Action, Page};

/// How long one command may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);
/// What the shell prints after each command, before its exit code.
const END: &str = "--- end of command ---";
/// What `up` prints when clients can connect.
const READY: &str = "the API server is ready at https://127.0.0.1:";

/// Has the shell remember in `failed` that a command of a block failed. 3 is a negative result, and no failure.
const REMEMBER_FAILURES: &str = r#"failed=0; trap 'code=$?; [ $code = 3 ] || { failed=$code; echo "exits with $code: $BASH_COMMAND"; }' ERR"#;

/// Commands with a negative result, and what their output has then.
const NEGATIVE_RESULTS: [(&str, &[&str]); 5] = [
    ("ferroplane diff ", &["  ~ update ", "note: saved the plan"]),
    ("ferroplane rollout status ", &["RolledBack"]),
    ("ferroplane trace ", &[" False "]),
    ("ferroplane validate ", &["[x] ", "[!] "]),
    ("ferroplane why", &["What to do:", "not ready"]),
];

/// A shell in an empty home directory, and the control plane that was started in it.
pub(super) struct Session {
    home: TempDir,
    shell: Child,
    input: ChildStdin,
    output: Receiver<String>,
    plane: Option<Process>,
    /// What a page calls something, and what it is called here.
    replacement: Option<(String, String)>,
}

impl Session {
    pub(super) fn new() -> Self {
        let home = TempDir::new().unwrap();
        let bin = home.path().join(".local/bin");
        std::fs::create_dir_all(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_ferroplane"), bin.join("ferroplane")).unwrap();
        let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        symlink(repository.join("examples"), home.path().join("examples")).unwrap();
        let mut command = terminal(home.path(), "bash");
        command
            .args(["--norc", "--noprofile"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut shell = command.spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        // Errors are read in the order in which they are printed.
        writeln!(input, "exec 2>&1").unwrap();
        let lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { home, shell, input, output, plane: None, replacement: None }
    }

    /// Calls something otherwise than the page does.
    pub(super) fn replacing(mut self, on_page: &str, here: &str) -> Self {
        self.replacement = Some((on_page.to_owned(), here.to_owned()));
        self
    }

    /// Does everything that a page says.
    pub(super) fn follow(mut self, page: &Page) {
        let began = Instant::now();
        for action in &page.actions {
            match action {
                Action::Save { name, content } => self.save(name, content),
                Action::Run { line, command, expected } => {
                    let printed = self.run(page, *line, command, expected);
                    if let Err(difference) = compare(expected, &printed) {
                        let printed = printed.join("\n");
                        panic!("{}:{line}: $ {command}\n{difference}\nAll of it:\n{printed}", page.name);
                    }
                }
                Action::Script { line, commands } => self.run_all(page, *line, commands),
            }
        }
        let commands = page.actions.iter().filter(|action| action.is_command()).count();
        eprintln!("{}: {commands} commands in {:.1} s", page.name, began.elapsed().as_secs_f64());
    }

    /// Saves a file where the shell is.
    fn save(&mut self, name: &str, content: &str) {
        let (lines, _) = self.type_in("pwd");
        let path = Path::new(&lines[0]).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, self.to_here(content)).unwrap();
    }

    /// Runs a command. Returns what it prints, as the page would call it.
    fn run(&mut self, page: &Page, line: usize, command: &str, expected: &[String]) -> Vec<String> {
        if command.starts_with("ferroplane up") {
            return self.start(command, expected);
        }
        let (printed, code) = self.type_in(&self.to_here(command));
        let is_shown = is_shown(code, command, expected);
        assert!(is_shown, "{}:{line}: $ {command}\nexits with {code}\n{}", page.name, printed.join("\n"));
        printed.iter().map(|line| self.to_page(line)).collect()
    }

    /// Runs all commands of a block. Each of them has to succeed.
    fn run_all(&mut self, page: &Page, line: usize, commands: &str) {
        if commands.starts_with("ferroplane up") {
            self.start(commands, &[]);
            return;
        }
        let commands = self.to_here(commands);
        let script = format!("{REMEMBER_FAILURES}\n{commands}\ntrap - ERR\n(exit $failed)");
        let (printed, code) = self.type_in(&script);
        assert!(code == 0, "{}:{line}: {commands}\n{}", page.name, printed.join("\n"));
    }

    /// Starts a control plane, at a port that is free.
    fn start(&mut self, command: &str, expected: &[String]) -> Vec<String> {
        self.stop();
        let (lines, _) = self.type_in("pwd");
        let arguments = command.strip_prefix("ferroplane").unwrap_or(command);
        let mut shell = terminal(self.home.path(), "bash");
        shell.arg("-c").arg(format!("exec ferroplane {arguments} --listen 127.0.0.1:0"));
        shell.current_dir(&lines[0]).stdin(Stdio::null());
        let plane = Process::spawn(shell);
        let mut printed = plane.lines_until(READY, |line| line.contains(READY));
        // The page may show what comes after that.
        let last = expected.iter().rev().find(|line| !line.trim().is_empty() && line.trim() != "…");
        if let Some(last) =
            last.filter(|last| compare(slice::from_ref(*last), &printed[printed.len() - 1..]).is_err())
        {
            let is_last = |line: &str| compare(slice::from_ref(last), &[self.to_page(line)]).is_ok();
            printed.extend(plane.lines_until(last, is_last));
        }
        self.plane = Some(plane);
        printed.iter().filter(|line| !is_log_line(line)).map(|line| self.to_page(line)).collect()
    }

    fn stop(&mut self) {
        if let Some(mut plane) = self.plane.take() {
            plane.signal(Signal::TERM);
            plane.wait();
        }
    }

    /// What a command prints, and its exit code.
    fn type_in(&mut self, command: &str) -> (Vec<String>, i32) {
        // The exit code stays that of the command, for a page that prints it.
        writeln!(self.input, "{command}\n(code=$?; echo \"{END}$code\"; exit $code)").unwrap();
        let mut printed = Vec::new();
        loop {
            let Ok(line) = self.output.recv_timeout(PATIENCE) else {
                panic!("`{command}` does not end: {printed:#?}");
            };
            match line.split_once(END) {
                // What is printed without a line break at its end is part of the line.
                Some((last, code)) => {
                    printed.extend((!last.is_empty()).then(|| last.to_owned()));
                    return (printed, code.parse().unwrap());
                }
                None => printed.push(line),
            }
        }
    }

    fn to_here(&self, text: &str) -> String {
        self.replacement.as_ref().map_or_else(|| text.to_owned(), |(page, here)| text.replace(page, here))
    }

    /// The reader's home directory is `/home/you`.
    fn to_page(&self, text: &str) -> String {
        let text = text.replace(&self.home.path().display().to_string(), "/home/you");
        self.replacement.as_ref().map_or_else(|| text.clone(), |(page, here)| text.replace(here, page))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Whether the output on a page is that of a command with this exit code: a failure shows its message, and a negative result what is wrong.
fn is_shown(code: i32, command: &str, expected: &[String]) -> bool {
    let has = |mark: &str| expected.iter().any(|line| line.contains(mark));
    match code {
        0 => true,
        1 => expected.iter().any(|line| line.starts_with("error:")),
        3 => NEGATIVE_RESULTS
            .iter()
            .any(|(begins, marks)| command.starts_with(begins) && marks.iter().any(|mark| has(mark))),
        _ => false,
    }
}

/// Whether a line is one of the log, which comes between the others at any time. Pages do not show them.
fn is_log_line(line: &str) -> bool {
    let has_level = |word: &str| matches!(word, "TRACE" | "DEBUG" | "INFO" | "WARN" | "ERROR");
    line.starts_with(|first: char| first.is_ascii_digit())
        && line.split_whitespace().nth(1).is_some_and(has_level)
}

/// A program that knows nothing of the person who runs the tests, but finds our binary and kubectl.
fn terminal(home: &Path, program: &str) -> Command {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let ours = [home.join(".local/bin"), crate::peers::directory()];
    let paths = std::env::join_paths(ours.into_iter().chain(std::env::split_paths(&paths))).unwrap();
    let mut command = Command::new(program);
    command.current_dir(home).env("HOME", home).env("PATH", paths).env("COLUMNS", "120").env("TZ", "UTC");
    for name in ["KUBECONFIG", "FERROPLANE_DATA_DIR", "XDG_DATA_HOME", "XDG_CACHE_HOME", "DOCKER_CONFIG"] {
        command.env_remove(name);
    }
    // Go keeps what it has compiled where it always does.
    if let Some(home) = std::env::var_os("HOME") {
        command
            .env("GOCACHE", Path::new(&home).join(".cache/go-build"))
            .env("GOFLAGS", "-mod=mod")
            .env("GOTOOLCHAIN", "local");
    }
    command
}

#[test]
fn negative_result_is_expected_only_where_the_page_shows_one() {
    let check = |code, command: &str, shown: &str, is_expected: bool| {
        let lines: Vec<_> = shown.lines().map(str::to_owned).collect();
        assert_eq!(is_shown(code, command, &lines), is_expected, "{code} {command}\n{shown}");
    };
    check(0, "ferroplane why app/hello", "App default/hello is ready.", true);
    check(3, "ferroplane why app/hello", "App default/hello is ready.", false);
    check(3, "ferroplane why", "1 of 18 objects is not ready.", true);
    check(3, "ferroplane diff a.yaml", "Files:\n  ~ update  Composition/app", true);
    check(3, "ferroplane diff a.yaml", "No differences.", false);
    check(3, "ferroplane validate .", "[x] v1, Kind=ConfigMap, a", true);
    check(3, "ferroplane rollout status a", "State:       Promoted", false);
    check(3, "kubectl get pods", "What to do:", false);
    check(1, "ferroplane render a", "error: cannot read `a`", true);
    check(1, "ferroplane render a", "---", false);
    check(2, "ferroplane wrong", "error: there is no such command", false);
}
