//! Where an image comes from: a registry, a file, or a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ferroplane_engine::ImagePullPolicy;
use ferroplane_image::archive::{self, Selection};
use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::registry::{Pull, PullPolicy};
use ferroplane_image::store::{Pin, Store};
use ferroplane_image::{Execution, Image, Platform, Reference};

use super::error::ImageError;
use super::{Images, blocking};

/// The data of a Secret with credentials for registries, by key.
pub type PullSecret = BTreeMap<String, Bytes>;

/// The keys under which Secrets have credentials for registries.
const SECRET_KEYS: [&str; 2] = [".dockerconfigjson", ".dockercfg"];
/// The program of a directory that says nothing about how it is run.
const PROGRAM: &str = "function";
/// Says how a directory is run, as the configuration of an image does.
const CONFIG: &str = "config.json";
/// Such a file is small.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Where an image comes from.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum ImageSource {
    Registry {
        reference: String,
        /// None: always for the tag `latest`, and otherwise if the image is not there yet.
        policy: Option<PullWhen>,
        /// Contents of pull secrets.
        secrets: Vec<Bytes>,
    },
    /// An OCI layout, a tarball that `docker save` or others wrote, or a directory that is a root file system.
    Path(PathBuf),
}

/// When to ask the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PullWhen {
    Always,
    IfNotPresent,
    Never,
}

impl From<ImagePullPolicy> for PullWhen {
    fn from(policy: ImagePullPolicy) -> Self {
        match policy {
            ImagePullPolicy::Always => Self::Always,
            ImagePullPolicy::IfNotPresent => Self::IfNotPresent,
            ImagePullPolicy::Never => Self::Never,
        }
    }
}

impl ImageSource {
    /// An image in a registry, pulled as its tag suggests, without pull secrets.
    pub fn reference(reference: impl Into<String>) -> Self {
        Self::Registry { reference: reference.into(), policy: None, secrets: Vec::new() }
    }

    /// The same, pulled by this policy.
    #[must_use]
    pub fn with_policy(self, when: Option<ImagePullPolicy>) -> Self {
        match self {
            Self::Registry { reference, secrets, .. } => {
                Self::Registry { reference, policy: when.map(Into::into), secrets }
            }
            path @ Self::Path(_) => path,
        }
    }

    /// The same, with credentials for its registry from Secrets. What has none is ignored.
    #[must_use]
    pub fn with_secrets(self, data: &[PullSecret]) -> Self {
        let contents = data.iter().flat_map(|data| SECRET_KEYS.into_iter().filter_map(|key| data.get(key)));
        match self {
            Self::Registry { reference, policy, .. } => {
                Self::Registry { reference, policy, secrets: contents.cloned().collect() }
            }
            path @ Self::Path(_) => path,
        }
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        match self {
            Self::Registry { reference, .. } => reference.clone(),
            Self::Path(path) => path.display().to_string(),
        }
    }
}

impl std::fmt::Debug for ImageSource {
    /// Leaves out what is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ImageSource").field(&self.name()).finish()
    }
}

/// An image in the store, which stays there for as long as this does.
pub(super) struct Found {
    pub(super) image: Image,
    pub(super) pin: Pin,
}

impl Images {
    /// Bring an image into the store.
    pub(super) async fn find(&self, source: &ImageSource, store: &Store) -> Result<Found, ImageError> {
        match source {
            ImageSource::Registry { reference, policy, secrets } => {
                let reference = Reference::parse(reference, None)?;
                let mut pull = Pull::into(store).with_policy(when(&reference, *policy));
                if let Some(report) = self.inner.settings.pull_progress.clone() {
                    pull = pull.with_progress(move |progress| report(progress));
                }
                // Reads the certificates of the system.
                let (images, secrets) = (self.clone(), secrets.clone());
                let registry = blocking(move || images.registry(&secrets)).await??;
                let pulled = registry.pull(&reference, &pull).await?;
                Ok(Found { image: pulled.image, pin: pulled.pin })
            }
            ImageSource::Path(path) => {
                let (path, store) = (path.clone(), store.clone());
                blocking(move || from_path(&path, &store)).await?
            }
        }
    }
}

