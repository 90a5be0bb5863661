//! Days, points in time and durations, as Go's `time` reads and writes them. There is no clock.
//!
//! Follows Go 1.26, `time`.

pub mod calendar;
pub mod duration;
pub mod layout;
mod quote;
pub mod rfc3339;
pub mod zone;
