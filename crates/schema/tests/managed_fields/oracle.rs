//! The peer that knows what Kubernetes does.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A running `kubernetes-managed-fields`.
pub(crate) struct Oracle {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts the peer, if it is installed.
    pub(crate) fn start() -> Option<Self> {
        let directory =
            std::env::var_os("FERROPLANE_PEERS").filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = directory.or_else(|| Some(std::env::home_dir()?.join(".cache/ferroplane/peers")))?;
        let mut process = Command::new(directory.join("kubernetes-managed-fields"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let input = process.stdin.take()?;
        let output = BufReader::new(process.stdout.take()?);
        Some(Self { process, input, output })
    }

    /// The answer to a question.
    pub(crate) fn ask(&mut self, question: &Value) -> Value {
        let mut line = question.to_string();
        line.push('\n');
        self.input.write_all(line.as_bytes()).expect("the peer listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the peer answers");
        serde_json::from_str(&line).expect("the peer answers in JSON")
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
