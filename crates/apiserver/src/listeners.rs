//! How requests reach the server: over HTTPS, or in this process.

pub mod https;
mod service;

pub use service::HttpService;
pub(crate) use service::{Abandoned, InProcess};
