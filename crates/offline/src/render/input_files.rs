//! The files to render from: reads them, and reports everything wrong with them before any function is started.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use ferroplane_api::{
    AccessGrantSpec, CompositeResourceDefinition, Composition, Mode, Object, Step, keys, meta,
};
use ferroplane_engine::composite::{Machinery, resource_name};
use ferroplane_engine::versions::Unresolved;
use ferroplane_engine::{
    Defaults, Pipeline, PipelineError, UnresolvedStep, chain, ineffective_fields, is_grant, to_pipeline,
};
use ferroplane_functions::Library;
use ferroplane_wire::Struct;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::cluster_state::SharedState;
use super::composite::{check_definition, check_type, layout_of, selection_notes};
use super::defaults;
use super::functions::{Functions, Overrides, Trust};
use super::operation::{as_composition, is_operation, operation_in};
use super::renderer::Renderer;
use super::runtimes::Runtimes;
use super::scripts::load_modules;
use super::templates::TemplateSteps;
use crate::manifest::{Files, Located, Manifest, yaml};
use crate::validate::composite_problems;

/// What is to be rendered.
enum Subjects {
    /// An operation, or what makes one.
    Operation(Manifest),
    /// Composite resources, if they were read already: standard input can be read once.
    Composites(Option<Vec<Manifest>>),
}

/// The files to render from. A path is a file, a directory and all below it, or `-` for standard input.
#[derive(Debug, Default)]
pub struct InputFiles {
    pub composite_resource: Option<PathBuf>,
    pub composition: Option<PathBuf>,
    /// The Functions that the Composition calls. Built-in functions need not be listed.
    pub functions: Option<PathBuf>,
    /// What the first function finds in its context: key, and a file of JSON or YAML.
    pub context_files: Vec<(String, String)>,
    /// The same as key and JSON or YAML. Wins over the files.
    pub context_values: Vec<(String, String)>,
    /// Composed resources that exist already.
    pub observed_resources: Vec<PathBuf>,
    /// Resources that functions may ask for.
    pub required_resources: Vec<PathBuf>,
    /// OpenAPI v3 documents that functions may ask for.
    pub required_schemas: Vec<PathBuf>,
    /// Secrets that the Composition gives to functions.
    pub function_credentials: Vec<PathBuf>,
    /// Annotations to set on every Function.
    pub function_annotations: Vec<(String, String)>,
    /// Whether to start the programs that Functions name, and to use credentials and certificates with functions on other machines.
    pub may_run_commands: bool,
    /// The object that has changed, if a `WatchOperation` is rendered. Functions may ask for it, too.
    pub watched_resource: Option<PathBuf>,
    /// The CompositeResourceDefinition of the composite resource, for its defaults and its layout.
    pub definition: Option<PathBuf>,
}

