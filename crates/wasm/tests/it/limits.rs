//! Code that wants more than it may have.

use std::time::{Duration, Instant};

use ferroplane_wasm::{Call, Error, Limits, Options, Runtime};

use crate::code::{command, component, component_with};
use crate::{answer, answer_to, block_on, call, limits, logged, options, wat};

/// Runs code that never ends, and says by how much it exceeded its time.
///
/// The promise is 50 ms. A test cannot hold a busy machine to it, so it is generous; `docs/benchmarks.md` has the measurement.
fn out_of_time(text: &str) {
    let began_at = Instant::now();

    let error = answer(text, b"").unwrap_err();

    assert!(matches!(error, Error::Time { limit } if limit == limits().time), "{error:?}");
    assert!(began_at.elapsed() < Duration::from_secs(20), "{:?}", began_at.elapsed());
}

#[test]
fn endless_loop_is_stopped() {
    out_of_time(&command(&[], r#"(func (export "_start") (loop $again (br $again)))"#));
    out_of_time(&component("(loop $again (br $again)) (unreachable)"));
}

#[test]
fn endless_loop_before_the_start_is_stopped() {
    out_of_time(&command(
        &[],
        r#"(func $begin (loop $again (br $again))) (start $begin) (func (export "_start"))"#,
    ));
    out_of_time(&component_with("(func $begin (loop $again (br $again))) (start $begin)", "(unreachable)"));
}

#[test]
fn endless_tail_calls_are_stopped() {
    out_of_time(&command(
        &[],
        r#"(func $again (return_call $again)) (func (export "_start") (call $again))"#,
    ));
}

#[test]
fn endless_calls_of_the_host_are_stopped() {
    out_of_time(&command(
        &["sched_yield"],
        r#"(func (export "_start") (loop $again (drop (call $sched_yield)) (br $again)))"#,
    ));
    out_of_time(&command(
        &["clock_time_get"],
        r#"(func (export "_start") (loop $again
            (drop (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 200))) (br $again)))"#,
    ));
}

#[test]
fn endless_work_on_memory_is_stopped() {
    out_of_time(&command(
        &[],
        r#"(func (export "_start") (loop $again
            (memory.fill (i32.const 0) (i32.const 7) (i32.const 131072)) (br $again)))"#,
    ));
}

#[test]
fn sleeping_for_ever_is_stopped() {
    // A subscription: user data, the tag of a clock, which clock, for how long, precision, flags.
    let body = r#"(func (export "_start")
        (i32.store8 (i32.const 208) (i32.const 0))
        (i32.store (i32.const 216) (i32.const 1))
        (i64.store (i32.const 224) (i64.const 0x7fffffffffffffff))
        (drop (call $poll_oneoff (i32.const 200) (i32.const 400) (i32.const 1) (i32.const 600))))"#;

    out_of_time(&command(&["poll_oneoff"], body));
}

#[test]
fn endless_recursion_uses_up_the_stack() {
    let direct = r#"(func $deeper (param i32) (call $deeper (i32.add (local.get 0) (i32.const 1))))
        (func (export "_start") (call $deeper (i32.const 0)))"#;
    let indirect = r#"(table 1 funcref) (elem (i32.const 0) $deeper)
        (func $deeper (call_indirect (i32.const 0)) (call_indirect (i32.const 0)))
        (func (export "_start") (call $deeper))"#;

    for body in [direct, indirect] {
        assert!(matches!(answer(&command(&[], body), b"").unwrap_err(), Error::Stack));
    }
    let component =
        component_with("(func $deeper (call $deeper) (call $deeper))", "(call $deeper) (i32.const 0)");
    assert!(matches!(answer(&component, b"").unwrap_err(), Error::Stack));
}

