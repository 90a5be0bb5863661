//! A pipeline run in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use ferroplane_api::{Condition, Object, Status, meta};
use ferroplane_wire::v1::{
    self, RequestMeta, Resource, ResourceSelector, RunFunctionRequest, RunFunctionResponse, Severity,
};
use ferroplane_wire::{State, Struct, capabilities, tag};

use crate::access::{Access, Reader};
use crate::composite::COMPOSE;
use crate::conversation::{Answer, Turn, Want};
use crate::failure::Failure;
use crate::inputs::{CompositeSubject, Inputs, Requirement, Subject};
use crate::operation::{self, RUN_STEP};
use crate::outcome::{Event, EventKind, FunctionCondition, Outcome, Ran, StepOutput, Target};
use crate::pipeline::Step;
use crate::plan::{self, Scopes, group_kind};
use crate::requirements::StepInputs;

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) inputs: Inputs,
    /// None for an operation: its functions are given what they require, and observe nothing.
    observed: Option<State>,
    /// The desired state after the step before. A step that returns none removes everything that earlier steps desired.
    desired: Option<State>,
    /// The last step that changed each desired resource.
    pub(crate) said_by: BTreeMap<String, String>,
    current: usize,
    context: Option<Struct>,
    pub(crate) events: Vec<Event>,
    conditions: Vec<FunctionCondition>,
    requirements: Vec<Requirement>,
    schemas: Vec<v1::SchemaSelector>,
    ttl: Option<Duration>,
    ran: Vec<Ran>,
    outputs: Vec<StepOutput>,
}

impl Run {
    pub(crate) fn new(mut inputs: Inputs) -> Result<Self, Box<Outcome>> {
        // The first step finds an empty context, not none.
        let context = Some(inputs.context.take().unwrap_or_default());
        // Reported before everything that functions return, even if the first step fails.
        let events = inputs.pipeline.steps.iter().flat_map(advisory_events).collect();
        let run = Self {
            observed: inputs.subject.composite().map(observed_state),
            inputs,
            desired: Some(State::default()),
            said_by: BTreeMap::new(),
            current: 0,
            context,
            events,
            conditions: Vec::new(),
            requirements: Vec::new(),
            schemas: Vec::new(),
            ttl: None,
            ran: Vec::new(),
            outputs: Vec::new(),
        };
        let Err(source) = run.inputs.subject.object().json() else { return Ok(run) };
        let failure = match run.inputs.subject {
            Subject::Composite(_) => Failure::Composite { source },
            Subject::Operation { .. } => Failure::Operation { source },
        };
        Err(Box::new(run.into_outcome(Err(failure))))
    }

    /// The object that the pipeline runs for. [`Run::new`] has checked that it can be read.
    pub(crate) fn subject(&self) -> &Object {
        static NOTHING: LazyLock<Object> = LazyLock::new(Object::new);
        self.inputs.subject.object().json().unwrap_or(&NOTHING)
    }

    /// The desired state so far.
    pub(crate) fn desired(&self) -> &State {
        static NOTHING: LazyLock<State> = LazyLock::new(State::default);
        self.desired.as_ref().unwrap_or(&NOTHING)
    }

    /// The desired state in the end. Nothing else needs it any more.
    pub(crate) fn take_desired(&mut self) -> State {
        self.desired.take().unwrap_or_default()
    }

    pub(crate) fn step(&self) -> &Step {
        &self.inputs.pipeline.steps[self.current]
    }

    pub(crate) fn is_at_first_step(&self) -> bool {
        self.current == 0
    }

    /// Move to the next step, if there is one.
    pub(crate) fn next_step(&mut self) -> bool {
        self.current += 1;
        self.current < self.inputs.pipeline.steps.len()
    }

