//! Reads the inputs of an action before its phases run: its object, Secrets, ConfigMaps, its Profile, and the objects of phases.
//!
//! Secrets are read again for every run: the status never contains their values.

use ferroplane_api::{BlueprintPhase, Cause, KanisterReference, Object, PhaseState};
use serde_json::json;

use super::{Current, PhaseObject, Run, Stage, Turn, timestamp};
use crate::action::compile::ActionFailure;
use crate::action::function::{Answer, Request};
use crate::action::parameters::{self, Inputs, named};
use crate::action::scope::{RenderError, Scope};
use crate::outcome::{Event, EventKind};

impl Run<'_> {
    pub(super) fn begin(&mut self, now: i64) -> Result<Option<Turn>, ActionFailure> {
        if self.current() == Current::None {
            return Ok(None);
        }
        if self.status.time.is_empty() {
            self.status.time = timestamp(now);
            let message = format!("Started action `{}`", self.spec.name);
            self.events.push(Event::new(EventKind::Normal, "StartedAction", message));
        }
        let requests = parameters::requests(self.spec)?;
        self.ask(requests, Stage::Inputs, |run| run.take_inputs(&[], Vec::new()))
    }

    /// Return a turn that performs requests, unless there are none.
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

    /// An input that is missing stops an action before its first phase. Later, a phase may have deleted it: templates that need it report
    /// that.
    fn read(&self, request: &Request, answer: Answer) -> Result<Object, ActionFailure> {
        match answer {
            Answer::Absent if self.has_begun() => Ok(Object::new()),
            answer => parameters::read(request, answer, ""),
        }
    }

    pub(super) fn take_inputs(
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

    pub(super) fn take_further_inputs(
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
        // Stored: templates of later phases see the pods from the beginning, also after a phase has scaled them away.
        if self.status.workload != self.inputs.workload {
            let workload = self.check_room("the pods of its object", self.inputs.workload.clone());
            self.status.workload = workload.map_err(|problem| {
                let message = format!("action `{}`: {problem}", self.spec.name);
                ActionFailure::new(Cause::ActionInputUnavailable, "", message)
            })?;
        }
        self.secrets = self.inputs.secrets();
        if !self.has_begun() {
            // Rendered before the first phase runs: a mistake in the last phase should be found now. The objects
            // are not read yet, only their names are rendered.
            for phase in self.action.all_phases() {
                self.phase_objects(phase)?;
            }
        }
        Ok(None)
    }

    /// The Secrets and ConfigMaps of a phase. They are rendered without the outputs of phases, so that they never change.
    fn phase_objects(&self, phase: &BlueprintPhase) -> Result<Vec<PhaseObject>, ActionFailure> {
        let scope = self.base_scope(&phase.name);
        let objects = phase.objects.iter().map(|(name, reference)| {
            let field = format!("objects.{name}");
            let rendered = render_reference(&scope, &field, reference);
            let reference = rendered.map_err(|error| self.not_rendered(&phase.name, &error))?;
            // Kanister compares kinds without regard to case.
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

    pub(super) fn take_objects(
        &mut self,
        objects: &[PhaseObject],
        answers: Vec<Answer>,
    ) -> Result<Option<Turn>, ActionFailure> {
        for (PhaseObject { phase, name, is_secret, request }, answer) in objects.iter().zip(answers) {
            let is_complete = self.has_completed(phase);
            let of_phase =
                self.objects.entry(phase.clone()).or_insert_with(|| json!({"Secrets": {}, "ConfigMaps": {}}));
            // The objects of a completed phase may have been deleted since: templates that need them report that.
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

    /// The `objects` of a phase and of those before it that were not read yet.
    pub(super) fn objects_to_read(&self, phase: &BlueprintPhase) -> Result<Vec<PhaseObject>, ActionFailure> {
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
