//! Commands in containers of pods that run: KubeExec and KubeExecAll.
//!
//! * KubeExec v0.0.0 follows Kanister 0.119, `pkg/function/kube_exec.go`: everything that the command prints is reported if it fails.
//! * v0.1.0 tells only what it printed as errors, and its exit code, and takes a `timeout`.
//! * v0.2.0 also takes `acceptedExitCodes`, gives the exit code as output, and can be told with `onInterruption: Rerun` that its command may
//!   be run again if the control plane was stopped while it ran.
//!
//! The progress of a command is unknown when the control plane stopped. So a phase fails then, unless it may run its command again.

use ferroplane_api::Object;
use ferroplane_engine::action::{
    Answer, ArgumentMistake, Move, Need, Phase, PhaseContract, PhaseFunction, PodSupport, Request,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arguments::{Arguments, is_template, milliseconds, mistake};
use super::moves::{Failure, NextMove, checkpoint, perform, settle};
use super::output::{last_words, outputs};
use super::pods::no_pods;

/// How much of the output of a command is reported if it fails.
const QUOTED: usize = 1000;
const ON_INTERRUPTION: [&str; 2] = ["Fail", "Rerun"];

/// A version of KubeExec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KubeExec {
    V0_0,
    V0_1,
    V0_2,
}

/// KubeExecAll.
#[derive(Debug, Clone, Copy)]
pub(super) struct KubeExecAll;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Executing {
    Exec,
}

impl PhaseFunction for KubeExec {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(self.next(phase))
    }

    fn contract(&self) -> PhaseContract {
        let (optional, outputs): (&'static [&'static str], &'static [&'static str]) = match self {
            Self::V0_0 => (&["container"], &[]),
            Self::V0_1 => (&["container", "timeout"], &[]),
            Self::V0_2 => (&["container", "timeout", "acceptedExitCodes", "onInterruption"], &["exitCode"]),
        };
        PhaseContract { required: &["namespace", "pod", "command"], optional, outputs, needs: &[Need::Exec] }
    }

    fn argument_mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        let mut mistakes = self.contract().mistakes(arguments);
        let written = |name: &str| {
            let text = arguments.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty() && !is_template(text) && self.contract().takes(name))
        };
        if let Some(text) = written("timeout") {
            mistakes.extend(milliseconds("timeout", text).err().map(|failure| mistake(failure, "timeout")));
        }
        if let Some(text) = written("onInterruption")
            && let Err(failure) = may_rerun(text)
        {
            mistakes.push(mistake(failure, "onInterruption"));
        }
        mistakes
    }
}

impl KubeExec {
    fn next(self, phase: &Phase<'_>) -> NextMove {
        let arguments = Arguments(phase.arguments);
        let request = Request::Exec {
            namespace: arguments.text("namespace")?.to_owned(),
            pod: arguments.text("pod")?.to_owned(),
            container: arguments.optional_text("container")?.unwrap_or_default().to_owned(),
            command: arguments.texts("command")?,
            timeout: if self == Self::V0_0 { None } else { arguments.duration("timeout")? },
        };
        check_pods(phase)?;
        match (checkpoint(phase)?, phase.answers) {
            (None, []) => Ok(perform(&Executing::Exec, vec![request])),
            (Some(Executing::Exec), []) if self.may_rerun(arguments)? => {
                Ok(perform(&Executing::Exec, vec![request]))
            }
            (Some(Executing::Exec), []) => Err(interrupted(&[request])),
            (_, [answer]) => Ok(Move::Done { output: self.output(phase, &request, answer)? }),
            (_, answers) => Err(Failure::unexpected(answers)),
        }
    }

    fn may_rerun(self, arguments: Arguments<'_>) -> Result<bool, Failure> {
        match arguments.optional_text("onInterruption")? {
            Some(choice) if self == Self::V0_2 => may_rerun(choice),
            _ => Ok(false),
        }
    }

    fn output(self, phase: &Phase<'_>, request: &Request, answer: &Answer) -> Result<Object, Failure> {
        let arguments = Arguments(phase.arguments);
        let accepted = if self == Self::V0_2 { accepted_exit_codes(arguments)? } else { vec![0] };
        let (exit_code, stdout) = ended(phase, request, answer, self != Self::V0_0, &accepted)?;
        let mut output = outputs(stdout)?;
        if self == Self::V0_2 {
            output.entry("exitCode").or_insert_with(|| exit_code.to_string().into());
        }
        Ok(output)
    }
}

impl PhaseFunction for KubeExecAll {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(all(phase))
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract {
            required: &["namespace", "pods", "containers", "command"],
            optional: &[],
            outputs: &[],
            needs: &[Need::Exec],
        }
    }
}

