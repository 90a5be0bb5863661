//! Reads the source of a package: a directory with its manifest, `crossplane.yaml`, and the objects that it brings.
//!
//! Follows crossplane-runtime 2.4.0, `pkg/xpkg/build.go`: every YAML file below the directory counts, whatever its name, but the
//! examples, which are kept apart. Directories whose names begin with a dot are left out here, since what is in them (`.github`)
//! is never a part of a package.
//!
//! # Invariants
//! * The same files give the same stream, whatever order the file system lists them in.
//! * What is returned has one manifest, and only objects that a package of its kind may bring, each once.

mod files;
mod pattern;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use ferroplane_api::{Object, PackageKind, meta};
use ferroplane_golang::semver::Constraints;
use ferroplane_golang::yaml::{Documents, to_yaml};
use serde_json::Value;

use crate::contents::{MAX_OBJECTS, PackageContents, UnreadablePackage, read_package};
use crate::lint::{InvalidPackage, Lint, lint, validate};
use crate::manifest::PackageManifest;
use files::SourceFile;

/// Where the source of a package is.
#[derive(Debug, Clone)]
pub struct SourceOptions<'a> {
    /// The directory with `crossplane.yaml`.
    pub root: &'a Path,
    /// The directory with examples. It need not exist.
    pub examples: &'a Path,
    /// Patterns of files to leave out, relative to the root: `*`, `?` and `[a-z]` stand for parts of one name. A directory that
    /// matches is left out with all that is in it.
    pub ignore: &'a [String],
}

/// The source of a package, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct PackageSource {
    pub manifest: PackageManifest,
    pub contents: PackageContents,
    /// The examples as they are written, if there are any.
    pub examples: Option<String>,
}

/// Why a directory is not the source of a package.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot use the pattern `{pattern}`: it has a `[` without a `]`")]
    Pattern { pattern: String },
    #[error("cannot read `{}`: {reason}", path.display())]
    Text { path: PathBuf, reason: &'static str },
    #[error("cannot read `{}`", path.display())]
    Unreadable { path: PathBuf, source: UnreadablePackage },
    #[error("cannot read the example in line {line} of `{}`: {reason}", path.display())]
    Example { path: PathBuf, line: usize, reason: String },
    #[error("cannot find the manifest of a package below `{}`: write it to `crossplane.yaml`", root.display())]
    NoManifest { root: PathBuf },
    #[error(transparent)]
    Invalid(#[from] InvalidPackage),
    #[error(
        "`{constraints}`, the version of dependency `{package}`, is neither a range of versions nor a digest"
    )]
    Constraint { package: String, constraints: String },
    #[error("cannot build the package: {}", list(lints))]
    Lint { lints: Vec<Lint> },
    #[error("cannot build the package: it brings {kind} `{name}` twice")]
    Twice { kind: String, name: String },
    #[error("cannot build the package: {kind} in `{}` has no name", path.display())]
    Nameless { kind: String, path: PathBuf },
}

impl PackageSource {
    pub fn read(options: &SourceOptions) -> Result<Self, SourceError> {
        let mut contents = PackageContents::default();
        for file in files::list(options.root, Some(options.examples), options.ignore)? {
            add(&mut contents, &file)?;
        }
        let kind = contents.manifests.first().and_then(|manifest| PackageKind::of(meta::kind(manifest)));
        let kind = kind.ok_or_else(|| SourceError::NoManifest { root: options.root.to_owned() })?;
        let manifest = validate(kind, &contents)?;
        check(&manifest, &contents)?;
        let examples = read_examples(options)?;
        Ok(Self { manifest, contents, examples })
    }

    /// The text of `package.yaml`: the manifest first, then the objects in the order of their files.
    pub fn stream(&self) -> String {
        let mut stream = "---\n".to_owned();
        for object in self.contents.manifests.iter().chain(&self.contents.objects) {
            stream.push_str(&to_yaml(&Value::Object(object.clone())));
            stream.push_str("---\n");
        }
        stream
    }
}

fn add(contents: &mut PackageContents, file: &SourceFile) -> Result<(), SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: file.path.clone(), source };
    let found = read_package(&file.text).map_err(unreadable)?;
    for object in &found.objects {
        if meta::name(object).is_empty() {
            let kind = meta::kind(object).to_owned();
            return Err(SourceError::Nameless { kind, path: file.path.clone() });
        }
    }
    contents.manifests.extend(found.manifests);
    contents.objects.extend(found.objects);
    if contents.manifests.len() + contents.objects.len() > MAX_OBJECTS {
        return Err(unreadable(UnreadablePackage::TooMany));
    }
    Ok(())
}

fn check(manifest: &PackageManifest, contents: &PackageContents) -> Result<(), SourceError> {
    for dependency in &manifest.dependencies {
        let constraints = dependency.constraints.trim();
        let is_digest = constraints.starts_with("sha256:");
        if !is_digest && Constraints::parse(constraints).is_err() {
            let (package, constraints) = (dependency.package.clone(), constraints.to_owned());
            return Err(SourceError::Constraint { package, constraints });
        }
    }
    let (_, lints) = lint(manifest.kind, contents);
    if !lints.is_empty() {
        return Err(SourceError::Lint { lints });
    }
    let mut known = BTreeSet::new();
    let identity = |object: &Object| {
        let group = meta::group(meta::api_version(object)).to_owned();
        (group, meta::kind(object).to_owned(), meta::name(object).to_owned())
    };
    match contents.objects.iter().map(identity).find(|object| !known.insert(object.clone())) {
        Some((_, kind, name)) => Err(SourceError::Twice { kind, name }),
        None => Ok(()),
    }
}

/// The examples, with what they say to readers: comments stay.
fn read_examples(options: &SourceOptions) -> Result<Option<String>, SourceError> {
    if !options.examples.is_dir() {
        return Ok(None);
    }
    let mut examples = String::new();
    for file in files::list(options.examples, None, options.ignore)? {
        check_examples(&file)?;
        let text = file.text.trim_start_matches("---\n").trim_end().trim_end_matches("\n---");
        examples.push_str("---\n");
        examples.push_str(text);
        examples.push('\n');
    }
    Ok((!examples.is_empty()).then_some(examples))
}

fn check_examples(file: &SourceFile) -> Result<(), SourceError> {
    let bad = |line, reason: String| SourceError::Example { path: file.path.clone(), line, reason };
    for document in Documents::new(&file.text) {
        let document = document
            .map_err(|error| bad(error.line + error.line_in_document.unwrap_or(1) - 1, error.reason))?;
        match document.value {
            Value::Null => {}
            Value::Object(object)
                if !meta::api_version(&object).is_empty() && !meta::kind(&object).is_empty() => {}
            _ => return Err(bad(document.line, "it has no `apiVersion` and `kind`".to_owned())),
        }
    }
    Ok(())
}

/// What is wrong with objects, in one sentence.
fn list(lints: &[Lint]) -> String {
    let name = |lint: &Lint| format!("a {} may not bring {} `{}`", lint.package, lint.kind, lint.name);
    let named: Vec<String> = lints.iter().take(3).map(name).collect();
    match lints.len().saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{}, and {more} more", named.join(", ")),
    }
}
