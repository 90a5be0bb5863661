//! `cargo xtask bench`: measures, with the programs under `benches/`.

use std::path::Path;

use anyhow::Result;

use crate::peers;
use crate::shell::{cargo, step};

/// Build everything optimised, then measure.
pub(crate) fn run(root: &Path, filter: Option<&str>) -> Result<()> {
    step("build", || {
        cargo(root, &["build", "--release", "--package", "ferroplane", "--package", "benches"]).run()
    })?;
    let mut bench = cargo(root, &["run", "--release", "--quiet", "--package", "benches", "--"]);
    bench.env("FERROPLANE_PEERS", peers::directory());
    if let Some(filter) = filter {
        bench.arg(filter);
    }
    bench.run()?;
    if filter.is_some_and(|filter| !SCHEMA.contains(filter)) {
        return Ok(());
    }
    println!("\nThe same with allocations counted, which makes the times worthless:");
    cargo(
        root,
        &["run", "--release", "--quiet", "--package", "benches", "--features", "allocations", "--", SCHEMA],
    )
    .run()
}

/// The bench that counts allocations.
const SCHEMA: &str = "schema";
