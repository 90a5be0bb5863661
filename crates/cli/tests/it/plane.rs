//! A control plane that runs as a process of its own, and the commands that people type beside it.
//!
//! The `Plane` of `ferroplane_testkit` runs controllers inside the test. This one runs the binary with its flags, files and exit codes, which only
//! tests of this crate can start (`CARGO_BIN_EXE_ferroplane`).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ferroplane_testkit::{Process, free_ports};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::sandbox::Ran;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A control plane that runs, with a directory of files beside it. Ends when it is dropped.
pub(crate) struct Plane {
    process: Process,
    directory: TempDir,
}

/// A shell in a directory, whose commands use the API server of a kubeconfig and nothing of the person who runs the tests.
pub(crate) struct Shell {
    pub(crate) directory: PathBuf,
    pub(crate) kubeconfig: PathBuf,
}

impl Shell {
    /// What it would run. Whatever is said goes to one place, as on a terminal.
    pub(crate) fn command(&self, line: &str) -> Command {
        let peers = crate::peers::directory();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(peers).chain(std::env::split_paths(&paths));
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("exec 2>&1; {line}")).current_dir(&self.directory);
        command.env("PATH", std::env::join_paths(paths).unwrap()).env("KUBECONFIG", &self.kubeconfig);
        command.env("HOME", &self.directory).env("TZ", "UTC").stdin(Stdio::null());
        command
    }

    /// What a command says that is given something to read.
    pub(crate) fn run(&self, line: &str, input: &str) -> Ran {
        let mut command = self.command(line);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Who is not interested in it does not read it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap().into()
    }

    /// What a command says that succeeds.
    pub(crate) fn says(&self, line: &str) -> String {
        self.told(line, "")
    }

    /// What a command says that is given something to read, and succeeds.
    pub(crate) fn told(&self, line: &str, input: &str) -> String {
        let ran = self.run(line, input);
        assert_eq!(ran.code, Some(0), "{line}\n{}", ran.stdout);
        ran.stdout
    }
}

/// Whether the environment names an API server to try things on.
pub(crate) fn has_oracle() -> bool {
    std::env::var_os("FERROPLANE_ORACLE_URL").is_some_and(|url| !url.is_empty())
}

/// The binary with these arguments, in a directory.
pub(crate) fn ferroplane(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroplane"));
    command.args(arguments).current_dir(directory).env("HOME", directory).stdin(Stdio::null());
    command.env("RECORDING_ADDRESS", "127.0.0.1:0").env("TZ", "UTC");
    command
}

impl Plane {
    /// A control plane with nothing in it.
    pub(crate) fn new() -> Self {
        Self::start(TempDir::new().unwrap(), &["--data-dir", "data"])
    }

    /// The same or, if the environment names an API server (`cargo xtask oracle -- cargo test …`), controllers beside that
    /// one, which nobody else may use meanwhile.
    pub(crate) fn find() -> Self {
        let Some(kubeconfig) = std::env::var_os("KUBECONFIG").filter(|_| has_oracle()) else {
            return Self::new();
        };
        let directory = TempDir::new().unwrap();
        std::fs::copy(kubeconfig, directory.path().join("kubeconfig")).unwrap();
        let mut command = ferroplane(directory.path(), &["start", "--kubeconfig", "kubeconfig"]);
        command.env("XDG_CACHE_HOME", crate::starlark::cache());
        let [health, metrics, hooks] = free_ports().map(|port| format!("127.0.0.1:{port}"));
        command.args([
            "--health-address",
            &health,
            "--metrics-address",
            &metrics,
            "--webhook-address",
            &hooks,
        ]);
        command.args(["--webhook-url", &format!("https://{hooks}"), "--log-format", "json"]);
        // `up` calls them, and lets steps choose, too.
        command.args([
            "--allow-development-functions",
            "--enable-function-revision-selectors",
            "--enable-operations",
        ]);
        let kubectl = Command::new(crate::peers::directory().join("kubectl"))
            .args(["create", "namespace", "crossplane-system", "--kubeconfig", "kubeconfig"])
            .current_dir(directory.path())
            .output();
        kubectl.unwrap();
        Self::run_until(directory, command, "\"became the leader\"")
    }

