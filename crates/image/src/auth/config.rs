//! Docker's `config.json`, and pull secrets, which have the same form.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::Credential;

/// How large such a file may be.
const MAX_BYTES: u64 = 1 << 20;
/// Docker's registry, and the name under which Docker keeps the credential for it.
const DOCKER: &str = "docker.io";
const DOCKER_SERVER: &str = "https://index.docker.io/v1/";

/// Credentials by registry, and helpers that know some.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DockerConfig {
    auths: BTreeMap<String, Entry>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

/// What tells the two forms of pull secrets apart.
#[derive(Deserialize)]
struct Head {
    auths: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "lowercase", default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

/// Why credentials cannot be read. Never says what they are.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the file")]
    Read(#[source] io::Error),
    #[error("the file is larger than 1 MiB")]
    TooLarge,
    // Without the source: the words of a JSON error can contain a value.
    #[error("it is not JSON of the form that Docker writes (line {line}, column {column})")]
    Json { line: usize, column: usize },
}

impl DockerConfig {
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(ConfigError::Read(error)),
        };
        let mut content = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(ConfigError::Read)?;
        if content.len() as u64 > MAX_BYTES {
            return Err(ConfigError::TooLarge);
        }
        parse(&content)
    }

    /// Read the content of a pull secret of either form. Its helpers do not count.
    pub(super) fn parse_secret(content: &[u8]) -> Result<Self, ConfigError> {
        if content.len() as u64 > MAX_BYTES {
            return Err(ConfigError::TooLarge);
        }
        let head: Head = parse(content)?;
        // The older form has the registries themselves at its top.
        let auths = if head.auths.is_some() { parse::<Self>(content)?.auths } else { parse(content)? };
        Ok(Self { auths, ..Self::default() })
    }

    /// The helper that knows about a registry.
    pub(super) fn helper(&self, registry: &str) -> Option<&str> {
        let own = self.cred_helpers.iter().find(|(key, _)| host_and_path(key).0 == canonical(registry));
        own.map(|(_, helper)| helper.as_str()).or(self.creds_store.as_deref()).filter(|name| !name.is_empty())
    }

    /// What is recorded for a repository: the entry with the longest path counts, then the one without wildcards.
    pub(super) fn credential(&self, registry: &str, repository: &str) -> Option<Credential> {
        let registry = canonical(registry);
        let matching = self.auths.iter().filter_map(|(key, entry)| {
            let (host, path) = host_and_path(key);
            let fits = matches_host(host, registry) && contains_path(path, repository);
            fits.then_some(((path.len(), host == registry), entry))
        });
        let credentials = matching.filter_map(|(rank, entry)| Some((rank, entry.credential()?)));
        credentials.max_by_key(|(rank, _)| *rank).map(|(_, credential)| credential)
    }
}

impl Entry {
    fn credential(&self) -> Option<Credential> {
        let said = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        if let Some(token) = said(&self.identitytoken) {
            return Some(Credential::Identity(token));
        }
        if let Some(token) = said(&self.registrytoken) {
            return Some(Credential::Bearer(token));
        }
        if let Some((username, password)) = said(&self.username).zip(said(&self.password)) {
            return Some(Credential::Basic { username, password });
        }
        let decoded = BASE64_STANDARD.decode(said(&self.auth)?.trim()).ok()?;
        let decoded = String::from_utf8(decoded).ok()?;
        // Old versions of Docker end it with zeros.
        let (username, password) = decoded.trim_end_matches('\0').split_once(':')?;
        Some(Credential::Basic { username: username.to_owned(), password: password.to_owned() })
    }
}

impl std::fmt::Debug for Entry {
    /// Leaves out what is secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Entry").finish_non_exhaustive()
    }
}

/// What a helper is asked for.
pub(super) fn server_name(registry: &str) -> &str {
    if canonical(registry) == DOCKER { DOCKER_SERVER } else { registry }
}

fn parse<'de, T: Deserialize<'de>>(content: &'de [u8]) -> Result<T, ConfigError> {
    serde_json::from_slice(content)
        .map_err(|error| ConfigError::Json { line: error.line(), column: error.column() })
}

/// Docker's registry has several names.
fn canonical(registry: &str) -> &str {
    if ["index.docker.io", "registry-1.docker.io"].contains(&registry) { DOCKER } else { registry }
}

