//! Selects the Composition, its revision, and the functions of a composite resource.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::Object;
use ferroplane_engine::composite::{COMPOSE, SELECT, Selected, selection_events};
use ferroplane_engine::rollout::Overlay;
use ferroplane_engine::wording::{CANNOT_SELECT_COMPOSITION, CANNOT_SELECT_REVISION, cannot_use_revision};
use ferroplane_engine::{
    Defaults, Event, Grants, Pipeline, Preferences, Unselectable, Why, choose_composition, choose_revision,
};
use tracing::trace;

use super::controller::Controller;
use super::intercept::Intercepted;
use super::problem::Problem;
use super::trial::{Instead, Moving, OnTrial, Resolved, Uncallable};
use crate::apiextensions::composition_cache::{CompositionCache, Revision, Unusable};
use crate::function_registry::CallableFunctions;
use crate::rollout::Cohort;

/// The selection for a composite resource. It is made once in a reconcile.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) result: Result<Follows, Problem>,
    /// Changes when another pipeline would run, and when nothing can run for another reason.
    pub(super) identity: Arc<str>,
    /// The grants that apply to it.
    pub(super) grants: Arc<Grants>,
    /// The state of the sources that it was made from.
    pub(super) epoch: Epoch,
}

/// The composition of a composite resource, whether or not it can be used.
#[derive(Debug)]
pub(super) struct Follows {
    pub(super) selected: Selected,
    pub(super) revision: Arc<Revision>,
    /// Events about it.
    pub(super) events: Vec<Event>,
    /// Its steps and their functions, or why it cannot be used.
    pub(super) pipeline: Result<Arc<Pipeline>, Problem>,
    /// The candidates of rollouts that it calls, or that are to be tried for it.
    pub(super) trial: Option<OnTrial>,
    /// The candidates that it should call and cannot.
    pub(super) uncallable: Option<Uncallable>,
    /// Whether a developer's process is called instead of a function.
    pub(super) intercepted: Intercepted,
    /// All functions that could be called when it was selected. Their programs are not stopped while this is held.
    pub(super) callables: Arc<CallableFunctions>,
}

impl Follows {
    /// How much longer a reconcile may take because of runs whose results are only compared.
    pub(super) fn allowance(&self) -> Duration {
        self.intercepted.allowance() + self.trial.as_ref().map_or(Duration::ZERO, OnTrial::allowance)
    }
}

/// Increases when a source of selections changes, apart from the composite resource itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Epoch {
    compositions: u64,
    functions: u64,
    grants: u64,
}

/// The sources of selections, apart from the composite resource itself. Plans replace some of them.
#[derive(Debug, Clone)]
pub(super) struct SelectionSources {
    pub(super) compositions: Arc<CompositionCache>,
    pub(super) callables: Arc<CallableFunctions>,
    pub(super) defaults: Defaults,
}

impl Controller {
    pub(super) fn select(&self, live: &Object) -> Selection {
        self.select_from(live, &self.current_sources())
    }

    /// The current sources.
    pub(super) fn current_sources(&self) -> SelectionSources {
        SelectionSources {
            compositions: self.shared.compositions.clone(),
            callables: self.shared.functions.current(),
            defaults: self.defaults.clone(),
        }
    }

    pub(super) fn select_from(&self, live: &Object, sources: &SelectionSources) -> Selection {
        trace!("selecting a composition");
        // Before anything is read: a change in between is noticed.
        let epoch = self.selection_epoch();
        let grants = Arc::new(self.shared.grants.current().about(live));
        let result = self.follow(live, sources, &grants);
        let mut identity = identity(&result);
        if !grants.is_empty() {
            identity.push_str(&grants.to_json().to_string());
        }
        Selection { result, identity: identity.into(), grants, epoch }
    }

    pub(super) fn selection_epoch(&self) -> Epoch {
        let compositions = self.shared.compositions.epoch();
        let (functions, grants) = (self.shared.functions.current().epoch, self.shared.grants.epoch());
        Epoch { compositions, functions, grants }
    }

