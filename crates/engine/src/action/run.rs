//! Runs one action, from the state in its status until it has to wait or ends.
//!
//! A run is a conversation: [`Run::next`] returns requests to perform, takes their answers, and returns the next ones. It changes the
//! status of its action as it proceeds; its caller writes that status before it performs requests that change something.
//!
//! # Invariants
//! * Phases run one after the other; a phase that has ended never runs again.
//! * The deferred phase runs if any phase has begun, however that one ended, and its failure never replaces an earlier one.
//! * No function, however faulty, makes a run store more than its limits. One that panics fails its phase ([`Run::fail_after_panic`]).
//! * What is called is what the Blueprint names. The status, which users can write to, chooses among the versions that the Blueprint and
//!   the ActionSet allow.

mod inputs;
mod notes;
mod templates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferroplane_api::{
    ActionSpec, ActionStatus, BlueprintAction, BlueprintPhase, Cause, FailurePoint, Object, PhaseCallee,
    PhaseError, PhaseState, PhaseStatus,
};
use ferroplane_golang::time::calendar;
use serde::Serialize;
use serde_json::Value;

use super::compile::{ActionFailure, Facilities, check_callee, resolve_phase};
use super::function::{Address, Answer, CHECKPOINT_LIMIT, Move, Phase, PhaseFunction, Request};
use super::parameters::Inputs;
use super::phase_call::{PhaseInput, PhaseNotes};
use super::scope::RenderError;
use super::secrets::Secrets;
use crate::outcome::{Event, EventKind};
use crate::status_size::{STATUS_LIMIT, json_size, shortened};

/// The most bytes of JSON that a phase may put out.
pub const OUTPUT_LIMIT: usize = 64 << 10;

/// What an action needs in order to continue.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Perform these requests in order, and pass their answers to [`Run::next`]. If one of them changes something, the status has to be
    /// durable first.
    Perform(Vec<Request>),
    /// Wait until a time, or for a change of one of these objects.
    Wait { wake_at: Option<i64>, watch: Vec<Address> },
    /// Nothing is left to do.
    Ended,
}

/// An action, and its ActionSet.
#[derive(Debug, Clone, Copy)]
pub struct RunIdentity<'a> {
    /// The uid of the ActionSet.
    pub uid: &'a str,
    /// The namespace of the ActionSet.
    pub namespace: &'a str,
    /// The index of the action.
    pub index: usize,
    /// The seed of randomness in templates. Only the plane knows it.
    pub seed: [u8; 32],
}

impl RunIdentity<'_> {
    /// The identity of a phase: text that is unique to it.
    pub fn phase(&self, phase: &str) -> String {
        format!("{}/{}/{phase}", self.uid, self.index)
    }
}

/// The phase of an action that is running.
pub fn running_phase(status: &ActionStatus) -> Option<&str> {
    let mut phases = status.phases.iter().chain([&status.defer_phase]);
    phases.find(|phase| phase.state == PhaseState::Running).map(|phase| phase.name.as_str())
}

/// An action that is running.
#[expect(missing_debug_implementations, reason = "it may hold Secrets")]
pub struct Run<'a> {
    spec: &'a ActionSpec,
    action: &'a BlueprintAction,
    facilities: Facilities<'a>,
    identity: RunIdentity<'a>,
    pub status: ActionStatus,
    /// All failures of this action, in order; earlier ones come first.
    pub errors: Vec<PhaseError>,
    /// Events to record, in order. The caller takes them.
    pub events: Vec<Event>,
    stage: Stage,
    inputs: Inputs,
    /// Secrets and ConfigMaps of phases, as templates see them, by phase.
    objects: BTreeMap<String, Value>,
    /// Values that no message may contain.
    secrets: Secrets,
    /// Answers to requests that were performed before the run was made.
    answers: Vec<Answer>,
    /// Why the action ends before its last phase, if it was cancelled.
    cancelled: Option<(Cause, String)>,
    asker: Asker,
    /// What functions were called with. None if it is not to be noted.
    notes: Option<PhaseNotes>,
    /// The phases whose arguments were searched for what comes from Secrets.
    traced: BTreeSet<String>,
    /// The most bytes of JSON that the status of the action may have.
    room: usize,
}

