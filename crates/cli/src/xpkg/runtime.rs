//! The images of programs that packages embed: from registries, files, layouts and directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use ferroplane_image::archive::{Selection, import};
use ferroplane_image::build::{ImageBuilder, Layer, compress_layers};
use ferroplane_image::registry::{Pull, PullPolicy, Registry};
use ferroplane_image::store::{Pin, Store};
use ferroplane_image::{Descriptor, Image, Platform, Reference};

use super::files::images_of;

/// Where the image of a program is.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeSource {
    /// The platform that was written in front of it.
    platform: Option<Platform>,
    location: String,
}

/// Images by their platform, and what keeps them in the store.
pub(crate) struct Runtimes {
    pub(crate) images: Vec<(Platform, Image)>,
    pins: Vec<Pin>,
}

/// What else is to know about images.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuntimeOptions<'a> {
    /// Of images for several platforms, these. All of them if there are none.
    pub(crate) platforms: &'a [Platform],
    /// What is run in a directory that is not an image.
    pub(crate) entrypoint: &'a [String],
}

impl FromStr for RuntimeSource {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text.split_once('=') {
            Some((platform, location)) if !platform.contains(['.', ':']) => {
                Ok(Self { platform: Some(platform.parse()?), location: location.to_owned() })
            }
            _ => Ok(Self { platform: None, location: text.to_owned() }),
        }
    }
}

impl RuntimeSource {
    pub(crate) fn file(path: &Path) -> Self {
        Self { platform: None, location: path.to_string_lossy().into_owned() }
    }
}

impl Runtimes {
    /// Read all images. Each platform may be there once.
    pub(crate) async fn read(
        sources: &[RuntimeSource],
        options: RuntimeOptions<'_>,
        registry: &Registry,
        store: &Store,
        pull: &Pull,
    ) -> anyhow::Result<Self> {
        let mut runtimes = Self { images: Vec::new(), pins: Vec::new() };
        for source in sources {
            let path = Path::new(&source.location);
            let (images, pin) = if is_image_file(path) {
                read_file(path, store)?
            } else if path.is_dir() {
                build_directory(path, source, options, store)?
            } else if path.exists() || source.location.starts_with(['/', '.']) {
                bail!("cannot embed `{}`: it is neither an image nor a directory", source.location);
            } else {
                pull_image(source, registry, pull).await?
            };
            runtimes.add(source, &images, options, store, pin)?;
        }
        if sources.is_empty() {
            return Ok(runtimes);
        }
        runtimes.check(options)?;
        Ok(runtimes)
    }

    fn add(
        &mut self,
        source: &RuntimeSource,
        images: &[Descriptor],
        options: RuntimeOptions<'_>,
        store: &Store,
        mut pin: Pin,
    ) -> anyhow::Result<()> {
        for descriptor in images {
            let image = Image::load(store, &descriptor.digest)
                .with_context(|| format!("cannot embed `{}`", source.location))?;
            let image = compress_layers(store, image, &mut pin)?;
            let platform = platform_of(&image);
            let is_wanted = |wanted: &[Platform]| wanted.is_empty() || wanted.contains(&platform);
            let is_own = source.platform.as_ref().is_none_or(|own| *own == platform);
            if !is_own || !is_wanted(options.platforms) {
                continue;
            }
            if self.images.iter().any(|(known, _)| *known == platform) {
                bail!("cannot embed `{}`: another image is for {platform}, too", source.location);
            }
            self.images.push((platform, image));
        }
        self.pins.push(pin);
        Ok(())
    }

    fn check(&self, options: RuntimeOptions<'_>) -> anyhow::Result<()> {
        let has = |platform: &Platform| self.images.iter().any(|(known, _)| known == platform);
        if let Some(missing) = options.platforms.iter().find(|platform| !has(platform)) {
            bail!("cannot build the package for {missing}: no image is for that platform");
        }
        if self.images.is_empty() {
            bail!("cannot embed a runtime: none of the images is for the platform that was named");
        }
        Ok(())
    }
}

fn platform_of(image: &Image) -> Platform {
    let config = &image.config;
    Platform::new(&config.os, &config.architecture, config.variant.as_deref())
}

/// Whether there is an image in a file, or a layout in a directory.
fn is_image_file(path: &Path) -> bool {
    path.is_file() || path.join("index.json").is_file() || path.join("manifest.json").is_file()
}

fn read_file(path: &Path, store: &Store) -> anyhow::Result<(Vec<Descriptor>, Pin)> {
    let imported = import(path, store, &Selection::default())
        .with_context(|| format!("cannot embed `{}`", path.display()))?;
    Ok((images_of(store, &imported.descriptor)?, imported.pin))
}

async fn pull_image(
    source: &RuntimeSource,
    registry: &Registry,
    pull: &Pull,
) -> anyhow::Result<(Vec<Descriptor>, Pin)> {
    let reference: Reference = source
        .location
        .parse()
        .with_context(|| format!("cannot embed `{}`: there is no such file or directory", source.location))?;
    // A tag that moved since the last build means another program.
    let pull = pull.clone().with_policy(PullPolicy::Always);
    let pulled = registry.pull_all(&reference, &pull).await?;
    Ok((images_of(&pull.store, &pulled.descriptor)?, pulled.pin))
}

/// An image of the files in a directory.
fn build_directory(
    path: &Path,
    source: &RuntimeSource,
    options: RuntimeOptions<'_>,
    store: &Store,
) -> anyhow::Result<(Vec<Descriptor>, Pin)> {
    if options.entrypoint.is_empty() {
        bail!(
            "cannot embed directory `{}`: say with --entrypoint which of its programs is run, as in \
             --entrypoint /function",
            path.display()
        );
    }
    check_entrypoint(path, &options.entrypoint[0])?;
    let mut layer = Layer::new();
    layer.add_directory(path, "/")?;
    let platform = source.platform.clone().unwrap_or_else(Platform::host);
    let mut builder = ImageBuilder::new(Platform { variant: None, ..platform });
    builder.execution.entrypoint = Some(options.entrypoint.to_vec());
    // As functions and providers are run by Crossplane: by a user that owns nothing.
    builder.execution.user = Some("2000:2000".to_owned());
    builder.execution.exposed_ports = Some(BTreeMap::from([("9443/tcp".to_owned(), serde_json::json!({}))]));
    builder.layers.push(layer);
    let mut pin = store.pin()?;
    let descriptor = builder.build(store)?;
    pin.add(&descriptor.digest)?;
    Ok((vec![descriptor], pin))
}

fn check_entrypoint(directory: &Path, entrypoint: &str) -> anyhow::Result<()> {
    let path: PathBuf = directory.join(entrypoint.trim_start_matches('/'));
    if !path.exists() {
        bail!("cannot embed directory `{}`: there is no `{entrypoint}` in it", directory.display());
    }
    Ok(())
}
