//! A cache of Compositions and their revisions, prepared to run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ferroplane_api::{Cause, CompositionSpec, FailurePoint, Object, Status, Step, TypeRef, keys, meta};
use ferroplane_client::{Change, Informer};
use ferroplane_engine::{
    Candidate, Pipeline, RevisionCandidate, VersionWarning, chain, conditions_in, to_pipeline,
};
use serde_json::Value;
use tracing::warn;

use crate::function_registry::CallableFunctions;
use crate::rollout::Cohort;

/// For how many cohorts the resolved steps of a revision are cached.
const MOST_COHORTS: usize = 8;
const UNKNOWN: &str = "its pipeline has not been validated yet";

/// Compositions and their revisions, as they are now.
#[derive(Debug, Default)]
pub(crate) struct CompositionCache {
    compositions: RwLock<BTreeMap<String, Arc<Candidate>>>,
    revisions: RwLock<Revisions>,
    epoch: AtomicU64,
}

/// All revisions, by their name and by what they call.
#[derive(Debug, Default)]
struct Revisions {
    by_name: BTreeMap<String, Arc<Revision>>,
    /// The names of revisions, by the names of the functions that their steps call.
    by_function: BTreeMap<String, BTreeSet<Arc<str>>>,
}

impl Revisions {
    fn insert(&mut self, revision: Revision) {
        self.remove(&revision.name);
        for function in revision.functions() {
            self.by_function.entry(function).or_default().insert(revision.name.clone());
        }
        self.by_name.insert(revision.name.to_string(), Arc::new(revision));
    }

    fn remove(&mut self, name: &str) {
        let Some(revision) = self.by_name.remove(name) else { return };
        for function in revision.functions() {
            if let Some(callers) = self.by_function.get_mut(&function) {
                callers.remove(name);
                if callers.is_empty() {
                    self.by_function.remove(&function);
                }
            }
        }
    }
}

/// A revision of a composition.
#[derive(Debug)]
pub(crate) struct Revision {
    pub(crate) name: Arc<str>,
    pub(crate) facts: RevisionCandidate,
    /// Changes when its content changes.
    pub(crate) identity: String,
    pub(crate) composition: String,
    pub(crate) composes: TypeRef,
    /// Where connection details of legacy composite resources are written.
    pub(crate) connection_namespace: Option<String>,
    /// Why it cannot be used, if it cannot.
    pub(crate) problem: Option<Unusable>,
    /// Whether its pipeline was not validated yet.
    pub(crate) is_new: bool,
    /// The functions of steps that name no revision, in order.
    pub(crate) open_functions: Vec<String>,
    spec: Result<CompositionSpec, Unusable>,
    /// For each cohort of a rollout.
    pipelines: Mutex<Vec<Ready>>,
}

/// Why a revision cannot be used.
#[derive(Debug, Clone)]
pub(crate) struct Unusable {
    pub(crate) message: String,
    pub(crate) failure: FailurePoint,
}

impl Unusable {
    pub(crate) fn new(message: impl Into<String>, failure: impl Into<FailurePoint>) -> Self {
        Self { message: message.into(), failure: failure.into() }
    }
}

/// A pipeline that is resolved for a cohort.
#[derive(Debug)]
struct Ready {
    cohort: Cohort,
    epoch: u64,
    pipeline: Result<Arc<Pipeline>, Unusable>,
}

impl CompositionCache {
    /// A cache that follows the informers.
    pub(crate) fn new(compositions: &Informer, revisions: &Informer) -> Arc<Self> {
        let cache = Arc::new(Self::default());
        let follower = Arc::downgrade(&cache);
        compositions.listen(move |_, change| {
            if let Some(cache) = follower.upgrade() {
                cache.composition_changed(change);
            }
        });
        let follower = Arc::downgrade(&cache);
        revisions.listen(move |_, change| {
            if let Some(cache) = follower.upgrade() {
                cache.revision_changed(change);
            }
        });
        cache
    }

    /// A copy with these Compositions and revisions. It shares nothing: pipelines that are resolved for a plan are used by nothing else.
    pub(crate) fn with(&self, compositions: &[Object], revisions: &[Object]) -> Self {
        let mut planned = self.compositions.read().unwrap_or_else(PoisonError::into_inner).clone();
        for object in compositions {
            if let Some(candidate) = candidate(object) {
                planned.insert(meta::name(object).to_owned(), Arc::new(candidate));
            }
        }
        let mut planned_revisions = Revisions::default();
        for revision in self.revisions.read().unwrap_or_else(PoisonError::into_inner).by_name.values() {
            planned_revisions.insert(revision.detached());
        }
        for revision in revisions {
            planned_revisions.insert(Revision::read(revision));
        }
        Self {
            compositions: RwLock::new(planned),
            revisions: RwLock::new(planned_revisions),
            epoch: AtomicU64::new(self.epoch()),
        }
    }