impl InputFiles {
    /// The files that arguments of `ferroplane render` name: pairs of a flag (empty for positional ones) and a path.
    pub(super) fn from_arguments(arguments: &[(&'static str, PathBuf)]) -> Self {
        let all = |flag: &'static str| {
            arguments.iter().filter(move |(it, _)| *it == flag).map(|(_, path)| path.clone())
        };
        let called = |name: &str| all("").find(|path| path.ends_with(name));
        Self {
            composite_resource: called("xr.yaml"),
            composition: called("composition.yaml"),
            functions: called("functions.yaml"),
            observed_resources: all("--observed-resources").collect(),
            required_resources: all("--required-resources").collect(),
            required_schemas: all("--required-schemas").collect(),
            function_credentials: all("--function-credentials").collect(),
            definition: all("--xrd").next(),
            ..Self::default()
        }
    }

    /// Whether the first file has an operation, or what makes one. What cannot be read is none.
    pub fn is_operation(&self) -> bool {
        let path = self.composite_resource.as_ref().filter(|path| path.as_os_str() != "-");
        let found = path.and_then(|path| Files::default().load(path).ok());
        found.into_iter().flatten().any(|manifest| is_operation(manifest.object()))
    }

    /// Whether something is read from standard input.
    pub fn reads_standard_input(&self) -> bool {
        let lists = [&self.observed_resources, &self.required_resources, &self.function_credentials];
        let paths = lists.into_iter().flatten().chain(&self.functions).chain(&self.definition);
        paths.chain(&self.composite_resource).chain(&self.composition).any(|path| path.as_os_str() == "-")
    }

    /// Read everything and check it. Nothing is started yet.
    pub(super) fn load(&self, files: &mut Files, library: &Library) -> anyhow::Result<Renderer> {
        let mut notes = Vec::new();
        let (operation, objects) = match self.load_subjects(files)? {
            Subjects::Operation(operation) => (Some(operation), None),
            Subjects::Composites(objects) => (None, objects),
        };
        let (manifest, mut composition) = match &operation {
            Some(operation) => (operation.clone(), as_composition(operation)?),
            // The Composition first: everything else is checked against it, and its mistakes are the most likely ones.
            None => self.load_composition(files, &mut notes)?,
        };
        let functions = self.load_functions(files, operation.is_some())?;
        let is_built_in = |name: &str| functions.is_built_in(name, library);
        let (templates, mut directories) =
            TemplateSteps::load(&manifest, &mut composition, files, is_built_in)?;
        directories.extend(load_modules(&manifest, &mut composition, files, is_built_in)?);
        let steps = to_pipeline(&composition.spec);
        let pipeline = Pipeline::of(&composition.spec).map_err(|error| locate(&manifest, &steps, &error))?;
        let definition = match &self.definition {
            Some(path) => Some(Definition::load(files.load_one(path, "CompositeResourceDefinition")?)?),
            None => None,
        };
        let runtimes = Runtimes::of(&pipeline, &functions, library)?;
        let pipeline = pipeline
            .resolve(&runtimes.catalogue)
            .map_err(|error| unresolved(&manifest, &composition, &error))?;
        notes.extend(runtimes.notes(&pipeline));
        let is_operation = operation.is_some();
        let defaults = definition.as_ref().map(Definition::defaults).unwrap_or_default();
        let xrs = if let Some(operation) = operation {
            vec![operation]
        } else {
            let xrs = self.load_xrs(objects, files, &composition, definition.as_ref())?;
            let layout = layout_of(definition.as_ref().map(|definition| &definition.spec));
            let objects = xrs.iter().map(Manifest::object);
            notes.extend(selection_notes(objects, layout, &composition, &defaults));
            xrs
        };
        let observed = load_all(files, &self.observed_resources)?;
        check_observed(&observed)?;
        Ok(Renderer {
            is_alone: xrs.len() == 1,
            xrs,
            observed,
            shared: Arc::new(self.load_shared(files, directories)?),
            context: self.load_context(files)?,
            pipeline: Arc::new(pipeline),
            composition: Arc::new(composition),
            is_operation,
            definition: definition.map(|definition| definition.spec),
            defaults,
            runtimes,
            notes,
            templates: Arc::new(templates),
        })
    }

    /// The Composition and the file that has it. Notes are what a user should know about it.
    fn load_composition(
        &self,
        files: &mut Files,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<(Manifest, Composition)> {
        let path = self.composition.as_ref().context("a Composition is needed")?;
        let manifest = files.load_one(path, "Composition")?;
        let composition = load_composition(&manifest)?;
        check_mode(&manifest, &composition)?;
        notes.extend(ineffective(&manifest));
        Ok((manifest, composition))
    }

    fn load_functions(&self, files: &mut Files, is_operation: bool) -> anyhow::Result<Functions> {
        let path = if is_operation { self.functions_of_operation()? } else { self.functions.as_ref() };
        let trust = Trust {
            may_run_commands: self.may_run_commands,
            has_credentials: !self.function_credentials.is_empty(),
            overrides: Overrides::of(&self.function_annotations),
        };
        match path {
            Some(path) => Functions::load(files, path, &self.function_annotations, trust),
            None => Ok(Functions::default()),
        }
    }

    /// What the first file has.
    fn load_subjects(&self, files: &mut Files) -> anyhow::Result<Subjects> {
        let path =
            self.composite_resource.as_ref().context("a composite resource or an operation is needed")?;
        // Standard input can be read once.
        if self.composition.is_some() && path.as_os_str() == "-" {
            return Ok(Subjects::Composites(None));
        }
        let mut found = files.load(path)?;
        if !found.iter().any(|manifest| is_operation(manifest.object())) {
            return match &self.watched_resource {
                Some(_) => bail!("--watched-resource is for WatchOperations"),
                None => Ok(Subjects::Composites(Some(found))),
            };
        }
        if found.len() > 1 {
            bail!("{}: expected one operation, found {} objects", path.display(), found.len());
        }
        let watched = self.watched_resource.as_ref().map(|path| files.load_one(path, "watched resource"));
        let watched = watched.transpose()?;
        operation_in(found.remove(0), watched.as_ref().map(Manifest::object)).map(Subjects::Operation)
    }

    /// An operation needs no Composition: the Functions come next to it.
    fn functions_of_operation(&self) -> anyhow::Result<Option<&PathBuf>> {
        if self.composition.is_some() && self.functions.is_some() {
            bail!(
                "an operation is rendered without a Composition: give the operation, and then the Functions"
            );
        }
        Ok(self.composition.as_ref().or(self.functions.as_ref()))
    }

    fn load_xrs(
        &self,
        objects: Option<Vec<Manifest>>,
        files: &mut Files,
        composition: &Composition,
        definition: Option<&Definition>,
    ) -> anyhow::Result<Vec<Manifest>> {
        let path = self.composite_resource.as_ref().context("a composite resource is needed")?;
        // Not read again what was: there may be thousands.
        let xrs = objects.map_or_else(|| files.load(path), Ok)?;
        if xrs.is_empty() {
            bail!("{}: expected a composite resource, found nothing", path.display());
        }
        xrs.into_iter().map(|xr| check_xr(xr, composition, definition)).collect()
    }

    fn load_shared(&self, files: &mut Files, directories: Vec<Object>) -> anyhow::Result<SharedState> {
        let mut shared = SharedState::default();
        shared.knows_scopes = true;
        for directory in directories {
            shared.add(directory)?;
        }
        let required =
            self.required_resources.iter().chain(&self.watched_resource).cloned().collect::<Vec<_>>();
        for manifest in load_all(files, &required)? {
            manifest.require_identity("required resource")?;
            if is_grant(manifest.object()) {
                // Here, where the line of a mistake is known.
                manifest.parse::<GrantManifest>()?;
            }
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
            let value = context_value(&text).map_err(|problem| anyhow!("{path}{problem}"))?;
            context.insert(key.clone(), value);
        }
        for (key, text) in &self.context_values {
            let value = context_value(text).map_err(|problem| anyhow!("context `{key}`{problem}"))?;
            context.insert(key.clone(), value);
        }
        if context.is_empty() {
            Ok(None)
        } else {
            Ok(Some(Struct::try_from(context).context("--context-values")?))
        }
    }
}

/// A grant, as a file has it.
#[derive(Deserialize)]
struct GrantManifest {
    #[expect(dead_code, reason = "it is only read to see whether it can be")]
    spec: AccessGrantSpec,
}

/// An XR that this composition is for, with its defaults.
fn check_xr(
    xr: Manifest,
    composition: &Composition,
    definition: Option<&Definition>,
) -> anyhow::Result<Manifest> {
    xr.require_identity("composite resource")?;
    xr.require_sane_metadata()?;
    if let Err(problem) = check_type(composition, xr.object()) {
        let is_kind = composition.spec.composite_type_ref.kind != meta::kind(xr.object());
        let is_swapped = meta::kind(xr.object()) == "Composition";
        let hint = if is_swapped { ": the XR comes before the Composition" } else { "" };
        let field = if is_kind { "kind" } else { "apiVersion" };
        return Err(xr.error(&[field], format!("{problem}{hint}")).into());
    }
    check_selector(&xr, composition, definition)?;
    let mut object = xr.object().clone();
    if let Some(definition) = definition {
        definition.apply_defaults(&mut object, &xr)?;
        definition.check(&xr)?;
    }
    Ok(xr.with_object(object))
}

/// Observed resources without a unique name or without a kind are refused.
fn check_observed(observed: &[Manifest]) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for manifest in observed {
        manifest.require_identity("observed resource")?;
        let object = manifest.object();
        let name = resource_name(object)
            .map_err(|error| manifest.error(&["metadata", "annotations"], error.to_string()))?;
        let owner =
            (meta::namespace(object), meta::label(object, keys::COMPOSITE), meta::controller_uid(object));
        if !seen.insert((owner, name)) {
            let path = ["metadata", "annotations", keys::RESOURCE_NAME];
            return Err(manifest.error(&path, format!("observed resource `{name}` is given twice")).into());
        }
    }
    Ok(())
}

/// A definition, and where it stands.
struct Definition {
    manifest: Manifest,
    spec: CompositeResourceDefinition,
}

impl Definition {
    fn load(manifest: Manifest) -> anyhow::Result<Self> {
        manifest.require_kind(keys::APIEXTENSIONS, "CompositeResourceDefinition")?;
        manifest.require_version(&["v1", "v2"])?;
        Ok(Self { spec: manifest.parse()?, manifest })
    }

