//! Reads from Function manifests how their functions are called.

use std::collections::BTreeMap;
use std::path::Path;

use ferroplane_api::keys::{
    DEFAULT_FUNCTION_TARGET as DEFAULT_TARGET, FUNCTION_COMMAND as COMMAND, FUNCTION_RUNTIME as RUNTIME,
    FUNCTION_TARGET as TARGET, NATIVE,
};
use ferroplane_api::{Function, keys};
use ferroplane_engine::versions::{NotReplaced, Replaceable, Replacement, Version, replacement};
use ferroplane_functions::{Implementation, Library};
use ferroplane_runner::{AsyncFunction, Command, grpc};

use super::image_functions::ImageFunction;
use super::recorded_responses;
use crate::file_name::file_below;
use crate::manifest::{Files, Located, Manifest};

const OURS: &str = "render.ferroplane.io/";
const TLS_DIRECTORY: &str = "render.ferroplane.io/tls-certs-dir";
/// Names a file of answers, which are given in turn.
pub(super) const RESPONSES: &str = "render.ferroplane.io/answers";
/// Names a file of WebAssembly, which is run in this process and sees nothing of the machine.
const WASM: &str = "render.ferroplane.io/wasm";
/// What to do about a command that is not run.
const COMMAND_IS_NOT_RUN: &str = "its command is not run, because programs run with your rights: pass --allow-commands if you trust \
     the programs that these files start";
/// What is wrong with a path that a manifest names.
const NOT_BELOW: &str = "expected a path below the directory of this file, without `..`";

/// What the user trusts these manifests with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trust {
    /// To start programs, and to choose where credentials are sent and which keys are read.
    pub(super) may_run_commands: bool,
    /// Whether there are credentials for functions.
    pub(super) has_credentials: bool,
    pub(super) overrides: Overrides,
}

/// What the user says on the command line, which is trusted, whatever the files say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Overrides {
    has_target: bool,
    has_certificates: bool,
}

impl Overrides {
    pub(super) fn of(annotations: &[(String, String)]) -> Self {
        let has = |key: &str| annotations.iter().any(|(known, _)| known == key);
        Self { has_target: has(TARGET), has_certificates: has(TLS_DIRECTORY) }
    }
}

/// The functions that manifests describe.
#[derive(Debug, Default)]
pub(super) struct Functions {
    by_name: BTreeMap<String, (Function, Manifest)>,
    trust: Trust,
}

impl Functions {
    /// Read Functions from a file or directory. Other objects are refused.
    pub(super) fn load(
        files: &mut Files,
        path: &Path,
        overrides: &[(String, String)],
        trust: Trust,
    ) -> anyhow::Result<Self> {
        let mut by_name = BTreeMap::new();
        for manifest in files.load(path)? {
            manifest.require_kind(keys::PKG, "Function")?;
            manifest.require_identity("Function")?;
            let mut function: Function = manifest.parse()?;
            // Before anything is read from them: a flag of the command line wins over the file.
            function.metadata.annotations.extend(overrides.iter().cloned());
            let name = function.metadata.name.clone();
            if by_name.contains_key(&name) {
                return Err(manifest
                    .error(&["metadata", "name"], format!("function `{name}` is defined twice"))
                    .into());
            }
            by_name.insert(name, (function, manifest));
        }
        Ok(Self { by_name, trust })
    }

    /// The Functions, by name, with where they stand.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Function, &Manifest)> {
        self.by_name.iter().map(|(name, (function, manifest))| (name.as_str(), function, manifest))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether a function is called in this process.
    pub(super) fn is_built_in(&self, name: &str, library: &Library) -> bool {
        let Some((function, manifest)) = self.by_name.get(name) else { return true };
        matches!(declared(function, manifest, library, self.trust), Ok(Declared::BuiltIn { .. }))
    }

