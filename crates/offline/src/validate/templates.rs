//! Templates in Compositions: what is certainly wrong with them, and what goes wrong with the composite resources that are given.

use std::collections::BTreeMap;
use std::time::Instant;

use ferroplane_api::{Object, meta};
use ferroplane_functions::{
    Effort, TemplateLine, TemplateMistake, TemplatePart, check_templates, trace_templates,
};
use ferroplane_schema::structural::Schema;
use ferroplane_wire::v1::{Resource, Resources, RunFunctionRequest, Severity};
use ferroplane_wire::{State, Struct};
use serde_json::{Value, json};

use super::finding::{Problem, ProblemKind};
use super::inputs::Call;
use super::pipelines::composite_type;
use crate::manifest::{Files, Manifest, ManifestSource};
use crate::render::templates::{directory_object, directory_of, find_directory, line_of};

/// Templates are tried with so many composite resources of a kind.
const ENOUGH: usize = 3;

/// Composite resources that are given, by version and kind.
#[derive(Debug, Default)]
pub(super) struct Examples {
    by_kind: BTreeMap<(String, String), Vec<Manifest>>,
}

impl Examples {
    pub(super) fn add(&mut self, manifest: Manifest) {
        let object = manifest.object();
        if is_rendered(object) {
            return;
        }
        let kind = (meta::api_version(object).to_owned(), meta::kind(object).to_owned());
        let known = self.by_kind.entry(kind).or_default();
        if known.len() < ENOUGH {
            known.push(manifest);
        }
    }

    /// Those that a composition is for.
    pub(super) fn of(&self, composition: &Object) -> &[Manifest] {
        let kind = composite_type(composition).map(|(version, kind)| (version.to_owned(), kind.to_owned()));
        kind.and_then(|kind| self.by_kind.get(&kind)).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Whether an object is what `render` prints of a composite resource: a status, and nothing of what users wrote.
fn is_rendered(xr: &Object) -> bool {
    let spec = xr.get("spec").and_then(Value::as_object);
    let is_machinery = |key: &str| ["crossplane", "resourceRefs"].contains(&key);
    xr.contains_key("status") && spec.is_none_or(|spec| spec.keys().all(|key| is_machinery(key)))
}

/// What was found out about templates.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// Reads the templates of a call, and tries them with the composite resources that are given.
pub(super) fn check(version: &str, call: &Call<'_>, examples: &[Manifest], manifest: &Manifest) -> Found {
    let mut found = Found::default();
    let Some(templates) = Templates::of(call, manifest) else { return found };
    let checked = check_templates(version, &templates.request(templates.bare_composite()));
    if let Some(error) = checked.error {
        // Mistakes in the input itself were reported when the input was checked.
        let is_elsewhere = matches!(&error.at, Some(TemplateLine { part: TemplatePart::File(_), .. }));
        found.errors.extend(is_elsewhere.then(|| templates.problem(error)));
        return found;
    }
    let is_tried = !examples.is_empty();
    // What goes wrong for an example says more than what might go wrong for any.
    let warnings = checked.warnings.into_iter().filter(|warning| !(is_tried && is_about_names(warning)));
    found.warnings.extend(warnings.map(|warning| templates.problem(warning)));
    for example in examples {
        found.warnings.extend(templates.try_with(version, example));
    }
    found.warnings.dedup();
    found
}

fn is_about_names(warning: &TemplateMistake) -> bool {
    warning.message.contains("has no name to be composed by")
}

/// The templates of a call.
struct Templates<'t> {
    call: &'t Call<'t>,
    manifest: &'t Manifest,
    input: Struct,
    /// The directory that they are in, and its files.
    directory: Option<(String, Struct)>,
}

impl<'t> Templates<'t> {
    fn of(call: &'t Call<'t>, manifest: &'t Manifest) -> Option<Self> {
        let input = call.input?;
        let directory = match directory_of(input) {
            Some(path) => Some((path.to_owned(), read_directory(manifest, path)?)),
            None => None,
        };
        Some(Self { call, manifest, input: Struct::try_from(input.clone()).ok()?, directory })
    }

