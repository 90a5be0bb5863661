//! `Profile`: where data is kept, and the Secrets to get there. The fields are Kanister's, at the top level of the object.
#![allow(clippy::doc_markdown, reason = "the words are for users of the API")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{KanisterReference, Object};

/// Where data is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Profile {
    /// Where.
    pub location: ProfileLocation,
    /// As whom.
    pub credential: ProfileCredential,
    /// Whether certificates are not verified.
    #[serde(rename = "skipSSLVerify")]
    pub skip_ssl_verify: bool,
}

/// Where data is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileLocation {
    /// What kind of storage it is.
    pub r#type: LocationType,
    /// The bucket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// The address, where it does not follow from the type.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// What the names of all objects begin with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// The region.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
}

/// Kinds of storage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum LocationType {
    /// Anything that speaks S3.
    #[default]
    S3Compliant,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// A Kopia server.
    Kopia,
}

/// As whom storage is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileCredential {
    /// Where the credential is.
    pub r#type: CredentialType,
    /// Two keys of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_pair: Option<KeyPair>,
    /// A Secret with a type of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<KanisterReference>,
    /// What a Kopia server wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kopia_server_secret: Option<KopiaServerSecret>,
}

/// Where a credential is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CredentialType {
    /// In two keys of a Secret.
    #[default]
    KeyPair,
    /// In a Secret with a type of its own.
    Secret,
    /// For a Kopia server.
    Kopia,
}

/// Two keys of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct KeyPair {
    /// The key of the identity.
    pub id_field: String,
    /// The key of the secret.
    pub secret_field: String,
    /// The Secret.
    pub secret: KanisterReference,
}

/// What a Kopia server wants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct KopiaServerSecret {
    /// The user.
    pub username: String,
    /// The host.
    pub hostname: String,
    /// The passphrase.
    pub user_passphrase: SecretKey,
    /// The certificate of the server.
    pub tls_cert: SecretKey,
    /// Further options.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub connect_options: BTreeMap<String, i64>,
}

/// A key of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct SecretKey {
    /// The key.
    pub key: String,
    /// The Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<KanisterReference>,
}

impl Profile {
    /// What an object says.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::Value::Object(object.clone()))
    }
}
