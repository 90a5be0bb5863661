//! Builds what is shipped: the program, the list of what is in it, and the licences of that.
//!
//! The program does not depend on where it is built: paths are replaced in everything that the compilers write. `cargo xtask
//! reproduce` builds it twice, in different directories, and compares.

mod bill_of_materials;
mod notices;
mod packages;
mod reproduce;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::guests;
use crate::shell::cargo;
use packages::Packages;

pub(crate) use reproduce::Reproduce;

/// glibc is linked statically, so that the program needs nothing but a kernel.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What to make, and where to put it.
#[derive(Debug, clap::Args)]
pub(crate) struct Dist {
    /// Directory to write to
    #[arg(long, default_value = "target/shipped")]
    into: PathBuf,
    /// Write the bill of materials and the notices only, which takes seconds
    #[arg(long)]
    no_program: bool,
}

impl Dist {
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        let directory = root.join(&self.into);
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let packages = Packages::read(root, TARGET)?;
        let mut written = Vec::new();
        let mut put = |name: &str, content: &[u8]| {
            written.push(format!("{}  {name}\n", hexadecimal(&Sha256::digest(content))));
            fs::write(directory.join(name), content)
                .with_context(|| format!("cannot write {}", directory.join(name).display()))
        };
        put("ferroplane.cdx.json", bill_of_materials::write(&packages)?.as_bytes())?;
        put("THIRD-PARTY-NOTICES.txt", notices::write(root, &packages)?.as_bytes())?;
        if !self.no_program {
            let program = build(root, &root.join("target"))?;
            put("ferroplane", &fs::read(&program)?)?;
            let (from, to) = (fs::metadata(&program)?, directory.join("ferroplane"));
            fs::set_permissions(to, from.permissions())?;
        }
        fs::write(directory.join("SHA256SUMS"), written.concat())?;
        eprintln!("wrote {}", directory.display());
        Ok(())
    }
}

/// Write the bill of materials and the notices, to see whether they can be made.
pub(crate) fn describe(root: &Path) -> Result<()> {
    Dist { into: "target/notices".into(), no_program: true }.run(root)
}

/// Build the program in a copy of the sources. Returns where it is.
fn build(source: &Path, target: &Path) -> Result<PathBuf> {
    // First, because the program has them in it.
    guests::build(source, &target.join("guests"))?;
    let map = PathMap::of(source, target)?;
    let mut build = cargo(source, &["dist", "--target", TARGET]);
    build.arg("--target-dir").arg(target);
    build.env("RUSTFLAGS", format!("-Ctarget-feature=+crt-static {}", map.flags("--remap-path-prefix=")));
    // Parts are written in C, whose compiler notes names of files as well.
    build.env("CFLAGS", map.flags("-ffile-prefix-map=")).env("CXXFLAGS", map.flags("-ffile-prefix-map="));
    // Otherwise archives of objects carry the time.
    build.env("ZERO_AR_DATE", "1").env("SOURCE_DATE_EPOCH", "0").run()?;
    Ok(target.join(TARGET).join("dist/ferroplane"))
}

/// Directories that are different on every machine, and what is written in their place.
pub(crate) struct PathMap(Vec<(PathBuf, &'static str)>);

impl PathMap {
    pub(crate) fn of(source: &Path, target: &Path) -> Result<Self> {
        let source = source.canonicalize().with_context(|| format!("cannot find {}", source.display()))?;
        let home = std::env::home_dir().context("there is no home directory")?;
        let variable =
            |name: &str, usual: &str| std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from);
        fs::create_dir_all(target)?;
        // The last that matches counts, so that what is inside comes after what it is in.
        Ok(Self(vec![
            (variable("RUSTUP_HOME", ".rustup"), "/rustup"),
            (variable("CARGO_HOME", ".cargo"), "/cargo"),
            (source, "/source"),
            (target.canonicalize()?, "/target"),
        ]))
    }

    pub(crate) fn flags(&self, flag: &str) -> String {
        let flags = self.0.iter().map(|(from, to)| format!("{flag}{}={to}", from.display()));
        flags.collect::<Vec<_>>().join(" ")
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
