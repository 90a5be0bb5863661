//! Arguments that say where recordings are, and which one is meant.

use std::path::PathBuf;

use ferroplane_offline::replay::{Recordings, Selector};
use jiff::{SignedDuration, Timestamp};

use crate::duration;
use crate::up::data_directory;

/// Where recordings are
#[derive(Debug, clap::Args)]
pub(crate) struct RecordingsLocation {
    /// Data directory of the control plane [default: that of `ferroplane up`]
    #[arg(long, value_name = "DIR", env = "FERROPLANE_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// File that `ferroplane replay export` wrote, or directory of recordings, instead of those in the data directory
    #[arg(long, value_name = "PATH")]
    recordings: Option<PathBuf>,
}

/// Which recording
#[derive(Debug, clap::Args)]
pub(crate) struct RecordingSelector {
    /// ID of a recording, or `KIND/NAME` for the last one of an object
    #[arg(value_name = "ID|KIND/NAME")]
    which: Option<String>,

    /// The namespace of the object
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Last recording that started at or before this time: a timestamp (2026-01-31T12:00:00Z) or an age (2h)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<Timestamp>,
}

/// A time, or how long ago it was. For `clap`.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let expected = || format!("expected a timestamp (2026-01-31T12:00:00Z) or an age (2h), got `{text}`");
    let ago = duration::parse_age(text).ok_or_else(expected)?;
    let ago = SignedDuration::try_from(ago).map_err(|error| error.to_string())?;
    Timestamp::now().checked_sub(ago).map_err(|error| error.to_string())
}

impl RecordingsLocation {
    pub(crate) fn recordings(&self) -> anyhow::Result<Recordings> {
        locate(self.data_dir.clone(), self.recordings.clone())
    }
}

impl From<RecordingSelector> for Selector {
    fn from(arguments: RecordingSelector) -> Self {
        let RecordingSelector { which, namespace, at } = arguments;
        Self { which, namespace, at }
    }
}

/// The recordings at a path of their own, or else those in a data directory.
pub(crate) fn locate(data_dir: Option<PathBuf>, recordings: Option<PathBuf>) -> anyhow::Result<Recordings> {
    match recordings {
        Some(path) => Ok(Recordings::Path(path)),
        None => Ok(Recordings::DataDirectory(data_dir.map_or_else(data_directory, Ok)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_or_ages() {
        assert_eq!(parse_time("2026-01-31T12:00:00Z").unwrap().to_string(), "2026-01-31T12:00:00Z");
        assert!(parse_time("2h").unwrap() < Timestamp::now());
        assert!(parse_time("3d4h").unwrap() < parse_time("75h").unwrap());
        assert!(parse_time("yesterday").is_err());
    }
}
