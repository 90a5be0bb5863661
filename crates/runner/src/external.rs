//! Calls functions that are not servers: images that are run for every call, and webhooks.
//!
//! Takes the place of the built-in functions `function-container`, `function-chroot` and `function-webhook` where they are turned
//! on. What to call is the input of the step; what it may do is what the engine permits, which follows from grants.
//!
//! # Invariants
//! * Nothing runs without a container, or with a network, and no address of this machine is called, unless the permits of the call say
//!   so. The engine has refused such steps already; this is the second lock.
//! * Whatever the permits are, no link-local address is called.

mod webhook;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_engine::{
    ExternalCallee, ExternalFunction, ExternalImage, FunctionProtocol, FunctionType, Isolation, Permits,
    external_name,
};
use ferroplane_functions::stillness;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::credentials::Source;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::{Map, Value};

use crate::error::CallError;
use crate::exchange::{self, ExchangeError};
use crate::long_calls::LongCallSignal;

/// The version of the built-in functions whose place this takes.
const VERSION: &str = "v0.1.0";

/// The label of a composite resource that belongs to a claim.
const CLAIM_NAMESPACE: &str = "crossplane.io/claim-namespace";

/// What a call is made for, and what it may do.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// The step, for logs.
    pub step: String,
    pub permits: Permits,
    /// Signals that the call takes long.
    pub long_calls: Option<LongCallSignal>,
    /// What the call is made for, if the request does not have it: an operation or an ActionSet.
    pub subject: Option<Struct>,
}

/// An image that has to be run once.
#[derive(Debug, Clone)]
pub struct ImageCall {
    pub image: ExternalImage,
    /// The data of the Secrets with credentials for its registry.
    pub pull_secrets: Vec<BTreeMap<String, Bytes>>,
    pub standard_input: Bytes,
    pub timeout: Duration,
    pub has_network: bool,
    /// The time since 1970 and the randomness that code sees which was granted neither.
    pub stillness: (Duration, u64),
    /// Whose calls wait for each other: see [`tenant_of`].
    pub tenant: String,
    /// For logs.
    pub step: String,
    pub composite: String,
}

/// What an image did.
#[derive(Debug, Clone, Default)]
pub struct ImageOutput {
    pub standard_output: Vec<u8>,
    /// How it ended, unless it ended well.
    pub failure: Option<String>,
    /// The end of what it wrote to standard error.
    pub last_words: String,
}

type Running = Pin<Box<dyn Future<Output = Result<ImageOutput, CallError>> + Send>>;

/// Runs images.
#[derive(Clone)]
pub struct ImageRunner(Arc<dyn Fn(ImageCall) -> Running + Send + Sync>);

impl ImageRunner {
    pub fn new<F>(run: impl Fn(ImageCall) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<ImageOutput, CallError>> + Send + 'static,
    {
        Self(Arc::new(move |call| Box::pin(run(call))))
    }

    /// Run an image once.
    pub async fn run(&self, call: ImageCall) -> Result<ImageOutput, CallError> {
        (self.0)(call).await
    }
}

impl fmt::Debug for ImageRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ImageRunner")
    }
}

/// Calls images and webhooks. Clones share what they know.
#[derive(Debug, Clone)]
pub struct External {
    images: ImageRunner,
    webhooks: webhook::Client,
    /// Why no webhook is called, if none is.
    refuses_webhooks: Option<&'static str>,
}

impl External {
    pub fn new(images: ImageRunner) -> Self {
        Self { images, webhooks: webhook::Client::default(), refuses_webhooks: None }
    }

    /// The same, but it calls no webhooks, for this reason.
    #[must_use]
    pub fn refusing_webhooks(self, reason: &'static str) -> Self {
        Self { refuses_webhooks: Some(reason), ..self }
    }

    /// The functions whose place it takes, by the names of their revisions.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (String, ExternalRunner)> {
        let kinds = [FunctionType::Container, FunctionType::Chroot, FunctionType::Webhook];
        kinds.into_iter().map(|kind| {
            let name = format!("{}-{VERSION}", external_name(kind));
            (name, ExternalRunner { kind, external: self.clone() })
        })
    }

    /// Call what an [`ExternalFunction`] names.
    pub async fn call(
        &self,
        function: &ExternalFunction,
        request: &RunFunctionRequest,
        context: &CallContext,
    ) -> Result<RunFunctionResponse, CallError> {
        let text = exchange::encode(function, request).map_err(|error| bad_answer(function, &error))?;
        let answer = match &function.callee {
            ExternalCallee::Image(image) => self.run(function, image, request, text.into(), context).await?,
            ExternalCallee::Webhook { url, ca_bundle } => {
                // The request would leave from the network of the user who renders, which no grant in a file may
                // decide about.
                if let Some(reason) = self.refuses_webhooks {
                    return Err(CallError::Untrusted { url: url.clone(), reason });
                }
                let post = webhook::Post {
                    url,
                    ca_bundle: ca_bundle.as_deref(),
                    body: text.into(),
                    timeout: function.timeout,
                    may_be_local: context.permits.local_addresses,
                };
                self.webhooks.post(post).await?
            }
        };
        exchange::decode(function, request, &answer).map_err(|error| bad_answer(function, &error))
    }

    async fn run(
        &self,
        function: &ExternalFunction,
        image: &ExternalImage,
        request: &RunFunctionRequest,
        standard_input: Bytes,
        context: &CallContext,
    ) -> Result<Vec<u8>, CallError> {
        // Before the image is pulled: what may not run need not be fetched.
        check_permits(image, &context.permits)?;
        let call = ImageCall {
            image: image.clone(),
            pull_secrets: pull_secrets(image, request),
            standard_input,
            timeout: function.timeout,
            has_network: image.wants_network,
            stillness: stillness(request, context.subject.as_ref()),
            tenant: tenant_of(request, context.subject.as_ref()),
            step: context.step.clone(),
            composite: composite_of(request),
        };
        let output = self.images.run(call).await?;
        let Some(how) = output.failure else { return Ok(output.standard_output) };
        // KRM functions write why they fail to standard output, and end with an error nevertheless.
        let has_said = function.protocol != FunctionProtocol::RunFunction;
        let said = has_said.then(|| exchange::last_words(function, &output.standard_output)).flatten();
        // A RunFunction program that fails has written no answer: standard error is all that there is.
        let said = said.unwrap_or_else(|| output.last_words.trim().to_owned());
        let said = if said.is_empty() { said } else { format!("; it said:\n{said}") };
        Err(CallError::Ended { how, said })
    }
}

