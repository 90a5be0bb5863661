//! The function protocol: what the plane says to a function, and what a function says back.
//!
//! Messages are those of Crossplane's protocol ([`v1`]; `v1beta1` differs only in name). Two of them are made
//! to be shared: a [`Struct`] is a JSON object that is encoded at most once and decoded at most once, however
//! many requests carry it, and a [`State`] is a composite resource and what it is composed of, likewise.
//!
//! # Invariants
//! * The same content always has the same [`tag()`], whatever order a function put its map entries in.
//! * Nothing here trusts a peer: depth is limited, numbers are finite, text is UTF-8, or there is an error.
//! * This crate knows no kind of Kubernetes object.

mod codec;
mod generated;
mod json;
mod message;
mod state;
mod structs;
mod tag;

pub use codec::{MAX_DEPTH, StructError};
pub use generated::{render, v1};
pub use json::{Described, JsonError, from_json, merge_json, to_json};
pub use message::{BadResponse, MAX_ENTRIES, capabilities, check};
pub use state::State;
pub use structs::Struct;
pub use tag::{tag, to_hex};

/// The full method paths of the protocol, newest first.
pub mod methods {
    /// What functions serve today.
    pub const V1: &str = "/apiextensions.fn.proto.v1.FunctionRunnerService/RunFunction";
    /// What functions built before v1 serve.
    pub const V1BETA1: &str = "/apiextensions.fn.proto.v1beta1.FunctionRunnerService/RunFunction";
}

/// The server side of the protocol, for programs that are functions.
#[cfg(feature = "service")]
pub mod service {
    pub use crate::generated::v1::function_runner_service_server as v1;
    pub use crate::generated::v1beta1::function_runner_service_server as v1beta1;
}
