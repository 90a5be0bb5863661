//! Replays the calls that phases of an ActionSet made: asks the functions that are built in the same again.
//!
//! Functions of phases decide and do nothing, so that nothing is done by asking them. Functions of packages are not asked.

use ferroplane_engine::versions::Version;
use ferroplane_functions::Library;
use ferroplane_recorder::{RecordedCall, Recording, ReplayedCall};

use super::comparison::differences;

/// What came of replaying all calls of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedPhases {
    /// A line for each call, and more for those that differ.
    pub text: String,
    /// Whether no call differs.
    pub is_same: bool,
}

/// Ask the functions of all phases again.
pub fn replay(recording: &Recording, library: &Library) -> ReplayedPhases {
    let mut replayed = ReplayedPhases { text: String::new(), is_same: true };
    for (number, call) in recording.phase_calls.iter().enumerate() {
        let RecordedCall { phase, function, version, .. } = call;
        let outcome = ask(call, library);
        replayed.is_same &= !matches!(outcome, Some(ReplayedCall::Differs(_)));
        let outcome = describe(call, outcome);
        replayed.text += &format!("call {}: phase `{phase}`, {function} {version}: {outcome}\n", number + 1);
    }
    replayed
}

/// None if the function is not built in.
fn ask(call: &RecordedCall, library: &Library) -> Option<ReplayedCall> {
    let version: Version = call.version.parse().ok()?;
    let function = library.phase_function(&call.function, &version)?;
    Some(call.replay(&**function))
}

fn describe(call: &RecordedCall, outcome: Option<ReplayedCall>) -> String {
    match outcome {
        Some(ReplayedCall::Same) => "the decision is the same".to_owned(),
        Some(ReplayedCall::Differs(now)) => {
            let differences = differences(&call.decided, &now);
            format!("the decision differs\n{}", differences.trim_end())
        }
        Some(ReplayedCall::Inexact) => {
            "cannot be compared exactly, because secrets in it are redacted".to_owned()
        }
        Some(ReplayedCall::Incomplete) if call.is_cut() => {
            "not compared, because it was too large to be recorded".to_owned()
        }
        Some(ReplayedCall::Incomplete) => "not compared, because another release recorded it".to_owned(),
        None => "not called again: this release has no such built-in function".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_recorder::Head;
    use serde_json::{Value, json};

    use super::*;

    fn call(function: &str, decided: Value, is_redacted: bool) -> RecordedCall {
        RecordedCall {
            phase: "p".to_owned(),
            function: function.to_owned(),
            version: "v0.1.0".to_owned(),
            input: json!({"arguments": {"operation": "create", "spec": "{"}}),
            decided,
            is_redacted,
            ..RecordedCall::default()
        }
    }

    fn replayed(call: RecordedCall) -> ReplayedPhases {
        let recording = Recording {
            head: Head::default(),
            takes: Vec::new(),
            phase_calls: vec![call],
            action_set: Value::Null,
            settlement: Value::Null,
            is_written: true,
        };
        replay(&recording, &Library::built_in().unwrap())
    }

    #[test]
    fn built_in_function_is_asked_again_and_others_are_not() {
        let other = json!({"done": {"output": {}}});
        let differs = replayed(call("KubeOps", other.clone(), false));
        assert!(!differs.is_same && differs.text.contains("  done"), "{}", differs.text);
        let title = "call 1: phase `p`, KubeOps v0.1.0: the decision differs\n";
        assert!(differs.text.starts_with(title), "{}", differs.text);
        for (call, words) in [
            (call("KubeOps", other.clone(), true), "cannot be compared exactly, because secrets"),
            (call("KubeOps", Value::Null, false), "not compared, because it was too large"),
            (call("function-of-a-package", other, false), "not called again"),
        ] {
            let replayed = replayed(call);
            assert!(replayed.is_same && replayed.text.contains(words), "{}", replayed.text);
        }
    }
}
