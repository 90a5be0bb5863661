//! `ferroplane render`: what would this composite resource become?

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_api::{CompositeResourceDefinition, Composition, Object, keys, meta};
use ferroplane_engine::{Pipeline, PipelineError, chain};
use ferroplane_runner::{Directory, grpc};
use ferroplane_wire::Struct;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Verdict;
use crate::duration;
use crate::manifest::{Files, Manifest, yaml};
use crate::render::composite::{Composite, layout_of};
use crate::render::functions::Functions;
use crate::render::output::{self, Format, Include};
use crate::render::world::{Shared, World};
use crate::render::{Rendered, Task, defaults, render, seam};
use crate::terminal::Terminal;

/// Show what composite resources would become, without a cluster
///
/// Runs the functions of a Composition on a composite resource (XR) and prints the XR's status, the resources it
/// would be composed of and those that would be deleted. Needs neither Docker nor a cluster: functions are built
/// in, started as programs, or already running.
///
/// How a Function is run is said by its annotations: `render.ferroplane.io/command` starts a program, as in
/// "./my-function" or "python main.py --address {address} --insecure";
/// `render.crossplane.io/runtime: Development` calls one that is running at localhost:9443, or at
/// `render.crossplane.io/runtime-development-target`, with mutual TLS if `render.ferroplane.io/tls-certs-dir` names
/// a directory with ca.crt, tls.crt and tls.key. Relative paths start where the Function's file is.
///
/// Exits with 3 when a function returns a fatal result; what was rendered until then is still printed.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
#[command(after_help = "Examples:
  ferroplane render xr.yaml composition.yaml functions.yaml
  ferroplane render xrs/ composition.yaml functions/ --include-function-results
  kubectl get app my-app -o yaml | ferroplane render - composition.yaml functions.yaml --output json
  ferroplane render xr.yaml composition.yaml functions.yaml --watch")]
pub(crate) struct Render {
    /// The XR: a file, a directory of files, or `-`. Several XRs are rendered at once
    composite_resource: PathBuf,

    /// The Composition to render it with
    composition: PathBuf,

    /// The Functions that the Composition calls: a file or directory. Not needed for built-in functions
    functions: Option<PathBuf>,

    /// What the first function finds in its context under this key, as a file of JSON or YAML
    #[arg(long, value_name = "KEY=FILE", value_delimiter = ',', value_parser = pair)]
    context_files: Vec<(String, String)>,

    /// The same as JSON or YAML. Wins over --context-files
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    context_values: Vec<(String, String)>,

    /// Print what functions had to say, as objects of kind Result
    #[arg(short = 'r', long)]
    include_function_results: bool,

    /// Print the XR with the metadata and spec it came with
    #[arg(short = 'x', long)]
    include_full_xr: bool,

    /// Print the context as the last function left it, as an object of kind Context
    #[arg(short = 'c', long)]
    include_context: bool,

    /// Do not print what would be deleted, as objects of kind Deletion
    #[arg(long)]
    hide_deletions: bool,

    /// Composed resources that exist already: a file or directory
    #[arg(short = 'o', long, value_name = "PATH")]
    observed_resources: Vec<PathBuf>,

    /// Resources that functions may ask for: a file or directory
    #[arg(short = 'e', long, value_name = "PATH", alias = "extra-resources")]
    required_resources: Vec<PathBuf>,

    /// `OpenAPI` v3 documents that functions may ask for: a directory of JSON files
    #[arg(short = 's', long, value_name = "DIR")]
    required_schemas: Vec<PathBuf>,

    /// Secrets that the Composition gives to functions: a file or directory
    #[arg(long, value_name = "PATH")]
    function_credentials: Vec<PathBuf>,

    /// Set an annotation on every Function
    #[arg(short = 'a', long, value_name = "KEY=VALUE", value_parser = pair)]
    function_annotations: Vec<(String, String)>,

    /// The `CompositeResourceDefinition` of the XR, for its defaults and its layout
    #[arg(long, value_name = "PATH")]
    xrd: Option<PathBuf>,

    /// How to print
    #[arg(long, value_enum, default_value_t)]
    output: Format,

    /// Render again whenever one of the files changes
    #[arg(long)]
    watch: bool,

    /// How long rendering may take
    #[arg(long, default_value = "1m", value_parser = duration::parse)]
    timeout: Duration,

