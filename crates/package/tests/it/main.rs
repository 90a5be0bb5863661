//! Packages from the outside: what is read from images and directories, what is written, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to stop")]

mod fixture;
mod flips;
mod keyless;
mod open;
mod source;
mod write;
