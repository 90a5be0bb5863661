//! What had happened to an object when it was paused, so that it is not held against the object again.

use std::fmt;

use ferroplane_golang::time::rfc3339;

use super::SEEN;
use crate::fleet::text;
use crate::selection::JsonObject;

/// What had happened to an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// How many events there were about it.
    pub(super) events: u64,
    /// When the last of it happened, in seconds since 1970.
    pub(super) until: i64,
    /// The same as it was written.
    text: String,
}

impl Seen {
    pub(super) fn new(events: u64, time: &str) -> Self {
        Self { events, until: seconds(time).unwrap_or(i64::MIN), text: time.to_owned() }
    }

    /// What the annotation of an object says. An annotation that says something else counts for nothing.
    pub(super) fn of(object: &JsonObject) -> Option<Self> {
        let annotation = text(object, &["metadata", "annotations", SEEN]);
        let (time, events) = annotation.split_once(' ')?;
        // An annotation that a user garbled must not make everything that happened count as seen.
        seconds(time)?;
        Some(Self::new(events.strip_suffix(" events")?.parse().ok()?, time))
    }

    pub(super) fn later(self, other: Self) -> Self {
        let events = self.events.max(other.events);
        if other.until > self.until { Self { events, ..other } } else { Self { events, ..self } }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} events", self.text, self.events)
    }
}

/// A time in seconds since 1970.
pub(super) fn seconds(text: &str) -> Option<i64> {
    rfc3339::moment(text).map(|moment| moment.seconds)
}
