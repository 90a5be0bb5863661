//! The documents of images: manifests, indexes, configurations. Performs no I/O.
//!
//! Follows the OCI image specification 1.1. Docker's documents (manifest version 2, schema 2) have the same fields.
//!
//! Documents are kept as the bytes that have the digest; these types are for looking into them, and for writing new ones.

use std::collections::BTreeMap;

use ferroplane_api::image::Digest;
use serde::{Deserialize, Serialize};

use crate::Hasher;
use crate::media_type::{self, OCI_INDEX, OCI_MANIFEST};
use crate::platform::Platform;

/// How large a manifest, an index or a configuration may be. Registries refuse larger manifests, too.
pub const MAX_DOCUMENT_BYTES: u64 = 4 << 20;
/// How many layers an image may have, and how many manifests an index.
pub const MAX_ENTRIES: usize = 1000;

/// Where content is, by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What one image is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    pub config: Descriptor,
    #[serde(default)]
    pub layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// One image in several forms, usually for several platforms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    pub manifests: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What a registry answers to the question for a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    Manifest(Box<Manifest>),
    Index(Index),
}

/// For which platform an image is, how it is run, and what its layers are when they are unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    #[serde(default)]
    pub config: Option<Execution>,
    #[serde(default)]
    pub rootfs: RootFilesystem,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<History>,
}

/// How a container of the image is run by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Execution {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmd: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed_ports: Option<BTreeMap<String, serde_json::Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<BTreeMap<String, serde_json::Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// The layers, by the digests of what they unpack to, the lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFilesystem {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub diff_ids: Vec<Digest>,
}

/// How a layer came about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_layer: bool,
}

/// Why a document of an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidManifest {
    #[error("cannot read the JSON of the {what}")]
    Json { what: &'static str, source: serde_json::Error },
    #[error("cannot use the {what}: it has schema version {version}, and only version 2 is supported")]
    Version { what: &'static str, version: u32 },
    #[error("cannot use media type `{found}`: expected one of {expected}")]
    MediaType { found: String, expected: String },
    #[error("cannot use the manifest: it is sent as `{sent}` and calls itself `{written}`")]
    Disagreement { sent: String, written: String },
    #[error(
        "cannot use the manifest: it has both `layers` and `manifests`, so that readers disagree on what it is"
    )]
    Ambiguous,
    #[error("cannot use the {what}: it has {found} entries, and at most {limit} are allowed")]
    TooMany { what: &'static str, found: usize, limit: usize },
}

impl Descriptor {
    /// The descriptor of content that is in memory.
    pub fn of(media_type: &str, content: &[u8]) -> Self {
        Self::new(media_type, Hasher::digest(content), content.len() as u64)
    }

    pub fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            platform: None,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }
}

impl Manifest {
    pub fn new(config: Descriptor, layers: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(OCI_MANIFEST.to_owned()),
            artifact_type: None,
            config,
            layers,
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    /// The bytes to store and to push. Their digest is the image's.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a manifest has nothing but text and numbers")
    }
}

impl Index {
    pub fn new(manifests: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(OCI_INDEX.to_owned()),
            artifact_type: None,
            manifests,
            annotations: BTreeMap::new(),
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an index has nothing but text and numbers")
    }
}

impl ImageConfig {
    pub fn parse(content: &[u8]) -> Result<Self, InvalidManifest> {
        parse("image configuration", content)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a configuration has nothing but text and numbers")
    }
}

impl Document {
    /// Read what was sent, or is described, as a media type.
    pub fn parse(media_type: &str, content: &[u8]) -> Result<Self, InvalidManifest> {
        let head: Head = parse("manifest", content)?;
        if head.manifests && head.layers {
            return Err(InvalidManifest::Ambiguous);
        }
        if let Some(written) = head.media_type.filter(|written| written != media_type) {
            return Err(InvalidManifest::Disagreement { sent: media_type.to_owned(), written });
        }
        let document = if media_type::is_index(media_type) {
            Self::Index(parse("image index", content)?)
        } else if media_type::is_manifest(media_type) {
            Self::Manifest(Box::new(parse("manifest", content)?))
        } else {
            let (found, expected) = (media_type.to_owned(), media_type::MANIFESTS.join(", "));
            return Err(InvalidManifest::MediaType { found, expected });
        };
        document.check().map(|()| document)
    }