    /// How a Function manifest among these says that its function is called.
    pub(super) fn declared(
        &self,
        function: &Function,
        manifest: &Manifest,
        library: &Library,
    ) -> anyhow::Result<Declared> {
        let declared = declared(function, manifest, library, self.trust)?;
        // Checked here, where every way to a program passes: a user who renders foreign files, as CI does for a
        // pull request, must not run the commands in them.
        if matches!(declared, Declared::Runtime(Runtime::Started(_))) && !self.trust.may_run_commands {
            let message = format!("function `{}`: {COMMAND_IS_NOT_RUN}", function.metadata.name);
            return Err(manifest.error(&["metadata", "annotations", COMMAND], message).into());
        }
        Ok(declared)
    }
}

/// How a Function manifest says that its function is called.
#[derive(Debug)]
pub(super) enum Declared {
    /// By what is built in: this version, or any.
    BuiltIn { function: String, version: Option<Version> },
    /// By this runtime.
    Runtime(Runtime),
}

/// How a function is called.
#[derive(Debug, Clone)]
pub(super) enum Runtime {
    BuiltIn(Implementation),
    Served {
        target: grpc::Target,
        tls: Option<grpc::Tls>,
    },
    Started(Command),
    /// By a server in a container.
    Image(Box<ImageFunction>),
    /// Not at all: it answers as it was recorded.
    Recorded(AsyncFunction),
}

impl Runtime {
    /// The same, but a program is run by another one, which ends it when this process is gone.
    pub(super) fn supervised_by(self, supervisor: &[String]) -> Self {
        match self {
            Self::Started(command) => Self::Started(command.run_by(supervisor.to_vec())),
            other => other,
        }
    }
}

fn declared(
    function: &Function,
    manifest: &Manifest,
    library: &Library,
    trust: Trust,
) -> anyhow::Result<Declared> {
    check_annotations(function, manifest)?;
    let name = &function.metadata.name;
    let annotation = |key: &str| function.metadata.annotations.get(key).map(String::as_str);
    let error = |key: &str, message: String| manifest.error(&["metadata", "annotations", key], message);
    // Recorded responses before anything else: a test that was written from a recording must not start programs.
    if let Some(path) = annotation(RESPONSES) {
        let path = file_below(&manifest.source().directory(), path)
            .ok_or_else(|| error(RESPONSES, format!("function `{name}`: {NOT_BELOW}")))?;
        let responses = recorded_responses::read(name, &path)
            .map_err(|problem| error(RESPONSES, format!("function `{name}`: {problem:#}")))?;
        return Ok(Declared::Runtime(Runtime::Recorded(responses)));
    }
    if let Some(path) = annotation(WASM) {
        let path = file_below(&manifest.source().directory(), path)
            .ok_or_else(|| error(WASM, format!("function `{name}`: {NOT_BELOW}")))?;
        let code = super::wasm::load(name, &path)
            .map_err(|problem| error(WASM, format!("function `{name}`: {problem:#}")))?;
        // It is called as what was recorded is: in this process.
        return Ok(Declared::Runtime(Runtime::Recorded(code)));
    }
    if let Some(text) = annotation(COMMAND) {
        let command = Command::parse(text, manifest.source().directory())
            .map_err(|problem| error(COMMAND, format!("function `{name}`: {problem}")))?;
        return Ok(Declared::Runtime(Runtime::Started(command)));
    }
    match annotation(RUNTIME) {
        Some("Development") => Ok(Declared::Runtime(served(function, manifest, trust)?)),
        None | Some("Docker") => built_in(function, manifest, library),
        Some(other) => {
            let message = format!(
                "function `{name}`: unknown runtime `{other}`: expected `Development`, or leave it out and say how to \
                 start the function with the annotation `{COMMAND}`"
            );
            Err(error(RUNTIME, message).into())
        }
    }
}

/// Refuse annotations of ours that do not exist, or that have no effect together.
fn check_annotations(function: &Function, manifest: &Manifest) -> Result<(), Located> {
    let (name, annotations) = (&function.metadata.name, &function.metadata.annotations);
    let error = |key: &str, message: String| Err(manifest.error(&["metadata", "annotations", key], message));
    let is_unknown = |key: &&String| {
        key.starts_with(OURS) && ![COMMAND, TLS_DIRECTORY, RESPONSES, WASM].contains(&key.as_str())
    };
    if let Some(key) = annotations.keys().find(is_unknown) {
        let message = format!(
            "function `{name}`: unknown annotation: expected `{COMMAND}`, `{TLS_DIRECTORY}`, `{RESPONSES}` or `{WASM}`"
        );
        return error(key, message);
    }
    let is_development = annotations.get(RUNTIME).is_some_and(|runtime| runtime == "Development");
    if annotations.contains_key(TLS_DIRECTORY) && !is_development {
        let message = format!(
            "function `{name}`: this needs `{RUNTIME}: Development`: what is started is called in plain text"
        );
        return error(TLS_DIRECTORY, message);
    }
    Ok(())
}