/// On whose behalf requests are performed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asker {
    /// The identity of the phase, or that of the action while it reads its inputs.
    pub identity: String,
    /// The function of the phase. Empty while the action reads its inputs.
    pub function: String,
    /// The values of Secrets that the action knows. Requests may contain them, and logs must not.
    pub secrets: Secrets,
}

/// What the next answers belong to.
enum Stage {
    Begin,
    Inputs(Vec<Request>),
    FurtherInputs(Vec<Request>),
    Objects(Vec<PhaseObject>),
    Phase,
    CleanUp,
    Ended,
}

/// A Secret or ConfigMap of a phase.
struct PhaseObject {
    phase: String,
    name: String,
    is_secret: bool,
    request: Request,
}

/// The phase that is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Current {
    Phase(usize),
    Defer,
    None,
}

impl<'a> Run<'a> {
    /// Continue an action from its status. `answers` are those to the requests of the phase's last move, if they were performed already.
    pub fn resume(
        spec: &'a ActionSpec,
        action: &'a BlueprintAction,
        facilities: Facilities<'a>,
        identity: RunIdentity<'a>,
        status: ActionStatus,
        errors: Vec<PhaseError>,
        answers: Vec<Answer>,
    ) -> Self {
        let inputs = Inputs { workload: status.workload.clone(), ..Inputs::default() };
        Self {
            spec,
            action,
            facilities,
            identity,
            status,
            errors,
            events: Vec::new(),
            stage: Stage::Begin,
            inputs,
            objects: BTreeMap::new(),
            secrets: Secrets::default(),
            answers,
            cancelled: None,
            asker: Asker::default(),
            notes: None,
            traced: BTreeSet::new(),
            room: STATUS_LIMIT,
        }
    }

    /// Limit how many bytes of JSON the status of the action may have: all actions of an ActionSet share the room of one object.
    pub fn limit_status(&mut self, room: usize) {
        self.room = room;
    }

    /// On whose behalf the requests of the last turn are performed.
    pub fn asker(&self) -> Asker {
        let secrets = self.secrets.clone();
        match self.stage {
            Stage::Phase | Stage::CleanUp => Asker { secrets, ..self.asker.clone() },
            _ => Asker { identity: self.phase_identity(""), function: String::new(), secrets },
        }
    }

    /// Whether there are answers that the phase was not given yet. They must not be discarded before.
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// End the action as if its current phase had failed, after that phase has cleaned up. The deferred phase still runs.
    pub fn cancel(&mut self, cause: Cause, message: &str) {
        if !self.has_failed() {
            self.cancelled = Some((cause, message.to_owned()));
        }
    }

    /// Fail the phase whose turn ended with a panic. The deferred phase still runs, unless it is the one.
    pub fn fail_after_panic(&mut self, now: i64) {
        let current = self.current();
        // It would be asked again, and panic again, for ever.
        if current == Current::Defer {
            self.status.defer_phase.state = PhaseState::Running;
        }
        let words = "it panicked; the log of the control plane says where";
        let failure = match self.blueprint_phase(current).filter(|_| self.is_running(current)) {
            Some(phase) => self.function_failure(phase, current, Cause::PhaseFailed, words),
            None => {
                ActionFailure::new(Cause::PhaseFailed, "", format!("action `{}`: {words}", self.spec.name))
            }
        };
        self.fail(&failure, now);
        self.stage = Stage::Phase;
    }

    /// Take the answers to the last requests, and return what is next. `now` is in milliseconds since 1970.
    pub fn next(&mut self, answers: Vec<Answer>, now: i64) -> Turn {
        // `Phase` follows every other stage, unless one of them sets another one below.
        let stage = std::mem::replace(&mut self.stage, Stage::Phase);
        let went_on = match stage {
            Stage::Begin => self.begin(now),
            Stage::Inputs(requests) => self.take_inputs(&requests, answers),
            Stage::FurtherInputs(requests) => self.take_further_inputs(&requests, answers),
            Stage::Objects(objects) => self.take_objects(&objects, answers),
            Stage::Phase => {
                self.answers = answers;
                Ok(None)
            }
            // The result of cleaning up is not checked: it is best effort.
            Stage::CleanUp => Ok(None),
            Stage::Ended => {
                self.stage = Stage::Ended;
                return Turn::Ended;
            }
        };
        match went_on {
            Ok(Some(turn)) => return turn,
            Ok(None) => {}
            Err(failure) => self.fail(&failure, now),
        }
        self.advance(now)
    }

