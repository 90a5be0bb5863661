//! The required resources of a step, and when its requirements are met.

use std::collections::BTreeMap;

use ferroplane_api::{SecretRef, meta};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::credentials::Source;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{
    CredentialData, Credentials, Requirements, Resource, ResourceSelector, Resources, RunFunctionRequest,
    RunFunctionResponse, Schema, Severity,
};

use crate::access::{Access, DeniedRead};
use crate::conversation::{Answer, Want};
use crate::external::{ExternalFunction, Permits};
use crate::failure::Failure;
use crate::run::Run;

/// What the current step was given before its first call, and its progress since.
#[derive(Debug, Default)]
pub(crate) struct StepInputs {
    pub(crate) credentials: BTreeMap<String, Credentials>,
    /// The objects that the composition requires for it.
    resources: BTreeMap<String, Resources>,
    pub(crate) schemas: BTreeMap<String, Schema>,
    pub(crate) input: Option<Struct>,
    /// What it may do beyond computing.
    pub(crate) permits: Permits,
    /// The requirements of the last run, by name, with the objects as they are now. They are passed before the first call, because the
    /// step will probably require them again.
    remembered: BTreeMap<String, (ResourceSelector, Resources)>,
    /// The requirements of the call before.
    pub(crate) previous: Option<Requirements>,
    pub(crate) calls: u32,
    /// How many calls were discarded, because they were given answers to outdated requirements.
    discarded: u32,
    /// Whether the requirements of the last run were dropped.
    pub(crate) has_started_over: bool,
}

/// How to continue after a response.
pub(crate) enum Resolution {
    Settled,
    Fetch(Vec<Want>),
    /// The step requires objects that it may not read.
    Denied(Failure),
}

impl StepInputs {
    /// What the step is known to require: its credentials, the requirements in the composition, and those of the last run.
    pub(crate) fn wants_up_front(run: &Run) -> Result<Vec<Want>, Failure> {
        let step = run.step();
        let input = step.input_ref.iter().map(|selector| want(run, "", selector));
        let secrets = step.credentials.iter().map(|(name, secret)| want_secret(run, name, secret));
        let resources = step.resources.iter().map(|(name, selector)| want(run, name, selector));
        let schemas = step.schemas.iter().map(|(_, selector)| Ok(Want::Schema(selector.clone())));
        let remembered =
            run.remembered().map(|requirement| want(run, &requirement.name, &requirement.selector));
        // `up_front` consumes the answers in this very order.
        input.chain(secrets).chain(resources).chain(schemas).chain(remembered).collect()
    }

    /// The same with the answers. The requirements in the composition must be readable; one of the last run that is not, the step can
    /// require again.
    pub(crate) fn up_front(run: &Run, answers: Vec<Answer>) -> Result<Self, Failure> {
        let step = run.step();
        let mut answers = answers.into_iter();
        let mut given = Self { input: step.input.clone(), ..Self::default() };
        if let Some(selector) = &step.input_ref {
            given.input = Some(read_input(run, selector, answers.next())?);
        }
        given.permits = permits(run, given.input.as_ref())?;
        for ((name, secret), answer) in step.credentials.iter().zip(answers.by_ref()) {
            let fail = |reason: &str| Failure::Credential {
                step: step.name.clone(),
                credential: name.clone(),
                secret: format!("{}/{}", secret.namespace, secret.name),
                reason: reason.to_owned(),
            };
            let data = match answer {
                Answer::Secret(Some(data)) => data,
                Answer::Secret(None) => return Err(fail("there is no such Secret")),
                Answer::Failed(reason) => return Err(fail(&reason)),
                _ => return Err(fail(MISMATCH)),
            };
            let source = Some(Source::CredentialData(CredentialData { data }));
            given.credentials.insert(name.clone(), Credentials { source });
        }
        for ((name, selector), answer) in step.resources.iter().zip(answers.by_ref()) {
            given.resources.insert(name.clone(), required(run, name, selector, answer)?);
        }
        for ((name, _), answer) in step.schemas.iter().zip(answers.by_ref()) {
            given.schemas.insert(name.clone(), required_schema(run, name, answer)?);
        }
        for (requirement, answer) in run.remembered().zip(answers) {
            if let Ok(resources) = required(run, &requirement.name, &requirement.selector, answer) {
                let found = (requirement.selector.clone(), resources);
                given.remembered.entry(requirement.name.clone()).or_insert(found);
            }
        }
        Ok(given)
    }

