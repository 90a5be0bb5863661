//! Resolves the version that a step asks for.

use std::collections::BTreeMap;
use std::fmt;

use ferroplane_api::Cause;

use super::{
    Catalogue, Family, InvalidVersion, LifecycleState, Record, UnusableFunction, Version, VersionSource,
};

/// What a step says about the function that it calls. Empty fields were not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    pub function: String,
    /// `functionRevisionRef`: exactly this revision.
    pub revision: Option<String>,
    /// `functionRevisionSelector`: the highest active revision with these labels that responds.
    pub labels: Option<BTreeMap<String, String>>,
    /// `functionRef.version`: exactly this version.
    pub version: Option<String>,
    /// `funcVersion` of a phase: this version, or the unversioned one with a warning.
    pub phase_version: Option<String>,
    /// `preferredVersion` of an action: the same, for phases that name none.
    pub preferred_version: Option<String>,
    /// Whether a phase's version that does not exist is an error.
    pub is_strict: bool,
}

impl Question {
    /// A call of a function without a version.
    pub fn about(function: impl Into<String>) -> Self {
        Self { function: function.into(), ..Self::default() }
    }
}

/// The version that runs, with warnings about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution<'c> {
    pub record: &'c Record,
    pub state: LifecycleState,
    pub advisories: Vec<Advisory>,
}

/// A warning about the version that runs. It is made once here, and each command and condition formats it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advisory {
    pub function: String,
    pub advice: Advice,
}

/// The reason of a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// It will be removed.
    Deprecated { version: Version, removed_in: Option<Version>, replaced_by: Option<Version> },
    /// The requested version does not exist, and another one runs.
    Fallback { asked: Version, used: Version },
}

impl Advisory {
    /// One word, for events and conditions.
    pub fn reason(&self) -> &'static str {
        match self.advice {
            Advice::Deprecated { .. } => "FunctionVersionDeprecated",
            Advice::Fallback { .. } => "FunctionVersionFallback",
        }
    }
}

impl fmt::Display for Advisory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = &self.function;
        match &self.advice {
            Advice::Deprecated { version, removed_in, replaced_by } => {
                write!(f, "function `{function}` {version} is deprecated")?;
                match removed_in {
                    Some(release) => write!(f, " and will be removed in release {}", release.plain())?,
                    None => write!(f, " and will be removed")?,
                }
                replaced_by.as_ref().map_or(Ok(()), |version| write!(f, ": use {version} instead"))
            }
            Advice::Fallback { asked, used } => {
                write!(f, "function `{function}` has no version {asked}: {used} runs instead")
            }
        }
    }
}

/// Why no version runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    #[error("there is no function `{function}`{}", did_you_mean(.similar.as_ref()))]
    UnknownFunction { function: String, similar: Option<String> },
    #[error("function `{function}` is installed as {package}, but cannot be called: {reason}")]
    NotRunnable { function: String, package: String, reason: String },
    #[error("function `{function}`: {problem}")]
    InvalidVersion { function: String, problem: InvalidVersion },
    #[error("function `{function}`: {one} and {other} both say which version to call: leave one of them out")]
    Contradiction { function: String, one: &'static str, other: &'static str },
    #[error(
        "function `{function}` {version} reached the end of its support and was removed in release {}{}",
        .removed_in.plain(), use_instead(.replaced_by.as_deref())
    )]
    EndOfSupport {
        function: String,
        version: Version,
        // Boxed, because every `Result` with this error reserves space for its largest variant.
        removed_in: Box<Version>,
        replaced_by: Option<Box<Version>>,
    },
    #[error("function `{function}` has no version {version}: there is {served}")]
    VersionNotFound { function: String, version: Version, served: String },
    #[error("function `{function}` has no revision `{revision}`: there is {served}")]
    RevisionNotFound { function: String, revision: String, served: String },
    #[error("revision `{revision}` of function `{function}` is not active")]
    NotActive { function: String, revision: String },
    #[error("function `{function}` has no active revision{}", with_labels(.labels.as_ref()))]
    NoActiveRevision { function: String, labels: Option<BTreeMap<String, String>> },
    #[error(
        "function `{function}`: `{field}` says which revision to call, and the control plane runs without \
         --enable-function-revision-selectors: have it started with that flag, or leave the field out"
    )]
    RevisionSelectorsDisabled { function: String, field: &'static str },
}

