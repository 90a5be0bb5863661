//! A snapshot of all functions that steps and phases can call: pipelines are resolved with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, FailurePoint};
use ferroplane_engine::action::{CustomFunction, PhaseFunction, PhaseFunctions};
use ferroplane_engine::intercept::Intercept;
use ferroplane_engine::rollout::Overlay;
use ferroplane_engine::versions::{Catalogue, Record, Version};
use ferroplane_engine::{Capabilities, InvalidPipeline, Pipeline, chain, check_callees};
use ferroplane_runner::{Directory, Observer};
use tokio::time::Instant;

use super::{BuiltIns, FunctionRegistry};
use crate::apiextensions::composition_cache::Unusable;
use crate::metrics::Called;

/// How long functions may take in all for a plan. The client waits for it for a minute at most.
const PLAN_PATIENCE: Duration = Duration::from_secs(30);

/// A snapshot of all functions that can be called.
#[derive(Debug)]
pub(crate) struct CallableFunctions {
    /// Increases with every change.
    pub(crate) epoch: u64,
    pub(crate) catalogue: Catalogue,
    pub(crate) directory: Directory,
    /// Rollouts of functions, by function.
    pub(crate) overlays: BTreeMap<String, Overlay>,
    /// Rollouts of compositions, by composition.
    pub(crate) composition_overlays: BTreeMap<String, Overlay>,
    /// Intercepts, by name.
    pub(crate) intercepts: Vec<Intercept>,
    /// Why functions cannot be called, by the name of their revision.
    pub(super) troubles: BTreeMap<String, String>,
    /// What revisions say that they can do, by their names.
    pub(super) capabilities: Capabilities,
    /// Counts calls for metrics only: a rollout must not judge a revision by calls that a plan makes.
    pub(super) metrics_only: Option<Observer>,
    /// The labels of metrics, by the name of the revision, until the metrics have them.
    pub(super) called: BTreeMap<String, Called>,
}

impl CallableFunctions {
    /// The built-in functions only.
    pub(super) fn built_in(built_ins: &BuiltIns) -> Self {
        Self {
            epoch: 0,
            catalogue: built_ins.catalogue.clone(),
            directory: built_ins.directory.clone(),
            overlays: BTreeMap::new(),
            composition_overlays: BTreeMap::new(),
            intercepts: Vec::new(),
            troubles: BTreeMap::new(),
            capabilities: Capabilities::new(),
            metrics_only: None,
            called: BTreeMap::new(),
        }
    }

    /// Resolve the version of the function for every step.
    pub(crate) fn resolve(&self, pipeline: Pipeline) -> Result<Pipeline, Unusable> {
        self.resolve_preferring(pipeline, |_| None)
    }

    /// The same, with preferred revisions by function, for steps that name none.
    pub(crate) fn resolve_preferring<'p>(
        &self,
        pipeline: Pipeline,
        preferred: impl Fn(&str) -> Option<&'p str>,
    ) -> Result<Pipeline, Unusable> {
        let pipeline = pipeline
            .resolve_preferring(&self.catalogue, preferred)
            .map_err(|error| Unusable::new(chain(&error), error.point()))?;
        for step in pipeline.steps() {
            let revision = step.callee.as_ref().map(|callee| &callee.revision);
            if let Some(trouble) = revision.and_then(|revision| self.troubles.get(revision)) {
                let failure = FailurePoint::new(Cause::FunctionNotConnectable).in_step(&step.name);
                return Err(Unusable::new(format!("step `{}`: {trouble}", step.name), failure));
            }
        }
        Ok(pipeline)
    }

    /// Check that the functions of a composition's resolved pipeline can compose.
    pub(crate) fn check_capabilities(&self, pipeline: &Pipeline) -> Result<(), Unusable> {
        let unusable = |invalid: InvalidPipeline| Unusable::new(chain(&invalid), invalid.point());
        check_callees(pipeline, &self.capabilities).map_err(unusable)
    }

    /// A copy for a plan, in which steps that name only a function call this revision of it. Nothing is cached, and rollouts do not count
    /// the calls.
    pub(crate) fn preferring(&self, revisions: &BTreeMap<String, String>) -> Result<Self, String> {
        let (mut catalogue, mut overlays) = (self.catalogue.clone(), self.overlays.clone());
        for (function, revision) in revisions {
            // A plan with a revision that does not run would only show that it cannot be called.
            catalogue.check_serving(function, revision)?;
            catalogue.prefer(function, revision);
            // A rollout of the function would move some of the composite resources to another revision.
            overlays.remove(function);
        }
        let mut directory = self.directory.without_answers();
        if let Some(observer) = &self.metrics_only {
            directory.observe(observer.clone());
        }
        // One deadline for all calls together: a plan may call functions for thousands of composite resources.
        directory.set_deadline(Instant::now() + PLAN_PATIENCE);
        Ok(Self {
            epoch: self.epoch,
            catalogue,
            directory,
            overlays,
            composition_overlays: self.composition_overlays.clone(),
            intercepts: self.intercepts.clone(),
            troubles: self.troubles.clone(),
            capabilities: self.capabilities.clone(),
            metrics_only: self.metrics_only.clone(),
            called: BTreeMap::new(),
        })
    }

    /// A copy in which all composite resources use the latest revision of these compositions.
    pub(crate) fn without_rollouts_of(mut self, compositions: &BTreeSet<String>) -> Self {
        self.composition_overlays.retain(|composition, _| !compositions.contains(composition));
        self
    }

    /// Why a revision cannot be called, if it cannot.
    pub(crate) fn trouble(&self, revision: &str) -> Option<String> {
        if self.directory.get(revision).is_some() {
            return None;
        }
        let trouble = self.troubles.get(revision).cloned();
        Some(trouble.unwrap_or_else(|| format!("revision `{revision}` of a function no longer exists")))
    }

    /// Whether all functions of a pipeline still exist.
    pub(crate) fn lists(&self, pipeline: &Pipeline) -> bool {
        let mut callees = pipeline.steps().iter().filter_map(|step| step.callee.as_ref());
        callees.all(|callee| self.directory.get(&callee.revision).is_some())
    }

    /// Set the labels of a revision's metrics. Revisions whose name changes at each start have none.
    pub(super) fn name(&mut self, revision: &str, function: &str, package: &str, is_told_apart: bool) {
        // A label that changes with every start would add a time series each time.
        let told = if is_told_apart { revision.to_owned() } else { String::new() };
        let called = Called { function: function.to_owned(), revision: told, package: package.to_owned() };
        self.called.insert(revision.to_owned(), called);
    }
}

/// The functions that phases of Blueprints call: those that are built in for them, and those of packages and developers.
pub(crate) struct CallableByPhases<'a> {
    pub(super) registry: &'a FunctionRegistry,
    pub(super) callables: &'a CallableFunctions,
}

impl PhaseFunctions for CallableByPhases<'_> {
    fn phase_function(&self, function: &str, version: &Version) -> Option<Arc<dyn PhaseFunction>> {
        if let Some(built_in) = self.registry.phases().phase_function(function, version) {
            return Some(built_in);
        }
        let is_version =
            |record: &&Record| record.version.as_ref().unwrap_or(&Version::UNVERSIONED) == version;
        let records = &self.callables.catalogue.family(function)?.records;
        let same = records.iter().filter(|record| record.is_active).filter(is_version);
        let record = same.max_by_key(|record| (record.is_serving, record.revision.number))?;
        let can_act = self.registry.can_act(function, record);
        can_act.then(|| Arc::new(CustomFunction::new(&record.revision.name)) as Arc<dyn PhaseFunction>)
    }
}
