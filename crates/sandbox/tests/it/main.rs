//! Containers on this machine: calls, servers, limits, attacks, and what is left behind.
//!
//! Where the machine does not allow containers, or has no runtime, each test prints why it is skipped.

mod attacks;
mod calls;
mod chroots;
mod hosts;
mod leftovers;
mod many;
mod processes;
mod programs;
mod runaways;
mod servers;
mod support;
