//! Certificates of one server and of its only client, and the files in which the server finds its own.
//!
//! Every server has an authority of its own, whose key is dropped as soon as it has signed two certificates. So no server can stand in for
//! another one, or call it, and there is nothing to renew: a server reads its certificates once, when it starts, and they hold longer than
//! it runs.
//!
//! # Invariants
//! * A key is readable by the server and by us alone, and goes with the server. What a killed process leaves goes when the next one starts.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, chown};
use std::path::Path;

use ferroplane_certificates::{Authority, LeafRequest, Profile, Purpose, SignError};
use ferroplane_sandbox::{Workspace, file_owner};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::grpc::Tls;

/// The variable that tells servers that are made with the SDKs where their certificates are.
pub(in crate::images) const VARIABLE: &str = "TLS_SERVER_CERTS_DIR";

/// How long certificates are valid.
const LIFETIME: SignedDuration = SignedDuration::from_hours(5 * 365 * 24);
/// Below the state of what runs: where processes have theirs. [`ferroplane_sandbox::remove_leftovers`] cleans up there.
const DIRECTORIES: &str = "processes";

/// Certificates of a server, and of the only one who may call it.
#[derive(Debug, Clone)]
pub(in crate::images) struct ServerCertificates {
    /// The certificate and the key of the server, in PEM.
    pub server: Tls,
    /// Those of the caller.
    pub client: Tls,
}

impl ServerCertificates {
    /// Certificates for a server that its client knows by this name or address, and for that client.
    pub(in crate::images) fn issue(name: &str) -> Result<Self, SignError> {
        let now = Timestamp::now();
        let id = Uuid::new_v4().simple().to_string();
        let made = Profile::Ferroplane { id: &id }.make(now)?;
        let authority = Authority::read(&made.certificate, &made.key, now);
        let authority = authority.expect("nothing is wrong with an authority that was made just now");
        let issue = |common_name, names: &[String], purpose| {
            let request = LeafRequest { common_name, organizations: &[], names, purpose };
            let leaf = authority.issue_lasting(&request, now, LIFETIME)?;
            let ca = made.certificate.clone().into_bytes();
            Ok::<_, SignError>(Tls {
                ca,
                certificate: leaf.certificate.into_bytes(),
                key: leaf.key.into_bytes(),
            })
        };
        Ok(Self {
            server: issue("ferroplane-function", &[name.to_owned()], Purpose::Server)?,
            client: issue("ferroplane-function-caller", &[], Purpose::Client)?,
        })
    }
}

/// The files of a server, by the names that the SDKs give them.
pub(in crate::images) fn files(server: Tls) -> [(&'static str, Vec<u8>); 3] {
    [("ca.crt", server.ca), ("tls.crt", server.certificate), ("tls.key", server.key)]
}

/// A directory with the certificates of a server. It goes with this.
#[derive(Debug)]
pub(in crate::images) struct CertificateDirectory(Workspace);

impl CertificateDirectory {
    /// Write the certificates of a server, below the state of what runs.
    pub(super) fn write(state: &Path, server: Tls) -> io::Result<Self> {
        // Containers are shown where it is, and are in another directory.
        let directories = std::path::absolute(state.join(DIRECTORIES))?;
        let directory = Self(Workspace::open(&directories)?);
        give(directory.path())?;
        for (name, content) in files(server) {
            let path = directory.path().join(name);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path)?;
            file.write_all(&content)?;
            give(&path)?;
        }
        Ok(directory)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// If we are root, containers run as another user.
fn give(path: &Path) -> io::Result<()> {
    file_owner().map_or(Ok(()), |owner| chown(path, Some(owner), Some(owner)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use ferroplane_sandbox::remove_leftovers;

    use super::*;

    #[test]
    fn server_and_client_have_certificates_of_one_authority_that_no_other_server_has() {
        let issue = || ServerCertificates::issue("127.0.0.1").expect("certificates");
        let (one, other) = (issue(), issue());
        assert_eq!(one.server.ca, one.client.ca);
        assert_ne!(one.server.ca, other.server.ca);
        assert_ne!(one.server.key, one.client.key);
    }

    #[test]
    fn keys_can_be_read_by_their_server_alone_and_go_with_it() {
        let state = tempfile::tempdir().expect("directory");
        let certificates = ServerCertificates::issue("function").expect("certificates");
        let key = certificates.server.key.clone();
        let directory = CertificateDirectory::write(state.path(), certificates.server).expect("files");
        let path = directory.path().to_owned();
        assert_eq!(fs::read(path.join("tls.key")).expect("key"), key);
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("tls.key"))), (0o700, 0o400));
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn keys_that_a_killed_process_left_are_removed_when_the_next_one_starts() {
        let state = tempfile::tempdir().expect("directory");
        let certificates = ServerCertificates::issue("function").expect("certificates");
        let directory = CertificateDirectory::write(state.path(), certificates.server).expect("files");
        // The kernel has dropped the lock of a process that was killed.
        let left = directory.path().with_file_name("4294967295.1");
        fs::create_dir(&left).expect("directory");
        fs::write(left.join("tls.key"), "secret").expect("key");
        remove_leftovers(state.path()).expect("removal");
        assert!(!left.exists());
        assert!(directory.path().join("tls.key").exists(), "its server still runs");
    }
}
