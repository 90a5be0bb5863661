//! Images from the outside: registries, the content store, what is unpacked, built and imported, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to stop")]

mod archive;
mod build;
mod peers;
mod raw_tar;
mod registry;
mod roots;
mod store;
mod unpack;
