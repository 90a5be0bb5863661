//! `function-schedule`: places objects on targets, by labels and capacity, and writes the name of the target into the object.
//!
//! Every call places all objects that have no target yet. What is placed stays where it is.
//!
//! # Invariants
//! * No target is given more than its capacity, as long as operations that place the same objects do not run at the same time.
//! * The same objects and targets always give the same places.

mod places;
mod settings;

use ferroplane_wire::Struct;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse, Severity};
use serde_json::{Value, json};

use crate::fleet::{self, Changes, called, is_being_deleted, listed, name_of, namespace_of, text};
use crate::response;
use crate::selection::JsonObject;
use places::{Target, Targets, demand_of};
use settings::Schedule;

/// The names under which things are asked for.
const OBJECTS: &str = "objects";
const TARGETS: &str = "targets";
/// How many objects and targets the output lists.
const MOST_TOLD: usize = 100;

pub(crate) fn run(request: &RunFunctionRequest) -> RunFunctionResponse {
    let mut response = response::to(request);
    match schedule(request, &mut response) {
        Ok(()) => response,
        Err(problem) => response::fatal(response, problem),
    }
}

fn schedule(request: &RunFunctionRequest, response: &mut RunFunctionResponse) -> Result<(), String> {
    let settings = Schedule::read(request.input.as_ref())?;
    let selectors =
        [(OBJECTS, settings.objects.to_requirement()), (TARGETS, settings.targets.to_requirement())];
    response.requirements = Some(fleet::requirements(selectors));
    let (Some(objects), Some(targets)) =
        (fleet::brought(request, OBJECTS)?, fleet::brought(request, TARGETS)?)
    else {
        return Ok(());
    };

    let outcome = place(&settings, objects, targets)?;
    let mut changes = Changes::after(request);
    for (object, target) in &outcome.placed {
        changes.set(object, &settings.assignment_field, target.name.into())?;
        if let Some(field) = &settings.namespace_field {
            changes.set(object, field, target.namespace.into())?;
        }
    }
    response.desired = Some(changes.into_state());
    response.results.extend(outcome.tell());
    response.output = Some(outcome.output()?);
    Ok(())
}

/// What became of all objects.
struct Outcome<'r> {
    objects: usize,
    placed: Vec<(&'r JsonObject, Place<'r>)>,
    /// They have no place, each for a reason.
    unplaced: Vec<(&'r JsonObject, String)>,
    /// They are assigned to what is no target.
    lost: Vec<(&'r JsonObject, String)>,
    targets: Vec<Target<'r>>,
}

#[derive(Debug, Clone, Copy)]
struct Place<'r> {
    name: &'r str,
    namespace: &'r str,
}

fn place<'r>(
    settings: &Schedule<'_>,
    mut objects: Vec<&'r JsonObject>,
    targets: Vec<&'r JsonObject>,
) -> Result<Outcome<'r>, String> {
    let mut targets = Targets::read(settings, targets)?;
    objects.retain(|object| !is_being_deleted(object));
    let count = objects.len();
    let (mut placed, mut unplaced, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    // What is placed already takes its room before anything else is placed.
    let mut waiting = Vec::new();
    for object in objects {
        match settings.assignment(object) {
            None => waiting.push(object),
            Some((name, namespace)) => match targets.find(name, namespace) {
                // What it takes cannot be told, but it is there and stays; only what is placed anew can be
                // refused for it.
                Some(target) => targets.take(target, demand_of(settings, object).unwrap_or(places::NOTHING)),
                None => lost.push((object, name.to_owned())),
            },
        }
    }
    // Who has waited longest comes first; of those that have waited equally long, the order of their names decides.
    let created = ["metadata", "creationTimestamp"];
    waiting.sort_by(|one, other| text(one, &created).cmp(text(other, &created)));
    for object in waiting {
        match targets.choose(settings, object) {
            Ok(target) => placed.push((object, targets.place(target))),
            Err(reason) => unplaced.push((object, reason)),
        }
    }
    Ok(Outcome { objects: count, placed, unplaced, lost, targets: targets.into_all() })
}

impl Outcome<'_> {
    fn tell(&self) -> Vec<ferroplane_wire::v1::Result> {
        let mut results = Vec::new();
        if !self.placed.is_empty() {
            let names: Vec<_> = self
                .placed
                .iter()
                .map(|(object, place)| format!("{} on {}", called(object), place.name))
                .collect();
            let message = format!("Placed {} of {}: {}", names.len(), self.objects, listed(&names));
            results.push(response::result(Severity::Normal, message));
        }
        if !self.unplaced.is_empty() {
            let names: Vec<_> = self
                .unplaced
                .iter()
                .map(|(object, reason)| format!("{} ({reason})", called(object)))
                .collect();
            let message = format!("Found no place for {}: {}", names.len(), listed(&names));
            results.push(response::result(Severity::Warning, message));
        }
        if !self.lost.is_empty() {
            let names: Vec<_> =
                self.lost.iter().map(|(object, target)| format!("{} on {target}", called(object))).collect();
            let message = format!(
                "{} stay on targets that no longer match: {}; remove the assignment to have them placed anew",
                names.len(),
                listed(&names)
            );
            results.push(response::result(Severity::Warning, message));
        }
        if results.is_empty() {
            results.push(response::result(
                Severity::Normal,
                format!("All of {} have their place", self.objects),
            ));
        }
        results
    }

    fn output(&self) -> Result<Struct, String> {
        let placements = self.placed.iter().take(MOST_TOLD).map(|(object, place)| {
            let mut placement = json!({"object": called(object), "target": place.name});
            if !place.namespace.is_empty() {
                placement["targetNamespace"] = place.namespace.into();
            }
            placement
        });
        let unplaced = self.unplaced.iter().take(MOST_TOLD);
        let unplaced = unplaced.map(|(object, reason)| json!({"object": called(object), "reason": reason}));
        let targets = self.targets.iter().take(MOST_TOLD).map(Target::to_output);
        let output = json!({
            "matchedObjects": self.objects,
            "placedObjects": self.placed.len(),
            "unplacedObjects": self.unplaced.len(),
            "lostObjects": self.lost.len(),
            "placements": placements.collect::<Vec<_>>(),
            "unplaced": unplaced.collect::<Vec<_>>(),
            "targets": targets.collect::<Vec<_>>(),
        });
        let Value::Object(output) = output else { return Ok(Struct::default()) };
        Struct::try_from(output).map_err(|error| format!("cannot tell what was placed: {error}"))
    }
}

impl<'r> Place<'r> {
    fn of(target: &'r JsonObject) -> Self {
        Self { name: name_of(target), namespace: namespace_of(target) }
    }
}

#[cfg(test)]
mod tests;
