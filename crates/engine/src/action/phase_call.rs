//! Calls of functions of phases as they are recorded: what a function was given, and what it decided.
//!
//! Functions are pure, so that a call can be repeated with what was recorded of it. What the function wants done is data, and nothing
//! of it is done by repeating the call.

use std::collections::BTreeSet;
use std::fmt;

use ferroplane_api::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::function::{Answer, Phase, PhaseFunction, PodSupport};
use super::scope::Scope;
use super::secrets::Secrets;

/// Stands for a value of a Secret in what templates see.
const HIDDEN: &str = "redacted";
/// The same where such a value is bytes: in base64.
const HIDDEN_BYTES: &str = "cmVkYWN0ZWQ=";

/// What was noted while an action took its turns.
#[derive(Clone, Default)]
pub struct PhaseNotes {
    pub calls: Vec<PhaseCall>,
    /// The values of Secrets that the action knows, and what templates have made of them.
    pub secrets: BTreeSet<Vec<u8>>,
}

/// A call of the function of a phase.
#[derive(Clone, PartialEq)]
pub struct PhaseCall {
    /// The action, from 0.
    pub action: usize,
    pub phase: String,
    pub function: String,
    /// The version that was chosen when the ActionSet began.
    pub version: String,
    /// May hold values of Secrets.
    pub input: PhaseInput,
    /// The move, or the requests of a clean-up, as JSON. May hold values of Secrets.
    pub decided: Value,
}

/// What a function was given. Everything but `data` may hold values of Secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PhaseInput {
    pub question: PhaseQuestion,
    pub identity: String,
    pub namespace: String,
    pub arguments: Object,
    /// What templates see, without the values of Secrets. `Object` in it is the object that the action is about.
    pub data: Object,
    /// The time that templates see, in milliseconds since 1970.
    pub template_time: i64,
    pub checkpoint: Value,
    pub answers: Vec<Answer>,
    /// Milliseconds since 1970.
    pub now: i64,
    pub pods: PodSupport,
    pub pod_override: Object,
    pub pod_labels: Object,
    pub pod_annotations: Object,
    /// Whether the function may have decided by values that `data` does not have.
    pub hides_secrets: bool,
}

/// What a function was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PhaseQuestion {
    /// What to do next.
    #[default]
    Advance,
    /// What to do before the phase is given up.
    CleanUp,
}

impl PhaseInput {
    /// What a function is given, but for what its templates see.
    pub(super) fn of(phase: &Phase<'_>) -> Self {
        Self {
            identity: phase.identity.to_owned(),
            namespace: phase.namespace.to_owned(),
            arguments: phase.arguments.clone(),
            checkpoint: phase.checkpoint.clone(),
            answers: phase.answers.to_vec(),
            now: phase.now,
            pods: phase.pods,
            pod_override: phase.pod_override.clone(),
            pod_labels: phase.pod_labels.clone(),
            pod_annotations: phase.pod_annotations.clone(),
            ..Self::default()
        }
    }

    /// Ask a function the same again. Returns its move, or its requests, as JSON.
    pub fn repeat(&self, phase: &str, function: &dyn PhaseFunction) -> Value {
        // The seed is a secret of the control plane and is not recorded. Arguments that drew random text from it are rendered already.
        let scope = Scope::new(self.data.clone(), self.template_time, [0; 32]);
        let nothing = Object::new();
        let phase = Phase {
            name: phase,
            identity: &self.identity,
            namespace: &self.namespace,
            arguments: &self.arguments,
            target: self.data.get("Object").and_then(Value::as_object).unwrap_or(&nothing),
            scope: &scope,
            secrets: &Secrets::default(),
            checkpoint: &self.checkpoint,
            answers: &self.answers,
            now: self.now,
            pods: self.pods,
            pod_override: &self.pod_override,
            pod_labels: &self.pod_labels,
            pod_annotations: &self.pod_annotations,
        };
        let decided = match self.question {
            PhaseQuestion::Advance => serde_json::to_value(function.advance(&phase)),
            PhaseQuestion::CleanUp => serde_json::to_value(function.clean_up(&phase)),
        };
        decided.unwrap_or_default()
    }
}

