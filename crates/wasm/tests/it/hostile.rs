//! Code that wants to see what it may not see. Each attempt answers with the error number that WASI gave it.

use ferroplane_wasm::Error;

use crate::answer;
use crate::code::command;

/// WASI's error numbers.
const BADF: &str = "08";
const INVAL: &str = "28";
const NOTSUP: &str = "58";

/// Runs a command that answers with two digits.
fn attempt(imports: &[&str], body: &str) -> String {
    String::from_utf8(answer(&command(imports, body), b"").unwrap()).unwrap()
}

/// Opens a path at a file descriptor and answers with the error number.
fn open(path: &str, fd: u32) -> String {
    let len = path.len();
    let body = format!(
        r#"(data (i32.const 100) "{path}")
        (func (export "_start")
            (call $errno (call $path_open (i32.const {fd}) (i32.const 1) (i32.const 100) (i32.const {len})
                (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64))))"#
    );
    attempt(&["path_open"], &body)
}

#[test]
fn no_file_of_the_machine_can_be_opened() {
    for path in ["/etc/passwd", "etc/passwd", "../../../../etc/passwd", "/proc/self/environ", ".", "/"] {
        assert_eq!(open(path, 3), BADF, "{path}");
    }
}

#[test]
fn no_descriptor_is_a_directory() {
    // The standard streams are no directories, and there are no other descriptors.
    for fd in 0..3 {
        assert_ne!(open("etc/passwd", fd), "00", "{fd}");
    }
    for fd in 3..64 {
        assert_eq!(open("etc/passwd", fd), BADF, "{fd}");
    }
    assert_eq!(open("etc/passwd", u32::MAX), BADF);
}

#[test]
fn no_directory_is_announced() {
    let body =
        r#"(func (export "_start") (call $errno (call $fd_prestat_get (i32.const 3) (i32.const 200))))"#;

    assert_eq!(attempt(&["fd_prestat_get"], body), BADF);
}

#[test]
fn environment_is_empty() {
    let body = r#"(func (export "_start")
        (drop (call $environ_sizes_get (i32.const 200) (i32.const 204)))
        (call $errno (i32.load (i32.const 200))))"#;

    assert_eq!(attempt(&["environ_sizes_get"], body), "00");
}

#[test]
fn arguments_are_not_ours() {
    let body = r#"(func (export "_start")
        (drop (call $args_get (i32.const 300) (i32.const 400)))
        (drop (call $say (i32.const 1) (i32.const 400) (i32.const 9))))"#;

    assert_eq!(attempt(&["args_get"], body), "function\0");
}

#[test]
fn sockets_do_not_exist() {
    let accept = |fd: u32| {
        let body = format!(
            r#"(func (export "_start") (call $errno (call $sock_accept (i32.const {fd}) (i32.const 0) (i32.const 200))))"#
        );
        attempt(&["sock_accept"], &body)
    };

    assert_eq!(accept(0), "57", "stdin is no socket");
    for fd in 3..64 {
        assert_eq!(accept(fd), BADF, "{fd}");
    }
    let send = r#"(func (export "_start")
        (call $errno (call $sock_send (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 200))))"#;
    assert_eq!(attempt(&["sock_send"], send), "57", "stdout is no socket");
}

#[test]
fn signals_cannot_be_raised() {
    let body = r#"(func (export "_start") (call $errno (call $proc_raise (i32.const 9))))"#;

    assert_eq!(attempt(&["proc_raise"], body), NOTSUP);
}

#[test]
fn clocks_of_processes_cannot_be_read() {
    for clock in [2, 3] {
        let body = format!(
            r#"(func (export "_start") (call $errno (call $clock_time_get (i32.const {clock}) (i64.const 1) (i32.const 200))))"#
        );

        assert_ne!(attempt(&["clock_time_get"], &body), "00", "{clock}");
    }
}

#[test]
fn nothing_can_be_waited_for_that_does_not_exist() {
    let body = r#"(func (export "_start")
        (call $errno (call $poll_oneoff (i32.const 200) (i32.const 400) (i32.const 0) (i32.const 600))))"#;

    assert_eq!(attempt(&["poll_oneoff"], body), INVAL);
}

#[test]
fn streams_can_be_closed_but_not_replaced() {
    let body = r#"(func (export "_start")
        (call $errno (call $fd_renumber (i32.const 1) (i32.const 77))))"#;

    assert_eq!(attempt(&["fd_renumber"], body), BADF);
}

#[test]
fn stdin_cannot_be_written_and_stdout_cannot_be_read() {
    let write =
        r#"(func (export "_start") (call $errno (call $say (i32.const 0) (i32.const 100) (i32.const 5))))"#;
    let read = r#"(func (export "_start")
        (call $errno (call $fd_read (i32.const 1) (i32.const 32) (i32.const 1) (i32.const 40))))"#;

    assert_ne!(attempt(&[], write), "00");
    assert_ne!(attempt(&[], read), "00");
}

