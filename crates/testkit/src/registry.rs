//! Debian's registry on the loopback, started for one test.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should not")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Leaf, Pki, Process, skip};

/// `alice` with the password `open sesame`, hashed by bcrypt.
const PASSWORDS: &str = "alice:$2b$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy\n";
/// The same as HTTP has it.
const AUTHORIZATION: &str = "YWxpY2U6b3BlbiBzZXNhbWU=";

/// A registry on the loopback. Ends when it is dropped.
#[derive(Debug)]
pub struct DebianRegistry {
    /// Host and port.
    pub address: String,
    process: Process,
    directory: TempDir,
}

/// Who may use it, and how.
#[derive(Debug, Default)]
pub struct RegistrySetup<'a> {
    pub tls: Option<&'a Leaf>,
    /// Whether it wants the password of `alice`.
    pub has_passwords: bool,
    /// The address of the token server, and whom it is trusted by.
    pub tokens: Option<(&'a str, &'a Pki)>,
}

impl DebianRegistry {
    /// Nothing if it is not installed, and nobody insists.
    pub fn start(setup: &RegistrySetup<'_>) -> Option<Self> {
        let program = program("docker-registry")?;
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("config.yml");
        fs::write(&file, configuration(directory.path(), setup)).unwrap();
        let mut command = Command::new(program);
        // What it would send elsewhere stays here.
        command.arg("serve").arg(&file).env("OTEL_TRACES_EXPORTER", "none");
        let process = Process::spawn(command);
        let lines = process.lines_until("it listens", |line| line.contains("listening on "));
        let address = lines.last().unwrap().split("listening on ").nth(1).unwrap();
        let address = address.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
        Some(Self { address, process, directory })
    }

    /// A directory of the test beside its data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where it keeps a blob.
    pub fn blob_path(&self, hex: &str) -> PathBuf {
        let blobs = self.directory.path().join("data/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }

    /// What it has logged since.
    pub fn log(&self) -> Vec<String> {
        self.process.unread_lines()
    }

    /// Docker's configuration of `alice`.
    pub fn docker_config(&self) -> String {
        format!(r#"{{"auths": {{"{}": {{"auth": "{AUTHORIZATION}"}}}}}}"#, self.address)
    }
}

/// Where a program is that Debian has. Nothing if it is not installed, and nobody insists.
pub fn program(name: &str) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&directories).chain([PathBuf::from("/usr/bin")]);
    let found = candidates.find_map(|directory| Some(directory.join(name)).filter(|path| path.is_file()));
    if found.is_none() {
        let insists = std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_some();
        assert!(!insists, "{name} is not installed; `cargo xtask test` installs it");
        skip(&format!("{name} is not installed; on Debian, install the package `{name}`"));
    }
    found
}

fn configuration(directory: &Path, setup: &RegistrySetup<'_>) -> String {
    let path = |name: &str| directory.join(name).display().to_string();
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
