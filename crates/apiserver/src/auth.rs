//! Who asks, and whether they may.

pub mod authenticate;
pub(crate) mod authorizer;
pub mod identity;
pub mod rbac;
