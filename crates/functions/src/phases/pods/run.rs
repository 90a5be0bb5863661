//! Runs a pod to its end: creates it, waits, reads its log, and deletes it.
//!
//! ```text
//! Create ─▶ Look ⇄ (wait) ─▶ Read ─▶ Delete ─▶ done, or the failure of the pod in its own words
//! ```
//!
//! # Invariants
//! * The pod is deleted only when its output is in the checkpoint, or together with the last reading of its log.
//! * Output that was read stays read: after a crash the log is read from the first line that was not used.
//! * Output that cannot be read or kept fails the phase when the pod has ended. It is never left out silently.
//! * What a pod says in its log or its status is redacted before any of it is kept.

use ferroplane_api::{Object, meta};
use ferroplane_engine::action::{Address, Answer, Move, Phase, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::QUOTED;
use crate::phases::moves::{
    Failure, NextMove, address_of, checkpoint, describe, is_own, perform, taken, text_at, value_at, wait,
};
use crate::phases::output::{complete_lines, last_words, outputs};

const MANAGER: &str = "ferroplane-phase";
/// How long a pod may take to start, as in Kanister.
const START: i64 = 15 * 60_000;
/// How often the log of a pod that runs is read, so that what kubelets throw away of long logs was read before.
const READ_EVERY: i64 = 10 * 60_000;
/// How much output a checkpoint may have, in bytes of JSON. Its limit leaves room for the rest.
const KEPT_OUTPUT: usize = 2000;
/// Why output is lost that is too large for a checkpoint, in a log that is too long to be read at once.
const TOO_MUCH: &str = "its log is long, and has more output than can be kept while it is read";

/// A pod that is run for a phase.
#[derive(Debug)]
pub(super) struct PodRun {
    pub(super) pod: Object,
    /// The container whose log has output.
    pub(super) container: &'static str,
    /// Whether the phase fails if the pod does.
    pub(super) fails: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Running {
    Create,
    /// The pod is checked.
    #[serde(rename_all = "camelCase")]
    Look {
        log: LogPosition,
        since: i64,
        next_read: i64,
    },
    /// Its log is read. If the pod has ended, this is how.
    #[serde(rename_all = "camelCase")]
    Read {
        log: LogPosition,
        since: i64,
        ended: Option<Ending>,
    },
    /// It is deleted, and its output is here.
    Delete {
        outputs: Object,
        ended: Ending,
    },
    /// Its log is read for the last time and the pod deleted at once, because its output is too large for a checkpoint.
    #[serde(rename_all = "camelCase")]
    ReadAndDelete {
        log: LogPosition,
        ended: Ending,
    },
}

/// How far a log was read, and the output up to there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct LogPosition {
    offset: u64,
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    outputs: Object,
}

/// How a pod ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ending {
    /// What is wrong, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// Why some of its output is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
}

/// A part of a log, as the plane gives it.
#[derive(Debug, Clone, Copy)]
struct LogPart<'t> {
    text: &'t str,
    next_offset: u64,
    is_end: bool,
}

/// What to do next about the pod.
pub(super) fn run(phase: &Phase<'_>, run: &PodRun) -> NextMove {
    match checkpoint(phase)?.unwrap_or(Running::Create) {
        Running::Create => run.after_create(phase),
        Running::Look { log, since, next_read } => run.after_look(phase, log, since, next_read),
        Running::Read { log, since, ended } => run.after_read(phase, log, since, ended),
        Running::Delete { outputs, ended } => run.after_delete(phase, outputs, ended),
        Running::ReadAndDelete { log, ended } => run.after_last_read(phase, log, ended),
    }
}

impl Ending {
    fn failed(failure: String) -> Self {
        Self { failure: Some(failure), lost: None }
    }
}

impl PodRun {
    fn after_create(&self, phase: &Phase<'_>) -> NextMove {
        let look = || Ok(self.look(LogPosition::default(), phase.now, phase.now + READ_EVERY));
        match phase.answers {
            [] => Ok(perform(&Running::Create, vec![self.create()])),
            [Answer::Object { .. }] => look(),
            // Whose pod it is, is checked when the pod is read.
            [Answer::Refused(refused)] if refused.already_exists() => look(),
            answers => Err(Failure::unexpected(answers)),
        }
    }

    fn after_look(&self, phase: &Phase<'_>, log: LogPosition, since: i64, next_read: i64) -> NextMove {
        match phase.answers {
            [] => Ok(self.look(log, since, next_read)),
            [Answer::Object { object, .. }] => self.judge(phase, object, log, since, next_read),
            [Answer::Absent] => Err(self.vanished()),
            answers => Err(Failure::unexpected(answers)),
        }
    }