    /// The step on whose behalf objects are read.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::new(self.subject(), &self.step().function)
    }

    /// The requirements of the current step in the last run that the composition does not have. Those that it may no longer read are left
    /// out: if the step has one again, it fails with the reason.
    pub(crate) fn remembered(&self) -> impl Iterator<Item = &Requirement> {
        let (step, reader) = (self.step(), self.reader());
        self.inputs.remembered.iter().filter(move |requirement| {
            requirement.step == step.name
                && !step.resources.iter().any(|(name, _)| *name == requirement.name)
                && !matches!(reader.select(&self.inputs.grants, &requirement.selector), Access::Denied(_))
        })
    }

    /// The first request to the current step, also after it started over.
    pub(crate) fn request(&self, given: &StepInputs) -> RunFunctionRequest {
        let mut request = RunFunctionRequest {
            observed: self.observed.clone(),
            desired: self.desired.clone(),
            input: given.input.clone(),
            context: self.context.clone(),
            credentials: given.credentials.clone(),
            required_resources: given.up_front_resources(),
            required_schemas: given.schemas.clone(),
            ..RunFunctionRequest::default()
        };
        // Last, because the tag covers everything else in the request; the response cache is keyed by it.
        request.meta = Some(RequestMeta { tag: tag(&request), capabilities: capabilities() });
        request
    }

    /// Take the response of the current step. An error if it has a fatal result.
    pub(crate) fn absorb(&mut self, response: RunFunctionResponse, calls: u32) -> Result<(), Failure> {
        let step = &self.inputs.pipeline.clone().steps[self.current];
        self.ran.push(Ran {
            step: step.name.clone(),
            function: step.function.clone(),
            callee: step.callee.clone(),
            calls,
        });
        // Before the fatal result is checked: the requirements of a failing step have to be watched, or nothing
        // would wake the XR.
        self.remember(step, &response);
        self.ttl = [self.ttl, ttl_of(&response)].into_iter().flatten().min();

        // Before `desired` is replaced, with which it compares.
        self.attribute(step, response.desired.as_ref());
        self.desired = response.desired;
        self.context = response.context;
        self.conditions.extend(response.conditions.into_iter().map(to_condition));
        if let Some(output) = response.output {
            self.outputs.push(StepOutput { step: step.name.clone(), output });
        }

        for result in response.results {
            if result.severity == i32::from(Severity::Fatal) {
                return Err(Failure::Fatal { step: step.name.clone(), message: result.message });
            }
            let event = to_event(step, result);
            self.events.push(match self.inputs.subject {
                Subject::Composite(_) => event,
                Subject::Operation { .. } => Event { reason: RUN_STEP.to_owned(), ..event },
            });
        }
        Ok(())
    }

    /// Record all requirements of the step, those in the composition and those of the function.
    fn remember(&mut self, step: &Step, response: &RunFunctionResponse) {
        if let Some(selector) = &step.input_ref {
            // Without a step: it is watched, but passed to no step as a requirement.
            let (of, name) = (String::new(), String::new());
            self.requirements.push(Requirement { step: of, name, selector: selector.clone() });
        }
        let asked = response.requirements.as_ref();
        let declared = step.resources.iter().map(|(name, selector)| (name, selector));
        let resources = asked.into_iter().flat_map(|asked| &asked.resources);
        for (name, selector) in declared.chain(resources) {
            self.require(&step.name, name, selector);
        }
        // Without a step: the deprecated field is not answered up front. A function that uses it reads only that
        // field, and would not notice that it has the answers.
        for selector in asked.into_iter().flat_map(|asked| asked.extra_resources.values()) {
            self.require("", "", selector);
        }
        let declared = step.schemas.iter().map(|(_, selector)| selector);
        self.schemas
            .extend(declared.chain(asked.into_iter().flat_map(|asked| asked.schemas.values())).cloned());
    }

    fn require(&mut self, step: &str, name: &str, selector: &ResourceSelector) {
        let (step, name) = (step.to_owned(), name.to_owned());
        let requirement = Requirement { step, name, selector: selector.clone() };
        if !self.requirements.contains(&requirement) {
            self.requirements.push(requirement);
        }
    }

    /// Record which resources this step added or changed.
    fn attribute(&mut self, step: &Step, desired: Option<&State>) {
        for (name, resource) in desired.into_iter().flat_map(State::resources) {
            if self.desired().resources().get(name) != Some(resource) {
                self.said_by.insert(name.clone(), step.name.clone());
            }
        }
    }

    /// The kinds whose scope has to be read: a namespaced composite resource may only compose namespaced resources, and a cluster-scoped
    /// one has to set their namespace.
    pub(crate) fn scopes_to_learn(&self) -> Vec<Want> {
        let is_namespaced = !meta::namespace(self.subject()).is_empty();
        let mut kinds = BTreeSet::new();
        for (name, resource) in self.desired().resources() {
            let Some(Ok(object)) = resource.resource.as_ref().map(Struct::json) else { continue };
            let (api_version, kind) = (meta::api_version(object), meta::kind(object));
            if api_version.is_empty() || kind.is_empty() {
                continue;
            }
            let observed =
                self.inputs.subject.observed().get(name).and_then(|observed| observed.object.json().ok());
            // The group counts as well: a user may define a namespaced kind called `ClusterRoleBinding`, whose
            // scope says nothing about that of Kubernetes.
            let observed = observed.filter(|observed| group_kind(observed) == group_kind(object));
            let is_known = if is_namespaced {
                observed.is_some_and(|observed| !meta::namespace(observed).is_empty())
            } else {
                // It stays in its namespace, or names one.
                observed.is_some() || !meta::namespace(object).is_empty()
            };
            if !is_known {
                kinds.insert((api_version, kind));
            }
        }
        let want = |(api_version, kind): (&str, &str)| Want::Scope {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        };
        kinds.into_iter().map(want).collect()
    }

    /// All steps have run: make the plan.
    pub(crate) fn finish(mut self: Box<Self>, wants: &[Want], answers: &[Answer]) -> Turn {
        let scopes = Scopes::new(wants, answers);
        let result = match self.inputs.subject {
            Subject::Composite(_) => plan::make(&mut self, &scopes),
            Subject::Operation { .. } => operation::plan(&mut self, &scopes),
        };
        Turn::Done(Box::new(self.into_outcome(result)))
    }

    pub(crate) fn fail(self: Box<Self>, failure: Failure) -> Turn {
        Turn::Done(Box::new(self.into_outcome(Err(failure))))
    }

    fn into_outcome(self, result: Result<plan::Plan, Failure>) -> Outcome {
        Outcome {
            result,
            events: self.events,
            conditions: self.conditions,
            requirements: self.requirements,
            schemas: self.schemas,
            context: self.context,
            ttl: self.ttl,
            ran: self.ran,
            outputs: self.outputs,
        }
    }
}

