//! The steps of a composition, prepared to run.

use std::collections::BTreeSet;

use ferroplane_api::{self as api, Cause, FailurePoint};
use ferroplane_wire::v1::{ResourceSelector, SchemaSelector, resource_selector::Match};
use ferroplane_wire::{Struct, StructError, v1};

use crate::advice::VersionWarning;
use crate::external::{check_functions, external_type};
use crate::resources::{check_patches, to_pipeline};
use crate::versions::{
    Advisory, Catalogue, LifecycleState, Question, Unresolved, Version, resolve_preferring,
};

/// The steps of a composition, prepared once and shared by every run.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) steps: Vec<Step>,
}

/// One step of a pipeline.
#[derive(Debug, Clone)]
pub struct Step {
    pub name: String,
    pub function: String,
    /// The version to call, once it is resolved.
    pub callee: Option<Callee>,
    question: Question,
    pub(crate) input: Option<Struct>,
    /// The object that is used as the input.
    pub(crate) input_ref: Option<ResourceSelector>,
    pub(crate) credentials: Vec<(String, api::SecretRef)>,
    pub(crate) resources: Vec<(String, ResourceSelector)>,
    pub(crate) schemas: Vec<(String, SchemaSelector)>,
}

/// The version of a function that a step calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callee {
    /// The name of the revision: what to call.
    pub revision: String,
    pub version: Option<Version>,
    /// The name of the built-in revision whose code runs in place of a package's.
    pub built_in: Option<String>,
    pub state: LifecycleState,
    /// Warnings for the user.
    pub advisories: Vec<Advisory>,
}

impl Callee {
    /// Whether its function has no versions, such as a program or a server of a developer. A package can be tagged `v0.0.0`, but the
    /// names of its revisions end with a digest.
    pub fn is_unversioned(&self) -> bool {
        let unversioned = Version::UNVERSIONED;
        self.version.as_ref() == Some(&unversioned) && self.revision.contains(&format!("-{unversioned}"))
    }

    /// The name of the revision whose code runs.
    pub fn code(&self) -> &str {
        self.built_in.as_deref().unwrap_or(&self.revision)
    }
}

/// A step whose function cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step `{step}`")]
pub struct UnresolvedStep {
    /// The index of the step.
    pub index: usize,
    pub step: String,
    pub source: Unresolved,
}

/// Why steps are no valid pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PipelineError {
    #[error("the pipeline has no steps")]
    Empty,
    #[error("a composition has either a `pipeline` or `functions`: make the functions steps of the pipeline")]
    PipelineAndFunctions,
    #[error("function `{step}`: {field}: {problem}")]
    Function { step: String, field: String, problem: String },
    #[error("two steps are named `{0}`")]
    DuplicateStep(String),
    #[error("cannot use the input of step `{step}`")]
    Input { step: String, source: StructError },
    #[error("step `{0}` has both `input` and `inputRef`")]
    TwoInputs(String),
    #[error("step `{step}`: credential `{credential}` needs `source: Secret` and a `secretRef`")]
    Credential { step: String, credential: String },
    #[error("step `{step}`: requirement `{requirement}` has both `name` and `matchLabels`")]
    NameAndLabels { step: String, requirement: String },
    #[error(
        "`{patch}` writes `{path}` of the composite resource, and with `mode: Resources` only `status` can be written: \
         patch a field of the status, or remove the patch"
    )]
    PatchOfComposite { patch: String, path: String },
}

impl UnresolvedStep {
    /// The cause and the step.
    pub fn point(&self) -> FailurePoint {
        FailurePoint::new(self.source.cause()).in_step(&self.step)
    }
}

impl PipelineError {
    /// The cause and the step.
    pub fn point(&self) -> FailurePoint {
        let step = match self {
            Self::Empty | Self::PipelineAndFunctions | Self::PatchOfComposite { .. } => "",
            Self::DuplicateStep(step)
            | Self::TwoInputs(step)
            | Self::Function { step, .. }
            | Self::Input { step, .. }
            | Self::Credential { step, .. }
            | Self::NameAndLabels { step, .. } => step,
        };
        FailurePoint::new(Cause::PipelineInvalid).in_step(step)
    }
}

impl Pipeline {
    /// Prepare the steps of a composition, in any of its forms.
    pub fn of(spec: &api::CompositionSpec) -> Result<Self, PipelineError> {
        check_patches(spec)?;
        check_functions(spec)?;
        Self::new(&to_pipeline(spec))
    }