    fn after_read(&self, phase: &Phase<'_>, log: LogPosition, since: i64, ended: Option<Ending>) -> NextMove {
        match (phase.answers, ended) {
            ([], ended) => Ok(self.read(log, since, ended)),
            ([Answer::Log { text, next_offset, is_end }], ended) => {
                let part = LogPart { text, next_offset: *next_offset, is_end: *is_end };
                self.take(phase, part, log, since, ended)
            }
            ([Answer::Absent], None) => Err(self.vanished()),
            ([Answer::Refused(refused)], Some(ended)) if refused.is_too_large() => {
                Ok(self.lose(log, ended, refused.message.clone()))
            }
            // Of a pod that ended without having begun there is no log.
            ([Answer::Refused(_) | Answer::Absent], Some(ended)) => Ok(self.delete_with(log.outputs, ended)),
            // The kubelet may be gone for a while. The pod goes on, and its log is read later.
            ([Answer::Refused(_)], None) => Ok(self.wait(log, since, phase.now + READ_EVERY)),
            (answers, _) => Err(Failure::unexpected(answers)),
        }
    }

    fn after_delete(&self, phase: &Phase<'_>, outputs: Object, ended: Ending) -> NextMove {
        match phase.answers {
            [] => Ok(self.delete_with(outputs, ended)),
            // A pod that cannot be deleted does not undo what it did.
            [_] => self.finish(outputs, ended),
            answers => Err(Failure::unexpected(answers)),
        }
    }

    fn after_last_read(&self, phase: &Phase<'_>, log: LogPosition, ended: Ending) -> NextMove {
        match phase.answers {
            [] => Ok(self.read_and_delete(log, ended)),
            [Answer::Log { text, is_end, .. }, _] => {
                let mut found = log.outputs;
                found.extend(outputs(text)?);
                let lost = (!is_end).then(|| TOO_MUCH.to_owned());
                self.finish(found, Ending { lost, ..ended })
            }
            [_, _] => Err(Failure::interrupted(format!(
                "the control plane stopped when {} had been deleted and its output was not saved yet",
                describe(&self.address())
            ))),
            answers => Err(Failure::unexpected(answers)),
        }
    }

    fn address(&self) -> Address {
        address_of(&self.pod)
    }

    fn create(&self) -> Request {
        Request::Create { object: self.pod.clone(), field_manager: MANAGER.to_owned() }
    }

    pub(super) fn delete(&self) -> Request {
        Request::Delete { target: self.address(), uid: None }
    }

    fn log(&self, offset: u64) -> Request {
        Request::ReadLog {
            namespace: meta::namespace(&self.pod).to_owned(),
            pod: meta::name(&self.pod).to_owned(),
            container: self.container.to_owned(),
            offset,
        }
    }

    fn look(&self, log: LogPosition, since: i64, next_read: i64) -> Move {
        perform(&Running::Look { log, since, next_read }, vec![Request::Get(self.address())])
    }

    fn read(&self, log: LogPosition, since: i64, ended: Option<Ending>) -> Move {
        let request = self.log(log.offset);
        perform(&Running::Read { log, since, ended }, vec![request])
    }

    fn wait(&self, log: LogPosition, since: i64, next_read: i64) -> Move {
        wait(&Running::Look { log, since, next_read }, Some(next_read), vec![self.address()])
    }

    fn delete_with(&self, outputs: Object, ended: Ending) -> Move {
        perform(&Running::Delete { outputs, ended }, vec![self.delete()])
    }

    fn read_and_delete(&self, log: LogPosition, ended: Ending) -> Move {
        let requests = vec![self.log(log.offset), self.delete()];
        perform(&Running::ReadAndDelete { log, ended }, requests)
    }

    /// What to do about the pod as it is now.
    fn judge(
        &self,
        phase: &Phase<'_>,
        pod: &Object,
        log: LogPosition,
        since: i64,
        next_read: i64,
    ) -> NextMove {
        if !is_own(phase, pod) {
            return Err(taken(&self.address()));
        }
        match text_at(pod, &["status", "phase"]) {
            // The log is read after the end, too: what was printed last is most often the output.
            "Succeeded" => Ok(self.read(log, since, Some(Ending::default()))),
            "Failed" => Ok(self.read(log, since, Some(Ending::failed(failure_of(phase, pod))))),
            "Running" if phase.now >= next_read => Ok(self.read(log, since, None)),
            "Running" => Ok(self.wait(log, since, next_read)),
            // The pod is deleted: one that is scheduled hours later would do its work when nothing waits for it any more.
            _ if phase.now >= since + START => {
                let failure = format!("it did not start within 15m0s{}", waiting_for(phase, pod));
                Ok(self.delete_with(log.outputs, Ending::failed(failure)))
            }
            _ => {
                let state = Running::Look { log, since, next_read };
                Ok(wait(&state, Some(since + START), vec![self.address()]))
            }
        }
    }

    /// What to do with a part of the log.
    fn take(
        &self,
        phase: &Phase<'_>,
        part: LogPart<'_>,
        log: LogPosition,
        since: i64,
        ended: Option<Ending>,
    ) -> NextMove {
        let mut ended = match ended {
            Some(ended) if part.is_end => ended,
            ended => return self.take_part(phase, part, log, since, ended),
        };
        let mut found = log.outputs.clone();
        found.extend(outputs(part.text)?);
        if let Some(failure) = &mut ended.failure {
            let words = last_words(&phase.secrets.redact(part.text), QUOTED / 2);
            if !words.is_empty() {
                failure.push_str(": ");
                failure.push_str(&words);
            }
        }
        // Output that fits is stored before the pod is deleted. Larger output can only be taken in the same move as
        // the deletion.
        Ok(if fits(&found) { self.delete_with(found, ended) } else { self.read_and_delete(log, ended) })
    }

