//! Finds the OCI runtime that starts containers: `crun`, else `runc`.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// An OCI runtime on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    pub kind: EngineKind,
    pub program: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineKind {
    Crun,
    Runc,
}

impl Engine {
    /// The best runtime in the directories of `PATH`, and in those where distributions put it.
    pub fn detect() -> Result<Self, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::detect_in(&path).ok_or(Error::NoEngine)
    }

    /// The given runtime, wherever it is.
    pub fn of_kind(kind: EngineKind) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::find(kind, &path)
    }

    fn detect_in(path: &OsStr) -> Option<Self> {
        [EngineKind::Crun, EngineKind::Runc].into_iter().find_map(|kind| Self::find(kind, path))
    }

    fn find(kind: EngineKind, path: &OsStr) -> Option<Self> {
        // Debian has runc in a directory that is not in every user's `PATH`.
        let usual = ["/usr/bin", "/usr/sbin"].map(PathBuf::from);
        std::env::split_paths(path)
            .filter(|directory| directory.is_absolute())
            .chain(usual)
            .map(|directory| directory.join(kind.name()))
            .find(|program| is_executable(program))
            .map(|program| Self { kind, program })
    }
}

impl EngineKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
        }
    }
}

fn is_executable(program: &Path) -> bool {
    program.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(directory: &Path, name: &str, mode: u32) {
        let path = directory.join(name);
        std::fs::write(&path, "").expect("program");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
    }

    #[test]
    fn crun_is_preferred_wherever_it_is() {
        let (first, second) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        program(first.path(), "runc", 0o755);
        program(first.path(), "crun", 0o644);
        program(second.path(), "crun", 0o755);
        let path = std::env::join_paths([first.path(), second.path()]).expect("path");
        let engine = Engine::detect_in(&path).expect("engine");
        assert_eq!(engine, Engine { kind: EngineKind::Crun, program: second.path().join("crun") });
    }

    #[test]
    fn relative_directories_are_not_searched() {
        assert!(
            Engine::find(EngineKind::Crun, OsStr::new(".")).is_none_or(|engine| engine.program.is_absolute())
        );
    }
}
