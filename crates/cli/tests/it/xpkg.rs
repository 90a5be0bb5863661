//! `ferroplane xpkg`, with registries and with Crossplane's command line.

mod build;
mod dependencies;
mod install;
mod registry;
mod upstream;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::plane::ferroplane;
use crate::sandbox::Ran;

const FUNCTION: &str =
    "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-example}\n";
const CONFIGURATION: &str =
    "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: platform}\n";
const COMPOSITION: &str = "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata:
  name: apps
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  mode: Pipeline
  pipeline: []
";
const EXAMPLE: &str = "# An example.\napiVersion: example.org/v1\nkind: App\nmetadata: {name: hello}\n";

/// A directory to work in, with a cache of images of its own.
pub(crate) struct Workshop {
    directory: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// A Configuration with an object and an example in this directory.
    fn configuration(&self, name: &str) -> &Self {
        self.write(&format!("{name}/crossplane.yaml"), CONFIGURATION);
        self.write(&format!("{name}/apis/composition.yaml"), COMPOSITION);
        self.write(&format!("{name}/examples/app.yaml"), EXAMPLE)
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = ferroplane(self.directory.path(), &["xpkg"]);
        command.args(arguments).env_remove("XDG_CACHE_HOME").env_remove("DOCKER_CONFIG");
        command
    }

    /// What a command prints that succeeds.
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}\n{}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// What a command complains about that fails.
    fn fails(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}\n{}{}", ran.stdout, ran.stderr);
        ran.stderr
    }

    /// Build a Function package whose program is this executable.
    pub(crate) fn pack_function(&self, program: &Path, file: &str) {
        self.pack_function_as(FUNCTION, program, file);
    }

    /// The same, with this `crossplane.yaml`.
    pub(crate) fn pack_function_as(&self, manifest: &str, program: &Path, file: &str) {
        self.write("function/crossplane.yaml", manifest);
        fs::create_dir_all(self.path("bin")).unwrap();
        fs::copy(program, self.path("bin/function")).unwrap();
        self.says(&[
            "build",
            "-f",
            "function",
            "-o",
            file,
            "--embed-runtime-image",
            "bin",
            "--entrypoint",
            "/function",
        ]);
    }

    /// Build a package with a manifest of its own, and push it.
    fn publish(&self, manifest: &str, reference: &str) -> String {
        let directory = reference.replace(['/', ':', '.'], "-");
        self.write(&format!("{directory}/crossplane.yaml"), manifest);
        let file = format!("{directory}.xpkg");
        self.says(&["build", "-f", &directory, "-o", &file]);
        self.says(&["push", reference, "-f", &file]).trim().to_owned()
    }
}

/// A file, uncompressed.
fn uncompressed(path: &Path) -> String {
    let mut text = String::new();
    let file = fs::File::open(path).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
    text
}