    /// Starts one in a directory, with these flags, and waits until it is ready.
    pub(crate) fn start(directory: TempDir, flags: &[&str]) -> Self {
        let mut command = ferroplane(directory.path(), &["up", "--listen", "127.0.0.1:0"]);
        command.args(["--kubeconfig", "kubeconfig"]).args(flags);
        Self::run_by(directory, command)
    }

    /// The same by a command that becomes one.
    pub(crate) fn run_by(directory: TempDir, command: Command) -> Self {
        Self::run_until(directory, command, "the API server is ready at https://127.0.0.1:")
    }

    fn run_until(directory: TempDir, command: Command, words: &str) -> Self {
        let plane = Self { process: Process::spawn(command), directory };
        plane.until(words);
        plane
    }

    /// Waits until the control plane says something.
    pub(crate) fn until(&self, words: &str) -> String {
        self.heard_until(words).pop().unwrap_or_default()
    }

    /// The same, and everything that it said before.
    pub(crate) fn heard_until(&self, words: &str) -> Vec<String> {
        self.process.lines_until(words, |line| line.contains(words))
    }

    /// Everything that it says until it ends.
    pub(crate) fn heard_to_the_end(&self) -> Vec<String> {
        self.process.lines_to_the_end()
    }

    /// The directory of one that has ended.
    pub(crate) fn into_directory(mut self) -> TempDir {
        std::mem::replace(&mut self.directory, TempDir::new().unwrap())
    }

    pub(crate) fn id(&self) -> Pid {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for the end of the process.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.process.wait()
    }

    /// Tells it to end, and returns its directory once it has.
    pub(crate) fn stop(mut self) -> TempDir {
        self.signal(Signal::TERM);
        let status = self.end();
        assert!(status.success(), "{status}");
        std::mem::replace(&mut self.directory, TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds a file.
    pub(crate) fn with(self, name: &str, content: &str) -> Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// A program that is to use this plane, and nothing of the person who runs the tests.
    pub(crate) fn client(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", self.path("kubeconfig")).env("HOME", self.directory.path());
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// A shell beside it.
    pub(crate) fn beside(&self) -> Shell {
        Shell { directory: self.directory.path().to_owned(), kubeconfig: self.path("kubeconfig") }
    }

    /// What a shell beside it would run.
    pub(crate) fn shell(&self, line: &str) -> Command {
        self.beside().command(line)
    }

    /// What a shell beside it says that is given something to read.
    pub(crate) fn run(&self, line: &str, input: &str) -> Ran {
        self.beside().run(line, input)
    }

    /// What a command says that succeeds.
    pub(crate) fn says(&self, line: &str) -> String {
        self.told(line, "")
    }

    /// Wait until a command that succeeds says something.
    pub(crate) fn until_said(&self, line: &str, is_so: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let said = self.says(line);
            if is_so(&said) {
                return said;
            }
            assert!(began.elapsed() < PATIENCE, "{line}\n{said}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Wait until there are so many Usages, in whatever namespace, and all of them hold.
    pub(crate) fn until_used(&self, count: usize) {
        let usages = "usages.protection.crossplane.io";
        // kubectl waits for what it finds, so that all of them have to be there first.
        let found = format!("kubectl get {usages} -A --no-headers 2>/dev/null | wc -l");
        self.says(&format!("timeout 60 sh -c 'until [ $({found}) = {count} ]; do sleep 0.1; done'"));
        self.says(&format!("kubectl wait --for=condition=Ready {usages} --all -A --timeout=60s"));
    }

    /// What a command says that is given something to read, and succeeds.
    pub(crate) fn told(&self, line: &str, input: &str) -> String {
        self.beside().told(line, input)
    }

    /// What a command says that fails.
    pub(crate) fn fails(&self, line: &str, input: &str) -> String {
        let ran = self.run(line, input);
        assert_ne!(ran.code, Some(0), "{line}\n{}", ran.stdout);
        ran.stdout
    }

    /// The lines of a table, with single spaces and without times.
    pub(crate) fn rows(&self, line: &str) -> Vec<String> {
        let said = self.says(line);
        let is_time = |word: &str| word.ends_with('s') && word.trim_end_matches('s').parse::<u32>().is_ok();
        let word = |word: &str| if is_time(word) { "AGE".to_owned() } else { word.to_owned() };
        let lines = said.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" "));
        lines.filter(|line| !line.is_empty()).collect()
    }
}
