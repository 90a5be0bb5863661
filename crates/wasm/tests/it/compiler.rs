//! Foreign code is compiled by a process of its own, within limits.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ferroplane_wasm::{
    Cancellation, Compilation, Compiler, CompilerLimit, CompilerLimits, Error, Options, Program, Runtime,
};

use crate::code::{echo, echo_component};
use crate::malformed::{chain, leb, module_of};
use crate::{RUNTIME, block_on, call, options, wat};

/// A runtime whose code this command compiles.
fn compiled_by(command: &[&str], cache: Option<&Path>) -> Runtime {
    let compiler = Compiler::Helper(command.iter().map(OsString::from).collect());
    Runtime::new(Options { workers: 1, compiler, cache: cache.map(Path::to_owned), ..options() }).unwrap()
}

fn helped(cache: Option<&Path>) -> Runtime {
    compiled_by(&[env!("CARGO_BIN_EXE_ferroplane-wasm-compiler")], cache)
}

fn within(limits: CompilerLimits) -> Compilation {
    Compilation { limits, ..Compilation::default() }
}

fn compile(code: &[u8], limits: CompilerLimits) -> Result<Program, Error> {
    helped(None).compile_with(code, &within(limits))
}

/// A function of 150 kB that takes a compiler several seconds and hundreds of megabytes: in each of its loops, all of its variables live.
fn costly() -> Vec<u8> {
    const VARIABLES: usize = 200;
    let variable = |number: usize| leb(number % VARIABLES);
    let mut body = Vec::new();
    for number in 0..10_000 {
        body.extend([0x03, 0x40, 0x20]);
        body.extend(variable(number * 7));
        body.push(0x20);
        body.extend(variable(number * 13));
        body.extend([0x6a, 0x21]);
        body.extend(variable(number));
        body.push(0x20);
        body.extend(variable(number * 3));
        body.extend([0x0d, 0x00, 0x0b]);
    }
    let variables = [&[1][..], &leb(VARIABLES)[..], &[0x7f]].concat();
    module_of(&variables, &body)
}

#[test]
fn code_that_a_helper_compiled_runs() {
    let runtime = helped(None);
    for code in [echo(), echo_component()] {
        let program = runtime.compile(&wat(&code)).unwrap();
        assert_eq!(block_on(program.call(call(b"hello"))).unwrap(), b"hello");
    }
}

#[test]
fn code_with_fuel_is_compiled_for_fuel() {
    let compiler = Compiler::Helper(vec![env!("CARGO_BIN_EXE_ferroplane-wasm-compiler").into()]);
    let runtime = Runtime::new(Options { meter_fuel: true, workers: 1, compiler, ..options() }).unwrap();

    assert!(runtime.compile(&wat(&echo())).is_ok());
}

#[test]
fn what_a_helper_compiled_is_kept_for_the_next_process() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    helped(Some(&cache)).compile(&wat(&echo())).unwrap();

    // Compiles nothing itself.
    let program = compiled_by(&["/bin/false"], Some(&cache)).compile(&wat(&echo())).unwrap();

    assert_eq!(block_on(program.call(call(b"hello"))).unwrap(), b"hello");
}

#[test]
fn what_is_wrong_with_code_is_said_as_without_a_helper() {
    let multi_value = r#"(module (func (export "_start") (i32.const 1) (i32.const 2)
        (loop (param i32 i32) (result i32 i32) (br_if 0 (i32.const 0))) (drop) (drop)))"#;
    let code = wat(multi_value);

    let error = helped(None).compile(&code).unwrap_err();

    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert_eq!(chain(&error), chain(&RUNTIME.compile(&code).unwrap_err()));
}

#[test]
fn code_for_which_there_is_no_room_is_refused_and_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let code = wat(r#"(module (memory 20000) (func (export "_start")))"#);

    let error = helped(Some(&cache)).compile(&code).unwrap_err();

    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert!(chain(&error).contains("memory"), "{}", chain(&error));
    assert_eq!(kept(&cache), 0);
}

#[test]
fn code_that_takes_too_long_to_compile_is_stopped() {
    let limits = CompilerLimits { processor_time: Duration::from_secs(1), ..CompilerLimits::default() };

    let error = compile(&costly(), limits).unwrap_err();

    assert_eq!(
        error.to_string(),
        "cannot compile the code: the compiler met its limit of 1s of processor time; split its longest functions, and leave out code that \
         is not used, as `wasm-opt -O` does"
    );
}

#[test]
fn code_that_takes_too_much_memory_to_compile_is_stopped() {
    let limits = CompilerLimits { memory: 64 << 20, ..CompilerLimits::default() };

    let error = compile(&costly(), limits).unwrap_err();

    let limit = CompilerLimit::Memory(64 << 20);
    assert!(matches!(error, Error::TooCostly { limit: its } if its == limit), "{error:?}");
    assert_eq!(error.reason(), "InvalidCode");
    assert!(compile(&wat(&echo()), limits).is_ok(), "other code fits");
}

#[test]
fn native_code_that_is_too_long_is_not_read() {
    let limits = CompilerLimits { output: 100, ..CompilerLimits::default() };

    let error = compile(&wat(&echo()), limits).unwrap_err();

    assert!(matches!(error, Error::TooCostly { limit: CompilerLimit::Output(100) }), "{error:?}");
}

#[test]
fn helper_that_does_not_end_is_ended_at_its_deadline() {
    let runtime = compiled_by(&["/bin/sh", "-c", "exec sleep 1000"], None);
    let limits = CompilerLimits { time: Duration::from_millis(10), ..CompilerLimits::default() };

    let error = runtime.compile_with(&wat(&echo()), &within(limits)).unwrap_err();

    assert!(matches!(error, Error::TooCostly { limit: CompilerLimit::Time(_) }), "{error:?}");
}

#[test]
fn helper_ends_when_its_caller_gives_up() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!("echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 1000", file.display());
    let runtime = compiled_by(&["/bin/sh", "-c", &script], None);
    let compilation = Compilation::default();
    let cancel = compilation.cancellation.cancel_on_drop();

    let error = std::thread::scope(|scope| {
        let compiling = scope.spawn(|| runtime.compile_with(&wat(&echo()), &compilation).unwrap_err());
        while !file.exists() && !compiling.is_finished() {
            std::thread::yield_now();
        }
        drop(cancel);
        compiling.join().unwrap()
    });

    assert!(matches!(error, Error::Cancelled), "{error:?}");
    let pid = fs::read_to_string(&file).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "it has ended, and was waited for");
}

#[test]
fn no_helper_starts_for_a_caller_that_has_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("started");
    let runtime = compiled_by(&["/bin/sh", "-c", &format!("echo > '{}'", file.display())], None);
    let cancellation = Cancellation::default();
    cancellation.cancel();

    let compilation = Compilation { cancellation, ..Compilation::default() };
    let error = runtime.compile_with(&wat(&echo()), &compilation).unwrap_err();

    assert!(matches!(error, Error::Cancelled), "{error:?}");
    assert!(!file.exists());
}

#[test]
fn helper_that_fails_or_writes_something_else_is_reported_and_nothing_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    for command in [&["/bin/false"][..], &["/none"], &[], &["/bin/echo", "native code"]] {
        let error = compiled_by(command, Some(&cache)).compile(&wat(&echo())).unwrap_err();

        assert!(matches!(error, Error::Compiler(_) | Error::Invalid(_)), "{command:?}: {error:?}");
        assert_eq!(kept(&cache), 0, "{command:?}");
    }
}

/// How many files of code a cache has.
fn kept(cache: &Path) -> usize {
    fs::read_dir(cache).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != "key").count()
}
