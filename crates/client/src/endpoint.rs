//! The address of an API server, the trusted authorities, and the credentials.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{ExecPlugin, Impersonation};

/// A bearer token, or where to get one.
#[derive(Clone)]
pub enum BearerToken {
    Text(String),
    /// Read for every request, because kubelets replace it.
    File(PathBuf),
    /// Printed by a credential plugin, and used until it expires.
    Exec(Arc<ExecPlugin>),
}

impl std::fmt::Debug for BearerToken {
    /// Leaves out the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text"),
            Self::File(file) => write!(f, "File({})", file.display()),
            Self::Exec(plugin) => write!(f, "{plugin:?}"),
        }
    }
}

/// A client certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl std::fmt::Debug for ClientCertificate {
    /// Leaves out the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

/// A client certificate, or where to get one.
#[derive(Debug, Clone)]
pub enum ClientIdentity {
    Certificate(ClientCertificate),
    /// Printed by a credential plugin, and used for new connections until it expires.
    Exec(Arc<ExecPlugin>),
}

/// An API server, and how to authenticate to it.
#[derive(Clone, Default)]
pub struct Endpoint {
    pub server: String,
    /// The namespace to use if none is named.
    pub namespace: String,
    /// Certificates of authorities, in PEM. Without any, those of the operating system.
    pub authorities: Option<Vec<u8>>,
    /// The name that the certificate of the server must be for, if not its host.
    pub server_name: Option<String>,
    pub skips_tls_verification: bool,
    /// The address of a proxy, perhaps with a password. Without one, the environment names it.
    pub proxy: Option<String>,
    pub identity: Option<ClientIdentity>,
    pub token: Option<BearerToken>,
    pub impersonation: Option<Impersonation>,
}

impl std::fmt::Debug for Endpoint {
    /// Leaves out the credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("server", &self.server).finish_non_exhaustive()
    }
}
