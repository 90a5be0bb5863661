//! The files of a program: when one of them changes, the program is restarted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ferroplane_runner::Command;

/// How deep directories are looked into.
const MAX_DEPTH: usize = 8;
/// Directories that are made of others, and change by themselves.
const IGNORED: [&str; 4] = ["node_modules", "target", "__pycache__", "venv"];
/// Manifests are applied, not run.
const MANIFESTS: [&str; 3] = ["yaml", "yml", "json"];

/// The files of a program, and what they looked like.
#[derive(Debug)]
pub(super) struct Sources {
    roots: Vec<Root>,
    seen: BTreeMap<PathBuf, Look>,
}

/// Where files of a program are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Root {
    File(PathBuf),
    /// All files below it with this extension or, without one, that are no manifests.
    Directory(PathBuf, Option<String>),
}

/// When a file was last written, and how large it is.
type Look = (SystemTime, u64);

impl Sources {
    /// The files that a command names: the program itself, files and directories among its arguments, and what lies beside such a
    /// file, or below, and has the same extension (`fn.py` beside `main.py`).
    pub(super) fn of(command: &Command) -> Self {
        let mut roots = Vec::new();
        for (position, word) in command.words().enumerate() {
            // A program without a path is looked up elsewhere.
            if position == 0 && !word.contains('/') || word.starts_with('-') {
                continue;
            }
            let path = command.directory().join(word);
            if path.is_dir() {
                roots.push(Root::Directory(path, None));
            } else if path.is_file() {
                let siblings = path.extension().and_then(OsStr::to_str).zip(path.parent());
                roots.extend(siblings.map(|(extension, parent)| {
                    Root::Directory(parent.to_owned(), Some(extension.to_owned()))
                }));
                roots.push(Root::File(path));
            }
        }
        let seen = look(&roots);
        Self { roots, seen }
    }

    /// A file that has changed, appeared or gone since this was last asked.
    pub(super) fn take_change(&mut self) -> Option<PathBuf> {
        let now = look(&self.roots);
        let differs = |path: &&PathBuf| now.get(*path) != self.seen.get(*path);
        let changed = now.keys().chain(self.seen.keys()).find(differs).cloned();
        self.seen = now;
        changed
    }
}

fn look(roots: &[Root]) -> BTreeMap<PathBuf, Look> {
    let mut seen = BTreeMap::new();
    for root in roots {
        match root {
            Root::File(path) => see(path, &mut seen),
            Root::Directory(path, extension) => walk(path, extension.as_deref(), MAX_DEPTH, &mut seen),
        }
    }
    seen
}

fn see(path: &Path, seen: &mut BTreeMap<PathBuf, Look>) {
    if let Ok(info) = std::fs::metadata(path)
        && let Ok(modified) = info.modified()
    {
        seen.insert(path.to_owned(), (modified, info.len()));
    }
}

fn walk(directory: &Path, extension: Option<&str>, depth: usize, seen: &mut BTreeMap<PathBuf, Look>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') || IGNORED.contains(&name.as_ref()) {
            continue;
        }
        let found = path.extension().and_then(OsStr::to_str);
        match entry.file_type() {
            // Not what links lead to: they may lead in circles.
            Ok(kind) if kind.is_dir() => walk(&path, extension, depth, seen),
            Ok(_)
                if extension
                    .map_or(!found.is_some_and(|it| MANIFESTS.contains(&it)), |it| found == Some(it)) =>
            {
                see(&path, seen);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(command: &str, directory: &Path) -> Sources {
        Sources::of(&Command::parse(command, directory).unwrap())
    }

    #[test]
    fn program_its_files_and_their_neighbours_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        };
        write("main.py", "1");
        write("lib/fn.py", "1");
        write("xr.yaml", "1");
        write("venv/x.py", "1");
        let mut python = sources("python main.py --insecure --address={address}", directory.path());
        assert_eq!(python.take_change(), None);
        for name in ["xr.yaml", "venv/x.py", "notes.txt"] {
            write(name, "other");
            assert_eq!(python.take_change(), None, "{name}");
        }
        for name in ["main.py", "lib/fn.py", "new.py"] {
            write(name, "other text");
            assert_eq!(python.take_change(), Some(directory.path().join(name)));
        }
        std::fs::remove_file(directory.path().join("new.py")).unwrap();
        assert_eq!(python.take_change(), Some(directory.path().join("new.py")));
    }

    #[test]
    fn program_that_is_built_and_directory_that_is_run_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fn");
        std::fs::write(&path, "1").unwrap();
        let mut built = sources("./fn --debug", directory.path());
        let mut run = sources("go run .", directory.path());
        std::fs::write(&path, "other").unwrap();
        assert_eq!(built.take_change(), Some(path));
        assert!(run.take_change().is_some());
        assert_eq!(sources("fn", directory.path()).roots, []);
    }
}
