//! Operations, schedules and watches: what both engines make of generated ones.
//!
//! What differs on purpose is made equal first, and is in `docs/differences.md`: codes in conditions, descriptions of fields in
//! schemas, the words of failures, the order in which objects are applied, and that an operation which may not fail any more is given up
//! at once.

mod generate;

use std::collections::BTreeMap;
use std::fmt;

use ferroplane_wire::render::render_request::Input;
use ferroplane_wire::render::render_response::Output;
use ferroplane_wire::render::{Event, OperationOutput, RenderRequest, RenderResponse};
use serde_json::{Value, json};

use crate::compare::{Engines, diff};
use crate::deliberate::give_fields_their_own_description;
use crate::engine::{Engine, EngineAnswer, Verdict};
use crate::function::Function;
use crate::seen::{forget_times, object, sorted};

/// One thing to render, as both engines are told it.
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    /// The operation or what makes it, and what else there is.
    pub(crate) json: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Operation,
    Cron,
    Watch,
}

/// What was compared, and what was not the same.
#[derive(Default)]
pub(crate) struct Summary {
    compared: BTreeMap<(Kind, String), u32>,
    unlike: Vec<String>,
}

impl Summary {
    pub(crate) async fn add(&mut self, case: &Case, engines: &Engines) {
        let mut ours = view(case, &engines.ours).await;
        let mut theirs = view(case, &engines.theirs).await;
        give_fields_their_own_description(&mut theirs.seen);
        forget_pause_between_attempts(&mut ours.seen, &theirs.seen);
        let mut differences = Vec::new();
        diff("", Some(&ours.seen), Some(&theirs.seen), &mut differences);
        *self.compared.entry((case.kind, format!("{:?}", theirs.verdict))).or_default() += 1;
        if !differences.is_empty() {
            let differences: Vec<_> = differences.iter().map(ToString::to_string).collect();
            self.unlike.push(format!(
                "seed {}: {:#}\n{}\nours: {}\ntheirs: {}",
                case.seed,
                case.json,
                differences.join("\n"),
                ours.words,
                theirs.words
            ));
        }
    }

    pub(crate) fn check(&self) {
        let shown: Vec<_> = self.unlike.iter().take(3).map(String::as_str).collect();
        assert!(self.unlike.is_empty(), "{} cases differ:\n{}", self.unlike.len(), shown.join("\n\n"));
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operations, by what they are and how Crossplane ended:")?;
        self.compared
            .iter()
            .try_for_each(|((kind, verdict), count)| writeln!(f, "  {kind:?} {verdict}: {count}"))
    }
}

/// What is seen of a run.
struct View {
    verdict: Verdict,
    seen: Value,
    words: String,
}

async fn view(case: &Case, engine: &Engine) -> View {
    let function = Function::start().await;
    let request = RenderRequest { meta: None, input: Some(case.input(&function.address())) };
    let EngineAnswer { verdict, response, words } = engine.render(&request).await;
    let mut requests = function.requests();
    for request in &mut requests {
        request["meta"]["tag"] = "tag".into();
    }
    let mut seen =
        json!({"verdict": format!("{verdict:?}"), "requests": requests, "output": output(response)});
    forget_times(&mut seen);
    forget_deliberate(&mut seen);
    if case.kind != Kind::Operation {
        forget_kind(&mut seen["output"]["operation"]);
    }
    forget_empty(&mut seen["output"]["operation"]);
    View { verdict, seen, words }
}

fn output(response: RenderResponse) -> Value {
    match response.output {
        Some(Output::Operation(output)) => of_operation(&output),
        Some(Output::CronOperation(output)) => json!({"operation": output.operation.as_ref().map(object)}),
        Some(Output::WatchOperation(output)) => json!({"operation": output.operation.as_ref().map(object)}),
        _ => Value::Null,
    }
}

fn of_operation(output: &OperationOutput) -> Value {
    json!({
        "operation": output.operation.as_ref().map(object),
        // Crossplane goes through a map, which has no order.
        "appliedResources": sorted(&output.applied_resources),
        "events": output.events.iter().map(event).collect::<Vec<_>>(),
        "requiredResources": sorted(&output.required_resources),
        "requiredSchemas": sorted(&output.required_schemas),
    })
}

fn event(event: &Event) -> Value {
    json!({"type": event.r#type, "reason": event.reason, "message": event.message})
}

/// Crossplane leaves out of which kind the operation is that a schedule or a watch makes.
fn forget_kind(operation: &mut Value) {
    for field in ["apiVersion", "kind"] {
        operation.as_object_mut().map(|operation| operation.remove(field));
    }
}

/// Crossplane's operations do not say whether an attempt runs, or has ended and another one follows.
fn forget_pause_between_attempts(ours: &mut Value, theirs: &Value) {
    const CONDITIONS: &str = "/output/operation/status/conditions";
    let conditions = |seen: &Value| seen.pointer(CONDITIONS).and_then(Value::as_array).cloned();
    let running = conditions(theirs).into_iter().flatten().find(|it| it["reason"] == "PipelineRunning");
    let ours = ours.pointer_mut(CONDITIONS).and_then(Value::as_array_mut);
    if let Some(pending) = ours.into_iter().flatten().find(|it| it["reason"] == "PipelinePending")
        && let Some(running) = running
    {
        *pending = running;
    }
}

/// Make equal what is meant to be different.
fn forget_deliberate(seen: &mut Value) {
    let operation = &mut seen["output"]["operation"];
    if let Some(metadata) = operation.get_mut("metadata").and_then(Value::as_object_mut) {
        // Of Crossplane's stand-in for an API server.
        metadata.remove("resourceVersion");
    }
    let conditions = operation.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let Some(condition) = condition.as_object_mut() else { continue };
        for field in ["code", "step", "resource"] {
            condition.remove(field);
        }
        if condition.get("type") == Some(&json!("Synced")) && condition.get("status") == Some(&json!("False"))
        {
            condition.insert("message".to_owned(), "words".into());
        }
    }
    if let Some(conditions) = operation.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_cached_key(|condition| condition["type"].to_string());
    }
    let events = seen.pointer_mut("/output/events").and_then(Value::as_array_mut);
    if let Some(events) = events {
        // Crossplane has the reason, and never an event with it.
        events.retain(|event| event["reason"] != "MaxFailures");
        for event in events.iter_mut().filter(|event| event["reason"] == "FunctionInvocation") {
            event["message"] = "words".into();
        }
    }
}

/// What is empty in Go is written, or not, as its types have it.
fn forget_empty(value: &mut Value) {
    match value {
        Value::Object(object) => {
            // What users and functions write is kept as it is.
            let typed = object.iter_mut().filter(|(key, _)| !["input", "output"].contains(&key.as_str()));
            typed.for_each(|(_, value)| forget_empty(value));
            object.retain(|_, value| !value.is_null() && *value != json!({}) && *value != json!([]));
        }
        Value::Array(items) => items.iter_mut().for_each(forget_empty),
        _ => {}
    }
}

impl Case {
    pub(crate) fn generate(seed: u64) -> Self {
        generate::case(seed)
    }

    fn input(&self, address: &str) -> Input {
        generate::input(self.kind, &self.json, address)
    }
}
