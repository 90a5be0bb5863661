//! What the step says: where the templates are, and how they are written.

use std::borrow::Cow;
use std::sync::Arc;

use ferroplane_api::keys::NATIVE;
use ferroplane_engine::{REMOTE_TEMPLATES_ARE_OFF, RemoteTemplates};
use ferroplane_template::{Functions, MissingKey, Options, Templates};
use ferroplane_wire::Struct;
use ferroplane_wire::v1::{Resource, RunFunctionRequest};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::limits::{self, Limits};
use super::parsed::{Kept, Slot};
use super::problem::Problem;
use super::release::Release;
use super::source::{Lines, SourceText, TemplatePart};
use super::{files, helpers};

/// What the original calls its template: errors begin with it.
const NAME: &str = "manifests";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Input {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    delims: Option<Delims>,
    source: Option<String>,
    inline: Option<Inline>,
    file_system: Option<FileSystem>,
    environment: Option<Environment>,
    /// The form of the design, for which no release has a source.
    remote: Option<String>,
    options: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Delims {
    left: Option<String>,
    right: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Inline {
    /// The form of the design: the text itself.
    Text(String),
    Fields(InlineFields),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct InlineFields {
    template: Option<String>,
    templates: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileSystem {
    dir_path: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Environment {
    key: Option<String>,
}

/// An input that was read, once for all requests that share it.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) release: Release,
    pub(super) limits: Limits,
    /// The input that random values depend on, if it is not the whole one.
    pub(super) seed: Option<Struct>,
    source: Source,
    how: How,
}

#[derive(Debug)]
enum Source {
    Inline(Result<Parsed, Problem>),
    /// The template is in this key of the environment.
    Environment(String),
    /// The templates are in this directory, whose files come with the request.
    FileSystem(String),
    /// The templates are at this place elsewhere; they come with the request, too.
    Remote(String),
    /// The templates are those of this directory.
    Files(String, Result<Parsed, Problem>),
}

/// Templates, ready to be executed, and where their lines come from.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) templates: Templates,
    pub(super) lines: Lines,
}

/// How templates are written.
#[derive(Debug, Clone)]
struct How {
    functions: &'static Functions,
    delimiters: (String, String),
    missing_key: Result<MissingKey, String>,
}

impl Prepared {
    pub(super) fn read(input: &Struct, release: Release) -> Result<Self, String> {
        let wrong = |error: String| {
            format!(
                "cannot get Function input from *v1.RunFunctionRequest: cannot get function input *v1beta1.GoTemplate from *v1.RunFunctionRequest: {error}"
            )
        };
        let json = input.json().map_err(|error| wrong(error.to_string()))?;
        let known = if release.refuses_unknown_fields() { None } else { Some(known_fields(json)) };
        let input: Input = serde_path_to_error::deserialize(known.as_ref().unwrap_or(json))
            .map_err(|error| wrong(error.to_string()))?;
        if let Some(field) = later_field(json, release) {
            return Err(wrong(format!("unknown field `{field}`: a later version of the function has it")));
        }
        let how = How::of(&input, release);
        let source =
            source(&input, release, &how).map_err(|error| format!("invalid function input: {error}"))?;
        let limits = Limits::read(json).map_err(|error| format!("invalid function input: {error}"))?;
        let seed = limits::without_limits(json);
        Ok(Self { release, limits, seed, source, how })
    }

    /// How many bytes of templates come with the request, and may have to be parsed now.
    pub(super) fn text_length(&self, request: &RunFunctionRequest) -> usize {
        let length = |object: &Struct| object.wire().len();
        match &self.source {
            Source::Inline(_) | Source::Files(..) => 0,
            Source::Environment(_) => request.context.as_ref().map_or(0, length),
            Source::FileSystem(directory) | Source::Remote(directory) => {
                let items =
                    files::required(request, directory).map(|found| &found.items[..]).unwrap_or_default();
                match items {
                    [Resource { resource: Some(files), .. }] if self.kept(files, directory).is_some() => 0,
                    _ => items.iter().filter_map(|item| item.resource.as_ref()).map(length).sum(),
                }
            }
        }
    }

    /// What was made of the files of a directory, if they were parsed as this input wants them.
    fn kept(&self, files: &Struct, directory: &str) -> Option<Arc<Kept>> {
        let is_same =
            |read: &Result<Self, String>| read.as_ref().is_ok_and(|it| it.is_made_for(self, directory));
        files.reading(|_| Slot::default()).get(self.release).filter(|kept| is_same(&kept.read))
    }

    /// Calls back with the templates that this request is about, and with the request as they see it.
    pub(super) fn with_templates<T>(
        &self,
        request: &RunFunctionRequest,
        go_on: impl FnOnce(&Parsed, Cow<'_, RunFunctionRequest>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        match &self.source {
            Source::Inline(parsed) | Source::Files(_, parsed) => {
                go_on(parsed.as_ref().map_err(Clone::clone)?, Cow::Borrowed(request))
            }
            Source::Environment(key) => {
                let text = from_environment(request.context.as_ref(), key)
                    .map_err(|error| format!("invalid function input: {error}"))?;
                let text = SourceText::of(TemplatePart::Environment(key.clone()), text);
                go_on(&self.how.parse(text)?, Cow::Borrowed(request))
            }
            Source::FileSystem(directory) => self.with_files(directory, request, go_on),
            Source::Remote(remote) if files::required(request, remote).is_none() => {
                Err(format!("cannot read templates from {remote}: {REMOTE_TEMPLATES_ARE_OFF}").into())
            }
            Source::Remote(remote) => self.with_files(remote, request, go_on),
        }
    }

    fn with_files<T>(
        &self,
        directory: &str,
        request: &RunFunctionRequest,
        go_on: impl FnOnce(&Parsed, Cow<'_, RunFunctionRequest>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let found = files::required(request, directory);
        let parse = || {
            let text =
                files::read(directory, found).map_err(|error| format!("invalid function input: {error}"))?;
            self.how.parse(text)
        };
        let request = Cow::Owned(files::without(request, directory));
        let items = found.map(|found| &found.items[..]).unwrap_or_default();
        let [Resource { resource: Some(files), .. }] = items else { return go_on(&parse()?, request) };
        // The usual case is one object, which many requests share: what was made of it is kept with it.
        let kept = self.kept(files, directory).unwrap_or_else(|| {
            let slot = files.reading(|_| Slot::default());
            slot.put(self.release, Ok(self.of_files(directory, parse())), files.wire().len())
        });
        match &kept.read {
            Ok(Self { source: Source::Files(_, parsed), .. }) => {
                go_on(parsed.as_ref().map_err(Clone::clone)?, request)
            }
            _ => go_on(&parse()?, request),
        }
    }

    fn of_files(&self, directory: &str, parsed: Result<Parsed, Problem>) -> Self {
        let source = Source::Files(directory.to_owned(), parsed);
        let how = self.how.clone();
        Self { release: self.release, limits: Limits::default(), seed: None, source, how }
    }

    /// Whether the files of this directory were parsed as another input wants them.
    fn is_made_for(&self, other: &Self, directory: &str) -> bool {
        let is_directory = matches!(&self.source, Source::Files(of, _) if of == directory);
        let how = |of: &Self| (of.how.delimiters.clone(), of.how.missing_key.clone());
        is_directory && how(self) == how(other)
    }
}

/// The fields of the first releases, and for some of them, what may be in them. `remote` is ours.
const FIRST_FIELDS: &[(&str, Option<&[&str]>)] = &[
    ("apiVersion", None),
    ("kind", None),
    ("metadata", None),
    ("delims", Some(&["left", "right"])),
    ("source", None),
    ("inline", Some(&["template"])),
    ("fileSystem", Some(&["dirPath"])),
    ("remote", None),
];

/// The input without the fields that the first releases pass over, because they do not know them.
fn known_fields(input: &Map<String, Value>) -> Map<String, Value> {
    let mut known = input.clone();
    known.retain(|name, value| {
        let field = FIRST_FIELDS.iter().find(|(field, _)| field == name);
        if let (Some((_, Some(parts))), Some(object)) = (field, value.as_object_mut()) {
            object.retain(|name, _| parts.contains(&name.as_str()));
        }
        field.is_some()
    });
    known
}

/// A field of the input that a release does not have yet.
fn later_field(input: &Map<String, Value>, release: Release) -> Option<&'static str> {
    let has = |field: &str| input.contains_key(field);
    let has_inline = |field: &str| input.get("inline").and_then(|inline| inline.get(field)).is_some();
    match () {
        () if !release.refuses_unknown_fields() => None,
        () if has("environment") && !release.reads_templates_from_the_environment() => Some("environment"),
        () if has("options") && !release.has_options() => Some("options"),
        () if has_inline("templates") && !release.has_options() => Some("inline.templates"),
        () => None,
    }
}

impl How {
    fn of(input: &Input, release: Release) -> Self {
        // The original changes both delimiters or none.
        let both = input.delims.as_ref().and_then(|both| Some((both.left.clone()?, both.right.clone()?)));
        let delimiters = both.unwrap_or_default();
        let missing_key =
            input.options.as_ref().map_or(Ok(MissingKey::Invalid), |options| missing_key(options));
        Self { functions: helpers::functions(release), delimiters, missing_key }
    }

    fn parse(&self, source: SourceText) -> Result<Parsed, Problem> {
        let missing_key = *self.missing_key.as_ref().unwrap_or(&MissingKey::Invalid);
        let (left, right) = &self.delimiters;
        let options = Options { delimiters: (left, right), missing_key };
        let SourceText { text, lines } = source;
        let templates = Templates::parse(NAME, &text, &options, self.functions).map_err(|error| {
            let message = format!("invalid function input: cannot parse the provided templates: {error}");
            Problem::in_template(message, &lines, error.line)
        })?;
        // Options are applied to a template that was parsed, so that a mistake in the text is reported first.
        self.missing_key.clone()?;
        Ok(Parsed { templates, lines })
    }
}

fn missing_key(options: &[String]) -> Result<MissingKey, String> {
    let mut missing_key = MissingKey::Invalid;
    for option in options {
        missing_key = MissingKey::parse(option).ok_or_else(|| {
            let problem = if option.is_empty() { "empty option string" } else { "unrecognized option: " };
            format!("cannot apply template options: panic occurred while applying template options: {problem}{option}")
        })?;
    }
    Ok(missing_key)
}

fn source(input: &Input, release: Release, how: &How) -> Result<Source, String> {
    match (input.source.as_deref().unwrap_or_default(), &input.inline) {
        ("Inline", _) | ("", Some(Inline::Text(_))) => {
            Ok(Source::Inline(how.parse(inline(input.inline.as_ref(), release)?)))
        }
        ("FileSystem", _) => {
            let directory = input.file_system.as_ref().and_then(|files| files.dir_path.as_deref());
            let directory = directory.filter(|directory| !directory.is_empty());
            Ok(Source::FileSystem(directory.ok_or("fileSystem.dirPath should be provided")?.to_owned()))
        }
        ("Environment", _) if release.reads_templates_from_the_environment() => {
            let key = input.environment.as_ref().and_then(|environment| environment.key.clone());
            let key = key.filter(|key| !key.is_empty()).ok_or("environment.key should be provided")?;
            Ok(Source::Environment(key))
        }
        ("Remote", _) => {
            let remote = input.remote.as_deref().filter(|remote| !remote.is_empty());
            let remote = remote.ok_or("remote should be provided")?;
            RemoteTemplates::parse(remote).map_err(|error| error.to_string())?;
            Ok(Source::Remote(remote.to_owned()))
        }
        ("", _) if release.has_default_source() => Err(format!(
            "source is required; if the package gets a default source from its environment, set the annotation `{NATIVE}: \"false\"` on the \
             Function, so that the package is called"
        )),
        ("", _) => Err("source is required".to_owned()),
        (other, _) => Err(format!("invalid source: {other}")),
    }
}

fn inline(inline: Option<&Inline>, release: Release) -> Result<SourceText, String> {
    let (template, templates) = match inline {
        Some(Inline::Text(text)) => (Some(text), None),
        Some(Inline::Fields(fields)) => (fields.template.as_ref(), fields.templates.as_ref()),
        None => (None, None),
    };
    let template = template.filter(|text| !text.is_empty()).cloned();
    let template = template.map(|text| SourceText::of(TemplatePart::Inline, text));
    let templates = templates.filter(|texts| !texts.is_empty());
    template.or_else(|| Some(SourceText::of_list(templates?))).ok_or_else(|| {
        let fields =
            if release.has_options() { "inline.template or inline.templates" } else { "inline.template" };
        format!("{fields} should be provided")
    })
}

fn from_environment(context: Option<&Struct>, key: &str) -> Result<String, String> {
    const ENVIRONMENT: &str = "apiextensions.crossplane.io/environment";
    let context = context.map(Struct::json).transpose().map_err(|error| error.to_string())?;
    let environment = context.and_then(|context| context.get(ENVIRONMENT)).and_then(Value::as_object);
    let cannot = "cannot read tmpl from the environment";
    let environment =
        environment.ok_or_else(|| format!("{cannot}: {ENVIRONMENT} key does not exist in context"))?;
    let text = environment.get(key).ok_or_else(|| format!("{cannot}: key: {key} does not exist"))?;
    let text = text.as_str().ok_or_else(|| format!("{cannot}: key: {key} value is not a string"))?;
    Ok(text.to_owned())
}
