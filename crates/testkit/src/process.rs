//! A program that runs as a process of its own, and the lines that it writes to standard error.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How long a line may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A program that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Start a program. Its standard output is thrown away.
    pub fn spawn(mut command: Command) -> Self {
        let mut child =
            command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program starts");
        let errors = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Wait for a line. Returns it and everything that was written before it.
    pub fn lines_until(&self, what: &str, is_it: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| is_it(line)) {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => lines.push(line),
                Err(error) => panic!("{error} before {what:?}: {lines:#?}"),
            }
        }
        lines
    }

    /// Everything that it writes until it ends.
    pub fn lines_to_the_end(&self) -> Vec<String> {
        std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok()).collect()
    }

    /// What it has written and nobody has read yet.
    pub fn unread_lines(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("the process is there");
    }

    /// Wait until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("the process can be waited for")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
