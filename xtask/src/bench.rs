//! `cargo xtask bench`: measures, with the programs under `benches/`.

use std::path::Path;

use anyhow::Result;

use crate::peers;
use crate::shell::{cargo, step};

/// The profile of what is shipped: nothing else is worth measuring.
const SHIPPED: &str = "--profile=dist";

/// Build everything as it is shipped, then measure.
pub(crate) fn run(root: &Path, filter: Option<&str>) -> Result<()> {
    if filter == Some("wasm") {
        // Without the rest: the engine alone takes minutes to build.
        let mut bench = cargo(root, &["bench", SHIPPED, "--package", "ferroplane-wasm", "--bench", "calls"]);
        let interpreter = root.join("guests/built/starlark.wasm");
        if interpreter.is_file() {
            bench.env("WASM", interpreter);
        } else {
            println!("Starlark is left out: `cargo xtask guests` builds its interpreter");
        }
        return bench.run();
    }
    step("build", || {
        let packages =
            ["--package", "ferroplane", "--package", "benches", "--features", "ferroplane/jemalloc"];
        cargo(root, &["build", SHIPPED]).args(packages).run()
    })?;
    let mut bench = cargo(root, &["run", SHIPPED, "--quiet", "--package", "benches", "--"]);
    bench.env("FERROPLANE_PEERS", peers::directory());
    if let Some(filter) = filter {
        bench.arg(filter);
    }
    bench.run()?;
    let counted = match filter {
        None => SCHEMA,
        Some(filter) if filter.starts_with(SCHEMA) => filter,
        Some(_) => return Ok(()),
    };
    println!("\nThe same with allocations counted, which makes the times worthless:");
    cargo(
        root,
        &["run", SHIPPED, "--quiet", "--package", "benches", "--features", "allocations", "--", counted],
    )
    .run()
}

/// What the names of benches begin with that count allocations.
const SCHEMA: &str = "schema";