    /// The objects in the first request: those of the last run and, in preference, those that the composition requires.
    pub(crate) fn up_front_resources(&self) -> BTreeMap<String, Resources> {
        let remembered = self.remembered.iter().map(|(name, (_, found))| (name.clone(), found.clone()));
        remembered.chain(self.resources.clone()).collect()
    }

    /// Whether the step was given an answer to a requirement that it no longer has. Then its response is discarded: a function takes the
    /// objects under a name for the answer to its current requirement, and may fail because of them.
    ///
    /// New requirements do not count: the step was given nothing for them that could mislead it.
    pub(crate) fn is_outdated(&self, response: &RunFunctionResponse) -> bool {
        let asked = asked(response);
        self.remembered.iter().any(|(name, (selector, _))| asked.resources.get(name) != Some(selector))
    }

    /// Whether the step was given answers to requirements of the last run.
    pub(crate) fn has_remembered(&self) -> bool {
        !self.remembered.is_empty()
    }

    /// How often the step was called, discarded calls included.
    pub(crate) fn called(&self) -> u32 {
        self.calls + self.discarded
    }

    /// Drop the requirements of the last run, after so many discarded calls: the step is called as if for the first time.
    pub(crate) fn start_over(&mut self, discarded: u32) {
        self.remembered.clear();
        self.discarded += discarded;
        self.has_started_over = true;
    }

    /// Whether the response is final, or what has to be read before the step is called again.
    pub(crate) fn resolve(&self, run: &Run, response: &RunFunctionResponse) -> Resolution {
        let is_fatal = response.results.iter().any(|result| result.severity == i32::from(Severity::Fatal));
        let asked = asked(response);
        // The same requirements again mean that the function has all it needs: Crossplane calls this stable
        // requirements.
        if is_fatal || Some(asked) == self.previous.as_ref() || (self.previous.is_none() && is_empty(asked)) {
            return Resolution::Settled;
        }
        let resources = asked.extra_resources.iter().chain(&asked.resources);
        let resources = resources.map(|(name, selector)| want(run, name, selector));
        let schemas = asked.schemas.values().cloned().map(|selector| Ok(Want::Schema(selector)));
        match resources.chain(schemas).collect() {
            Ok(wants) => Resolution::Fetch(wants),
            Err(failure) => Resolution::Denied(failure),
        }
    }

    /// What the step was given from the start, and in preference what it requires now.
    pub(crate) fn overlay(
        &self,
        run: &Run,
        response: &RunFunctionResponse,
        answers: Vec<Answer>,
    ) -> Result<Required, Failure> {
        let asked = asked(response);
        let mut answers = answers.into_iter();
        let mut overlaid = Required {
            extra: BTreeMap::new(),
            // From the start of the step, not from the call before: objects that a function no longer requires
            // disappear.
            resources: self.resources.clone(),
            schemas: self.schemas.clone(),
        };
        for ((name, selector), answer) in asked.extra_resources.iter().zip(answers.by_ref()) {
            overlaid.extra.insert(name.clone(), required(run, name, selector, answer)?);
        }
        for ((name, selector), answer) in asked.resources.iter().zip(answers.by_ref()) {
            overlaid.resources.insert(name.clone(), required(run, name, selector, answer)?);
        }
        for (name, answer) in asked.schemas.keys().zip(answers) {
            overlaid.schemas.insert(name.clone(), required_schema(run, name, answer)?);
        }
        Ok(overlaid)
    }
}

/// What a step is given besides state, input and context.
pub(crate) struct Required {
    extra: BTreeMap<String, Resources>,
    resources: BTreeMap<String, Resources>,
    schemas: BTreeMap<String, Schema>,
}

impl Required {
    /// Whether the request had all this already: another call would return the same response.
    pub(crate) fn is_in(&self, request: &RunFunctionRequest) -> bool {
        request.extra_resources == self.extra
            && request.required_resources == self.resources
            && request.required_schemas == self.schemas
    }

    pub(crate) fn put_into(self, request: &mut RunFunctionRequest) {
        request.extra_resources = self.extra;
        request.required_resources = self.resources;
        request.required_schemas = self.schemas;
    }
}

fn asked(response: &RunFunctionResponse) -> &Requirements {
    static NOTHING: Requirements = Requirements {
        extra_resources: BTreeMap::new(),
        resources: BTreeMap::new(),
        schemas: BTreeMap::new(),
    };
    response.requirements.as_ref().unwrap_or(&NOTHING)
}

fn is_empty(asked: &Requirements) -> bool {
    asked.extra_resources.is_empty() && asked.resources.is_empty() && asked.schemas.is_empty()
}