    /// Its default and enforced compositions.
    fn defaults(&self) -> Defaults {
        Defaults::read(self.manifest.object())
    }

    /// Give an XR the defaults of its schema.
    fn apply_defaults(&self, object: &mut Object, xr: &Manifest) -> anyhow::Result<()> {
        let schema = self.schema_of(xr)?;
        defaults::apply(object, schema).map_err(|error| {
            let message = format!("cannot read the schema of the composite resource: {error}");
            self.manifest.error(&["spec", "versions"], message).into()
        })
    }

    /// Refuses an XR that an API server would not take.
    fn check(&self, xr: &Manifest) -> anyhow::Result<()> {
        let problems = composite_problems(&self.manifest, xr);
        let Some((first, others)) = problems.split_first() else { return Ok(()) };
        let more = if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
        let (message, line) = (format!("{}{more}", first.message), Some(first.line));
        Err(Located::new(xr.source(), line, message).into())
    }

    /// The schema of an XR. A definition of another kind, or without the version, is refused.
    fn schema_of(&self, xr: &Manifest) -> anyhow::Result<&Value> {
        if let Err(problem) = check_definition(&self.spec, xr.object()) {
            return Err(self.manifest.error(&["spec", "names", "kind"], problem.to_string()).into());
        }
        let version = meta::version(meta::api_version(xr.object()));
        if !self.spec.spec.versions.iter().any(|candidate| candidate.name == version) {
            let message = format!("there is no version `{version}`, which the composite resource has");
            return Err(self.manifest.error(&["spec", "versions"], message).into());
        }
        Ok(self.spec.schema(version).unwrap_or(&Value::Null))
    }
}

fn load_composition(manifest: &Manifest) -> anyhow::Result<Composition> {
    manifest.require_kind(keys::APIEXTENSIONS, "Composition")?;
    // The second is what the designs of composition functions write. An API server stores both as the first.
    manifest.require_version(&["v1", "v2alpha1"])?;
    manifest.require_identity("Composition")?;
    Ok(manifest.parse_strictly()?)
}

fn load_all(files: &mut Files, paths: &[PathBuf]) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for path in paths {
        manifests.extend(files.load(path)?);
    }
    Ok(manifests)
}