    /// Keeps the output of complete lines, and continues behind them.
    fn take_part(
        &self,
        phase: &Phase<'_>,
        part: LogPart<'_>,
        mut log: LogPosition,
        since: i64,
        ended: Option<Ending>,
    ) -> NextMove {
        let mut found = log.outputs.clone();
        found.extend(outputs(complete_lines(part.text))?);
        // The second half guards against a log that answers the same part again and again.
        let goes_on = fits(&found) && part.next_offset > log.offset;
        if goes_on {
            log = LogPosition { offset: part.next_offset, outputs: found };
        }
        match (part.is_end, ended) {
            // There is more to read at once.
            (false, ended) if goes_on => Ok(self.read(log, since, ended)),
            (false, Some(ended)) => Ok(self.lose(log, ended, TOO_MUCH.to_owned())),
            // A pod that runs is not disturbed. What cannot be kept now is checked again when it has ended.
            _ => Ok(self.wait(log, since, phase.now + READ_EVERY)),
        }
    }

    /// Has the pod deleted, and the phase fail after that.
    fn lose(&self, log: LogPosition, ended: Ending, why: String) -> Move {
        self.delete_with(log.outputs, Ending { lost: Some(shortened(why)), ..ended })
    }

    fn finish(&self, outputs: Object, ended: Ending) -> NextMove {
        let pod = describe(&self.address());
        match ended {
            // Before lost output: that the pod failed is the reason, and lost output may be its consequence.
            Ending { failure: Some(failure), .. } if self.fails => {
                Err(Failure::new(format!("{pod} failed: {failure}")))
            }
            Ending { lost: Some(why), .. } => {
                Err(Failure::new(format!("cannot know all output of {pod}: {why}")))
            }
            _ => Ok(Move::Done { output: outputs }),
        }
    }

    fn vanished(&self) -> Failure {
        Failure::new(format!("{} was deleted before it ended", describe(&self.address())))
    }
}

fn fits(outputs: &Object) -> bool {
    serde_json::to_string(outputs).is_ok_and(|text| text.len() <= KEPT_OUTPUT)
}

/// What the pod and its containers say about their end.
fn failure_of(phase: &Phase<'_>, pod: &Object) -> String {
    let mut words = Vec::new();
    for field in ["reason", "message"] {
        let text = text_at(pod, &["status", field]);
        if !text.is_empty() {
            words.push(text.to_owned());
        }
    }
    for container in containers(pod) {
        let Some(end) = value_at(container, &["state", "terminated"]).and_then(Value::as_object) else {
            continue;
        };
        let code = end.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
        // Containers beside the one that failed end with 0, and say nothing.
        if code != 0 {
            let details = ["reason", "message"].map(|field| text_at(end, &[field]).trim());
            let details: Vec<_> = details.into_iter().filter(|text| !text.is_empty()).collect();
            let separator = if details.is_empty() { "" } else { ": " };
            let name = text_at(container, &["name"]);
            words
                .push(format!("container `{name}` exited with code {code}{separator}{}", details.join(": ")));
        }
    }
    shortened(phase.secrets.redact(&words.join("; ")))
}

/// Why a pod has not started.
fn waiting_for(phase: &Phase<'_>, pod: &Object) -> String {
    // The first container that waits: those behind it wait for the same image or volume.
    let waiting = containers(pod).find_map(|container| {
        let waiting = value_at(container, &["state", "waiting"])?.as_object()?;
        let texts = ["reason", "message"].map(|field| text_at(waiting, &[field]));
        Some(texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": "))
    });
    let conditions = value_at(pod, &["status", "conditions"]).and_then(Value::as_array);
    let unscheduled = conditions.into_iter().flatten().filter_map(Value::as_object).find_map(|condition| {
        let is_it =
            text_at(condition, &["type"]) == "PodScheduled" && text_at(condition, &["status"]) == "False";
        is_it.then(|| text_at(condition, &["message"]).to_owned())
    });
    let words = waiting.filter(|words| !words.is_empty()).or(unscheduled).filter(|words| !words.is_empty());
    words.map(|words| format!(": {}", shortened(phase.secrets.redact(&words)))).unwrap_or_default()
}

fn containers(pod: &Object) -> impl Iterator<Item = &Object> {
    // Init containers first: while one of them fails, the others have not begun.
    let lists = ["initContainerStatuses", "containerStatuses"].map(|list| value_at(pod, &["status", list]));
    lists.into_iter().flatten().filter_map(Value::as_array).flatten().filter_map(Value::as_object)
}

fn shortened(text: String) -> String {
    if text.len() <= QUOTED / 2 {
        return text;
    }
    let end = (0..=QUOTED / 2).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", &text[..end])
}
