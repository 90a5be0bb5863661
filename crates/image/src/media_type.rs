//! The media types of what images are made of, in both families: OCI's and Docker's.

pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub const OCI_LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
/// The configuration of an artifact that has none.
pub const OCI_EMPTY: &str = "application/vnd.oci.empty.v1+json";

pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
pub const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
pub const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// What a layer of a file system can be.
pub const LAYERS: [&str; 5] = [OCI_LAYER, OCI_LAYER_GZIP, OCI_LAYER_ZSTD, DOCKER_LAYER, DOCKER_LAYER_GZIP];
/// What can be asked for as a manifest.
pub const MANIFESTS: [&str; 4] = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_INDEX];

pub fn is_manifest(media_type: &str) -> bool {
    [OCI_MANIFEST, DOCKER_MANIFEST].contains(&media_type)
}

pub fn is_index(media_type: &str) -> bool {
    [OCI_INDEX, DOCKER_INDEX].contains(&media_type)
}

/// Whether it is the configuration of a file system to run programs in.
pub fn is_config(media_type: &str) -> bool {
    [OCI_CONFIG, DOCKER_CONFIG].contains(&media_type)
}

/// Whether it is a layer of a file system.
pub fn is_layer(media_type: &str) -> bool {
    LAYERS.contains(&media_type)
}