/// One of the built-in functions, turned on.
#[derive(Debug, Clone)]
pub struct ExternalRunner {
    kind: FunctionType,
    external: External,
}

impl ExternalRunner {
    /// What is said to be called, in metrics and traces: nothing that a Composition writes.
    pub(crate) fn target(&self) -> &'static str {
        match self.kind {
            FunctionType::Container => "container",
            FunctionType::Chroot => "chroot",
            FunctionType::Webhook => "webhook",
        }
    }

    pub(crate) async fn call(
        &self,
        request: &RunFunctionRequest,
        context: &CallContext,
    ) -> Result<RunFunctionResponse, CallError> {
        let function = external_name(self.kind);
        let invalid = |reason: String| CallError::Input { function: function.to_owned(), reason };
        let input = request.input.as_ref().ok_or_else(|| invalid("it is missing".to_owned()))?;
        let input = input.json().map_err(|error| invalid(error.to_string()))?;
        let function =
            ExternalFunction::read(self.kind, input).map_err(|error| invalid(error.to_string()))?;
        self.external.call(&function, request, context).await
    }
}

fn check_permits(image: &ExternalImage, permits: &Permits) -> Result<(), CallError> {
    let what = match image.isolation {
        Isolation::Chroot if !permits.chroot => "run without a container",
        Isolation::Container if image.wants_network && !permits.network => "use the network",
        _ => return Ok(()),
    };
    Err(CallError::NotPermitted { image: image.reference.clone(), what })
}

fn pull_secrets(image: &ExternalImage, request: &RunFunctionRequest) -> Vec<BTreeMap<String, Bytes>> {
    let secrets = image.pull_credentials.iter().filter_map(|name| {
        let Source::CredentialData(data) = request.credentials.get(name)?.source.as_ref()?;
        Some(data.data.clone())
    });
    secrets.collect()
}

/// The tenant that a call is made for: the namespace of the composite resource, or else that of its claim. A composite resource that has
/// neither is a tenant of its own. The subject counts if the request has no composite resource.
pub(crate) fn tenant_of(request: &RunFunctionRequest, subject: Option<&Struct>) -> String {
    let object = composite(request).or_else(|| subject?.json().ok());
    let metadata = object.and_then(|object| object.get("metadata"));
    let namespace = metadata.and_then(|metadata| metadata.get("namespace")?.as_str());
    let claimed = metadata.and_then(|metadata| metadata.get("labels")?.get(CLAIM_NAMESPACE)?.as_str());
    let namespace = namespace.or(claimed).filter(|namespace| !namespace.is_empty());
    namespace.map_or_else(|| object.map(name_of).unwrap_or_default(), str::to_owned)
}

fn composite(request: &RunFunctionRequest) -> Option<&Map<String, Value>> {
    request.observed.as_ref()?.composite()?.resource.as_ref()?.json().ok()
}

/// The composite resource that a request is about, for logs.
fn composite_of(request: &RunFunctionRequest) -> String {
    composite(request).map(name_of).unwrap_or_default()
}

fn name_of(object: &Map<String, Value>) -> String {
    let of = |field: &str| {
        object.get("metadata").and_then(|metadata| metadata.get(field)?.as_str()).unwrap_or_default()
    };
    let kind = object.get("kind").and_then(|kind| kind.as_str()).unwrap_or_default();
    match of("namespace") {
        "" => format!("{kind}/{}", of("name")),
        namespace => format!("{kind}/{namespace}/{}", of("name")),
    }
}

fn bad_answer(function: &ExternalFunction, error: &ExchangeError) -> CallError {
    let target = match &function.callee {
        ExternalCallee::Image(image) => format!("image `{}`", image.reference),
        ExternalCallee::Webhook { url, .. } => format!("webhook `{url}`"),
    };
    CallError::BadAnswer { target, reason: ferroplane_engine::chain(error) }
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::from_json;
    use serde_json::json;

    use super::*;

    #[test]
    fn composite_resources_of_a_namespace_or_of_its_claims_are_one_tenant() {
        let app = |metadata: Value| json!({"kind": "App", "metadata": metadata});
        let tenant = |metadata: Value| {
            let request = json!({"observed": {"composite": {"resource": app(metadata)}}});
            tenant_of(&from_json(&request).expect("a request"), None)
        };
        assert_eq!(tenant(json!({"name": "a", "namespace": "shop"})), "shop");
        assert_eq!(tenant(json!({"name": "a-x1", "labels": {CLAIM_NAMESPACE: "shop"}})), "shop");
        assert_eq!(tenant(json!({"name": "a", "labels": {"team": "shop"}})), "App/a");
        let nothing = RunFunctionRequest::default();
        let subject = app(json!({"name": "a", "namespace": "shop"})).as_object().cloned().expect("an object");
        let subject = Struct::try_from(subject).expect("a subject");
        assert_eq!(tenant_of(&nothing, Some(&subject)), "shop");
        assert_eq!(tenant_of(&nothing, None), "");
    }
}
