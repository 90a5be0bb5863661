//! Credentials for registries: Docker's `config.json` with its helpers, and pull secrets.
//!
//! # Invariants
//! * A credential is for the registry, or the part of it, that it was recorded for.
//! * Helpers are run only if the user's own file names them, never because a pull secret does: a user who may write a Secret may not
//!   run programs.
//! * No credential is in an argument, an error or debug output.

mod config;
mod helper;

use std::path::PathBuf;
use std::time::Duration;

use config::DockerConfig;

pub use config::ConfigError;
pub use helper::HelperError;

/// How long a helper may take.
const HELPER_TIMEOUT: Duration = Duration::from_secs(15);

/// What proves to a registry who we are.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    Basic {
        username: String,
        password: String,
    },
    /// A token to get other tokens with (Docker's `identitytoken`).
    Identity(String),
    /// A token for the registry itself (Docker's `registrytoken`).
    Bearer(String),
}

/// Where credentials come from. The first source that knows the registry counts.
#[derive(Debug, Clone)]
pub struct Credentials {
    secrets: Vec<DockerConfig>,
    file: Option<PathBuf>,
    helper_timeout: Duration,
}

/// Why there is no answer to whether there is a credential.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the credentials in {}", path.display())]
    File { path: PathBuf, source: ConfigError },
    #[error("cannot read the credentials in the pull secret")]
    Secret { source: ConfigError },
    #[error("cannot get a credential for {registry}")]
    Helper { registry: String, source: HelperError },
}

impl Credentials {
    /// No credentials.
    pub fn anonymous() -> Self {
        Self { secrets: Vec::new(), file: None, helper_timeout: HELPER_TIMEOUT }
    }

    /// Those of the user: `config.json` in the directory that `DOCKER_CONFIG` names, else in `~/.docker`.
    pub fn of_the_user() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory =
            variable("DOCKER_CONFIG").or_else(|| variable("HOME").map(|home| home.join(".docker")));
        Self { file: directory.map(|directory| directory.join("config.json")), ..Self::anonymous() }
    }

    /// Those of a file like Docker's `config.json`. One that is not there has none.
    #[must_use]
    pub fn with_file(self, path: impl Into<PathBuf>) -> Self {
        Self { file: Some(path.into()), ..self }
    }

    /// Look first into a pull secret: the content of `.dockerconfigjson`, or of the older `.dockercfg`.
    pub fn with_pull_secret(mut self, content: &[u8]) -> Result<Self, Error> {
        let secret = DockerConfig::parse_secret(content).map_err(|source| Error::Secret { source })?;
        self.secrets.push(secret);
        Ok(self)
    }

    /// How long a helper may take.
    #[must_use]
    pub fn with_helper_timeout(self, helper_timeout: Duration) -> Self {
        Self { helper_timeout, ..self }
    }

    /// The credential for a repository of a registry.
    pub async fn find(&self, registry: &str, repository: &str) -> Result<Option<Credential>, Error> {
        for secret in &self.secrets {
            if let Some(credential) = secret.credential(registry, repository) {
                return Ok(Some(credential));
            }
        }
        let Some(path) = &self.file else { return Ok(None) };
        // Read every time: a login while we run counts.
        let config = DockerConfig::read(path).map_err(|source| Error::File { path: path.clone(), source })?;
        // As Docker does it: a helper counts more than what is recorded.
        if let Some(helper) = config.helper(registry) {
            let found = helper::run(helper, config::server_name(registry), self.helper_timeout).await;
            let found = found.map_err(|source| Error::Helper { registry: registry.to_owned(), source })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(config.credential(registry, repository))
    }
}

impl std::fmt::Debug for Credential {
    /// Leaves out what is secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Basic { .. } => "Basic",
            Self::Identity(_) => "Identity",
            Self::Bearer(_) => "Bearer",
        })
    }
}
