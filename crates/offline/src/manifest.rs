//! Reads manifests in files, with the locations of their fields.

mod files;
mod node;
mod scalar;
pub mod yaml;

use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use ferroplane_api::{Object, meta};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use files::{Files, ManifestSource};
pub use node::Node;
pub(crate) use node::kind_of;

/// One object in a file.
#[derive(Debug, Clone)]
pub struct Manifest {
    source: Arc<ManifestSource>,
    root: Arc<Node>,
    object: Object,
    /// What it was read from: the file, or a part of it.
    text: Arc<str>,
    /// How many lines of the file come before what the document's own lines are counted from.
    lines_before: u64,
}

/// Something wrong with a file, at a line of it.
#[derive(Debug)]
pub struct Located {
    file: String,
    line: Option<u64>,
    message: String,
}

impl Located {
    pub fn new(file: &ManifestSource, line: Option<u64>, message: impl Into<String>) -> Self {
        Self { file: file.to_string(), line, message: message.into() }
    }
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for Located {}

/// Why manifests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Located(#[from] Located),

    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: io::Error },

    #[error(transparent)]
    Directory(#[from] io::Error),

    #[error("{}: found no {extensions} files", path.display())]
    NoFiles { path: PathBuf, extensions: String },

    #[error("{}: directories are nested too deeply (a loop of links?)", .0.display())]
    TooDeep(PathBuf),

    #[error("{}: expected a {what}, found nothing", path.display())]
    Nothing { path: PathBuf, what: String },

    #[error("`-` is given twice: standard input can be read only once")]
    StandardInputTwice,

    #[error("cannot read standard input")]
    StandardInput(#[source] io::Error),
}

impl Manifest {
    /// The objects in a document of a file, keys that are there twice included. Lists of objects are those objects.
    pub(crate) fn read_document(
        source: &Arc<ManifestSource>,
        text: &str,
        lines_before: u64,
    ) -> Result<Vec<Self>, Located> {
        let nodes = yaml::parse_with_duplicates(text)
            .map_err(|bad| Located::new(source, bad.line.map(|line| lines_before + line), bad.message))?;
        let text: Arc<str> = text.into();
        let nodes = nodes.into_iter().flat_map(Node::unwrap_list);
        nodes.map(|node| Self::new(source.clone(), text.clone(), node, lines_before)).collect()
    }

    /// An object that stands in no file.
    pub(crate) fn of(object: &Object) -> Option<Self> {
        let text = serde_json::to_string(object).ok()?;
        let root = yaml::parse(&text).ok()?.into_iter().next()?;
        Some(Self {
            source: Arc::new(ManifestSource::Stdin),
            root: Arc::new(root),
            object: object.clone(),
            text: text.into(),
            lines_before: 0,
        })
    }

    /// An object and where it stands. A document that is not an object is refused.
    fn new(
        source: Arc<ManifestSource>,
        text: Arc<str>,
        root: Node,
        lines_before: u64,
    ) -> Result<Self, Located> {
        match root.to_json() {
            Value::Object(object) => Ok(Self { source, root: Arc::new(root), object, text, lines_before }),
            other => {
                let kind = node::kind_of(&other);
                Err(Located::new(
                    &source,
                    Some(lines_before + root.line),
                    format!("expected a Kubernetes object, got {kind}"),
                ))
            }
        }
    }

    /// Its content.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Its content, to change it.
    pub(crate) fn with_object(mut self, object: Object) -> Self {
        // The lines stay those of what was read, because that is what its author has to look at.
        self.object = object;
        self
    }

    /// The file it stands in.
    pub fn source(&self) -> &ManifestSource {
        &self.source
    }

    /// Something is wrong at this path, such as `["spec", "pipeline", "0"]`, or at what is left of it.
    pub fn error(&self, path: &[&str], message: impl Into<String>) -> Located {
        Located::new(&self.source, Some(self.lines_before + self.root.line_of(path)), message)
    }

    /// The line of a field as Kubernetes names it, or of the nearest thing around it that exists.
    pub fn line_at(&self, field: &str) -> u64 {
        self.lines_before + self.root.line_at(field)
    }

    /// The line that holds a line of the text at a field, from one; or the line of the field, if the text is written in a way that
    /// cannot be followed.
    pub(crate) fn line_in(&self, field: &str, line: usize) -> u64 {
        let found = self.root.line_in(&self.text, field, line);
        self.lines_before + found.unwrap_or_else(|| self.root.line_at(field))
    }

    /// Whether there is a text at a field.
    pub(crate) fn has_text(&self, field: &str) -> bool {
        self.root.is_text(field)
    }

    /// The keys that are there more than once, with their lines.
    pub(crate) fn duplicates(&self) -> Vec<(String, u64)> {
        let found = self.root.duplicates().into_iter();
        found.map(|(path, line)| (path, self.lines_before + line)).collect()
    }

    /// Refuse an object that has no kind, version or name.
    pub fn require_identity(&self, what: &str) -> Result<(), Located> {
        for path in [&["apiVersion"][..], &["kind"], &["metadata", "name"]] {
            let value = path.iter().try_fold(None, |value: Option<&Value>, key| {
                let object = value.map_or(Some(&self.object), Value::as_object)?;
                Some(Some(object.get(*key)?))
            });
            let field = path.join(".");
            match value.flatten() {
                Some(Value::String(text)) if !text.is_empty() => {}
                None | Some(Value::Null | Value::String(_)) => {
                    return Err(self.error(path, format!("{what} has no `{field}`")));
                }
                Some(other) => {
                    let kind = node::kind_of(other);
                    return Err(self.error(path, format!("{what}: `{field}` is {kind}, not text: quote it")));
                }
            }
        }
        Ok(())
    }

    /// Refuse what the API server would refuse: maps that are none, and labels and annotations that are not
    /// text. An unquoted `true` would be taken for no annotation at all.
    pub fn require_sane_metadata(&self) -> Result<(), Located> {
        for path in
            [&["metadata", "labels"][..], &["metadata", "annotations"], &["spec"], &["spec", "crossplane"]]
        {
            let start = Some(&self.object);
            let holder =
                path[..path.len() - 1].iter().fold(start, |object, key| object?.get(*key)?.as_object());
            let Some(value) = holder.and_then(|holder| holder.get(path[path.len() - 1])) else { continue };
            let Value::Object(entries) = value else {
                if value.is_null() {
                    continue;
                }
                let message = format!("`{}` is {}, not an object", path.join("."), node::kind_of(value));
                return Err(self.error(path, message));
            };
            // Values under `spec` may be of any type: only its being an object is checked here.
            let bad = entries.iter().find(|(_, value)| path[0] == "metadata" && !value.is_string());
            if let Some((key, value)) = bad {
                let message = format!(
                    "`{}` of `{key}` is {}, not text: quote it",
                    path.join("."),
                    node::kind_of(value)
                );
                return Err(self.error(&[path, &[key.as_str()]].concat(), message));
            }
        }
        Ok(())
    }

    /// Refuse an object of another kind.
    pub(crate) fn require_kind(&self, group: &str, kind: &str) -> Result<(), Located> {
        let (api_version, actual) = (meta::api_version(&self.object), meta::kind(&self.object));
        if actual == kind && meta::group(api_version) == group {
            return Ok(());
        }
        let actual = match (actual, api_version) {
            ("", _) => "an object without kind".to_owned(),
            (actual, "") => actual.to_owned(),
            (actual, api_version) => format!("{actual} ({api_version})"),
        };
        let wanted = if group.is_empty() { kind.to_owned() } else { format!("{kind} ({group})") };
        Err(self.error(&["kind"], format!("expected a {wanted}, got {actual}")))
    }

    /// Refuses it if it is of a version of its kind that there is not.
    pub(crate) fn require_version(&self, versions: &[&str]) -> Result<(), Located> {
        let api_version = meta::api_version(&self.object);
        if versions.contains(&meta::version(api_version)) {
            return Ok(());
        }
        let (kind, group) = (meta::kind(&self.object), meta::group(api_version));
        let known: Vec<_> = versions.iter().map(|version| format!("`{group}/{version}`")).collect();
        let message = format!("there is no {kind} in `{api_version}`, only in {}", known.join(" and "));
        Err(self.error(&["apiVersion"], message))
    }

    /// Its content, as a type. Fields that the type does not have are refused: they would have no effect, against the expectation of
    /// their author.
    pub(crate) fn parse_strictly<T: DeserializeOwned>(&self) -> Result<T, Located> {
        let mut unknown = None;
        let mut track = serde_path_to_error::Track::new();
        let deserializer = serde_path_to_error::Deserializer::new(&self.object, &mut track);
        let result = serde_ignored::deserialize(deserializer, |path| {
            // A question mark stands for a value that may be missing and is not.
            unknown.get_or_insert_with(|| path.to_string().replace(".?", ""));
        });
        match (result, unknown) {
            // A field that is misspelt is missing, too: what is there to be seen is the better news.
            (_, Some(path)) => {
                let (parent, field) = path.rsplit_once('.').unwrap_or(("", &path));
                let place =
                    if parent.is_empty() { String::new() } else { format!(" in `{}`", readable(parent)) };
                Err(self.error_at(&path, &format!("unknown field `{field}`{place}")))
            }
            (Err(error), None) => Err(self.error_at(&track.path().to_string(), &error.to_string())),
            (Ok(value), None) => Ok(value),
        }
    }

    /// Its content, as a type that need not have all fields.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Located> {
        let mut track = serde_path_to_error::Track::new();
        T::deserialize(serde_path_to_error::Deserializer::new(&self.object, &mut track))
            .map_err(|error| self.error_at(&track.path().to_string(), &error.to_string()))
    }

    fn error_at(&self, path: &str, message: &str) -> Located {
        let path = path.replace('[', ".").replace(']', "");
        let path: Vec<_> = path.split('.').filter(|part| !part.is_empty()).collect();
        self.error(&path, message)
    }
}

/// `spec.pipeline.0.input` as people write it: `spec.pipeline[0].input`.
fn readable(path: &str) -> String {
    path.split('.').fold(String::new(), |text, part| match part.parse::<usize>() {
        Ok(index) => format!("{text}[{index}]"),
        Err(_) if text.is_empty() => part.to_owned(),
        Err(_) => format!("{text}.{part}"),
    })
}
