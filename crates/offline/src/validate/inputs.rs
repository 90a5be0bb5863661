//! Validates the inputs of functions.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use ferroplane_api::{Object, meta};
use ferroplane_engine::versions::{
    Question, Replaceable, Replacement, Unresolved, Version, replacement, resolve,
};
use ferroplane_engine::{chain, check_capability};
use ferroplane_functions::{InputMistake, Library};
use ferroplane_schema::field::Path;
use ferroplane_schema::structural::Schema;
use serde_json::Value;

use super::finding::{Problem, ProblemKind};
use super::kinds::Kinds;
use super::patches::{self, Composite};
use super::templates::Examples;
use super::{bases, scripts, templates};
use crate::manifest::Manifest;
use crate::render::scripts::STARLARK;
use crate::render::templates::GO_TEMPLATING;

/// The function whose input has bases of resources in it.
const PATCH_AND_TRANSFORM: &str = "function-patch-and-transform";

/// The functions that can be called.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// Those that are given, by name.
    given: HashMap<String, GivenFunction>,
    /// Whether those that a control plane has are among them.
    has_installed: bool,
    /// Composite resources that are given, to try templates with.
    pub(super) examples: Examples,
    library: OnceLock<Option<Library>>,
    /// The schemas of inputs, by built-in function.
    schemas: Mutex<HashMap<String, Option<Schema>>>,
}

/// The parts of a Function that say whether a built-in function runs in place of its package.
#[derive(Debug)]
struct GivenFunction {
    package: String,
    /// The annotation `ferroplane.io/native`, or empty.
    native: String,
}

/// Who is called.
enum Callee {
    BuiltIn(String),
    /// A function whose input we do not know.
    Foreign,
    Unknown,
}

/// A call of a function in a pipeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'c> {
    pub(super) function: &'c str,
    /// The version that the step asks for.
    pub(super) version: Option<&'c str>,
    /// The capability that pipelines like this need.
    pub(super) capability: &'static str,
    pub(super) input: Option<&'c Object>,
    /// Where the function is named.
    pub(super) function_at: &'c str,
    /// Where the input is.
    pub(super) input_at: &'c str,
    /// Whether it is the first step, which finds no context of others.
    pub(super) is_first: bool,
    /// What the pipeline is for, if that is known.
    pub(super) composite: Option<Composite<'c>>,
}

impl Functions {
    /// A Function is given.
    pub(super) fn add(&mut self, function: &Object) {
        let Replaceable { name, package, annotation } = Replaceable::of(function);
        let native = annotation.unwrap_or_default().to_owned();
        self.given.insert(name.to_owned(), GivenFunction { package: package.to_owned(), native });
    }

    /// These Functions are on the control plane to which the rest goes.
    pub(super) fn add_installed(&mut self, functions: &[Object]) {
        self.has_installed = true;
        for function in functions {
            // What is in a file is about to replace what is installed.
            if !self.given.contains_key(meta::name(function)) {
                self.add(function);
            }
        }
    }

    /// What is wrong with a call, and what might be.
    pub(super) fn check(
        &self,
        call: &Call<'_>,
        kinds: &Kinds,
        manifest: &Manifest,
    ) -> (Vec<Problem>, Vec<Problem>) {
        let (mut warnings, mut unknown) = (Vec::new(), Vec::new());
        let callee = self.callee(call.function);
        if let Callee::Unknown = &callee
            && !call.function.is_empty()
        {
            let where_not = if self.has_installed {
                "neither built in nor installed, and no file has it"
            } else {
                "neither built in nor among the given Functions"
            };
            let similar = self.similar(call.function);
            let message =
                format!("{}: function `{}` is {where_not}{similar}", call.function_at, call.function);
            unknown.push(Problem::new(ProblemKind::UnknownFunction, manifest, call.function_at, message));
        }
        // A user who lists Functions lists all of them, so that a similar name is a typing error. Otherwise the function
        // may be installed where the composition is going to be used.
        let is_mistake = !self.given.is_empty() || !self.similar(call.function).is_empty();
        let (mut errors, more): (Vec<_>, Vec<_>) = unknown.into_iter().partition(|_| is_mistake);
        warnings.extend(more);
        if let Callee::BuiltIn(function) = &callee {
            errors.extend(self.uncallable(function, call, manifest));
        }
        let input_errors = match (call.input.and_then(|input| given_schema(input, kinds)), callee) {
            (Some(schema), _) => against(schema, call, manifest),
            (None, Callee::BuiltIn(function)) => {
                let mut errors = self.check_built_in(&function, call, manifest, &mut warnings);
                errors.extend(self.check_content(&function, call, kinds, manifest, &mut warnings));
                errors
            }
            (None, _) => Vec::new(),
        };
        errors.extend(input_errors);
        (errors, warnings)
    }

