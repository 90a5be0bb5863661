//! What tests need: a control plane in one line, programs and the lines they write, function servers that do as they are
//! told, servers that do as no server should, and certificates. Never shipped.

mod api_client;
mod background;
mod git_server;
mod kubelet;
mod pki;
mod process;
mod registry;
mod server;
mod sigstore;
mod skip;
mod tcp;

#[cfg(feature = "plane")]
pub mod plane;
pub mod raw;

pub use api_client::{ApiAddress, ApiAnswer, ApiClient, ApiWatch, RawConnection};
pub use git_server::{GitManner, GitServer, git};
pub use kubelet::{ExecScript, ExecStep, Kubelet};
pub use pki::{Leaf, Pki};
pub use process::Process;
pub use registry::{DebianRegistry, RegistrySetup, program};
pub use server::{FunctionServer, Versions};
pub use sigstore::{KeylessSigner, KeylessStatement, Sigstore};
pub use skip::{skip, skip_containers};
pub use tcp::{TcpServer, forward, free_port, free_ports};
