//! `Profile`: where data is kept, and the Secrets to get there. The fields are Kanister's, at the top level of the object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{KanisterReference, Object};

/// Where data is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Profile {
    /// Location of the data.
    pub location: ProfileLocation,
    /// Credentials for the location.
    pub credential: ProfileCredential,
    /// Skip the verification of TLS certificates. Defaults to false.
    #[serde(rename = "skipSSLVerify")]
    pub skip_ssl_verify: bool,
}

/// Where data is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileLocation {
    /// Type of the storage: s3Compliant (the default), gcs, azure or kopia.
    pub r#type: LocationType,
    /// Name of the bucket or container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// Address of the storage service. It can be left out if the type determines it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Prefix of the names of all stored objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Region of the bucket.
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

/// The credentials of the storage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileCredential {
    /// Type of the credentials: keyPair (the default), secret or kopia. The field for the type has the details.
    pub r#type: CredentialType,
    /// Secret with an ID and a secret key. Only with type keyPair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_pair: Option<KeyPair>,
    /// Secret whose own type determines its keys. Only with type secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<KanisterReference>,
    /// Credentials for a Kopia server. Only with type kopia.
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
    /// Key of the Secret that has the ID.
    pub id_field: String,
    /// Key of the Secret that has the secret key.
    pub secret_field: String,
    /// Reference to the Secret.
    pub secret: KanisterReference,
}

/// What a Kopia server wants.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct KopiaServerSecret {
    /// User name on the Kopia server.
    pub username: String,
    /// Host name of the user on the Kopia server, as in username@hostname.
    pub hostname: String,
    /// Key of a Secret with the passphrase of the user.
    pub user_passphrase: SecretKey,
    /// Key of a Secret with the TLS certificate of the server.
    pub tls_cert: SecretKey,
    /// Further connection options, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub connect_options: BTreeMap<String, i64>,
}

/// A key of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct SecretKey {
    /// Key in the Secret.
    pub key: String,
    /// Reference to the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<KanisterReference>,
}

impl Profile {
    /// What an object says.
    pub fn of(object: &Object) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::Value::Object(object.clone()))
    }
}
