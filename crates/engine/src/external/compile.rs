//! Compiles the `functions` array of a Composition to steps.

use ferroplane_api::{
    CompositionFunction, CompositionSpec, Credential, CredentialSource, FunctionProtocol, FunctionRef,
    FunctionType, ImagePullSecret, Object, SecretRef, Step,
};
use serde_json::{Value, json};

use super::{ExternalFunction, row, shortened_timeout};
use crate::pipeline::PipelineError;

/// The namespace of registry Secrets, unless a Composition names another one.
const SECRETS_NAMESPACE: &str = "crossplane-system";
/// The name of the step that detects which resources are ready, and the function that it calls.
pub const READINESS_STEP: (&str, &str) = ("ferroplane.io/readiness", "function-auto-ready");

/// The steps for the functions of a composition, in the order of the array.
pub(crate) fn alpha_steps(spec: &CompositionSpec) -> Vec<Step> {
    let mut steps: Vec<_> = spec.functions.iter().map(to_step).collect();
    if let Some(first) = steps.first_mut().filter(|_| spec.resources.is_empty())
        && let Some(input) = &mut first.input
    {
        // Without resources, no step before the first function can desire what exists: it alone decides what stays.
        input.insert("seesUnwantedResources".to_owned(), true.into());
    }
    if !steps.is_empty() {
        steps.push(readiness_step());
    }
    steps
}

/// Refuse functions that cannot be steps.
pub(crate) fn check_functions(spec: &CompositionSpec) -> Result<(), PipelineError> {
    if spec.functions.is_empty() {
        return Ok(());
    }
    if !spec.pipeline.is_empty() {
        return Err(PipelineError::PipelineAndFunctions);
    }
    for function in &spec.functions {
        let fail = |field: &str, problem: &str| PipelineError::Function {
            step: function.name.clone(),
            field: field.to_owned(),
            problem: problem.to_owned(),
        };
        if settings(function).is_none() {
            return Err(fail(field_of(function.r#type), "the field that belongs to the type is missing"));
        }
        let step = to_step(function);
        let input = step.input.unwrap_or_default();
        ExternalFunction::read(function.r#type, &input).map_err(|error| {
            fail(&format!("{}.{}", field_of(function.r#type), error.field), &error.problem)
        })?;
    }
    Ok(())
}

fn to_step(function: &CompositionFunction) -> Step {
    let (_, name, api_version) = row(function.r#type);
    let mut input = settings(function).unwrap_or_default();
    input.insert("apiVersion".to_owned(), (*api_version).into());
    input.insert("kind".to_owned(), format!("{:?}", function.r#type).into());
    input.entry("protocol").or_insert_with(|| json!(FunctionProtocol::ResourceList));
    if let Some(timeout) = input.get("timeout").and_then(Value::as_str).and_then(shortened_timeout) {
        input.insert("timeout".to_owned(), timeout.into());
    }
    if let Some(config) = &function.config {
        input.insert("config".to_owned(), Value::Object(config.clone()));
    }
    let secrets = pull_secrets(function);
    if !secrets.is_empty() {
        // The namespaces are in the credentials of the step, where access to them is decided.
        let names: Vec<_> = secrets.iter().map(|secret| json!({"name": secret.name})).collect();
        input.insert("imagePullSecrets".to_owned(), names.into());
    }
    Step {
        step: function.name.clone(),
        function_ref: FunctionRef { name: (*name).to_owned(), version: None },
        function_revision_ref: None,
        function_revision_selector: None,
        input: Some(input),
        input_ref: None,
        credentials: secrets.iter().map(credential).collect(),
        requirements: None,
    }
}

/// The field that says what to call, as JSON.
fn settings(function: &CompositionFunction) -> Option<Object> {
    let settings = match function.r#type {
        FunctionType::Container => function.container.as_ref().map(|settings| json!(settings)),
        FunctionType::Chroot => function.chroot.as_ref().map(|settings| json!(settings)),
        FunctionType::Webhook => function.webhook.as_ref().map(|settings| json!(settings)),
    };
    match settings? {
        Value::Object(settings) => Some(settings),
        _ => None,
    }
}

fn field_of(kind: FunctionType) -> &'static str {
    match kind {
        FunctionType::Container => "container",
        FunctionType::Chroot => "chroot",
        FunctionType::Webhook => "webhook",
    }
}

fn pull_secrets(function: &CompositionFunction) -> &[ImagePullSecret] {
    match function.r#type {
        FunctionType::Container => function.container.as_ref().map(|it| &it.image_pull_secrets[..]),
        FunctionType::Chroot => function.chroot.as_ref().map(|it| &it.image_pull_secrets[..]),
        FunctionType::Webhook => None,
    }
    .unwrap_or_default()
}

fn credential(secret: &ImagePullSecret) -> Credential {
    let namespace = secret.namespace.clone().unwrap_or_else(|| SECRETS_NAMESPACE.to_owned());
    Credential {
        name: secret.name.clone(),
        source: CredentialSource::Secret,
        secret_ref: Some(SecretRef { namespace, name: secret.name.clone() }),
    }
}

/// The step that detects readiness. A `ResourceList` need not set it, and without this step no such composite resource would become
/// ready.
fn readiness_step() -> Step {
    Step {
        step: READINESS_STEP.0.to_owned(),
        function_ref: FunctionRef { name: READINESS_STEP.1.to_owned(), version: None },
        function_revision_ref: None,
        function_revision_selector: None,
        input: None,
        input_ref: None,
        credentials: Vec::new(),
        requirements: None,
    }
}
