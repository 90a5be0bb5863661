//! Renders the templates of an action, with the data that they can use.

use std::collections::BTreeMap;

use ferroplane_api::{Artifact, BlueprintPhase, Object, PhaseState, PhaseStatus};
use ferroplane_golang::time::rfc3339;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Current, Run};
use crate::action::compile::ActionFailure;
use crate::action::function::PhaseFunction;
use crate::action::scope::{RenderError, Scope};

impl Run<'_> {
    /// The arguments of a phase, as its function gets them.
    pub(super) fn arguments(
        &self,
        scope: &Scope,
        phase: &BlueprintPhase,
        function: &dyn PhaseFunction,
    ) -> Result<Object, ActionFailure> {
        if function.renders_arguments_itself() {
            return Ok(phase.args.clone());
        }
        scope.render_object("args", &phase.args).map_err(|error| self.not_rendered(&phase.name, &error))
    }

    pub(super) fn artifacts(&self) -> Result<BTreeMap<String, Artifact>, RenderError> {
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

    /// The data for templates without the outputs of phases.
    pub(super) fn base_scope(&self, phase: &str) -> Scope {
        let data = self.inputs.data(self.spec, &self.status.time);
        let began = self.status.phases.iter().find(|status| status.name == phase);
        let began = began.or(Some(&self.status.defer_phase).filter(|status| status.name == phase));
        let time = began
            .map(|status| &status.started_at)
            .filter(|time| !time.is_empty())
            .unwrap_or(&self.status.time);
        // The time at which the phase began, and not the present: rendered again after a restart, arguments have to
        // be the same.
        let now = rfc3339::moment(time).map_or(0, |moment| moment.seconds.saturating_mul(1000));
        // Randomness follows from the phase for the same reason. Another ActionSet of the same Blueprint draws other
        // values.
        let seed = Sha256::new()
            .chain_update(self.identity.seed)
            .chain_update(self.phase_identity(phase))
            .finalize();
        Scope::new(data, now, seed.into())
    }

    /// The data for templates of a phase.
    pub(super) fn scope(&self, current: Current, phase: &BlueprintPhase) -> Scope {
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

    /// The outputs of completed phases, for templates.
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
}
