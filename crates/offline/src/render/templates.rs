//! The templates of function-go-templating: the directories that steps read, and which lines printed what was rendered.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ferroplane_api::{Composition, Object, RequiredResource, Step, keys, meta};
use ferroplane_functions::{Implementation, TemplateLine, TemplatePart, TracedRun, trace_templates};
use ferroplane_wire::v1::RunFunctionRequest;
use ferroplane_wire::{State, Struct};
use serde_json::{Map, Value, json};

use crate::file_name::file_below;
use crate::manifest::{Files, Manifest};

/// The function whose templates these are.
pub(crate) const GO_TEMPLATING: &str = "function-go-templating";
/// The group of its input.
pub(crate) const INPUT_GROUP: &str = "gotemplating.fn.crossplane.io";
/// What stands for a directory among the resources that a step requires. It is in no namespace, so that no grant is needed: the user who
/// renders may read the files.
const DIRECTORY_VERSION: &str = "render.ferroplane.io/v1beta1";
const DIRECTORY_KIND: &str = "TemplateDirectory";

/// The steps with templates, and which lines of them printed what was rendered.
#[derive(Debug)]
pub(crate) struct TemplateSteps {
    composition: Manifest,
    steps: Vec<TemplateStep>,
    /// By composite resource, then by the input of the step.
    runs: Mutex<HashMap<CompositeName, HashMap<[u8; 32], TracedRun>>>,
}

/// Kind, namespace and name.
type CompositeName = (String, String, String);

#[derive(Debug)]
struct TemplateStep {
    name: String,
    /// Which one it is in the pipeline.
    index: usize,
    input: [u8; 32],
    /// The directory that was read.
    directory: Option<PathBuf>,
}

impl TemplateSteps {
    /// Finds the steps with templates. Directories that they read, and that stand beside the Composition, become resources that they
    /// require; these are returned, too.
    pub(super) fn load(
        manifest: &Manifest,
        composition: &mut Composition,
        files: &mut Files,
        is_built_in: impl Fn(&str) -> bool,
    ) -> anyhow::Result<(Self, Vec<Object>)> {
        let (mut steps, mut objects) = (Vec::new(), Vec::new());
        for (index, step) in composition.spec.pipeline.iter_mut().enumerate() {
            // Most inputs are of other functions, and large: only one with templates is copied.
            let Some(input) = step.input.as_ref().filter(|input| is_template_input(input)).cloned() else {
                continue;
            };
            if !is_built_in(&step.function_ref.name) {
                continue;
            }
            let directory = match wanted_directory(&input, step) {
                Some(wanted) => {
                    let path = find_directory(manifest, wanted, files).ok_or_else(|| {
                        let at = format!("spec.pipeline.{index}.input.fileSystem.dirPath");
                        let at: Vec<_> = at.split('.').collect();
                        let message = format!(
                            "there is no directory `{}` beside this file, and the step has no required resource with the \
                             requirementName `{wanted}`",
                            wanted.trim_start_matches('/')
                        );
                        manifest.error(&at, message)
                    })?;
                    let texts = files.load_texts(&path, &manifest.source().directory())?;
                    objects.push(require(step, &format!("step-{index}"), wanted, texts));
                    Some(path)
                }
                None => None,
            };
            let input = *Struct::try_from(input)?.digest();
            steps.push(TemplateStep { name: step.step.clone(), index, input, directory });
        }
        Ok((Self { composition: manifest.clone(), steps, runs: Mutex::default() }, objects))
    }

    /// The function in this version, which tells here what it did.
    pub(super) fn traced(
        self: &std::sync::Arc<Self>,
        version: &str,
        plain: &Implementation,
    ) -> Implementation {
        let (steps, version, plain) = (self.clone(), version.to_owned(), plain.clone());
        Implementation::new_long(move |request, effort| {
            let Some(traced) = trace_templates(&version, request, effort) else {
                return Ok(plain.run(request));
            };
            let mut traced = traced?;
            let response = std::mem::take(&mut traced.response);
            steps.note(request, traced);
            Ok(response)
        })
    }

    fn note(&self, request: &RunFunctionRequest, traced: TracedRun) {
        let xr = request.observed.as_ref().and_then(State::composite).and_then(|xr| xr.resource.as_ref());
        let Some(xr) = xr.and_then(|xr| xr.json().ok()) else { return };
        let input = request.input.as_ref().map(Struct::digest).copied().unwrap_or_default();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        // A step may be called several times; only its last answer counts.
        runs.entry(name_of(xr)).or_default().insert(input, traced);
    }

