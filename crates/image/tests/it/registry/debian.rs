//! Debian's registry, started for one test.

use std::fs;
use std::process::Command;

use ferroplane_testkit::{Leaf, Pki, Process};
use tempfile::TempDir;

use super::programs::program;

/// `alice` with the password `open sesame`, hashed by bcrypt.
const PASSWORDS: &str = "alice:$2b$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy\n";

/// A registry on the loopback. Ends when it is dropped.
pub(crate) struct DebianRegistry {
    /// Host and port.
    pub(crate) address: String,
    process: Process,
    directory: TempDir,
}

/// Who may use it, and how.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    pub(crate) tls: Option<&'a Leaf>,
    pub(crate) has_passwords: bool,
    /// The address of the token server, and whom it is trusted by.
    pub(crate) tokens: Option<(&'a str, &'a Pki)>,
}

impl DebianRegistry {
    /// Nothing if it is not installed.
    pub(crate) fn start(setup: &Setup<'_>) -> Option<Self> {
        let program = program("docker-registry")?;
        let directory = tempfile::tempdir().unwrap();
        let configuration = configuration(&directory, setup);
        let file = directory.path().join("config.yml");
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new(program);
        // What it would send elsewhere stays here.
        command.arg("serve").arg(&file).env("OTEL_TRACES_EXPORTER", "none");
        let process = Process::spawn(command);
        let lines = process.lines_until("it listens", |line| line.contains("listening on "));
        let line = lines.last().unwrap();
        let address = line.split("listening on ").nth(1).unwrap();
        let address: String =
            address.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
        Some(Self { address, process, directory })
    }

    /// Where it keeps a blob.
    pub(crate) fn blob_path(&self, hex: &str) -> std::path::PathBuf {
        let blobs = self.directory.path().join("data/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }

    /// What it has logged since.
    pub(crate) fn log(&self) -> Vec<String> {
        self.process.unread_lines()
    }
}

fn configuration(directory: &TempDir, setup: &Setup<'_>) -> String {
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut configuration = format!(
        "version: 0.1\nlog: {{level: info}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n  delete: {{enabled: true}}\n\
         http:\n  addr: 127.0.0.1:0\n",
        path("data")
    );
    if let Some(leaf) = setup.tls {
        fs::write(path("tls.crt"), &leaf.certificate).unwrap();
        fs::write(path("tls.key"), &leaf.key).unwrap();
        configuration += &format!("  tls: {{certificate: {}, key: {}}}\n", path("tls.crt"), path("tls.key"));
    }
    if setup.has_passwords {
        fs::write(path("passwords"), PASSWORDS).unwrap();
        configuration += &format!("auth:\n  htpasswd: {{realm: test, path: {}}}\n", path("passwords"));
    }
    if let Some((realm, pki)) = setup.tokens {
        fs::write(path("tokens.crt"), pki.ca()).unwrap();
        configuration += &format!(
            "auth:\n  token: {{realm: '{realm}', service: tests, issuer: tests, rootcertbundle: {}}}\n",
            path("tokens.crt")
        );
    }
    configuration
}
