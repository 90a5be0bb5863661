//! Many calls at once, and calls that nothing waits for.

use std::time::{Duration, Instant};

use ferroplane_wasm::{Call, Error, InUse, Limits, Options, Runtime};

use crate::code::{command, component, echo, echo_component};
use crate::{block_on, call, limits, options, wat};

/// A runtime of one's own, so that what is in use can be counted.
fn runtime(workers: usize) -> Runtime {
    Runtime::new(Options { workers, warm: 2, ..options() }).unwrap()
}

/// Waits until nothing is in use. The engine takes an instance back after its answer was given.
fn is_idle(runtime: &Runtime) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while runtime.in_use() != InUse::default() {
        assert!(Instant::now() < deadline, "{:?}", runtime.in_use());
        std::thread::yield_now();
    }
}

#[test]
fn thousand_calls_at_once_leak_nothing() {
    let runtime = runtime(4);
    let good = [runtime.compile(&wat(&echo())).unwrap(), runtime.compile(&wat(&echo_component())).unwrap()];
    let bad = [
        command(&[], r#"(func (export "_start") (unreachable))"#),
        command(
            &[],
            r#"(func $deeper (call $deeper) (call $deeper)) (func (export "_start") (call $deeper))"#,
        ),
        component("(drop (memory.grow (i32.const 10000))) (unreachable)"),
    ];
    let bad = bad.map(|code| runtime.compile(&wat(&code)).unwrap());
    let limits = Limits { time: Duration::from_mins(1), ..limits() };
    let request = vec![7; 17_000];

    block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..1000_usize {
            let program = if number % 5 < 3 { &bad[number % 3] } else { &good[number % 2] }.clone();
            let (caller, warm) = (number as u64 % 7, (number % 10 == 9).then_some(1));
            let call = Call { limits: limits.clone(), caller, warm, ..call(&request) };
            calls.spawn(async move { (number, program.call(call).await) });
        }
        while let Some(done) = calls.join_next().await {
            let (number, result) = done.unwrap();
            assert_eq!(result.is_ok(), number % 5 >= 3, "{number}: {result:?}");
            assert!(result.is_err() || result.unwrap() == request);
        }
    });

    runtime.cool();
    is_idle(&runtime);
}

#[test]
fn call_that_nobody_waits_for_is_stopped() {
    let runtime = runtime(1);
    let endless = wat(&command(&[], r#"(func (export "_start") (loop $again (br $again)))"#));
    let endless = runtime.compile(&endless).unwrap();
    let echo = runtime.compile(&wat(&echo())).unwrap();
    let patient = Limits { time: Duration::from_hours(1), ..limits() };

    block_on(async {
        let call = endless.call(Call { limits: patient.clone(), ..call(b"") });
        assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    });

    // The only worker is free for the next call.
    let answer = block_on(echo.call(Call { limits: patient, ..call(b"next") })).unwrap();
    assert_eq!(answer, b"next");
    is_idle(&runtime);
}

#[test]
fn endless_calls_of_one_do_not_starve_another() {
    let runtime = runtime(1);
    let endless = wat(&command(&[], r#"(func (export "_start") (loop $again (br $again)))"#));
    let endless = runtime.compile(&endless).unwrap();
    let echo = runtime.compile(&wat(&echo())).unwrap();
    let short = Limits { time: Duration::from_millis(20), ..limits() };

    block_on(async {
        let mut hostile = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let (endless, call) = (endless.clone(), Call { limits: short.clone(), caller: 1, ..call(b"") });
            hostile.spawn(async move { endless.call(call).await });
        }
        tokio::task::yield_now().await;

        // Served after at most one of them, though a hundred came first.
        let answer = echo.call(Call { caller: 2, ..call(b"in time") }).await.unwrap();

        assert_eq!(answer, b"in time");
        let ended = std::iter::from_fn(|| hostile.try_join_next()).count();
        assert!(ended < 50, "{ended} calls of the other one were served first");
        hostile.abort_all();
    });
    is_idle(&runtime);
}

#[test]
fn queue_is_bounded() {
    let runtime = Runtime::new(Options { workers: 1, queue: 1, ..options() }).unwrap();
    let endless = wat(&command(&[], r#"(func (export "_start") (loop $again (br $again)))"#));
    let endless = runtime.compile(&endless).unwrap();

    let results = block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let endless = endless.clone();
            calls.spawn(async move { endless.call(call(b"")).await });
        }
        calls.join_all().await
    });

    let full = results.iter().filter(|result| matches!(result, Err(Error::QueueFull { limit: 1 }))).count();
    assert!(full >= 8, "{results:?}");
}

#[test]
fn calls_end_with_the_runtime() {
    let runtime = runtime(1);
    let program = runtime.compile(&wat(&echo())).unwrap();
    drop(runtime);

    // A program keeps its runtime.
    assert_eq!(block_on(program.call(call(b"still there"))).unwrap(), b"still there");
}
