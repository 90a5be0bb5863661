//! The functions that are reproduced, as programs.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use ferroplane_runner::{Command, Program, grpc};

/// The directory with the originals, unless the user names another one.
pub(crate) fn directory() -> PathBuf {
    let home = std::env::home_dir().unwrap_or_else(std::env::temp_dir);
    home.join(".cache/ferroplane/originals/bin")
}

/// A function that is reproduced.
#[derive(Debug)]
pub(crate) struct Original {
    /// The version in its file name, or `newest`.
    pub(crate) version: String,
    path: PathBuf,
}

impl Original {
    /// Every version of the function in the directory, in order.
    pub(crate) fn find(directory: &Path, function: &str) -> Result<Vec<Self>> {
        let entries =
            std::fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let version = match name.strip_prefix(function) {
                Some("") => "newest",
                Some(rest) => match rest.strip_prefix('@') {
                    Some(version) => version,
                    None => continue,
                },
                None => continue,
            };
            found.push(Self { version: version.to_owned(), path: path.clone() });
        }
        found.sort_by_cached_key(|original| order(&original.version));
        Ok(found)
    }

    pub(crate) async fn start(&self) -> Result<Program> {
        let command = Command::parse(&format!("'{}'", self.path.display()), ".")?;
        Program::start(&command, grpc::Options::default())
            .await
            .with_context(|| format!("cannot start {}", self.path.display()))
    }
}

/// Versions in the order of their numbers: v0.9.3 comes before v0.10.0.
fn order(version: &str) -> (Vec<u64>, String) {
    let parts = version.split(|letter: char| !letter.is_ascii_digit());
    (parts.filter_map(|part| part.parse().ok()).collect(), version.to_owned())
}
