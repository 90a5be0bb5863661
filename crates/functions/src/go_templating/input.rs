//! What the step says: where the templates are, and how they are written.

use ferroplane_template::{Functions, MissingKey, Options, Templates};
use ferroplane_wire::Struct;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::helpers;
use super::limits::{self, Limits};
use super::release::Release;

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
    ttl: Option<String>,
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
    pub(super) ttl: Option<String>,
    pub(super) limits: Limits,
    /// The input that random values depend on, if it is not the whole one.
    pub(super) seed: Option<Struct>,
    source: Source,
    how: How,
}

#[derive(Debug)]
enum Source {
    Inline(Result<Templates, String>),
    /// The template is in this key of the environment.
    Environment(String),
}

/// How templates are written.
#[derive(Debug)]
struct How {
    functions: &'static Functions,
    left: String,
    right: String,
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
        let input: Input =
            serde_path_to_error::deserialize(json).map_err(|error| wrong(error.to_string()))?;
        let how = How::of(&input, release);
        let source =
            source(&input, release, &how).map_err(|error| format!("invalid function input: {error}"))?;
        let limits = Limits::read(json).map_err(|error| format!("invalid function input: {error}"))?;
        let seed = limits::without_limits(json);
        let ttl = input.ttl.filter(|_| release.has_options());
        Ok(Self { release, ttl, limits, seed, source, how })
    }

    /// Whether the template comes with the context of the request.
    pub(super) fn reads_the_context(&self) -> bool {
        matches!(self.source, Source::Environment(_))
    }

    /// Calls back with the templates that this request is about.
    pub(super) fn with_templates<T>(
        &self,
        context: Option<&Struct>,
        go_on: impl FnOnce(&Templates) -> Result<T, String>,
    ) -> Result<T, String> {
        match &self.source {
            Source::Inline(templates) => go_on(templates.as_ref().map_err(Clone::clone)?),
            Source::Environment(key) => {
                let text = from_environment(context, key)
                    .map_err(|error| format!("invalid function input: {error}"))?;
                go_on(&self.how.parse(&text)?)
            }
        }
    }
}

impl How {
    fn of(input: &Input, release: Release) -> Self {
        // The original changes both delimiters or none.
        let both = input.delims.as_ref().and_then(|both| Some((both.left.clone()?, both.right.clone()?)));
        let (left, right) = both.unwrap_or_default();
        let options = input.options.as_ref().filter(|_| release.has_options());
        let missing_key = options.map_or(Ok(MissingKey::Invalid), |options| missing_key(options));
        Self { functions: helpers::functions(release), left, right, missing_key }
    }

    fn parse(&self, text: &str) -> Result<Templates, String> {
        let missing_key = *self.missing_key.as_ref().unwrap_or(&MissingKey::Invalid);
        let options = Options { delimiters: (&self.left, &self.right), missing_key };
        let templates = Templates::parse(NAME, text, &options, self.functions).map_err(|error| {
            format!("invalid function input: cannot parse the provided templates: {error}")
        })?;
        self.missing_key.clone()?;
        Ok(templates)
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
            Ok(Source::Inline(how.parse(&inline(input.inline.as_ref(), release)?)))
        }
        ("FileSystem", _) => {
            let directory = input.file_system.as_ref().and_then(|files| files.dir_path.as_deref());
            match directory.filter(|directory| !directory.is_empty()) {
                None => Err("fileSystem.dirPath should be provided".to_owned()),
                Some(directory) => Err(format!(
                    "cannot read templates from the directory {directory}: built-in functions read no files; write the template inline"
                )),
            }
        }
        ("Environment", _) if release.reads_templates_from_the_environment() => {
            let key = input.environment.as_ref().and_then(|environment| environment.key.clone());
            let key = key.filter(|key| !key.is_empty()).ok_or("environment.key should be provided")?;
            Ok(Source::Environment(key))
        }
        ("", _) => Err("source is required".to_owned()),
        (other, _) => Err(format!("invalid source: {other}")),
    }
}

fn inline(inline: Option<&Inline>, release: Release) -> Result<String, String> {
    let (template, templates) = match inline {
        Some(Inline::Text(text)) => (Some(text), None),
        Some(Inline::Fields(fields)) => {
            (fields.template.as_ref(), fields.templates.as_ref().filter(|_| release.has_options()))
        }
        None => (None, None),
    };
    let template = template.filter(|text| !text.is_empty()).cloned();
    let templates = templates.filter(|texts| !texts.is_empty());
    template.or_else(|| Some(templates?.join("\n---\n"))).ok_or_else(|| {
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
