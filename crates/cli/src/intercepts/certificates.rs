//! Certificates with which a developer's process and a control plane know each other.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use ferroplane_certificates::{Authority, LeafRequest, Profile, Purpose};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

/// How long the certificate of a process holds.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Make a certificate for a process on a host, and write it and its key to a directory. Returns the authority that signed it, whose key
/// nobody has any more.
pub(crate) fn write_server(directory: &Path, host: &str) -> anyhow::Result<String> {
    let now = Timestamp::now();
    let id = Uuid::new_v4().simple().to_string();
    let made = Profile::Ferroplane { id: &id }.make(now).context("cannot make certificates")?;
    // It was made just now, so that nothing can be wrong with it.
    let authority =
        Authority::read(&made.certificate, &made.key, now).ok().context("cannot make certificates")?;
    let names = [host.to_owned()];
    let request = LeafRequest {
        common_name: "ferroplane-intercept",
        organizations: &[],
        names: &names,
        purpose: Purpose::Server,
    };
    let leaf = authority.issue_lasting(&request, now, LIFETIME).context("cannot make certificates")?;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    write(&directory.join("tls.crt"), &leaf.certificate)?;
    write(&directory.join("tls.key"), &leaf.key)?;
    Ok(made.certificate)
}

/// Write down whom the process has to trust: only the control plane may call it.
pub(crate) fn write_client_ca(directory: &Path, authority: &str) -> anyhow::Result<()> {
    write(&directory.join("ca.crt"), authority)
}

/// What is there is replaced: a certificate of an earlier run is of no use.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}
