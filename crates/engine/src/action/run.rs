//! One action, from where its status says it is to where it has to wait or ends.
//!
//! A run is a conversation: [`Run::next`] asks for requests to be performed, is given their answers, and asks on. It changes the status
//! of its action as it goes; whoever drives it writes that status before it performs requests that change something.
//!
//! # Invariants
//! * Phases run one after the other; none is run again once it has ended.
//! * The phase at the end runs if any phase has begun, however that one ended, and its failure never replaces an earlier one.
//! * No function, however wrong, makes a run panic or store more than its limits.

use std::collections::BTreeMap;

use ferroplane_api::{
    ActionSpec, ActionStatus, Artifact, BlueprintAction, BlueprintPhase, Cause, FailurePoint,
    KanisterReference, Object, PhaseError, PhaseState, PhaseStatus,
};
use ferroplane_golang::time::{calendar, rfc3339};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::compile::{ActionFailure, Facilities};
use super::function::{Address, Answer, CHECKPOINT_LIMIT, Move, Phase, PhaseFunction, Request};
use super::parameters::{self, Inputs, named};
use super::scope::{RenderError, Scope};
use super::secrets::Secrets;
use crate::outcome::{Event, EventKind};
use crate::versions::Version;

/// The most bytes of JSON that a phase may put out.
pub const OUTPUT_LIMIT: usize = 64 << 10;

/// What an action needs in order to go on.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Have these requests performed, in order, and hand in their answers. If one of them changes something, the status has to be
    /// durable before.
    Perform(Vec<Request>),
    /// Time, or a change of one of these objects.
    Wait { wake_at: Option<i64>, watch: Vec<Address> },
    /// Nothing any more.
    Ended,
}

/// Which action it is, and on which ActionSet.
#[derive(Debug, Clone, Copy)]
pub struct RunIdentity<'a> {
    /// The uid of the ActionSet.
    pub uid: &'a str,
    /// The namespace of the ActionSet.
    pub namespace: &'a str,
    /// The action, from 0.
    pub index: usize,
    /// What randomness in templates is computed from: something that only the plane knows.
    pub seed: [u8; 32],
}

impl RunIdentity<'_> {
    /// The identity of a phase: text that no other phase has.
    pub fn phase(&self, phase: &str) -> String {
        format!("{}/{}/{phase}", self.uid, self.index)
    }
}

/// The phase of an action that runs.
pub fn running_phase(status: &ActionStatus) -> Option<&str> {
    let mut phases = status.phases.iter().chain([&status.defer_phase]);
    phases.find(|phase| phase.state == PhaseState::Running).map(|phase| phase.name.as_str())
}

/// An action that runs.
#[expect(missing_debug_implementations, reason = "it may hold Secrets")]
pub struct Run<'a> {
    spec: &'a ActionSpec,
    action: &'a BlueprintAction,
    facilities: Facilities<'a>,
    identity: RunIdentity<'a>,
    pub status: ActionStatus,
    /// What failed in this action, in order. What had failed before comes first.
    pub errors: Vec<PhaseError>,
    /// What there is to tell, in order. Taken by whoever tells it.
    pub events: Vec<Event>,
    stage: Stage,
    inputs: Inputs,
    /// Secrets and ConfigMaps of phases, as templates see them, by phase.
    objects: BTreeMap<String, Value>,
    /// Text that no message may have.
    secrets: Secrets,
    /// Answers to requests that were performed before the run was made.
    answers: Vec<Answer>,
    /// Why the action is to end before its last phase.
    cancelled: Option<(Cause, String)>,
    asker: Asker,
}

/// On whose behalf requests are performed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asker {
    /// The identity of the phase. That of the action if it reads what it is given.
    pub identity: String,
    /// The function of the phase. Empty if the action reads what it is given.
    pub function: String,
}

/// What the answers that come next are to.
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

/// Which phase is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Current {
    Phase(usize),
    Defer,
    None,
}

