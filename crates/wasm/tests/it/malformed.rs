//! What is no code that can be called.

use ferroplane_wasm::{Error, Options, Runtime};

use crate::code::{command, echo, echo_component};
use crate::{RUNTIME, block_on, call, options, wat};

fn refused(code: &[u8]) -> Error {
    RUNTIME.compile(code).expect_err("this is no code")
}

#[test]
fn what_is_not_webassembly_is_refused() {
    for code in
        [&b""[..], b"\0", b"\0asm", b"\0asm\x02\0\0\0", b"\x7fELF\x02\x01\x01\0", b"#!/bin/sh\n", b"(module)"]
    {
        assert!(matches!(refused(code), Error::NotWebAssembly), "{code:?}");
    }
}

#[test]
fn native_code_of_the_engine_is_refused() {
    // To accept what somebody compiled would be to run any machine code.
    let engine = wasmtime::Engine::default();
    let compiled = engine.precompile_module(&wat(&echo())).unwrap();

    assert!(matches!(refused(&compiled), Error::NotWebAssembly));
}

#[test]
fn truncated_code_is_refused() {
    for code in [wat(&echo()), wat(&echo_component())] {
        for end in (8..code.len()).step_by(13) {
            match RUNTIME.compile(&code[..end]) {
                // A module that ends after a section is a shorter module, and lacks its entry.
                Err(error) => {
                    assert!(matches!(error, Error::Invalid(_) | Error::NoEntry | Error::Import(_)), "{end}");
                }
                // Only the names of its parts are missing.
                Ok(program) => assert_eq!(block_on(program.call(call(b"request"))).unwrap(), b"request"),
            }
        }
    }
}

#[test]
fn damaged_code_is_refused_or_stopped() {
    for code in [wat(&echo()), wat(&echo_component())] {
        for at in (8..code.len()).step_by(7) {
            let mut damaged = code.clone();
            damaged[at] ^= 0x55;
            if let Ok(program) = RUNTIME.compile(&damaged) {
                // Whatever it does now, it ends.
                let _ = block_on(program.call(call(b"request")));
            }
        }
    }
}

#[test]
fn code_that_is_too_large_is_refused_unread() {
    let runtime = Runtime::new(Options { code: 100, workers: 1, ..options() }).unwrap();

    let error = runtime.compile(&[0; 101]).unwrap_err();

    assert!(matches!(error, Error::TooLarge { size: 101, limit: 100 }), "{error:?}");
}

#[test]
fn code_without_entry_is_refused() {
    for code in [
        r#"(module (func (export "run")))"#,
        r#"(module (memory (export "_start") 1))"#,
        r#"(module (func (export "_start") (param i32)))"#,
        r#"(module (func (export "_start") (result i32) (i32.const 1)))"#,
        "(component)",
        r#"(component (instance $i) (export "ferroplane:function/handler@1.0.0" (instance $i)))"#,
        // The right name with the wrong type.
        r#"(component
            (core module $m (func (export "run") (result i32) (i32.const 1)))
            (core instance $m (instantiate $m))
            (func $run (result u32) (canon lift (core func $m "run")))
            (instance $i (export "run" (func $run)))
            (export "ferroplane:function/handler@1.0.0" (instance $i)))"#,
    ] {
        assert!(matches!(refused(&wat(code)), Error::NoEntry), "{code}");
    }
}

#[test]
fn imports_that_are_not_offered_are_named() {
    for (code, name) in [
        (
            r#"(module (import "env" "system" (func (param i32) (result i32))) (func (export "_start")))"#,
            "env::system",
        ),
        (r#"(module (import "wasi_snapshot_preview1" "fork" (func)) (func (export "_start")))"#, "fork"),
        // Offered, with another type.
        (
            r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func (param i64))) (func (export "_start")))"#,
            "proc_exit",
        ),
        (r#"(module (import "host" "memory" (memory 1)) (func (export "_start")))"#, "host::memory"),
        (
            r#"(component (import "evil:host/shell@1.0.0" (instance (export "run" (func)))))"#,
            "evil:host/shell",
        ),
    ] {
        match refused(&wat(code)) {
            Error::Import(source) => assert!(chain(&*source).contains(name), "{source:?}"),
            other => panic!("{code}: {other:?}"),
        }
    }
}

/// An error and its causes, as the binary prints them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn code_of_many_functions_is_compiled() {
    let functions = "(func (drop (i32.add (i32.const 1) (i32.const 2))))".repeat(5_000);

    let code = wat(&command(&[], &format!(r#"{functions} (func (export "_start"))"#)));

    assert!(RUNTIME.compile(&code).is_ok());
}

#[test]
fn deeply_nested_code_does_not_use_up_our_own_stack() {
    let depth = 20_000;
    let mut body = [0x02, 0x40].repeat(depth);
    body.extend(vec![0x0b; depth]);
    let module = module_of(&[0], &body);

    // Whether it is accepted is the engine's affair.
    if let Ok(program) = RUNTIME.compile(&module) {
        assert_eq!(block_on(program.call(call(b""))).unwrap(), b"");
    }
}

#[test]
fn function_that_is_too_long_for_the_compiler_is_refused() {
    // An instruction without effect, so that the compiler has nothing to do for the one that is accepted.
    let nothing = |count| vec![0x01; count];
    // The number of its variables, and its end.
    let around = 2;
    let limit = 1 << 20;

    let program = RUNTIME.compile(&module_of(&[0], &nothing(limit - around))).unwrap();
    assert_eq!(block_on(program.call(call(b""))).unwrap(), b"");
    let error = refused(&module_of(&[0], &nothing(limit - around + 1)));
    assert!(matches!(error, Error::TooComplex { size, limit: its, .. } if size == its + 1), "{error:?}");
}

/// With a thousand values instead of two, 8 kB of this take all memory of a machine to compile.
#[test]
fn blocks_of_several_values_are_refused() {
    let text = r#"(module (func (export "_start") (i32.const 1) (i32.const 2)
        (loop (param i32 i32) (result i32 i32) (br_if 0 (i32.const 0))) (drop) (drop)))"#;

    let error = refused(&wat(text));

    assert!(matches!(&error, Error::Invalid(_)), "{error:?}");
    assert!(chain(&error).contains("multi-value"), "{}", chain(&error));
}

/// A module whose `_start` has these variables, and does this.
pub(crate) fn module_of(variables: &[u8], body: &[u8]) -> Vec<u8> {
    let function = [variables, body, &[0x0b]].concat();
    let mut module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0".to_vec();
    let section = [vec![1], leb(function.len()), function].concat();
    module.push(0x0a);
    module.extend(leb(section.len()));
    module.extend(section);
    module
}

pub(crate) fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}