    /// How many XRs are rendered at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_concurrency: u32,

    /// Ignored: this program is the engine
    #[arg(long, hide = true)]
    crossplane_version: Option<String>,
    /// Ignored: this program is the engine
    #[arg(long, hide = true)]
    crossplane_image: Option<String>,
    /// Ignored: this program is the engine
    #[arg(long, hide = true)]
    crossplane_binary: Option<PathBuf>,
    /// Ignored: nothing runs in Docker
    #[arg(long, hide = true)]
    crossplane_docker_network: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("expected KEY=VALUE, got `{text}`"))?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Render {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let ignored = [
            ("--crossplane-version", self.crossplane_version.is_some()),
            ("--crossplane-image", self.crossplane_image.is_some()),
            ("--crossplane-binary", self.crossplane_binary.is_some()),
            ("--crossplane-docker-network", self.crossplane_docker_network.is_some()),
        ];
        for (flag, _) in ignored.into_iter().filter(|(_, is_given)| *is_given) {
            terminal.note(&format!("{flag} is ignored: Ferroplane is the engine"));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            tokio::select! {
                result = self.render_or_watch(terminal) => result,
                _ = tokio::signal::ctrl_c() => Ok(Verdict::Interrupted),
            }
        })
    }

    async fn render_or_watch(&self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        loop {
            let mut files = Files::default();
            let result = self.render_once(&mut files, terminal).await;
            if !self.watch {
                return result;
            }
            if let Err(error) = result {
                terminal.error(&error);
            }
            terminal.note("waiting for a file to change; Ctrl-C ends");
            until_changed(&files).await;
            terminal.clear();
        }
    }

    async fn render_once(&self, files: &mut Files, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let work = self.load(files)?;
        let options = grpc::Options { timeout: self.timeout, ..grpc::Options::default() };
        let functions = work.functions.start(&work.composition, &work.manifest, &options).await?;
        let result =
            tokio::time::timeout(self.timeout, self.render_all(work, Arc::new(functions), terminal)).await;
        result.unwrap_or_else(|_| bail!("rendering took longer than {:?}; see --timeout", self.timeout))
    }

    /// Read everything, and complain about all of it before anything is started.
    fn load(&self, files: &mut Files) -> anyhow::Result<Work> {
        let manifest = files.load_one(&self.composition, "Composition")?;
        let composition = load_composition(&manifest)?;
        let pipeline = Pipeline::new(&composition.spec.pipeline)
            .map_err(|error| locate(&manifest, &composition, &error))?;
        let definition = match &self.xrd {
            Some(path) => Some(load_definition(&files.load_one(path, "CompositeResourceDefinition")?)?),
            None => None,
        };
        let functions = match &self.functions {
            Some(path) => Functions::load(files, path, &self.function_annotations)?,
            None => Functions::default(),
        };
        let xrs = self.load_xrs(files, &manifest, &composition, definition.as_ref())?;
        let work = Work {
            is_alone: xrs.len() == 1,
            xrs,
            observed: load_all(files, &self.observed_resources)?,
            shared: Arc::new(self.load_shared(files)?),
            context: self.load_context(files)?,
            pipeline: Arc::new(pipeline),
            composition: Arc::new(composition),
            definition,
            functions,
            manifest,
        };
        Ok(work)
    }

    fn load_xrs(
        &self,
        files: &mut Files,
        manifest: &Manifest,
        composition: &Composition,
        definition: Option<&CompositeResourceDefinition>,
    ) -> anyhow::Result<Vec<Manifest>> {
        let xrs = files.load(&self.composite_resource)?;
        if xrs.is_empty() {
            bail!("{}: expected a composite resource, found nothing", self.composite_resource.display());
        }
        xrs.into_iter()
            .map(|xr| {
                xr.require_identity("composite resource")?;
                let wanted = &composition.spec.composite_type_ref;
                if let Err(problem) = seam::check_type(composition, xr.object()) {
                    let path = if wanted.kind == meta::kind(xr.object()) { "apiVersion" } else { "kind" };
                    return Err(manifest.error(&["spec", "compositeTypeRef", path], problem.to_string()).into());
                }
                let mut object = xr.object().clone();
                let version = meta::api_version(&object).rsplit('/').next().unwrap_or_default().to_owned();
                if let Some(schema) = definition.and_then(|definition| definition.schema(&version)) {
                    defaults::apply(&mut object, schema);
                }
                check_selector(&xr, manifest, composition, definition)?;
                Ok(xr.with_object(object))
            })
            .collect()
    }

    fn load_shared(&self, files: &mut Files) -> anyhow::Result<Shared> {
        let mut shared = Shared::default();
        shared.knows_scopes = true;
        for manifest in load_all(files, &self.required_resources)? {
            manifest.require_identity("required resource")?;
            shared.add(manifest.object().clone())?;
        }
        for manifest in load_all(files, &self.function_credentials)? {
            manifest.require_kind("", "Secret")?;
            shared.add(manifest.object().clone())?;
        }
        for path in &self.required_schemas {
            for manifest in files.load_documents(path, &["json"])? {
                shared.add_schemas(Value::Object(manifest.object().clone()));
            }
        }
        Ok(shared)
    }

    fn load_context(&self, files: &mut Files) -> anyhow::Result<Option<Struct>> {
        let mut context = Map::new();
        for (key, path) in &self.context_files {
            let text = files.load_text(path.as_ref()).with_context(|| format!("context `{key}`"))?;
            context.insert(key.clone(), context_value(key, &text)?);
        }
        for (key, text) in &self.context_values {
            context.insert(key.clone(), context_value(key, text)?);
        }
        if context.is_empty() { Ok(None) } else { Ok(Some(Struct::try_from(context).context("--context-values")?)) }
    }

    /// Render every XR, several at once, and print the results in the order of the XRs.
    async fn render_all(
        &self,
        mut work: Work,
        functions: Arc<Directory>,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        let xrs = std::mem::take(&mut work.xrs);
        let work = Arc::new(work);
        let slots = Arc::new(Semaphore::new(self.max_concurrency as usize));
        let mut rendering = JoinSet::new();
        for (index, xr) in xrs.iter().cloned().enumerate() {
            let (work, functions, slots) = (work.clone(), functions.clone(), slots.clone());
            rendering.spawn(async move {
                let _slot = slots.acquire_owned().await;
                (index, work.render(&xr, &functions).await)
            });
        }
        let mut results: Vec<_> = xrs.iter().map(|_| None).collect();
        while let Some(done) = rendering.join_next().await {
            let (index, result) = done.context("rendering was cut short")?;
            results[index] = Some(result);
        }
        if let Ok(functions) = Arc::try_unwrap(functions) {
            functions.stop().await;
        }
        self.report(&xrs, results.into_iter().flatten(), terminal)
    }

    fn report(
        &self,
        xrs: &[Manifest],
        results: impl Iterator<Item = anyhow::Result<Rendered>>,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        let mut verdict = Verdict::Yes;
        let mut errors = Vec::new();
        for (xr, result) in xrs.iter().zip(results) {
            let rendered = match result {
                Ok(rendered) => rendered,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            match &rendered.failure {
                Some(failure) if !failure.is_fatal_result() => {
                    let what = format!("cannot render {} `{}`", meta::kind(xr.object()), meta::name(xr.object()));
                    errors.push(anyhow::anyhow!("{}", chain(failure)).context(what));
                    continue;
                }
                Some(failure) => {
                    terminal.warn(&format!("{} `{}`: {failure}", meta::kind(xr.object()), meta::name(xr.object())));
                    verdict = Verdict::No;
                }
                None => {}
            }
            let include = Include {
                full_xr: self.include_full_xr.then(|| xr.object().clone()),
                results: self.include_function_results,
                context: self.include_context,
                deletions: !self.hide_deletions,
            };
            terminal.data(&output::print(&rendered, &include, self.output)?)?;
        }
        let Some(last) = errors.pop() else { return Ok(verdict) };
        for error in errors {
            terminal.error(&error);
        }
        Err(last)
    }
}

