//! The story of a composite resource: observe, decide, apply, settle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::composite::{
    Begin, COMPOSE, Ending, Published, begin, composite_for_functions, machinery_to_record, published_event,
};
use ferroplane_engine::{Event, Inputs, NAMESPACE_OVERRIDDEN, Outcome, Reference, Requirement, Trouble};
use ferroplane_recorder::{Ending as TapeEnding, Tape};
use ferroplane_runner::drive_noting;
use ferroplane_schema::managed::{holds, owns};
use ferroplane_wire::Struct;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::{Instrument as _, debug, field, warn};

use super::apply::name_of;
use super::choose::{Choice, Selection};
use super::controller::Controller;
use super::memory::{Name, Settled};
use super::observe::World;
use super::problem::{Problem, Report};
use super::read;
use super::settle::{Written, version_of};
use super::settled::{composition_of, essence, fingerprint, pause_after};
use super::story;
use crate::cluster::{Part, Place};
use crate::runtime::finalizers;
use crate::runtime::queue::{Next, Slot};

/// How long composing may take. Telling what came of it is not part of that.
const PATIENCE: Duration = Duration::from_mins(2);
/// What is composed is looked at again at once, because it was not there before. Not more often: a function that changes
/// its mind each time would be asked for ever.
const ROUNDS: usize = 2;
/// How often to wait for somebody to look at the pipeline of a new revision before that is told.
const PATIENT_LOOKS: u32 = 4;

/// What came of composing.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) outcome: Outcome,
    pub(super) unsynced: BTreeSet<String>,
    pub(super) events: Vec<Event>,
    pub(super) published: Published,
    /// What the last run of the pipeline was made from.
    basis: Basis,
    /// Whether the last run changed what it was made from.
    has_news: bool,
}

/// What a run of a pipeline is made from, apart from the composite resource itself.
#[derive(Debug, Default)]
struct Basis {
    identity: String,
    versions: Vec<u64>,
    epochs: Vec<u64>,
    /// What functions saw of the composite resource.
    composite: Object,
}

impl Controller {
    /// Look at a composite resource, and do what has to be done.
    pub(super) async fn reconcile(self: Arc<Self>, name: Name, slot: Slot) -> Next {
        let Some(live) = self.mirror.get_by_key(&name).and_then(|held| self.mirror.to_object(&held)) else {
            self.tally.remove(&name);
            self.forget(&name);
            return Next::Rest;
        };
        self.tally.set(&name, &live);
        if let Some(next) = self.leave_alone(&name, &live).await {
            return next;
        }
        let story = story::begin(&live);
        let result = self.look_at(&name, live, &slot).instrument(story.clone()).await;
        story::end(&story, &result);
        match result {
            Ok(next) => next,
            Err(Problem::Conflict) => {
                self.memory.unsettle(&name);
                Next::Conflict
            }
            Err(Problem::Gone | Problem::Early) => Next::Rest,
            Err(Problem::Trouble(report)) => {
                // It could not even be told.
                let (namespace, name_only) = name.split_once('/').unwrap_or_default();
                warn!(
                    kind = self.kind.resource.kind,
                    namespace,
                    name = name_only,
                    error = report.log_message(),
                    "cannot settle a composite resource"
                );
                self.memory.unsettle(&name);
                Next::Retry
            }
        }
    }

    /// When to look again, if nothing has to be done now.
    async fn leave_alone(&self, name: &Name, live: &Object) -> Option<Next> {
        if begin(live) != Begin::Run {
            return None;
        }
        if let Some(next) = self.is_settled(name, live).await {
            return Some(next);
        }
        self.wait_for_calm(name, live).map(Next::After)
    }