/// What a failed attempt was stopped by.
fn stopped(imports: &[&str], body: &str) -> String {
    match answer(&command(imports, body), b"") {
        Err(Error::Trap { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn addresses_outside_of_its_memory_stop_the_code() {
    let load = r#"(func (export "_start") (drop (i32.load (i32.const -4))))"#;
    let store = r#"(func (export "_start") (i32.store (i32.const 0x7fffffff) (i32.const 1)))"#;

    for body in [load, store] {
        assert_eq!(stopped(&[], body), "wasm trap: out of bounds memory access");
    }
}

#[test]
fn host_is_not_given_addresses_outside_of_the_memory() {
    // The list of buffers, a buffer, and the place of the result.
    let list = r#"(func (export "_start")
        (call $errno (call $fd_write (i32.const 1) (i32.const -8) (i32.const 1) (i32.const 8))))"#;
    let buffer =
        r#"(func (export "_start") (call $errno (call $say (i32.const 1) (i32.const -2) (i32.const 100))))"#;
    let result = r#"(func (export "_start")
        (call $errno (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const -1))))"#;

    for body in [list, buffer, result] {
        match answer(&command(&[], body), b"") {
            Ok(errno) => assert_ne!(errno, b"00", "{body}"),
            Err(Error::Trap { .. }) => {}
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn calls_of_the_wrong_type_stop_the_code() {
    let body = r#"(table 1 funcref) (elem (i32.const 0) $errno)
        (func (export "_start") (call_indirect (result i64) (i32.const 0)) (drop))"#;
    assert_eq!(stopped(&[], body), "wasm trap: indirect call type mismatch");

    let body = r#"(table 1 funcref) (func (export "_start") (call_indirect (i32.const 5)))"#;
    assert_eq!(stopped(&[], body), "wasm trap: undefined element: out of bounds table access");

    let body = r#"(table 1 funcref) (func (export "_start") (call_indirect (i32.const 0)))"#;
    assert_eq!(stopped(&[], body), "wasm trap: uninitialized element");
}

#[test]
fn arithmetic_stops_the_code_and_not_the_process() {
    let divide = r#"(func (export "_start") (drop (i32.div_u (i32.const 1) (i32.const 0))))"#;
    let overflow = r#"(func (export "_start") (drop (i32.div_s (i32.const 0x80000000) (i32.const -1))))"#;
    let convert = r#"(func (export "_start") (drop (i32.trunc_f32_s (f32.const nan))))"#;

    assert_eq!(stopped(&[], divide), "wasm trap: integer divide by zero");
    assert_eq!(stopped(&[], overflow), "wasm trap: integer overflow");
    assert_eq!(stopped(&[], convert), "wasm trap: invalid conversion to integer");
}

#[test]
fn exit_codes_outside_of_the_range_stop_the_code() {
    for code in ["126", "-1", "0x7fffffff"] {
        let body = format!(r#"(func (export "_start") (call $proc_exit (i32.const {code})))"#);

        assert!(stopped(&["proc_exit"], &body).contains("invalid exit status"), "{code}");
    }
}

/// What WASI 0.1 offers to those who have a file or a socket, with any descriptor: none of it works without one.
#[test]
fn nothing_else_works_without_a_file_or_a_socket() {
    let attempts = [
        ("fd_readdir", "i32 i32 i32 i64 i32"),
        ("fd_filestat_get", "i32 i32"),
        ("fd_filestat_set_size", "i32 i64"),
        ("fd_filestat_set_times", "i32 i64 i64 i32"),
        ("fd_allocate", "i32 i64 i64"),
        ("fd_advise", "i32 i64 i64 i32"),
        ("fd_datasync", "i32"),
        ("fd_sync", "i32"),
        ("fd_pread", "i32 i32 i32 i64 i32"),
        ("fd_pwrite", "i32 i32 i32 i64 i32"),
        ("fd_seek", "i32 i64 i32 i32"),
        ("fd_tell", "i32 i32"),
        ("fd_prestat_dir_name", "i32 i32 i32"),
        ("path_filestat_get", "i32 i32 i32 i32 i32"),
        ("path_filestat_set_times", "i32 i32 i32 i32 i64 i64 i32"),
        ("path_readlink", "i32 i32 i32 i32 i32 i32"),
        ("path_link", "i32 i32 i32 i32 i32 i32 i32"),
        ("path_remove_directory", "i32 i32 i32"),
        ("sock_recv", "i32 i32 i32 i32 i32 i32"),
        ("sock_shutdown", "i32 i32"),
    ];
    for (name, parameters) in attempts {
        for descriptor in [3, 4, 63, -1] {
            let rest: Vec<_> =
                parameters.split(' ').skip(1).map(|kind| format!("({kind}.const 0)")).collect();
            let rest = rest.concat();
            let body = format!(
                r#"(module
                (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
                (import "wasi_snapshot_preview1" "{name}" (func $attempt (param {parameters}) (result i32)))
                (memory (export "memory") 2)
                (func (export "_start")
                    (if (call $attempt (i32.const {descriptor}) {rest}) (then (return)))
                    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 1))
                    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
            );
            assert_eq!(answer(&body, b"").unwrap(), b"", "{name} of {descriptor} worked");
        }
    }
}