    pub(crate) fn composition(&self, name: &str) -> Option<Arc<Candidate>> {
        self.compositions.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn compositions(&self) -> Vec<Arc<Candidate>> {
        self.compositions.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn revision(&self, name: &str) -> Option<Arc<Revision>> {
        self.revisions.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    /// The names of all revisions that call a function.
    pub(crate) fn revisions_calling(&self, function: &str) -> BTreeSet<Arc<str>> {
        let revisions = self.revisions.read().unwrap_or_else(PoisonError::into_inner);
        revisions.by_function.get(function).cloned().unwrap_or_default()
    }

    /// The names of all revisions with a step that calls a function and names no revision of it.
    pub(crate) fn revisions_open_to(&self, function: &str) -> BTreeSet<Arc<str>> {
        let revisions = self.revisions.read().unwrap_or_else(PoisonError::into_inner);
        let callers = revisions.by_function.get(function).into_iter().flatten();
        let is_open = |name: &&Arc<str>| {
            let revision = revisions.by_name.get(&***name);
            revision.is_some_and(|it| it.open_functions.iter().any(|open| open == function))
        };
        callers.filter(is_open).cloned().collect()
    }

    /// Increases with every change.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// All revisions of a composition.
    pub(crate) fn revisions_of(&self, composition: &str) -> Vec<Arc<Revision>> {
        let revisions = self.revisions.read().unwrap_or_else(PoisonError::into_inner);
        revisions.by_name.values().filter(|revision| revision.composition == composition).cloned().collect()
    }

    fn composition_changed(&self, change: Change<'_>) {
        let name = change.header().metadata.name.to_string();
        let mut compositions = self.compositions.write().unwrap_or_else(PoisonError::into_inner);
        match read(change).and_then(|object| candidate(&object)) {
            Some(candidate) => compositions.insert(name, Arc::new(candidate)),
            None => compositions.remove(&name),
        };
        // Still under the lock: a reader that sees the new epoch must not find the old content.
        self.epoch.fetch_add(1, Ordering::Release);
    }

    fn revision_changed(&self, change: Change<'_>) {
        let mut revisions = self.revisions.write().unwrap_or_else(PoisonError::into_inner);
        match read(change) {
            Some(object) => revisions.insert(Revision::read(&object)),
            None => revisions.remove(&change.header().metadata.name),
        }
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// The current object. None if it was deleted, or is invalid.
fn read(change: Change<'_>) -> Option<Object> {
    match change {
        Change::Applied { object, .. } => serde_json::from_slice(&object.bytes).ok(),
        Change::Deleted { .. } => None,
    }
}

impl Revision {
    fn read(object: &Object) -> Self {
        let spec = object.get("spec").cloned().unwrap_or_default();
        let number = spec.get("revision").and_then(Value::as_i64).unwrap_or_default();
        let spec: Result<CompositionSpec, _> = serde_json::from_value(spec);
        let spec = spec
            .map_err(|error| Unusable::new(format!("cannot read its spec: {error}"), Cause::PipelineInvalid));
        let nothing = || TypeRef { api_version: String::new(), kind: String::new() };
        Self {
            name: meta::name(object).into(),
            facts: RevisionCandidate {
                name: meta::name(object).to_owned(),
                number,
                controller: meta::controller_uid(object).unwrap_or_default().to_owned(),
                labels: labels(object),
            },
            identity: format!("{}/{}", meta::uid(object), meta::generation(object)),
            composition: meta::label(object, keys::COMPOSITION_NAME).to_owned(),
            composes: spec.as_ref().map_or_else(|_| nothing(), |spec| spec.composite_type_ref.clone()),
            connection_namespace: spec
                .as_ref()
                .ok()
                .and_then(|spec| spec.write_connection_secrets_to_namespace.clone())
                .filter(|namespace| !namespace.is_empty()),
            problem: verdict(object).map_or_else(|| Some(not_validated()), Result::err),
            is_new: verdict(object).is_none(),
            open_functions: spec.as_ref().map(open_functions).unwrap_or_default(),
            spec,
            pipelines: Mutex::default(),
        }
    }

    /// A copy without resolved pipelines.
    fn detached(&self) -> Self {
        Self {
            name: self.name.clone(),
            facts: self.facts.clone(),
            identity: self.identity.clone(),
            composition: self.composition.clone(),
            composes: self.composes.clone(),
            connection_namespace: self.connection_namespace.clone(),
            problem: self.problem.clone(),
            is_new: self.is_new,
            spec: self.spec.clone(),
            open_functions: self.open_functions.clone(),
            pipelines: Mutex::default(),
        }
    }

    /// The functions that its steps call.
    fn functions(&self) -> BTreeSet<String> {
        let steps = self.spec.as_ref().map(to_pipeline).unwrap_or_default();
        steps.iter().map(|step| step.function_ref.name.clone()).collect()
    }

    /// Its steps, resolved for a cohort with the functions that can be called now.
    pub(crate) fn pipeline(
        &self,
        callables: &CallableFunctions,
        cohort: Cohort,
    ) -> Result<Arc<Pipeline>, Unusable> {
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pipelines.iter().position(|ready| ready.cohort == cohort);
        if let Some(ready) = known.map(|index| &pipelines[index]).filter(|it| it.epoch == callables.epoch) {
            return ready.pipeline.clone();
        }
        let before = known.map(|index| pipelines.remove(index));
        let mut pipeline = self.prepare(callables, cohort);
        // It calls the same versions: composite resources that ran with the old one need not run again.
        if let (Some(Ready { pipeline: Ok(before), .. }), Ok(now)) = (&before, &pipeline)
            && before.calls_the_same_as(now)
        {
            pipeline = Ok(before.clone());
        } else if let Ok(now) = &pipeline {
            self.warn_of_versions(now);
        }
        // There are two for each rollout; the oldest are dropped.
        if pipelines.len() >= MOST_COHORTS {
            pipelines.remove(0);
        }
        pipelines.push(Ready { cohort, epoch: callables.epoch, pipeline: pipeline.clone() });
        pipeline
    }

    fn warn_of_versions(&self, pipeline: &Pipeline) {
        for warning in pipeline.advisories() {
            let VersionWarning { step, function, version, reason, message, .. } = warning;
            let revision = &self.facts.name;
            warn!(revision, step, function, version, reason, message, "a step calls a deprecated version");
        }
    }

    fn prepare(&self, callables: &CallableFunctions, cohort: Cohort) -> Result<Arc<Pipeline>, Unusable> {
        let spec = self.spec.as_ref().map_err(Clone::clone)?;
        let pipeline = Pipeline::of(spec).map_err(|error| Unusable::new(chain(&error), error.point()))?;
        let preferred = |function: &str| cohort.revision(&self.open_functions, function, &callables.overlays);
        let pipeline = callables.resolve_preferring(pipeline, preferred)?;
        // A candidate of a rollout is not the revision that this one was validated with.
        callables.check_capabilities(&pipeline)?;
        Ok(Arc::new(pipeline))
    }
}

/// The functions of steps that name no revision.
fn open_functions(spec: &CompositionSpec) -> Vec<String> {
    let is_open = |step: &&Step| {
        step.function_ref.version.is_none()
            && step.function_revision_ref.is_none()
            && step.function_revision_selector.is_none()
    };
    let steps = to_pipeline(spec);
    let names: BTreeSet<_> =
        steps.iter().filter(is_open).map(|step| step.function_ref.name.clone()).collect();
    names.into_iter().collect()
}

fn candidate(object: &Object) -> Option<Candidate> {
    let composes = object.get("spec")?.get("compositeTypeRef")?.clone();
    Some(Candidate {
        name: meta::name(object).to_owned(),
        uid: meta::uid(object).to_owned(),
        labels: labels(object),
        composes: serde_json::from_value(composes).ok()?,
    })
}

fn labels(object: &Object) -> BTreeMap<String, String> {
    let labels = object.get("metadata").and_then(|metadata| metadata.get("labels")?.as_object());
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

/// The result of validating its pipeline: only a valid one is run. None if it was not validated yet.
fn verdict(revision: &Object) -> Option<Result<(), Unusable>> {
    let conditions = revision.get("status").and_then(|status| status.get("conditions"));
    let conditions = conditions.map(conditions_in).unwrap_or_default();
    let condition = conditions.into_iter().find(|condition| condition.kind == "ValidPipeline")?;
    if condition.status == Status::True {
        return Some(Ok(()));
    }
    // Crossplane and older releases of ours set no code.
    let cause = condition.cause().unwrap_or(Cause::PipelineInvalid);
    Some(Err(Unusable::new(condition.message, FailurePoint::new(cause).in_step(&condition.step))))
}

fn not_validated() -> Unusable {
    Unusable::new(UNKNOWN, Cause::CompositionRevisionNotValidated)
}
