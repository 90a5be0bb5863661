//! The actions of an ActionSet take turns: each returns requests and is given the answers, until all wait or have ended.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ferroplane_api::{ActionSetSpec, ActionSetStatus, Cause, PhaseState, meta};
use ferroplane_engine::action::{
    ActionFailure, Answer, Asker, Facilities, Request, Run, RunIdentity, StatusRoom, Turn, abandon, runnable,
    running_phase,
};
use ferroplane_engine::chain;
use futures_util::future::join_all;
use tracing::{error, warn};

use super::{Cancelled, Controller, Key, Waits, Work, own_errors, text_of, unreadable};
use crate::blueprints::actions::{Found, RunningAction};
use crate::blueprints::background::Progress;
use crate::blueprints::perform::{Performer, is_long};
use crate::runtime::queue::Next;

/// How many turns an ActionSet gets before its worker handles others.
const MAX_TURNS: usize = 100;

/// The message for an action whose Blueprint was changed before a restart.
const CHANGED: &str = "its Blueprint was changed while the action ran, and the control plane has restarted since; create a new ActionSet";

/// The action of a Blueprint, and whether it was changed meanwhile. None if it no longer exists.
type FoundAction = Option<(Arc<RunningAction>, bool)>;

/// The actions of an ActionSet while they take turns.
struct Turns<'r> {
    spec: &'r ActionSetSpec,
    actions: &'r [FoundAction],
    facilities: Facilities<'r>,
    /// The identity of the first action. The others differ in their index.
    identity: RunIdentity<'r>,
    cancelled: Cancelled,
    runs: BTreeMap<usize, Run<'r>>,
    /// The answers for the next turn, by action.
    answers: BTreeMap<usize, Vec<Answer>>,
    waits: Waits,
}

/// The result of one turn of every action that can continue.
#[derive(Default)]
struct Round {
    asked: Vec<(usize, Vec<Request>)>,
    has_ended: bool,
}

impl Controller {
    /// Take turns until every action waits or has ended.
    pub(super) async fn drive(&self, work: &mut Work, cancelled: Cancelled) -> Result<Waits, Next> {
        let callables = self.registry.current();
        // An action that cannot run was refused when the ActionSet began.
        let functions = self.registry.phases_among(&callables);
        let facilities = self.facilities(&callables, &functions, None);
        let actions = self.found_actions(work).await?;
        let spec = work.spec.clone();
        let (uid, namespace) = (meta::uid(&work.object).to_owned(), work.key.0.clone());
        let mut turns = Turns {
            spec: &spec,
            actions: &actions,
            facilities,
            identity: RunIdentity { uid: &uid, namespace: &namespace, index: 0, seed: self.settings.seed },
            cancelled,
            runs: BTreeMap::new(),
            answers: BTreeMap::new(),
            waits: Waits::default(),
        };
        for _ in 0..MAX_TURNS {
            let Round { asked, has_ended } = self.take_turns(work, &mut turns).await;
            if asked.is_empty() {
                // Another action may wait for the one that has ended.
                if has_ended && !runnable(&spec, &work.status).is_empty() {
                    continue;
                }
                return Ok(turns.waits);
            }
            // After a crash, the next replica has to know which changes may have been made. Reads can be repeated.
            if asked.iter().any(|(_, requests)| !requests.iter().all(Request::is_read)) {
                self.write(work).await?;
            }
            let (answers, has_unknown) = self.perform(work, &turns.runs, asked).await;
            turns.answers = answers;
            turns.waits.has_unknown |= has_unknown;
            work.now = self.now();
        }
        turns.waits.wake_at = Some(self.now());
        Ok(turns.waits)
    }

