//! Days, points in time and durations, as Go's `time` reads and writes them. There is no clock.

pub mod calendar;
pub mod duration;
pub mod rfc3339;
