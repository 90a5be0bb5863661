//! Chores of this repository. `cargo xtask help` lists them.

mod codegen;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;

/// Chores of this repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Write the generated code
    Codegen,
}

fn main() -> Result<()> {
    match Chore::parse() {
        Chore::Codegen => codegen::run(&root(), false),
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lives in the repository").to_owned()
}
