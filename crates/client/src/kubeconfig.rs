//! Reads kubeconfigs: clusters, users, and contexts that join them.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::{Token, Way};

/// A kubeconfig that says nothing of use.
#[derive(Debug, thiserror::Error)]
pub enum BadKubeconfig {
    #[error("cannot read the kubeconfig `{path}`")]
    Unreadable { path: String, source: std::io::Error },
    #[error("cannot understand the kubeconfig `{path}`")]
    Garbled { path: String, source: Box<serde_saphyr::Error> },
    #[error("no context is current: name one with --context")]
    NoContext,
    #[error("there is no {what} `{name}`")]
    Missing { what: String, name: String },
    #[error("context `{0}` names no cluster")]
    NoCluster(String),
    #[error("the cluster of context `{0}` has no server")]
    NoServer(String),
    #[error(
        "the user logs in with {what} (`{field}`), which is not supported: use a certificate, or a token (kubectl create token)"
    )]
    Unsupported { what: &'static str, field: &'static str },
    #[error("cannot decode `{field}-data`")]
    Encoding { field: String, source: base64::DecodeError },
    #[error("cannot read `{path}`")]
    Material { path: String, source: std::io::Error },
}

/// What one or several files say. What an earlier one says counts.
#[derive(Debug)]
pub struct Kubeconfig {
    /// With where it is: paths in it are relative to that.
    files: Vec<(PathBuf, Value)>,
}

impl Kubeconfig {
    pub fn read(paths: &[PathBuf]) -> Result<Self, BadKubeconfig> {
        let read = |path: &PathBuf| {
            let name = || path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|source| BadKubeconfig::Unreadable { path: name(), source })?;
            let value = serde_saphyr::from_str(&text)
                .map_err(|source| BadKubeconfig::Garbled { path: name(), source: Box::new(source) })?;
            let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
            Ok((directory, value))
        };
        Ok(Self { files: paths.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The way that a context describes.
    pub fn way(&self, context: Option<&str>) -> Result<Way, BadKubeconfig> {
        let current = || self.files.iter().find_map(|(_, file)| text(file, "current-context"));
        let name = context.or_else(current).ok_or(BadKubeconfig::NoContext)?;
        let (_, context) = self.find("contexts", "context", name)?;
        let cluster = text(context, "cluster").ok_or_else(|| BadKubeconfig::NoCluster(name.to_owned()))?;
        let (beside_cluster, cluster) = self.find("clusters", "cluster", cluster)?;
        let nobody = (PathBuf::new(), Value::Null);
        let (beside_user, user) = match text(context, "user") {
            Some(user) => self.find("users", "user", user)?,
            None => (nobody.0.as_path(), &nobody.1),
        };
        refuse_what_cannot_be_done(user)?;
        let server = text(cluster, "server").ok_or_else(|| BadKubeconfig::NoServer(name.to_owned()))?;
        let identity = material(beside_user, user, "client-certificate")?.zip(material(
            beside_user,
            user,
            "client-key",
        )?);
        let token_file = text(user, "tokenFile").map(|file| Token::File(beside_user.join(file)));
        let token = text(user, "token").map(|token| Token::Text(token.to_owned()));
        Ok(Way {
            server: server.trim_end_matches('/').to_owned(),
            namespace: text(context, "namespace").unwrap_or("default").to_owned(),
            authorities: material(beside_cluster, cluster, "certificate-authority")?,
            server_name: text(cluster, "tls-server-name").map(str::to_owned),
            trusts_anybody: cluster["insecure-skip-tls-verify"] == true,
            identity,
            token: token_file.or(token),
        })
    }

    fn find(&self, list: &str, field: &str, name: &str) -> Result<(&Path, &Value), BadKubeconfig> {
        let entries = self.files.iter().flat_map(|(directory, file)| {
            let entries = file[list].as_array().into_iter().flatten();
            entries.map(move |entry| (directory.as_path(), entry))
        });
        let mut found =
            entries.filter(|(_, entry)| entry["name"] == name).map(|(path, entry)| (path, &entry[field]));
        found.next().ok_or_else(|| BadKubeconfig::Missing { what: field.to_owned(), name: name.to_owned() })
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value[field].as_str().filter(|text| !text.is_empty())
}

fn refuse_what_cannot_be_done(user: &Value) -> Result<(), BadKubeconfig> {
    let cannot_be_done =
        [("exec", "a program"), ("auth-provider", "an auth provider"), ("username", "a password")];
    match cannot_be_done.into_iter().find(|(field, _)| !user[*field].is_null()) {
        Some((field, what)) => Err(BadKubeconfig::Unsupported { what, field }),
        None => Ok(()),
    }
}

/// Something in PEM: in the kubeconfig itself, or in a file.
fn material(directory: &Path, value: &Value, field: &str) -> Result<Option<Vec<u8>>, BadKubeconfig> {
    if let Some(data) = text(value, &format!("{field}-data")) {
        let decoded = STANDARD.decode(data);
        return decoded
            .map(Some)
            .map_err(|source| BadKubeconfig::Encoding { field: field.to_owned(), source });
    }
    let Some(file) = text(value, field) else { return Ok(None) };
    let path = directory.join(file);
    std::fs::read(&path)
        .map(Some)
        .map_err(|source| BadKubeconfig::Material { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Kubeconfig {
        Kubeconfig { files: vec![("/etc".into(), serde_saphyr::from_str(text).unwrap())] }
    }

    const TWO: &str = "
current-context: a
contexts:
- {name: a, context: {cluster: a, user: a}}
- {name: b, context: {cluster: b, user: b, namespace: team}}
clusters:
- {name: a, cluster: {server: 'https://a:6443/', certificate-authority-data: YQ==}}
- {name: b, cluster: {server: 'https://b', insecure-skip-tls-verify: true}}
users:
- {name: a, user: {client-certificate-data: Yg==, client-key-data: Yw==}}
- {name: b, user: {exec: {command: x}}}
";

    #[test]
    fn context_joins_a_cluster_and_a_user() {
        let way = read(TWO).way(None).unwrap();
        assert_eq!((way.server.as_str(), way.namespace.as_str()), ("https://a:6443", "default"));
        assert_eq!(way.authorities.as_deref(), Some(b"a".as_slice()));
        assert_eq!(way.identity, Some((b"b".to_vec(), b"c".to_vec())));
    }

    #[test]
    fn programs_that_log_in_are_refused_plainly() {
        let error = read(TWO).way(Some("b")).unwrap_err();
        assert!(error.to_string().contains("a program (`exec`), which is not supported"), "{error}");
        assert_eq!(read(TWO).way(Some("c")).unwrap_err().to_string(), "there is no context `c`");
    }

    #[test]
    fn earlier_file_counts_and_nothing_makes_it_panic() {
        let mut two = read(TWO);
        two.files.insert(
            0,
            (
                "/".into(),
                serde_saphyr::from_str("{current-context: b, users: [{name: b, user: {token: t}}]}").unwrap(),
            ),
        );
        let way = two.way(None).unwrap();
        assert_eq!((way.namespace.as_str(), way.trusts_anybody), ("team", true));
        for text in [
            "{}",
            "[]",
            "a",
            "{current-context: [], contexts: 1}",
            "{current-context: a, contexts: [{name: a, context: 1}]}",
        ] {
            assert!(read(text).way(None).is_err(), "{text}");
        }
    }
}