    async fn look_at(&self, name: &Name, mut live: Object, slot: &Slot) -> Result<Next, Problem> {
        match begin(&live) {
            Begin::Paused => return self.pause(name, &live).await,
            Begin::Deleting => return self.let_go(name, &live).await,
            Begin::Run => {}
        }
        let began_at = Instant::now();
        let identity = self.identity(&live);
        let reader = read::World::new(&self.shared, &self.kind.definition, name);
        let mut tape = self.shared.context.recordings.begin(&live, self.shared.context.clock.milliseconds());
        let composing = self.compose(&reader, name, &mut live, slot, &mut tape);
        let composed = tokio::time::timeout(PATIENCE, composing).await;
        let late =
            || Problem::new(COMPOSE, format!("composing took longer than {} seconds", PATIENCE.as_secs()));
        let next = match composed.unwrap_or_else(|_| Err(late())) {
            Ok(composed) => self.succeed(name, live, composed, &mut tape).await,
            Err(Problem::Trouble(report)) => {
                tape.trouble(&report.trouble.message);
                self.fail(name, &live, *report, reader.asked(), &identity, &mut tape).await
            }
            Err(Problem::Early) => {
                let asked = reader.asked();
                Ok(self.remember_failure(name, &live, Written::default(), asked, &identity).await)
            }
            Err(other) => Err(other),
        };
        if let Err(problem) = &next {
            self.memory.note_asked(name, reader.asked());
            if let Problem::Trouble(report) = problem {
                tape.trouble(&report.trouble.message);
            }
        }
        let micros = began_at.elapsed().as_micros();
        tape.end(ending(&next), micros);
        self.shared.context.recordings.keep(tape);
        debug!(micros, "looked at a composite resource");
        next
    }

    async fn compose(
        &self,
        reader: &read::World<'_>,
        name: &Name,
        live: &mut Object,
        slot: &Slot,
        tape: &mut Tape,
    ) -> Result<Composed, Problem> {
        let mut events = Vec::new();
        match self.compose_with(reader, name, live, slot, &mut events, tape).await {
            Ok(composed) => Ok(Composed { events, ..composed }),
            Err(problem) => Err(problem.telling(events)),
        }
    }

    /// Choose, observe, decide, delete, record, apply. Each must hold before the next may happen.
    async fn compose_with(
        &self,
        reader: &read::World<'_>,
        name: &Name,
        live: &mut Object,
        slot: &Slot,
        events: &mut Vec<Event>,
        tape: &mut Tape,
    ) -> Result<Composed, Problem> {
        let choice = self.follow(name, live, events).await?;
        let selected = &choice.selection.selected;
        tape.follows(&selected.composition, selected.revision.as_deref().unwrap_or_default());
        let mut composite =
            composite_for_functions(live, self.layout, selected, Some(keys::COMPOSITE_FINALIZER));
        let mut remembered: Arc<[Requirement]> =
            self.memory.recall(name).map(|settled| settled.requirements).unwrap_or_default();
        let before = remembered.clone();
        for round in 1.. {
            let world = match self.observe(&composite).instrument(story::phase("observe", round)).await {
                Ok(world) => world,
                Err(problem) => {
                    return Err(self.keep(live, &choice.selection).await.err().unwrap_or(problem));
                }
            };
            let deciding = self.decide(&composite, &choice, &world, &remembered, reader, tape);
            // A function that hangs must not keep others from being called.
            let outcome = slot.wait_for(deciding.instrument(story::phase("decide", round))).await?;
            if outcome.result.is_err() {
                self.keep(live, &choice.selection).await?;
                return Err(failed(outcome));
            }
            let applying = self.carry_out(live, &choice, &outcome, &world);
            let applied = match applying.instrument(story::phase("apply", round)).await {
                Ok(applied) => {
                    tape.did(applied.versions.len(), &applied.unsynced);
                    applied
                }
                Err(problem) => return Err(problem.after(outcome)),
            };
            let basis = Basis {
                identity: choice.identity(),
                versions: world.versions,
                epochs: reader.epochs_of(&outcome.requirements),
                composite: std::mem::take(&mut composite),
            };
            if applied.has_news && round < ROUNDS {
                // What was composed was not there when functions were asked: ask them again, as if they had been told
                // what they said themselves.
                composite = foresee(live, &basis.composite, &outcome);
                remembered = outcome.requirements.into();
                events.extend(applied.events);
                // Next time it is where it should be, and nobody would know.
                let is_about_place = |event: &Event| event.reason == NAMESPACE_OVERRIDDEN;
                events.extend(outcome.events.into_iter().filter(is_about_place));
                continue;
            }
            events.extend(applied.events);
            let details =
                outcome.result.as_ref().map(|plan| plan.connection_details.clone()).unwrap_or_default();
            let published = match self.publish(live, &details).await {
                Ok(true) => Published::Now,
                Ok(false) => Published::Before,
                Err(problem) => return Err(problem.after(outcome)),
            };
            self.shared.dependencies.follow(
                &self.kind.definition,
                name,
                &[reader.asked(), before.to_vec(), remembered.to_vec()].concat(),
                &outcome.requirements,
            );
            let (unsynced, has_news) = (applied.unsynced, applied.has_news);
            if published == Published::Now {
                events.push(published_event());
            }
            return Ok(Composed { outcome, unsynced, events: Vec::new(), published, basis, has_news });
        }
        unreachable!("the last round returns")
    }

