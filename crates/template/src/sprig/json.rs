//! JSON as Go's `encoding/json` reads and writes it.
//!
//! Numbers that are read are always floats. What is written has its keys in order.
//!
//! Follows Go 1.26, `encoding/json`.

mod decode;
mod encode;

pub(super) use decode::decode;
pub(super) use encode::{COMPACT, PRETTY, RAW, Style, encode};