    /// Check what a schema cannot: patches, templates and scripts in the input of a function that is built in.
    fn check_content(
        &self,
        function: &str,
        call: &Call<'_>,
        kinds: &Kinds,
        manifest: &Manifest,
        warnings: &mut Vec<Problem>,
    ) -> Vec<Problem> {
        let mut errors = Vec::new();
        if let (PATCH_AND_TRANSFORM, Some(input)) = (function, call.input) {
            errors.extend(bases::check(input, call.input_at, kinds, manifest));
            let (wrong, doubtful) = bases::check_kinds(input, call.input_at, kinds, call.composite, manifest);
            let (set, read) = patches::check_composed(input, call.input_at, kinds, manifest);
            errors.extend(wrong.into_iter().chain(set));
            warnings.extend(doubtful.into_iter().chain(read));
            let composite = call.composite.into_iter();
            warnings.extend(composite.flat_map(|it| patches::check(input, call.input_at, it, manifest)));
        }
        if let (GO_TEMPLATING, Some(version)) = (function, self.version(function)) {
            let examples = self.examples.of(manifest.object());
            let found = templates::check(&version.to_string(), call, examples, manifest);
            errors.extend(found.errors);
            warnings.extend(found.warnings);
        }
        if function == STARLARK {
            errors.extend(scripts::check(call, manifest));
        }
        errors
    }

    /// Whether anything is known about an input.
    pub(super) fn knows(&self, function: &str, input: &Object, kinds: &Kinds) -> bool {
        given_schema(input, kinds).is_some()
            || matches!(self.callee(function), Callee::BuiltIn(function) if self.schema(&function).is_some())
    }

    fn callee(&self, name: &str) -> Callee {
        let Some(library) = self.library() else { return Callee::Unknown };
        let listed = |name: &str| library.listed_name(name).unwrap_or(name).to_owned();
        let Some(GivenFunction { package, native }) = self.given.get(name) else {
            return library.listed_name(name).map_or(Callee::Unknown, |_| Callee::BuiltIn(listed(name)));
        };
        let function = Replaceable { name, package, annotation: Some(native) };
        match replacement(function, library.catalogue(), |package| library.native(package)) {
            Ok(Replacement { function, .. }) => Callee::BuiltIn(listed(&function)),
            Err(_) => Callee::Foreign,
        }
    }

    /// Why steps of such a pipeline cannot call a function that is built in, or not in this version.
    fn uncallable(&self, function: &str, call: &Call<'_>, manifest: &Manifest) -> Option<Problem> {
        let library = self.library()?;
        // A package has revisions of its own, which only a control plane knows.
        let version = call.version.filter(|_| !self.given.contains_key(call.function));
        let question = Question { version: version.map(str::to_owned), ..Question::about(function) };
        let (field, message) = match resolve(library.catalogue(), &question) {
            Err(unresolved) => {
                let field = call.function_at.strip_suffix(".name").unwrap_or(call.function_at);
                (format!("{field}.version"), chain(&unresolved))
            }
            Ok(resolution) => {
                let (callee, capabilities) = (("", call.function), library.capabilities());
                let revision = &resolution.record.revision.name;
                let checked = check_capability(callee, revision, call.capability, &capabilities);
                (call.function_at.to_owned(), chain(&checked.err()?))
            }
        };
        Some(Problem::new(ProblemKind::NotCallable, manifest, &field, format!("{field}: {message}")))
    }

