//! Conditions: what is true of an object right now, why, and since when.

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, FailurePoint};

/// One condition of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: Status,
    /// When the condition last changed, in RFC 3339.
    #[serde(default)]
    pub last_transition_time: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// The code of the [`Cause`], if the condition reports a failure. A text: a later release may have codes that this
    /// one does not know, and must not lose.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// The step of the pipeline that failed, if one did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub step: String,
    /// What the composition calls the composed resource that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    True,
    False,
    Unknown,
}

impl Condition {
    /// The plane's own conditions. Functions may not set them.
    // Crossplane refuses functions most of these, too (`IsSystemConditionType`); the rest are conditions of our own.
    pub const SYSTEM: [&'static str; 7] =
        ["Ready", "Synced", "Healthy", "UpToDate", "Responsive", "FunctionVersionsCurrent", "Uncontested"];

    /// A condition without message, time or generation.
    pub fn new(kind: &str, status: Status, reason: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            status,
            last_transition_time: String::new(),
            reason: reason.to_owned(),
            message: String::new(),
            observed_generation: 0,
            code: String::new(),
            step: String::new(),
            resource: String::new(),
        }
    }

    /// The same condition with a message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same condition with what failed, and where.
    #[must_use]
    pub fn with_failure(mut self, failure: FailurePoint) -> Self {
        failure.cause.code().clone_into(&mut self.code);
        (self.step, self.resource) = (failure.step, failure.resource);
        self
    }

    /// What failed, if the condition says so and this release knows the code.
    pub fn cause(&self) -> Option<Cause> {
        self.code.parse().ok()
    }

    /// Whether only the plane may set it.
    pub fn is_system(&self) -> bool {
        Self::SYSTEM.contains(&self.kind.as_str())
    }

    fn says_the_same_as(&self, other: &Self) -> bool {
        let generations = (self.observed_generation, other.observed_generation);
        self.kind == other.kind
            && self.status == other.status
            && self.reason == other.reason
            && self.message == other.message
            // Crossplane's `Condition.Equal` ignores a generation that one side does not have. Code, step and
            // resource are left out on purpose: they follow from the message.
            && (generations.0 == generations.1 || generations.0 == 0 || generations.1 == 0)
    }
}

/// Put a condition among others. One that says nothing new changes nothing, not even the time.
pub fn set_condition(conditions: &mut Vec<Condition>, condition: Condition) {
    match conditions.iter_mut().find(|present| present.kind == condition.kind) {
        Some(present) if present.says_the_same_as(&condition) => {
            // What an older release wrote has no code. It gets one, and is as old as it was.
            let Condition { code, step, resource, .. } = condition;
            (present.code, present.step, present.resource) = (code, step, resource);
        }
        Some(present) => *present = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(message: &str, time: &str) -> Condition {
        let mut condition = Condition::new("Ready", Status::False, "Creating").with_message(message);
        time.clone_into(&mut condition.last_transition_time);
        condition
    }

    #[test]
    fn condition_that_says_nothing_new_keeps_its_time() {
        let mut conditions = vec![ready("a", "then")];
        set_condition(&mut conditions, ready("a", "now"));
        assert_eq!(conditions, [ready("a", "then")]);
    }

    #[test]
    fn condition_that_gets_a_code_keeps_its_time() {
        let coded = |time: &str| {
            let failure = FailurePoint::new(Cause::FunctionTimeout).in_step("compose");
            ready("a", time).with_failure(failure)
        };
        let mut conditions = vec![ready("a", "then")];
        set_condition(&mut conditions, coded("now"));
        assert_eq!(conditions, [coded("then")]);
        assert_eq!(conditions[0].cause(), Some(Cause::FunctionTimeout));
    }

    #[test]
    fn code_of_a_later_release_is_kept() {
        let text = r#"{"type":"Ready","status":"False","lastTransitionTime":"then","reason":"Creating","code":"New"}"#;
        let condition: Condition = serde_json::from_str(text).unwrap();
        assert_eq!(condition.cause(), None);
        assert_eq!(serde_json::to_string(&condition).unwrap(), text);
    }

    #[test]
    fn condition_with_another_message_is_replaced() {
        let mut conditions = vec![ready("a", "then")];
        set_condition(&mut conditions, ready("b", "now"));
        assert_eq!(conditions, [ready("b", "now")]);
    }
}
