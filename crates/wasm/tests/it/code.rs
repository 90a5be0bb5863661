//! Code for tests, as text.

/// A command: what it imports of WASI, and what it does.
///
/// Its memory has two pages. `$errno` writes a number as the answer, `$say` writes bytes of the memory to a file descriptor.
pub(crate) fn command(imports: &[&str], body: &str) -> String {
    let imports = imports.iter().map(|name| import(name)).collect::<String>();
    format!(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
            {imports}
            (memory (export "memory") 2)
            (func $say (param $fd i32) (param $at i32) (param $len i32) (result i32)
                (i32.store (i32.const 0) (local.get $at))
                (i32.store (i32.const 4) (local.get $len))
                (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
            (func $errno (param $number i32)
                (i32.store8 (i32.const 16) (i32.add (i32.const 48) (i32.div_u (local.get $number) (i32.const 10))))
                (i32.store8 (i32.const 17) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
                (drop (call $say (i32.const 1) (i32.const 16) (i32.const 2))))
            {body})"#
    )
}

/// The import of a function of WASI that is neither `fd_read` nor `fd_write`.
fn import(name: &str) -> String {
    let signature = match name {
        "proc_exit" => "(param i32)",
        "sched_yield" => "(result i32)",
        "proc_raise" | "fd_close" => "(param i32) (result i32)",
        "environ_sizes_get" | "args_sizes_get" | "args_get" | "environ_get" | "random_get"
        | "fd_prestat_get" | "fd_renumber" => "(param i32 i32) (result i32)",
        "clock_time_get" => "(param i32 i64 i32) (result i32)",
        "sock_accept" | "path_unlink_file" | "path_create_directory" => "(param i32 i32 i32) (result i32)",
        "poll_oneoff" => "(param i32 i32 i32 i32) (result i32)",
        "sock_send" | "path_symlink" => "(param i32 i32 i32 i32 i32) (result i32)",
        "path_rename" => "(param i32 i32 i32 i32 i32 i32) (result i32)",
        "path_open" => "(param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)",
        _ => panic!("the signature of {name} is not listed"),
    };
    format!(r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} {signature}))"#)
}

/// Copies stdin to stdout.
pub(crate) fn echo() -> String {
    let body = r#"
        (func (export "_start") (local $read i32)
            (loop $again
                (i32.store (i32.const 32) (i32.const 1024))
                (i32.store (i32.const 36) (i32.const 65536))
                (if (i32.ne (i32.const 0) (call $fd_read (i32.const 0) (i32.const 32) (i32.const 1) (i32.const 40)))
                    (then (unreachable)))
                (local.set $read (i32.load (i32.const 40)))
                (if (local.get $read)
                    (then
                        (drop (call $say (i32.const 1) (i32.const 1024) (local.get $read)))
                        (br $again)))))"#;
    command(&[], body)
}

/// A component of our world whose function does this. `$ptr` and `$len` are the request; the result is an address.
pub(crate) fn component(body: &str) -> String {
    component_with("", body)
}

/// The same, with more in its module.
pub(crate) fn component_with(more: &str, body: &str) -> String {
    format!(
        r#"(component
            (import "ferroplane:function/log@1.0.0" (instance $log (export "write" (func (param "line" string)))))
            (core module $libc
                (memory (export "memory") 2)
                (global $next (mut i32) (i32.const 4096))
                (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32) (local $at i32)
                    (local.set $at (global.get $next))
                    (global.set $next (i32.add (global.get $next) (local.get $size)))
                    (block $fits
                        (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
                        (drop (memory.grow (i32.add (i32.const 1) (i32.div_u (local.get $size) (i32.const 65536))))))
                    (local.get $at)))
            (core instance $libc (instantiate $libc))
            (core func $write (canon lower (func $log "write") (memory (core memory $libc "memory"))))
            (core module $main
                (import "libc" "memory" (memory 2))
                (import "log" "write" (func $log (param i32 i32)))
                {more}
                ;; The result of a function that answers these bytes.
                (func $answers (param $ptr i32) (param $len i32) (result i32)
                    (i32.store8 (i32.const 16) (i32.const 0))
                    (i32.store (i32.const 20) (local.get $ptr))
                    (i32.store (i32.const 24) (local.get $len))
                    (i32.const 16))
                ;; The result of a function that fails with these words.
                (func $fails (param $ptr i32) (param $len i32) (result i32)
                    (i32.store8 (i32.const 16) (i32.const 1))
                    (i32.store (i32.const 20) (local.get $ptr))
                    (i32.store (i32.const 24) (local.get $len))
                    (i32.const 16))
                (func (export "run") (param $ptr i32) (param $len i32) (result i32)
                    {body}))
            (core instance $main (instantiate $main
                (with "libc" (instance $libc))
                (with "log" (instance (export "write" (func $write))))))
            (func $run (param "request" (list u8)) (result (result (list u8) (error string)))
                (canon lift (core func $main "run") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
            (instance $handler (export "run" (func $run)))
            (export "ferroplane:function/handler@1.0.0" (instance $handler)))"#
    )
}

pub(crate) fn echo_component() -> String {
    component("(call $answers (local.get $ptr) (local.get $len))")
}
