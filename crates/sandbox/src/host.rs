//! The process that runs containers. It is this same program, started again: `ferroplane internal host`.
//!
//! Its standard input is a socket to the process that started it, and it lives for as long as that is open. It has two stages, because a
//! process cannot move itself into a new pid namespace: the first makes the namespaces, and is outside of the new pid namespace; the
//! second is its first child, and therefore the first process in that namespace. When it ends, the kernel ends every other process in there.
//!
//! Nothing foreign runs in this process, and it reads nothing that a container writes.

mod chroot;
mod containers;
mod init;
mod mounts;
mod namespaces;
mod network;
mod process;
mod processes;
mod roots;

use std::io;
use std::process::ExitCode;

use crate::protocol::{self, Report};
pub(crate) use chroot::FIRST_STAGE as CHROOT_STAGE;
pub use chroot::{end_descendants, end_orphans};
pub(crate) use process::FIRST_STAGE as PROCESS_STAGE;

/// The argument that starts the second stage.
const SECOND_STAGE: &str = "init";

/// Does the work of the host until nothing needs it. The arguments of this program say which stage it is.
pub fn main() -> ExitCode {
    let last = std::env::args_os().next_back();
    let result = match last.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some(SECOND_STAGE) => init::run(),
        Some(chroot::FIRST_STAGE) => chroot::run(),
        Some(chroot::SECOND_STAGE) => chroot::run_program(),
        Some(process::FIRST_STAGE) => process::run(),
        Some(process::SECOND_STAGE) => Ok(process::run_program()),
        _ => namespaces::run(),
    };
    match result {
        Ok(code) => code,
        Err(refusal) => {
            // There may be no reader any more.
            let Refusal { step, cause } = refusal;
            let report = Report::Refused { step: step.to_owned(), cause: cause.to_string() };
            let _ = protocol::send(&io::stdin(), &report, &[]);
            ExitCode::FAILURE
        }
    }
}

/// What this machine did not let us do.
#[derive(Debug)]
struct Refusal {
    step: &'static str,
    cause: io::Error,
}

/// Names the step that failed. It completes "this machine does not allow the process to".
trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, Refusal>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: &'static str) -> Result<T, Refusal> {
        self.map_err(|cause| Refusal { step, cause: cause.into() })
    }
}