/// Everything there is to render, read and checked.
#[derive(Debug)]
struct Work {
    xrs: Vec<Manifest>,
    /// There is only one XR.
    is_alone: bool,
    manifest: Manifest,
    composition: Arc<Composition>,
    pipeline: Arc<Pipeline>,
    definition: Option<CompositeResourceDefinition>,
    functions: Functions,
    observed: Vec<Manifest>,
    shared: Arc<Shared>,
    context: Option<Struct>,
}

impl Work {
    async fn render(&self, xr: &Manifest, functions: &Directory) -> anyhow::Result<Rendered> {
        let layout = layout_of(self.definition.as_ref());
        let mut composite = Composite::new(xr.object().clone(), layout, &self.composition);
        let mut world = World::new(self.shared.clone());
        let given = self.observed_of(composite.object());
        let observed = seam::observe(&mut composite, given, &mut world)?;
        world.add(composite.object().clone())?;
        let task = Task {
            composite,
            composition: self.composition.clone(),
            pipeline: self.pipeline.clone(),
            observed,
            context: self.context.clone(),
            now: output::NOW.to_owned(),
        };
        Ok(render(task, functions, &world).await?)
    }

    /// What is observed of one XR. If there are several, each has what it controls or what bears its name.
    fn observed_of(&self, xr: &Object) -> Vec<Object> {
        let is_its_own = |object: &&Object| {
            let controller = meta::controller(object).and_then(|owner| owner.get("uid")?.as_str());
            self.is_alone
                || controller.map_or(meta::label(object, keys::COMPOSITE) == meta::name(xr), |uid| uid == meta::uid(xr))
        };
        self.observed.iter().map(Manifest::object).filter(is_its_own).cloned().collect()
    }
}

