//! Prepares requests for images: the reference as `ImageConfig`s rewrite it, and the contents of pull secrets.
//!
//! Pull secrets are those of the package, that of an `ImageConfig`, and those of the plane's own service account, in this order: the first with
//! a credential for the registry counts. Follows crossplane 2.4.0, which asks registries with its own service account.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ferroplane_api::image::ImageReference;
use ferroplane_api::{Cause, ImageConfig, NameReference, Object};
use ferroplane_client::{Error, ObjectPath, Resource};
use ferroplane_engine::packages::{AppliedImageConfig, ImagePurpose, rewrite_image, select_image_config};
use serde_json::{Value, json};

use super::deployments::Deployments;
use super::verification::SignatureDemands;
use super::{ImageRequest, Manager, PackagePullPolicy, SourceError};

/// A prepared request. Two that differ were prepared with other `ImageConfig`s or Secrets.
#[derive(Debug, PartialEq)]
pub(super) struct PreparedImage {
    pub(super) request: ImageRequest,
    /// The configs that were used.
    pub(super) applied: Vec<AppliedImageConfig>,
    /// The signatures that an `ImageConfig` requires, if one does.
    pub(super) demands: Option<SignatureDemands>,
    /// Pull secrets that are named and do not exist.
    missing: Vec<String>,
}

/// Why an image cannot be requested.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImageProblem {
    #[error("cannot read Secret `{name}` in namespace `{namespace}`")]
    Secret { name: String, namespace: String, source: Error },
    /// A key, a trusted root or a credential is in a Secret that cannot be read.
    #[error("cannot use `{image}`: it cannot be verified as ImageConfig `{config}` demands")]
    Unverifiable { image: String, config: String, source: Box<Self> },
}

impl ImageProblem {
    /// The cause that conditions name.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Secret { .. } => Cause::PackageUnavailable,
            Self::Unverifiable { .. } => Cause::PackageUnverified,
        }
    }

    /// Whether the API server does not answer, which is not about the image.
    pub(super) fn is_unreachable(&self) -> bool {
        match self {
            Self::Secret { source, .. } => matches!(source, Error::Unreachable(_)),
            Self::Unverifiable { source, .. } => source.is_unreachable(),
        }
    }
}

impl PreparedImage {
    /// The same image by its digest: a tag may move at any time.
    pub(super) fn pinned(&self, digest: &str) -> ImageRequest {
        let repository = ImageReference::parse(&self.request.image).repository;
        ImageRequest { image: format!("{repository}@{digest}"), ..self.request.clone() }
    }

    /// The digest in the reference, if it has one.
    pub(super) fn digest(&self) -> Option<&str> {
        ImageReference::parse(&self.request.image).digest
    }

    /// Why the image cannot be fetched, with pull secrets that are missing.
    pub(super) fn explain(&self, error: &SourceError) -> String {
        match &self.missing[..] {
            // A missing pull secret is no failure by itself: the image may be public. It is only reported if the
            // pull failed.
            [] => error.message.clone(),
            missing => format!("{}; there is no pull secret `{}`", error.message, missing.join("`, `")),
        }
    }

    /// The form in the status.
    pub(super) fn applied_refs(&self) -> Value {
        applied_refs(&self.applied)
    }
}

/// Configs that were used, as the status lists them.
pub(super) fn applied_refs(applied: &[AppliedImageConfig]) -> Value {
    let reference =
        |config: &AppliedImageConfig| json!({"name": config.name, "reason": config.purpose.reason()});
    applied.iter().map(reference).collect()
}