#[test]
fn fuel_is_used_up() {
    let runtime = Runtime::new(Options { meter_fuel: true, workers: 1, ..options() }).unwrap();
    let code = wat(&command(&[], r#"(func (export "_start") (loop $again (br $again)))"#));
    let program = runtime.compile(&code).unwrap();
    let limits = Limits { fuel: Some(10_000), time: Duration::from_mins(1), ..limits() };

    let error = block_on(program.call(Call { limits, ..call(b"") })).unwrap_err();

    assert!(matches!(error, Error::Fuel { limit: 10_000 }), "{error:?}");
}

#[test]
fn fuel_is_refused_where_it_is_not_metered() {
    let code = command(&[], r#"(func (export "_start"))"#);
    let limits = Limits { fuel: Some(10_000), ..limits() };

    assert!(matches!(answer_to(&code, Call { limits, ..call(b"") }).unwrap_err(), Error::NotMetered));
}

/// Whether code met the limit of its memory.
fn out_of_memory(text: &str) {
    let error = answer(text, b"").unwrap_err();

    assert!(matches!(error, Error::Memory { limit } if limit == limits().memory), "{error:?}");
}

#[test]
fn memory_is_not_grown_beyond_the_limit() {
    let body = r#"(func (export "_start") (loop $again
        (br_if $again (i32.ne (i32.const -1) (memory.grow (i32.const 16)))) (unreachable)))"#;
    out_of_memory(&command(&[], body));
    out_of_memory(&command(
        &[],
        r#"(func (export "_start") (br_if 0 (i32.ne (i32.const -1) (memory.grow (i32.const 65000)))) (unreachable))"#,
    ));
}

#[test]
fn code_may_go_on_without_the_memory_that_it_did_not_get() {
    let body = r#"(func (export "_start")
        (if (i32.eq (i32.const -1) (memory.grow (i32.const 1000))) (then (call $errno (i32.const 12)))))"#;

    assert_eq!(answer(&command(&[], body), b"").unwrap(), b"12");
}

#[test]
fn memory_that_is_declared_beyond_the_limit_is_not_given() {
    out_of_memory(r#"(module (memory (export "memory") 300) (func (export "_start")))"#);
}

#[test]
fn memories_beyond_what_the_runtime_has_are_refused() {
    for code in [
        r#"(module (memory 65536) (func (export "_start")))"#.to_owned(),
        format!(r#"(module {} (func (export "_start")))"#, "(memory 1)".repeat(3)),
        r#"(module (memory i64 1) (func (export "_start")))"#.to_owned(),
        r#"(module (memory 1 2 shared) (func (export "_start")))"#.to_owned(),
    ] {
        let error = answer(&code, b"").unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{code}: {error:?}");
    }
}

#[test]
fn tables_are_limited() {
    let grow = r#"(module (table 1 funcref) (func (export "_start") (loop $again
        (br_if $again (i32.ne (i32.const -1) (table.grow 0 (ref.null func) (i32.const 1000)))) (unreachable))))"#;
    let declared = r#"(module (table 20000 funcref) (func (export "_start")))"#;
    for code in [grow, declared] {
        let error = answer(code, b"").unwrap_err();
        assert!(matches!(error, Error::Table { limit: 10_000 }), "{error:?}");
    }
    let many = format!(r#"(module {} (func (export "_start")))"#, "(table 1 funcref)".repeat(20));
    assert!(matches!(answer(&many, b"").unwrap_err(), Error::Invalid(_)));
    let huge = r#"(module (table 4000000000 funcref) (func (export "_start")))"#;
    assert!(matches!(answer(huge, b"").unwrap_err(), Error::Invalid(_)));
}

#[test]
fn module_whose_own_data_is_huge_is_refused() {
    let globals = "(global (mut i64) (i64.const 1))".repeat(200_000);

    let error = answer(&format!(r#"(module {globals} (func (export "_start")))"#), b"").unwrap_err();

    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

#[test]
fn component_of_many_instances_is_refused() {
    let instances = "(core instance (instantiate $m))".repeat(100);
    let code = format!(
        r#"(component (core module $m (memory 1)) {instances}
            (core module $main (func (export "run") (param i32 i32) (result i32) (unreachable))))"#
    );

    assert!(matches!(answer(&code, b"").unwrap_err(), Error::Invalid(_) | Error::Instance(_)));
}

#[test]
fn flood_on_stdout_is_stopped() {
    let flood = r#"(func (export "_start") (loop $again
        (drop (call $say (i32.const 1) (i32.const 0) (i32.const 4096))) (br $again)))"#;

    let error = answer(&command(&[], flood), b"").unwrap_err();

    assert!(matches!(error, Error::Output { limit: 65_536 }), "{error:?}");
}

