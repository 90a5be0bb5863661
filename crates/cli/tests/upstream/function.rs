//! A function that does what the input of its step says. It remembers nothing, so both engines get the same.
//!
//! | Field of the input | What it makes the function do |
//! |---|---|
//! | `response` | merge this over what the request desires already, as function-dummy does |
//! | `without` | leave these fields out of the answer: `desired`, `context`, `meta` |
//! | `drop` | no longer desire these resources |
//! | `asks` | require these: a list of `{field, name, selector}` |
//! | `manner` | how to ask: `atOnce`, `oneByOne`, `onlyMissing`, `restless` |
//! | `echo` | put what it was given into the status: `spec`, `observed`, `required`, `context`, … |
//! | `readyIfObserved` | call every desired resource ready that is observed |
//! | `garbled` | put something into the answer that is not JSON: `{place, with}` |
//! | `error` | fail with this gRPC code, without an answer |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ferroplane_functions::builtin;
use ferroplane_testkit::FunctionServer;
use ferroplane_wire::v1::{Ready, Requirements, RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{State, Struct, from_json, to_json};
use serde_json::{Map, Value, json};
use tonic::{Code, Status};

use crate::case::list;

/// A running function, and everything it was asked.
#[derive(Debug)]
pub(crate) struct Function {
    server: FunctionServer,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Function {
    pub(crate) async fn start() -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heard = requests.clone();
        let server = FunctionServer::start(move |request| {
            let json = to_json(&request).map_err(|error| Status::invalid_argument(error.to_string()))?;
            heard.lock().expect("no one panics with it").push(json.clone());
            answer(&request, &json)
        })
        .await;
        Self { server, requests }
    }

    pub(crate) fn address(&self) -> String {
        self.server.address()
    }

    /// Everything it was asked, in order.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().expect("no one panics with it").clone()
    }
}

/// What the input of the request makes the function say.
pub(crate) fn answer(request: &RunFunctionRequest, json: &Value) -> Result<RunFunctionResponse, Status> {
    let input = &json["input"];
    if let Some(code) = input["error"].as_i64() {
        let code = i32::try_from(code).map_or(Code::Unknown, Code::from_i32);
        return Err(Status::new(code, "the function was told to fail"));
    }
    let dummy = builtin("function-dummy", None).expect("it is built in");
    let mut response = dummy.run(request);
    let (mut composite, mut resources) = response.desired.take().unwrap_or_default().into_parts();
    for name in texts(&input["drop"]) {
        resources.remove(name);
    }
    if input["readyIfObserved"] == true {
        for (name, resource) in &mut resources {
            let is_observed =
                request.observed.as_ref().is_some_and(|observed| observed.resources().contains_key(name));
            resource.ready = if is_observed { Ready::True.into() } else { resource.ready };
        }
    }
    if let Some(echo) = echo(json) {
        let composite = composite.get_or_insert_default();
        composite.resource = Some(with_status(composite.resource.take(), echo));
    }
    response.desired = Some(State::new(composite, resources));
    response.requirements = ask(json, response.requirements.take());
    for field in texts(&input["without"]) {
        match field {
            "desired" => response.desired = None,
            "context" => response.context = None,
            "meta" => response.meta = None,
            _ => {}
        }
    }
    garble(&mut response, &input["garbled"]);
    Ok(response)
}

/// Put something into the answer that is not JSON.
fn garble(response: &mut RunFunctionResponse, garbled: &Value) {
    let value: &[u8] = match garbled["with"].as_str() {
        Some("not a number") => &[0x11, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f],
        Some("infinity") => &[0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f],
        Some("not text") => &[0x1a, 1, 0xff],
        Some("no kind") => &[],
        _ => return,
    };
    let length = u8::try_from(value.len()).expect("it is short");
    let entry = [&[0x0a, 1, b'x', 0x12, length], value].concat();
    let wire = [&[0x0a, length + 5], entry.as_slice()].concat();
    let bad = Some(Struct::from(Bytes::from(wire)));
    let (mut composite, mut resources) = response.desired.take().unwrap_or_default().into_parts();
    match garbled["place"].as_str() {
        Some("context") => response.context = bad,
        Some("output") => response.output = bad,
        Some("composite") => composite.get_or_insert_default().resource = bad,
        _ => resources.entry("garbled".to_owned()).or_default().resource = bad,
    }
    response.desired = Some(State::new(composite, resources));
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    list(value).iter().filter_map(Value::as_str)
}