    /// Select the composition, its revision, and the functions of its steps.
    fn follow(&self, live: &Object, sources: &SelectionSources, grants: &Grants) -> Result<Follows, Problem> {
        let SelectionSources { compositions: cache, callables, .. } = sources;
        let mut preferences = Preferences::read(live, self.layout);
        let (composition, why, name) = self.choose(&mut preferences, sources)?;
        let overlay = callables.composition_overlays.get(&composition);
        let moving = overlay.and_then(|overlay| Moving::of(live, &preferences, overlay, cache));
        let revision = match &moving {
            Some(moving) => Some(moving.followed().clone()),
            None => cache.revision(&name),
        };
        let mut revision = revision.ok_or_else(|| compose(&Unselectable::UnknownRevision(name.clone())))?;
        let select_revision = |revision: &Revision| Selected {
            composition: composition.clone(),
            why,
            revision: Some(revision.facts.name.clone()),
            connection_namespace: revision.connection_namespace.clone(),
        };
        let cohort_of = |revision: &Revision| {
            Cohort::of(&revision.open_functions, &callables.overlays, live, preferences.is_manual)
        };
        let mut resolved = self.resolve_on_trial(live, &revision, callables, cohort_of(&revision));
        if let Some(other) = moving.as_ref().and_then(Moving::other) {
            let instead = Instead { selected: select_revision(other), revision: other.clone() };
            let pipeline = self.resolve(other, callables, cohort_of(other).unmoved());
            let moving = moving.as_ref().map(Moving::overlay);
            let is_open = |overlay: &&Overlay| {
                let is_done = overlay.is_preview && self.is_tried(live, overlay);
                !is_done && !self.is_composition_awaited(overlay, &resolved, &pipeline)
            };
            if let Some(overlay) = moving.filter(is_open)
                && let Some(followed) = resolved.try_composition(overlay, pipeline, instead)
            {
                revision = followed;
            }
        }
        let selected = select_revision(&revision);
        let events = selection_events(&selected, preferences.revision.as_deref());
        let intercepted = self.intercept(live, &mut resolved, callables, grants);
        resolved.identify_trial(&revision, grants);
        let Resolved { pipeline, trial, uncallable } = resolved;
        let callables = callables.clone();
        Ok(Follows { selected, revision, events, pipeline, trial, uncallable, intercepted, callables })
    }

    /// Select the composition and its revision, without rollouts.
    fn choose(
        &self,
        preferences: &mut Preferences,
        sources: &SelectionSources,
    ) -> Result<(String, Why, String), Problem> {
        let SelectionSources { compositions: cache, defaults, .. } = sources;
        let select = |error: Unselectable| {
            Problem::new(SELECT, error.cause(), format!("{CANNOT_SELECT_COMPOSITION}: {error}"))
        };
        let candidates = cache.compositions();
        let candidates = candidates.iter().map(AsRef::as_ref);
        let (composition, why) =
            choose_composition(preferences, defaults, &self.type_ref, candidates).map_err(select)?;
        preferences.take_default_revision_selector(defaults);

        let unknown = || compose(&Unselectable::UnknownComposition(composition.clone()));
        let candidate = cache.composition(&composition).ok_or_else(unknown)?;
        let revisions = cache.revisions_of(&composition);
        let facts = revisions.iter().map(|revision| &revision.facts);
        let name = choose_revision(preferences, &candidate, facts).map_err(|error| compose(&error))?;
        Ok((composition, why, name))
    }

    /// Resolve the functions of a revision for a cohort, if it can be used.
    pub(super) fn resolve(
        &self,
        revision: &Revision,
        callables: &CallableFunctions,
        cohort: Cohort,
    ) -> Result<Arc<Pipeline>, Problem> {
        let name = &revision.facts.name;
        let unusable = |Unusable { message, failure }: Unusable| {
            Problem::new(COMPOSE, failure, format!("{}: {message}", cannot_use_revision(name)))
        };
        if let Some(problem) = &revision.problem {
            return Err(unusable(problem.clone()));
        }
        if revision.composes != self.type_ref {
            let (composes, wanted) = (revision.composes.clone(), self.type_ref.clone());
            return Err(compose(&Unselectable::Incompatible { revision: name.clone(), composes, wanted }));
        }
        revision.pipeline(callables, cohort).map_err(unusable)
    }
}

fn compose(error: &Unselectable) -> Problem {
    Problem::new(COMPOSE, error.cause(), format!("{CANNOT_SELECT_REVISION}: {error}"))
}

fn identity(result: &Result<Follows, Problem>) -> String {
    let pipeline = result.as_ref().and_then(|follows| Ok((follows, follows.pipeline.as_ref()?)));
    match pipeline {
        Ok((Follows { selected, revision, intercepted, .. }, pipeline)) => {
            // A developer who restarts the process expects a new reconcile.
            let round = match intercepted {
                Intercepted::ForReal(intercept) => format!("/{}", intercept.spec.round),
                _ => String::new(),
            };
            let callees = pipeline.steps().iter().map(|step| {
                // With the code, too: a built-in function may start or stop to replace a revision.
                let callee = step.callee.as_ref().map(|callee| (callee.revision.as_str(), callee.code()));
                let (revision, code) = callee.unwrap_or_default();
                if revision == code { format!("/{revision}") } else { format!("/{revision}={code}") }
            });
            std::iter::once(format!("{}/{}", selected.composition, revision.identity))
                .chain(callees)
                .chain([round])
                .collect()
        }
        // Another reason has to be reported.
        Err(Problem::Trouble(report)) => report.trouble.message.clone(),
        Err(_) => String::new(),
    }
}
