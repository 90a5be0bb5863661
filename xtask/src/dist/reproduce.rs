//! Builds the program twice, in different directories, and compares: who has the sources can check what they were given.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use super::{build, hexadecimal};
use crate::shell::{git, step};

/// Which sources to build.
#[derive(Debug, clap::Args)]
pub(crate) struct Reproduce {
    /// The commit to build; what is not committed is not built
    #[arg(default_value = "HEAD")]
    commit: String,
}

impl Reproduce {
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        let kept = root.join("target/reproduced");
        fs::create_dir_all(&kept).with_context(|| format!("cannot create {}", kept.display()))?;
        let directory =
            tempfile::tempdir_in(root.join("target")).context("cannot make a directory to build in")?;
        // Of different lengths and depths, so that a path that is recorded somewhere changes the program.
        let places = ["one", "another/and/longer"];
        let mut digests = Vec::new();
        for place in places {
            let (source, target) =
                (directory.path().join(place), directory.path().join(format!("{place}-target")));
            step(&format!("build in {}", source.display()), || {
                let name = source.to_str().context("the path is not UTF-8")?;
                git(root, &["clone", "--quiet", "--no-checkout", "--shared", ".", name]).run()?;
                git(&source, &["checkout", "--quiet", "--detach", &self.commit]).run()?;
                let program = fs::read(build(&source, &target)?).context("cannot read the program")?;
                digests.push(hexadecimal(&Sha256::digest(&program)));
                // To see where they differ, if they do.
                fs::write(kept.join(format!("ferroplane-{}", digests.len())), program)
                    .context("cannot keep the program")
            })?;
            // Half of the room is enough for both.
            fs::remove_dir_all(&target).context("cannot remove what was built")?;
        }
        if digests[0] != digests[1] {
            bail!("the two programs in {} differ: {} and {}", kept.display(), digests[0], digests[1]);
        }
        eprintln!("both programs are the same: {}", digests[0]);
        Ok(())
    }
}