/// The want for objects that the current step requires, if it may read them.
fn want(run: &Run, name: &str, selector: &ResourceSelector) -> Result<Want, Failure> {
    match run.reader().select(&run.inputs.grants, selector) {
        Access::Allowed => Ok(Want::Resources(selector.clone())),
        Access::IfClusterScoped => Ok(Want::ClusterResources(selector.clone())),
        Access::Denied(read) => Err(denied(run, name, read)),
    }
}

/// The same for a credential.
fn want_secret(run: &Run, name: &str, secret: &SecretRef) -> Result<Want, Failure> {
    match run.reader().secret(&run.inputs.grants, secret) {
        Ok(()) => Ok(Want::Secret { namespace: secret.namespace.clone(), name: secret.name.clone() }),
        Err(read) => Err(denied(run, name, read)),
    }
}

/// What the step may do beyond computing. With an invalid input it may do nothing.
fn permits(run: &Run, input: Option<&Struct>) -> Result<Permits, Failure> {
    let step = run.step();
    let Some(kind) = step.external_type() else { return Ok(Permits::default()) };
    let input = input.and_then(|input| input.json().ok());
    let Some(Ok(function)) = input.map(|input| ExternalFunction::read(kind, input)) else {
        return Ok(Permits::default());
    };
    let denied = |run| Failure::NotPermitted { step: step.name.clone(), run };
    run.reader().permits(&run.inputs.grants, &function).map_err(denied)
}

fn denied(run: &Run, requirement: &str, read: Box<DeniedRead>) -> Failure {
    Failure::Denied { step: run.step().name.clone(), requirement: requirement.to_owned(), read }
}

/// The answer to a [`want`]. Objects in a namespace that the step may not read are not passed on.
fn checked(run: &Run, name: &str, selector: &ResourceSelector, answer: Answer) -> Result<Answer, Failure> {
    if run.reader().select(&run.inputs.grants, selector) == Access::Allowed {
        return Ok(answer);
    }
    let is_cluster_scoped = match &answer {
        Answer::Scope { is_namespaced } => !is_namespaced,
        Answer::Resources(objects) => objects.iter().all(is_outside_of_namespaces),
        _ => true,
    };
    if is_cluster_scoped {
        return Ok(answer);
    }
    Err(denied(run, name, Box::new(run.reader().denied(selector))))
}

fn is_outside_of_namespaces(object: &Struct) -> bool {
    object.json().is_ok_and(|object| meta::namespace(object).is_empty())
}

fn required(
    run: &Run,
    name: &str,
    selector: &ResourceSelector,
    answer: Answer,
) -> Result<Resources, Failure> {
    to_resources(checked(run, name, selector, answer)?).map_err(|reason| unavailable(run, name, reason))
}

fn required_schema(run: &Run, name: &str, answer: Answer) -> Result<Schema, Failure> {
    to_schema(answer).map_err(|reason| unavailable(run, name, reason))
}

fn unavailable(run: &Run, requirement: &str, reason: String) -> Failure {
    Failure::Requirement { step: run.step().name.clone(), requirement: requirement.to_owned(), reason }
}

/// The object that is the input of a step. It must exist.
fn read_input(run: &Run, selector: &ResourceSelector, answer: Option<Answer>) -> Result<Struct, Failure> {
    let step = run.step();
    let fail = |reason: &str| {
        let object = match &selector.r#match {
            Some(Match::MatchName(name)) => format!("{} `{name}`", selector.kind),
            _ => selector.kind.clone(),
        };
        Failure::Input { step: step.name.clone(), object, reason: reason.to_owned() }
    };
    match answer.map(|answer| checked(run, "", selector, answer)).transpose()? {
        Some(Answer::Resources(objects)) => {
            objects.into_iter().next().ok_or_else(|| fail("there is no such object"))
        }
        Some(Answer::Failed(reason)) => Err(fail(&reason)),
        _ => Err(fail(MISMATCH)),
    }
}

pub(crate) const MISMATCH: &str = "the response does not fit the request";

fn to_resources(answer: Answer) -> Result<Resources, String> {
    match answer {
        Answer::Resources(objects) => Ok(Resources { items: objects.into_iter().map(to_resource).collect() }),
        Answer::Failed(reason) => Err(reason),
        _ => Err(MISMATCH.to_owned()),
    }
}

fn to_resource(object: Struct) -> Resource {
    Resource { resource: Some(object), ..Resource::default() }
}

fn to_schema(answer: Answer) -> Result<Schema, String> {
    match answer {
        Answer::Schema(openapi_v3) => Ok(Schema { openapi_v3 }),
        Answer::Failed(reason) => Err(reason),
        _ => Err(MISMATCH.to_owned()),
    }
}
