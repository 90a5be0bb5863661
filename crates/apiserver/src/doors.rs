//! The ways in.

pub mod https;
mod service;

pub use service::Door;
pub(crate) use service::Nearby;
