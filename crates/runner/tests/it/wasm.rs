//! Functions as WebAssembly, called like any other.

use ferroplane_runner::{CallError, Directory, Runner, WasmFunction};
use ferroplane_wasm::{Grants, Limits, Options, Runtime};
use ferroplane_wire::from_json;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use serde_json::json;

/// A command that ignores its request and prints this.
fn printing(answer: &str) -> Vec<u8> {
    let (data, len) = (answer.replace('\\', r"\\").replace('"', "\\\""), answer.len());
    let text = format!(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 100) "{data}")
            (func (export "_start")
                (i32.store (i32.const 0) (i32.const 100))
                (i32.store (i32.const 4) (i32.const {len}))
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    );
    wat::parse_str(text).unwrap()
}

/// A component that answers with the bytes that it was sent. Both messages have a `meta` with a `tag` as their first fields.
fn echoing() -> Vec<u8> {
    let text = r#"(component
        (core module $m
            (memory (export "memory") 2)
            (global $next (mut i32) (i32.const 1024))
            (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32) (local $at i32)
                (local.set $at (global.get $next))
                (global.set $next (i32.add (global.get $next) (local.get $size)))
                (local.get $at))
            (func (export "run") (param $ptr i32) (param $len i32) (result i32)
                (i32.store (i32.const 20) (local.get $ptr))
                (i32.store (i32.const 24) (local.get $len))
                (i32.const 16)))
        (core instance $m (instantiate $m))
        (func $run (param "request" (list u8)) (result (result (list u8) (error string)))
            (canon lift (core func $m "run") (memory (core memory $m "memory")) (realloc (core func $m "realloc"))))
        (instance $handler (export "run" (func $run)))
        (export "ferroplane:function/handler@1.0.0" (instance $handler)))"#;
    wat::parse_str(text).unwrap()
}

async fn call(code: &[u8]) -> Result<RunFunctionResponse, CallError> {
    let runtime = Runtime::new(Options { workers: 1, ..Options::default() }).unwrap();
    let function = WasmFunction::new(&runtime, "test", code, Grants::default(), Limits::default()).unwrap();
    let mut directory = Directory::default();
    directory.insert("test".to_owned(), Runner::Wasm(function));
    let request: RunFunctionRequest = from_json(&json!({"meta": {"tag": "t"}})).unwrap();
    directory.call("test", &request).await
}

#[tokio::test]
async fn command_answers_with_json() {
    let answer =
        json!({"meta": {"tag": "t"}, "results": [{"severity": "SEVERITY_NORMAL", "message": "hello"}]});

    let response = call(&printing(&answer.to_string())).await.unwrap();

    assert_eq!(response.results[0].message, "hello");
}

#[tokio::test]
async fn component_takes_and_gives_protobuf() {
    let response = call(&echoing()).await.unwrap();

    assert_eq!(response.meta.unwrap().tag, "t");
}

#[tokio::test]
async fn answer_that_is_no_response_is_refused() {
    for answer in ["", "{", "[]", r#"{"desire": {}}"#] {
        let error = call(&printing(answer)).await.unwrap_err();
        assert!(matches!(error, CallError::Garbage { .. }), "{answer}: {error:?}");
    }
}

#[tokio::test]
async fn code_that_is_stopped_names_the_reason() {
    let code = wat::parse_str(r#"(module (func (export "_start") (unreachable)))"#).unwrap();

    let error = call(&code).await.unwrap_err();

    assert_eq!(
        error.to_string(),
        "the function's program ended (the code was stopped: wasm trap: wasm `unreachable` instruction executed)"
    );
}
