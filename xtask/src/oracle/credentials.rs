//! The keys and tokens of a server that lives for minutes and listens on loopback alone.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;

/// The user of the token, who may do everything.
const USER: &str = "oracle,oracle,system:masters";
/// People without rights. The server lives for minutes, and their tokens are worth nothing.
const OTHERS: &str = "alice,alice,alice-1,\"dev,ops\"\nbob,bob,bob-1\n";

/// What a client needs.
#[derive(Debug)]
pub(super) struct Credentials {
    pub(super) token: String,
    /// The certificate of the authority that signed the server's, which is the server's own.
    pub(super) authority: PathBuf,
    pub(super) kubeconfig: PathBuf,
}

impl Credentials {
    /// Writes `server.crt`, `server.key`, `accounts.key`, `accounts.pub`, `tokens.csv` and `kubeconfig`.
    pub(super) fn create(directory: &Path, url: &str) -> Result<Self> {
        let key = KeyPair::generate().context("cannot make a key")?;
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let certificate = CertificateParams::new(names).and_then(|parameters| parameters.self_signed(&key));
        let certificate = certificate.context("cannot make a certificate")?;
        let accounts = KeyPair::generate().context("cannot make a key")?;
        // A key that serves nothing else is as good a source of an unguessable text as any.
        let random = KeyPair::generate().context("cannot make a token")?;
        let token = random.public_key_raw().iter().map(u8::to_string).collect::<Vec<_>>().concat();
        let write = |name: &str, content: &str| {
            let path = directory.join(name);
            fs::write(&path, content)
                .with_context(|| format!("cannot write {}", path.display()))
                .map(|()| path)
        };
        let authority = write("server.crt", &certificate.pem())?;
        write("server.key", &key.serialize_pem())?;
        write("accounts.key", &accounts.serialize_pem())?;
        write("accounts.pub", &accounts.public_key_pem())?;
        write("tokens.csv", &format!("{token},{USER}\n{OTHERS}"))?;
        let kubeconfig = write("kubeconfig", &kubeconfig(url, &token, &authority))?;
        Ok(Self { token, authority, kubeconfig })
    }
}

fn kubeconfig(url: &str, token: &str, authority: &Path) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "oracle", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "oracle", "user": {"token": token}}],
        "contexts": [{"name": "oracle", "context": {"cluster": "oracle", "user": "oracle"}}],
        "current-context": "oracle",
    });
    format!("{config:#}\n")
}
