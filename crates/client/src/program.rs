//! Programs that log in: they print who one is (`client.authentication.k8s.io`), and for how long that holds.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// How long before its end a credential is not used any more: clocks differ.
const EARLY: SignedDuration = SignedDuration::from_secs(10);

/// A program that does not log in.
#[derive(Debug, thiserror::Error)]
pub enum NoLogin {
    #[error("the user logs in with a program (`exec`), but its `command` is not said")]
    NoCommand,
    #[error("cannot run `{command}`, with which the user logs in{}", hint.as_deref().map(|hint| format!(": {hint}")).unwrap_or_default())]
    Missing { command: String, hint: Option<String>, source: std::io::Error },
    #[error("`{command}`, with which the user logs in, failed ({status}): {said}")]
    Failed { command: String, status: std::process::ExitStatus, said: String },
    #[error(
        "`{command}`, with which the user logs in, printed no ExecCredential with a token or a certificate"
    )]
    Nothing { command: String },
}

/// How to run it, and what it said last.
pub struct Program {
    command: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// What it is told about why it is run.
    task: Value,
    /// What to do if it is not there.
    hint: Option<String>,
    said: Mutex<Option<Credential>>,
}

/// Who one is, for a while.
#[derive(Clone)]
pub(crate) struct Credential {
    pub(crate) token: Option<String>,
    /// A certificate and its key, in PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    ends_at: Option<Timestamp>,
}

impl std::fmt::Debug for Program {
    /// Says nothing of what is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("command", &self.command).finish_non_exhaustive()
    }
}

impl Program {
    /// As a kubeconfig in this directory describes it, for this cluster.
    pub(crate) fn read(directory: &Path, exec: &Value, cluster: &Value) -> Result<Self, NoLogin> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let command = text(&exec["command"]).filter(|command| !command.is_empty());
        let command = command.ok_or(NoLogin::NoCommand)?;
        // A name is looked for on the path; a path is relative to the kubeconfig.
        let command = if command.contains('/') { directory.join(command) } else { command.into() };
        let items = |field: &str| exec[field].as_array().cloned().unwrap_or_default();
        let variable = |entry: &Value| Some((text(&entry["name"])?, text(&entry["value"])?));
        let version =
            text(&exec["apiVersion"]).unwrap_or_else(|| "client.authentication.k8s.io/v1".to_owned());
        let mut spec = json!({"interactive": false});
        if exec["provideClusterInfo"] == true {
            spec["cluster"] = cluster.clone();
        }
        Ok(Self {
            command,
            arguments: items("args").iter().filter_map(text).collect(),
            environment: items("env").iter().filter_map(variable).collect(),
            task: json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec}),
            hint: text(&exec["installHint"]),
            said: Mutex::default(),
        })
    }

    /// Who one is. Runs the program if that is not known, or does not hold any more.
    pub(crate) fn log_in(&self) -> Result<Credential, NoLogin> {
        // Held while it runs: whoever needs it too waits, rather than to run it once more.
        let mut said = self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(credential) = said.as_ref().filter(|credential| credential.holds_at(Timestamp::now())) {
            return Ok(credential.clone());
        }
        let credential = self.run()?;
        *said = Some(credential.clone());
        Ok(credential)
    }

    /// The server did not believe what it said last.
    pub(crate) fn forget(&self) {
        *self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    fn run(&self) -> Result<Credential, NoLogin> {
        let command = self.command.display().to_string();
        let ran = std::process::Command::new(&self.command)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", self.task.to_string())
            .stdin(Stdio::null())
            .output();
        let Output { status, stdout, stderr } = ran.map_err(|source| {
            let (command, hint) = (command.clone(), self.hint.clone());
            NoLogin::Missing { command, hint, source }
        })?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr).trim().to_owned();
            return Err(NoLogin::Failed { command, status, said });
        }
        Credential::read(&stdout).ok_or(NoLogin::Nothing { command })
    }
}

