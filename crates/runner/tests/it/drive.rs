//! Runs whole pipelines.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_engine::{Answer, CompositeSubject, Inputs, Layout, Outcome, Pipeline, Subject, Want, chain};
use ferroplane_functions::{Library, builtin};
use ferroplane_runner::grpc::{Client, Options};
use ferroplane_runner::{
    AsyncFunction, Directory, External, ImageCall, ImageOutput, ImageRunner, Resources, ResponseCache,
    Runner, drive,
};
use ferroplane_testkit::FunctionServer;
use ferroplane_wire::v1::{Resource, RunFunctionRequest, RunFunctionResponse};
use ferroplane_wire::{State, Struct, from_json};
use serde_json::{Value, json};

fn object(value: Value) -> Struct {
    serde_json::from_value::<serde_json::Map<_, _>>(value).unwrap().try_into().unwrap()
}

/// An API server with one object.
struct OneConfigMap;

impl Resources for OneConfigMap {
    async fn fetch(&self, want: &Want) -> Answer {
        match want {
            Want::Resources(_) | Want::ClusterResources(_) => {
                let found = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"is": "here"}});
                Answer::Resources(vec![object(found)])
            }
            Want::Schema(_) => Answer::Schema(None),
            Want::Secret { .. } => Answer::Secret(None),
            Want::Scope { .. } => Answer::Scope { is_namespaced: true },
        }
    }
}

/// Run a step of `function-dummy`, which wants a resource named `builtin`, then one of the function that is
/// served.
async fn run(server: &FunctionServer, options: Options) -> Outcome {
    let client = Client::new(server.address().parse().unwrap(), options).unwrap();
    let functions = Directory::from_iter([
        ("dummy".to_owned(), Runner::Builtin(builtin("function-dummy", None).unwrap())),
        ("served".to_owned(), Runner::Grpc(client)),
    ]);
    let steps = json!([
        {"step": "first", "functionRef": {"name": "dummy"}, "input": {
            "apiVersion": "dummy.fn.crossplane.io/v1beta1", "kind": "Response",
            "response": {"desired": {"resources": {
                "builtin": {"resource": {"apiVersion": "v1", "kind": "ConfigMap"}}
            }}}
        }},
        {"step": "second", "functionRef": {"name": "served"}}
    ]);
    drive(composing(steps), &functions, &OneConfigMap).await
}

/// A composite resource with these steps.
fn composing(steps: Value) -> Inputs {
    let steps: Vec<ferroplane_api::Step> = serde_json::from_value(steps).unwrap();
    Inputs {
        subject: CompositeSubject::new(
            object(json!({
                "apiVersion": "example.org/v1", "kind": "XR",
                "metadata": {
                    "name": "xr", "namespace": "team", "uid": "u", "labels": {"crossplane.io/composite": "xr"}
                }
            })),
            Layout::Modern,
        )
        .into(),
        pipeline: Arc::new(Pipeline::new(&steps).unwrap()),
        remembered: Vec::new(),
        context: None,
        grants: std::sync::Arc::default(),
    }
}

/// The time and the randomness of code that operations with these UIDs run, one after the other. It lets its answers be kept.
async fn stillness_of_operations(uids: &[&str]) -> Vec<(Duration, u64)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let images = ImageRunner::new(move |call: ImageCall| {
        noted.lock().unwrap().push(call.stillness);
        let standard_output = br#"{"meta": {"ttl": "60s"}}"#.to_vec();
        async move { Ok(ImageOutput { standard_output, ..ImageOutput::default() }) }
    });
    let mut functions = Directory::built_in(&Library::built_in().unwrap());
    functions.enable_external(&External::new(images));
    functions.keep_answers(Arc::new(ResponseCache::in_memory()));
    for uid in uids {
        drive(operation(uid), &functions, &OneConfigMap).await.result.unwrap();
    }
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// An operation with a step that runs code.
fn operation(uid: &str) -> Inputs {
    let input =
        json!({"apiVersion": "container.fn.ferroplane.io/v1alpha1", "kind": "Container", "image": "a"});
    let step = json!({"step": "run", "functionRef": {"name": "function-container-v0.1.0"}, "input": input});
    let steps: Vec<ferroplane_api::Step> = serde_json::from_value(json!([step])).unwrap();
    let metadata = json!({"name": "o", "uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z"});
    let operation =
        json!({"apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": metadata});
    Inputs {
        subject: Subject::Operation { object: object(operation) },
        pipeline: Arc::new(Pipeline::new(&steps).unwrap()),
        remembered: Vec::new(),
        context: None,
        grants: Arc::default(),
    }
}

/// What the steps before wanted, and one more.
fn with(request: RunFunctionRequest, name: &str, resource: Struct) -> RunFunctionResponse {
    let (composite, mut resources) = request.desired.unwrap_or_default().into_parts();
    resources.insert(name.to_owned(), Resource { resource: Some(resource), ..Resource::default() });
    RunFunctionResponse { desired: Some(State::new(composite, resources)), ..RunFunctionResponse::default() }
}

/// Why the pipeline failed, wherever the function was.
fn failure(outcome: Outcome, server: &FunctionServer) -> String {
    let failure = outcome.result.unwrap_err();
    assert_eq!(failure.step(), Some("second"));
    chain(&failure).replace(&server.address(), "ADDRESS")
}