    /// Give one turn to every action that can continue.
    async fn take_turns(&self, work: &mut Work, turns: &mut Turns<'_>) -> Round {
        let (mut round, actions, mut room) = (Round::default(), turns.actions, StatusRoom::of(&work.status));
        for index in runnable(turns.spec, &work.status) {
            let Some((action, _)) = actions.get(index).and_then(Option::as_ref) else { continue };
            let Some((run, given)) = self.run_of(work, turns, index) else { continue };
            let (now, lent) = (work.now, room.lend(&run.status));
            run.limit_status(lent);
            let turn = self.turn_limit.run(&action.pace, || next_turn(run, given, now, &work.key)).await;
            work.take(index, run);
            room = room.without(lent, &work.status.actions[index]);
            match turn {
                Turn::Perform(requests) => round.asked.push((index, requests)),
                Turn::Wait { wake_at, watch } => turns.waits.add(wake_at, watch),
                Turn::Ended => round.has_ended = true,
            }
        }
        round
    }

    /// The run of an action and its answers. None if it waits.
    fn run_of<'t, 'r>(
        &self,
        work: &mut Work,
        turns: &'t mut Turns<'r>,
        index: usize,
    ) -> Option<(&'t mut Run<'r>, Vec<Answer>)> {
        let (spec, actions, cancelled) = (turns.spec, turns.actions, turns.cancelled);
        match turns.runs.entry(index) {
            Entry::Occupied(run) => {
                // A waiting action has no answers, and gets no turn.
                let given = turns.answers.remove(&index)?;
                Some((run.into_mut(), given))
            }
            Entry::Vacant(vacant) => {
                let (action, is_changed) = actions.get(index)?.as_ref()?;
                let identity = RunIdentity { index, ..turns.identity };
                let performed = self.performed(work, &identity, cancelled)?;
                // From the status, and not from memory: after a restart, a failed action has to know that it failed.
                let own = own_errors(&work.status, index);
                let mut status = work.status.actions[index].clone();
                if *is_changed && status.defer_phase.state == PhaseState::Pending {
                    // It runs as the Blueprint has it now, which may name another function.
                    status.defer_phase.function = None;
                }
                let spec = &spec.actions[index];
                let mut run =
                    Run::resume(spec, &action.action, turns.facilities, identity, status, own, performed);
                if work.recording.is_on() {
                    run.note_calls();
                }
                if *is_changed {
                    // Before a cancellation by the user: the reason of the failure is the one that the user did not
                    // choose.
                    run.cancel(Cause::BlueprintInvalid, CHANGED);
                } else if let Some(message) = cancelled {
                    run.cancel(Cause::ActionCancelled, message);
                }
                Some((vacant.insert(run), Vec::new()))
            }
        }
    }

    /// The answers that a phase waited for. None if it still waits.
    fn performed(
        &self,
        work: &mut Work,
        identity: &RunIdentity<'_>,
        cancelled: Cancelled,
    ) -> Option<Vec<Answer>> {
        let Some(phase) = running_phase(&work.status.actions[identity.index]) else {
            return Some(Vec::new());
        };
        let phase = identity.phase(phase);
        match self.background.progress(&work.key, &phase) {
            Progress::None => Some(Vec::new()),
            Progress::Ended(answers) => {
                work.answered.insert(identity.index, phase);
                Some(answers)
            }
            Progress::Running if cancelled.is_some() && may_break_off(&work.status, identity.index) => {
                self.background.stop(&work.key, &phase);
                Some(Vec::new())
            }
            Progress::Running => None,
        }
    }

