//! Code that does its work.

use ferroplane_wasm::{Call, Contract, Error};

use crate::code::{command, component, component_with, echo, echo_component};
use crate::{RUNTIME, answer, answer_to, block_on, call, logged, wat};

#[test]
fn command_reads_its_request_from_stdin_and_answers_on_stdout() {
    let request = b"a request".repeat(2000);

    assert_eq!(answer(&echo(), &request).unwrap(), request);
    assert_eq!(answer(&echo(), b"").unwrap(), b"");
}

#[test]
fn component_takes_bytes_and_answers_with_bytes() {
    let request = b"a request".repeat(2000);

    assert_eq!(answer(&echo_component(), &request).unwrap(), request);
    assert_eq!(answer(&echo_component(), b"").unwrap(), b"");
}

#[test]
fn contract_is_read_from_the_code() {
    assert_eq!(RUNTIME.compile(&wat(&echo())).unwrap().contract(), Contract::Command);
    assert_eq!(RUNTIME.compile(&wat(&echo_component())).unwrap().contract(), Contract::Component);
}

#[test]
fn code_is_compiled_once_for_each_digest() {
    let first = RUNTIME.compile(&wat(&echo())).unwrap();
    let second = RUNTIME.compile(&wat(&echo())).unwrap();
    let other = RUNTIME.compile(&wat(&echo_component())).unwrap();

    assert!(first.is_same(&second));
    assert!(!first.is_same(&other));
    assert_eq!(first.digest(), second.digest());
}

#[test]
fn stderr_goes_to_the_log() {
    let body = r#"(data (i32.const 100) "first line\nsecond")
        (func (export "_start") (drop (call $say (i32.const 2) (i32.const 100) (i32.const 17))))"#;

    let (result, lines) = logged(&command(&[], body), call(b""));

    assert_eq!(result.unwrap(), b"");
    assert_eq!(lines, ["first line", "second"]);
}

#[test]
fn component_writes_to_the_log() {
    let code = component_with(
        r#"(data (i32.const 100) "a line")"#,
        "(call $log (i32.const 100) (i32.const 6)) (call $answers (local.get $ptr) (local.get $len))",
    );

    let (result, lines) = logged(&code, call(b"x"));

    assert_eq!(result.unwrap(), b"x");
    assert_eq!(lines, ["a line"]);
}

#[test]
fn component_says_why_it_refuses_a_request() {
    let error =
        answer(&component("(call $fails (local.get $ptr) (local.get $len))"), b"no count").unwrap_err();

    assert!(matches!(&error, Error::Refused { message } if message == "no count"), "{error:?}");
}

#[test]
fn exit_code_0_is_an_answer() {
    let body = r#"(func (export "_start") (call $errno (i32.const 42)) (call $proc_exit (i32.const 0)))"#;

    assert_eq!(answer(&command(&["proc_exit"], body), b"").unwrap(), b"42");
}

#[test]
fn other_exit_codes_are_failures_with_their_last_words() {
    let body = r#"(data (i32.const 100) "no such bucket")
        (func (export "_start")
            (drop (call $say (i32.const 2) (i32.const 100) (i32.const 14)))
            (call $proc_exit (i32.const 3)))"#;

    let error = answer(&command(&["proc_exit"], body), b"").unwrap_err();

    assert!(matches!(&error, Error::Exit { code: 3, said } if said == "no such bucket"), "{error:?}");
    assert_eq!(error.to_string(), "the code ended with exit code 3; its last output was: no such bucket");
}

/// Answers with how often it was called.
fn counter() -> String {
    component_with(
        "(global $calls (mut i32) (i32.const 48))",
        "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
         (i32.store8 (i32.const 200) (global.get $calls))
         (call $answers (i32.const 200) (i32.const 1))",
    )
}

#[test]
fn every_call_has_an_instance_of_its_own() {
    for _ in 0..3 {
        assert_eq!(answer(&counter(), b"").unwrap(), b"1");
    }
}

#[test]
fn warm_instance_serves_its_own_key_alone() {
    let program = RUNTIME.compile(&wat(&counter())).unwrap();
    let count = |key| block_on(program.call(Call { warm: Some(key), ..call(b"") })).unwrap();

    let counts = [count(1001), count(1001), count(1002), count(1001), count(1002)];

    assert_eq!(counts.concat(), b"12132");
}

#[test]
fn instance_that_failed_is_not_kept() {
    let code = component_with(
        "(global $calls (mut i32) (i32.const 48))",
        "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
         (if (local.get $len) (then (unreachable)))
         (i32.store8 (i32.const 200) (global.get $calls))
         (call $answers (i32.const 200) (i32.const 1))",
    );
    let ask = |request: &[u8]| answer_to(&code, Call { warm: Some(2001), ..call(request) });

    assert_eq!(ask(b"").unwrap(), b"1");
    assert!(matches!(ask(b"stop").unwrap_err(), Error::Trap { .. }));
    assert_eq!(ask(b"").unwrap(), b"1");
}
