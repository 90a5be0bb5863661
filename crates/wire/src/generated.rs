//! Rust types of the `.proto` files, written by `cargo xtask codegen`. Not to be edited.
#![allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    deprecated,
    reason = "the generator's style, not ours"
)]

#[rustfmt::skip]
pub mod v1;
#[cfg(feature = "service")]
#[rustfmt::skip]
pub(crate) mod v1beta1;
#[rustfmt::skip]
pub mod render;
#[rustfmt::skip]
pub(crate) mod tables;