impl Manager {
    /// Prepare the request for an image. The revisions of its package tell what is verified.
    pub(super) async fn prepare_image(
        &self,
        image: &str,
        secrets: &[NameReference],
        policy: Option<&str>,
        revisions: &[Object],
    ) -> Result<PreparedImage, ImageProblem> {
        let configs: Vec<_> = self.image_configs.objects().iter().map(ImageConfig::of).collect();
        let mut applied = Vec::new();
        let mut resolved = image.to_owned();
        if let Some(rewritten) = rewrite_image(&configs, image) {
            resolved = rewritten.image;
            applied.push(rewritten.by);
        }
        let mut demands = None;
        // By the rewritten name: a mirror has its own credentials and signatures.
        if let Some(config) = select_image_config(&configs, &resolved, ImagePurpose::Verify) {
            let read = self.signature_demands(config).await;
            demands = Some(read.map_err(|source| ImageProblem::Unverifiable {
                image: resolved.clone(),
                config: config.name.clone(),
                source: Box::new(source),
            })?);
            applied.push(AppliedImageConfig { name: config.name.clone(), purpose: ImagePurpose::Verify });
        }
        let own = self.deployments.as_ref().map(Deployments::own_pull_secrets).unwrap_or_default();
        let mut names: Vec<&str> = secrets.iter().map(|secret| &*secret.name).collect();
        if let Some(config) = select_image_config(&configs, &resolved, ImagePurpose::PullSecret) {
            names.extend(config.pull_secret());
            applied.push(AppliedImageConfig { name: config.name.clone(), purpose: ImagePurpose::PullSecret });
        }
        names.extend(own.iter().map(String::as_str));
        let (pull_secrets, missing) = self.pull_secrets(&names).await.map_err(|problem| match &demands {
            // Without its credentials no signature can be read, which must not let an image run that was refused.
            Some(demands) if !self.has_verified(demands, image, revisions) => ImageProblem::Unverifiable {
                image: resolved.clone(),
                config: demands.config.clone(),
                source: Box::new(problem),
            },
            _ => problem,
        })?;
        let request = ImageRequest { image: resolved, policy: PackagePullPolicy::of(policy), pull_secrets };
        Ok(PreparedImage { request, applied, demands, missing })
    }

    /// The contents of pull secrets, and the names of those that do not exist.
    async fn pull_secrets(&self, names: &[&str]) -> Result<(Vec<Vec<u8>>, Vec<String>), ImageProblem> {
        let (mut pull_secrets, mut missing, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
        // Packages often name the same Secret as the service account: it is read once.
        for name in names.iter().filter(|name| !name.is_empty() && known.insert(**name)) {
            match self.pull_secret(name).await? {
                Some(content) => pull_secrets.push(content),
                None => missing.push((*name).to_owned()),
            }
        }
        Ok((pull_secrets, missing))
    }

    /// The contents of a pull secret, if it exists and is usable. It is read each time: a cached Secret would stay in memory.
    async fn pull_secret(&self, name: &str) -> Result<Option<Vec<u8>>, ImageProblem> {
        Ok(self.secret(name).await?.as_ref().and_then(docker_config))
    }

    /// A Secret in the namespace of the control plane.
    pub(super) async fn secret(&self, name: &str) -> Result<Option<Object>, ImageProblem> {
        let resource = Resource {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            plural: "secrets".to_owned(),
            is_namespaced: true,
        };
        let namespace = &*self.options.namespace;
        let path = ObjectPath { resource: &resource, namespace, name };
        let found = self.context.cluster.get_object(path).await;
        found.map_err(|source| ImageProblem::Secret {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            source,
        })
    }
}

fn docker_config(secret: &Object) -> Option<Vec<u8>> {
    let data = secret.get("data")?;
    // The second is the older form, `kubernetes.io/dockercfg`, which kubelets still read.
    let content = data.get(".dockerconfigjson").or_else(|| data.get(".dockercfg"))?;
    decode(content)
}

/// The value of a key of a Secret.
pub(super) fn secret_value(secret: &Object, key: &str) -> Option<Vec<u8>> {
    decode(secret.get("data")?.get(key)?).filter(|value| !value.is_empty())
}

fn decode(value: &Value) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(value.as_str()?).ok()
}
