//! Append-only logs of bounded size, in the files of a directory or in memory.
//!
//! A [`SegmentLog`] is a row of segments: frames are appended to the newest one, and the oldest one is dropped to stay within the limit.
//! A segment begins with a [`FileFormat`], which says what it is and in which version; a frame is content with its length and
//! checksum. What the content means is known to the crate that writes it.
//!
//! # Invariants
//! * A segment that was written is never changed, only dropped as a whole. A process that starts begins a segment of its own, so that
//!   whatever a crash left half written stays where it is, and others can read while one writes.
//! * One process writes to a directory at a time.
//! * Segments of a later version are refused, never changed and never dropped.
//! * Whatever is in the files, reading them does not fail: frames are found up to the first one that is not what was written.

mod format;
mod frame;
mod lock;
mod log;

pub use format::{FileFormat, LaterVersion};
pub use frame::{Frame, frame};
pub use log::{Limits, OpenError, Position, SegmentLog, segment_files};
