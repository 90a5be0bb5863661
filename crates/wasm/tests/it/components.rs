//! Components that want of WASI 0.2 what they may not have.

use ferroplane_wasm::Error;

use crate::answer;

/// A component that imports more: the imports, the lowered functions, their imports in the module, what it does, and how the
/// module is given them.
fn importing(imports: &str, lowered: &str, inner: &str, body: &str, given: &str) -> String {
    format!(
        r#"(component
            {imports}
            (core module $libc
                (memory (export "memory") 2)
                (global $next (mut i32) (i32.const 4096))
                (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32) (local $at i32)
                    (local.set $at (global.get $next))
                    (global.set $next (i32.add (global.get $next) (local.get $size)))
                    (local.get $at)))
            (core instance $libc (instantiate $libc))
            {lowered}
            (core module $main
                (import "libc" "memory" (memory 2))
                {inner}
                (func $answers (param $ptr i32) (param $len i32) (result i32)
                    (i32.store8 (i32.const 16) (i32.const 0))
                    (i32.store (i32.const 20) (local.get $ptr))
                    (i32.store (i32.const 24) (local.get $len))
                    (i32.const 16))
                (func (export "run") (param $ptr i32) (param $len i32) (result i32)
                    {body}))
            (core instance $main (instantiate $main
                (with "libc" (instance $libc))
                {given}))
            (func $run (param "request" (list u8)) (result (result (list u8) (error string)))
                (canon lift (core func $main "run")
                    (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
            (instance $handler (export "run" (func $run)))
            (export "ferroplane:function/handler@1.0.0" (instance $handler)))"#
    )
}

#[test]
fn handles_of_the_host_are_limited() {
    let imports = r#"
        (import "wasi:io/poll@0.2.0" (instance $poll (export "pollable" (type (sub resource)))))
        (alias export $poll "pollable" (type $pollable))
        (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
            (alias outer 1 $pollable (type $p))
            (export "pollable" (type $timer (eq $p)))
            (export "subscribe-duration" (func (param "when" u64) (result (own $timer))))))"#;
    let code = importing(
        imports,
        r#"(core func $subscribe (canon lower (func $clock "subscribe-duration")))"#,
        r#"(import "clock" "subscribe" (func $subscribe (param i64) (result i32)))"#,
        "(loop $again (drop (call $subscribe (i64.const 1000000000))) (br $again)) (unreachable)",
        r#"(with "clock" (instance (export "subscribe" (func $subscribe))))"#,
    );

    let error = answer(&code, b"").unwrap_err();

    assert!(matches!(error, Error::Trap { .. }), "{error:?}");
}

#[test]
fn sockets_are_denied() {
    let imports = r#"
        (import "wasi:sockets/network@0.2.0" (instance $network
            (type $codes (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout"
                "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit"
                "address-not-bindable" "address-in-use" "remote-unreachable" "connection-refused" "connection-reset"
                "connection-aborted" "datagram-too-large" "name-unresolvable" "temporary-resolver-failure"
                "permanent-resolver-failure"))
            (export "error-code" (type (eq $codes)))
            (type $families (enum "ipv4" "ipv6"))
            (export "ip-address-family" (type (eq $families)))))
        (alias export $network "error-code" (type $error))
        (alias export $network "ip-address-family" (type $family))
        (import "wasi:sockets/tcp@0.2.0" (instance $tcp (export "tcp-socket" (type (sub resource)))))
        (alias export $tcp "tcp-socket" (type $socket))
        (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $create
            (alias outer 1 $error (type $e)) (export "error-code" (type $error (eq $e)))
            (alias outer 1 $family (type $f)) (export "ip-address-family" (type $family (eq $f)))
            (alias outer 1 $socket (type $s)) (export "tcp-socket" (type $socket (eq $s)))
            (export "create-tcp-socket"
                (func (param "address-family" $family) (result (result (own $socket) (error $error)))))))"#;
    let code = importing(
        imports,
        r#"(core func $create (canon lower (func $create "create-tcp-socket") (memory (core memory $libc "memory"))))"#,
        r#"(import "tcp" "create" (func $create (param i32 i32)))"#,
        "(call $create (i32.const 0) (i32.const 200))
         (i32.store8 (i32.const 201) (i32.load8_u (i32.const 204)))
         (call $answers (i32.const 200) (i32.const 2))",
        r#"(with "tcp" (instance (export "create" (func $create))))"#,
    );

    // An error, and which: `access-denied`.
    assert_eq!(answer(&code, b"").unwrap(), [1, 1]);
}