impl Unresolved {
    /// One word, for events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownFunction { .. } => "UnknownFunction",
            Self::NotRunnable { .. } => "FunctionNotRunnable",
            Self::InvalidVersion { .. } => "InvalidVersion",
            Self::Contradiction { .. } => "ContradictoryVersion",
            Self::EndOfSupport { .. } => "FunctionVersionEndOfSupport",
            Self::VersionNotFound { .. } | Self::RevisionNotFound { .. } => "VersionNotFound",
            Self::NotActive { .. } => "NotActive",
            Self::NoActiveRevision { .. } => "NoActiveRevision",
            Self::RevisionSelectorsDisabled { .. } => "RevisionSelectorsDisabled",
        }
    }

    /// The cause, for programs.
    pub fn cause(&self) -> Cause {
        match self {
            Self::UnknownFunction { .. } => Cause::FunctionNotFound,
            Self::NotRunnable { .. } => Cause::FunctionNotRunnable,
            Self::InvalidVersion { .. } | Self::Contradiction { .. } => Cause::FunctionVersionInvalid,
            Self::EndOfSupport { .. } => Cause::FunctionVersionRemoved,
            Self::VersionNotFound { .. } | Self::RevisionNotFound { .. } => Cause::FunctionVersionNotFound,
            Self::NotActive { .. } | Self::NoActiveRevision { .. } => Cause::FunctionInactive,
            Self::RevisionSelectorsDisabled { .. } => Cause::FunctionRevisionSelectorsDisabled,
        }
    }
}

/// Find the version that runs.
pub fn resolve<'c>(catalogue: &'c Catalogue, question: &Question) -> Result<Resolution<'c>, Unresolved> {
    resolve_preferring(catalogue, question, None)
}

/// The same, with a preferred revision for steps that name none, as long as it is active.
pub fn resolve_preferring<'c>(
    catalogue: &'c Catalogue,
    question: &Question,
    preferred: Option<&str>,
) -> Result<Resolution<'c>, Unresolved> {
    let function = &question.function;
    check_contradiction(question)?;
    if !catalogue.has_revision_selectors() {
        check_no_selectors(question)?;
    }
    let family = catalogue.family(function).ok_or_else(|| missing(catalogue, function))?;
    let versions = VersionSet { family, release: catalogue.release() };
    let parse = |text: &String| {
        let invalid = |problem| Unresolved::InvalidVersion { function: function.clone(), problem };
        text.parse::<Version>().map_err(invalid)
    };
    if let Some(revision) = &question.revision {
        return versions.revision(revision);
    }
    if let Some(labels) = &question.labels {
        return versions.labelled(labels);
    }
    if let Some(version) = &question.version {
        return versions.exactly(&parse(version)?);
    }
    match question.phase_version.as_ref().or(question.preferred_version.as_ref()) {
        Some(version) if question.is_strict && question.phase_version.is_some() => {
            versions.exactly(&parse(version)?)
        }
        Some(version) => versions.rather(&parse(version)?),
        None => {
            let preferred = preferred.or_else(|| catalogue.preferred(function));
            let preferred =
                preferred.and_then(|name| versions.active().find(|record| record.revision.name == name));
            preferred.map_or_else(|| versions.any(), |record| versions.take(record))
        }
    }
}

