//! What tests need: function servers that do as they are told, servers that do as no server should, and
//! certificates. Never shipped.

mod api_client;
mod background;
mod pki;
mod server;
mod tcp;

pub mod raw;

pub use api_client::{ApiAddress, ApiAnswer, ApiClient, ApiWatch};
pub use pki::{Leaf, Pki};
pub use server::{FunctionServer, Versions};
pub use tcp::{TcpServer, forward};