    /// Choose what to follow. What was selected is written down even if it cannot be used.
    async fn follow(
        &self,
        name: &Name,
        live: &mut Object,
        events: &mut Vec<Event>,
    ) -> Result<Choice, Problem> {
        let mut selection = self.select(live)?;
        let failures = self.memory.recall(name).map_or(0, |settled| settled.failures);
        if selection.revision.is_new && failures < PATIENT_LOOKS {
            return Err(Problem::Early);
        }
        events.append(&mut selection.events);
        story::choose(&selection.selected);
        match self.prepare(&selection) {
            Ok(pipeline) => Ok(Choice { selection, pipeline }),
            Err(problem) => Err(self.keep(live, &selection).await.err().unwrap_or(problem)),
        }
    }

    async fn decide(
        &self,
        composite: &Object,
        choice: &Choice,
        world: &World,
        remembered: &Arc<[Requirement]>,
        reader: &read::World<'_>,
        tape: &mut Tape,
    ) -> Result<Outcome, Problem> {
        let inputs = Inputs {
            connection_details: self.own_connection_details(composite).await?,
            composite: Struct::try_from(composite.clone()).map_err(|error| {
                Problem::new(COMPOSE, format!("cannot read the composite resource: {error}"))
            })?,
            layout: self.layout,
            observed: world.observed.clone(),
            pipeline: choice.pipeline.clone(),
            remembered: remembered.to_vec(),
            context: None,
        };
        let notes = tape.run(&inputs);
        let directory = &self.shared.functions.current().directory;
        let outcome = drive_noting(inputs, directory, reader, notes).await;
        tape.came_to(&outcome);
        self.shared.context.metrics.count_versions(&outcome.ran);
        Ok(outcome)
    }

    /// Do what was decided.
    async fn carry_out(
        &self,
        live: &mut Object,
        choice: &Choice,
        outcome: &Outcome,
        world: &World,
    ) -> Result<super::apply::Applied, Problem> {
        let Ok(plan) = &outcome.result else { return Ok(super::apply::Applied::default()) };
        // Delete before references are rewritten, and record references before anything is created. In any other order a
        // crash halfway leaves a resource that nobody remembers.
        let has_deleted = self.delete_unwanted(live, &plan.delete).await?;
        self.record(live, &choice.selection, Some(&plan.references)).await?;
        let mut applied = self.apply_wanted(live, plan, world).await?;
        applied.has_news |= has_deleted;
        Ok(applied)
    }

