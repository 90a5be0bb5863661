//! The story of a composite resource: observe, decide, apply, settle.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Condition, Object, Status, keys, meta};
use ferroplane_engine::{
    Event, EventKind, Inputs, Outcome, Pipeline, Preferences, Requirement, Unselectable, Why, chain,
    choose_composition, choose_revision,
};
use ferroplane_runner::drive;
use ferroplane_schema::managed::holds;
use ferroplane_wire::Struct;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::controller::Controller;
use super::machinery::{self, Chosen, draft, has_finalizer, other_finalizers, recorded, references};
use super::memory::{Fingerprint, Name, Settled};
use super::observe::World;
use super::problem::{COMPOSE, Problem, SELECT};
use super::read;
use super::settle::{Written, version_of};
use crate::backoff::pause;
use crate::cluster::{Part, Place};
use crate::queue::Next;
use crate::shelf::Revision;

/// How long composing may take. Telling what came of it is not part of that.
const PATIENCE: Duration = Duration::from_mins(2);
/// How soon to try again what did not work.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// What is composed is looked at again at once, because it was not there before. Not more often: a function that changes
/// its mind each time would be asked for ever.
const ROUNDS: usize = 2;

/// What came of composing.
#[derive(Debug)]
pub(super) struct Composed {
    pub(super) outcome: Outcome,
    pub(super) unsynced: BTreeSet<String>,
    pub(super) events: Vec<Event>,
    pub(super) has_published: bool,
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

/// What was chosen for a composite resource.
#[derive(Debug)]
struct Choice {
    chosen: Chosen,
    revision: Arc<Revision>,
    pipeline: Arc<Pipeline>,
    events: Vec<Event>,
}

impl Controller {
    /// Look at a composite resource, and do what has to be done.
    pub(super) async fn reconcile(self: Arc<Self>, name: Name) -> Next {
        let Some(live) = self.mirror.get_by_key(&name).and_then(|held| self.mirror.to_object(&held)) else {
            self.forget(&name);
            return Next::Rest;
        };
        match self.look_at(&name, live).await {
            Ok(next) => next,
            Err(Problem::Conflict) => {
                self.memory.unsettle(&name);
                Next::Conflict
            }
            Err(Problem::Gone) => Next::Rest,
            Err(Problem::Trouble(report)) => {
                // It could not even be told.
                warn!(name = &*name, error = report.trouble.message, "cannot settle a composite resource");
                self.memory.unsettle(&name);
                Next::Retry
            }
        }
    }

    async fn look_at(&self, name: &Name, mut live: Object) -> Result<Next, Problem> {
        if meta::annotation(&live, keys::PAUSED) == "true" {
            return self.pause(name, &live).await;
        }
        if meta::is_being_deleted(&live) {
            return self.let_go(name, &live).await;
        }
        if let Some(next) = self.is_settled(name, &live).await {
            return Ok(next);
        }
        if let Some(wait) = self.memory.wait_for_calm(name) {
            return Ok(Next::After(wait));
        }
        let began_at = Instant::now();
        let composed = tokio::time::timeout(PATIENCE, self.compose(name, &mut live)).await;
        let late =
            || Problem::new(COMPOSE, format!("composing took longer than {} seconds", PATIENCE.as_secs()));
        let next = match composed.unwrap_or_else(|_| Err(late())) {
            Ok(composed) => self.succeed(name, live, composed).await,
            Err(Problem::Trouble(mut report)) => {
                let written = self.settle_problem(name, &live, &mut report).await?;
                let requirements = report.outcome.map(|outcome| outcome.requirements).unwrap_or_default();
                Ok(self.remember_failure(name, &live, written, requirements).await)
            }
            Err(other) => Err(other),
        };
        debug!(name = &**name, micros = began_at.elapsed().as_micros(), "looked at a composite resource");
        next
    }

