//! Programs that use too much: each is stopped, and the next call finds everything in order.

use std::time::Duration;

use ferroplane_sandbox::{Call, Error, Limit, Limits};

use crate::support::{Lines, Sandbox, attack, call, sandbox, sandboxes, shell};

async fn exceeded(sandbox: &Sandbox, arguments: &[&str], limits: Limits) -> Limit {
    let container = attack(arguments);
    match sandbox.call(Call { limits, ..call(&container) }).await {
        Err(Error::Exceeded(limit)) => {
            assert_eq!(sandbox.shell("echo fine").await, "fine\n");
            limit
        }
        other => panic!("{other:?}"),
    }
}

/// It would run for ever. How soon it is stopped is measured in `docs/benchmarks.md`: a busy machine cannot be held to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_takes_too_long_is_stopped() {
    for sandbox in sandboxes().await {
        let limits = Limits { time: Duration::from_millis(300), ..Limits::default() };
        assert_eq!(exceeded(&sandbox, &["sleep"], limits).await, Limit::Time);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_uses_memory_is_stopped() {
    for sandbox in sandboxes().await {
        let limits = Limits { memory: 64 << 20, ..Limits::default() };
        assert_eq!(exceeded(&sandbox, &["memory"], limits).await, Limit::Memory);
        assert_eq!(exceeded(&sandbox, &["memory-of-many"], limits).await, Limit::Memory);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_computes_for_too_long_is_stopped() {
    let Some(sandbox) = sandbox().await else { return };
    let limits = Limits { cpu_time: Duration::from_millis(200), ..Limits::default() };
    assert_eq!(exceeded(&sandbox, &["spin"], limits).await, Limit::CpuTime);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_writes_too_much_is_stopped() {
    let Some(sandbox) = sandbox().await else { return };
    let limits = Limits { output: 1 << 20, ..Limits::default() };
    assert_eq!(exceeded(&sandbox, &["flood"], limits).await, Limit::Output);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_log_lines_is_dropped_and_counted() {
    let Some(sandbox) = sandbox().await else { return };
    let (container, lines) = (attack(&["flood-log"]), Lines::default());
    let limits = Limits { log: 10_000, ..Limits::default() };
    let output = sandbox.call(Call { limits, log: lines.sink(), ..call(&container) }).await.expect("call");
    assert_eq!(output.exit_code, 0);
    let lines = lines.all();
    assert!(lines.len() < 200, "{}", lines.len());
    assert!(lines.last().expect("lines").starts_with("dropped "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_gets_no_further_than_its_limit() {
    for sandbox in sandboxes().await {
        let container = attack(&["fork-bomb"]);
        let limits = Limits { processes: 30, ..Limits::default() };
        let output = sandbox.call(Call { limits, ..call(&container) }).await.expect("call");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let refused: u32 = text.trim().trim_start_matches("refused ").parse().expect("number");
        assert!(refused >= 5000 - 30, "{text}");
    }
}

/// Runs a program that counts what it got.
async fn counted(sandbox: &Sandbox, what: &str, limits: Limits) -> u64 {
    let container = attack(&[what]);
    let output = sandbox.call(Call { limits, ..call(&container) }).await.expect("call");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("number")
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_bounded_in_size_and_number() {
    for sandbox in sandboxes().await {
        let limits = Limits { scratch: 4 << 20, files: 50, ..Limits::default() };
        let bytes = counted(&sandbox, "disk", limits).await;
        assert!((1 << 20..=4 << 20).contains(&bytes), "{bytes}");
        let files = counted(&sandbox, "make-files", limits).await;
        assert!((1..=16_384).contains(&files), "{files}");
        let open = counted(&sandbox, "open-files", limits).await;
        assert!((1..50).contains(&open), "{open}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_leaves_no_children_behind() {
    let Some(sandbox) = sandbox().await else { return };
    let mut container = attack(&["daemon", "marker-4713"]);
    container.arguments = None;
    let output = sandbox.call(call(&container)).await.expect("call");
    assert_eq!(output.exit_code, 0);
    assert!(crate::support::processes_with("marker-4713").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_call_leaves_in_tmp_the_next_does_not_see() {
    let Some(sandbox) = sandbox().await else { return };
    sandbox.shell("echo > /tmp/left; echo > /dev/shm/left").await;
    assert_eq!(sandbox.shell("ls /tmp /dev/shm | grep left; echo end").await, "end\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_nothing_is_no_way_around_it() {
    let Some(sandbox) = sandbox().await else { return };
    let container = shell("sleep 60");
    let limits = Limits { time: Duration::ZERO, ..Limits::default() };
    let result = sandbox.call(Call { limits, ..call(&container) }).await;
    assert!(matches!(result, Err(Error::Exceeded(Limit::Time))), "{result:?}");
}