/// What it was given, as far as the input says to repeat it. Not the whole composite resource: engines
/// differ, on purpose, in what they write there before anything is applied.
fn echo(request: &Value) -> Option<Value> {
    let mut echo = Map::new();
    for what in texts(&request["input"]["echo"]) {
        let said = match what {
            "spec" => &request["observed"]["composite"]["resource"]["spec"],
            "observed" => &request["observed"]["resources"],
            "required" => &request["requiredResources"],
            "extra" => &request["extraResources"],
            "schemas" => &request["requiredSchemas"],
            "context" => &request["context"],
            "credentials" => &request["credentials"],
            _ => &Value::Null,
        };
        let mut said = said.clone();
        if ["required", "extra"].contains(&what) {
            leave_out_composites(&mut said, &request["observed"]["composite"]["resource"]["kind"]);
        }
        echo.insert(what.to_owned(), said);
    }
    (!echo.is_empty()).then_some(Value::Object(echo))
}

fn leave_out_composites(required: &mut Value, kind: &Value) {
    for (_, required) in required.as_object_mut().into_iter().flatten() {
        if let Some(items) = required.get_mut("items").and_then(Value::as_array_mut) {
            items.retain(|item| item["resource"]["kind"] != *kind);
        }
    }
}

fn with_status(composite: Option<Struct>, echo: Value) -> Struct {
    let mut object = composite.and_then(|composite| composite.into_json().ok()).unwrap_or_default();
    let status = object.entry("status").or_insert_with(|| json!({}));
    if let Some(status) = status.as_object_mut() {
        status.insert("echo".to_owned(), echo);
    }
    Struct::try_from(object).unwrap_or_default()
}

/// What the function requires in this call, given what it was given.
fn ask(request: &Value, scripted: Option<Requirements>) -> Option<Requirements> {
    let input = &request["input"];
    let asks = list(&input["asks"]);
    let is_given = |ask: &&Value| {
        let (field, name) =
            (ask["field"].as_str().unwrap_or_default(), ask["name"].as_str().unwrap_or_default());
        let given = match field {
            "extraResources" => &request["extraResources"],
            "schemas" => &request["requiredSchemas"],
            _ => &request["requiredResources"],
        };
        given.get(name).is_some()
    };
    let (given, missing): (Vec<_>, Vec<_>) = asks.iter().partition(is_given);
    let asked: Vec<_> = match input["manner"].as_str() {
        Some("oneByOne") => given.into_iter().chain(missing.into_iter().take(1)).collect(),
        Some("onlyMissing") => missing,
        Some("restless") => return Some(restless(request)),
        _ => asks.iter().collect(),
    };
    if asked.is_empty() {
        return scripted;
    }
    let mut fields: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for ask in asked {
        let field = fields.entry(ask["field"].as_str().unwrap_or("resources")).or_default();
        field.insert(ask["name"].as_str().unwrap_or_default().to_owned(), ask["selector"].clone());
    }
    from_json::<RunFunctionResponse>(&json!({ "requirements": fields })).ok()?.requirements
}

/// Something else in every call.
fn restless(request: &Value) -> Requirements {
    let last = request["requiredResources"].as_object().and_then(|given| {
        given.keys().filter_map(|name| name.strip_prefix("restless-")?.parse::<u32>().ok()).max()
    });
    let name = format!("restless-{}", last.unwrap_or_default() + 1);
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "matchName": name, "namespace": "team"});
    let response =
        from_json::<RunFunctionResponse>(&json!({"requirements": {"resources": {name: selector}}}));
    response.ok().and_then(|response| response.requirements).unwrap_or_default()
}