#[test]
fn large_answer_of_a_component_is_refused() {
    let error = answer(&component("(call $answers (i32.const 0) (i32.const 70000))"), b"").unwrap_err();
    assert!(matches!(error, Error::Output { limit: 65_536 }), "{error:?}");

    let grown =
        component("(drop (memory.grow (i32.const 200))) (call $answers (i32.const 0) (i32.const 13000000))");
    let error = answer(&grown, b"").unwrap_err();
    assert!(matches!(error, Error::Output { limit: 65_536 }), "{error:?}");
}

#[test]
fn flood_on_stderr_is_cut() {
    let flood = r#"(data (i32.const 100) "a line\n")
        (func (export "_start") (local $count i32) (loop $again
            (drop (call $say (i32.const 2) (i32.const 100) (i32.const 7)))
            (local.set $count (i32.add (local.get $count) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $count) (i32.const 10000))))
            (call $errno (i32.const 0)))"#;

    let (result, lines) = logged(&command(&[], flood), call(b""));

    assert_eq!(result.unwrap(), b"00");
    assert!(lines.len() < 600, "{}", lines.len());
    assert_eq!(lines.last().unwrap(), "the log ends here: the code wrote more than it may");
}

#[test]
fn flood_in_the_log_of_a_component_is_cut() {
    let flood = component(
        "(local $count i32)
        (loop $again
            (call $log (i32.const 4096) (i32.const 100))
            (local.set $count (i32.add (local.get $count) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $count) (i32.const 10000))))
        (call $answers (local.get $ptr) (local.get $len))",
    );

    let (result, lines) = logged(&flood, call(b"x"));

    assert_eq!(result.unwrap(), b"x");
    assert!(lines.iter().map(String::len).sum::<usize>() < 5000);
}

#[test]
fn results_of_a_component_outside_of_its_memory_stop_it() {
    for body in [
        "(call $answers (i32.const 0x7fffffff) (i32.const 100))",
        "(call $answers (i32.const 0) (i32.const -1))",
        "(call $fails (i32.const 0) (i32.const -1))",
        "(i32.const -4)",
        "(i32.const 3)",
        "(i32.store8 (i32.const 16) (i32.const 9)) (i32.const 16)",
        // Words that are not UTF-8.
        "(i32.store8 (i32.const 100) (i32.const 255)) (call $fails (i32.const 100) (i32.const 1))",
    ] {
        let error = answer(&component(body), b"").unwrap_err();
        assert!(matches!(error, Error::Trap { .. } | Error::Output { .. }), "{body}: {error:?}");
    }
}

#[test]
fn huge_lists_for_the_host_are_bounded() {
    let write = r#"(func (export "_start")
        (call $errno (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 0x0fffffff) (i32.const 8))))"#;
    let poll = r#"(func (export "_start")
        (call $errno (call $poll_oneoff (i32.const 1024) (i32.const 2048) (i32.const 0x07ffffff) (i32.const 8))))"#;
    let random =
        r#"(func (export "_start") (call $errno (call $random_get (i32.const 0) (i32.const 0x7fffffff))))"#;

    for (imports, body) in [(&[][..], write), (&["poll_oneoff"], poll), (&["random_get"], random)] {
        match answer(&command(imports, body), b"") {
            Ok(errno) => assert_ne!(errno, b"00", "{body}"),
            Err(error) => assert!(matches!(error, Error::Trap { .. }), "{body}: {error:?}"),
        }
    }
}
