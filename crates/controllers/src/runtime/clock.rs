//! The clock for times that are written to objects.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Returns the time. Tests use clocks of their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn timestamp(&self) -> Timestamp {
        (self.0)()
    }

    /// The time in RFC 3339, to the microsecond, as leases have it.
    pub(crate) fn micros(&self) -> String {
        (self.0)().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
    }

    /// The time in RFC 3339, to the second, as the API has it.
    pub(crate) fn now(&self) -> String {
        let now = (self.0)();
        Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    /// The milliseconds since 1970.
    pub(crate) fn milliseconds(&self) -> u64 {
        u64::try_from((self.0)().as_millisecond()).unwrap_or_default()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
