//! Why a program could not be run.

use std::io;
use std::path::PathBuf;

/// Why a program could not be run, or was stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot run containers: neither `crun` nor `runc` is in a directory of `PATH`; on Debian, install the package `crun`"
    )]
    NoEngine,

    #[error("cannot run containers: this machine does not allow the process to {step} ({cause}); {remedy}")]
    Forbidden { step: String, cause: String, remedy: &'static str },

    #[error("cannot start the process that runs containers")]
    Host(#[source] io::Error),

    #[error(
        "cannot run the container: the process that runs containers ended; the next call starts it again"
    )]
    HostEnded,

    #[error("cannot derive the configuration of the container from the image")]
    Spec(#[from] SpecError),

    #[error("cannot start the container: {message}")]
    Start { message: String },

    #[error("cannot start the program: {message}")]
    Program { message: String },

    #[error(
        "cannot run the program with another root directory: this machine does not allow the process to {step} ({cause})"
    )]
    NoChroot { step: String, cause: String },

    #[error(
        "cannot run `{program}` of the image as a process: {why}; only a static executable runs without a container, such as one that Go \
         builds with CGO_ENABLED=0"
    )]
    NotStatic { program: String, why: NotStatic },

    #[error("cannot finish the call: the program exceeded its limit of {0}")]
    Exceeded(Limit),

    #[error("cannot run the container: {waiting} calls are waiting already; try again later")]
    QueueFull { waiting: usize },

    #[error("cannot connect to port {port} of the program: {message}")]
    Connect { port: u16, message: String },

    #[error("cannot serve: the program did not listen on port {port} within {seconds} s")]
    Silent { port: u16, seconds: u64 },

    #[error("cannot serve: the program ended ({how}) before it listened on port {port}")]
    EndedEarly { port: u16, how: String },

    #[error("the program ended within {seconds} s ({how})")]
    EndedAtOnce { seconds: u64, how: String },

    #[error("cannot use the directory `{path}` for containers")]
    State { path: PathBuf, source: io::Error },

    #[error("cannot pass data to the container")]
    Pass(#[source] io::Error),
}

impl Error {
    /// Whether this machine runs no containers at all: it has no runtime, or forbids them. Other failures may pass.
    pub fn forbids_containers(&self) -> bool {
        matches!(self, Self::NoEngine | Self::Forbidden { .. })
    }
}

/// Why a program needs its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotStatic {
    #[error("it is not in the image")]
    Missing,
    #[error("it is a script")]
    Script,
    #[error("it needs libraries of its image")]
    Dynamic,
    #[error("it is for another processor")]
    OtherMachine,
    #[error("it is no executable of Linux")]
    Unknown,
}

/// Which limit a program exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Limit {
    Time,
    CpuTime,
    Memory,
    Processes,
    Output,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Time => "time",
            Self::CpuTime => "processor time",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Output => "output",
        })
    }
}

/// What is wrong with an image or with what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("cannot read the image configuration")]
    ImageConfig(#[source] serde_json::Error),

    #[error("the image has neither `Entrypoint` nor `Cmd`: give the command, or build the image with one")]
    NoCommand,

    #[error("the user `{user}` is not in the image: add it to `/etc/passwd` or `/etc/group`, or use numbers")]
    User { user: String },

    #[error("the working directory `{directory}` is not an absolute path without `..`")]
    WorkingDirectory { directory: String },

    #[error("the variable `{variable}` has no name and value")]
    Variable { variable: String },

    #[error("{what} contains a NUL byte")]
    Nul { what: &'static str },

    #[error("the directory `{path}` of the image cannot be used: it is not an absolute path in UTF-8")]
    Rootfs { path: PathBuf },

    #[error(
        "the directory `{path}` cannot be shared: both paths have to be absolute, without `..`, and in UTF-8"
    )]
    Shared { path: PathBuf },
}
