//! A Kubernetes API in a process. Knows no kind of ours.

mod access;
mod addresses;
mod admission;
mod answer;
pub mod audit;
pub mod auth;
mod bootstrap;
pub mod certificates;
pub mod chance;
mod discovery;
pub mod doors;
mod hexadecimal;
mod janitors;
pub mod kubeconfig;
pub mod limits;
mod metrics;
mod moment;
mod negotiate;
mod openapi;
mod options;
mod private_file;
mod registry;
mod request;
mod server;
pub mod store;
mod verbs;
mod webhooks;

pub use answer::Body;
pub use server::{Server, Settings};
pub use webhooks::Insider;
