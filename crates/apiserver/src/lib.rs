//! A Kubernetes API in a process. Knows no kind of ours.

mod admission;
pub mod audit;
pub mod auth;
mod builtin;
pub mod certificates;
mod clock;
mod controllers;
mod discovery;
pub mod flow_control;
mod hexadecimal;
pub mod listeners;
mod metrics;
mod negotiate;
mod openapi;
mod options;
pub mod private_file;
pub mod random;
mod registry;
mod request;
mod response;
mod server;
pub mod store;
mod verbs;
mod webhooks;

pub use response::Body;
pub use server::{EndpointPath, EndpointRequest, InProcessEndpoint, PageStream, Server, Settings};
pub use webhooks::InProcessWebhook;