    /// Choose, observe, decide, delete, record, apply. Each must hold before the next may happen.
    async fn compose(&self, name: &Name, live: &mut Object) -> Result<Composed, Problem> {
        let mut choice = self.choose(live)?;
        let mut composite = draft(live, self.layout, &choice.chosen);
        let reader = read::World::new(&self.shared, &self.kind.definition, name);
        let mut remembered: Arc<[Requirement]> =
            self.memory.recall(name).map(|settled| settled.requirements).unwrap_or_default();
        let mut events = std::mem::take(&mut choice.events);
        for round in 1.. {
            let world = match self.observe(&composite).await {
                Ok(world) => world,
                Err(problem) => return Err(self.keep_choice(live, &choice).await.err().unwrap_or(problem)),
            };
            let outcome = self.decide(&composite, &choice, &world, &remembered, &reader).await?;
            if outcome.result.is_err() {
                self.keep_choice(live, &choice).await?;
                return Err(failed(outcome));
            }
            let done = self.carry_out(live, &choice, &outcome, &world).await;
            let applied = match done {
                Ok(applied) => applied,
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
                continue;
            }
            events.extend(applied.events);
            let details =
                outcome.result.as_ref().map(|plan| plan.connection_details.clone()).unwrap_or_default();
            let has_published = match self.publish(live, &details).await {
                Ok(has_published) => has_published,
                Err(problem) => return Err(problem.after(outcome)),
            };
            self.shared.dependencies.follow(
                &self.kind.definition,
                name,
                &[reader.asked(), remembered.to_vec()].concat(),
                &outcome.requirements,
            );
            let (unsynced, has_news) = (applied.unsynced, applied.has_news);
            return Ok(Composed { outcome, unsynced, events, has_published, basis, has_news });
        }
        unreachable!("the last round returns")
    }

    /// Which composition, which revision of it, and what its steps call.
    fn choose(&self, live: &Object) -> Result<Choice, Problem> {
        let select =
            |error: Unselectable| Problem::new(SELECT, format!("cannot select a Composition: {error}"));
        let mut preferences = Preferences::read(live, self.layout);
        let mut events = Vec::new();
        let candidates = self.shared.shelf.compositions();
        let candidates = candidates.iter().map(AsRef::as_ref);
        let (name, why) =
            choose_composition(&preferences, &self.defaults, &self.type_ref, candidates).map_err(select)?;
        let reason = match why {
            Why::Named => None,
            Why::Enforced => Some(", which the definition enforces"),
            Why::Default => Some(", which the definition has as default"),
            Why::Found => Some(""),
        };
        if let Some(reason) = reason {
            let kind = if why == Why::Found { SELECT } else { "CompositionSelection" };
            events.push(Event::new(
                EventKind::Normal,
                kind,
                format!("selected Composition `{name}`{reason}"),
            ));
        }
        preferences.take_default_revision_selector(&self.defaults);

        let compose =
            |error: Unselectable| Problem::new(COMPOSE, format!("cannot select a revision: {error}"));
        let unknown = || select(Unselectable::UnknownComposition(name.clone()));
        let composition = self.shared.shelf.composition(&name).ok_or_else(unknown)?;
        let revisions = self.shared.shelf.revisions_of(&name);
        let facts = revisions.iter().map(|revision| &revision.facts);
        let chosen = choose_revision(&preferences, &composition, facts).map_err(compose)?;
        let unknown = || compose(Unselectable::UnknownRevision(chosen.clone()));
        let revision = self.shared.shelf.revision(&chosen).ok_or_else(unknown)?;
        if preferences.revision.as_ref() != Some(&chosen) {
            let message = format!("uses CompositionRevision `{chosen}`");
            events.push(Event::new(EventKind::Normal, SELECT, message));
        }
        if let Some(problem) = &revision.problem {
            let message = format!("cannot use CompositionRevision `{chosen}`: {problem}");
            return Err(Problem::new(COMPOSE, message));
        }
        if revision.composes != self.type_ref {
            let (composes, wanted) = (revision.composes.clone(), self.type_ref.clone());
            return Err(compose(Unselectable::Incompatible { revision: chosen, composes, wanted }));
        }
        let pipeline = revision.pipeline(&self.shared.callables.current());
        let pipeline = pipeline.map_err(|problem| {
            Problem::new(COMPOSE, format!("cannot use CompositionRevision `{chosen}`: {problem}"))
        })?;
        let chosen = Chosen { composition: name, why, revision: chosen };
        Ok(Choice { chosen, revision, pipeline, events })
    }

    async fn decide(
        &self,
        composite: &Object,
        choice: &Choice,
        world: &World,
        remembered: &Arc<[Requirement]>,
        reader: &read::World<'_>,
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
        Ok(drive(inputs, &self.shared.callables.current().directory, reader).await)
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
        let has_deleted = self.delete_unwanted(&plan.delete).await?;
        self.record(live, choice, references(plan)).await?;
        let mut applied = self.apply_wanted(live, plan, world).await?;
        applied.has_news |= has_deleted;
        Ok(applied)
    }

    /// Write down what was chosen and what is referred to, unless it is so already.
    async fn record(&self, live: &mut Object, choice: &Choice, references: Value) -> Result<(), Problem> {
        let secret = self.default_secret(live, choice.revision.connection_namespace.as_deref());
        let body = machinery::record(live, self.layout, &choice.chosen, references, secret);
        if holds(&body, live, keys::COMPOSITE_MANAGER, "") {
            return Ok(());
        }
        match self.write_self(live, Part::Whole, &body).await {
            Ok(written) => {
                *live = written;
                Ok(())
            }
            Err(error) if error.is_not_found() => Err(Problem::Gone),
            Err(error) => Err(Problem::refused(COMPOSE, "cannot record what is composed", &error)),
        }
    }

