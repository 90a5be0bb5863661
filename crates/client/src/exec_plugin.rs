//! Credential plugins (`client.authentication.k8s.io`): programs that print a token or a certificate, and when it expires.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// A credential is not used in its last seconds, because clocks differ.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);

/// Why a credential plugin provides no credential.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("the user logs in with a program (`exec`), but its `command` is missing")]
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

/// A credential plugin, and the credential that it printed last.
pub struct ExecPlugin {
    command: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// The `ExecCredential` that it is given.
    request: Value,
    /// How to install it.
    hint: Option<String>,
    cached: Mutex<Option<Credential>>,
}

/// A token, a certificate, or both, until they expire.
#[derive(Clone)]
pub(crate) struct Credential {
    pub(crate) token: Option<String>,
    /// A certificate and its key, in PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for ExecPlugin {
    /// Leaves out the credential.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecPlugin").field("command", &self.command).finish_non_exhaustive()
    }
}

impl ExecPlugin {
    /// As a kubeconfig in this directory describes it, for this cluster.
    pub(crate) fn read(directory: &Path, exec: &Value, cluster: &Value) -> Result<Self, ExecError> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let command = text(&exec["command"]).filter(|command| !command.is_empty());
        let command = command.ok_or(ExecError::NoCommand)?;
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
            request: json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec}),
            hint: text(&exec["installHint"]),
            cached: Mutex::default(),
        })
    }

    /// The cached credential, or a new one if there is none or it has expired.
    pub(crate) fn credential(&self) -> Result<Credential, ExecError> {
        // Held while the program runs: others wait for its answer instead of running it once more.
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(credential) =
            cached.as_ref().filter(|credential| credential.is_valid_at(Timestamp::now()))
        {
            return Ok(credential.clone());
        }
        let credential = self.run()?;
        *cached = Some(credential.clone());
        Ok(credential)
    }

    /// The server did not accept a credential with this token.
    pub(crate) fn discard(&self, token: Option<&str>) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        // Requests are refused one after the other, all with the same token. By the second refusal the program may have printed
        // a new one, which must not be thrown away unused: each run may cost a login.
        cached.take_if(|credential| credential.token.as_deref() == token);
    }

    fn run(&self) -> Result<Credential, ExecError> {
        let command = self.command.display().to_string();
        let ran = std::process::Command::new(&self.command)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", self.request.to_string())
            // A plugin that wants to ask a person must fail rather than wait for ever; `interactive: false`
            // tells it so.
            .stdin(Stdio::null())
            .output();
        let Output { status, stdout, stderr } = ran.map_err(|source| {
            let (command, hint) = (command.clone(), self.hint.clone());
            ExecError::Missing { command, hint, source }
        })?;
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr).trim().to_owned();
            return Err(ExecError::Failed { command, status, said });
        }
        Credential::read(&stdout).ok_or(ExecError::Nothing { command })
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
        let expires_at = text("expirationTimestamp").and_then(|time| time.parse().ok());
        Some(Self { token, identity, expires_at })
    }

    fn is_valid_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now.saturating_add(MARGIN).is_ok_and(|soon| soon < end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that counts in a file how often it was run, and prints this.
    fn program(directory: &Path, prints: &str) -> ExecPlugin {
        let script = format!("echo run >> {}/runs; printf '%s' '{prints}'", directory.display());
        let exec = json!({"command": "sh", "args": ["-c", script], "installHint": "install it"});
        ExecPlugin::read(directory, &exec, &Value::Null).unwrap()
    }

    fn runs(directory: &Path) -> usize {
        std::fs::read_to_string(directory.join("runs")).unwrap_or_default().lines().count()
    }

    #[test]
    fn plugin_runs_again_when_its_credential_has_expired() {
        for (end, expected) in [("2999-01-01T00:00:00Z", 1), ("2020-01-01T00:00:00Z", 2)] {
            let directory = tempfile::tempdir().unwrap();
            let prints = format!(r#"{{"status":{{"token":"t","expirationTimestamp":"{end}"}}}}"#);
            let program = program(directory.path(), &prints);
            for _ in 0..2 {
                assert_eq!(program.credential().unwrap().token.as_deref(), Some("t"));
            }
            assert_eq!(runs(directory.path()), expected, "{end}");
            program.discard(Some("t"));
            program.credential().unwrap();
            assert_eq!(runs(directory.path()), expected + 1, "{end}");
        }
    }

    #[test]
    fn refusal_of_an_old_token_leaves_a_newer_one() {
        let directory = tempfile::tempdir().unwrap();
        let runs_file = directory.path().join("runs");
        let script = format!(
            r#"echo run >> {0}; printf '{{"status":{{"token":"t%s"}}}}' "$(wc -l < {0} | tr -d ' ')""#,
            runs_file.display()
        );
        let exec = json!({"command": "sh", "args": ["-c", script]});
        let program = ExecPlugin::read(directory.path(), &exec, &Value::Null).unwrap();
        let token = || program.credential().unwrap().token.unwrap();
        assert_eq!(token(), "t1");
        program.discard(Some("t1"));
        assert_eq!(token(), "t2");
        // A request that was sent with the first one is answered only now.
        program.discard(Some("t1"));
        assert_eq!((token().as_str(), runs(directory.path())), ("t2", 2));
    }

    #[test]
    fn plugin_without_a_credential_is_named() {
        let directory = tempfile::tempdir().unwrap();
        for prints in
            ["", "{}", "[", r#"{"status":{"token":""}}"#, r#"{"status":{"clientCertificateData":"c"}}"#]
        {
            let error = program(directory.path(), prints).credential().err().unwrap();
            assert!(
                error.to_string().starts_with("`sh`, with which the user logs in, printed no"),
                "{error}"
            );
        }
        let failing = json!({"command": "sh", "args": ["-c", "echo no such account >&2; exit 3"]});
        let error =
            ExecPlugin::read(directory.path(), &failing, &Value::Null).unwrap().credential().err().unwrap();
        assert!(error.to_string().ends_with("(exit status: 3): no such account"), "{error}");
        let missing = json!({"command": "no-such-program", "installHint": "install it"});
        let error =
            ExecPlugin::read(directory.path(), &missing, &Value::Null).unwrap().credential().err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot run `no-such-program`, with which the user logs in: install it"
        );
    }

    #[test]
    fn plugin_is_told_for_which_cluster_it_runs() {
        let directory = tempfile::tempdir().unwrap();
        let script =
            r#"printf '{"status":{"token":"%s"}}' "$(printf %s "$KUBERNETES_EXEC_INFO$ROLE" | tr -d '"{}')""#;
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "sh", "args": ["-c", script],
            "env": [{"name": "ROLE", "value": "admin"}], "provideClusterInfo": true,
        });
        let program = ExecPlugin::read(directory.path(), &exec, &json!({"server": "https://a"})).unwrap();
        let token = program.credential().unwrap().token.unwrap();
        for words in
            ["client.authentication.k8s.io/v1beta1", "server:https://a", "interactive:false", "admin"]
        {
            assert!(token.contains(words), "{token}");
        }
    }
}