    /// Poll phases until one has requests or waits, or all have ended.
    fn advance(&mut self, now: i64) -> Turn {
        loop {
            let current = self.current();
            if let (Some((cause, message)), Current::Phase(_)) = (self.cancelled.take(), current) {
                // Arguments may use these objects, and the cleaning up may use the arguments.
                let objects = self.blueprint_phase(current).map(|phase| self.objects_to_read(phase));
                if let Some(Ok(objects)) = objects.filter(|_| self.is_running(current))
                    && !objects.is_empty()
                {
                    // Kept for the next turn: the phase is cancelled after its objects have been read.
                    self.cancelled = Some((cause, message));
                    return self.read_objects(objects);
                }
                let requests = self.clean_up(current, now);
                // A phase that has not begun keeps its state.
                self.fail(&ActionFailure::new(cause, "", message), now);
                if !requests.is_empty() {
                    self.stage = Stage::CleanUp;
                    return Turn::Perform(requests);
                }
                continue;
            }
            if current == Current::None {
                return self.finish(now);
            }
            let Some(phase) = self.blueprint_phase(current) else {
                self.miss(current, now);
                continue;
            };
            let chosen = self.choose_callee(current, phase);
            self.start_phase(current, phase, now);
            let moved = chosen.and_then(|()| self.objects_to_read(phase)).and_then(|objects| {
                if !objects.is_empty() {
                    return Ok(Err(objects));
                }
                self.call(current, phase, now, |function, phase| function.advance(phase)).map(Ok)
            });
            match moved {
                Ok(Err(objects)) => return self.read_objects(objects),
                Ok(Ok(next)) => {
                    if let Some(turn) = self.take_move(current, phase, next, now) {
                        return turn;
                    }
                }
                Err(failure) => self.fail(&failure, now),
            }
        }
    }

    fn read_objects(&mut self, objects: Vec<PhaseObject>) -> Turn {
        let requests = objects.iter().map(|object| object.request.clone()).collect();
        self.stage = Stage::Objects(objects);
        Turn::Perform(requests)
    }

    fn is_running(&self, current: Current) -> bool {
        self.status_of(current).is_some_and(|status| status.state == PhaseState::Running)
    }

    /// The requests that clean up after a phase that is abandoned.
    fn clean_up(&mut self, current: Current, now: i64) -> Vec<Request> {
        let phase = self.blueprint_phase(current).filter(|_| self.is_running(current));
        let asked =
            phase.map(|phase| self.call(current, phase, now, |function, phase| function.clean_up(phase)));
        // If its arguments cannot be rendered, the phase has created nothing.
        let Some(Ok(requests)) = asked else { return Vec::new() };
        self.note_clean_up();
        requests
    }

    /// Resolve the function of a phase that has none yet: its Blueprint was changed after the ActionSet began.
    fn choose_callee(&mut self, current: Current, phase: &BlueprintPhase) -> Result<(), ActionFailure> {
        if self.status_of(current).is_some_and(|status| status.function.is_some()) {
            return Ok(());
        }
        let resolved = resolve_phase(phase, &self.spec.preferred_version, &self.facilities)?;
        if let Some(status) = self.phase_status(current) {
            status.function = Some(resolved.callee);
        }
        Ok(())
    }

    fn start_phase(&mut self, current: Current, phase: &BlueprintPhase, now: i64) {
        let Some(status) = self.phase_status(current) else { return };
        if status.state != PhaseState::Pending {
            return;
        }
        status.state = PhaseState::Running;
        status.started_at = timestamp(now);
        "0".clone_into(&mut status.progress.progress_percent);
        let function = status.function.clone().unwrap_or_default();
        let reason = if current == Current::Defer { "StartedDeferPhase" } else { "StartedPhase" };
        let message =
            format!("Phase `{}` calls function `{}` {}", phase.name, function.name, function.version);
        self.events.push(Event::new(EventKind::Normal, reason, message));
    }

