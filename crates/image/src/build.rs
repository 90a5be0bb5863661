//! Builds images without Docker: layers from files, a configuration, and an index for several platforms.
//!
//! # Invariants
//! * The same files give the same bytes, today and on another machine: entries are sorted, belong to root and are from 1970, and of
//!   their modes only counts whether a file can be executed.

mod compress;
mod layer;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

pub use compress::compress_layers;
pub use layer::Layer;

use crate::manifest::RootFilesystem;
use crate::store::{self, Store};
use crate::{
    Descriptor, Digest, Execution, History, Image, ImageConfig, Index, Manifest, Platform, media_type,
};

/// When everything that we build was made.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// An image to build.
#[derive(Debug, Clone)]
pub struct ImageBuilder {
    pub platform: Platform,
    /// How it is run: user, environment, entry point, labels.
    pub execution: Execution,
    /// The image below the layers. Its configuration counts only if [`ImageBuilder::on`] copied it.
    pub base: Option<Image>,
    /// The lowest first.
    pub layers: Vec<Layer>,
    /// Of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// An annotation of layers that is written to the labels of the configuration, too, as `ANNOTATION:DIGEST`: files of
    /// `docker save` have no annotations.
    pub labelled_annotation: Option<String>,
}

/// Why an image cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}` for a layer", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot put `{}` into a layer: it is neither a file nor a directory nor a symbolic link", path.display())]
    Kind { path: PathBuf },
    #[error(
        "cannot put `{path}` into a layer: its name is empty, or has a part that is `..` or begins with `.wh.`"
    )]
    Name { path: String },
    #[error("cannot put `{path}` into a layer: there is a file of that name in it")]
    Clash { path: String },
    #[error("cannot write a layer")]
    Layer(#[source] io::Error),
    #[error("cannot write to the store")]
    Store(#[from] store::Error),
}

impl ImageBuilder {
    /// An image from nothing.
    pub fn new(platform: Platform) -> Self {
        Self {
            platform,
            execution: Execution::default(),
            base: None,
            layers: Vec::new(),
            annotations: BTreeMap::new(),
            labelled_annotation: None,
        }
    }

    /// An image on top of another one, which is run in the same way unless that is changed.
    pub fn on(base: Image) -> Self {
        let config = &base.config;
        let platform = Platform::new(&config.os, &config.architecture, config.variant.as_deref());
        let execution = config.config.clone().unwrap_or_default();
        Self { execution, base: Some(base), ..Self::new(platform) }
    }

    /// Write layers, configuration and manifest. Returns the descriptor of the manifest.
    pub fn build(mut self, store: &Store) -> Result<Descriptor, Error> {
        let (mut layers, mut config) = match self.base.take() {
            Some(base) => (base.manifest.layers, base.config),
            None => (Vec::new(), ImageConfig::default()),
        };
        let mut pin = store.pin()?;
        for layer in std::mem::take(&mut self.layers) {
            let (descriptor, diff_id) = layer.write(store)?;
            // Each as soon as it is there: a store that is shared collects what nothing refers to.
            pin.add(&descriptor.digest)?;
            self.label(&descriptor);
            layers.push(descriptor);
            config.rootfs.diff_ids.push(diff_id);
            config.history.push(built());
        }
        // A fixed time: the same content has to give the same digest, on every machine and at any time.
        config.created = Some(CREATED.to_owned());
        config.os.clone_from(&self.platform.os);
        config.architecture.clone_from(&self.platform.architecture);
        config.variant.clone_from(&self.platform.variant);
        // What the base says is dropped here, unless `on` copied it.
        config.config = Some(self.execution);
        config.rootfs = RootFilesystem { kind: "layers".to_owned(), ..config.rootfs };

        let content = config.to_bytes();
        pin.add(&store.write(&content)?)?;
        let config = Descriptor::of(media_type::OCI_CONFIG, &content);
        let manifest = Manifest { annotations: self.annotations, ..Manifest::new(config, layers) }.to_bytes();
        pin.add(&store.write(&manifest)?)?;
        let platform = Some(self.platform);
        Ok(Descriptor { platform, ..Descriptor::of(media_type::OCI_MANIFEST, &manifest) })
    }
}

impl ImageBuilder {
    fn label(&mut self, layer: &Descriptor) {
        let annotation = self.labelled_annotation.as_ref();
        if let Some((key, value)) = annotation.and_then(|key| Some((key, layer.annotations.get(key)?))) {
            let labels = self.execution.labels.get_or_insert_default();
            labels.insert(format!("{key}:{}", layer.digest), value.clone());
        }
    }
}

/// Write an index of images for several platforms. Returns its descriptor.
pub fn build_index(
    store: &Store,
    images: Vec<Descriptor>,
    annotations: BTreeMap<String, String>,
) -> Result<Descriptor, Error> {
    let content = Index { annotations, ..Index::new(images) }.to_bytes();
    store.write(&content)?;
    Ok(Descriptor::of(media_type::OCI_INDEX, &content))
}

fn built() -> History {
    let created_by = Some("ferroplane".to_owned());
    History { created: Some(CREATED.to_owned()), created_by, ..History::default() }
}

/// The digest of what a layer unpacks to.
type DiffId = Digest;
