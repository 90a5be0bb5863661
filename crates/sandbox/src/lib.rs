//! Runs foreign programs in OCI containers, within limits, and cleans up after them.
//!
//! Knows neither Kubernetes nor the function protocol: bytes go in, bytes come out. [`Runtime::call`] runs a program once, with bytes
//! on its standard input and bytes from its standard output. [`Runtime::serve`] keeps a server running and connects to it; a program that
//! is no server is kept running by it, too, and reaches the addresses that a [`Forward`] leads to.
//! Where containers cannot be run, [`Processes::serve`] keeps a static executable running as a process.
//! `docs/containers.md` says what holds a program back, and which limit holds where.
//!
//! # How
//!
//! A second process, the *host* ([`host`]), is the first process of a pid namespace, in user and mount namespaces of its own. It starts
//! `crun` or `runc` for each container. All that containers need lies in a tmpfs that only its mount namespace has.
//!
//! # Invariants
//! * Every process of a container descends from the host. When the host ends, the kernel ends them all and drops all mounts and files.
//! * The host ends when this process ends, however it ends: it holds the other end of a socket.
//! * The ledger names a host before it may start anything, and is read before the next one is started.
//! * What programs are given in files, such as keys, goes with them. What a killed process leaves goes when the next one starts.
//! * A program has no capabilities, and an unprivileged user even if we are root.

mod cgroups;
mod container;
mod engine;
mod error;
mod executable;
pub mod host;
mod input;
mod ledger;
mod limits;
mod lines;
mod protocol;
mod queue;
mod runtime;
mod spec;
mod users;
mod workspace;

pub use cgroups::CgroupChoice;
pub use container::{Container, ImageConfig, SharedDirectory};
pub use engine::{Engine, EngineKind};
pub use error::{Error, Limit, NotStatic, SpecError};
pub use limits::{Grants, Limits, Network};
pub use lines::{Budget, Line, LineSink, hand_on};
pub use runtime::{
    Call, Chroots, Connector, Forward, Options, Output, Processes, Runtime, Serve, ServeProcess, Server,
    ServerState, Usage, remove_leftovers,
};
pub use users::file_owner;
pub use workspace::{Workspace, remove_abandoned};
