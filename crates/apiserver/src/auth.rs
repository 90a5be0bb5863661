//! Who asks, and whether they may.

pub mod authenticate;
pub mod identity;
pub mod rbac;