fn load_composition(manifest: &Manifest) -> anyhow::Result<Composition> {
    manifest.require_kind(keys::APIEXTENSIONS, "Composition")?;
    manifest.require_identity("Composition")?;
    Ok(manifest.parse_strictly()?)
}

fn load_definition(manifest: &Manifest) -> anyhow::Result<CompositeResourceDefinition> {
    manifest.require_kind(keys::APIEXTENSIONS, "CompositeResourceDefinition")?;
    Ok(manifest.parse()?)
}

fn load_all(files: &mut Files, paths: &[PathBuf]) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for path in paths {
        manifests.extend(files.load(path)?);
    }
    Ok(manifests)
}

fn context_value(key: &str, text: &str) -> anyhow::Result<Value> {
    let documents = yaml::parse(text).map_err(|bad| anyhow::anyhow!("context `{key}`: {}", bad.message))?;
    match documents.as_slice() {
        [] => Ok(Value::Null),
        [value] => Ok(value.to_json()),
        _ => bail!("context `{key}` has more than one document"),
    }
}

/// Where in the composition the pipeline is wrong.
fn locate(manifest: &Manifest, composition: &Composition, error: &PipelineError) -> anyhow::Error {
    let steps = &composition.spec.pipeline;
    let index_of = |name: &str| steps.iter().rposition(|step| step.step == name).unwrap_or_default().to_string();
    let (step, field) = match error {
        PipelineError::Empty => return manifest.error(&["spec", "pipeline"], error.to_string()).into(),
        PipelineError::DuplicateStep(step) => (step, "step"),
        PipelineError::Input { step, .. } => (step, "input"),
        PipelineError::Credential { step, .. } => (step, "credentials"),
        PipelineError::NameAndLabels { step, .. } => (step, "requirements"),
    };
    manifest.error(&["spec", "pipeline", &index_of(step), field], chain(error)).into()
}

/// An XR that chooses its composition by labels must be able to choose this one.
fn check_selector(
    xr: &Manifest,
    manifest: &Manifest,
    composition: &Composition,
    definition: Option<&CompositeResourceDefinition>,
) -> anyhow::Result<()> {
    let composite = Composite::new(xr.object().clone(), layout_of(definition), composition);
    for (key, wanted) in composite.composition_selector().into_iter().flatten() {
        let actual = composition.label(key);
        if actual != wanted.as_str() {
            let actual = actual.map_or_else(|| "does not have".to_owned(), |actual| format!("has as `{actual}`"));
            let message = format!(
                "the composite resource selects compositions with label `{key}: {}`, which composition `{}` {actual}",
                wanted.as_str().unwrap_or_default(),
                composition.name()
            );
            return Err(manifest.error(&["metadata", "labels", key], message).into());
        }
    }
    Ok(())
}

/// How often files are looked at. Asking the operating system to tell would miss network file systems.
const LOOK_EVERY: Duration = Duration::from_millis(100);

async fn until_changed(files: &Files) {
    let before = files.fingerprint();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if files.fingerprint() != before {
            return;
        }
    }
}