/// Takes the values of Secrets out of what templates see. Returns whether there were any.
pub(super) fn hide_secrets(data: &mut Object) -> bool {
    let mut is_hit = hide_in_map(data.get_mut("Secrets"));
    for phase in ["CurrentPhase", "DeferPhase"] {
        is_hit |= hide_in_map(data.get_mut(phase).and_then(|phase| phase.get_mut("Secrets")));
    }
    let phases = data.get_mut("Phases").and_then(Value::as_object_mut);
    for phase in phases.into_iter().flat_map(Object::values_mut) {
        is_hit |= hide_in_map(phase.get_mut("Secrets"));
    }
    let credential = data.get_mut("Profile").and_then(|profile| profile.get_mut("Credential"));
    let Some(Value::Object(credential)) = credential else { return is_hit };
    is_hit |= hide_data(credential.get_mut("Secret"));
    for (kind, fields) in [("KeyPair", ["ID", "Secret"]), ("KopiaServerSecret", ["Password", "Cert"])] {
        for field in fields {
            let value = credential.get_mut(kind).and_then(|it| it.get_mut(field));
            if let Some(Value::String(text)) = value {
                is_hit = true;
                HIDDEN.clone_into(text);
            }
        }
    }
    is_hit
}

/// Secrets by name.
fn hide_in_map(secrets: Option<&mut Value>) -> bool {
    let secrets = secrets.and_then(Value::as_object_mut).into_iter().flat_map(Object::values_mut);
    secrets.fold(false, |is_hit, secret| hide_data(Some(secret)) | is_hit)
}

/// One Secret, with the fields that Go's struct has.
fn hide_data(secret: Option<&mut Value>) -> bool {
    let data = secret.and_then(|secret| secret.get_mut("Data")).and_then(Value::as_object_mut);
    let mut is_hit = false;
    for value in data.into_iter().flat_map(Object::values_mut) {
        is_hit = true;
        *value = HIDDEN_BYTES.into();
    }
    is_hit
}

impl fmt::Debug for PhaseNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhaseNotes").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl fmt::Debug for PhaseCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, phase, function, version, .. } = self;
        let mut text = f.debug_struct("PhaseCall");
        text.field("action", action).field("phase", phase).field("function", function);
        text.field("version", version).finish_non_exhaustive()
    }
}

impl fmt::Debug for PhaseInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhaseInput").field("question", &self.question).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_value_of_a_secret_stays_in_what_templates_see() {
        let secret = json!({"Name": "kept", "Data": {"a": "cGxhbnRlZA=="}});
        let mut data = json!({
            "Object": {"kept": "yes"}, "Secrets": {"s": secret}, "CurrentPhase": {"Secrets": {"s": secret}},
            "DeferPhase": {"Secrets": {"s": secret}}, "Phases": {"p": {"Secrets": {"s": secret}, "Output": {"kept": 1}}},
            "Profile": {"Credential": {
                "Type": "kept", "Secret": secret, "KeyPair": {"ID": "planted", "Secret": "planted"},
                "KopiaServerSecret": {"Username": "kept", "Password": "planted", "Cert": "planted"},
            }},
        });
        let data = data.as_object_mut().unwrap();
        assert!(hide_secrets(data));
        let text = serde_json::to_string(data).unwrap();
        assert!(!text.contains("planted") && !text.contains("cGxhbnRlZA"), "{text}");
        assert_eq!(text.matches("kept").count(), 9, "{text}");
        assert!(!hide_secrets(json!({"Secrets": {}, "Phases": {"p": {}}}).as_object_mut().unwrap()));
    }

    #[test]
    fn input_is_read_as_it_was_written() {
        let answers = vec![Answer::Absent, Answer::List(vec![Object::new()])];
        let input = PhaseInput { question: PhaseQuestion::CleanUp, answers, now: 7, ..PhaseInput::default() };
        let written = serde_json::to_value(&input).unwrap();
        assert_eq!(written["answers"][0], "absent");
        assert!(serde_json::from_value::<PhaseInput>(written).unwrap() == input);
    }
}