/// A function that is running already.
fn served(function: &Function, manifest: &Manifest, trust: Trust) -> anyhow::Result<Runtime> {
    let (name, annotations) = (&function.metadata.name, &function.metadata.annotations);
    let error = |key: &str, problem: String| {
        manifest.error(&["metadata", "annotations", key], format!("function `{name}`: {problem}"))
    };
    let target = annotations.get(TARGET).map_or(DEFAULT_TARGET, String::as_str).parse::<grpc::Target>();
    let target = target.map_err(|problem| error(TARGET, problem.to_string()))?;
    let certificates = annotations.get(TLS_DIRECTORY);
    // A user who renders foreign files, as CI does for a pull request, must not send secrets to where these files say, nor prove to it who
    // they are.
    let has_secrets = trust.has_credentials || certificates.is_some();
    if has_secrets && !target.is_loopback() && !trust.may_run_commands && !trust.overrides.has_target {
        let problem = format!(
            "cannot use credentials or certificates with `{target}`, which is not on this machine: pass --allow-commands if \
             you trust these files"
        );
        return Err(error(TARGET, problem).into());
    }
    let tls = match certificates {
        None => None,
        Some(path) => {
            let directory = manifest.source().directory();
            let below = if trust.may_run_commands || trust.overrides.has_certificates {
                Some(directory.join(path))
            } else {
                file_below(&directory, path)
            };
            let below = below
                .ok_or_else(|| error(TLS_DIRECTORY, format!("{NOT_BELOW}, or pass --allow-commands")))?;
            Some(grpc::Tls::read(&below)?)
        }
    };
    Ok(Runtime::Served { target, tls })
}

/// Whether a Function that says nothing about how to run it is built in.
fn built_in(function: &Function, manifest: &Manifest, library: &Library) -> anyhow::Result<Declared> {
    let name = &function.metadata.name;
    let package = &function.spec.package;
    let error = |message: String| manifest.error(&["metadata", "annotations", NATIVE], message);
    let annotation = function.metadata.annotations.get(NATIVE).map(String::as_str);
    let replaceable = Replaceable { name, package, annotation };
    match replacement(replaceable, library.catalogue(), |package| library.native(package)) {
        Ok(Replacement { function, version }) => Ok(Declared::BuiltIn { function, version }),
        Err(problem @ (NotReplaced::NoBuiltIn | NotReplaced::BadAnnotation(_))) => {
            Err(error(format!("function `{name}`: {problem}")).into())
        }
        Err(problem) if package.is_empty() => {
            Err(not_runnable(function, manifest, &problem.to_string()).into())
        }
        Err(problem) => {
            let image = ImageFunction::of(function, manifest, &problem.to_string())?;
            Ok(Declared::Runtime(Runtime::Image(Box::new(image))))
        }
    }
}

fn not_runnable(function: &Function, manifest: &Manifest, why: &str) -> Located {
    let name = &function.metadata.name;
    let message = format!("function `{name}` has no package, and {why}; {}", other_ways());
    manifest.error(&["metadata", "name"], message)
}

/// What else can be done about a function that cannot be run.
pub(super) fn other_ways() -> String {
    format!(
        "say how to reach the function with one of these annotations:\n  \
         {COMMAND}: \"./my-function\"     # a program to start, with --allow-commands; gets --insecure --address HOST:PORT\n  \
         {RUNTIME}: Development           # it is running already, at {DEFAULT_TARGET} or at\n  \
         {TARGET}: \"HOST:PORT\"\n  \
         {NATIVE}: \"true\"                  # call what is built in under this name"
    )
}
