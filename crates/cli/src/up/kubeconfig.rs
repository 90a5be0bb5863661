//! The kubeconfig that leads clients here.
//!
//! It is written again at every start, because certificates and ports change. What is not ours is never overwritten
//! unless that is asked for: our files carry a mark, which `kubectl config` keeps.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_apiserver::private_file;
use serde_json::{Map, Value, json};

/// The name of cluster, user and context.
const NAME: &str = "ferroplane";

/// The name of the mark.
const MARK: &str = "ferroplane.io/written";

/// Why there is no kubeconfig.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(
        "`{0}` exists, and `ferroplane up` has not written it: name another file with --kubeconfig, or delete it"
    )]
    NotOurs(String),
    #[error("cannot write the kubeconfig `{path}`")]
    File { path: String, source: io::Error },
}

/// How a client shows who it is.
#[derive(Clone)]
pub(super) enum Credential {
    #[allow(
        dead_code,
        reason = "the file can hold one; `up` hands out a certificate, which needs no secret in the server"
    )]
    Token(String),
    /// In PEM.
    Certificate { certificate: String, key: String },
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, output: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        output.write_str(match self {
            Self::Token(_) => "Token",
            Self::Certificate { .. } => "Certificate",
        })
    }
}

/// Where the server is, whom to trust, and who to be.
#[derive(Debug, Clone)]
pub(super) struct Kubeconfig {
    /// For example `https://127.0.0.1:6443`.
    pub(super) server: String,
    /// The authorities to trust, in PEM.
    pub(super) authority: String,
    pub(super) credential: Credential,
}

impl Kubeconfig {
    /// Writes the file, for its owner alone, and the directories above it.
    pub(super) fn write(&self, path: &Path) -> Result<(), Error> {
        let failed = |source| Error::File { path: path.display().to_string(), source };
        if !is_ours_or_missing(path).map_err(failed)? {
            return Err(Error::NotOurs(path.display().to_string()));
        }
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            private_file::create_directory(directory).map_err(failed)?;
        }
        private_file::write(path, self.to_yaml().as_bytes()).map_err(failed)
    }

    fn to_yaml(&self) -> String {
        // Everything is quoted as JSON does it, which is YAML as well.
        let text = |text: &str| Value::from(text).to_string();
        let data = |text: &str| STANDARD.encode(text);
        let user = match &self.credential {
            Credential::Token(token) => format!("    token: {}\n", text(token)),
            Credential::Certificate { certificate, key } => format!(
                "    client-certificate-data: {}\n    client-key-data: {}\n",
                data(certificate),
                data(key)
            ),
        };
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             current-context: {NAME}\n\
             preferences: {{}}\n\
             clusters:\n\
             - name: {NAME}\n  \
               cluster:\n    \
                 server: {}\n    \
                 certificate-authority-data: {}\n    \
                 extensions:\n    \
                 - name: {MARK}\n      \
                   extension: {{}}\n\
             contexts:\n\
             - name: {NAME}\n  \
               context:\n    \
                 cluster: {NAME}\n    \
                 user: {NAME}\n\
             users:\n\
             - name: {NAME}\n  \
               user:\n{user}",
            text(&self.server),
            data(&self.authority),
        )
    }
}

/// Whether a file may be replaced: all its clusters were written by us.
fn is_ours_or_missing(path: &Path) -> io::Result<bool> {
    let text = match private_file::read(path) {
        Ok(None) => return Ok(true),
        Ok(Some(text)) => text,
        // Whatever it is, it is not ours.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(false),
        Err(error) => return Err(error),
    };
    if text.trim().is_empty() {
        return Ok(true);
    }
    let parsed: Result<Map<String, Value>, _> = serde_saphyr::from_str(&text);
    let Ok(config) = parsed else { return Ok(false) };
    let clusters = config.get("clusters").and_then(Value::as_array);
    Ok(clusters.is_some_and(|clusters| !clusters.is_empty() && clusters.iter().all(has_mark)))
}

fn has_mark(cluster: &Value) -> bool {
    let extensions = cluster["cluster"]["extensions"].as_array();
    let mark = json!(MARK);
    extensions.is_some_and(|extensions| extensions.iter().any(|extension| extension["name"] == mark))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn config(credential: Credential) -> Kubeconfig {
        let server = "https://127.0.0.1:6443".to_owned();
        Kubeconfig { server, authority: "CA".to_owned(), credential }
    }

    fn token() -> Kubeconfig {
        config(Credential::Token("a\"b: #c".to_owned()))
    }

    fn read(path: &Path) -> Value {
        serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn file_says_where_and_who_to_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/config");
        let (certificate, key) = ("CERT".to_owned(), "KEY".to_owned());
        config(Credential::Certificate { certificate, key }).write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let written = read(&path);
        assert_eq!(written["current-context"], NAME);
        assert_eq!(written["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
        assert_eq!(written["clusters"][0]["cluster"]["certificate-authority-data"], "Q0E=");
        let user = json!({"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"});
        assert_eq!(written["users"], json!([{"name": NAME, "user": user}]));
        let context = json!({"cluster": NAME, "user": NAME});
        assert_eq!(written["contexts"], json!([{"name": NAME, "context": context}]));
    }

    #[test]
    fn file_of_ours_is_replaced_even_after_others_rewrote_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        token().write(&path).unwrap();
        assert_eq!(read(&path)["users"][0]["user"]["token"], "a\"b: #c");
        // Without comments or order, as `kubectl config` leaves it.
        fs::write(&path, read(&path).to_string()).unwrap();
        token().write(&path).unwrap();
    }

    #[test]
    fn file_that_is_not_ours_is_kept_until_it_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        token().write(&path).unwrap();
        let mut both = read(&path);
        both["clusters"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "prod", "cluster": {"server": "https://prod"}}));
        let huge = "#".repeat(2 << 20);
        let deep = "[".repeat(100_000);
        for content in
            [both.to_string().as_str(), "apiVersion: v1", "clusters: []", "\u{0}", "a: b: c", &huge, &deep]
        {
            fs::write(&path, content).unwrap();
            let error = token().write(&path).unwrap_err();
            assert!(
                error.to_string().ends_with("name another file with --kubeconfig, or delete it"),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        fs::remove_file(&path).unwrap();
        token().write(&path).unwrap();
    }

    #[test]
    fn empty_file_is_filled() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        fs::write(&path, "\n").unwrap();
        token().write(&path).unwrap();
    }

    #[test]
    fn credentials_are_not_shown() {
        assert!(!format!("{:?}", token()).contains("#c"));
    }
}
