//! A test program of the workspace, built once for every chore that runs it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::shell::{Shell, cargo, program};

/// `cargo test`, for everything that the workspace has.
///
/// A smaller selection would give dependencies other features, and cargo would compile most of them again.
pub(crate) fn cargo_test(root: &Path) -> Shell {
    cargo(root, &["test", "--workspace", "--all-features"])
}

/// The program of one package that holds its integration tests.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) executable: PathBuf,
    /// The folder of the package, in which cargo runs tests.
    pub(crate) directory: PathBuf,
}

impl Suite {
    /// Build what is in `tests/it` of a package.
    pub(crate) fn build(root: &Path, folder: &str) -> Result<Self> {
        let mut build = cargo_test(root);
        build.args(["--test", "it", "--no-run", "--message-format=json-render-diagnostics"]);
        let directory = root.join(folder);
        let messages = build.standard_output()?;
        let executable = find(&messages, &directory.join("Cargo.toml"));
        let executable = executable.with_context(|| format!("{folder} has no test program `it`"))?;
        Ok(Self { executable, directory })
    }

    /// A command that runs tests. Arguments and variables are for the caller to add.
    pub(crate) fn command(&self) -> Shell {
        let mut command = program(&self.executable);
        command.current_dir(&self.directory);
        command
    }
}

/// The test program of the package with this manifest, among what cargo says that it has built.
fn find(messages: &str, manifest: &Path) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| {
        message["reason"] == "compiler-artifact"
            && message["target"]["name"] == "it"
            && message["manifest_path"].as_str().map(Path::new) == Some(manifest)
    });
    built.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_program_is_the_one_of_its_package() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml","target":{"name":"a"},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/r/crates/a/Cargo.toml","target":{"name":"it"},"executable":"/t/it-1"}
{"reason":"compiler-artifact","manifest_path":"/r/crates/b/Cargo.toml","target":{"name":"it"},"executable":"/t/it-2"}
{"reason":"build-finished","success":true}
"#;
        let found = |package: &str| find(messages, &Path::new("/r/crates").join(package).join("Cargo.toml"));
        assert_eq!(found("b"), Some(PathBuf::from("/t/it-2")));
        assert_eq!(found("c"), None);
    }
}
