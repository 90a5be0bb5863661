//! Our own certificate authority, and the certificates it signs.
//!
//! Made at the first start and kept in a directory that only its owner may read:
//!
//! | File | What it is | How long it holds |
//! |---|---|---|
//! | `ca.crt`, `ca.key` | the authority | ten years; never replaced by itself, clients trust it |
//! | `ca-previous.crt` | an authority on its way out: its client certificates still count | until it is removed |
//! | `server.crt`, `server.key` | what the server shows | a year; renewed after eight months, while it runs |
//! | `revoked-until` | a time: client certificates that were issued until then do not count | for ever |
//!
//! Certificates for clients are not kept. They hold for a week, and their issuer renews them every day.
//!
//! How to replace the authority is described in `docs/certificates.md`.

mod authority;
mod names;
mod verifier;

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use ferroplane_certificates::{SignError, renewal};
use jiff::{SignedDuration, Timestamp};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::auth::authenticate::Revocation;
use crate::private_file;

pub use ferroplane_certificates::Issued;
pub use names::server_names;
pub(crate) use verifier::ClientVerifier;

use authority::Authority;

/// How long certificates of clients hold, and how old they are when they should be renewed. What is stolen is soon worth nothing; and a
/// program that reads the kubeconfig only once can continue for six days at least.
pub(crate) const CLIENT_LIFETIME: SignedDuration = SignedDuration::from_hours(7 * 24);
const CLIENT_RENEWAL: SignedDuration = SignedDuration::from_hours(24);
/// The file that says which client certificates do not count any more.
const REVOKED_UNTIL: &str = "revoked-until";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read or write `{path}`")]
    File { path: String, source: std::io::Error },
    #[error("cannot use the certificate authority in `{path}`: {why}")]
    Authority { path: String, why: String },
    #[error("cannot sign a certificate")]
    Sign(#[source] SignError),
    #[error(
        "cannot tell which client certificates are revoked: `{path}` holds no time such as 2026-01-31T12:00:00Z"
    )]
    Revocation { path: String },
    #[error("cannot use a certificate for TLS")]
    Tls(#[source] rustls::Error),
}

/// The authority, and the certificate that the server shows at the moment.
#[derive(Debug)]
pub struct Certificates {
    /// None if nothing is kept.
    directory: Option<PathBuf>,
    authority: Authority,
    names: Vec<String>,
    current: RwLock<Current>,
    revocation: Revocation,
}

/// What has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Renewed {
    /// The server shows another certificate from now on.
    pub server: bool,
    /// Client certificates were revoked: every client needs a new one.
    pub revocation: bool,
}

/// When the certificate of a client that was issued at some time is to be renewed.
pub fn client_renewal(issued_at: Timestamp) -> Timestamp {
    issued_at.saturating_add(CLIENT_RENEWAL).unwrap_or(Timestamp::MAX)
}

/// Revokes all client certificates that were issued until now, and returns that time. Servers on this directory learn of it when they
/// look whether anything is to be renewed.
pub fn revoke_clients(directory: &Path, now: Timestamp) -> Result<Timestamp, Error> {
    // Certificates have whole seconds.
    let until = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let path = directory.join(REVOKED_UNTIL);
    private_file::write(&path, format!("{until}\n").as_bytes()).map_err(file_error(&path))?;
    Ok(until)
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    renewal: Timestamp,
}

impl Certificates {
    /// Uses what a directory has, and makes what is missing. The server's certificate is for all of the names.
    pub fn open(directory: &Path, names: Vec<String>, now: Timestamp) -> Result<Self, Error> {
        private_file::create_directory(directory).map_err(file_error(directory))?;
        let authority = Authority::open(directory, now)?;
        let current = match read_current(directory, &authority, &names, now)? {
            Some(current) => current,
            None => make_current(Some(directory), &authority, &names, now)?,
        };
        let certificates = Self {
            directory: Some(directory.to_owned()),
            authority,
            names,
            current: RwLock::new(current),
            revocation: Revocation::default(),
        };
        certificates.read_revocation()?;
        Ok(certificates)
    }

