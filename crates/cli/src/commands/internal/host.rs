//! `ferroplane internal host`: the process that runs containers, started by this program for itself.

use std::process::ExitCode;

use crate::Verdict;

/// Run containers for the process at the other end of standard input
///
/// It ends, with everything that it started, when that process does.
#[derive(Debug, clap::Args)]
pub(super) struct Host {
    /// Which stage this is
    #[arg(value_parser = ["init", "chroot", "chroot-program", "process", "process-program"])]
    stage: Option<String>,
}

impl Host {
    pub(super) fn run(self) -> Verdict {
        // The library reads the stage from the arguments, as it does where it is started without us.
        let Self { stage: _ } = self;
        if ferroplane_sandbox::host::main() == ExitCode::SUCCESS { Verdict::Yes } else { Verdict::No }
    }
}
