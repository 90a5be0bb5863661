//! Functions of phases that are not built in: those of packages with the capability `action`, and those that developers serve.
//!
//! Such a function speaks the protocol of pipeline functions. It is called once for a phase, with the arguments as its input; its output
//! is the output of the phase. Its author has to expect repeated calls: after a crash it is unknown whether the function responded.
//!
//! ```text
//! Call ⇄ (wait while it cannot be reached) ─▶ done, or failed with its fatal result
//! ```

use ferroplane_api::{Cause, Object};
use ferroplane_wire::v1::{RequestMeta, RunFunctionRequest, RunFunctionResponse, Severity};
use ferroplane_wire::{Struct, StructError, tag};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::function::{
    Answer, ArgumentMistake, Move, Need, Phase, PhaseContract, PhaseFunction, Refused, Request,
};

/// How long the phase waits for a function that cannot be reached: it may still be starting.
const PATIENCE: i64 = 5 * 60_000;
/// How often the phase tries to call it, in milliseconds.
const PAUSE: i64 = 1000;
/// The key in the context under which functions find their caller.
const CONTEXT: &str = "ferroplane.io/phase";

/// A function that is called by its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomFunction {
    revision: String,
}

/// A call of a function.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionCall {
    /// The revision that is called.
    pub revision: String,
    /// The arguments of the phase. May hold values of Secrets.
    pub input: Object,
    /// The caller, so that functions can recognise a repeated call.
    pub context: Object,
}

/// What a function answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionReturn {
    pub output: Object,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Calling {
    /// The function is being called since this time.
    Call { since: i64 },
}

impl CustomFunction {
    pub fn new(revision: &str) -> Self {
        Self { revision: revision.to_owned() }
    }

    fn call(&self, phase: &Phase<'_>, since: i64) -> Move {
        let context = json!({"name": phase.name, "identity": phase.identity, "namespace": phase.namespace});
        let call = FunctionCall {
            revision: self.revision.clone(),
            input: phase.arguments.clone(),
            context: Object::from_iter([(CONTEXT.to_owned(), context)]),
        };
        Move::Perform { checkpoint: calling(since), requests: vec![Request::CallFunction(call)] }
    }
}

impl PhaseFunction for CustomFunction {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let since = match Calling::deserialize(phase.checkpoint) {
            Ok(Calling::Call { since }) => since,
            Err(_) => phase.now,
        };
        match phase.answers {
            // Safe after a crash, too: functions may be called any number of times.
            [] => self.call(phase, since),
            [Answer::Returned(FunctionReturn { output, failure: None })] => {
                Move::Done { output: output.clone() }
            }
            [Answer::Returned(FunctionReturn { failure: Some(failure), .. })] => {
                Move::Fail { cause: Cause::PhaseFailed, message: failure.clone() }
            }
            [Answer::Refused(refused)]
                if refused.is_unavailable() && phase.now < since.saturating_add(PATIENCE) =>
            {
                let wake_at = Some(phase.now + PAUSE);
                Move::Wait { checkpoint: calling(since), wake_at, watch: Vec::new(), progress: None }
            }
            [Answer::Refused(Refused { cause, message, .. })] => {
                Move::Fail { cause: *cause, message: message.clone() }
            }
            _ => {
                let message = "the control plane did not answer the request".to_owned();
                Move::Fail { cause: Cause::PhaseFailed, message }
            }
        }
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract { needs: &[Need::Api], ..PhaseContract::default() }
    }

    /// Only the function knows its arguments.
    fn argument_mistakes(&self, _arguments: &Object) -> Vec<ArgumentMistake> {
        Vec::new()
    }
}

fn calling(since: i64) -> Value {
    serde_json::to_value(Calling::Call { since }).unwrap_or_default()
}

impl FunctionCall {
    /// What is sent to the function.
    pub fn request(&self) -> Result<RunFunctionRequest, StructError> {
        let mut request = RunFunctionRequest {
            input: Some(Struct::try_from(self.input.clone())?),
            context: Some(Struct::try_from(self.context.clone())?),
            ..RunFunctionRequest::default()
        };
        request.meta = Some(RequestMeta { tag: tag(&request), ..RequestMeta::default() });
        Ok(request)
    }
}