    /// Prepare steps.
    pub fn new(steps: &[api::Step]) -> Result<Self, PipelineError> {
        if steps.is_empty() {
            return Err(PipelineError::Empty);
        }
        let mut seen = BTreeSet::new();
        // Requirements, events and recordings are kept by the name of the step.
        if let Some(twice) = steps.iter().find(|step| !seen.insert(&step.step)) {
            return Err(PipelineError::DuplicateStep(twice.step.clone()));
        }
        Ok(Self { steps: steps.iter().map(Step::new).collect::<Result<_, _>>()? })
    }

    /// Resolve the version for every step, before any function is called.
    pub fn resolve(self, catalogue: &Catalogue) -> Result<Self, UnresolvedStep> {
        self.resolve_preferring(catalogue, |_| None)
    }

    /// The same, with preferred revisions by function, for steps that name no revision.
    pub fn resolve_preferring<'p>(
        mut self,
        catalogue: &Catalogue,
        preferred: impl Fn(&str) -> Option<&'p str>,
    ) -> Result<Self, UnresolvedStep> {
        // All before the first call: a pipeline that would fail at its last step must not begin.
        for (index, step) in self.steps.iter_mut().enumerate() {
            let resolution =
                resolve_preferring(catalogue, &step.question, preferred(&step.question.function));
            let resolution =
                resolution.map_err(|source| UnresolvedStep { index, step: step.name.clone(), source })?;
            step.callee = Some(Callee {
                revision: resolution.record.revision.name.clone(),
                version: resolution.record.version.clone(),
                built_in: resolution.record.built_in.clone(),
                state: resolution.state,
                advisories: resolution.advisories,
            });
        }
        Ok(self)
    }

    /// Warnings about the versions that run, with their steps.
    pub fn advisories(&self) -> impl Iterator<Item = VersionWarning> {
        self.steps.iter().flat_map(|step| {
            let advisories = step.callee.iter().flat_map(|callee| &callee.advisories);
            advisories.map(|advisory| VersionWarning::new(&step.name, advisory))
        })
    }

    /// Whether another pipeline of the same composition calls the same versions.
    pub fn calls_the_same_as(&self, other: &Self) -> bool {
        let callees = |pipeline: &'_ Self| -> Vec<_> {
            pipeline.steps.iter().map(|step| (step.name.clone(), step.callee.clone())).collect()
        };
        callees(self) == callees(other)
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl Step {
    /// The question about its function.
    pub(crate) fn question(&self) -> &Question {
        &self.question
    }

    /// How its function runs something else, if it does.
    pub(crate) fn external_type(&self) -> Option<api::FunctionType> {
        // By the resolved name, too: a Function can stand for a built-in one under another name.
        let revision = self.callee.as_ref().and_then(|callee| callee.code().rsplit_once("-v"));
        external_type(&self.function).or_else(|| external_type(revision?.0))
    }

    fn new(step: &api::Step) -> Result<Self, PipelineError> {
        if step.input.is_some() && step.input_ref.is_some() {
            return Err(PipelineError::TwoInputs(step.step.clone()));
        }
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
            callee: None,
            question: question(step),
            input: input.map_err(|source| PipelineError::Input { step: step.step.clone(), source })?,
            input_ref: step.input_ref.as_ref().map(input_selector),
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

/// What a step says about the function that it calls.
pub(crate) fn question(step: &api::Step) -> Question {
    Question {
        revision: step.function_revision_ref.as_ref().map(|reference| reference.name.clone()),
        labels: step.function_revision_selector.as_ref().map(|selector| selector.match_labels.clone()),
        version: step.function_ref.version.clone().filter(|version| !version.is_empty()),
        ..Question::about(&step.function_ref.name)
    }
}

fn secret_of(step: &api::Step, credential: &api::Credential) -> Result<api::SecretRef, PipelineError> {
    match (credential.source, &credential.secret_ref) {
        (api::CredentialSource::Secret, Some(secret)) => Ok(secret.clone()),
        _ => Err(PipelineError::Credential { step: step.step.clone(), credential: credential.name.clone() }),
    }
}

fn input_selector(reference: &api::InputRef) -> ResourceSelector {
    ResourceSelector {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        r#match: Some(Match::MatchName(reference.name.clone())),
        namespace: reference.namespace.clone(),
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