    /// The name that the user probably meant.
    fn similar(&self, function: &str) -> String {
        let library = self.library().map(Library::catalogue);
        match library.map(|catalogue| resolve(catalogue, &Question::about(function))) {
            Some(Err(Unresolved::UnknownFunction { similar: Some(similar), .. })) => {
                format!(": did you mean `{similar}`?")
            }
            _ => String::new(),
        }
    }

    fn library(&self) -> Option<&Library> {
        self.library.get_or_init(|| Library::built_in().ok()).as_ref()
    }

    fn check_built_in(
        &self,
        function: &str,
        call: &Call<'_>,
        manifest: &Manifest,
        warnings: &mut Vec<Problem>,
    ) -> Vec<Problem> {
        let Some(schema) = self.schema(function) else {
            if call.input.is_some() {
                let message = format!("{}: function `{function}` takes no input", call.input_at);
                warnings.push(Problem::new(ProblemKind::FunctionInput, manifest, call.input_at, message));
            }
            return Vec::new();
        };
        let mut problems = Vec::new();
        if call.input.is_some() {
            problems = against(&schema, call, manifest);
        }
        if problems.is_empty() {
            problems.extend(self.mistakes(function, call, manifest));
        }
        problems
    }

    fn schema(&self, function: &str) -> Option<Schema> {
        // Held while the schema is compiled: all threads ask for the same few at once, and one compilation is
        // enough.
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = schemas.get(function) {
            return schema.clone();
        }
        let text = self.library().and_then(|library| library.contract(function)?.input);
        let json = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let props = json.and_then(|json| ferroplane_schema::structural::Props::decode(&json).ok());
        let schema = props.map(|props| Schema::compile(&props));
        schemas.insert(function.to_owned(), schema.clone());
        schema
    }

    /// The default version of a built-in function.
    fn version(&self, function: &str) -> Option<Version> {
        let resolution = resolve(self.library()?.catalogue(), &Question::about(function)).ok();
        resolution.and_then(|resolution| resolution.record.version.clone())
    }

    /// What the function itself says: some mistakes are beyond any schema.
    fn mistakes(&self, function: &str, call: &Call<'_>, manifest: &Manifest) -> Vec<Problem> {
        let Some(library) = self.library() else { return Vec::new() };
        let version = self.version(function);
        let mistakes = version.map(|version| library.input_mistakes(function, &version, call.input));
        let problem = |InputMistake { field, message, line }: InputMistake| {
            let at = call.input_at;
            let field = if field.is_empty() { at.to_owned() } else { format!("{at}.{field}") };
            let problem =
                Problem::new(ProblemKind::FunctionInput, manifest, &field, format!("{field}: {message}"));
            Problem { line: line.map_or(problem.line, |line| manifest.line_in(&field, line)), ..problem }
        };
        mistakes.into_iter().flatten().map(problem).collect()
    }
}

/// The schema of an input whose kind is given.
fn given_schema<'k>(input: &Object, kinds: &'k Kinds) -> Option<&'k Schema> {
    let api_version = meta::api_version(input);
    let known = kinds.given(meta::group(api_version), meta::kind(input))?;
    Some(&known.resource(meta::version(api_version))?.schema)
}

fn against(schema: &Schema, call: &Call<'_>, manifest: &Manifest) -> Vec<Problem> {
    let mut input = call.input.cloned().unwrap_or_default();
    let unknown = schema.prune(&mut input);
    schema.drop_nulls(&mut input);
    schema.default(&mut input);
    let at = Path::new(call.input_at);
    let mut errors = schema.validate_embedded(&input, &at);
    errors.extend(schema.validate_lists(&input, &at));
    let input = Value::Object(input);
    // In front, where an API server has them; they are made later only because they need the input as a
    // value.
    errors.splice(0..0, schema.validate(&input, &at));
    errors.extend(schema.validate_rules(&input, None, &at));
    let unknown = unknown.iter().map(|field| {
        Problem::unknown_field(ProblemKind::FunctionInput, manifest, &format!("{}.{field}", call.input_at))
    });
    let errors = errors.iter().map(|error| Problem::of(ProblemKind::FunctionInput, manifest, error));
    errors.chain(unknown).collect()
}
