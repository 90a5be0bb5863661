//! `function-patch-and-transform`: resources from templates, with values copied between them.
//!
//! Patches copy values from what is observed (the composite resource, composed resources) and from the
//! environment to what is desired and to the environment, and may transform them on the way. The input is made
//! ready once and kept with the message it came in, so a step that runs often reads its input once.
//!
//! Upstream has behaved in eight ways, and each can be asked for; [`release`] says how they differ.

mod connection;
mod document;
mod input;
mod patch;
mod prepare;
mod ready;
mod release;
mod rounds;
#[cfg(test)]
mod tests;
mod transform;
mod validate;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::strconv::quote;
use ferroplane_wire::v1::{Ready, Resource, RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{State, Struct, StructError};
use serde_json::{Map, Value};

use crate::cost_budget::CostBudget;
use crate::effort::{Effort, TakesLong};
use crate::fieldpath::Error;
use crate::response;
use connection::Details;
use document::{Budget, Document, metadata, text};
use patch::From;
use prepare::{Direction, Patch, Prepared, Template};
use release::Release;

/// Where in the context the environment is.
const ENVIRONMENT: &str = "apiextensions.crossplane.io/environment";

type Answer = Result<RunFunctionResponse, TakesLong>;

/// As upstream from v0.10.0 on.
pub(crate) fn run(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_10, request, effort)
}

/// As upstream in v0.2.0 and v0.2.1.
pub(crate) fn run_v0_2(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_2, request, effort)
}

/// As upstream in v0.3.0.
pub(crate) fn run_v0_3(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_3, request, effort)
}

/// As upstream in v0.4.0.
pub(crate) fn run_v0_4(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_4, request, effort)
}

/// As upstream in v0.5.0.
pub(crate) fn run_v0_5(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_5, request, effort)
}

/// As upstream in v0.6.0.
pub(crate) fn run_v0_6(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_6, request, effort)
}

/// As upstream in v0.7.0.
pub(crate) fn run_v0_7(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_7, request, effort)
}

/// As upstream from v0.8.0 to v0.9.3.
pub(crate) fn run_v0_8(request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    run_as(Release::V0_8, request, effort)
}

/// Compose resources from the templates of the input.
fn run_as(release: Release, request: &RunFunctionRequest, effort: Effort<'_>) -> Answer {
    let mut response = response::to(request);
    let read = |input: &Struct| (release, Prepared::read(input, release));
    let mut reading = match &request.input {
        Some(input) => input.reading(read),
        None => Arc::new(read(&Struct::default())),
    };
    // Two steps can share an input and call different versions. What the first one made of it is kept.
    if let Some(input) = request.input.as_ref().filter(|_| reading.0 != release) {
        reading = Arc::new(read(input));
    }
    let prepared = reading.1.as_ref().map_err(Clone::clone);
    let costs = CostBudget::new(effort);
    if let Err(problem) = prepared.and_then(|prepared| compose(request, prepared, &costs, &mut response)) {
        response = response::fatal(response, problem);
    }
    if !release.targets_results() {
        response.results.iter_mut().for_each(|result| result.target = None);
    }
    costs.conclude(response)
}

/// The story. The error is a fatal result; then everything stays as it is, but for warnings so far.
fn compose(
    request: &RunFunctionRequest,
    prepared: &Prepared,
    costs: &CostBudget,
    response: &mut RunFunctionResponse,
) -> Result<(), String> {
    let mut composition = Composition::observe(request, prepared.release, costs)?;
    let templates =
        prepared.templates.as_ref().map_err(|problem| format!("cannot resolve PatchSets: {problem}"))?;
    // First, because templates read the environment; what they write to it is seen by the templates after
    // them.
    composition.patch_environment(&prepared.environment)?;
    for template in templates {
        composition.render(template, response)?;
    }
    // After all templates, which contribute to the details.
    composition.keep_connection_details(prepared)?;
    composition.answer(request, response)
}

/// An observed composed resource, and its fields.
type Existing<'a> = (&'a Resource, &'a Map<String, Value>);

