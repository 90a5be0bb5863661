//! The secret that templates draw their random values from: the key of the control plane's authority, which outlives processes.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ferroplane_offline::replay::Recordings;

/// Has templates print the random values of the control plane with this data directory.
pub(crate) fn draw_from(data_dir: &Path) -> anyhow::Result<()> {
    let key = key_in(data_dir);
    let secret = std::fs::read(&key).with_context(|| format!("cannot read {}", key.display()))?;
    ferroplane_functions::set_secret(&secret);
    Ok(())
}

/// Has templates print the random values that were recorded, if the key of the control plane is beside its recordings.
pub(crate) fn draw_as_recorded(recordings: &Recordings) -> anyhow::Result<()> {
    match recordings {
        Recordings::DataDirectory(directory) if key_in(directory).exists() => draw_from(directory),
        // A file that was exported has no secrets.
        Recordings::DataDirectory(_) | Recordings::Path(_) => Ok(()),
    }
}

fn key_in(data_dir: &Path) -> PathBuf {
    data_dir.join("certificates").join("ca.key")
}
