//! The `functions` array of a `Composition`, and what its functions have in common with steps that call such functions: images that
//! are run for every call, and webhooks.
//!
//! The fields are those of the alpha design of composition functions; `protocol` is ours.

use serde::{Deserialize, Serialize};

use crate::Object;
#[cfg(feature = "generate")]
use crate::generate::marks::{quantity, rule};

/// A function that is not served, but run or called for every request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "generate",
    schemars(transform = rule(
        "self.type == 'Container' ? has(self.container) && !has(self.chroot) && !has(self.webhook) : \
         self.type == 'Chroot' ? has(self.chroot) && !has(self.container) && !has(self.webhook) : \
         has(self.webhook) && !has(self.container) && !has(self.chroot)",
        "the field that belongs to the type is needed, and no other: container, chroot or webhook"
    ))
)]
#[serde(rename_all = "camelCase")]
pub struct CompositionFunction {
    /// The name of the function. No other function of the Composition has it.
    pub name: String,
    /// How the control plane calls the function: Container and Chroot run an image, Webhook calls a server.
    pub r#type: FunctionType,
    /// Configuration that the function gets unchanged with every call.
    #[serde(default)]
    pub config: Option<Object>,
    /// The image to run. Only with type Container.
    #[serde(default)]
    pub container: Option<ContainerFunction>,
    /// The image to run. Only with type Chroot.
    #[serde(default)]
    pub chroot: Option<ChrootFunction>,
    /// The server to call. Only with type Webhook.
    #[serde(default)]
    pub webhook: Option<WebhookFunction>,
}

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum FunctionType {
    /// An image is run in a container.
    Container,
    /// A server is called over HTTPS.
    Webhook,
    /// An image is run as an ordinary process with another root directory.
    Chroot,
}

/// An image that is run in a container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContainerFunction {
    /// The image. Its entrypoint reads the request on standard input and writes the answer to standard output.
    pub image: String,
    /// When the control plane pulls the image. Defaults to Always for the tag latest, otherwise to IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secrets with the registry credentials for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<ImagePullSecret>,
    /// Timeout of a call, for example 30s. Defaults to 20s. A call ends after 90s at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Network access of the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<FunctionNetwork>,
    /// Compute resources of the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<FunctionResources>,
    /// Protocol of the function: RunFunction, ResourceList (the default) or KRM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<FunctionProtocol>,
}

/// An image that is run with little isolation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChrootFunction {
    /// The image. Its entrypoint reads the request on standard input and writes the answer to standard output.
    pub image: String,
    /// When the control plane pulls the image. Defaults to Always for the tag latest, otherwise to IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secrets with the registry credentials for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<ImagePullSecret>,
    /// Timeout of a call, for example 30s. Defaults to 20s. A call ends after 90s at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Protocol of the function: RunFunction, ResourceList (the default) or KRM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<FunctionProtocol>,
}

/// A server that answers requests over HTTPS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WebhookFunction {
    /// URL to which the control plane sends requests with POST. It must begin with https.
    pub url: String,
    /// CA certificates to trust, as PEM in base64. Defaults to those of the machine on which the control plane runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Timeout of a call, for example 30s. Defaults to 20s. A call ends after 90s at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Protocol of the function: RunFunction, ResourceList (the default) or KRM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<FunctionProtocol>,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum ImagePullPolicy {
    /// The registry is asked before every call what the tag stands for.
    Always,
    /// Once.
    IfNotPresent,
    /// Not at all: it has to be there.
    Never,
}

/// A Secret with the credentials of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ImagePullSecret {
    /// The name of the Secret.
    pub name: String,
    /// Namespace of the Secret. Defaults to crossplane-system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What a function may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FunctionNetwork {
    /// Network policy: Isolated (the default) gives the function no network, Runner that of the control plane. Runner requires an
    /// AccessGrant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<NetworkPolicy>,
}

/// Whether a function has a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum NetworkPolicy {
    /// It has none.
    Isolated,
    /// It has the network of the process that runs it.
    Runner,
}

/// What a function may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FunctionResources {
    /// Upper limits of the compute resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<FunctionLimits>,
}

/// The most that a function may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FunctionLimits {
    /// Memory, for example 128Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(transform = quantity))]
    pub memory: Option<serde_json::Value>,
    /// CPU limit, for example 500m for half a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "generate", schemars(transform = quantity))]
    pub cpu: Option<serde_json::Value>,
}

/// What a function reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub enum FunctionProtocol {
    /// A RunFunctionRequest, and a RunFunctionResponse, as JSON or YAML.
    RunFunction,
    /// A ResourceList of the alpha design, as JSON or YAML.
    ResourceList,
    /// A ResourceList of KRM functions, as JSON or YAML.
    KRM,
}
