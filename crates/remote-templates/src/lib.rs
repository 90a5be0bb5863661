//! Fetches templates that steps read from elsewhere: artefacts in registries, and commits of repositories of git.
//!
//! # Invariants
//! * Nothing is fetched from a location that is not allowed, and nothing that is not named by a digest or a commit.
//! * A reconcile never waits for the network: [`Fetcher::get`] tells what is there, and lets the rest be fetched meanwhile.
//! * What is fetched is bounded in time, bytes and number of files, and never executed: no hook, no filter, no helper.
//! * What failed is not tried again at once, however many ask for it.

mod artifact;
mod cache;
mod error;
mod fetcher;
mod files;
mod git;

use std::path::PathBuf;
use std::time::Duration;

use ferroplane_image::registry;

pub use error::Error;
pub use fetcher::Fetcher;

/// From where templates are fetched, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Hosts, or hosts with the beginning of a path, that templates may come from.
    pub allowed: Vec<String>,
    /// A directory that keeps what was fetched. Without one, it is kept in memory alone.
    pub directory: Option<PathBuf>,
    pub registry: registry::Options,
    /// The program that fetches from repositories of git.
    pub git: PathBuf,
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        let (allowed, directory, registry) = (Vec::new(), None, registry::Options::default());
        Self { allowed, directory, registry, git: "git".into(), limits: Limits::default() }
    }
}

/// What may be fetched.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long it may take.
    pub time: Duration,
    /// How many bytes may be transferred: more than the templates, since a commit comes with all its files.
    pub transfer: u64,
    /// How many bytes the templates have together.
    pub bytes: u64,
    pub files: usize,
    /// How long a failure holds before it is tried again.
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_mins(1),
            transfer: 64 << 20,
            bytes: 4 << 20,
            files: 1000,
            pause: Duration::from_secs(15),
        }
    }
}