impl<'a> Run<'a> {
    /// Go on where the status says. `answers` are those to the requests of the phase's last move, if they were performed meanwhile.
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
        }
    }

    /// On whose behalf the requests of the last turn are performed.
    pub fn asker(&self) -> Asker {
        match self.stage {
            Stage::Phase | Stage::CleanUp => self.asker.clone(),
            _ => Asker { identity: self.phase_identity(""), function: String::new() },
        }
    }

    /// Whether the phase has not been asked yet with answers that it was given. Until it was, they must not be thrown away.
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// End the action as if its current phase had failed, after that has cleaned up. The phase at the end still runs.
    pub fn cancel(&mut self, cause: Cause, message: &str) {
        if !self.has_failed() {
            self.cancelled = Some((cause, message.to_owned()));
        }
    }

    /// Hand in the answers to the last requests, and learn what is next. `now` is in milliseconds since 1970.
    pub fn next(&mut self, answers: Vec<Answer>, now: i64) -> Turn {
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
            // Whatever came of it.
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

    fn begin(&mut self, now: i64) -> Result<Option<Turn>, ActionFailure> {
        if self.current() == Current::None {
            return Ok(None);
        }
        if self.status.time.is_empty() {
            self.status.time = timestamp(now);
            let message = format!("started action `{}`", self.spec.name);
            self.events.push(Event::new(EventKind::Normal, "StartedAction", message));
        }
        let requests = parameters::requests(self.spec)?;
        self.ask(requests, Stage::Inputs, |run| run.take_inputs(&[], Vec::new()))
    }

    /// Have requests performed, unless there are none.
    fn ask(
        &mut self,
        requests: Vec<Request>,
        stage: impl FnOnce(Vec<Request>) -> Stage,
        otherwise: impl FnOnce(&mut Self) -> Result<Option<Turn>, ActionFailure>,
    ) -> Result<Option<Turn>, ActionFailure> {
        if requests.is_empty() {
            return otherwise(self);
        }
        self.stage = stage(requests.clone());
        Ok(Some(Turn::Perform(requests)))
    }

    /// An input that is missing stops an action before its first phase. Later, a phase may have deleted it: templates that want it say so.
    fn read(&self, request: &Request, answer: Answer) -> Result<Object, ActionFailure> {
        match answer {
            Answer::Absent if self.has_begun() => Ok(Object::new()),
            answer => parameters::read(request, answer, ""),
        }
    }

    fn take_inputs(
        &mut self,
        requests: &[Request],
        answers: Vec<Answer>,
    ) -> Result<Option<Turn>, ActionFailure> {
        let objects = requests.iter().zip(answers).map(|(request, answer)| self.read(request, answer));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        self.inputs = Inputs { workload: self.inputs.workload.take(), ..Inputs::take(self.spec, objects) };
        let further = self.inputs.further_requests(self.spec)?;
        self.ask(further, Stage::FurtherInputs, |run| run.take_further_inputs(&[], Vec::new()))
    }

    fn take_further_inputs(
        &mut self,
        requests: &[Request],
        answers: Vec<Answer>,
    ) -> Result<Option<Turn>, ActionFailure> {
        let (mut secrets, mut pods) = (Vec::new(), Vec::new());
        for (request, answer) in requests.iter().zip(answers) {
            match answer {
                Answer::List(listed) => pods = listed,
                answer => secrets.push(self.read(request, answer)?),
            }
        }
        self.inputs.take_further(self.spec, secrets, &pods);
        self.status.workload.clone_from(&self.inputs.workload);
        self.secrets = self.inputs.secrets();
        if !self.has_begun() {
            // Before the first phase: what cannot be rendered in the last one should not stop there.
            for phase in self.action.all_phases() {
                self.phase_objects(phase)?;
            }
        }
        Ok(None)
    }

    /// The Secrets and ConfigMaps of a phase. They are rendered without what phases put out, so that they never change.
    fn phase_objects(&self, phase: &BlueprintPhase) -> Result<Vec<PhaseObject>, ActionFailure> {
        let scope = self.base_scope(&phase.name);
        let objects = phase.objects.iter().map(|(name, reference)| {
            let field = format!("objects.{name}");
            let rendered = render_reference(&scope, &field, reference);
            let reference = rendered.map_err(|error| self.not_rendered(&phase.name, &error))?;
            let is_secret = match reference.kind.to_ascii_lowercase().as_str() {
                "secret" => true,
                "configmap" => false,
                kind => {
                    let message = format!(
                        "phase `{}`: `{field}` is of kind `{kind}`: phases read Secrets and ConfigMaps",
                        phase.name
                    );
                    return Err(ActionFailure::new(Cause::BlueprintInvalid, &phase.name, message));
                }
            };
            let request = named("v1", if is_secret { "Secret" } else { "ConfigMap" }, &reference);
            Ok(PhaseObject { phase: phase.name.clone(), name: name.clone(), is_secret, request })
        });
        objects.collect()
    }

    fn take_objects(
        &mut self,
        objects: &[PhaseObject],
        answers: Vec<Answer>,
    ) -> Result<Option<Turn>, ActionFailure> {
        for (PhaseObject { phase, name, is_secret, request }, answer) in objects.iter().zip(answers) {
            let is_complete = self.has_completed(phase);
            let of_phase =
                self.objects.entry(phase.clone()).or_insert_with(|| json!({"Secrets": {}, "ConfigMaps": {}}));
            // What a phase needed that is complete may have gone since: templates that want it say so.
            if is_complete && matches!(answer, Answer::Absent) {
                continue;
            }
            let object = parameters::read(request, answer, phase)?;
            let (field, value) = if *is_secret {
                self.secrets.add(&object);
                ("Secrets", parameters::secret(&object))
            } else {
                ("ConfigMaps", parameters::config_map(&object))
            };
            of_phase[field][name] = value;
        }
        Ok(None)
    }

    /// Poll phases until one needs something, or all have ended.
    fn advance(&mut self, now: i64) -> Turn {
        loop {
            let current = self.current();
            if let (Some((cause, message)), Current::Phase(_)) = (self.cancelled.take(), current) {
                // Arguments may be made of them, and what is to be cleaned up of arguments.
                let objects = self.blueprint_phase(current).map(|phase| self.objects_to_read(phase));
                if let Some(Ok(objects)) = objects.filter(|_| self.is_running(current))
                    && !objects.is_empty()
                {
                    self.cancelled = Some((cause, message));
                    return self.read_objects(objects);
                }
                let requests = self.clean_up(current, now);
                // One that has not begun stays as it is.
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
            self.start_phase(current, phase, now);
            let moved = self.objects_to_read(phase).and_then(|objects| {
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

    /// What is to be done before a phase that runs is given up.
    fn clean_up(&mut self, current: Current, now: i64) -> Vec<Request> {
        let phase = self.blueprint_phase(current).filter(|_| self.is_running(current));
        let asked =
            phase.map(|phase| self.call(current, phase, now, |function, phase| function.clean_up(phase)));
        // Arguments that cannot be rendered have made nothing that could be cleaned up.
        asked.and_then(Result::ok).unwrap_or_default()
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

    /// What a phase and those before it have as `objects`, as far as it was not read.
    fn objects_to_read(&self, phase: &BlueprintPhase) -> Result<Vec<PhaseObject>, ActionFailure> {
        let ended = self.action.phases.iter().zip(&self.status.phases);
        let ended = ended.filter(|(_, status)| status.state == PhaseState::Complete).map(|(phase, _)| phase);
        let mut objects = Vec::new();
        for phase in ended.chain([phase]) {
            if !phase.objects.is_empty() && !self.objects.contains_key(&phase.name) {
                objects.extend(self.phase_objects(phase)?);
            }
        }
        Ok(objects)
    }

    /// Ask the function of a phase something.
    fn call<T>(
        &mut self,
        current: Current,
        phase: &BlueprintPhase,
        now: i64,
        ask: impl FnOnce(&dyn PhaseFunction, &Phase<'_>) -> T,
    ) -> Result<T, ActionFailure> {
        let answers = std::mem::take(&mut self.answers);
        let scope = self.scope(current, phase);
        let status = self.status_of(current).cloned().unwrap_or_default();
        let callee = status.function.unwrap_or_default();
        let version = callee.version.parse().unwrap_or(Version::UNVERSIONED);
        let function = self.facilities.functions.phase_function(&callee.name, &version).ok_or_else(|| {
            let message = format!(
                "phase `{}`: function `{}` {version}, which was chosen when the ActionSet began, is not there any more",
                phase.name, callee.name
            );
            ActionFailure::new(Cause::FunctionVersionRemoved, &phase.name, message)
        })?;
        let arguments = if function.renders_arguments_itself() {
            phase.args.clone()
        } else {
            scope
                .render_object("args", &phase.args)
                .map_err(|error| self.not_rendered(&phase.name, &error))?
        };
        if let Some(mistake) = function.argument_mistakes(&arguments).first() {
            let message = self.about(phase, &callee.name, &callee.version, &mistake.message);
            return Err(ActionFailure::new(Cause::PhaseArgumentsInvalid, &phase.name, message));
        }
        let identity = self.phase_identity(&phase.name);
        let labels = to_object(&self.spec.pod_labels);
        let annotations = to_object(&self.spec.pod_annotations);
        self.asker = Asker { identity: identity.clone(), function: callee.name.clone() };
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
        Ok(ask(&*function, &asked))
    }

    fn about(&self, phase: &BlueprintPhase, function: &str, version: &str, message: &str) -> String {
        self.redact(&format!("phase `{}`: function `{function}` {version}: {message}", phase.name))
    }

    /// Do what a function says. Nothing if the run goes on at once.
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
                    "it wants nothing to be performed",
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

    /// Note where a phase is.
    fn keep(
        &mut self,
        current: Current,
        phase: &BlueprintPhase,
        checkpoint: Value,
    ) -> Result<(), ActionFailure> {
        let size = serde_json::to_vec(&checkpoint).map_or(usize::MAX, |text| text.len());
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
        let size = serde_json::to_vec(&output).map_or(usize::MAX, |text| text.len());
        if size > OUTPUT_LIMIT {
            let message = format!("its output has {size} bytes, and may have {OUTPUT_LIMIT}");
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

    /// Note a failure. The phase that runs has failed, too.
    fn fail(&mut self, failure: &ActionFailure, now: i64) {
        let current = self.current();
        // They are for this phase, and must not be taken for those of the next one.
        self.answers.clear();
        let index = self.identity.index;
        let mut error = PhaseError {
            action: i64::try_from(index).unwrap_or_default(),
            phase: failure.phase.clone(),
            code: failure.cause.code().to_owned(),
            message: self.redact(&failure.message),
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

    /// A phase that the Blueprint has lost can never run: the action goes on without it, as if it had failed.
    fn miss(&mut self, current: Current, now: i64) {
        let name = self.status_of(current).map(|status| status.name.clone()).unwrap_or_default();
        // One that only waits for its turn stays as it is. The one at the end is the last: it has to end, or the action never does.
        if current == Current::Defer {
            self.status.defer_phase.state = PhaseState::Running;
        }
        let message = format!("phase `{name}` cannot be run: the Blueprint does not have it any more");
        self.fail(&ActionFailure::new(Cause::BlueprintInvalid, &name, message), now);
    }

    /// Render what the action leaves, and end.
    fn finish(&mut self, now: i64) -> Turn {
        self.stage = Stage::Ended;
        if !self.has_failed() && self.status.artifacts.is_empty() && !self.action.output_artifacts.is_empty()
        {
            match self.artifacts() {
                Ok(artifacts) => self.status.artifacts = artifacts,
                Err(error) => {
                    let message = format!("action `{}`: {error}", self.spec.name);
                    self.fail(&ActionFailure::new(Cause::PhaseTemplateFailed, "", message), now);
                }
            }
        }
        Turn::Ended
    }

    fn artifacts(&self) -> Result<BTreeMap<String, Artifact>, RenderError> {
        let mut scope = self.base_scope("");
        scope.data_mut().insert("Phases".to_owned(), self.phases());
        if let Some(phase) = &self.action.defer_phase {
            scope
                .data_mut()
                .insert("DeferPhase".to_owned(), self.phase_value(&phase.name, &self.status.defer_phase));
        }
        let artifacts = self.action.output_artifacts.iter().map(|(name, artifact)| {
            let field = format!("outputArtifacts.{name}");
            let key_value = artifact.key_value.iter().map(|(key, text)| {
                let path = format!("{field}.keyValue.{key}");
                Ok((scope.render(&path, key)?, scope.render(&path, text)?))
            });
            let key_value = key_value.collect::<Result<_, RenderError>>()?;
            let kopia_snapshot = scope.render(&format!("{field}.kopiaSnapshot"), &artifact.kopia_snapshot)?;
            Ok((name.clone(), Artifact { key_value, kopia_snapshot }))
        });
        artifacts.collect()
    }

    /// What templates see that know nothing of phases.
    fn base_scope(&self, phase: &str) -> Scope {
        let data = self.inputs.data(self.spec, &self.status.time);
        let began = self.status.phases.iter().find(|status| status.name == phase);
        let began = began.or(Some(&self.status.defer_phase).filter(|status| status.name == phase));
        let time = began
            .map(|status| &status.started_at)
            .filter(|time| !time.is_empty())
            .unwrap_or(&self.status.time);
        let now = rfc3339::moment(time).map_or(0, |moment| moment.seconds.saturating_mul(1000));
        let seed = Sha256::new()
            .chain_update(self.identity.seed)
            .chain_update(self.phase_identity(phase))
            .finalize();
        Scope::new(data, now, seed.into())
    }

    /// What templates of a phase see.
    fn scope(&self, current: Current, phase: &BlueprintPhase) -> Scope {
        let mut scope = self.base_scope(&phase.name);
        let own = self.status_of(current).map(|status| self.phase_value(&phase.name, status));
        let own = own.unwrap_or_default();
        let mut phases = self.phases();
        if current == Current::Defer {
            scope.data_mut().insert("DeferPhase".to_owned(), own);
        } else {
            phases[&phase.name] = own.clone();
            scope.data_mut().insert("CurrentPhase".to_owned(), own);
        }
        scope.data_mut().insert("Phases".to_owned(), phases);
        scope
    }

    /// What templates see of phases that are complete.
    fn phases(&self) -> Value {
        let complete = self.status.phases.iter().filter(|status| status.state == PhaseState::Complete);
        complete.map(|status| (status.name.clone(), self.phase_value(&status.name, status))).collect()
    }

    fn phase_value(&self, name: &str, status: &PhaseStatus) -> Value {
        let mut value =
            self.objects.get(name).cloned().unwrap_or_else(|| json!({"Secrets": {}, "ConfigMaps": {}}));
        value["Output"] = Value::Object(status.output.clone());
        value
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
    let is_due = status.defer_phase.state != PhaseState::None && (!has_failed || has_begun(status));
    let has_run = matches!(status.defer_phase.state, PhaseState::Complete | PhaseState::Failed);
    if is_due && !has_run { Current::Defer } else { Current::None }
}

fn render_reference(
    scope: &Scope,
    field: &str,
    reference: &KanisterReference,
) -> Result<KanisterReference, RenderError> {
    let render = |name: &str, text: &str| scope.render(&format!("{field}.{name}"), text);
    Ok(KanisterReference {
        api_version: render("apiVersion", &reference.api_version)?,
        group: render("group", &reference.group)?,
        resource: render("resource", &reference.resource)?,
        kind: render("kind", &reference.kind)?,
        name: render("name", &reference.name)?,
        namespace: render("namespace", &reference.namespace)?,
    })
}

fn to_object(map: &BTreeMap<String, String>) -> Object {
    map.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

/// A time in RFC 3339 and UTC, to the second. `now` is in milliseconds since 1970.
pub(super) fn timestamp(now: i64) -> String {
    calendar::format(now.div_euclid(1000)) + "Z"
}