    /// Write down what was chosen and what is referred to, unless it is so already.
    async fn record(
        &self,
        live: &mut Object,
        selection: &Selection,
        references: Option<&[Reference]>,
    ) -> Result<(), Problem> {
        let is_ours = |path: &[&str]| owns(live, keys::COMPOSITE_MANAGER, "", path);
        let body = machinery_to_record(live, self.layout, &selection.selected, references, is_ours);
        let name = name_of(live);
        // What seems to be recorded may have been taken back by a write of ours of which nobody knows what it came to.
        let was_in_doubt = self.memory.is_in_doubt(&name);
        if !was_in_doubt && holds(&body, live, keys::COMPOSITE_MANAGER, "") {
            return Ok(());
        }
        let written = match self.take_over_self(live).await {
            Ok(true) => return Err(Problem::Conflict),
            Ok(false) => {
                // Before it is sent: it may be that nobody waits for the answer any more.
                self.memory.doubt(&name, true);
                self.write_self(live, Part::Whole, &body).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &written
            && !error.is_inconclusive()
        {
            self.memory.doubt(&name, was_in_doubt);
        }
        match written {
            Ok(written) => {
                self.memory.doubt(&name, false);
                *live = written;
                Ok(())
            }
            Err(error) if error.is_not_found() => Err(Problem::Gone),
            Err(error) => Err(Problem::refused(COMPOSE, "cannot record what is composed", &error)),
        }
    }

    /// Nothing came of it, but what was chosen stays chosen, and what is referred to stays referred to.
    async fn keep(&self, live: &mut Object, selection: &Selection) -> Result<(), Problem> {
        self.record(live, selection, None).await
    }

    async fn succeed(
        &self,
        name: &Name,
        live: Object,
        mut composed: Composed,
        tape: &mut Tape,
    ) -> Result<Next, Problem> {
        let settling = self.settle_success(name, &live, &mut composed, tape);
        let Written { composite, look_again_in } = settling.instrument(story::phase("settle", 1)).await?;
        // Conditions speak of the generation that was looked at, even if a later one says the same again.
        let is_overtaken =
            composite.as_ref().is_some_and(|it| meta::generation(it) != meta::generation(&live));
        let live = composite.unwrap_or(live);
        let basis = &composed.basis;
        let look_again_in = look_again_in.map(|delay| jittered(delay, name));
        // What was refused may be welcome later, and nothing that we follow has to change for that.
        let failures = self.memory.recall(name).map_or(0, |settled| settled.failures);
        let retry = (!composed.unsynced.is_empty()).then(|| pause_after(failures));
        // Somebody has to say that it is calm again.
        let look_again_in = look_again_in.into_iter().chain(retry).chain(self.memory.calm_in(name)).min();
        let is_same = essence(&basis.composite, self.layout) == essence(&live, self.layout);
        if composed.has_news || !is_same || is_overtaken {
            // What functions would see now is not what they saw.
            return Ok(self.remember_restless(name, &live, composed));
        }
        let fingerprint = fingerprint(&live, &basis.identity, &basis.versions, &basis.epochs);
        let mut seen = basis.versions.clone();
        seen.push(version_of(&live));
        self.memory.remember(
            name,
            Settled {
                fingerprint,
                generation: meta::generation(&live),
                composition: composition_of(&live, self.layout),
                requirements: composed.outcome.requirements.into(),
                look_again_at: look_again_in.map(|delay| Instant::now() + delay),
                failures: if retry.is_some() { failures.saturating_add(1) } else { 0 },
                restlessness: 0,
                is_resting: false,
            },
            seen,
        );
        // What it follows may have changed meanwhile, when nobody knew yet that it follows it.
        let is_current = self.choose(&live).is_ok_and(|choice| choice.identity() == basis.identity);
        if !is_current {
            return Ok(Next::After(Duration::ZERO));
        }
        Ok(look_again_in.map_or(Next::Rest, Next::After))
    }

    async fn fail(
        &self,
        name: &Name,
        live: &Object,
        mut report: Report,
        asked: Vec<Requirement>,
        identity: &str,
        tape: &mut Tape,
    ) -> Result<Next, Problem> {
        let settling = self.settle_problem(name, live, &mut report, tape);
        let written = settling.instrument(story::phase("settle", 1)).await?;
        story::fail(report.trouble.reason);
        // What is the same as before was said before.
        if written.composite.is_some() {
            warn!(
                kind = meta::kind(live),
                namespace = meta::namespace(live),
                name = meta::name(live),
                step = report.step().map(field::display),
                reason = report.trouble.reason,
                error = report.log_message(),
                "cannot compose"
            );
        }
        let mut requirements = report.outcome.map(|outcome| outcome.requirements).unwrap_or_default();
        // What was asked for in vain is what may help.
        requirements.extend(asked);
        Ok(self.remember_failure(name, live, written, requirements, identity).await)
    }

    async fn pause(&self, name: &Name, live: &Object) -> Result<Next, Problem> {
        self.settle_rest(name, live, Ending::Paused).await?;
        self.memory.unsettle(name);
        Ok(Next::Rest)
    }

    /// Somebody wants it gone: stop keeping it. What it composes goes with it.
    async fn let_go(&self, name: &Name, live: &Object) -> Result<Next, Problem> {
        self.forget(name);
        let mut live = live.clone();
        if finalizers::has(&live, keys::COMPOSITE_FINALIZER) {
            let place = Place {
                resource: &self.kind.resource,
                namespace: meta::namespace(&live),
                name: meta::name(&live),
            };
            let cluster = &self.shared.context.cluster;
            let removed = finalizers::remove(cluster, place, &live, keys::COMPOSITE_FINALIZER).await;
            let fail =
                |error| Problem::refused("DeleteCompositeResource", "cannot remove the finalizer", &error);
            match removed.map_err(fail)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                Some(object) => live = object,
                None => return Ok(Next::Rest),
            }
        }
        if finalizers::is_empty(&live) {
            return Ok(Next::Rest);
        }
        self.settle_rest(name, &live, Ending::Deleting).await?;
        Ok(Next::Rest)
    }

    fn forget(&self, name: &Name) {
        if let Some(settled) = self.memory.recall(name) {
            self.shared.dependencies.follow(&self.kind.definition, name, &settled.requirements, &[]);
        }
        self.memory.forget(name);
        self.queue.forget(name);
    }
}

/// How a look ended that could be told of. One that failed before has said so on its tape.
fn ending(next: &Result<Next, Problem>) -> TapeEnding {
    match next {
        Ok(_) => TapeEnding::Succeeded,
        Err(Problem::Conflict) => TapeEnding::Conflict,
        Err(Problem::Gone | Problem::Early) => TapeEnding::Gone,
        Err(Problem::Trouble(_)) => TapeEnding::Failed,
    }
}

fn failed(outcome: Outcome) -> Problem {
    let trouble = outcome.result.as_ref().err().map(Trouble::of);
    trouble.map_or(Problem::Gone, Problem::from).after(outcome)
}

/// The composite resource as it will be once its status is written.
fn foresee(live: &Object, seen: &Object, outcome: &Outcome) -> Object {
    let mut composite = live.clone();
    let status = outcome.result.as_ref().ok().and_then(|plan| plan.status.clone()).unwrap_or_default();
    let mut foreseen = seen.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    foreseen.extend(status);
    if !foreseen.is_empty() {
        composite.insert("status".to_owned(), Value::Object(foreseen));
    }
    composite
}

/// A tenth more or less, so that not all are looked at in the same moment.
fn jittered(delay: Duration, name: &Name) -> Duration {
    let hash = Sha256::digest(name.as_bytes());
    let fraction = f64::from(hash[0]) / 255.0;
    delay.mul_f64(0.9 + 0.2 * fraction)
}