/// Warnings about the versions that run.
fn advisory_events(step: &Step) -> impl Iterator<Item = Event> {
    let advisories = step.callee.iter().flat_map(|callee| &callee.advisories);
    advisories.map(|advisory| Event {
        detail: Some(format!("Pipeline step \"{}\"", step.name)),
        ..Event::new(EventKind::Warning, advisory.reason(), advisory.to_string())
    })
}

fn observed_state(subject: &CompositeSubject) -> State {
    let composite = Resource {
        resource: Some(subject.object.clone()),
        connection_details: subject.connection_details.clone(),
        ..Resource::default()
    };
    let resources = subject.observed.iter().map(|(name, observed)| {
        let resource = Resource {
            resource: Some(observed.object.clone()),
            connection_details: observed.connection_details.clone(),
            ..Resource::default()
        };
        (name.clone(), resource)
    });
    State::new(Some(composite), resources.collect())
}

fn ttl_of(response: &RunFunctionResponse) -> Option<Duration> {
    let ttl = response.meta.as_ref()?.ttl?;
    // A negative time counts as none.
    let (seconds, nanos) = (u64::try_from(ttl.seconds).ok()?, u32::try_from(ttl.nanos).ok()?);
    let ttl = Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanos.into()))?;
    (!ttl.is_zero()).then_some(ttl)
}

fn to_target(target: Option<i32>) -> Target {
    if target == Some(v1::Target::CompositeAndClaim.into()) {
        Target::CompositeAndClaim
    } else {
        Target::Composite
    }
}

fn to_condition(condition: v1::Condition) -> FunctionCondition {
    let status = match v1::Status::try_from(condition.status) {
        Ok(v1::Status::ConditionTrue) => Status::True,
        Ok(v1::Status::ConditionFalse) => Status::False,
        _ => Status::Unknown,
    };
    FunctionCondition {
        condition: Condition::new(&condition.r#type, status, &condition.reason)
            .with_message(condition.message.unwrap_or_default()),
        target: to_target(condition.target),
    }
}

fn to_event(step: &Step, result: v1::Result) -> Event {
    let kind = match Severity::try_from(result.severity) {
        Ok(Severity::Normal) => EventKind::Normal,
        Ok(Severity::Warning) => EventKind::Warning,
        // Not set, or set by a newer protocol than ours: better too loud than silent, and only to the composite
        // resource.
        _ => {
            let message = format!(
                "Pipeline step \"{}\" returned a result of unknown severity (assuming warning): {}",
                step.name, result.message
            );
            let reason = result.reason.filter(|reason| !reason.is_empty());
            return Event::new(EventKind::Warning, reason.as_deref().unwrap_or(COMPOSE), message);
        }
    };
    Event {
        kind,
        reason: result.reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| COMPOSE.to_owned()),
        message: result.message,
        detail: Some(format!("Pipeline step \"{}\"", step.name)),
        target: to_target(result.target),
        failure: None,
    }
}