    fn check(&self) -> Result<(), InvalidManifest> {
        let (what, version, found) = match self {
            Self::Manifest(manifest) => ("manifest", manifest.schema_version, manifest.layers.len()),
            Self::Index(index) => ("image index", index.schema_version, index.manifests.len()),
        };
        if version != 2 {
            return Err(InvalidManifest::Version { what, version });
        }
        if found > MAX_ENTRIES {
            return Err(InvalidManifest::TooMany { what, found, limit: MAX_ENTRIES });
        }
        Ok(())
    }
}

impl Default for RootFilesystem {
    fn default() -> Self {
        Self { kind: "layers".to_owned(), diff_ids: Vec::new() }
    }
}

/// What tells a manifest from an index.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    media_type: Option<String>,
    #[serde(default, deserialize_with = "is_there")]
    layers: bool,
    #[serde(default, deserialize_with = "is_there")]
    manifests: bool,
}

fn is_there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

fn parse<'de, T: Deserialize<'de>>(what: &'static str, content: &'de [u8]) -> Result<T, InvalidManifest> {
    serde_json::from_slice(content).map_err(|source| InvalidManifest::Json { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media_type::{DOCKER_MANIFEST, OCI_CONFIG, OCI_LAYER_GZIP};

    fn manifest() -> Manifest {
        Manifest::new(Descriptor::of(OCI_CONFIG, b"{}"), vec![Descriptor::of(OCI_LAYER_GZIP, b"layer")])
    }

    #[test]
    fn manifest_is_read_as_it_was_written() {
        let written = manifest();
        let read = Document::parse(OCI_MANIFEST, &written.to_bytes()).unwrap();
        assert_eq!(read, Document::Manifest(Box::new(written)));
    }

    #[test]
    fn document_that_can_be_read_in_two_ways_is_refused() {
        let mut text = String::from_utf8(manifest().to_bytes()).unwrap();
        text.insert_str(1, r#""manifests":[],"#);
        let error = Document::parse(OCI_MANIFEST, text.as_bytes()).unwrap_err();
        assert!(matches!(error, InvalidManifest::Ambiguous), "{error}");
        let error = Document::parse(DOCKER_MANIFEST, &manifest().to_bytes()).unwrap_err();
        assert!(matches!(error, InvalidManifest::Disagreement { .. }), "{error}");
    }

    #[test]
    fn manifest_of_another_kind_version_or_size_is_refused() {
        let error = Document::parse("text/html", b"{}").unwrap_err();
        assert!(matches!(error, InvalidManifest::MediaType { .. }), "{error}");
        let error = Document::parse(OCI_MANIFEST, b"<html>").unwrap_err();
        assert!(matches!(error, InvalidManifest::Json { .. }), "{error}");
        let old = Manifest { schema_version: 1, ..manifest() };
        let error = Document::parse(OCI_MANIFEST, &old.to_bytes()).unwrap_err();
        assert!(matches!(error, InvalidManifest::Version { version: 1, .. }), "{error}");
        let layers = vec![Descriptor::of(OCI_LAYER_GZIP, b""); MAX_ENTRIES + 1];
        let error = Document::parse(OCI_MANIFEST, &Manifest { layers, ..manifest() }.to_bytes()).unwrap_err();
        assert!(matches!(error, InvalidManifest::TooMany { .. }), "{error}");
    }

    #[test]
    fn configuration_of_an_artifact_may_be_empty() {
        assert_eq!(ImageConfig::parse(b"{}").unwrap(), ImageConfig::default());
        let config = br#"{"architecture":"amd64","os":"linux","config":null,"rootfs":{"type":"layers"}}"#;
        assert_eq!(ImageConfig::parse(config).unwrap().architecture, "amd64");
    }
}
