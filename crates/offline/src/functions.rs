//! Reads Functions in manifests, without calling them.

pub mod used;
