//! Functions that are images: what their manifests say about how to run them, and how they are started.

use ferroplane_api::Function;
use ferroplane_engine::{ImagePullPolicy, chain};
use ferroplane_runner::{FunctionGrants, ImageSource, Images, Runner, ServeImage, grpc};

use super::functions::other_ways;
use crate::manifest::{Located, Manifest};

/// Annotations of Crossplane's `render` for functions that it runs with Docker. The others are about Docker itself.
const IMAGE: &str = "render.crossplane.io/runtime-docker-image";
const VARIABLES: &str = "render.crossplane.io/runtime-docker-env";
const PULL_POLICY: &str = "render.crossplane.io/runtime-docker-pull-policy";

/// A function that is served in a container.
#[derive(Debug, Clone)]
pub(super) struct ImageFunction {
    name: String,
    image: String,
    policy: Option<ImagePullPolicy>,
    environment: Vec<(String, String)>,
    /// Where to point at if it cannot be started.
    manifest: Manifest,
    /// Why nothing that is built in runs in its place.
    why: String,
}

impl ImageFunction {
    /// What a Function says about its image.
    pub(super) fn of(function: &Function, manifest: &Manifest, why: &str) -> Result<Self, Located> {
        let name = &function.metadata.name;
        let annotation = |key: &str| function.metadata.annotations.get(key).map(String::as_str);
        let error = |key: &str, message: &str| {
            manifest.error(&["metadata", "annotations", key], format!("function `{name}`: {message}"))
        };
        let policy = match annotation(PULL_POLICY) {
            None => None,
            Some("Always") => Some(ImagePullPolicy::Always),
            Some("IfNotPresent") => Some(ImagePullPolicy::IfNotPresent),
            Some("Never") => Some(ImagePullPolicy::Never),
            Some(_) => return Err(error(PULL_POLICY, "expected `Always`, `IfNotPresent` or `Never`")),
        };
        let variables = annotation(VARIABLES).unwrap_or_default();
        let variables = variables.split(',').filter(|variable| !variable.trim().is_empty());
        let pairs = variables.map(|variable| variable.trim().split_once('='));
        let environment = pairs
            .map(|pair| pair.map(|(key, value)| (key.to_owned(), value.to_owned())))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| error(VARIABLES, "expected variables as in `A=1,B=2`"))?;
        Ok(Self {
            name: name.clone(),
            image: annotation(IMAGE).unwrap_or(&function.spec.package).to_owned(),
            policy,
            environment,
            manifest: manifest.clone(),
            why: why.to_owned(),
        })
    }

    /// Start it, and wait until it listens.
    pub(super) async fn start(
        &self,
        images: Option<&Images>,
        options: grpc::Options,
    ) -> anyhow::Result<Runner> {
        let Some(images) = images else { return Err(self.cannot_run("images are not run here").into()) };
        let source = ImageSource::reference(&self.image).with_policy(self.policy);
        // Files of others may be rendered: code is granted nothing.
        let unserved = images.unserved_function(&self.name, &source, FunctionGrants::default()).await;
        if let Some(runner) = unserved.map_err(|error| self.cannot_run(&chain(&error)))? {
            return Ok(runner);
        }
        let mut serve = ServeImage::function(&self.name, source);
        serve.environment.clone_from(&self.environment);
        serve.patience = options.timeout;
        serve.options = options;
        let served = images.serve(serve).await.map_err(|error| self.cannot_run(&chain(&error)))?;
        Ok(Runner::Served(Box::new(served)))
    }

    fn cannot_run(&self, reason: &str) -> Located {
        let Self { name, image, why, .. } = self;
        let message = format!(
            "function `{name}`: cannot run the image `{image}`: {reason}\n\
             The package {why}; besides, you can {}",
            other_ways()
        );
        self.manifest.error(&["metadata", "name"], message)
    }
}
