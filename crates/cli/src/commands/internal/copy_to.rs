//! `ferroplane internal copy-to`: copies this program into a directory, from which a container with another image runs it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::Verdict;

/// The running program. It may have been replaced on the disk.
const OWN: &str = "/proc/self/exe";

/// Copy this program to DIR/ferroplane
///
/// An init container runs this, for the adapter of a program that is not a server. Only a statically linked program runs in any image, as
/// released ones do.
#[derive(Debug, clap::Args)]
pub(super) struct CopyTo {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl CopyTo {
    pub(super) fn run(self) -> anyhow::Result<Verdict> {
        let (copy, program) = (self.directory.join("ferroplane.new"), self.directory.join("ferroplane"));
        // What a killed container left cannot be written to.
        let _ = fs::remove_file(&copy);
        fs::copy(OWN, &copy)
            .and_then(|_| fs::set_permissions(&copy, Permissions::from_mode(0o555)))
            // Under its name there is never half of it.
            .and_then(|()| fs::rename(&copy, &program))
            .with_context(|| format!("cannot copy this program to {}", program.display()))?;
        Ok(Verdict::Yes)
    }
}
