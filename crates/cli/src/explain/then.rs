//! What was wrong with a composite resource at some time, as far as it was recorded.

use ferroplane_offline::replay::{began_at, listing};
use ferroplane_recorder::{Ending, Head, Recording};
use serde::Serialize;
use serde_json::Value;

/// What was known then.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Then {
    pub(crate) object: String,
    pub(crate) is_ready: bool,
    /// What was wrong. Empty if nothing was.
    pub(crate) message: String,
    pub(crate) step: Option<String>,
    /// When the reconcile was that says so, and when the first of those in a row that say the same.
    pub(crate) at: String,
    pub(crate) since: String,
    pub(crate) recording: u64,
    pub(crate) revision: String,
    /// As `Ready=False (Creating): message`.
    pub(crate) conditions: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Then {
    /// What a recording says, and those of the same composite resource before it, oldest first.
    pub(crate) fn of(recording: &Recording, before: &[Head]) -> Self {
        let head = &recording.head;
        let same = before.iter().rev().filter(|it| it.uid == head.uid && it.id <= head.id);
        let same = same.take_while(|it| (&it.trouble, it.is_ready) == (&head.trouble, head.is_ready));
        let since = same.last().unwrap_or(head);
        let conditions = list(&recording.settlement["conditions"]);
        let is_ready = head.ending() == Ending::Succeeded && head.is_ready && unmet(&conditions).is_none();
        Self {
            object: listing::composite(head),
            is_ready,
            message: if is_ready { String::new() } else { message(head, &conditions) },
            step: Some(head.step.clone()).filter(|step| !step.is_empty()),
            at: began_at(head).to_string(),
            since: began_at(since).to_string(),
            recording: head.id,
            revision: head.revision.clone(),
            conditions: conditions.iter().copied().map(condition).collect(),
            warnings: warnings(&recording.settlement),
        }
    }

    pub(crate) fn text(&self) -> String {
        let Self { object, at, since, recording, .. } = self;
        let mut text = if self.is_ready {
            format!("{object} was ready at {at}, and had been since {since}\n")
        } else {
            let step = self.step.as_ref().map(|step| format!(", step `{step}`")).unwrap_or_default();
            format!("{object}{step}: {} (at {at}, since {since})\n", self.message)
        };
        for line in self.conditions.iter().chain(&self.warnings) {
            text += &format!("  {line}\n");
        }
        text += &format!("\n  ferroplane replay show {recording}   # everything that is known of it\n");
        text
    }
}

fn message(head: &Head, conditions: &[&Value]) -> String {
    if !head.trouble.is_empty() {
        return head.trouble.clone();
    }
    match (unmet(conditions), head.ending()) {
        (Some(unmet), _) => condition(unmet),
        (None, Ending::Conflict) => "somebody else changed it meanwhile; it was tried again".to_owned(),
        (None, ending) => format!("it is not known to have been ready ({ending:?})"),
    }
}

/// The first condition that did not hold, of those that count.
fn unmet<'a>(conditions: &[&'a Value]) -> Option<&'a Value> {
    let of = |kind: &str| conditions.iter().find(|it| it["type"] == kind && it["status"] != "True").copied();
    of("Synced").or_else(|| of("Ready"))
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().into_iter().flatten().collect()
}

fn condition(condition: &Value) -> String {
    let text = |key: &str| condition[key].as_str().unwrap_or_default();
    let message = text("message");
    let colon = if message.is_empty() { "" } else { ": " };
    format!("{}={} ({}){colon}{message}", text("type"), text("status"), text("reason"))
}

fn warnings(settlement: &Value) -> Vec<String> {
    let events = list(&settlement["events"]);
    let warnings = events.iter().filter(|event| event["kind"] == "Warning");
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    warnings.map(|event| format!("Warning {}: {}", text(event, "reason"), text(event, "message"))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn head(id: u64, trouble: &str, is_ready: bool) -> Head {
        let ending = if trouble.is_empty() { Ending::Succeeded } else { Ending::Failed };
        Head {
            id,
            began_at: id * 1000,
            kind: "App".to_owned(),
            name: "shop".to_owned(),
            trouble: trouble.to_owned(),
            ending: ending.into(),
            is_ready,
            ..Head::default()
        }
    }

    fn then(head: Head, before: &[Head], settlement: Value) -> Then {
        Then::of(&Recording { head, takes: Vec::new(), settlement, is_written: true }, before)
    }

    #[test]
    fn trouble_is_told_since_it_began() {
        let before = [head(1, "bad", false), head(2, "", true), head(3, "bad", false), head(4, "bad", false)];
        let failed = Head { step: "size".to_owned(), ..head(4, "bad", false) };
        let text = then(failed, &before, Value::Null).text();
        assert!(
            text.starts_with(
                "App/shop, step `size`: bad (at 1970-01-01T00:00:04Z, since 1970-01-01T00:00:03Z)\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn condition_that_did_not_hold_is_the_cause_if_nothing_failed() {
        let settlement = json!({
            "conditions": [
                {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
                {"type": "Ready", "status": "False", "reason": "Creating", "message": "Unready resources: a"},
            ],
            "events": [{"kind": "Warning", "reason": "Odd", "message": "so"}, {"kind": "Normal", "message": "x"}],
        });
        let then = then(head(1, "", false), &[], settlement);
        assert_eq!(then.message, "Ready=False (Creating): Unready resources: a");
        assert_eq!(then.warnings, ["Warning Odd: so"]);
        assert!(!then.is_ready);
    }

    #[test]
    fn what_was_ready_is_said_to_have_been() {
        let then = then(head(1, "", true), &[], Value::Null);
        assert!(then.is_ready && then.text().starts_with("App/shop was ready at 1970-01-01T00:00:01Z"));
    }
}
