//! `cargo xtask fuzz`: runs the fuzz targets one after the other.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::shell::{cargo, step};

/// Check that every target compiles. They are a workspace of their own, which no other build covers.
pub(crate) fn check(root: &Path) -> Result<()> {
    cargo(root, &["check", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--bins"]).run()
}

/// Run every target for some seconds.
pub(crate) fn run(root: &Path, seconds: u32) -> Result<()> {
    let entries = fs::read_dir(root.join("fuzz/fuzz_targets")).context("cannot list the fuzz targets")?;
    let mut targets = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    targets.sort();
    for target in targets.iter().filter_map(|path| path.file_stem()?.to_str()) {
        let limit = format!("-max_total_time={seconds}");
        step(&format!("fuzz {target}"), || {
            cargo(root, &["+nightly", "fuzz", "run", target, "--", &limit, "-rss_limit_mb=2048"]).run()
        })?;
    }
    Ok(())
}
