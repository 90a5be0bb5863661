//! What has to be known before a pipeline can run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api as api;
use ferroplane_wire::v1::{ResourceSelector, SchemaSelector, resource_selector::Match};
use ferroplane_wire::{Struct, StructError, v1};

/// Everything a pipeline run starts from.
#[derive(Debug, Clone)]
pub struct Inputs {
    /// The composite resource, as it was read.
    pub composite: Struct,
    pub layout: Layout,
    /// What the composite resource's connection secret holds.
    pub connection_details: BTreeMap<String, Bytes>,
    /// The composed resources that exist, by the name the composition knows them by.
    pub observed: BTreeMap<String, Observed>,
    pub pipeline: Arc<Pipeline>,
    /// What the steps asked for the last time: they get it up front.
    pub remembered: Vec<Requirement>,
    /// What the first step finds in its context.
    pub context: Option<Struct>,
}

/// Where the machinery of a composite resource lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Under `spec.crossplane`.
    Modern,
    /// Directly under `spec`; with claims and connection secrets.
    Legacy,
}

/// A composed resource that exists.
#[derive(Debug, Clone)]
pub struct Observed {
    pub object: Struct,
    pub connection_details: BTreeMap<String, Bytes>,
}

/// Something a step needs to see.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    pub step: String,
    pub name: String,
    pub selector: ResourceSelector,
}

/// The steps of a composition, made ready once and shared by every run.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) steps: Vec<Step>,
}

/// One step of a pipeline.
#[derive(Debug)]
pub struct Step {
    pub name: String,
    pub function: String,
    pub(crate) input: Option<Struct>,
    pub(crate) credentials: Vec<(String, api::SecretRef)>,
    pub(crate) resources: Vec<(String, ResourceSelector)>,
    pub(crate) schemas: Vec<(String, SchemaSelector)>,
}

/// Why steps are not a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PipelineError {
    #[error("the pipeline has no steps")]
    Empty,
    #[error("two steps are named `{0}`")]
    DuplicateStep(String),
    #[error("cannot use the input of step `{step}`")]
    Input { step: String, source: StructError },
    #[error("step `{step}`: credential `{credential}` needs `source: Secret` and a `secretRef`")]
    Credential { step: String, credential: String },
    #[error("step `{step}`: requirement `{requirement}` has both `name` and `matchLabels`")]
    NameAndLabels { step: String, requirement: String },
}

impl Pipeline {
    /// Make steps ready to run.
    pub fn new(steps: &[api::Step]) -> Result<Self, PipelineError> {
        if steps.is_empty() {
            return Err(PipelineError::Empty);
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = steps.iter().find(|step| !seen.insert(&step.step)) {
            return Err(PipelineError::DuplicateStep(twice.step.clone()));
        }
        Ok(Self { steps: steps.iter().map(Step::new).collect::<Result<_, _>>()? })
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl Step {
    fn new(step: &api::Step) -> Result<Self, PipelineError> {
        let input = step.input.clone().map(Struct::try_from).transpose();
        let requirements = step.requirements.clone().unwrap_or_default();
        let resources = requirements.required_resources.into_iter().map(|required| {
            let selector = resource_selector(&step.step, &required)?;
            Ok((required.requirement_name, selector))
        });
        let schemas = requirements.required_schemas.into_iter().map(|required| {
            let selector = SchemaSelector { api_version: required.api_version, kind: required.kind };
            (required.requirement_name, selector)
        });
        Ok(Self {
            name: step.step.clone(),
            function: step.function_ref.name.clone(),
            input: input.map_err(|source| PipelineError::Input { step: step.step.clone(), source })?,
            credentials: step
                .credentials
                .iter()
                .map(|credential| Ok((credential.name.clone(), secret_of(step, credential)?)))
                .collect::<Result<_, _>>()?,
            resources: resources.collect::<Result<_, _>>()?,
            schemas: schemas.collect(),
        })
    }
}

fn secret_of(step: &api::Step, credential: &api::Credential) -> Result<api::SecretRef, PipelineError> {
    match (credential.source, &credential.secret_ref) {
        (api::CredentialSource::Secret, Some(secret)) => Ok(secret.clone()),
        _ => Err(PipelineError::Credential { step: step.step.clone(), credential: credential.name.clone() }),
    }
}

fn resource_selector(
    step: &str,
    required: &api::RequiredResource,
) -> Result<ResourceSelector, PipelineError> {
    let by_labels = (!required.match_labels.is_empty())
        .then(|| Match::MatchLabels(v1::MatchLabels { labels: required.match_labels.clone() }));
    let by_name = required.name.clone().map(Match::MatchName);
    if by_labels.is_some() && by_name.is_some() {
        return Err(PipelineError::NameAndLabels {
            step: step.to_owned(),
            requirement: required.requirement_name.clone(),
        });
    }
    Ok(ResourceSelector {
        api_version: required.api_version.clone(),
        kind: required.kind.clone(),
        r#match: by_name.or(by_labels),
        namespace: required.namespace.clone(),
    })
}
