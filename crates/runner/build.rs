//! Notices whether the interpreter of Starlark was built (`cargo xtask guests`), so that it can be embedded.

use std::path::Path;

fn main() {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/built");
    let guest = built.join("starlark.wasm");
    let is_there = guest.is_file();
    // Of a file that is not there, cargo would think that it changes all the time. The directory always is.
    println!("cargo::rerun-if-changed={}", if is_there { guest } else { built }.display());
    println!("cargo::rustc-check-cfg=cfg(has_starlark_guest)");
    if is_there {
        println!("cargo::rustc-cfg=has_starlark_guest");
    }
}
