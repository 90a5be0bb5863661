//! Debian's registry on the loopback, started for one test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ferroplane_image::Reference;
use ferroplane_image::auth::Credentials;
use ferroplane_image::registry::{Options, Push, Registry};
use ferroplane_testkit::Process;
use tempfile::TempDir;

use super::images::TestImage;

/// `alice` with the password `open sesame`, hashed by bcrypt.
const PASSWORDS: &str = "alice:$2b$04$abcdefghijklmnopqrstuu/LVz6MZlItEy42I2juLihZ66HnQx/cy\n";
/// The same as HTTP has it.
const AUTHORIZATION: &str = "YWxpY2U6b3BlbiBzZXNhbWU=";

/// A registry. Ends when it is dropped.
pub(crate) struct TestRegistry {
    address: String,
    has_passwords: bool,
    _process: Process,
    directory: TempDir,
}

impl TestRegistry {
    /// Nothing if it is not installed.
    pub(crate) fn start(has_passwords: bool) -> Option<Self> {
        let program = program("docker-registry")?;
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut configuration = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\nhttp:\n  addr: 127.0.0.1:0\n",
            path("data").display()
        );
        if has_passwords {
            fs::write(path("passwords"), PASSWORDS).unwrap();
            configuration +=
                &format!("auth:\n  htpasswd: {{realm: test, path: {}}}\n", path("passwords").display());
        }
        fs::write(path("config.yml"), configuration).unwrap();
        let mut command = Command::new(program);
        // What it would send elsewhere stays here.
        command.arg("serve").arg(path("config.yml")).env("OTEL_TRACES_EXPORTER", "none");
        let process = Process::spawn(command);
        let lines = process.lines_until("it listens", |line| line.contains("listening on "));
        let address = lines.last().unwrap().split("listening on ").nth(1).unwrap();
        let address: String =
            address.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
        Some(Self { address, has_passwords, _process: process, directory })
    }

    /// Put an image there. Returns its reference.
    pub(crate) fn push(&self, image: &TestImage, name: &str) -> String {
        let config = self.directory.path().join("config.json");
        fs::write(&config, self.docker_config()).unwrap();
        let credentials = Credentials::anonymous();
        let credentials = if self.has_passwords { credentials.with_file(config) } else { credentials };
        let reference = format!("{}/tests/{name}", self.address);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let registry = Registry::new(Options { credentials, ..Options::default() }).unwrap();
            let target = Reference::parse(&reference, None).unwrap();
            registry.push(&target, &image.descriptor.digest, &Push::from(&image.store)).await.unwrap();
        });
        reference
    }

    /// Docker's configuration of somebody who may use it.
    pub(crate) fn docker_config(&self) -> String {
        format!(r#"{{"auths": {{"{}": {{"auth": "{AUTHORIZATION}"}}}}}}"#, self.address)
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let mut found =
        ["/usr/bin", "/usr/local/bin"].iter().map(|directory| PathBuf::from(directory).join(name));
    let found = found.find(|path| path.is_file());
    if found.is_none() {
        let insists = std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_some();
        assert!(!insists, "{name} is not installed; `cargo xtask test` installs it");
        eprintln!("skipped: {name} is not installed; on Debian, install the package `{name}`");
    }
    found
}
