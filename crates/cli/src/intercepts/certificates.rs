//! Certificates with which a developer's process and a control plane know each other.

use std::path::Path;

use anyhow::Context as _;
use ferroplane_apiserver::private_file;
use ferroplane_certificates::{Authority, LeafRequest, Profile, Purpose};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

/// How long the certificate of a process holds.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Make a certificate for a process on a host, and write it and its key to a directory. Returns the authority that signed it, whose key
/// is not kept.
pub(crate) fn write_server(directory: &Path, host: &str) -> anyhow::Result<String> {
    let now = Timestamp::now();
    let id = Uuid::new_v4().simple().to_string();
    let made = Profile::Ferroplane { id: &id }.make(now).context("cannot create certificates")?;
    // It was made just now, so that nothing can be wrong with it.
    let authority =
        Authority::read(&made.certificate, &made.key, now).ok().context("cannot create certificates")?;
    let names = [host.to_owned()];
    let request = LeafRequest {
        common_name: "ferroplane-intercept",
        organizations: &[],
        names: &names,
        purpose: Purpose::Server,
    };
    let leaf = authority.issue_lasting(&request, now, LIFETIME).context("cannot create certificates")?;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    write(&directory.join("tls.crt"), &leaf.certificate)?;
    write(&directory.join("tls.key"), &leaf.key)?;
    Ok(made.certificate)
}

/// Write the CA that the process has to trust: only the control plane may call it.
pub(crate) fn write_client_ca(directory: &Path, authority: &str) -> anyhow::Result<()> {
    write(&directory.join("ca.crt"), authority)
}

/// What is there is replaced, with its permissions: a certificate of an earlier run is of no use, and others may have been able to read it.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    private_file::write(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_the_owner_may_read_a_key_that_replaces_another() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("tls.key");
        std::fs::write(&key, "old").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
        write_server(directory.path(), "localhost").unwrap();
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_ne!(std::fs::read_to_string(&key).unwrap(), "old");
    }
}