impl FunctionReturn {
    /// Convert a response to the result of a phase. A phase composes and fetches nothing: a response that asks for it is an error instead
    /// of being ignored.
    pub fn of(response: RunFunctionResponse) -> Self {
        let fatal = response.results.iter().find(|result| result.severity == i32::from(Severity::Fatal));
        if let Some(fatal) = fatal {
            return Self::failed(fatal.message.clone());
        }
        if response.desired.as_ref().is_some_and(|desired| !desired.resources().is_empty()) {
            return Self::failed("it returned composed resources, which a phase cannot create: use KubeOps");
        }
        let asks = response.requirements.as_ref().is_some_and(|asked| {
            !(asked.resources.is_empty() && asked.extra_resources.is_empty() && asked.schemas.is_empty())
        });
        if asks {
            return Self::failed(
                "it requires resources, which a phase does not fetch: pass them as arguments",
            );
        }
        match response.output.map(Struct::into_json).transpose() {
            Ok(output) => Self { output: output.unwrap_or_default(), failure: None },
            Err(error) => Self::failed(format!("cannot read its output: {error}")),
        }
    }

    fn failed(failure: impl Into<String>) -> Self {
        Self { output: Object::new(), failure: Some(failure.into()) }
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::State;
    use ferroplane_wire::v1::{self, Requirements, ResourceSelector};

    use super::super::{PodSupport, Scope, Secrets};
    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn advance(checkpoint: &Value, answers: &[Answer], now: i64) -> Move {
        let (arguments, nothing) = (object(json!({"text": "hello"})), Object::new());
        CustomFunction::new("function-notify-1").advance(&Phase {
            name: "notify",
            identity: "uid/0/notify",
            namespace: "shop",
            arguments: &arguments,
            target: &nothing,
            scope: &Scope::default(),
            secrets: &Secrets::default(),
            checkpoint,
            answers,
            now,
            pods: PodSupport::None,
            pod_override: &nothing,
            pod_labels: &nothing,
            pod_annotations: &nothing,
        })
    }

    fn called(next: Move) -> (Value, FunctionCall) {
        let Move::Perform { checkpoint, mut requests } = next else { panic!("{next:?}") };
        let Some(Request::CallFunction(call)) = requests.pop() else { panic!("no call") };
        (checkpoint, call)
    }

    fn unavailable() -> Answer {
        let reason = Refused::UNAVAILABLE.to_owned();
        Answer::Refused(Refused {
            code: 503,
            reason,
            message: "it is being started".to_owned(),
            cause: Cause::FunctionNotConnectable,
        })
    }

    #[test]
    fn function_is_called_with_the_arguments_and_its_output_is_that_of_the_phase() {
        let (checkpoint, call) = called(advance(&Value::Null, &[], 7));
        assert_eq!((call.revision.as_str(), &call.input["text"]), ("function-notify-1", &json!("hello")));
        assert_eq!(call.context[CONTEXT]["identity"], "uid/0/notify");
        let request = call.request().unwrap();
        assert!(!request.meta.unwrap().tag.is_empty());
        let output = object(json!({"id": "1"}));
        let returned = Answer::Returned(FunctionReturn { output: output.clone(), failure: None });
        assert_eq!(advance(&checkpoint, &[returned], 8), Move::Done { output });
        // After a crash it is called again, with the same request.
        assert_eq!(called(advance(&checkpoint, &[], 9)), (checkpoint, call));
    }

    #[test]
    fn function_that_is_not_there_is_waited_for_and_then_given_up() {
        let (checkpoint, _) = called(advance(&Value::Null, &[], 0));
        let Move::Wait { checkpoint, wake_at, .. } = advance(&checkpoint, &[unavailable()], 10) else {
            panic!("it does not wait")
        };
        assert_eq!(wake_at, Some(10 + PAUSE));
        let (checkpoint, _) = called(advance(&checkpoint, &[], 10 + PAUSE));
        let next = advance(&checkpoint, &[unavailable()], PATIENCE);
        assert!(matches!(next, Move::Fail { cause: Cause::FunctionNotConnectable, .. }), "{next:?}");
    }

    #[test]
    fn what_a_phase_cannot_do_is_an_error() {
        let result =
            v1::Result { severity: Severity::Fatal.into(), message: "no".to_owned(), ..Default::default() };
        let requirements = Requirements {
            resources: [("a".to_owned(), ResourceSelector::default())].into(),
            ..Requirements::default()
        };
        let resources = [("a".to_owned(), v1::Resource::default())].into();
        for (response, expected) in [
            (RunFunctionResponse { results: vec![result], ..Default::default() }, "no"),
            (
                RunFunctionResponse { requirements: Some(requirements), ..Default::default() },
                "it requires resources",
            ),
            (
                RunFunctionResponse { desired: Some(State::new(None, resources)), ..Default::default() },
                "it returned composed resources",
            ),
        ] {
            let failure = FunctionReturn::of(response).failure.unwrap();
            assert!(failure.starts_with(expected), "{failure}");
        }
        assert_eq!(FunctionReturn::of(RunFunctionResponse::default()), FunctionReturn::default());
    }
}