/// Runs the command in all containers of all pods. What they print is merged in the order in which they are named.
fn all(phase: &Phase<'_>) -> NextMove {
    let arguments = Arguments(phase.arguments);
    let (namespace, command) = (arguments.text("namespace")?, arguments.texts("command")?);
    let containers: Vec<_> = arguments.text("containers")?.split_whitespace().collect();
    let pods: Vec<_> = arguments.text("pods")?.split_whitespace().collect();
    let requests = pods.iter().flat_map(|pod| {
        containers.iter().map(|container| Request::Exec {
            namespace: namespace.to_owned(),
            pod: (*pod).to_owned(),
            container: (*container).to_owned(),
            command: command.clone(),
            timeout: None,
        })
    });
    let requests: Vec<_> = requests.collect();
    if requests.is_empty() {
        return Err(Failure::argument("pods", "there is no pod or no container"));
    }
    check_pods(phase)?;
    match (checkpoint(phase)?, phase.answers) {
        (None, []) => Ok(perform(&Executing::Exec, requests)),
        (Some(Executing::Exec), []) => Err(interrupted(&requests)),
        (_, answers) if answers.len() == requests.len() => merged(phase, &requests),
        (_, answers) => Err(Failure::unexpected(answers)),
    }
}

fn merged(phase: &Phase<'_>, requests: &[Request]) -> NextMove {
    let (mut output, mut failures) = (Object::new(), Vec::new());
    for (request, answer) in requests.iter().zip(phase.answers) {
        match ended(phase, request, answer, false, &[0]).and_then(|(_, stdout)| outputs(stdout)) {
            Ok(more) => output.extend(more),
            Err(failure) => failures.push(failure),
        }
    }
    let Some(mut first) = failures.first().cloned() else { return Ok(Move::Done { output }) };
    first.message = failures.iter().map(|failure| failure.message.as_str()).collect::<Vec<_>>().join("; ");
    Err(first)
}

/// The exit code of a command and what it printed, unless it failed.
fn ended<'a>(
    phase: &Phase<'_>,
    request: &Request,
    answer: &'a Answer,
    errors_only: bool,
    accepted: &[i32],
) -> Result<(i32, &'a str), Failure> {
    let place = place(request);
    match answer {
        Answer::Ended { exit_code, stdout, .. } if accepted.contains(exit_code) => Ok((*exit_code, stdout)),
        Answer::Ended { exit_code, stdout, stderr } => {
            // Before it is cut: what is left of a value would not be recognised.
            let quote = |printed: &str| last_words(&phase.secrets.redact(printed), QUOTED);
            let mut words = quote(stderr);
            if !errors_only {
                let printed = quote(stdout);
                let both = [printed, words].into_iter().filter(|text| !text.is_empty());
                words = both.collect::<Vec<_>>().join("; ");
            }
            let separator = if words.is_empty() { "" } else { ": " };
            Err(Failure::new(format!(
                "the command in {place} exited with code {exit_code}{separator}{words}"
            )))
        }
        Answer::Refused(refused) if refused.reason == "Timeout" => Err(Failure::timeout(format!(
            "the command in {place} did not end in time; it may still run there"
        ))),
        // It has run.
        Answer::Refused(refused) if refused.is_too_large() => Err(Failure::refused(refused)),
        Answer::Refused(refused) => {
            let mut failure = Failure::refused(refused);
            failure.message = format!("cannot run the command in {place}: {}", failure.message);
            Err(failure)
        }
        Answer::Absent => {
            Err(Failure::new(format!("cannot run the command in {place}: there is no such pod")))
        }
        other => Err(Failure::unexpected(std::slice::from_ref(other))),
    }
}

fn place(request: &Request) -> String {
    let Request::Exec { namespace, pod, container, .. } = request else { return String::new() };
    if container.is_empty() {
        return format!("pod `{pod}` in namespace `{namespace}`");
    }
    format!("container `{container}` of pod `{pod}` in namespace `{namespace}`")
}

fn interrupted(requests: &[Request]) -> Failure {
    let places: Vec<_> = requests.iter().map(place).collect();
    Failure::interrupted(format!(
        "the control plane stopped while the command ran in {}; whether it finished is not known",
        places.join(", ")
    ))
}

/// Whether a phase that was interrupted may do again what it did.
pub(super) fn may_rerun(choice: &str) -> Result<bool, Failure> {
    if !ON_INTERRUPTION.contains(&choice) {
        return Err(Failure::argument("onInterruption", format!("`{choice}` is neither Fail nor Rerun")));
    }
    Ok(choice == "Rerun")
}

fn accepted_exit_codes(arguments: Arguments<'_>) -> Result<Vec<i32>, Failure> {
    const NAME: &str = "acceptedExitCodes";
    let Some(codes) = arguments.optional_texts(NAME)? else { return Ok(vec![0]) };
    let code = |text: String| {
        let code = text.parse().ok().filter(|code| (0..=255).contains(code));
        code.ok_or_else(|| Failure::argument(NAME, format!("`{text}` is not an exit code")))
    };
    codes.into_iter().map(code).collect()
}

fn check_pods(phase: &Phase<'_>) -> Result<(), Failure> {
    if phase.pods == PodSupport::Cluster { Ok(()) } else { Err(no_pods("runs commands in pods")) }
}

#[cfg(test)]
pub(super) mod tests;