    /// The function of a phase, in the version that was chosen when the ActionSet began.
    fn function(
        &self,
        phase: &BlueprintPhase,
        callee: &PhaseCallee,
    ) -> Result<Arc<dyn PhaseFunction>, ActionFailure> {
        let version = check_callee(phase, callee, &self.facilities)?;
        self.facilities.functions.phase_function(&callee.name, &version).ok_or_else(|| {
            let message = format!(
                "phase `{}`: function `{}` {version}, which was chosen when the ActionSet began, no longer exists",
                phase.name, callee.name
            );
            ActionFailure::new(Cause::FunctionVersionRemoved, &phase.name, message)
        })
    }

    /// Call the function of a phase.
    fn call<T: Serialize>(
        &mut self,
        current: Current,
        phase: &BlueprintPhase,
        now: i64,
        ask: impl FnOnce(&dyn PhaseFunction, &Phase<'_>) -> T,
    ) -> Result<T, ActionFailure> {
        // Taken out of `self`, so that no phase is ever given the answers of another one.
        let answers = std::mem::take(&mut self.answers);
        let scope = self.scope(current, phase);
        let status = self.status_of(current).cloned().unwrap_or_default();
        let callee = status.function.unwrap_or_default();
        let function = self.function(phase, &callee)?;
        let arguments = self.arguments(&scope, phase, &*function)?;
        if let Some(mistake) = function.argument_mistakes(&arguments).first() {
            let message = self.about(phase, &callee.name, &callee.version, &mistake.message);
            return Err(ActionFailure::new(Cause::PhaseArgumentsInvalid, &phase.name, message));
        }
        let identity = self.phase_identity(&phase.name);
        let labels = to_object(&self.spec.pod_labels);
        let annotations = to_object(&self.spec.pod_annotations);
        self.asker = Asker { identity: identity.clone(), function: callee.name.clone(), ..Asker::default() };
        let asked = Phase {
            name: &phase.name,
            identity: &identity,
            namespace: self.identity.namespace,
            arguments: &arguments,
            target: &self.inputs.object,
            scope: &scope,
            secrets: &self.secrets,
            checkpoint: &status.checkpoint,
            answers: &answers,
            now,
            pods: self.facilities.pods,
            pod_override: &self.spec.pod_override,
            pod_labels: &labels,
            pod_annotations: &annotations,
        };
        let decided = ask(&*function, &asked);
        if self.notes.is_some() {
            let input = PhaseInput::of(&asked);
            self.note(phase, (callee, &*function), scope, input, &decided);
        }
        Ok(decided)
    }

    fn about(&self, phase: &BlueprintPhase, function: &str, version: &str, message: &str) -> String {
        self.redact(&format!("phase `{}`: function `{function}` {version}: {message}", phase.name))
    }

    /// Perform the move that a function returned. None if the run continues at once.
    fn take_move(&mut self, current: Current, phase: &BlueprintPhase, next: Move, now: i64) -> Option<Turn> {
        match next {
            Move::Perform { checkpoint, requests } if !requests.is_empty() => {
                let kept = self.keep(current, phase, checkpoint);
                kept.map_err(|failure| self.fail(&failure, now)).ok()?;
                Some(Turn::Perform(requests))
            }
            Move::Perform { .. } => {
                let failure = self.function_failure(
                    phase,
                    current,
                    Cause::PhaseFailed,
                    "it returned no request to perform",
                );
                self.fail(&failure, now);
                None
            }
            Move::Wait { checkpoint, wake_at, watch, progress } => {
                let kept = self.keep(current, phase, checkpoint);
                kept.map_err(|failure| self.fail(&failure, now)).ok()?;
                if let (Some(percent), Some(status)) = (progress, self.phase_status(current)) {
                    status.progress.progress_percent = percent.min(100).to_string();
                }
                Some(Turn::Wait { wake_at, watch })
            }
            Move::Done { output } => {
                self.complete(current, phase, output, now);
                None
            }
            Move::Fail { cause, message } => {
                let failure = self.function_failure(phase, current, cause, &message);
                self.fail(&failure, now);
                None
            }
        }
    }

    fn function_failure(
        &self,
        phase: &BlueprintPhase,
        current: Current,
        cause: Cause,
        message: &str,
    ) -> ActionFailure {
        let callee = self.status_of(current).and_then(|status| status.function.clone()).unwrap_or_default();
        let message = self.about(phase, &callee.name, &callee.version, message);
        ActionFailure::new(cause, &phase.name, message)
    }

    /// Store the state of a phase.
    fn keep(
        &mut self,
        current: Current,
        phase: &BlueprintPhase,
        checkpoint: Value,
    ) -> Result<(), ActionFailure> {
        let size = json_size(&checkpoint);
        // Checkpoints are in the status of the ActionSet, which is written before every change and has to fit into
        // one object.
        if size > CHECKPOINT_LIMIT {
            let message = format!("its checkpoint has {size} bytes, and may have {CHECKPOINT_LIMIT}");
            return Err(self.function_failure(phase, current, Cause::PhaseFailed, &message));
        }
        if let Some(status) = self.phase_status(current) {
            status.checkpoint = checkpoint;
        }
        Ok(())
    }

    fn complete(&mut self, current: Current, phase: &BlueprintPhase, output: Object, now: i64) {
        let size = json_size(&output);
        let limit = OUTPUT_LIMIT.min(self.room_left());
        if size > limit {
            let message = if limit < OUTPUT_LIMIT {
                format!("its output has {size} bytes, and the status of the ActionSet has room for {limit}")
            } else {
                format!("its output has {size} bytes, and may have {OUTPUT_LIMIT}")
            };
            let failure = self.function_failure(phase, current, Cause::PhaseFailed, &message);
            return self.fail(&failure, now);
        }
        let Some(status) = self.phase_status(current) else { return };
        status.state = PhaseState::Complete;
        status.output = output;
        status.checkpoint = Value::Null;
        status.ended_at = timestamp(now);
        "100".clone_into(&mut status.progress.progress_percent);
        status.progress.last_transition_time = timestamp(now);
        let reason = if current == Current::Defer { "EndedDeferPhase" } else { "EndedPhase" };
        self.events.push(Event::new(
            EventKind::Normal,
            reason,
            format!("Phase `{}` is complete", phase.name),
        ));
    }

    /// Record a failure. The phase that is running has failed, too.
    fn fail(&mut self, failure: &ActionFailure, now: i64) {
        let current = self.current();
        // The answers are for this phase; the next one must not be given them.
        self.answers.clear();
        let index = self.identity.index;
        let mut error = PhaseError {
            action: i64::try_from(index).unwrap_or_default(),
            phase: failure.phase.clone(),
            code: failure.cause.code().to_owned(),
            message: shortened(self.redact(&failure.message)),
            ..PhaseError::default()
        };
        if let Some(status) = self.phase_status(current).filter(|status| status.state == PhaseState::Running)
        {
            status.state = PhaseState::Failed;
            status.checkpoint = Value::Null;
            status.ended_at = timestamp(now);
            status.progress.last_transition_time = timestamp(now);
            let callee = status.function.clone().unwrap_or_default();
            (error.function, error.version) = (callee.name, callee.version);
            error.phase.clone_from(&status.name);
        }
        let point = FailurePoint::new(failure.cause).in_step(&error.phase);
        self.events.push(Event::failure("ActionSetFailed", error.message.clone(), point));
        self.errors.push(error);
    }

    /// End a phase that the Blueprint no longer has: the action continues without it, as if it had failed.
    fn miss(&mut self, current: Current, now: i64) {
        let name = self.status_of(current).map(|status| status.name.clone()).unwrap_or_default();
        // A phase that only waits for its turn keeps its state. The deferred phase is the last: it has to end, or
        // the action never does.
        if current == Current::Defer {
            self.status.defer_phase.state = PhaseState::Running;
        }
        let message = format!("phase `{name}` cannot be run: the Blueprint does not have it any more");
        self.fail(&ActionFailure::new(Cause::BlueprintInvalid, &name, message), now);
    }

    /// Render the artifacts that the action outputs, and end it.
    fn finish(&mut self, now: i64) -> Turn {
        self.stage = Stage::Ended;
        if !self.has_failed() && self.status.artifacts.is_empty() && !self.action.output_artifacts.is_empty()
        {
            let artifacts = self.artifacts().map_err(|error| error.to_string());
            match artifacts.and_then(|artifacts| self.check_room("its output artifacts", artifacts)) {
                Ok(artifacts) => self.status.artifacts = artifacts,
                Err(problem) => {
                    let message = format!("action `{}`: {problem}", self.spec.name);
                    self.fail(&ActionFailure::new(Cause::PhaseTemplateFailed, "", message), now);
                }
            }
        }
        Turn::Ended
    }

    /// How many more bytes of JSON the status of the action may have.
    fn room_left(&self) -> usize {
        self.room.saturating_sub(json_size(&self.status))
    }

    /// Something for the status, if there is room for it.
    fn check_room<T: Serialize>(&self, what: &str, value: T) -> Result<T, String> {
        let (size, left) = (json_size(&value), self.room_left());
        if size <= left {
            return Ok(value);
        }
        Err(format!("{what} have {size} bytes, and the status of the ActionSet has room for {left}"))
    }

    fn not_rendered(&self, phase: &str, error: &RenderError) -> ActionFailure {
        let message = self.redact(&format!("phase `{phase}`: {error}"));
        ActionFailure::new(Cause::PhaseTemplateFailed, phase, message)
    }

    /// A message without the values of Secrets.
    fn redact(&self, message: &str) -> String {
        self.secrets.redact(message)
    }

    fn phase_identity(&self, phase: &str) -> String {
        self.identity.phase(phase)
    }

    fn has_failed(&self) -> bool {
        !self.errors.is_empty()
    }

    fn has_begun(&self) -> bool {
        has_begun(&self.status)
    }

    fn has_completed(&self, phase: &str) -> bool {
        self.status.phases.iter().any(|it| it.name == phase && it.state == PhaseState::Complete)
    }

    fn current(&self) -> Current {
        current(&self.status, self.has_failed())
    }

    fn blueprint_phase(&self, current: Current) -> Option<&'a BlueprintPhase> {
        match current {
            Current::Phase(index) => self.action.phases.get(index),
            Current::Defer => self.action.defer_phase.as_ref(),
            Current::None => None,
        }
    }

