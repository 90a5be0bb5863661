//! Credential plugins (`client.authentication.k8s.io`): programs that print a token or a certificate, and when it expires.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::{ClientCertificate, limited_process};

/// A credential is not used in its last seconds, because clocks differ.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);
/// How long the first run may take: the user may have to log in with a browser, for which kubelogin waits three minutes.
const LOGIN_LIMIT: Duration = Duration::from_mins(4);
/// How long a later run may take: less than a request may, so that the request fails with what is wrong.
const RENEWAL_LIMIT: Duration = Duration::from_secs(50);

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
    #[error("`{command}`, with which the user logs in, did not end within {}s and was ended", limit.as_secs())]
    Slow { command: String, limit: Duration },
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
    last_run: Mutex<LastRun>,
}

/// The last run of a plugin.
#[derive(Default)]
struct LastRun {
    /// What it printed, until the server does not accept it.
    credential: Option<Arc<Credential>>,
    /// Why it failed, if it did, and when.
    failure: Option<(Instant, Arc<ExecError>)>,
}

/// A token, a certificate, or both, until they expire.
pub(crate) struct Credential {
    pub(crate) token: Option<String>,
    pub(crate) certificate: Option<ClientCertificate>,
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
            last_run: Mutex::default(),
        })
    }

    /// The first credential, for which a person may have to do something.
    pub(crate) fn log_in(&self) -> Result<Arc<Credential>, Arc<ExecError>> {
        self.credential_within(LOGIN_LIMIT)
    }

    /// The cached credential, or a new one if there is none or it has expired.
    pub(crate) fn credential(&self) -> Result<Arc<Credential>, Arc<ExecError>> {
        self.credential_within(RENEWAL_LIMIT)
    }

    fn credential_within(&self, limit: Duration) -> Result<Arc<Credential>, Arc<ExecError>> {
        let began_at = Instant::now();
        // Held while the program runs: others wait for its answer instead of running it once more.
        let mut last_run = self.last_run.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = last_run.credential.as_ref();
        if let Some(credential) = cached.filter(|credential| credential.is_valid_at(Timestamp::now())) {
            return Ok(credential.clone());
        }
        // It failed for those who waited, too. If each of them ran it again, one after the other, the last would wait for hours.
        if let Some((_, error)) = last_run.failure.as_ref().filter(|(failed_at, _)| *failed_at >= began_at) {
            return Err(error.clone());
        }
        match self.run(limit) {
            Ok(credential) => {
                let credential = Arc::new(credential);
                *last_run = LastRun { credential: Some(credential.clone()), failure: None };
                Ok(credential)
            }
            Err(error) => {
                let error = Arc::new(error);
                last_run.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// The server did not accept this credential.
    pub(crate) fn discard(&self, refused: &Arc<Credential>) {
        let mut last_run = self.last_run.lock().unwrap_or_else(PoisonError::into_inner);
        // Requests are refused one after the other, all with the same credential. By the second refusal the program may have printed
        // a new one, which must not be thrown away unused: each run may cost a login.
        last_run.credential.take_if(|credential| Arc::ptr_eq(credential, refused));
    }

    fn run(&self, limit: Duration) -> Result<Credential, ExecError> {
        let name = self.command.display().to_string();
        let mut command = Command::new(&self.command);
        // A plugin that wants to ask a person must fail rather than wait: it has nothing to read, and `interactive: false`
        // tells it so.
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", self.request.to_string());
        let ran = limited_process::output(command, limit).map_err(|source| {
            let (command, hint) = (name.clone(), self.hint.clone());
            ExecError::Missing { command, hint, source }
        })?;
        let Some(Output { status, stdout, stderr }) = ran else {
            return Err(ExecError::Slow { command: name, limit });
        };
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr).trim().to_owned();
            return Err(ExecError::Failed { command: name, status, said });
        }
        Credential::read(&stdout).ok_or(ExecError::Nothing { command: name })
    }
}