/// A value, or what is wrong with it, to be put after where it stands.
fn context_value(text: &str) -> Result<Value, String> {
    let documents = yaml::parse(text).map_err(|bad| match bad.line {
        Some(line) => format!(":{line}: {}", bad.message),
        None => format!(": {}", bad.message),
    })?;
    match documents.as_slice() {
        [] => Ok(Value::Null),
        [value] => Ok(value.to_json()),
        _ => Err(": there is more than one document".to_owned()),
    }
}

/// Where in the composition the pipeline is wrong.
fn locate(manifest: &Manifest, steps: &[Step], error: &PipelineError) -> anyhow::Error {
    let index_of =
        // The last one of the name: of two steps that share a name, that is the one to rename.
        |name: &str| steps.iter().rposition(|step| step.step == name).unwrap_or_default().to_string();
    let (step, field) = match error {
        PipelineError::Empty => return manifest.error(&["spec", "pipeline"], error.to_string()).into(),
        PipelineError::PipelineAndFunctions => {
            return manifest.error(&["spec", "functions"], error.to_string()).into();
        }
        PipelineError::Function { step, field, .. } => {
            let index = function_index(manifest, step);
            let path: Vec<_> = ["spec", "functions", &index].into_iter().chain(field.split('.')).collect();
            return manifest.error(&path, error.to_string()).into();
        }
        PipelineError::PatchOfComposite { patch, .. } => {
            let path = format!("spec.{}", patch.replace('[', ".").replace(']', ""));
            let path: Vec<_> = path.split('.').collect();
            return manifest.error(&path, error.to_string()).into();
        }
        PipelineError::DuplicateStep(step) => (step, "step"),
        PipelineError::Input { step, .. } => (step, "input"),
        PipelineError::TwoInputs(step) => (step, "inputRef"),
        PipelineError::Credential { step, .. } => (step, "credentials"),
        PipelineError::NameAndLabels { step, .. } => (step, "requirements"),
    };
    manifest.error(&["spec", "pipeline", &index_of(step), field], chain(error)).into()
}

