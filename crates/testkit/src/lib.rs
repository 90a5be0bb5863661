//! What tests need: function servers that do as they are told, and certificates. Never shipped.

mod pki;
mod server;

pub use pki::{Leaf, Pki};
pub use server::{FunctionServer, Versions};