    /// Perform the requests of actions concurrently. Returns the answers, and whether the outcome of any request is unknown: its action gets
    /// none, and waits until the ActionSet is reconciled again.
    async fn perform(
        &self,
        work: &Work,
        runs: &BTreeMap<usize, Run<'_>>,
        requested: Vec<(usize, Vec<Request>)>,
    ) -> (BTreeMap<usize, Vec<Answer>>, bool) {
        let (grants, callables) = (self.grants.current(), self.registry.current());
        let (long, short): (Vec<_>, Vec<_>) =
            // Commands and containers may run for hours, and would occupy a worker of the queue for as long.
            requested.into_iter().partition(|(_, requests)| requests.iter().any(is_long));
        for (index, requests) in long {
            let asker = runs.get(&index).map(Run::asker).unwrap_or_default();
            self.perform_later(work, asker, requests);
        }
        let performing = short.into_iter().map(|(index, requests)| {
            let asker = runs.get(&index).map(Run::asker).unwrap_or_default();
            let performer = Performer {
                cluster: &self.context.composer,
                grants: grants.clone(),
                containers: self.settings.containers.as_ref(),
                callables: &callables,
                action_set: &work.object,
                function: asker.function,
                identity: asker.identity,
                secrets: asker.secrets,
            };
            async move {
                let answers = performer.perform(&requests).await;
                // An error names the object, whose name may come from a Secret.
                (index, answers.map_err(|error| performer.secrets.redact(&chain(&error))))
            }
        });
        let (mut answers, mut has_unknown) = (BTreeMap::new(), false);
        // All of them: an action that has its answers goes on, whatever became of the requests of another one.
        for (index, answered) in join_all(performing).await {
            match answered {
                Ok(answered) => {
                    answers.insert(index, answered);
                }
                Err(error) => {
                    warn!(
                        namespace = work.key.0,
                        name = work.key.1,
                        error,
                        "the outcome of a request is unknown; trying again"
                    );
                    has_unknown = true;
                }
            }
        }
        (answers, has_unknown)
    }

    /// Perform long requests in the background, and requeue the ActionSet when they have ended.
    fn perform_later(&self, work: &Work, asker: Asker, requests: Vec<Request>) {
        let (cluster, grants, action_set) =
            (self.context.composer.clone(), self.grants.current(), work.object.clone());
        let (identity, containers) = (asker.identity.clone(), self.settings.containers.clone());
        let callables = self.registry.current();
        let working = async move {
            let performer = Performer {
                cluster: &cluster,
                grants,
                containers: containers.as_ref(),
                callables: &callables,
                action_set: &action_set,
                function: asker.function,
                identity: asker.identity,
                secrets: asker.secrets,
            };
            // Without answers, the phase decides how to continue.
            performer.perform(&requests).await.unwrap_or_default()
        };
        let (queue, key) = (self.queue.clone(), work.key.clone());
        self.background.start(&work.key, &identity, working, move || queue.add(key));
    }

    /// The running actions of Blueprints, and whether they were changed meanwhile. Those that no longer exist are abandoned.
    async fn found_actions(&self, work: &mut Work) -> Result<Vec<FoundAction>, Next> {
        let mut actions = Vec::new();
        for index in 0..work.status.actions.len() {
            if !is_named(&work.spec, &work.status, index) {
                give_up(work, index, "is not the one that the spec of the ActionSet names");
                actions.push(None);
                continue;
            }
            let found = self.actions.find(&work.key, text_of(&work.key.0, &work.status.actions[index])).await;
            actions.push(match found.map_err(|error| unreadable(&work.key, &error))? {
                Found::Same(action) => Some((action, false)),
                Found::Changed(action) => Some((action, true)),
                Found::Gone => {
                    give_up(work, index, "was deleted while the action ran");
                    None
                }
            });
        }
        Ok(actions)
    }
}

/// Whether the running phase of an action ends when its ActionSet is cancelled. The deferred phase does not: it cleans up, whether or not
/// another one failed before.
fn may_break_off(status: &ActionSetStatus, index: usize) -> bool {
    let is_at_end = status.actions[index].defer_phase.state == PhaseState::Running;
    !is_at_end && own_errors(status, index).is_empty()
}

/// Take the next turn of an action. A panic fails the phase that it is about, and the action goes on with its deferred phase.
fn next_turn(run: &mut Run<'_>, mut given: Vec<Answer>, now: i64, key: &Key) -> Turn {
    loop {
        let answers = std::mem::take(&mut given);
        // What is left of the run is safe to use: the phase that may be half changed fails.
        if let Ok(turn) = catch_unwind(AssertUnwindSafe(|| run.next(answers, now))) {
            return turn;
        }
        error!(namespace = key.0, name = key.1, action = run.status.name, "a phase of an ActionSet panicked");
        // Ends: after two failures neither a phase nor the deferred one is left.
        run.fail_after_panic(now);
    }
}