    /// Nothing came of it, but what was chosen stays chosen, and what is referred to stays referred to.
    async fn keep_choice(&self, live: &mut Object, choice: &Choice) -> Result<(), Problem> {
        let references = recorded(live, self.layout);
        self.record(live, choice, references).await
    }

    async fn succeed(&self, name: &Name, live: Object, mut composed: Composed) -> Result<Next, Problem> {
        let Written { composite, look_again_in } = self.settle_success(name, &live, &mut composed).await?;
        let live = composite.unwrap_or(live);
        let basis = &composed.basis;
        let look_again_in = look_again_in.or_else(|| poll_interval(&live)).map(|delay| jittered(delay, name));
        // Somebody has to say that it is calm again.
        let look_again_in = look_again_in.into_iter().chain(self.memory.calm_in(name)).min();
        let is_same = essence(&basis.composite, self.layout) == essence(&live, self.layout);
        if composed.has_news || !is_same {
            // What functions would see now is not what they saw.
            self.memory.remember(
                name,
                Settled {
                    fingerprint: Fingerprint::default(),
                    composition: composition_of(&live, self.layout),
                    requirements: composed.outcome.requirements.into(),
                    look_again_at: None,
                    failures: 0,
                },
                Vec::new(),
            );
            return Ok(Next::After(Duration::ZERO));
        }
        let fingerprint = fingerprint(&live, &basis.identity, &basis.versions, &basis.epochs);
        let mut seen = basis.versions.clone();
        seen.push(version_of(&live));
        self.memory.remember(
            name,
            Settled {
                fingerprint,
                composition: composition_of(&live, self.layout),
                requirements: composed.outcome.requirements.into(),
                look_again_at: look_again_in.map(|delay| Instant::now() + delay),
                failures: 0,
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

    /// Remember what did not work, so that it is tried again when something changes, or after a while, but not before.
    async fn remember_failure(
        &self,
        name: &Name,
        live: &Object,
        written: Written,
        requirements: Vec<Requirement>,
    ) -> Next {
        let live = written.composite.as_ref().unwrap_or(live);
        let failures = self.memory.recall(name).map_or(0, |settled| settled.failures);
        let delay = pause(FIRST_PAUSE, LONGEST_PAUSE, failures);
        let fingerprint = self.current_fingerprint(live, &requirements).await.unwrap_or_default();
        let settled = Settled {
            fingerprint,
            composition: composition_of(live, self.layout),
            requirements: requirements.into(),
            look_again_at: Some(Instant::now() + delay),
            failures: failures.saturating_add(1),
        };
        self.memory.remember(name, settled, vec![version_of(live)]);
        Next::After(delay)
    }

    /// Whether nothing changed since it was last looked at; then, when to look again.
    async fn is_settled(&self, name: &Name, live: &Object) -> Option<Next> {
        let settled = self.memory.recall(name)?;
        let is_due = settled.look_again_at.is_some_and(|time| time <= Instant::now());
        if is_due {
            return None;
        }
        let current = self.current_fingerprint(live, &settled.requirements).await?;
        if current != settled.fingerprint {
            return None;
        }
        let rest = settled.look_again_at.map(|time| time.saturating_duration_since(Instant::now()));
        Some(rest.map_or(Next::Rest, Next::After))
    }

    /// What would be composed from, if it were composed now. Nothing if that cannot be told without trying.
    async fn current_fingerprint(&self, live: &Object, requirements: &[Requirement]) -> Option<Fingerprint> {
        let identity = match self.choose(live) {
            Ok(choice) => choice.identity(),
            Err(Problem::Trouble(report)) => report.trouble.message,
            Err(_) => return None,
        };
        let versions = self.known_versions(live).await?;
        let dependencies = &self.shared.dependencies;
        let epochs: Vec<_> =
            requirements.iter().map(|requirement| dependencies.epoch(&requirement.selector)).collect();
        Some(fingerprint(live, &identity, &versions, &epochs))
    }

    async fn pause(&self, name: &Name, live: &Object) -> Result<Next, Problem> {
        let condition = Condition::new("Synced", Status::False, "ReconcilePaused")
            .with_message(format!("nothing is done while the annotation `{}` is `true`", keys::PAUSED));
        let paused = Event::new(EventKind::Normal, "ReconciliationPaused", "is paused");
        self.settle_conditions(name, live, [condition], vec![paused]).await?;
        self.memory.unsettle(name);
        Ok(Next::Rest)
    }

    /// Somebody wants it gone: stop keeping it. What it composes goes with it.
    async fn let_go(&self, name: &Name, live: &Object) -> Result<Next, Problem> {
        self.forget(name);
        let mut live = live.clone();
        if has_finalizer(&live) {
            let place = Place {
                resource: &self.kind.resource,
                namespace: meta::namespace(&live),
                name: meta::name(&live),
            };
            let patch = json!({"metadata": {
                "finalizers": other_finalizers(&live), "resourceVersion": meta::resource_version(&live),
            }});
            match self.shared.context.cluster.merge(place, Part::Whole, &patch).await {
                Ok(bytes) => match serde_json::from_slice(&bytes) {
                    Ok(object) => live = object,
                    Err(_) => return Ok(Next::Rest),
                },
                Err(error) if error.is_not_found() => return Ok(Next::Rest),
                Err(error) => {
                    return Err(Problem::refused(
                        "DeleteCompositeResource",
                        "cannot remove the finalizer",
                        &error,
                    ));
                }
            }
        }
        if other_finalizers(&live).is_empty() {
            return Ok(Next::Rest);
        }
        let conditions = [
            Condition::new("Ready", Status::False, "Deleting"),
            Condition::new("Synced", Status::True, "ReconcileSuccess"),
        ];
        self.settle_conditions(name, &live, conditions, Vec::new()).await?;
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

fn failed(outcome: Outcome) -> Problem {
    let message = outcome.result.as_ref().err().map(|failure| chain(failure));
    Problem::new(COMPOSE, format!("cannot compose resources: {}", message.unwrap_or_default())).after(outcome)
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

impl Choice {
    /// Changes when what would run changes.
    fn identity(&self) -> String {
        let callees = self.pipeline.steps().iter().map(|step| {
            let callee = step.callee.as_ref().map_or("", |callee| callee.revision.as_str());
            format!("/{callee}")
        });
        std::iter::once(format!("{}/{}", self.chosen.composition, self.revision.identity))
            .chain(callees)
            .collect()
    }
}

/// Of everything that a run is made from.
fn fingerprint(live: &Object, identity: &str, versions: &[u64], epochs: &[u64]) -> Fingerprint {
    let mut hash = Sha256::new();
    hash.update(content(live, |_| true));
    hash.update(identity);
    for number in versions.iter().chain([&u64::MAX]).chain(epochs) {
        hash.update(number.to_le_bytes());
    }
    hash.finalize().into()
}

/// What functions may go by: everything but what the plane itself writes down.
fn essence(composite: &Object, layout: ferroplane_engine::Layout) -> [u8; 32] {
    let mut composite = composite.clone();
    ferroplane_engine::machinery_mut(&mut composite, layout).remove("resourceRefs");
    content(&composite, |condition| {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        !Condition::SYSTEM.contains(&kind)
    })
}

/// What an object says, apart from what changes with every write.
fn content(object: &Object, counts: impl Fn(&Value) -> bool) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |key: &str, value: &Value| {
        hash.update(key);
        hash.update(serde_json::to_vec(value).unwrap_or_default());
    };
    for (key, value) in object {
        match (key.as_str(), value) {
            ("metadata", Value::Object(metadata)) => {
                let said = metadata.iter().filter(|(key, _)| {
                    !["resourceVersion", "managedFields", "generation"].contains(&key.as_str())
                });
                said.for_each(|(key, value)| add(key, value));
            }
            ("status", Value::Object(status)) => {
                for (key, value) in status {
                    match value {
                        Value::Array(conditions) if key == "conditions" => {
                            conditions
                                .iter()
                                .filter(|condition| counts(condition))
                                .for_each(|condition| add(key, condition));
                        }
                        value => add(key, value),
                    }
                }
            }
            (key, value) => add(key, value),
        }
    }
    hash.finalize().into()
}

fn composition_of(live: &Object, layout: ferroplane_engine::Layout) -> Arc<str> {
    Preferences::read(live, layout).composition.unwrap_or_default().into()
}

/// How often its user wants it to be looked at.
fn poll_interval(live: &Object) -> Option<Duration> {
    const SHORTEST: Duration = Duration::from_secs(1);
    let interval = ferroplane_api::duration::parse(meta::annotation(live, keys::POLL_INTERVAL))?;
    (!interval.is_zero()).then_some(interval.max(SHORTEST))
}

/// A tenth more or less, so that not all are looked at in the same moment.
fn jittered(delay: Duration, name: &Name) -> Duration {
    let hash = Sha256::digest(name.as_bytes());
    let fraction = f64::from(hash[0]) / 255.0;
    delay.mul_f64(0.9 + 0.2 * fraction)
}
