//! The beginning of messages in conditions and events: the operation that failed, or what is listed.
//!
//! People need the whole sentence. Programs that show the code, the step and the resource of a failure ([`FailurePoint`]) beside the
//! message would repeat them: [`without_operation`] removes them from the message.
//!
//! [`FailurePoint`]: ferroplane_api::FailurePoint

use ferroplane_api::AccessGrantSpec;

pub const CANNOT_COMPOSE: &str = "cannot compose resources";
pub const CANNOT_SELECT_COMPOSITION: &str = "cannot select a Composition";
pub const CANNOT_SELECT_REVISION: &str = "cannot select a revision";
const CANNOT_USE_REVISION: &str = "cannot use CompositionRevision";
const CANNOT_APPLY: &str = "cannot apply composed resource";
const FAILURE_LIMIT: &str = "failure limit of";
const ACTIVE_DEADLINE: &str = "active deadline of";

/// Precedes the names of composed resources that are not synced. Crossplane's words: programs know them.
pub const UNSYNCED_RESOURCES: &str = "Unsynced resources: ";
/// The same of those that are not ready.
pub const UNREADY_RESOURCES: &str = "Unready resources: ";

/// Why something may not be read.
pub const NO_GRANT: &str = "no AccessGrant allows that";
/// Precedes the spec of the `AccessGrant` that would allow it, as JSON.
const GRANT_THAT_HELPS: &str = "; one with this spec would: ";

/// The message about a missing grant, with the grant that would allow it.
pub(crate) fn not_granted(grant: &AccessGrantSpec) -> String {
    format!("{NO_GRANT}{GRANT_THAT_HELPS}{}", serde_json::json!(grant))
}

/// Split a message into the text before the grant that would allow it, and that grant.
pub fn split_grant(message: &str) -> Option<(&str, AccessGrantSpec)> {
    let (text, grant) = message.split_once(GRANT_THAT_HELPS)?;
    // A function may put any text into the name of an object: only a grant at the end of the message counts.
    Some((text, serde_json::from_str(grant).ok()?))
}

/// An operation has reached its retry limit.
pub(crate) fn failure_limit(limit: u64) -> String {
    format!("{FAILURE_LIMIT} {limit} reached")
}

/// An operation has reached its deadline.
pub(crate) fn active_deadline(seconds: u64) -> String {
    format!("{ACTIVE_DEADLINE} {seconds}s exceeded")
}

/// A clause as a sentence of a condition or an event, which begins with a capital letter.
pub fn capitalised(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next();
    first.into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// A `CompositionRevision` that cannot be used.
pub fn cannot_use_revision(revision: &str) -> String {
    format!("{CANNOT_USE_REVISION} `{revision}`")
}

/// A composed resource that cannot be applied.
pub fn cannot_apply(resource: &str, step: &str) -> String {
    format!("{CANNOT_APPLY} `{resource}` of step `{step}`")
}

/// The message without the operations at its beginning, if the failure is in this step. A message of nothing else stays as it is.
pub fn without_operation<'m>(message: &'m str, step: Option<&str>) -> &'m str {
    let operations = [CANNOT_COMPOSE, CANNOT_SELECT_COMPOSITION, CANNOT_SELECT_REVISION];
    // These are followed by what they are about.
    let begin_operations = [CANNOT_USE_REVISION, CANNOT_APPLY];
    // An engine's `Failure` and an `UnresolvedStep` begin with one of these.
    let begin_steps = ["cannot run pipeline step", "pipeline step", "step"];
    let quoted_step = step.map(|step| format!(" `{step}`"));
    let mut rest = message;
    while let Some((operation, failure)) = rest.split_once(": ") {
        let begins =
            |begin: &str, on: &str| operation.strip_prefix(begin).is_some_and(|it| it.starts_with(on));
        let is_step =
            quoted_step.as_ref().is_some_and(|step| begin_steps.iter().any(|begin| begins(begin, step)));
        let is_limit = operation.starts_with(FAILURE_LIMIT) || operation.starts_with(ACTIVE_DEADLINE);
        let is_operation = is_limit
            || is_step
            || operations.contains(&operation)
            || begin_operations.iter().any(|begin| begins(begin, " `"));
        if failure.is_empty() || !is_operation {
            break;
        }
        rest = failure;
        if is_step {
            // The rest are the words of a function, which may mention steps of its own.
            break;
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use ferroplane_api::{Cause, Condition};

    use super::*;
    use crate::settle::Trouble;
    use crate::versions::Unresolved;
    use crate::{Failure, UnresolvedStep, chain};

    #[test]
    fn operations_are_left_out_and_failures_are_not() {
        let step = || "a".to_owned();
        let run = |failure: Failure| Trouble::of(&failure).message;
        let function = || "f".to_owned();
        let unknown = Unresolved::UnknownFunction { function: function(), similar: None };
        let unresolved = UnresolvedStep { index: 0, step: step(), source: unknown };
        let cases = [
            (run(Failure::Fatal { step: step(), message: "no region: b".to_owned() }), "no region: b"),
            (run(Failure::Fatal { step: step(), message: "step `a`: c".to_owned() }), "step `a`: c"),
            (run(Failure::Fatal { step: step(), message: "step `b`: c".to_owned() }), "step `b`: c"),
            (
                run(Failure::Call {
                    step: step(),
                    cause: Cause::FunctionTimeout,
                    source: "it is slow: c".into(),
                }),
                "it is slow: c",
            ),
            (
                run(Failure::NeverSettles { step: step(), calls: 5 }),
                "it changed its requirements after each of 5 calls",
            ),
            (run(Failure::Status), "desired status of the composite resource is not an object"),
            (format!("{}: {}", cannot_use_revision("r"), chain(&unresolved)), "there is no function `f`"),
            (
                format!("{}: {}", cannot_apply("bucket", "a"), "X \"b\" is invalid: c: d"),
                "X \"b\" is invalid: c: d",
            ),
            (format!("{CANNOT_SELECT_REVISION}: there is none"), "there is none"),
            (CANNOT_COMPOSE.to_owned(), CANNOT_COMPOSE),
        ];
        for (message, failure) in cases {
            assert_eq!(without_operation(&message, Some("a")), failure);
        }
    }

    #[test]
    fn clause_begins_with_a_capital_letter_in_a_condition() {
        assert_eq!(capitalised("runs in a container"), "Runs in a container");
        assert_eq!(capitalised("`./f` serves the function"), "`./f` serves the function");
        assert_eq!(capitalised(""), "");
    }

    #[test]
    fn only_the_step_that_failed_is_left_out() {
        let message = format!("{CANNOT_COMPOSE}: step `deploy`: quota exceeded");
        assert_eq!(without_operation(&message, Some("deploy")), "quota exceeded");
        for step in [None, Some("build"), Some("dep")] {
            assert_eq!(without_operation(&message, step), "step `deploy`: quota exceeded");
        }
    }

    #[test]
    fn trouble_has_its_code_in_the_condition_and_in_the_event() {
        let failure = Failure::Fatal { step: "a".to_owned(), message: "no".to_owned() };
        let settlement = crate::settle_trouble(&Trouble::of(&failure), None, crate::SettleFacts::default());
        let conditions = crate::conditions_in(&settlement.status["conditions"]);
        let [Condition { code, step, resource, .. }] = &conditions[..] else { panic!("{conditions:?}") };
        assert_eq!([code, step, resource], ["FunctionFatalResult", "a", ""]);
        assert_eq!(settlement.events[0].failure, Some(failure.point()));
    }
}