/// Everything patches read from and write to.
struct Composition<'a> {
    release: Release,
    xr: &'a Map<String, Value>,
    observed: Option<&'a BTreeMap<String, Resource>>,
    desired_xr: Document<'a>,
    desired: BTreeMap<String, Resource>,
    environment: Document<'a>,
    details: Details,
    has_skipped: bool,
    budget: Budget<'a>,
}

impl<'a> Composition<'a> {
    fn observe(
        request: &'a RunFunctionRequest,
        release: Release,
        costs: &'a CostBudget,
    ) -> Result<Self, String> {
        let (observed, desired) = (request.observed.as_ref(), request.desired.as_ref());
        let observed_xr = observed.and_then(State::composite).and_then(|xr| xr.resource.as_ref());
        let xr = match observed_xr {
            Some(xr) => {
                xr.json().map_err(|error| format!("cannot get observed composite resource: {error}"))?
            }
            None => &EMPTY,
        };
        let desired_composite = desired.and_then(State::composite);
        let mut desired_xr = Document::of(desired_composite.and_then(|xr| xr.resource.as_ref()))
            .map_err(|error| format!("cannot get desired composite resource: {error}"))?;
        // Patches need to know what they patch, so the desired resource is what the observed one is.
        desired_xr.set_text("apiVersion", text(xr, "apiVersion"));
        desired_xr.set_text("kind", text(xr, "kind"));
        Ok(Self {
            release,
            xr,
            observed: observed.map(State::resources),
            desired_xr,
            desired: desired.map(|state| state.resources().clone()).unwrap_or_default(),
            environment: environment(request.context.as_ref(), release)?,
            details: desired_composite.map(|xr| xr.connection_details.clone()).unwrap_or_default(),
            has_skipped: false,
            budget: Budget::new(costs),
        })
    }