impl Credential {
    fn read(printed: &[u8]) -> Option<Self> {
        let printed: Value = serde_json::from_slice(printed).ok()?;
        let text = |field: &str| printed["status"][field].as_str().filter(|text| !text.is_empty());
        let bytes = |field: &str| text(field).map(|text| text.as_bytes().to_vec());
        let (token, identity) =
            (text("token").map(str::to_owned), bytes("clientCertificateData").zip(bytes("clientKeyData")));
        if token.is_none() && identity.is_none() {
            return None;
        }
        let ends_at = text("expirationTimestamp").and_then(|time| time.parse().ok());
        Some(Self { token, identity, ends_at })
    }

    fn holds_at(&self, now: Timestamp) -> bool {
        self.ends_at.is_none_or(|end| now.saturating_add(EARLY).is_ok_and(|soon| soon < end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that counts in a file how often it was run, and prints this.
    fn program(directory: &Path, prints: &str) -> Program {
        let script = format!("echo run >> {}/runs; printf '%s' '{prints}'", directory.display());
        let exec = json!({"command": "sh", "args": ["-c", script], "installHint": "install it"});
        Program::read(directory, &exec, &Value::Null).unwrap()
    }

    fn runs(directory: &Path) -> usize {
        std::fs::read_to_string(directory.join("runs")).unwrap_or_default().lines().count()
    }

    #[test]
    fn program_runs_again_when_what_it_said_does_not_hold_any_more() {
        for (end, expected) in [("2999-01-01T00:00:00Z", 1), ("2020-01-01T00:00:00Z", 2)] {
            let directory = tempfile::tempdir().unwrap();
            let prints = format!(r#"{{"status":{{"token":"t","expirationTimestamp":"{end}"}}}}"#);
            let program = program(directory.path(), &prints);
            for _ in 0..2 {
                assert_eq!(program.log_in().unwrap().token.as_deref(), Some("t"));
            }
            assert_eq!(runs(directory.path()), expected, "{end}");
            program.forget();
            program.log_in().unwrap();
            assert_eq!(runs(directory.path()), expected + 1, "{end}");
        }
    }

    #[test]
    fn program_that_says_nothing_of_use_is_named() {
        let directory = tempfile::tempdir().unwrap();
        for prints in
            ["", "{}", "[", r#"{"status":{"token":""}}"#, r#"{"status":{"clientCertificateData":"c"}}"#]
        {
            let error = program(directory.path(), prints).log_in().err().unwrap();
            assert!(
                error.to_string().starts_with("`sh`, with which the user logs in, printed no"),
                "{error}"
            );
        }
        let failing = json!({"command": "sh", "args": ["-c", "echo no such account >&2; exit 3"]});
        let error = Program::read(directory.path(), &failing, &Value::Null).unwrap().log_in().err().unwrap();
        assert!(error.to_string().ends_with("(exit status: 3): no such account"), "{error}");
        let missing = json!({"command": "no-such-program", "installHint": "install it"});
        let error = Program::read(directory.path(), &missing, &Value::Null).unwrap().log_in().err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot run `no-such-program`, with which the user logs in: install it"
        );
    }

    #[test]
    fn program_is_told_for_which_cluster_it_is_run() {
        let directory = tempfile::tempdir().unwrap();
        let script =
            r#"printf '{"status":{"token":"%s"}}' "$(printf %s "$KUBERNETES_EXEC_INFO$ROLE" | tr -d '"{}')""#;
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "sh", "args": ["-c", script],
            "env": [{"name": "ROLE", "value": "admin"}], "provideClusterInfo": true,
        });
        let program = Program::read(directory.path(), &exec, &json!({"server": "https://a"})).unwrap();
        let token = program.log_in().unwrap().token.unwrap();
        for words in
            ["client.authentication.k8s.io/v1beta1", "server:https://a", "interactive:false", "admin"]
        {
            assert!(token.contains(words), "{token}");
        }
    }
}
