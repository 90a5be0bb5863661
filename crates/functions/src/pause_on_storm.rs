//! `function-pause-on-storm`: finds objects that are reconciled in a tight loop, and pauses them.
//!
//! Two things tell of a loop: a condition that a controller sets when it notices one itself, and many events about one object
//! within a short time. A function has no clock: what is recent is measured from the latest event of all.
//!
//! # Invariants
//! * What is being deleted is never paused: it would never be gone.
//! * An object that a user resumes is paused again for what happens afterwards alone. The annotation [`SEEN`] says what came before.

mod evidence;
mod seen;
mod settings;

use ferroplane_api::keys::PAUSED;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{MatchLabels, ResourceSelector, RunFunctionRequest, RunFunctionResponse, Severity};
use serde_json::{Value, json};

use crate::fieldpath::Path;
use crate::fleet::{self, Changes, called, is_being_deleted, is_paused, listed};
use crate::response;
use crate::selection::JsonObject;
use evidence::{EventIndex, Storm};
use settings::PauseOnStorm;

/// The names under which things are asked for.
const TARGETS: &str = "targets";
const EVENTS: &str = "events";
/// The annotation that says why an object was paused.
const REASON: &str = "pause-on-storm.fn.ferroplane.io/reason";
/// The annotation that says what had happened when an object was paused.
const SEEN: &str = "pause-on-storm.fn.ferroplane.io/seen";

pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match pause(request, &mut response) {
        Ok(()) => response,
        Err(problem) => response::fatal(response, problem),
    }
}

fn pause(request: &RunFunctionRequest, response: &mut RunFunctionResponse) -> Result<(), String> {
    let settings = PauseOnStorm::read(request.input.as_ref())?;
    let events = settings.events.is_some().then(|| (EVENTS, all_events(&settings)));
    response.requirements =
        Some(fleet::requirements([(TARGETS, settings.targets.to_requirement())].into_iter().chain(events)));
    let Some(targets) = fleet::brought(request, TARGETS)? else { return Ok(()) };
    let events = match fleet::brought(request, EVENTS)? {
        // Both are asked for at once, so that this is the first call still.
        None if settings.events.is_some() => return Ok(()),
        events => events.unwrap_or_default(),
    };

    let survey = Survey::of(&settings, &targets, &EventIndex::of(&events));
    let mut changes = Changes::after(request);
    for (object, storm) in survey.to_pause(&settings) {
        for (annotation, value) in
            [(PAUSED, "true"), (REASON, storm.reason.as_str()), (SEEN, storm.seen.to_string().as_str())]
        {
            changes.set(object, &annotation_field(annotation)?, value.into())?;
        }
    }
    response.desired = Some(changes.into_state());
    let (severity, message) = survey.tell(&settings);
    response.results.push(response::result(severity, message));
    response.output = Some(survey.output(&settings)?);
    Ok(())
}

/// Events have no labels to select by. They are in the namespace of what they are about.
fn all_events(settings: &PauseOnStorm<'_>) -> ResourceSelector {
    ResourceSelector {
        api_version: "v1".to_owned(),
        kind: "Event".to_owned(),
        namespace: settings.targets.namespace().map(str::to_owned),
        r#match: Some(Match::MatchLabels(MatchLabels::default())),
    }
}

fn annotation_field(annotation: &str) -> Result<Path, String> {
    Path::parse(&format!("metadata.annotations[{annotation}]")).map_err(|error| error.to_string())
}

/// What was found among the objects.
struct Survey<'r> {
    looked_at: usize,
    already_paused: usize,
    stormy: Vec<(&'r JsonObject, Storm)>,
}

impl<'r> Survey<'r> {
    fn of(settings: &PauseOnStorm<'_>, targets: &[&'r JsonObject], events: &EventIndex<'_>) -> Self {
        let running = targets.iter().filter(|object| !is_being_deleted(object) && !is_paused(object));
        let mut stormy: Vec<_> =
            running.filter_map(|object| Some((*object, evidence::of(settings, object, events)?))).collect();
        // If not all may be paused, the worst ones are.
        stormy.sort_by_key(|(_, storm)| std::cmp::Reverse(storm.strength));
        let already_paused = targets.iter().filter(|object| is_paused(object)).count();
        Self { looked_at: targets.len(), already_paused, stormy }
    }

    fn to_pause(&self, settings: &PauseOnStorm<'_>) -> &[(&'r JsonObject, Storm)] {
        &self.stormy[..self.stormy.len().min(settings.at_most)]
    }

    fn tell(&self, settings: &PauseOnStorm<'_>) -> (Severity, String) {
        let paused = self.to_pause(settings);
        if paused.is_empty() && self.stormy.is_empty() {
            return (Severity::Normal, format!("None of {} is in a storm", self.looked_at));
        }
        let names: Vec<_> =
            paused.iter().map(|(object, storm)| format!("{} ({})", called(object), storm.reason)).collect();
        let mut message = format!("Paused {} of {}: {}", names.len(), self.looked_at, listed(&names));
        if paused.len() < self.stormy.len() {
            let rest = self.stormy.len() - paused.len();
            message += &format!(
                "; {rest} more are in a storm, but no more than {} are paused at once",
                settings.at_most
            );
        }
        // A user has to check them.
        (Severity::Warning, message)
    }

    fn output(&self, settings: &PauseOnStorm<'_>) -> Result<Struct, String> {
        const MOST_TOLD: usize = 100;
        let paused = self.to_pause(settings);
        let told = paused.iter().take(MOST_TOLD);
        let told: Vec<_> =
            told.map(|(object, storm)| json!({"name": called(object), "reason": storm.reason})).collect();
        let output = json!({
            "matchedTargets": self.looked_at,
            "pausedTargets": paused.len(),
            "alreadyPausedTargets": self.already_paused,
            "leftTargets": self.stormy.len() - paused.len(),
            "paused": told,
        });
        let Value::Object(output) = output else { return Ok(Struct::default()) };
        Struct::try_from(output).map_err(|error| format!("cannot tell what was found: {error}"))
    }
}

#[cfg(test)]
mod tests;