/// The place of a function in the `functions` array.
fn function_index(manifest: &Manifest, name: &str) -> String {
    let functions = manifest.object().get("spec").and_then(|spec| spec.get("functions")?.as_array());
    let is_it = |function: &Value| function.get("name").and_then(Value::as_str) == Some(name);
    let index = functions.and_then(|functions| functions.iter().position(is_it));
    index.unwrap_or_default().to_string()
}

/// What the composition says to no effect.
fn ineffective(manifest: &Manifest) -> impl Iterator<Item = String> {
    let fields = manifest.object().get("spec").map(ineffective_fields).unwrap_or_default();
    let source = manifest.source().to_string();
    let line = |field: &str| manifest.line_at(field);
    let fields: Vec<_> = fields.into_iter().map(|field| (line(&field.field), field.message)).collect();
    fields.into_iter().map(move |(line, message)| format!("{source}:{line}: {message}"))
}

/// Where in the composition a function is called that cannot be.
fn unresolved(manifest: &Manifest, composition: &Composition, error: &UnresolvedStep) -> anyhow::Error {
    if !composition.spec.functions.is_empty() {
        return manifest.error(&["spec", "functions"], chain(error)).into();
    }
    if composition.spec.mode() == Mode::Resources {
        return manifest.error(&["spec", "resources"], chain(error)).into();
    }
    let index = error.index.to_string();
    let (field, message): (&[&str], _) = match &error.source {
        Unresolved::UnknownFunction { function, similar } => {
            (&["functionRef", "name"], not_listed(&error.step, function, similar.as_deref()))
        }
        Unresolved::RevisionNotFound { .. } | Unresolved::NotActive { .. } => {
            (&["functionRevisionRef", "name"], chain(error))
        }
        Unresolved::NoActiveRevision { .. } => (&["functionRevisionSelector"], chain(error)),
        _ => (&["functionRef", "version"], chain(error)),
    };
    manifest.error(&[&["spec", "pipeline", &index], field].concat(), message).into()
}

fn not_listed(step: &str, function: &str, similar: Option<&str>) -> String {
    let hint = match similar {
        Some(similar) => format!(": did you mean `{similar}`?"),
        None => ": `ferroplane functions versions` lists those".to_owned(),
    };
    format!(
        "step `{step}` calls function `{function}`, which is neither among the Functions given nor built in{hint}"
    )
}

/// A composition must be in the form that it says it is in.
fn check_mode(manifest: &Manifest, composition: &Composition) -> anyhow::Result<()> {
    let spec = &composition.spec;
    let has_resources = !spec.resources.is_empty();
    if spec.mode.is_none() && has_resources && !spec.pipeline.is_empty() {
        let message = "a composition has either `resources` or a `pipeline`: say which with `mode`";
        return Err(manifest.error(&["spec", "resources"], message).into());
    }
    if spec.mode() == Mode::Resources && !has_resources {
        let message = "a composition with `mode: Resources` needs `resources`";
        return Err(manifest.error(&["spec", "mode"], message).into());
    }
    Ok(())
}

/// An XR that chooses its composition by labels must be able to choose this one.
fn check_selector(
    xr: &Manifest,
    composition: &Composition,
    definition: Option<&Definition>,
) -> anyhow::Result<()> {
    let layout = layout_of(definition.map(|definition| &definition.spec));
    for (key, wanted) in Machinery::of(xr.object(), layout).composition_selector().into_iter().flatten() {
        let actual = composition.label(&key);
        if actual != Some(wanted.as_str()) {
            let actual =
                actual.map_or_else(|| "does not have".to_owned(), |actual| format!("has as `{actual}`"));
            let message = format!(
                "the composite resource selects compositions with label `{key}: {}`, which composition `{}` {actual}",
                wanted,
                composition.name()
            );
            return Err(xr.error(&["spec"], message).into());
        }
    }
    Ok(())
}