/// Whether the spec names the action that the status says. Users can write to both, and only what the spec names runs.
fn is_named(spec: &ActionSetSpec, status: &ActionSetStatus, index: usize) -> bool {
    let action = &status.actions[index];
    spec.actions.get(index).is_some_and(|it| it.name == action.name && it.blueprint == action.blueprint)
}

/// Abandon an action that cannot go on.
fn give_up(work: &mut Work, index: usize, why: &str) {
    if !runnable(&work.spec, &work.status).contains(&index) {
        return;
    }
    let message = format!(
        "Blueprint `{}` or its action `{}` {why}: its remaining phases are not run",
        work.status.actions[index].blueprint, work.status.actions[index].name
    );
    let failure = ActionFailure { cause: Cause::BlueprintNotFound, phase: String::new(), message };
    let event = abandon(&mut work.status, index, &failure, work.now);
    work.events.push(event);
}

#[cfg(test)]
mod tests {
    use ferroplane_api::{ActionSpec, ActionStatus, BlueprintAction, PhaseCallee, PhaseError, PhaseStatus};
    use ferroplane_engine::action::{Move, Phase, PhaseContract, PhaseFunction, PodSupport};
    use ferroplane_engine::versions::{Catalogue, Version};
    use serde_json::json;

    use super::*;

    struct Panicking;

    impl PhaseFunction for Panicking {
        fn advance(&self, _: &Phase<'_>) -> Move {
            panic!("a function panics on purpose")
        }

        fn contract(&self) -> PhaseContract {
            PhaseContract::default()
        }
    }

    #[test]
    fn panic_of_a_function_ends_its_phase() {
        let phase = json!({"func": "Panic", "name": "p", "args": {}});
        let action: BlueprintAction = serde_json::from_value(json!({"phases": [phase]})).unwrap();
        let [name, version] = ["Panic", "v0.0.0"].map(str::to_owned);
        let callee = PhaseCallee { name, version, ..PhaseCallee::default() };
        let phase = PhaseStatus {
            name: "p".to_owned(),
            state: PhaseState::Pending,
            function: Some(callee),
            ..PhaseStatus::default()
        };
        let status = ActionStatus { phases: vec![phase], ..ActionStatus::default() };
        let functions = |_: &str, _: &Version| Some(Arc::new(Panicking) as Arc<dyn PhaseFunction>);
        let catalogue = Catalogue::new(Version::UNVERSIONED);
        let facilities = Facilities {
            catalogue: &catalogue,
            functions: &functions,
            has_exec: false,
            pods: PodSupport::None,
            no_containers: None,
            is_strict: false,
        };
        let identity = RunIdentity { uid: "u", namespace: "shop", index: 0, seed: [0; 32] };
        let spec = ActionSpec::default();
        let mut run = Run::resume(&spec, &action, facilities, identity, status, Vec::new(), Vec::new());
        let key: Key = Arc::new(("shop".to_owned(), "s".to_owned()));
        assert_eq!(next_turn(&mut run, Vec::new(), 0, &key), Turn::Ended);
        assert_eq!(run.status.phases[0].state, PhaseState::Failed);
        assert_eq!((run.errors.len(), run.errors[0].code.as_str()), (1, "PhaseFailed"));
    }

    fn status(phase: PhaseState, defer_phase: PhaseState, errors: usize) -> ActionSetStatus {
        let of = |state| PhaseStatus { state, ..PhaseStatus::default() };
        let action =
            ActionStatus { phases: vec![of(phase)], defer_phase: of(defer_phase), ..ActionStatus::default() };
        let errors = vec![PhaseError::default(); errors];
        ActionSetStatus { actions: vec![action], errors, ..ActionSetStatus::default() }
    }

    #[test]
    fn phase_at_the_end_is_not_broken_off_by_a_cancellation() {
        assert!(may_break_off(&status(PhaseState::Running, PhaseState::Pending, 0), 0));
        for (phase, errors) in [(PhaseState::Complete, 0), (PhaseState::Failed, 1)] {
            assert!(!may_break_off(&status(phase, PhaseState::Running, errors), 0), "{phase:?}");
        }
    }
}