#[tokio::test]
async fn code_of_each_operation_sees_its_own_time_and_randomness() {
    let seen = stillness_of_operations(&["a", "a", "b"]).await;
    assert_eq!(seen.len(), 3, "the answer for one was taken for another");
    assert_eq!(seen[0].0, Duration::from_secs(1_767_323_045));
    assert_eq!(seen[1], seen[0], "another attempt");
    assert_ne!(seen[2].1, seen[0].1);
}

#[tokio::test]
async fn answer_of_a_first_step_is_not_that_of_a_later_one() {
    // As a package that wants all that exists.
    let package = AsyncFunction::in_context(|request, context| async move {
        let kept: RunFunctionResponse = from_json(&json!({"meta": {"ttl": "60s"}})).unwrap();
        let desired = context.is_first_step.then(|| {
            let existing = object(json!({"apiVersion": "v1", "kind": "ConfigMap"}));
            with(request.clone(), "existing", existing).desired
        });
        Ok(RunFunctionResponse { desired: desired.flatten(), context: request.context, ..kept })
    });
    let dropping = AsyncFunction::new(|request| async move {
        let desired = Some(State::default());
        Ok(RunFunctionResponse { desired, context: request.context, ..RunFunctionResponse::default() })
    });
    let mut functions = Directory::from_iter([
        ("package".to_owned(), Runner::AsyncFunction(package)),
        ("dropping".to_owned(), Runner::AsyncFunction(dropping)),
    ]);
    functions.keep_answers(Arc::new(ResponseCache::in_memory()));
    let package = json!({"step": "package", "functionRef": {"name": "package"}});
    let dropping = json!({"step": "dropping", "functionRef": {"name": "dropping"}});
    for (steps, wanted) in [(json!([package]), vec!["existing"]), (json!([dropping, package]), vec![])] {
        let plan = drive(composing(steps), &functions, &OneConfigMap).await.result.unwrap();
        let applied: Vec<_> = plan.apply.iter().map(|wanted| wanted.resource.as_str()).collect();
        assert_eq!(applied, wanted);
    }
}

#[tokio::test]
async fn functions_of_all_kinds_build_on_one_another() {
    let server = FunctionServer::start(|request| {
        let config_map = object(json!({"apiVersion": "v1", "kind": "ConfigMap"}));
        Ok(with(request, "served", config_map))
    })
    .await;
    let plan = run(&server, Options::default()).await.result.unwrap();
    let wanted: Vec<_> = plan.apply.iter().map(|wanted| wanted.resource.as_str()).collect();
    assert_eq!(wanted, ["builtin", "served"]);
}

#[tokio::test]
async fn function_gets_what_it_requires() {
    let server = FunctionServer::start(|request| {
        let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "matchName": "found"});
        let asks: RunFunctionResponse =
            from_json(&json!({"requirements": {"resources": {"it": selector}}})).unwrap();
        let Some(it) = request.required_resources.get("it") else { return Ok(asks) };
        let found = it.items[0].resource.clone().unwrap();
        Ok(RunFunctionResponse { requirements: asks.requirements, ..with(request, "copy", found) })
    })
    .await;
    let plan = run(&server, Options::default()).await.result.unwrap();
    let copy = plan.apply.iter().find(|wanted| wanted.resource == "copy").unwrap();
    assert_eq!(copy.object["data"]["is"], "here");
}

#[tokio::test]
async fn answer_with_a_resource_that_is_no_object_fails_the_step() {
    for garbage in [b"\x0a\x03abc".as_slice(), b"\x0a\x05\x0a\x01\xff\x12\x00"] {
        let server = FunctionServer::start(move |request| {
            Ok(with(request, "garbage", Struct::from(Bytes::from_static(garbage))))
        })
        .await;
        let text = failure(run(&server, Options::default()).await, &server);
        assert!(text.starts_with("cannot use the answer of pipeline step `second`: "), "{text}");
    }
}

#[tokio::test]
async fn answer_that_is_nested_too_deeply_fails_the_step() {
    let server = FunctionServer::start(|request| Ok(with(request, "deep", nested(10_000)))).await;
    let text = failure(run(&server, Options::default()).await, &server);
    assert!(text.contains("nested more than"), "{text}");
}

/// An object in an object, and so on. Nothing but bytes could be nested so deeply.
fn nested(depth: usize) -> Struct {
    let mut bytes = Vec::new();
    for _ in 0..depth {
        let value = value_of(&bytes);
        let entry = [b"\x0a\x01a\x12".as_slice(), &length(&value), &value].concat();
        bytes = [b"\x0a".as_slice(), &length(&entry), &entry].concat();
    }
    Struct::from(Bytes::from(bytes))
}

/// A `google.protobuf.Value` that is this object.
fn value_of(object: &[u8]) -> Vec<u8> {
    [b"\x2a".as_slice(), &length(object), object].concat()
}

fn length(bytes: &[u8]) -> Vec<u8> {
    let mut length = Vec::new();
    prost::encoding::encode_varint(bytes.len() as u64, &mut length);
    length
}

#[tokio::test]
async fn function_that_hangs_fails_its_step() {
    let server = FunctionServer::start_async(|_| pending()).await;
    let options = Options { timeout: Duration::from_millis(500), ..Options::default() };
    assert_eq!(
        failure(run(&server, options).await, &server),
        "cannot run pipeline step `second`: the function at ADDRESS did not answer within 0.5s"
    );
}

#[tokio::test]
async fn function_that_nobody_knows_fails_its_step() {
    let error = Directory::default().call("missing", &RunFunctionRequest::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no function `missing`");
}