    /// Which lines printed the documents about the composite resource itself (no name), or a composed resource.
    pub(super) fn sources(&self, xr: &Object, resource: Option<&str>) -> Vec<String> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(runs) = runs.get(&name_of(xr)) else { return Vec::new() };
        let mut found = Vec::new();
        for step in &self.steps {
            let documents = runs.get(&step.input).into_iter().flat_map(|run| &run.documents);
            let documents = documents.filter(|document| document.resource.as_deref() == resource);
            let lines =
                documents.map(|document| format!("{}, step {}", self.place(step, &document.at), step.name));
            // A later step replaces what an earlier one composed; documents about the composite resource add up.
            let lines: Vec<_> = lines.collect();
            if resource.is_some() && !lines.is_empty() {
                found.clear();
            }
            found.extend(lines);
        }
        found.dedup();
        found
    }

    /// There is nothing more to say about a composite resource. There may be very many.
    pub(super) fn forget(&self, xr: &Object) {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&name_of(xr));
    }

    /// The line of a file that a step failed at.
    pub(super) fn failed_at(&self, xr: &Object, step: &str) -> Option<String> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let step = self.steps.iter().find(|it| it.name == step)?;
        let run = runs.get(&name_of(xr))?.get(&step.input)?;
        Some(self.place(step, run.failed_at.as_ref()?))
    }

    fn place(&self, step: &TemplateStep, at: &TemplateLine) -> String {
        if let (TemplatePart::File(name), Some(directory)) = (&at.part, &step.directory) {
            return format!("{}:{}", directory.join(name).display(), at.line);
        }
        let input = format!("spec.pipeline[{}].input", step.index);
        match line_of(&self.composition, &input, at) {
            Some(line) => format!("{}:{line}", self.composition.source()),
            None => at.to_string(),
        }
    }
}

/// The line of a manifest that holds a line of a template, if the template is in the input at this field.
pub(crate) fn line_of(manifest: &Manifest, input: &str, at: &TemplateLine) -> Option<u64> {
    let field = match &at.part {
        // The template may be the text itself, or a field of an object.
        TemplatePart::Inline => {
            let field = format!("{input}.inline.template");
            if manifest.has_text(&field) { field } else { format!("{input}.inline") }
        }
        TemplatePart::InlineList(index) => format!("{input}.inline.templates[{index}]"),
        TemplatePart::Environment(_) | TemplatePart::File(_) => return None,
    };
    Some(manifest.line_in(&field, at.line))
}

fn name_of(xr: &Object) -> CompositeName {
    (meta::kind(xr).to_owned(), meta::namespace(xr).to_owned(), meta::name(xr).to_owned())
}

fn is_template_input(input: &Object) -> bool {
    meta::group(meta::api_version(input)) == INPUT_GROUP
}

/// The directory that an input reads, if it reads one.
pub(crate) fn directory_of(input: &Object) -> Option<&str> {
    let is_file_system = input.get("source").is_some_and(|source| source == "FileSystem");
    let path = input.get("fileSystem").and_then(|files| files.get("dirPath")?.as_str());
    path.filter(|path| is_file_system && !path.is_empty())
}

/// The directory that has to be read for a step, because the Composition does not say what stands for it.
fn wanted_directory<'i>(input: &'i Object, step: &Step) -> Option<&'i str> {
    let path = directory_of(input)?;
    (!is_required(step, path)).then_some(path)
}

/// Whether a step requires something under a name.
pub(super) fn is_required(step: &Step, name: &str) -> bool {
    let mut required = step.requirements.iter().flat_map(|all| &all.required_resources);
    required.any(|required| required.requirement_name == name)
}

/// The directory beside a manifest that a path in a container stands for: all of the path, or the last part of it.
pub(crate) fn find_directory(manifest: &Manifest, path: &str, files: &mut Files) -> Option<PathBuf> {
    let around = manifest.source().directory();
    let path = path.trim_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    let candidates: Vec<_> = [path, last].iter().filter_map(|path| file_below(&around, path)).collect();
    let found = candidates.iter().find(|candidate| is_directory_within(candidate, &around)).cloned();
    if found.is_none() {
        for candidate in &candidates {
            files.miss(candidate);
        }
    }
    found
}

/// Links could lead anywhere, and a user who renders foreign files must not print their own.
fn is_directory_within(directory: &Path, around: &Path) -> bool {
    let (Ok(directory), Ok(around)) = (std::fs::canonicalize(directory), std::fs::canonicalize(around))
    else {
        return false;
    };
    directory.is_dir() && directory.starts_with(around)
}

/// Lets a step require the files of a directory, as an object.
pub(super) fn require(step: &mut Step, name: &str, path: &str, texts: BTreeMap<String, String>) -> Object {
    let required = RequiredResource {
        requirement_name: path.to_owned(),
        api_version: DIRECTORY_VERSION.to_owned(),
        kind: DIRECTORY_KIND.to_owned(),
        namespace: None,
        name: Some(name.to_owned()),
        match_labels: BTreeMap::new(),
    };
    step.requirements.get_or_insert_default().required_resources.push(required);
    directory_object(name, texts)
}

/// The files of a directory, as an object.
pub(crate) fn directory_object(name: &str, texts: BTreeMap<String, String>) -> Object {
    let data: Map<_, _> = texts.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
    let object = json!({
        "apiVersion": DIRECTORY_VERSION, "kind": DIRECTORY_KIND, "metadata": {"name": name}, "data": data,
    });
    object.as_object().cloned().unwrap_or_default()
}

/// The name that the composition knows a composed resource by.
pub(super) fn resource_name(object: &Object) -> &str {
    meta::annotation(object, keys::RESOURCE_NAME)
}