/// Refuse a step with two of the three selectors, which may contradict each other. The schemas of Compositions and operations refuse it,
/// too, but files that are rendered pass no schema.
fn check_contradiction(question: &Question) -> Result<(), Unresolved> {
    let said = [
        (question.version.is_some(), "functionRef.version"),
        (question.revision.is_some(), "functionRevisionRef"),
        (question.labels.is_some(), "functionRevisionSelector"),
    ];
    let mut said = said.into_iter().filter_map(|(is_said, name)| is_said.then_some(name));
    match (said.next(), said.next()) {
        (Some(one), Some(other)) => {
            Err(Unresolved::Contradiction { function: question.function.clone(), one, other })
        }
        _ => Ok(()),
    }
}

/// Refuse selectors of revisions where they are disabled. To ignore them would call a revision that the step does not want.
fn check_no_selectors(question: &Question) -> Result<(), Unresolved> {
    let fields = [
        (question.revision.is_some(), "functionRevisionRef"),
        (question.labels.is_some(), "functionRevisionSelector"),
    ];
    match fields.into_iter().find(|(is_said, _)| *is_said) {
        None => Ok(()),
        Some((_, field)) => {
            Err(Unresolved::RevisionSelectorsDisabled { function: question.function.clone(), field })
        }
    }
}

/// The versions of one function, in one release.
struct VersionSet<'c> {
    family: &'c Family,
    release: &'c Version,
}

impl<'c> VersionSet<'c> {
    fn revision(&self, name: &str) -> Result<Resolution<'c>, Unresolved> {
        let found = self.family.records.iter().find(|record| record.revision.name == name);
        let record = found.ok_or_else(|| Unresolved::RevisionNotFound {
            function: self.function(),
            revision: name.to_owned(),
            served: self.served(|record| Some(format!("`{}`", record.revision.name))),
        })?;
        self.take(record)
    }

    fn labelled(&self, labels: &BTreeMap<String, String>) -> Result<Resolution<'c>, Unresolved> {
        let has_all = |record: &&Record| {
            labels.iter().all(|(key, value)| self.family.label(record, key, self.release) == Some(value))
        };
        let found = newest_serving(self.active().filter(has_all));
        let none =
            || Unresolved::NoActiveRevision { function: self.function(), labels: Some(labels.clone()) };
        self.take(found.ok_or_else(none)?)
    }

    fn exactly(&self, version: &Version) -> Result<Resolution<'c>, Unresolved> {
        let record = self.family.version(version).ok_or_else(|| self.not_found(version))?;
        self.take(record)
    }

    fn rather(&self, asked: &Version) -> Result<Resolution<'c>, Unresolved> {
        if let Some(record) = self.family.version(asked) {
            // Also if it was removed: running another version than the pinned one could harm data.
            return self.take(record);
        }
        // Only the unversioned function may replace it: phases without a version have always called that one.
        let used = Version::UNVERSIONED;
        let record = self.family.version(&used).ok_or_else(|| self.not_found(asked))?;
        let mut resolution = self.take(record)?;
        let advice = Advice::Fallback { asked: asked.clone(), used };
        resolution.advisories.insert(0, Advisory { function: self.function(), advice });
        Ok(resolution)
    }

    fn any(&self) -> Result<Resolution<'c>, Unresolved> {
        let stable = self.family.stable.as_ref().and_then(|stable| self.family.version(stable));
        // A built-in function without versions is called so. A package with this tag is one revision among others.
        let unversioned = || {
            let unversioned = self.family.version(&Version::UNVERSIONED);
            unversioned.filter(|record| record.source == VersionSource::BuiltIn && self.is_active(record))
        };
        let highest = || newest_serving(self.active());
        let none = || Unresolved::NoActiveRevision { function: self.function(), labels: None };
        self.take(stable.or_else(unversioned).or_else(highest).ok_or_else(none)?)
    }

    /// This record, if it can run.
    fn take(&self, record: &'c Record) -> Result<Resolution<'c>, Unresolved> {
        let state = self.family.state(record, self.release);
        let life = &record.lifecycle;
        let version = || record.version.clone().unwrap_or(Version::UNVERSIONED);
        // Before activity: users need to know that it never comes back, and not that it is inactive.
        if let (LifecycleState::Removed, Some(removed_in)) = (state, &life.removed_in) {
            return Err(Unresolved::EndOfSupport {
                function: self.function(),
                version: version(),
                removed_in: Box::new(removed_in.clone()),
                replaced_by: self.successor(record).map(Box::new),
            });
        }
        if !record.is_active {
            let revision = record.revision.name.clone();
            return Err(Unresolved::NotActive { function: self.function(), revision });
        }
        let deprecated = (state == LifecycleState::Deprecated).then(|| Advisory {
            function: self.function(),
            advice: Advice::Deprecated {
                version: version(),
                removed_in: life.removed_in.clone(),
                replaced_by: self.successor(record),
            },
        });
        Ok(Resolution { record, state, advisories: deprecated.into_iter().collect() })
    }

    /// What to use instead of a version: the successor in its record, or the stable version.
    fn successor(&self, record: &Record) -> Option<Version> {
        record.lifecycle.replaced_by.clone().or_else(|| self.family.stable.clone())
    }

    fn active(&self) -> impl Iterator<Item = &'c Record> {
        self.family.records.iter().filter(|record| self.is_active(record))
    }

    fn is_active(&self, record: &Record) -> bool {
        record.is_active && self.family.state(record, self.release) != LifecycleState::Removed
    }

    fn not_found(&self, version: &Version) -> Unresolved {
        Unresolved::VersionNotFound {
            function: self.function(),
            version: version.clone(),
            served: self.served(|record| record.version.as_ref().map(ToString::to_string)),
        }
    }

    fn served(&self, name: impl Fn(&Record) -> Option<String>) -> String {
        let names: Vec<_> = self.active().filter_map(name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    fn function(&self) -> String {
        self.family.function.clone()
    }
}

/// The newest of these that responds. If none does, the newest, so that the error is about it.
fn newest_serving<'c>(records: impl Iterator<Item = &'c Record>) -> Option<&'c Record> {
    records.max_by_key(|record| (record.is_serving, record.revision.number))
}