/// When an image is pulled. Only a tag that is meant to move is checked every time.
pub(super) fn when(reference: &Reference, policy: Option<PullWhen>) -> PullPolicy {
    let may_move = reference.digest().is_none() && reference.tag().is_none_or(|tag| tag == "latest");
    match policy {
        Some(PullWhen::Never) => PullPolicy::Never,
        Some(PullWhen::Always) => PullPolicy::Always,
        None if may_move => PullPolicy::Always,
        None | Some(PullWhen::IfNotPresent) => PullPolicy::IfNotPresent,
    }
}

fn from_path(path: &Path, store: &Store) -> Result<Found, ImageError> {
    let is_archive =
        path.is_file() || ["index.json", "manifest.json"].iter().any(|name| path.join(name).is_file());
    if !is_archive {
        return from_directory(path, store);
    }
    let platform = Platform::host();
    let imported = archive::import(path, store, &Selection { name: None, platform: Some(&platform) })?;
    let image = Image::load(store, &imported.descriptor.digest)?;
    Ok(Found { image, pin: imported.pin })
}

/// A root file system, as it is.
fn from_directory(path: &Path, store: &Store) -> Result<Found, ImageError> {
    let execution = execution(path)?;
    let mut layer = Layer::new();
    layer.add_directory(path, "")?;
    let mut builder = ImageBuilder::new(Platform::host());
    builder.execution = execution;
    builder.layers.push(layer);
    let mut pin = store.pin()?;
    let descriptor = builder.build(store)?;
    pin.add(&descriptor.digest)?;
    let image = Image::load(store, &descriptor.digest)?;
    for blob in std::iter::once(&image.manifest.config).chain(&image.manifest.layers) {
        pin.add(&blob.digest)?;
    }
    Ok(Found { image, pin })
}

/// How a root file system is run: as its `config.json` says, else by the program at its top.
fn execution(path: &Path) -> Result<Execution, ImageError> {
    let file = path.join(CONFIG);
    if file.is_file() {
        let unreadable = |source| ImageError::Read { path: file.clone(), source };
        let size = file.metadata().map_err(unreadable)?.len();
        if size > MAX_CONFIG_BYTES {
            return Err(unreadable(std::io::ErrorKind::FileTooLarge.into()));
        }
        let text = std::fs::read(&file).map_err(unreadable)?;
        let config = ferroplane_sandbox::ImageConfig::from_json(&text)?;
        return Ok(Execution {
            user: Some(config.user).filter(|user| !user.is_empty()),
            env: Some(config.env),
            entrypoint: Some(config.entrypoint),
            cmd: Some(config.cmd),
            working_dir: Some(config.working_dir).filter(|directory| !directory.is_empty()),
            ..Execution::default()
        });
    }
    if path.join(PROGRAM).is_file() {
        let entrypoint = Some(vec![format!("/{PROGRAM}")]);
        return Ok(Execution { entrypoint, ..Execution::default() });
    }
    Err(ImageError::NoImage { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tag_that_is_meant_to_move_is_always_looked_at() {
        let digest = format!("@sha256:{}", "a".repeat(64));
        for (reference, expected) in [
            ("registry.example.org/a", PullPolicy::Always),
            ("registry.example.org/a:latest", PullPolicy::Always),
            ("registry.example.org/a:v1", PullPolicy::IfNotPresent),
            (&format!("registry.example.org/a:latest{digest}"), PullPolicy::IfNotPresent),
        ] {
            let reference = Reference::parse(reference, None).expect("reference");
            assert_eq!(when(&reference, None), expected, "{reference}");
            assert_eq!(when(&reference, Some(PullWhen::Never)), PullPolicy::Never);
        }
    }

    #[test]
    fn credentials_are_taken_from_secrets_of_either_kind() {
        let secret = |key: &str| PullSecret::from([(key.to_owned(), Bytes::from(key.to_owned()))]);
        let data = [secret(".dockercfg"), secret("password"), secret(".dockerconfigjson")];
        let ImageSource::Registry { secrets, .. } = ImageSource::reference("a").with_secrets(&data) else {
            unreachable!("it is a reference")
        };
        assert_eq!(secrets, [".dockercfg", ".dockerconfigjson"]);
    }
}
