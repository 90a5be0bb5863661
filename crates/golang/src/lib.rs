//! Text as Go reads and writes it. Pure: no I/O, no clock, no randomness.
//!
//! Kubernetes, Crossplane and its functions are Go programs. What they accept, what they print and how they word a
//! mistake is part of the formats that users know, so it is reproduced here, once. Modules are named after the Go
//! packages whose behaviour they have. Knows nothing of Kubernetes.
//!
//! Our own design: one module for each package of Go; every module names what it follows.

pub mod base64;
pub mod cron;
pub mod fmt;
pub mod json;
pub mod netip;
pub mod path;
pub mod regexp;
pub mod semver;
pub mod strconv;
pub mod time;
pub mod unicode;
pub mod url;
pub mod yaml;