/// Keys are hosts, hosts with a path, or addresses of the old version of the protocol.
fn host_and_path(key: &str) -> (&str, &str) {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    let path = path.trim_end_matches('/');
    (canonical(host), if ["v1", "v2"].contains(&path) { "" } else { path })
}

/// Labels may have wildcards, as kubelet has it: `*.example.org` matches `registry.example.org` and no other depth.
fn matches_host(pattern: &str, registry: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == registry;
    }
    let (pattern_labels, labels) = (pattern.split('.'), registry.split('.'));
    pattern_labels.clone().count() == labels.clone().count()
        && pattern_labels.zip(labels).all(|(pattern, label)| match pattern.split_once('*') {
            Some((start, end)) => {
                label.len() >= start.len() + end.len() && label.starts_with(start) && label.ends_with(end)
            }
            None => pattern == label,
        })
}

fn contains_path(path: &str, repository: &str) -> bool {
    path.is_empty()
        || repository.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(config: &str, registry: &str, repository: &str) -> Option<String> {
        let config = DockerConfig::parse_secret(config.as_bytes()).unwrap();
        match config.credential(registry, repository)? {
            Credential::Basic { username, password } => Some(format!("{username}:{password}")),
            other => Some(format!("{other:?}")),
        }
    }

    #[test]
    fn credential_is_found_under_every_name_of_its_registry() {
        // dTpw is u:p.
        for (key, registry) in [
            ("registry.example.org", "registry.example.org"),
            ("https://registry.example.org", "registry.example.org"),
            ("https://registry.example.org/v2/", "registry.example.org"),
            ("registry.example.org:5000", "registry.example.org:5000"),
            ("*.example.org", "registry.example.org"),
            ("registry.example.org/org", "registry.example.org"),
            (DOCKER_SERVER, DOCKER),
        ] {
            let config = format!(r#"{{"auths":{{"{key}":{{"auth":"dTpw"}}}}}}"#);
            assert_eq!(user(&config, registry, "org/name").as_deref(), Some("u:p"), "{key}");
            assert_eq!(user(&config, "other.example.com", "org/name"), None, "{key}");
        }
    }

    #[test]
    fn credential_is_not_used_beyond_what_it_is_for() {
        for (key, registry, repository) in [
            ("registry.example.org:5000", "registry.example.org", "name"),
            ("example.org", "registry.example.org", "name"),
            ("*.example.org", "a.b.example.org", "name"),
            ("*.example.org", "example.org", "name"),
            ("registry.example.org/org", "registry.example.org", "organisation/name"),
            ("registry.example.org", "registry.example.org.evil.example", "name"),
        ] {
            let config = format!(r#"{{"auths":{{"{key}":{{"auth":"dTpw"}}}}}}"#);
            assert_eq!(user(&config, registry, repository), None, "{key} {registry}/{repository}");
        }
    }

    #[test]
    fn most_specific_credential_counts() {
        let config = r#"{"auths":{
            "*.example.org": {"username": "any", "password": "1"},
            "registry.example.org": {"username": "host", "password": "2"},
            "registry.example.org/org/name": {"username": "path", "password": "3"}}}"#;
        for (repository, expected) in [("org/name/x", "path:3"), ("org", "host:2")] {
            assert_eq!(user(config, "registry.example.org", repository).as_deref(), Some(expected));
        }
        assert_eq!(user(config, "other.example.org", "org").as_deref(), Some("any:1"));
    }

    #[test]
    fn older_pull_secrets_are_read_too() {
        let config = r#"{"registry.example.org":{"username":"u","password":"p","email":"e"}}"#;
        assert_eq!(user(config, "registry.example.org", "a").as_deref(), Some("u:p"));
    }

    #[test]
    fn pull_secret_names_no_helper() {
        let config =
            DockerConfig::parse_secret(br#"{"auths":{},"credsStore":"x","credHelpers":{"a.b":"y"}}"#);
        assert_eq!(config.unwrap().helper("a.b"), None);
    }

    #[test]
    fn unreadable_credentials_are_not_repeated_in_the_message() {
        let error = DockerConfig::parse_secret(br#"{"auths":{"a.b":{"auth":["hunter2"]}}}"#).unwrap_err();
        assert!(!error.to_string().contains("hunter2") && error.to_string().contains("line 1"), "{error}");
        assert_eq!(user(r#"{"auths":{"a.b":{"auth":"%%"}}}"#, "a.b", "x"), None);
    }
}