    /// Certificates that are not stored.
    pub fn ephemeral(names: Vec<String>, now: Timestamp) -> Result<Self, Error> {
        let authority = Authority::generate(now)?;
        let current = make_current(None, &authority, &names, now)?;
        let (current, revocation) = (RwLock::new(current), Revocation::default());
        Ok(Self { directory: None, authority, names, current, revocation })
    }

    /// What clients must trust, in PEM.
    pub fn bundle(&self) -> &str {
        self.authority.bundle()
    }

    /// A certificate for a client: the name is the user, the groups are its organisations.
    pub fn issue_client(&self, user: &str, groups: &[&str], now: Timestamp) -> Result<Issued, Error> {
        self.authority.issue_client(user, groups, now).map_err(Error::Sign)
    }

    /// Renews the server's certificate if its time has come, and looks for revocations. Says what has changed.
    pub fn renew_if_due(&self, now: Timestamp) -> Result<Renewed, Error> {
        let server = now >= self.lock_current().renewal;
        if server {
            let renewed = make_current(self.directory.as_deref(), &self.authority, &self.names, now)?;
            *self.current.write().unwrap_or_else(std::sync::PoisonError::into_inner) = renewed;
        }
        Ok(Renewed { server, revocation: self.read_revocation()? })
    }

    /// Refuses the client certificates that were revoked, and says whether there are more of them than before.
    fn read_revocation(&self) -> Result<bool, Error> {
        let Some(directory) = &self.directory else { return Ok(false) };
        let path = directory.join(REVOKED_UNTIL);
        let Some(text) = private_file::read(&path).map_err(file_error(&path))? else { return Ok(false) };
        let until: Result<Timestamp, _> = text.trim().parse();
        // A file that cannot be parsed must not undo a revocation.
        let until = until.map_err(|_| Error::Revocation { path: path.display().to_string() })?;
        Ok(self.revocation.revoke_until(until))
    }

    /// How a server speaks TLS with these certificates, and how it tells who its clients are.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<(rustls::ServerConfig, ClientVerifier), Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            ClientVerifier::new(self.authority.trusted(), Arc::clone(&provider), self.revocation.clone())
                .map_err(Error::Tls)?;
        let builder = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(Error::Tls)?;
        let resolver = Arc::clone(self) as Arc<dyn ResolvesServerCert>;
        let mut config =
            builder.with_client_cert_verifier(Arc::new(verifier.clone())).with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok((config, verifier))
    }

    fn lock_current(&self) -> std::sync::RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.lock_current().key))
    }
}

/// The certificate in a directory, if it will do.
fn read_current(
    directory: &Path,
    authority: &Authority,
    names: &[String],
    now: Timestamp,
) -> Result<Option<Current>, Error> {
    let read = |name: &str| {
        let path = directory.join(name);
        private_file::read(&path).map_err(file_error(&path))
    };
    let (Some(certificate), Some(key)) = (read("server.crt")?, read("server.key")?) else { return Ok(None) };
    // It is ours to make again, so whatever is wrong with it, a new one is better than an error.
    let issued = Issued { certificate, key };
    let Some(renewal) = authority.renewal(&issued, names, now) else { return Ok(None) };
    Ok(certified(&issued).ok().map(|key| Current { key, renewal }))
}

fn make_current(
    directory: Option<&Path>,
    authority: &Authority,
    names: &[String],
    now: Timestamp,
) -> Result<Current, Error> {
    let issued = authority.issue_server(names, now).map_err(Error::Sign)?;
    let key = certified(&issued)?;
    if let Some(directory) = directory {
        for (name, content) in [("server.key", &issued.key), ("server.crt", &issued.certificate)] {
            let path = directory.join(name);
            private_file::write(&path, content.as_bytes()).map_err(file_error(&path))?;
        }
    }
    Ok(Current { key, renewal: renewal(now) })
}

fn certified(issued: &Issued) -> Result<Arc<CertifiedKey>, Error> {
    let unreadable =
        |_| Error::Tls(rustls::Error::General("the certificate or its key is not PEM".to_owned()));
    let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).map_err(unreadable)?;
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(Error::Tls)?;
    Ok(Arc::new(certified))
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::File { path, source }
}

#[cfg(test)]
mod tests;