    /// Nothing but version and kind.
    fn bare_composite(&self) -> Object {
        let (version, kind) = composite_type(self.manifest.object()).unwrap_or_default();
        json!({"apiVersion": version, "kind": kind}).as_object().cloned().unwrap_or_default()
    }

    fn request(&self, xr: Object) -> RunFunctionRequest {
        let composite = Resource { resource: Struct::try_from(xr).ok(), ..Resource::default() };
        let required = self.directory.iter().map(|(path, files)| {
            let item = Resource { resource: Some(files.clone()), ..Resource::default() };
            (path.clone(), Resources { items: vec![item] })
        });
        RunFunctionRequest {
            input: Some(self.input.clone()),
            observed: Some(State::new(Some(composite), BTreeMap::new())),
            required_resources: required.collect(),
            ..RunFunctionRequest::default()
        }
    }

    /// What goes wrong for a composite resource.
    fn try_with(&self, version: &str, example: &Manifest) -> Vec<Problem> {
        let mut xr = example.object().clone();
        if let Some(composite) = self.call.composite {
            Schema::compile(composite.schema).default(&mut xr);
        }
        let start = Instant::now();
        let elapsed = || start.elapsed();
        let traced = trace_templates(version, &self.request(xr), Effort::Full(&elapsed));
        let Some(Ok(traced)) = traced else { return Vec::new() };
        let lost = traced.lost_separators.iter().map(|at| TemplateMistake {
            at: Some(at.clone()),
            message: "the separator `---` is not at the start of a line, because a trim marker removes the line feed before it"
                .to_owned(),
        });
        let mut mistakes: Vec<_> = lost.collect();
        let fatal = traced.response.results.iter().find(|result| result.severity == Severity::Fatal as i32);
        // What later steps fail at may be what earlier steps bring.
        if let Some(fatal) = fatal.filter(|_| traced.has_output || self.call.is_first) {
            mistakes.push(TemplateMistake { at: traced.failed_at, message: fatal.message.clone() });
        }
        let which = format!(
            "{} `{}` ({})",
            meta::kind(example.object()),
            meta::name(example.object()),
            example.source()
        );
        let told = mistakes.into_iter().map(|TemplateMistake { at, message }| {
            self.problem(TemplateMistake { at, message: format!("with {which}: {message}") })
        });
        told.collect()
    }

    /// Where a mistake is in the manifest; if it is in a file, where the directory is named.
    fn problem(&self, TemplateMistake { at, message }: TemplateMistake) -> Problem {
        let input = self.call.input_at;
        let field = if self.directory.is_some() { "fileSystem.dirPath" } else { "inline" };
        let field = format!("{input}.{field}");
        let line = at.as_ref().and_then(|at| line_of(self.manifest, input, at));
        let message = match &at {
            Some(at @ TemplateLine { part: TemplatePart::File(_), .. }) if !message.contains("of file `") => {
                format!("{field}: {message} ({at})")
            }
            _ => format!("{field}: {message}"),
        };
        let problem = Problem::new(ProblemKind::FunctionInput, self.manifest, &field, message);
        Problem { line: line.unwrap_or(problem.line), ..problem }
    }
}

/// The files of a directory beside a manifest. Where they are elsewhere, nothing is known about them.
pub(super) fn read_directory(manifest: &Manifest, path: &str) -> Option<Struct> {
    // A Composition that stands in no file may come from anybody, and is not to make us read files.
    let ManifestSource::File(_) = manifest.source() else { return None };
    let mut files = Files::default();
    let directory = find_directory(manifest, path, &mut files)?;
    let texts = files.load_texts(&directory, &manifest.source().directory()).ok()?;
    Struct::try_from(directory_object("templates", texts)).ok()
}
