//! A directory of files to run the binary in.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A directory of files, and the binary to run in it.
pub(crate) struct Sandbox {
    directory: TempDir,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) const XR: &str = "
apiVersion: example.org/v1
kind: App
metadata:
  name: app
  namespace: default
spec:
  size: small
";

/// A composition of steps, each of a function and its input as YAML in one line.
pub(crate) fn composition(steps: &[(&str, &str, &str)]) -> String {
    let mut text = String::from(
        "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata:
  name: app
spec:
  compositeTypeRef:
    apiVersion: example.org/v1
    kind: App
  mode: Pipeline
  pipeline:
",
    );
    for (step, function, input) in steps {
        text += &format!("  - step: {step}\n    functionRef:\n      name: {function}\n");
        if !input.is_empty() {
            text += &format!("    input: {input}\n");
        }
    }
    text
}

/// A step that answers with this response, as YAML in one line.
pub(crate) fn dummy(response: &str) -> String {
    format!("{{apiVersion: dummy.fn.crossplane.io/v1beta1, kind: Response, response: {response}}}")
}

/// A Function with these annotations.
pub(crate) fn function(name: &str, annotations: &[(&str, &str)]) -> String {
    let mut text = format!(
        "---\napiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata:\n  name: {name}\n  annotations:\n"
    );
    for (key, value) in annotations {
        text += &format!("    {key}: {value:?}\n");
    }
    text += &format!("spec:\n  package: registry.example/acme/{name}:v1.0.0\n");
    text
}

/// A Function that is served at this address.
pub(crate) fn served(name: &str, address: &str) -> String {
    function(
        name,
        &[
            ("render.crossplane.io/runtime", "Development"),
            ("render.crossplane.io/runtime-development-target", address),
        ],
    )
}

/// A Function that this command starts.
pub(crate) fn started(name: &str, command: &str) -> String {
    function(name, &[("render.ferroplane.io/command", command)])
}

impl Sandbox {
    /// A sandbox with an XR and nothing else.
    pub(crate) fn new() -> Self {
        let sandbox = Self { directory: TempDir::new().unwrap() };
        sandbox.with("xr.yaml", XR)
    }

    /// Add a file.
    pub(crate) fn with(self, name: &str, content: &str) -> Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The binary, to be run here.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroplane"));
        command.args(arguments).current_dir(self.directory.path()).stdin(Stdio::null());
        // Not that of the process that runs the tests, but one for all of them: some of what is kept there is expensive.
        command.env("TZ", "UTC").env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
        command
    }

    /// Run the binary here.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().unwrap().into()
    }

    /// `render xr.yaml composition.yaml` and the functions there are, with these flags.
    pub(crate) fn render(&self, flags: &[&str]) -> Ran {
        let mut arguments = vec!["render", "xr.yaml", "composition.yaml"];
        if self.path("functions.yaml").exists() {
            arguments.push("functions.yaml");
        }
        arguments.extend(flags);
        self.run(&arguments)
    }

    /// The same, with functions that are trusted to start programs.
    pub(crate) fn render_with_commands(&self, flags: &[&str]) -> Ran {
        self.render(&[flags, &["--allow-commands"]].concat())
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// It went well: what it printed.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.stdout
    }

    /// It went well: the documents it printed.
    pub(crate) fn documents(self) -> Vec<serde_json::Value> {
        serde_saphyr::from_multiple(&self.ok()).unwrap()
    }

    /// It failed with this code: what it said.
    pub(crate) fn fails_with(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self.stderr
    }
}
