//! Credential helpers: programs `docker-credential-NAME`, which are given a server on standard input and print a credential.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Credential;

/// How much a helper may print.
const MAX_OUTPUT: u64 = 64 << 10;
/// What helpers print when they know nothing; Docker compares the words, too.
const NOT_FOUND: &str = "credentials not found in native keychain";
/// The user name of what is a token and no password.
const TOKEN: &str = "<token>";

/// Why a helper gives no answer. Never what it printed: that may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error(
        "`{name}` is not the name of a credential helper; correct `credsStore` or `credHelpers` in config.json"
    )]
    Name { name: String },
    #[error("cannot run {program}; install it or remove it from config.json")]
    Start { program: String, source: io::Error },
    #[error("{program} did not answer within {seconds} seconds and was ended")]
    Slow { program: String, seconds: u64 },
    #[error("{program} failed: {status}")]
    Failed { program: String, status: std::process::ExitStatus },
    #[error("{program} printed more than 64 KiB and was ended")]
    TooMuch { program: String },
    #[error("{program} printed no credential")]
    Nothing { program: String },
    #[error("cannot talk to {program}")]
    Pipe { program: String, source: io::Error },
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    username: String,
    secret: String,
}

/// Ask a helper for the credential of a server.
pub(super) async fn run(
    name: &str,
    server: &str,
    limit: Duration,
) -> Result<Option<Credential>, HelperError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    // It becomes part of the name of a program: with a `/`, it could name any.
    if !name.bytes().all(is_name) || name.len() > 100 {
        return Err(HelperError::Name { name: name.chars().take(100).filter(|c| !c.is_control()).collect() });
    }
    let program = format!("docker-credential-{name}");
    let mut helper = Helper::start(&program)?;
    let answered = timeout(limit, helper.ask(server)).await;
    // Also its children, which may hold on to the pipes.
    helper.end();
    answered.unwrap_or(Err(HelperError::Slow { program, seconds: limit.as_secs() }))
}

struct Helper {
    program: String,
    child: Child,
    group: Option<Pid>,
}

impl Helper {
    fn start(program: &str) -> Result<Self, HelperError> {
        let child = Command::new(program)
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // It may print a secret there, too.
            .stderr(Stdio::null())
            // A group of its own, so that its children can be ended with it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| HelperError::Start { program: program.to_owned(), source })?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { program: program.to_owned(), child, group })
    }

    async fn ask(&mut self, server: &str) -> Result<Option<Credential>, HelperError> {
        let program = self.program.clone();
        let pipe = |source| HelperError::Pipe { program: program.clone(), source };
        let mut input = self.child.stdin.take().expect("standard input is a pipe");
        // A helper that does not read what it is asked for may answer all the same.
        let _ = input.write_all(server.as_bytes()).await;
        drop(input);
        let output = self.child.stdout.take().expect("standard output is a pipe");
        let mut printed = Vec::new();
        output.take(MAX_OUTPUT + 1).read_to_end(&mut printed).await.map_err(pipe)?;
        if printed.len() as u64 > MAX_OUTPUT {
            return Err(HelperError::TooMuch { program });
        }
        let status = self.child.wait().await.map_err(pipe)?;
        if status.success() {
            return read(&printed).ok_or(HelperError::Nothing { program }).map(Some);
        }
        let said = String::from_utf8_lossy(&printed);
        if said.trim() == NOT_FOUND { Ok(None) } else { Err(HelperError::Failed { program, status }) }
    }

    fn end(&mut self) {
        // Once: later the number may belong to another process.
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end();
    }
}

fn read(printed: &[u8]) -> Option<Credential> {
    let Printed { username, secret } = serde_json::from_slice(printed).ok()?;
    Some(match username.as_str() {
        TOKEN => Credential::Identity(secret),
        "" if secret.is_empty() => return None,
        _ => Credential::Basic { username, password: secret },
    })
}