/// Why no function has this name.
fn missing(catalogue: &Catalogue, function: &str) -> Unresolved {
    let function = function.to_owned();
    match catalogue.unusable(&function) {
        Some(UnusableFunction { package, reason }) => {
            Unresolved::NotRunnable { function, package: package.clone(), reason: reason.clone() }
        }
        None => Unresolved::UnknownFunction { similar: similar(catalogue, &function), function },
    }
}

fn did_you_mean(similar: Option<&String>) -> String {
    similar.map(|name| format!(": did you mean `{name}`?")).unwrap_or_default()
}

fn use_instead(version: Option<&Version>) -> String {
    version.map(|version| format!(": use {version} instead")).unwrap_or_default()
}

fn with_labels(labels: Option<&BTreeMap<String, String>>) -> String {
    let Some(labels) = labels else { return String::new() };
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!(" with the labels {}", labels.join(", "))
}

/// The most similar name, if one is similar: with or without `function-`, or with a typing error.
fn similar(catalogue: &Catalogue, name: &str) -> Option<String> {
    let bare = |name: &str| name.strip_prefix("function-").unwrap_or(name).to_lowercase();
    let wanted = bare(name);
    let near = catalogue.families().map(|family| (distance(&wanted, &bare(&family.function)), family));
    let (distance, family) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + wanted.len() / 5).then(|| family.function.clone())
}

/// The edit distance between two names.
fn distance(one: &str, other: &str) -> usize {
    // Names are short; a user who writes a long one made no typing error.
    if one.len() > 64 || other.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, candidate) in other.chars().enumerate() {
            let changed = diagonal + usize::from(letter != candidate);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[row.len() - 1]
}
