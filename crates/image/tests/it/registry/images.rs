//! Small images to push and pull.

use ferroplane_image::media_type::{OCI_CONFIG, OCI_LAYER, OCI_MANIFEST};
use ferroplane_image::store::Store;
use ferroplane_image::{Descriptor, Digest, ImageConfig, Index, Manifest, RootFilesystem};

/// Content that does not repeat itself, and is the same every time.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_769).wrapping_add(1);
    let step = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| step(&mut state)).collect()
}

/// An image of layers that are anything, in memory: the configuration and the manifest that name them.
pub(crate) struct TestImage {
    pub(crate) layers: Vec<Vec<u8>>,
    pub(crate) config: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
}

impl TestImage {
    pub(crate) fn new(layers: &[Vec<u8>]) -> Self {
        Self::for_architecture("amd64", layers)
    }

    pub(crate) fn for_architecture(architecture: &str, layers: &[Vec<u8>]) -> Self {
        let descriptors: Vec<Descriptor> =
            layers.iter().map(|layer| Descriptor::of(OCI_LAYER, layer)).collect();
        let diff_ids = descriptors.iter().map(|layer| layer.digest.clone()).collect();
        let config = ImageConfig {
            architecture: architecture.to_owned(),
            os: "linux".to_owned(),
            rootfs: RootFilesystem { diff_ids, ..RootFilesystem::default() },
            ..ImageConfig::default()
        };
        let config = config.to_bytes();
        let manifest = Manifest::new(Descriptor::of(OCI_CONFIG, &config), descriptors).to_bytes();
        Self { layers: layers.to_vec(), config, manifest }
    }

    pub(crate) fn descriptor(&self) -> Descriptor {
        Descriptor::of(OCI_MANIFEST, &self.manifest)
    }

    pub(crate) fn digest(&self) -> Digest {
        self.descriptor().digest
    }

    pub(crate) fn write(&self, store: &Store) -> Digest {
        for content in self.layers.iter().chain([&self.config]) {
            store.write(content).unwrap();
        }
        store.write(&self.manifest).unwrap()
    }
}

/// An index of images for these architectures, each with a layer of its own.
pub(crate) fn index(store: &Store, architectures: &[&str]) -> Digest {
    let entry = |architecture: &&str| {
        let image = TestImage::for_architecture(architecture, &[architecture.as_bytes().to_vec()]);
        image.write(store);
        let platform = Some(format!("linux/{architecture}").parse().unwrap());
        Descriptor { platform, ..image.descriptor() }
    };
    store.write(&Index::new(architectures.iter().map(entry).collect()).to_bytes()).unwrap()
}
