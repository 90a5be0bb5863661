//! A store of images, and images of any layers.

use std::collections::BTreeMap;

use ferroplane_image::store::{Limits, Store};
use ferroplane_image::tar::{EntryKind, Member, Writer};
use ferroplane_image::{Descriptor, Digest, Hasher, ImageConfig, Manifest, RootFilesystem, media_type};
use ferroplane_package::image::ANNOTATION;
use tempfile::TempDir;

pub(crate) const FUNCTION: &str = "---
apiVersion: meta.pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-example
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: inputs.example.org
---
";

/// A store in a directory that vanishes.
pub(crate) struct Fixture {
    _directory: TempDir,
    pub(crate) store: Store,
}

/// A layer to put into an image.
#[derive(Debug, Clone)]
pub(crate) struct RawLayer {
    pub(crate) content: Vec<u8>,
    pub(crate) annotation: Option<&'static str>,
    pub(crate) media_type: &'static str,
    /// What the configuration says about it, if that is not true.
    pub(crate) diff_id: Option<Digest>,
}

impl RawLayer {
    pub(crate) fn of(entries: &[(&str, &[u8])]) -> Self {
        let mut archive = Writer::new(Vec::new());
        for (path, content) in entries {
            let member = Member::file(path.as_bytes(), 0o644, content.len() as u64);
            archive.add_file(member, *content).unwrap();
        }
        Self::archive(archive.finish().unwrap())
    }

    pub(crate) fn link(path: &str, target: &str, kind: EntryKind) -> Self {
        let mut archive = Writer::new(Vec::new());
        archive.add(Member { kind, ..Member::symlink(path.as_bytes(), target.as_bytes()) }).unwrap();
        Self::archive(archive.finish().unwrap())
    }

    pub(crate) fn archive(content: Vec<u8>) -> Self {
        Self { content, annotation: None, media_type: media_type::OCI_LAYER, diff_id: None }
    }

    pub(crate) fn base(self) -> Self {
        Self { annotation: Some("base"), ..self }
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("store"), Limits::default()).unwrap();
        Self { _directory: directory, store }
    }

    /// An image of layers, the lowest first.
    pub(crate) fn image(&self, layers: &[RawLayer]) -> Digest {
        let mut descriptors = Vec::new();
        let mut diff_ids = Vec::new();
        for layer in layers {
            self.store.write(&layer.content).unwrap();
            let annotations: BTreeMap<_, _> =
                layer.annotation.map(|value| (ANNOTATION.to_owned(), value.to_owned())).into_iter().collect();
            descriptors.push(Descriptor { annotations, ..Descriptor::of(layer.media_type, &layer.content) });
            diff_ids.push(layer.diff_id.clone().unwrap_or_else(|| Hasher::digest(&layer.content)));
        }
        let rootfs = RootFilesystem { kind: "layers".to_owned(), diff_ids };
        let config = ImageConfig { rootfs, ..ImageConfig::default() }.to_bytes();
        self.store.write(&config).unwrap();
        let manifest = Manifest::new(Descriptor::of(media_type::OCI_CONFIG, &config), descriptors);
        self.store.write(&manifest.to_bytes()).unwrap()
    }
}