    fn status_of(&self, current: Current) -> Option<&PhaseStatus> {
        match current {
            Current::Phase(index) => self.status.phases.get(index),
            Current::Defer => Some(&self.status.defer_phase),
            Current::None => None,
        }
    }

    fn phase_status(&mut self, current: Current) -> Option<&mut PhaseStatus> {
        match current {
            Current::Phase(index) => self.status.phases.get_mut(index),
            Current::Defer => Some(&mut self.status.defer_phase),
            Current::None => None,
        }
    }
}

/// Whether an action has ended.
pub(super) fn has_ended(status: &ActionStatus, has_failed: bool) -> bool {
    current(status, has_failed) == Current::None
}

/// Whether any phase has begun.
pub(super) fn has_begun(status: &ActionStatus) -> bool {
    status
        .phases
        .iter()
        .chain([&status.defer_phase])
        .any(|phase| !matches!(phase.state, PhaseState::None | PhaseState::Pending))
}

fn current(status: &ActionStatus, has_failed: bool) -> Current {
    let is_complete = |phase: &PhaseStatus| phase.state == PhaseState::Complete;
    if !has_failed && let Some(index) = status.phases.iter().position(|phase| !is_complete(phase)) {
        return Current::Phase(index);
    }
    // Without a phase that has begun, there is nothing to clean up.
    let is_due = status.defer_phase.state != PhaseState::None && (!has_failed || has_begun(status));
    let has_run = matches!(status.defer_phase.state, PhaseState::Complete | PhaseState::Failed);
    if is_due && !has_run { Current::Defer } else { Current::None }
}

fn to_object(map: &BTreeMap<String, String>) -> Object {
    map.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

/// A time in RFC 3339 and UTC, to the second. `now` is in milliseconds since 1970.
pub(super) fn timestamp(now: i64) -> String {
    calendar::format(now.div_euclid(1000)) + "Z"
}
