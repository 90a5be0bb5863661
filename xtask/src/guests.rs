//! `cargo xtask guests`: builds what we ship as WebAssembly.
//!
//! Guests are compiled for another machine, so they are packages outside of the workspace, under `guests/`. What is target is
//! under `target/guests/` and never in the repository.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::shell::cargo;

/// The machine that guests are compiled for.
const TARGET: &str = "wasm32-wasip2";

/// Each guest, and the file that cargo makes of it.
const GUESTS: [(&str, &str); 1] = [("starlark", "ferroplane_guest_starlark.wasm")];

/// Build all guests, as `target/guests/NAME.wasm`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let target = root.join("target/guests");
    for (name, file) in GUESTS {
        let mut build = cargo(root, &["build", "--release", "--locked", "--target", TARGET, "--target-dir"]);
        let result = build.arg(&target).current_dir(&root.join("guests").join(name)).run();
        if let Err(error) = result {
            bail!(
                error.context(format!(
                    "cannot build {name}: is the target there? `rustup target add {TARGET}`"
                ))
            );
        }
        let (from, to) =
            (target.join(TARGET).join("release").join(file), target.join(format!("{name}.wasm")));
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        println!("{}", to.display());
    }
    Ok(())
}
