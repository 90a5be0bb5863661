//! Packages of all kinds, their revisions, the `Lock` and `ImageConfig`, as far as installing them needs to know.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Object, keys, meta};

/// The kinds of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PackageKind {
    Provider,
    Configuration,
    Function,
}

impl PackageKind {
    pub const ALL: [Self; 3] = [Self::Provider, Self::Configuration, Self::Function];

    /// The kind, as manifests have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Provider => "Provider",
            Self::Configuration => "Configuration",
            Self::Function => "Function",
        }
    }

    /// The kind of its revisions.
    pub fn revision(self) -> &'static str {
        match self {
            Self::Provider => "ProviderRevision",
            Self::Configuration => "ConfigurationRevision",
            Self::Function => "FunctionRevision",
        }
    }

    /// Whether there is a program in it that has to run.
    pub fn has_runtime(self) -> bool {
        !matches!(self, Self::Configuration)
    }

    /// The kind that this name means, if it is one of packages.
    pub fn of(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == kind)
    }

    /// The kind whose revisions have this name.
    pub fn of_revision(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.revision() == kind)
    }
}

impl fmt::Display for PackageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The spec of a package of any kind. What is left out has the value that the API server would give it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageSpec {
    pub package: String,
    pub revision_activation_policy: Option<String>,
    pub revision_history_limit: Option<i64>,
    pub active_revision_limit: Option<i64>,
    pub package_pull_secrets: Vec<NameReference>,
    pub package_pull_policy: Option<String>,
    pub ignore_crossplane_constraints: Option<bool>,
    pub skip_dependency_resolution: Option<bool>,
    pub common_labels: BTreeMap<String, String>,
    pub common_annotations: BTreeMap<String, String>,
}

impl PackageSpec {
    /// The spec of a package. Fields of the wrong type count as absent: an API server does not let them in.
    pub fn of(package: &Object) -> Self {
        let spec = package.get("spec").cloned().unwrap_or_default();
        serde_json::from_value(spec).unwrap_or_default()
    }

    /// Whether new revisions are activated without being asked for.
    pub fn is_automatic(&self) -> bool {
        // As in Crossplane, where any other text means `Manual`.
        self.revision_activation_policy.as_deref().is_none_or(|policy| policy == "Automatic")
    }

    /// How many revisions are kept besides the current one. None means all of them.
    pub fn history_limit(&self) -> Option<usize> {
        match self.revision_history_limit.unwrap_or(1) {
            0 => None,
            limit => Some(usize::try_from(limit).unwrap_or_default()),
        }
    }

    /// How many revisions may be active at once.
    pub fn active_limit(&self) -> usize {
        usize::try_from(self.active_revision_limit.unwrap_or(1)).unwrap_or(1).max(1)
    }
}

/// The name of an object in the namespace of the plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameReference {
    #[serde(default)]
    pub name: String,
}

/// One package in the `Lock`: an active revision, and what it depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockPackage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The old form of `kind`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub package_type: Option<String>,
    /// The name of the revision.
    pub name: String,
    /// The image without tag and digest.
    pub source: String,
    /// The tag, or the digest.
    pub version: String,
    pub dependencies: Vec<Dependency>,
}

impl LockPackage {
    /// The kind of the package, in both of its forms.
    pub fn package_kind(&self) -> Option<PackageKind> {
        PackageKind::of(self.kind.as_deref().or(self.package_type.as_deref())?)
    }
}

/// What a package in the `Lock` depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Dependency {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub package_type: Option<String>,
    /// The image without tag and digest.
    pub package: String,
    /// A range of versions, or a digest.
    pub constraints: String,
}

impl Dependency {
    /// The kind of the package, in both of its forms.
    pub fn package_kind(&self) -> Option<PackageKind> {
        PackageKind::of(self.kind.as_deref().or(self.package_type.as_deref())?)
    }
}

/// The packages in a `Lock`. An entry that cannot be read is left out.
pub fn lock_packages(lock: &Object) -> Vec<LockPackage> {
    let packages = lock.get("packages").and_then(serde_json::Value::as_array);
    let read = |package: &serde_json::Value| LockPackage::deserialize(package).ok();
    packages.map(|packages| packages.iter().filter_map(read).collect()).unwrap_or_default()
}

/// An `ImageConfig`: what is done with images whose references begin as it says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageConfig {
    #[serde(skip)]
    pub name: String,
    /// The Secret with the trusted root of Sigstore that an annotation names. Empty if none does.
    #[serde(skip)]
    pub trusted_root: String,
    pub match_images: Vec<ImageMatch>,
    pub registry: Option<RegistryConfig>,
    /// As it is written: an invalid value must not count as none.
    pub verification: Option<serde_json::Value>,
    pub rewrite_image: Option<ImageRewrite>,
    pub runtime: Option<RuntimeOfImage>,
}

impl ImageConfig {
    /// What an object of this kind says.
    pub fn of(object: &Object) -> Self {
        let spec = object.get("spec").cloned().unwrap_or_default();
        let config: Self = serde_json::from_value(spec).unwrap_or_default();
        let trusted_root = meta::annotation(object, keys::TRUSTED_ROOT).to_owned();
        Self { name: meta::name(object).to_owned(), trusted_root, ..config }
    }

    /// The secret to pull with, if it names one.
    pub fn pull_secret(&self) -> Option<&str> {
        let secret = self.registry.as_ref()?.authentication.as_ref()?.pull_secret_ref.as_ref()?;
        (!secret.name.is_empty()).then_some(&secret.name)
    }
}

/// What `spec.verification` of an `ImageConfig` demands.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ImageVerification {
    pub provider: String,
    pub cosign: Option<CosignVerification>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CosignVerification {
    pub authorities: Vec<CosignAuthority>,
}

/// A signer whose signature is enough.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CosignAuthority {
    pub name: String,
    pub key: Option<CosignKey>,
    pub keyless: Option<CosignKeyless>,
    /// What it has to have attested in place of a signature. One of them is enough.
    #[serde(default)]
    pub attestations: Vec<CosignAttestation>,
}

/// Something that is said about an image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CosignAttestation {
    pub name: String,
    pub predicate_type: String,
}

/// A public key in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CosignKey {
    pub secret_ref: SecretKeyReference,
    #[serde(default)]
    pub hash_algorithm: String,
}

/// Identities that sign without a key that others know.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CosignKeyless {
    pub identities: Vec<CosignIdentity>,
    #[serde(rename = "insecureIgnoreSCT", default)]
    pub insecure_ignore_sct: bool,
}

/// Who may sign. What is empty is not demanded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CosignIdentity {
    pub issuer: String,
    pub subject: String,
    pub issuer_reg_exp: String,
    pub subject_reg_exp: String,
}

/// A key of a Secret in the namespace of the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SecretKeyReference {
    pub name: String,
    pub key: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ImageMatch {
    pub prefix: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ImageRewrite {
    pub prefix: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RegistryConfig {
    pub authentication: Option<RegistryAuthentication>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryAuthentication {
    pub pull_secret_ref: Option<NameReference>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeOfImage {
    pub config_ref: Option<RuntimeConfigReference>,
}

/// Which configuration of a runtime is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeConfigReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

impl Default for RuntimeConfigReference {
    fn default() -> Self {
        Self {
            api_version: format!("{}/v1beta1", keys::PKG),
            kind: "DeploymentRuntimeConfig".to_owned(),
            name: "default".to_owned(),
        }
    }
}
