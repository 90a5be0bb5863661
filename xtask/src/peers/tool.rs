//! The tools that recipes need, and how to get one that is missing.
//!
//! Installs Debian packages, and only as root; for everybody else it says what to install.

use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::run;

/// A tool of another language, or a program that Debian has.
#[derive(Debug)]
pub(super) struct Tool {
    what: &'static str,
    /// A command that succeeds when the tool can do its work.
    probe: &'static [&'static str],
    package: &'static str,
}

impl Tool {
    pub(super) const GO: Self = Self { what: "Go 1.26", probe: &["go", "version"], package: "golang-go" };

    /// Debian's Python has `venv` but cannot use it without `ensurepip`, which is a package of its own.
    pub(super) const PYTHON: Self = Self {
        what: "Python 3.11 with venv",
        probe: &["python3", "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"],
        package: "python3-venv",
    };

    /// Debian's `npm` brings `node`.
    pub(super) const NODE: Self =
        Self { what: "Node 20 with npm", probe: &["npm", "--version"], package: "npm" };

    /// Scrapes our metrics, and `promtool` checks them.
    pub(super) const PROMETHEUS: Self =
        Self { what: "Prometheus 2.40", probe: &["promtool", "--version"], package: "prometheus" };

    /// Starts containers.
    pub(super) const CRUN: Self = Self { what: "crun 1.8", probe: &["crun", "--version"], package: "crun" };

    /// Starts containers where crun is missing.
    pub(super) const RUNC: Self =
        Self { what: "runc 1.1", probe: &["/usr/sbin/runc", "--version"], package: "runc" };

    /// What images of tests are made of.
    pub(super) const BUSYBOX: Self =
        Self { what: "a static busybox", probe: &["busybox", "true"], package: "busybox-static" };

    /// Registries are tried against it.
    pub(super) const REGISTRY: Self = Self {
        what: "Docker registry 2.8",
        probe: &["docker-registry", "--version"],
        package: "docker-registry",
    };

    /// Copies images, so that ours can be compared with those of others.
    pub(super) const SKOPEO: Self =
        Self { what: "skopeo 1.9", probe: &["skopeo", "--version"], package: "skopeo" };

    /// Unpacks images, and packs them.
    pub(super) const UMOCI: Self =
        Self { what: "umoci 0.4", probe: &["umoci", "--version"], package: "umoci" };

    /// Builds images from Dockerfiles.
    pub(super) const BUILDAH: Self =
        Self { what: "buildah 1.28", probe: &["buildah", "--version"], package: "buildah" };

    /// The program of an example, which runs in a container. Tests take it from where Debian has it.
    pub(super) const JQ: Self = Self { what: "jq 1.6", probe: &["/usr/bin/jq", "--version"], package: "jq" };

    /// A shell that completes commands.
    pub(super) const ZSH: Self = Self { what: "zsh 5.8", probe: &["zsh", "--version"], package: "zsh" };

    /// A shell that completes commands.
    pub(super) const FISH: Self = Self { what: "fish 3.6", probe: &["fish", "--version"], package: "fish" };

    /// Makes sure that the tool works, installing its Debian package if need be.
    pub(super) fn ensure(&self) -> Result<()> {
        if self.works().is_ok() {
            return Ok(());
        }
        let Self { what, package, .. } = self;
        let advice = format!("{what} or newer is needed; on Debian, install `{package}`");
        self.install().and_then(|()| self.works()).context(advice)
    }

    fn works(&self) -> Result<()> {
        run(Command::new(self.probe[0]).args(&self.probe[1..]))
    }

    fn install(&self) -> Result<()> {
        if !is_root() {
            return Err(anyhow!("not root, so not installing it"));
        }
        eprintln!("installing Debian package {}…", self.package);
        // A fresh image has no package lists at all.
        run(apt_get().arg("update"))?;
        run(apt_get().args(["install", "--yes", "--no-install-recommends", self.package]))
    }
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}
