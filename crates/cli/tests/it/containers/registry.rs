//! Images in Debian's registry on the loopback.

use std::fs;

use ferroplane_image::Reference;
use ferroplane_image::auth::Credentials;
use ferroplane_image::registry::{Options, Push, Registry};
use ferroplane_testkit::{DebianRegistry, Pki, RegistrySetup};

use super::images::TestImage;

/// A registry. Ends when it is dropped.
pub(crate) struct TestRegistry {
    debian: DebianRegistry,
    has_passwords: bool,
    /// Whom its clients have to trust, in PEM.
    authorities: String,
}

impl TestRegistry {
    /// Nothing if it is not installed.
    pub(crate) fn start(has_passwords: bool) -> Option<Self> {
        let debian = DebianRegistry::start(&RegistrySetup { has_passwords, ..RegistrySetup::default() })?;
        Some(Self { debian, has_passwords, authorities: String::new() })
    }

    /// One with a certificate that only those trust who know this authority.
    pub(crate) fn start_certified_by(pki: &Pki) -> Option<Self> {
        let leaf = pki.issue(&["127.0.0.1"]);
        let setup = RegistrySetup { tls: Some(&leaf), ..RegistrySetup::default() };
        let debian = DebianRegistry::start(&setup)?;
        Some(Self { debian, has_passwords: false, authorities: pki.ca() })
    }

    /// Put an image there. Returns its reference.
    pub(crate) fn push(&self, image: &TestImage, name: &str) -> String {
        let config = self.debian.directory().join("config.json");
        fs::write(&config, self.docker_config()).unwrap();
        let credentials = Credentials::anonymous();
        let credentials = if self.has_passwords { credentials.with_file(config) } else { credentials };
        let reference = format!("{}/tests/{name}", self.debian.address);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let authorities = self.authorities.clone().into_bytes();
            let registry = Registry::new(Options { credentials, authorities, ..Options::default() }).unwrap();
            let target = Reference::parse(&reference, None).unwrap();
            registry.push(&target, &image.descriptor.digest, &Push::from(&image.store)).await.unwrap();
        });
        reference
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.debian.address
    }

    /// Delete all images. Those that were pushed cannot be fetched any more.
    pub(crate) fn delete_images(&self) {
        fs::remove_dir_all(self.debian.directory().join("data/docker")).unwrap();
    }

    /// Docker's configuration of somebody who may use it.
    pub(crate) fn docker_config(&self) -> String {
        self.debian.docker_config()
    }
}
