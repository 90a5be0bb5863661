//! Measures what a call costs: `cargo bench -p ferroplane-wasm`. Asserts nothing.
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on has failed")]

#[path = "../tests/it/code.rs"]
mod code;

use std::time::{Duration, Instant};

use ferroplane_wasm::{Call, Error, Limits, Options, Program, Runtime};

/// The size of a request that has 20 composed resources.
const REQUEST: usize = 17_000;

fn main() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtime = Runtime::new(Options::default()).unwrap();
    let compile = |text: &str| runtime.compile(&wat::parse_str(text).unwrap()).unwrap();
    let (component, command) = (compile(&code::echo_component()), compile(&code::echo()));
    println!("| what | best | p50 | p99 |\n|---|---|---|---|");
    tokio.block_on(async {
        measure("hand a call to a worker and back", &component, Some(1), 0).await;
        measure("component, warm instance, 17 kB", &component, Some(2), REQUEST).await;
        measure("component, fresh instance, 17 kB", &component, None, REQUEST).await;
        measure("command, fresh instance, 17 kB", &command, None, REQUEST).await;
        stop(&runtime).await;
        starlark(&runtime).await;
    });
    load();
}

async fn measure(what: &str, program: &Program, warm: Option<u64>, size: usize) {
    let request = bytes::Bytes::from(vec![b'x'; size]);
    let mut times = Vec::new();
    for _ in 0..5_000 {
        let call = Call { warm, ..Call::new(request.clone()) };
        let began_at = Instant::now();
        let answer = program.call(call).await.unwrap();
        times.push(began_at.elapsed());
        assert_eq!(answer.len(), size);
    }
    print(what, times.split_off(500));
}

/// The interpreter of Starlark, if its component is named: `WASM=target/guests/starlark.wasm`.
async fn starlark(runtime: &Runtime) {
    let Some(path) = std::env::var_os("WASM") else { return };
    let program = runtime.compile(&std::fs::read(path).unwrap()).unwrap();
    let script = r#"Resource("bucket", {"apiVersion": "example.org/v1", "kind": "Bucket", "spec": {"region": get(oxr, "spec.region")}})"#;
    let request = format!(
        r#"{{"run": {{"meta": {{"tag": "t"}}, "observed": {{"composite": {{"resource": {{"metadata": {{"name": "x"}}, "spec": {{"region": "eu"}}}}}}}},
            "input": {{"spec": {{"source": {script:?}}}}}}}}}"#
    );
    for (what, warm, count) in
        [("Starlark, fresh instance", None, 50), ("Starlark, warm instance", Some(3), 2_000)]
    {
        let mut times = Vec::new();
        for _ in 0..count {
            let call = Call { warm, ..Call::new(request.clone()) };
            let began_at = Instant::now();
            let answer = program.call(call).await.unwrap();
            times.push(began_at.elapsed());
            assert!(
                String::from_utf8_lossy(&answer).contains(r#""region":"eu""#),
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
        print(what, times.split_off(count / 10));
    }
}

/// By how much code exceeds its time before it is stopped, and how soon it is stopped that exceeds another limit.
async fn stop(runtime: &Runtime) {
    let looping = code::command(&[], r#"(func (export "_start") (loop $again (br $again)))"#);
    // A subscription: user data, the tag of a clock, which clock, for how long, precision, flags.
    let sleeping = code::command(
        &["poll_oneoff"],
        r#"(func (export "_start")
            (i32.store8 (i32.const 208) (i32.const 0))
            (i32.store (i32.const 216) (i32.const 1))
            (i64.store (i32.const 224) (i64.const 0x7fffffffffffffff))
            (drop (call $poll_oneoff (i32.const 200) (i32.const 400) (i32.const 1) (i32.const 600))))"#,
    );
    let hoarding = code::command(
        &[],
        r#"(func (export "_start") (loop $again
            (br_if $again (i32.ne (i32.const -1) (memory.grow (i32.const 16)))) (unreachable)))"#,
    );
    let recursing = code::command(
        &[],
        r#"(func $deeper (param i32) (call $deeper (i32.add (local.get 0) (i32.const 1))))
            (func (export "_start") (call $deeper (i32.const 0)))"#,
    );
    let limits = Limits { time: Duration::from_millis(100), ..Limits::default() };
    let time = limits.time;
    for (what, text, budget) in [
        ("endless loop, time beyond its 100 ms", looping, time),
        ("endless sleep, time beyond its 100 ms", sleeping, time),
        ("more memory than its limit, whole call", hoarding, Duration::ZERO),
        ("endless recursion, whole call", recursing, Duration::ZERO),
    ] {
        let program = runtime.compile(&wat::parse_str(text).unwrap()).unwrap();
        let mut times = Vec::new();
        for _ in 0..100 {
            let began_at = Instant::now();
            let error = program.call(Call { limits: limits.clone(), ..Call::new("") }).await.unwrap_err();
            times.push(began_at.elapsed().saturating_sub(budget));
            let is_limit = matches!(error, Error::Time { .. } | Error::Memory { .. } | Error::Stack);
            assert!(is_limit, "{what}: {error:?}");
        }
        print(what, times);
    }
}

/// What it takes to compile code, and to read it back.
fn load() {
    let directory = tempfile::tempdir().unwrap();
    let code = std::env::var_os("WASM").map(|path| std::fs::read(path).unwrap());
    let code = code.unwrap_or_else(|| wat::parse_str(code::echo_component()).unwrap());
    let times = |options: Options| {
        let runtime = Runtime::new(options).unwrap();
        let began_at = Instant::now();
        runtime.compile(&code).unwrap();
        began_at.elapsed()
    };
    let options = || Options { cache: Some(directory.path().join("cache")), ..Options::default() };
    print(&format!("compile {} kB", code.len() / 1000), vec![times(options())]);
    print("read the same from the cache", (0..20).map(|_| times(options())).collect());
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e6;
    println!("| {what} | {:.1} µs | {:.1} µs | {:.1} µs |", at(0), at(50), at(99));
}
