//! Chooses what a composite resource follows: a composition, a revision of it, and what its steps call.

use std::sync::Arc;

use ferroplane_api::Object;
use ferroplane_engine::composite::{COMPOSE, SELECT, Selected, selection_events};
use ferroplane_engine::{Event, Pipeline, Preferences, Unselectable, choose_composition, choose_revision};

use super::controller::Controller;
use super::problem::Problem;
use crate::apiextensions::composition_cache::Revision;

/// What was selected for a composite resource, whether or not it can be used.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) selected: Selected,
    pub(super) revision: Arc<Revision>,
    pub(super) events: Vec<Event>,
}

/// What a composite resource follows.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) selection: Selection,
    pub(super) pipeline: Arc<Pipeline>,
}

impl Controller {
    /// Which composition, which revision of it, and what its steps call.
    pub(super) fn choose(&self, live: &Object) -> Result<Choice, Problem> {
        let selection = self.select(live)?;
        let pipeline = self.prepare(&selection)?;
        Ok(Choice { selection, pipeline })
    }

    /// Which composition, and which revision of it.
    pub(super) fn select(&self, live: &Object) -> Result<Selection, Problem> {
        let select =
            |error: Unselectable| Problem::new(SELECT, format!("cannot select a Composition: {error}"));
        let mut preferences = Preferences::read(live, self.layout);
        let candidates = self.shared.compositions.compositions();
        let candidates = candidates.iter().map(AsRef::as_ref);
        let (name, why) =
            choose_composition(&preferences, &self.defaults, &self.type_ref, candidates).map_err(select)?;
        preferences.take_default_revision_selector(&self.defaults);

        let unknown = || compose(&Unselectable::UnknownComposition(name.clone()));
        let composition = self.shared.compositions.composition(&name).ok_or_else(unknown)?;
        let revisions = self.shared.compositions.revisions_of(&name);
        let facts = revisions.iter().map(|revision| &revision.facts);
        let chosen = choose_revision(&preferences, &composition, facts).map_err(|error| compose(&error))?;
        let unknown = || compose(&Unselectable::UnknownRevision(chosen.clone()));
        let revision = self.shared.compositions.revision(&chosen).ok_or_else(unknown)?;
        let selected = Selected {
            composition: name,
            why,
            revision: Some(chosen),
            connection_namespace: revision.connection_namespace.clone(),
        };
        let events = selection_events(&selected, preferences.revision.as_deref());
        Ok(Selection { selected, revision, events })
    }

    /// What its steps call, if it can be used.
    pub(super) fn prepare(&self, selection: &Selection) -> Result<Arc<Pipeline>, Problem> {
        let revision = &selection.revision;
        let chosen = &revision.facts.name;
        if let Some(problem) = &revision.problem {
            let message = format!("cannot use CompositionRevision `{chosen}`: {problem}");
            return Err(Problem::new(COMPOSE, message));
        }
        if revision.composes != self.type_ref {
            let (composes, wanted) = (revision.composes.clone(), self.type_ref.clone());
            return Err(compose(&Unselectable::Incompatible { revision: chosen.clone(), composes, wanted }));
        }
        let pipeline = revision.pipeline(&self.shared.functions.current());
        pipeline.map_err(|problem| {
            Problem::new(COMPOSE, format!("cannot use CompositionRevision `{chosen}`: {problem}"))
        })
    }
}

fn compose(error: &Unselectable) -> Problem {
    Problem::new(COMPOSE, format!("cannot select a revision: {error}"))
}

impl Choice {
    /// Changes when what would run changes.
    pub(super) fn identity(&self) -> String {
        let callees = self.pipeline.steps().iter().map(|step| {
            let callee = step.callee.as_ref().map_or("", |callee| callee.revision.as_str());
            format!("/{callee}")
        });
        let Selection { selected, revision, .. } = &self.selection;
        std::iter::once(format!("{}/{}", selected.composition, revision.identity)).chain(callees).collect()
    }
}
