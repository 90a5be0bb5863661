//! The token of a provider's service account, in a directory that only its container and we can read.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_apiserver::private_file;
use ferroplane_sandbox::file_owner;
use serde_json::json;

use super::{ProviderSite, TokenDirectory};

/// How long a token holds, and when it is replaced. Kubernetes' clients read the file again every minute.
const LIFETIME: Duration = Duration::from_hours(1);
pub(super) const RENEWED_AFTER: Duration = Duration::from_mins(40);

/// Credentials of a service account. Dropping them removes the files.
#[derive(Debug)]
pub(super) struct Credentials {
    directory: PathBuf,
    namespace: String,
    account: String,
}

impl Credentials {
    /// Have a token issued, and write it beside the rest of what a program in a pod finds.
    pub(super) async fn issue(site: &ProviderSite, namespace: &str, account: &str) -> anyhow::Result<Self> {
        let credentials = Self::prepare(&site.tokens, &site.authority, namespace, account)?;
        credentials.renew(site).await?;
        Ok(credentials)
    }

    /// Write everything but the token to a directory of their own.
    fn prepare(
        tokens: &TokenDirectory,
        authority: &str,
        namespace: &str,
        account: &str,
    ) -> anyhow::Result<Self> {
        let directory = tokens.allocate(account);
        let (namespace, account) = (namespace.to_owned(), account.to_owned());
        let credentials = Self { directory, namespace, account };
        let write = || -> std::io::Result<()> {
            private_file::create_directory(&credentials.directory)?;
            give_away(&credentials.directory)?;
            credentials.write("ca.crt", authority)?;
            credentials.write("namespace", &credentials.namespace)
        };
        write().with_context(|| format!("cannot write to `{}`", credentials.directory.display()))?;
        Ok(credentials)
    }

    /// Replace the token. The program sees the old one or the new one, and never a part.
    pub(super) async fn renew(&self, site: &ProviderSite) -> anyhow::Result<()> {
        let Self { namespace, account, .. } = self;
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": LIFETIME.as_secs()},
        });
        let answer = site.administrator.review(&path, &request).await.context("cannot request a token")?;
        let token = answer["status"]["token"].as_str().context("the answer has no token")?;
        self.write("token", token).context("cannot write the token")
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn write(&self, name: &str, content: &str) -> std::io::Result<()> {
        // Under another name first: it must not be there before the container may read it.
        let (new, path) = (self.directory.join(format!(".{name}")), self.directory.join(name));
        private_file::write(&new, content.as_bytes())?;
        give_away(&new)?;
        std::fs::rename(new, path)
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// If we are root, containers run as another user.
fn give_away(path: &Path) -> std::io::Result<()> {
    match file_owner() {
        Some(owner) => chown(path, Some(owner), Some(owner)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_when_those_of_the_container_before_go() {
        let data = tempfile::tempdir().unwrap();
        let tokens = TokenDirectory::open(Some(data.path())).unwrap();
        let prepare =
            || Credentials::prepare(&tokens, "authority", "crossplane-system", "provider-a").unwrap();
        let (before, after) = (prepare(), prepare());
        let (gone, kept) = (before.directory().to_owned(), after.directory().join("ca.crt"));
        drop(before);
        assert!(!gone.exists(), "`{}` was left behind", gone.display());
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "authority");
    }
}
