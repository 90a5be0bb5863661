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

/// The API group of operations.
const OPERATIONS: &str = "ops.crossplane.io";

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
    /// Whether the step is the first one of its pipeline, so that no step before it can have dropped a resource.
    pub is_first_step: bool,
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

/// The tenant that a call is made for: the namespace of the composite resource, or else that of its claim. The subject counts if the request
/// has no composite resource.
///
/// What has no namespace shares with all others of its kind, and an operation with those of the same `CronOperation` or `WatchOperation`:
/// ten thousand of them must not have ten thousand shares.
pub(crate) fn tenant_of(request: &RunFunctionRequest, subject: Option<&Struct>) -> String {
    let Some(object) = composite(request).or_else(|| subject?.json().ok()) else { return String::new() };
    let namespace = object.get("metadata").and_then(|metadata| metadata.get("namespace")?.as_str());
    let namespace = namespace.filter(|name| !name.is_empty()).or_else(|| namespace_of_claim(object));
    if let Some(namespace) = namespace {
        return namespace.to_owned();
    }
    parent_of_operation(object).unwrap_or_else(|| group_and_kind(object).join("/"))
}

/// A user who writes a composite resource can choose its labels, and must not let another namespace pay. The XR of a claim has a reference to
/// the claim, too.
fn namespace_of_claim(object: &Map<String, Value>) -> Option<&str> {
    let label = object.get("metadata")?.get("labels")?.get(CLAIM_NAMESPACE)?.as_str()?;
    let claim = object.get("spec")?.get("claimRef")?.get("namespace")?.as_str()?;
    (label == claim && !label.is_empty()).then_some(label)
}

/// What made an operation, as `KIND/NAME`. Its labels do not count here, either.
fn parent_of_operation(object: &Map<String, Value>) -> Option<String> {
    if group_and_kind(object) != [OPERATIONS, "Operation"] {
        return None;
    }
    let owners = object.get("metadata")?.get("ownerReferences")?.as_array()?;
    let mut owners = owners.iter().filter_map(Value::as_object);
    let parent = owners.find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    let ([group, kind], name) = (group_and_kind(parent), parent.get("name")?.as_str()?);
    let makes_operations = group == OPERATIONS && ["CronOperation", "WatchOperation"].contains(&kind);
    makes_operations.then(|| format!("{kind}/{name}"))
}

/// The API group and the kind of an object, or of what a reference is about.
fn group_and_kind(object: &Map<String, Value>) -> [&str; 2] {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    [text("apiVersion").split_once('/').map_or("", |(group, _)| group), text("kind")]
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

    fn tenant(object: &Value) -> String {
        let request = json!({"observed": {"composite": {"resource": object}}});
        tenant_of(&from_json(&request).expect("a request"), None)
    }

    /// The tenant of an operation, which its requests do not have.
    fn tenant_of_operation(metadata: &Value) -> String {
        let operation =
            json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": metadata});
        let operation = operation.as_object().cloned().expect("an object");
        let subject = Struct::try_from(operation).expect("a subject");
        tenant_of(&RunFunctionRequest::default(), Some(&subject))
    }

    #[test]
    fn composite_resources_of_a_namespace_or_of_its_claims_are_one_tenant() {
        let app = |metadata: Value| json!({"kind": "App", "metadata": metadata});
        assert_eq!(tenant(&app(json!({"name": "a", "namespace": "shop"}))), "shop");
        let mut claimed = app(json!({"name": "a-x1", "labels": {CLAIM_NAMESPACE: "shop"}}));
        claimed["spec"] = json!({"claimRef": {"namespace": "shop", "name": "a"}});
        assert_eq!(tenant(&claimed), "shop");
        let nothing = RunFunctionRequest::default();
        let subject = app(json!({"name": "a", "namespace": "shop"})).as_object().cloned().expect("an object");
        let subject = Struct::try_from(subject).expect("a subject");
        assert_eq!(tenant_of(&nothing, Some(&subject)), "shop");
        assert_eq!(tenant_of(&nothing, None), "");
    }

    #[test]
    fn label_alone_does_not_let_another_namespace_pay() {
        let labelled = |spec: Value| {
            let metadata = json!({"name": "a", "labels": {CLAIM_NAMESPACE: "victim"}});
            tenant(
                &json!({"apiVersion": "example.org/v1", "kind": "App", "metadata": metadata, "spec": spec}),
            )
        };
        assert_eq!(labelled(json!({})), "example.org/App");
        assert_eq!(labelled(json!({"claimRef": {"namespace": "shop"}})), "example.org/App");
    }

    #[test]
    fn objects_without_a_namespace_are_one_tenant_for_each_kind() {
        let app = |name: &str, version: &str| {
            tenant(
                &json!({"apiVersion": format!("example.org/{version}"), "kind": "App", "metadata": {"name": name}}),
            )
        };
        assert_eq!(app("a", "v1"), "example.org/App");
        assert_eq!(app("b", "v2"), "example.org/App");
        assert_eq!(tenant(&json!({"kind": "App", "metadata": {"labels": {"team": "shop"}}})), "/App");
    }

    #[test]
    fn operations_of_a_schedule_are_one_tenant() {
        let owned = |name: &str, kind: &str, is_controller: bool| {
            let owner = json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": kind, "name": "nightly", "controller": is_controller});
            let labels = json!({"ops.crossplane.io/cronoperation": "victim"});
            tenant_of_operation(&json!({"name": name, "labels": labels, "ownerReferences": [owner]}))
        };
        for name in ["a", "b"] {
            assert_eq!(owned(name, "CronOperation", true), "CronOperation/nightly");
            assert_eq!(owned(name, "WatchOperation", true), "WatchOperation/nightly");
            assert_eq!(tenant_of_operation(&json!({"name": name})), "ops.crossplane.io/Operation");
        }
        assert_eq!(owned("a", "CronOperation", false), "ops.crossplane.io/Operation");
        assert_eq!(owned("a", "Other", true), "ops.crossplane.io/Operation");
    }
}
