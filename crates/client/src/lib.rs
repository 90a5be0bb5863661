//! The way to an API server, as a kubeconfig or a pod describes it, and a line to speak on.
//!
//! Knows HTTP, TLS and who one is; nothing of what is said.

mod kubeconfig;
mod line;
mod pod;

use std::path::PathBuf;

pub use kubeconfig::{BadKubeconfig, Kubeconfig};
pub use line::{BadWay, Failure, Line};
pub use pod::{NoPod, in_cluster};

/// How to show who one is.
#[derive(Clone)]
pub enum Token {
    Text(String),
    /// Read for every request: it changes.
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    /// Says nothing of what is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text"),
            Self::File(file) => write!(f, "File({})", file.display()),
        }
    }
}

/// Where a server is, whom to trust there, and who to be.
#[derive(Clone, Default)]
pub struct Way {
    pub server: String,
    pub namespace: String,
    /// In PEM. Without any, those of the system.
    pub authorities: Option<Vec<u8>>,
    /// What the certificate of the server is for, if not for its host.
    pub server_name: Option<String>,
    pub trusts_anybody: bool,
    /// A certificate and its key, in PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    pub token: Option<Token>,
}

impl std::fmt::Debug for Way {
    /// Says nothing of what is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Way").field("server", &self.server).finish_non_exhaustive()
    }
}
