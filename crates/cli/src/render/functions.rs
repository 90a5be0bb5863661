//! From Function manifests to functions that can be called.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use ferroplane_api::{Composition, Function, keys};
use ferroplane_functions::builtin;
use ferroplane_runner::{Command, Directory, Program, Runner, grpc};
use tokio::task::JoinSet;

use crate::manifest::{Files, Located, Manifest};

const RUNTIME: &str = "render.crossplane.io/runtime";
const TARGET: &str = "render.crossplane.io/runtime-development-target";
const OURS: &str = "render.ferroplane.io/";
const COMMAND: &str = "render.ferroplane.io/command";
const TLS_DIRECTORY: &str = "render.ferroplane.io/tls-certs-dir";
const DEFAULT_TARGET: &str = "localhost:9443";

/// How a function will be called, before anything is started.
#[derive(Debug)]
enum Way {
    Builtin(ferroplane_functions::Builtin),
    Served { target: grpc::Target, tls: Option<grpc::Tls> },
    Started(Command),
}

/// The functions that manifests describe, by name.
#[derive(Debug, Default)]
pub(crate) struct Functions(BTreeMap<String, (Function, Manifest)>);

impl Functions {
    /// Read Functions from a file or directory. Other objects are refused.
    pub(crate) fn load(
        files: &mut Files,
        path: &Path,
        overrides: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let mut functions = BTreeMap::new();
        for manifest in files.load(path)? {
            manifest.require_kind(keys::PKG, "Function")?;
            manifest.require_identity("Function")?;
            let mut function: Function = manifest.parse()?;
            function.metadata.annotations.extend(overrides.iter().cloned());
            let name = function.metadata.name.clone();
            if functions.contains_key(&name) {
                return Err(manifest
                    .error(&["metadata", "name"], format!("function `{name}` is there twice"))
                    .into());
            }
            functions.insert(name, (function, manifest));
        }
        Ok(Self(functions))
    }

    /// Make every function that the composition calls ready to be called. Programs are started all at once.
    pub(crate) async fn start(
        &self,
        composition: &Composition,
        manifest: &Manifest,
        options: &grpc::Options,
    ) -> anyhow::Result<Directory> {
        let mut ways = BTreeMap::new();
        for (index, step) in composition.spec.pipeline.iter().enumerate() {
            let name = &step.function_ref.name;
            let way = match self.0.get(name) {
                Some((function, manifest)) => way(function, manifest)?,
                None => Way::Builtin(builtin(name).ok_or_else(|| not_listed(manifest, index, step))?),
            };
            ways.insert(name.clone(), way);
        }
        start_all(ways, options).await
    }
}

async fn start_all(ways: BTreeMap<String, Way>, options: &grpc::Options) -> anyhow::Result<Directory> {
    let mut starting = JoinSet::new();
    for (name, way) in ways {
        let options = options.clone();
        starting.spawn(async move {
            let runner =
                start(way, options).await.with_context(|| format!("cannot start function `{name}`"))?;
            anyhow::Ok((name, runner))
        });
    }
    let mut directory = Directory::default();
    let mut failure = None;
    while let Some(started) = starting.join_next().await {
        match started? {
            Ok((name, runner)) => directory.insert(name, runner),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        None => Ok(directory),
        Some(failure) => {
            directory.stop().await;
            Err(failure)
        }
    }
}

async fn start(way: Way, options: grpc::Options) -> anyhow::Result<Runner> {
    Ok(match way {
        Way::Builtin(function) => Runner::Builtin(function),
        Way::Served { target, tls } => {
            Runner::Grpc(grpc::Client::new(target, grpc::Options { tls, ..options })?)
        }
        Way::Started(command) => Runner::Program(Program::start(&command, options).await?),
    })
}

fn way(function: &Function, manifest: &Manifest) -> anyhow::Result<Way> {
    let name = &function.metadata.name;
    let annotation = |key: &str| function.metadata.annotations.get(key).map(String::as_str);
    let error = |key: &str, message: String| manifest.error(&["metadata", "annotations", key], message);
    let unknown = function
        .metadata
        .annotations
        .keys()
        .find(|key| key.starts_with(OURS) && ![COMMAND, TLS_DIRECTORY].contains(&key.as_str()));
    if let Some(key) = unknown {
        let message =
            format!("function `{name}`: unknown annotation: expected `{COMMAND}` or `{TLS_DIRECTORY}`");
        return Err(error(key, message).into());
    }
    if let (Some(_), true) = (annotation(TLS_DIRECTORY), annotation(RUNTIME) != Some("Development")) {
        let message = format!(
            "function `{name}`: this needs `{RUNTIME}: Development`: what is started is called in plain text"
        );
        return Err(error(TLS_DIRECTORY, message).into());
    }
    if let Some(text) = annotation(COMMAND) {
        let command = Command::parse(text, manifest.source().directory())
            .map_err(|problem| error(COMMAND, format!("function `{name}`: {problem}")))?;
        return Ok(Way::Started(command));
    }
    match annotation(RUNTIME) {
        Some("Development") => {
            let target = annotation(TARGET).unwrap_or(DEFAULT_TARGET);
            let target =
                target.parse().map_err(|problem| error(TARGET, format!("function `{name}`: {problem}")))?;
            let directory = annotation(TLS_DIRECTORY).map(|path| manifest.source().directory().join(path));
            Ok(Way::Served { target, tls: directory.map(|directory| read_tls(&directory)).transpose()? })
        }
        None | Some("Docker") => {
            match builtin(name).or_else(|| builtin(package_name(&function.spec.package))) {
                Some(function) => Ok(Way::Builtin(function)),
                None => Err(not_runnable(function, manifest).into()),
            }
        }
        Some(other) => {
            let message = format!(
                "function `{name}`: unknown runtime `{other}`: expected `Development`, or leave it out and say how to \
                 start the function with the annotation `{COMMAND}`"
            );
            Err(error(RUNTIME, message).into())
        }
    }
}

/// `registry.example/org/function-x:v1` → `function-x`.
fn package_name(package: &str) -> &str {
    let name = package.rsplit('/').next().unwrap_or_default();
    name.split(['@', ':']).next().unwrap_or_default()
}

fn read_tls(directory: &Path) -> anyhow::Result<grpc::Tls> {
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok(grpc::Tls { ca: read("ca.crt")?, certificate: read("tls.crt")?, key: read("tls.key")? })
}

fn not_listed(manifest: &Manifest, index: usize, step: &ferroplane_api::Step) -> Located {
    let built_in: Vec<_> = ferroplane_functions::names().collect();
    manifest.error(
        &["spec", "pipeline", &index.to_string(), "functionRef", "name"],
        format!(
            "step `{}` calls function `{}`, which is neither among the Functions given nor built in ({})",
            step.step,
            step.function_ref.name,
            built_in.join(", ")
        ),
    )
}

fn not_runnable(function: &Function, manifest: &Manifest) -> Located {
    let Function { metadata, spec, .. } = function;
    manifest.error(
        &["metadata", "name"],
        format!(
            "function `{}`: the image `{}` cannot be run here; say how to reach the function with one of these \
             annotations:\n  \
             {COMMAND}: \"./my-function\"     # a program to start; gets --insecure --address HOST:PORT\n  \
             {RUNTIME}: Development           # it is running already, at {DEFAULT_TARGET} or at\n  \
             {TARGET}: \"HOST:PORT\"",
            metadata.name, spec.package
        ),
    )
}