impl Credential {
    fn read(printed: &[u8]) -> Option<Self> {
        let printed: Value = serde_json::from_slice(printed).ok()?;
        let text = |field: &str| printed["status"][field].as_str().filter(|text| !text.is_empty());
        let bytes = |field: &str| text(field).map(|text| text.as_bytes().to_vec());
        let certificate = bytes("clientCertificateData").zip(bytes("clientKeyData"));
        let certificate = certificate.map(|(certificate, key)| ClientCertificate { certificate, key });
        let token = text("token").map(str::to_owned);
        if token.is_none() && certificate.is_none() {
            return None;
        }
        let told = text("expirationTimestamp").and_then(|time| time.parse().ok());
        let ends = certificate.as_ref().and_then(|pair| end_of(&pair.certificate));
        let expires_at = [told, ends].into_iter().flatten().min();
        Some(Self { token, certificate, expires_at })
    }

    fn is_valid_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now.saturating_add(MARGIN).is_ok_and(|soon| soon < end))
    }
}

/// When a certificate in PEM expires. None if it cannot be read, which is reported when it is used.
fn end_of(certificate: &[u8]) -> Option<Timestamp> {
    let certificate = CertificateDer::from_pem_slice(certificate).ok()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
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
        }
    }

    #[test]
    fn plugin_runs_again_when_its_certificate_has_expired() {
        let pki = ferroplane_testkit::Pki::new();
        for (leaf, expected) in [(pki.issue(&["a"]), 1), (pki.issue_expired(&["a"]), 2)] {
            let directory = tempfile::tempdir().unwrap();
            let status = json!({"clientCertificateData": leaf.certificate, "clientKeyData": leaf.key});
            // Without `expirationTimestamp`, which is optional. Of a text in single quotes, `printf` leaves the escapes as they are.
            let program = program(directory.path(), &json!({"status": status}).to_string());
            for _ in 0..2 {
                let credential = program.credential().unwrap();
                assert_eq!(credential.certificate.as_ref().unwrap().key, leaf.key.as_bytes());
            }
            assert_eq!(runs(directory.path()), expected);
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
        let token = || program.credential().unwrap().token.clone().unwrap();
        let first = program.credential().unwrap();
        assert_eq!(first.token.as_deref(), Some("t1"));
        program.discard(&first);
        assert_eq!(token(), "t2");
        // A request that was sent with the first one is answered only now.
        program.discard(&first);
        assert_eq!((token().as_str(), runs(directory.path())), ("t2", 2));
    }

    #[test]
    fn plugin_that_does_not_end_is_named_with_its_limit_and_run_once_for_all_who_wait() {
        let directory = tempfile::tempdir().unwrap();
        let script = format!("echo run >> {}/runs; exec sleep 600", directory.path().display());
        let exec = json!({"command": "sh", "args": ["-c", script]});
        let program = ExecPlugin::read(directory.path(), &exec, &Value::Null).unwrap();
        let limit = Duration::from_secs(3);
        let ask = || program.credential_within(limit).err().unwrap().to_string();
        let expected = "`sh`, with which the user logs in, did not end within 3s and was ended";
        std::thread::scope(|scope| {
            let first = scope.spawn(ask);
            while runs(directory.path()) == 0 {
                std::thread::yield_now();
            }
            // Those who come while it runs.
            let others = [scope.spawn(ask), scope.spawn(ask)];
            assert_eq!(first.join().unwrap(), expected);
            for other in others {
                assert_eq!(other.join().unwrap(), expected);
            }
        });
        assert_eq!(runs(directory.path()), 1);
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
        let token = program.credential().unwrap().token.clone().unwrap();
        for words in
            ["client.authentication.k8s.io/v1beta1", "server:https://a", "interactive:false", "admin"]
        {
            assert!(token.contains(words), "{token}");
        }
    }
}