    /// Patches between the composite resource and the environment.
    fn patch_environment(&mut self, patches: &[Patch]) -> Result<(), String> {
        if self.release.patches_in_rounds() {
            return self.patch_environment_in_rounds(patches);
        }
        for (at, patch) in patches.iter().enumerate() {
            let xr = From { object: self.xr, numbers: Numbers::Floats };
            let applied = match patch.direction {
                Direction::FromComposite | Direction::ToEnvironment => {
                    patch.apply(xr, &mut self.environment, &mut self.budget)
                }
                Direction::ToComposite | Direction::FromEnvironment => {
                    let from = From { object: &self.environment.object, numbers: self.environment.numbers };
                    patch.apply(from, &mut self.desired_xr, &mut self.budget)
                }
            };
            match applied {
                Err(error)
                    if !(error.is_not_found() && patch.is_optional)
                        || self.release.needs_fields_for_the_environment() =>
                {
                    let kind = quote(&patch.kind);
                    return Err(format!("cannot apply the {kind} environment patch at index {at}: {error}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Make a composed resource of a template, unless something it needs is not there yet.
    fn render(&mut self, template: &Template, response: &mut RunFunctionResponse) -> Result<(), String> {
        let name = &template.name;
        let before = self.desired.get(name).and_then(|resource| resource.resource.clone());
        let mut target = match &template.base {
            Some(base) => Document::new(base.as_ref().map_err(Clone::clone)?.clone()),
            None if !self.desired.contains_key(name) => {
                let name = quote(name);
                return Err(format!(
                    "composed resource {name} has no base template, and was not produced by a previous Function in the pipeline"
                ));
            }
            None => Document::of(before.as_ref()).map_err(|error| self.cannot_get_desired(error))?,
        };
        let mut is_ready = false;
        let existing = self.existing(name)?;
        if let Some((observed, object)) = existing {
            // Before patches, so that they can use the name, and never overwrite it by accident of the base.
            target.set_metadata("namespace", metadata(object, "namespace"));
            target.set_metadata("name", metadata(object, "name"));
            connection::extract(observed, object, &template.details, &mut self.details);
            // A check that cannot be run keeps one resource from being ready, and must not keep others from
            // being composed.
            is_ready = ready::is_ready(object, &template.checks, self.release).unwrap_or_else(|problem| {
                let name = quote(name);
                let message = format!("cannot check readiness of composed resource {name}: {problem}");
                response::warn(response, message);
                false
            });
        }
        let existing = existing.map(|(_, object)| object);
        let is_patched = if self.release.patches_in_rounds() {
            self.patch_in_rounds(template, existing, &mut target, response)
        } else {
            self.patch(template, existing, &mut target, response)?
        };
        if !is_patched {
            self.has_skipped |= self.release.is_unready_while_waiting();
            return Ok(());
        }
        let resource = match target.object {
            // Nothing was written: the message of the function before is passed on without encoding it again.
            Cow::Borrowed(_) => before.unwrap_or_default(),
            Cow::Owned(object) => {
                Struct::try_from(object).map_err(|error| cannot_set_desired(name, error))?
            }
        };
        // Never `False`: a later function such as auto-ready may find out more.
        let ready = if is_ready { Ready::True } else { Ready::Unspecified };
        let resource = Resource { resource: Some(resource), ready: ready.into(), ..Resource::default() };
        self.desired.insert(name.clone(), resource);
        Ok(())
    }

    /// The composed resource as it was observed, if it was.
    fn existing(&self, name: &str) -> Result<Option<Existing<'a>>, String> {
        let Some(observed) = self.observed.and_then(|observed| observed.get(name)) else { return Ok(None) };
        let object = object(observed).map_err(|error| {
            let protocol = self.release.protocol();
            format!("cannot get observed composed resources from *{protocol}.RunFunctionRequest: {error}")
        })?;
        Ok(Some((observed, object)))
    }

    /// Apply the patches of a template. False if the resource has to wait for a field that is required.
    fn patch(
        &mut self,
        template: &Template,
        existing: Option<&Map<String, Value>>,
        target: &mut Document<'_>,
        response: &mut RunFunctionResponse,
    ) -> Result<bool, String> {
        for (at, patch) in template.patches.iter().enumerate() {
            let Err(error) = self.apply(patch, existing, target) else { continue };
            let (name, kind) = (quote(&template.name), quote(&patch.kind));
            if !error.is_not_found() {
                return Err(format!(
                    "cannot render composed resource {name} {kind} patch at index {at}: {error}"
                ));
            }
            if !patch.is_required {
                continue;
            }
            // A required field holds up a resource that is to be created. One that is there stays.
            let is_to_composed =
                matches!(patch.direction, Direction::FromComposite | Direction::FromEnvironment);
            if is_to_composed && existing.is_none() {
                let message = format!(
                    "not adding new composed resource {name} to desired state because {kind} patch at index {at} has 'policy.fromFieldPath: Required': {error}"
                );
                response::warn(response, message);
                return Ok(false);
            }
            let message = format!(
                "cannot render composed resource {name} {kind} patch at index {at}: ignoring 'policy.fromFieldPath: Required' because 'to' resource already exists: {error}"
            );
            response::warn(response, message);
        }
        Ok(true)
    }

    /// Always from what is observed to what is desired. What is not observed yet, nothing is copied from.
    fn apply(
        &mut self,
        patch: &Patch,
        existing: Option<&Map<String, Value>>,
        target: &mut Document<'_>,
    ) -> Result<(), Error> {
        let existing = existing.map(|object| From { object, numbers: Numbers::Floats });
        let budget = &mut self.budget;
        match (patch.direction, existing) {
            (Direction::FromComposite, _) => {
                patch.apply(From { object: self.xr, numbers: Numbers::Floats }, target, budget)
            }
            (Direction::FromEnvironment, _) => {
                let from = From { object: &self.environment.object, numbers: self.environment.numbers };
                patch.apply(from, target, budget)
            }
            (Direction::ToComposite, Some(from)) => patch.apply(from, &mut self.desired_xr, budget),
            (Direction::ToEnvironment, Some(from)) => patch.apply(from, &mut self.environment, budget),
            (Direction::ToComposite | Direction::ToEnvironment, None) => Ok(()),
        }
    }

    /// Where composite resources have no connection details of their own, a composed secret keeps them.
    fn keep_connection_details(&mut self, prepared: &Prepared) -> Result<(), String> {
        let has_own = connection::is_supported_by(self.xr) || !self.release.composes_connection_secrets();
        if self.details.is_empty() || has_own {
            return Ok(());
        }
        let secret = connection::secret(self.xr, &self.details, prepared.secret.as_ref(), &mut self.budget)
            .map_err(|problem| format!("cannot compose connection secret: {problem}"))?;
        let name = format!("{}-connection-secret", metadata(self.xr, "name"));
        let secret = Struct::try_from(secret).map_err(|error| cannot_set_desired(&name, error))?;
        let secret = Resource { resource: Some(secret), ready: Ready::True.into(), ..Resource::default() };
        self.desired.insert(name, secret);
        Ok(())
    }

    fn cannot_get_desired(&self, error: StructError) -> String {
        let protocol = self.release.protocol();
        format!("cannot get desired composed resources from *{protocol}.RunFunctionRequest: {error}")
    }

    fn answer(
        mut self,
        request: &RunFunctionRequest,
        response: &mut RunFunctionResponse,
    ) -> Result<(), String> {
        let xr = Struct::try_from(self.desired_xr.object.into_owned()).map_err(|error| {
            let protocol = self.release.protocol();
            format!("cannot set desired composite resource in *{protocol}.RunFunctionResponse: {error}")
        })?;
        // `Unspecified` and not `True`: the readiness of the composed resources decides then.
        let ready = if self.has_skipped { Ready::False } else { Ready::Unspecified };
        for resource in self.desired.values_mut() {
            // Only composite resources have connection details that are desired.
            resource.connection_details.clear();
            resource.resource.get_or_insert_default();
        }
        let composite =
            Resource { resource: Some(xr), connection_details: self.details, ready: ready.into() };
        response.desired = Some(State::new(Some(composite), self.desired));
        // Only if a patch wrote to it: otherwise the context is passed on as it came.
        if let Cow::Owned(environment) = self.environment.object {
            let context = request.context.clone().unwrap_or_default();
            let with_environment = || {
                let mut context = context.into_json()?;
                context.insert(ENVIRONMENT.to_owned(), Value::Object(environment));
                Struct::try_from(context)
            };
            let context = with_environment().map_err(|error| {
                format!("cannot convert Composition environment to protobuf Struct well-known type: {error}")
            })?;
            response.context = Some(context);
        }
        Ok(())
    }
}

/// The environment of the context, or an empty one. It needs a kind to be patched, so it gets one.
fn environment(context: Option<&Struct>, release: Release) -> Result<Document<'_>, String> {
    let cannot = |error| {
        let (protocol, key) = (release.protocol(), quote(ENVIRONMENT));
        format!(
            "cannot get Composition environment from *{protocol}.RunFunctionRequest context key {key}: {error}"
        )
    };
    let context = context.map(Struct::json).transpose().map_err(cannot)?;
    let mut environment = match context.and_then(|context| context.get(ENVIRONMENT)) {
        Some(Value::Object(environment)) => {
            Document { object: Cow::Borrowed(environment), numbers: Numbers::Floats }
        }
        _ => Document { object: Cow::Owned(Map::new()), numbers: Numbers::Floats },
    };
    if !release.gives_the_environment_a_kind() {
        return Ok(environment);
    }
    let version = text(&environment.object, "apiVersion");
    let is_malformed = version.matches('/').count() > 1;
    if is_malformed || (matches!(version, "" | "/") && text(&environment.object, "kind").is_empty()) {
        environment.set_text("apiVersion", "internal.crossplane.io/v1alpha1");
        environment.set_text("kind", "Environment");
    }
    Ok(environment)
}

fn cannot_set_desired(name: &str, error: StructError) -> String {
    format!("cannot set desired composed resource {}: {error}", quote(name))
}

/// What a resource without an object has.
static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

fn object(resource: &Resource) -> Result<&Map<String, Value>, StructError> {
    resource.resource.as_ref().map_or(Ok(&EMPTY), Struct::json)
}
