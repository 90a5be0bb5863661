//! Everything that can be called, in all its versions.

use std::collections::BTreeMap;

use super::rules::{self, Fault};
use super::{Lifecycle, LifecycleState, Version};

/// On a built-in version: which version it is.
pub const VERSION_LABEL: &str = "ferroplane.io/version";
/// On a built-in version: whether it is available, stable, deprecated or removed.
pub const STABILITY_LABEL: &str = "ferroplane.io/stability";

/// Everything that can be called in one release of the plane.
#[derive(Debug, Clone)]
pub struct Catalogue {
    release: Version,
    families: BTreeMap<String, Family>,
    /// The same functions under further names, which hold where no other function has the name. They are kept
    /// apart so that a list of all functions has each function once.
    further_names: BTreeMap<String, Family>,
    /// Functions that are installed and cannot be called, by name.
    unusable: BTreeMap<String, UnusableFunction>,
    /// Whether a step may name a revision or labels.
    has_revision_selectors: bool,
    /// The revisions for those who do not say which, by function, where it is not the newest.
    preferred: BTreeMap<String, String>,
}

/// A function that is installed, and that nothing here can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableFunction {
    /// The image of its package, with its version.
    pub package: String,
    /// Why it cannot be called, and what helps.
    pub reason: String,
}

/// All versions of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    pub function: String,
    /// The version for those who name none. Revisions of a package have no such version: the highest wins.
    pub stable: Option<Version>,
    /// In the order of their numbers.
    pub records: Vec<Record>,
}

/// One version of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub revision: Revision,
    /// A revision of a package whose tag is no version has none.
    pub version: Option<Version>,
    pub labels: BTreeMap<String, String>,
    pub lifecycle: Lifecycle,
    /// Whether it may be called. A version that was removed is not active, whatever this says.
    pub is_active: bool,
    /// Whether it has answered since it was activated. Until then, steps that do not name it go on calling an older revision. It stays
    /// so if the revision fails later: to go back to an older one would undo what the newer one composed.
    pub is_serving: bool,
    /// The name of the built-in revision whose code a revision of a package runs, if it runs any.
    pub built_in: Option<String>,
    pub source: VersionSource,
    /// Whether there is code, or only the memory of it.
    pub is_implemented: bool,
}

/// Which of the versions of a function something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    pub name: String,
    pub number: u64,
}

/// Where a version comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionSource {
    BuiltIn,
    Package,
}

impl VersionSource {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "builtin",
            Self::Package => "package",
        }
    }
}

impl Catalogue {
    /// A catalogue of nothing.
    pub fn new(release: Version) -> Self {
        Self {
            release,
            families: BTreeMap::new(),
            further_names: BTreeMap::new(),
            unusable: BTreeMap::new(),
            has_revision_selectors: true,
            preferred: BTreeMap::new(),
        }
    }

    /// Refuse steps that name a revision or labels.
    pub fn disable_revision_selectors(&mut self) {
        self.has_revision_selectors = false;
    }

    /// Have this revision of a function called by whoever does not say which, as long as it is active.
    pub fn prefer(&mut self, function: &str, revision: &str) {
        self.preferred.insert(function.to_owned(), revision.to_owned());
    }

    /// Refuses a revision that steps cannot call, with the reason.
    pub fn check_serving(&self, function: &str, revision: &str) -> Result<(), String> {
        let family = self.families.get(function);
        let family = family.ok_or_else(|| format!("there is no function `{function}`"))?;
        let record = family.records.iter().find(|record| record.revision.name == revision);
        let record = record.ok_or_else(|| format!("function `{function}` has no revision `{revision}`"))?;
        if record.is_active && record.is_serving {
            return Ok(());
        }
        Err(format!(
            "revision `{revision}` of function `{function}` does not serve; activate it first: a Function with \
             `activeRevisionLimit: 2` keeps the old revision active beside it"
        ))
    }

    /// The revision for those who do not say which, if it is not the newest.
    pub fn preferred(&self, function: &str) -> Option<&str> {
        self.preferred.get(function).map(String::as_str)
    }

    /// Whether a step may name a revision or labels.
    pub fn has_revision_selectors(&self) -> bool {
        self.has_revision_selectors
    }

    /// Add all versions of a function. Refused, with every reason, if they break the rules.
    pub fn add(&mut self, family: Family) -> Result<(), Vec<Fault>> {
        let mut faults = rules::check(&family, &self.release);
        if self.families.contains_key(&family.function) {
            faults.push(Fault::DuplicateFunction { function: family.function.clone() });
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        self.unusable.remove(&family.function);
        self.families.insert(family.function.clone(), family);
        Ok(())
    }

    /// Note that a function is installed and cannot be called. Whatever else bears its name is not called in its place: a fork
    /// is not what it was forked from.
    pub fn add_unusable(&mut self, function: &str, why: UnusableFunction) {
        self.remove(function);
        self.unusable.insert(function.to_owned(), why);
    }

    /// Why a function that is installed cannot be called, if so.
    pub fn unusable(&self, function: &str) -> Option<&UnusableFunction> {
        self.unusable.get(function)
    }

    /// Let a function stand under the name of a package: in this version, or in any. Its versions were checked
    /// before, and one alone need not obey the rules that hold for all of them.
    pub fn alias(&mut self, name: &str, family: &Family, version: Option<&Version>) {
        let mut family = Family { function: name.to_owned(), ..family.clone() };
        if let Some(version) = version {
            family.records.retain(|record| record.version.as_ref() == Some(version));
            // Whoever names no version gets the one that the package's tag stands for.
            family.stable = Some(version.clone());
        }
        self.families.insert(name.to_owned(), family);
    }

    /// Let revisions of a package stand under the name of a function that stands for the package. They come first for whoever does not
    /// say which version to call: the function is what runs them, and not another version of them.
    pub fn add_revisions(&mut self, function: &str, mut revisions: Vec<Record>) {
        let Some(family) = self.families.get_mut(function) else { return };
        revisions.sort_by_key(|record| record.revision.number);
        family.stable = None;
        for record in &mut family.records {
            record.revision.number = 0;
        }
        family.records.extend(revisions);
    }

    /// Give labels to all versions of a function. Those that they have stay.
    pub fn add_labels(&mut self, function: &str, labels: &BTreeMap<String, String>) {
        let records = self.families.get_mut(function).into_iter().flat_map(|family| &mut family.records);
        for record in records {
            for (key, value) in labels {
                record.labels.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Let a function be called by a further name, as long as no other function has that name.
    ///
    /// Crossplane's package manager names a Function after its package when it installs it as a dependency, so
    /// published Compositions call `crossplane-contrib-function-auto-ready`.
    pub fn name_further(&mut self, name: &str, family: &Family) {
        let family = Family { function: name.to_owned(), ..family.clone() };
        self.further_names.insert(name.to_owned(), family);
    }

    /// All further names of functions, with the functions that they stand for.
    pub fn further_names(&self) -> impl Iterator<Item = &Family> {
        self.further_names.values()
    }

    /// Forget a function, by whichever of its names. Its other names stay.
    pub fn remove(&mut self, function: &str) {
        self.families.remove(function);
        self.further_names.remove(function);
    }

    /// The release that everything is judged by.
    pub fn release(&self) -> &Version {
        &self.release
    }

    /// All versions of the function.
    pub fn family(&self, function: &str) -> Option<&Family> {
        self.families.get(function).or_else(|| self.further_names.get(function))
    }

    /// All functions, by name.
    pub fn families(&self) -> impl Iterator<Item = &Family> {
        self.families.values()
    }

    /// The same functions, as a past or future release would judge them. Rules are not checked again: what is
    /// allowed now may break them then, which is for its user to know.
    #[must_use]
    pub fn at(&self, release: Version) -> Self {
        Self { release, ..self.clone() }
    }
}

impl Family {
    /// Versions of a function that is built in.
    pub fn built_in(
        function: &str,
        stable: Version,
        versions: impl IntoIterator<Item = (Version, Lifecycle, bool)>,
    ) -> Self {
        let mut versions: Vec<_> = versions.into_iter().collect();
        versions.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        let records = (1..).zip(versions).map(|(number, (version, lifecycle, is_implemented))| Record {
            revision: Revision { name: format!("{function}-{version}"), number },
            labels: BTreeMap::from([(VERSION_LABEL.to_owned(), version.to_string())]),
            version: Some(version),
            lifecycle,
            is_active: true,
            is_serving: true,
            built_in: None,
            source: VersionSource::BuiltIn,
            is_implemented,
        });
        let records = records.collect();
        Self { function: function.to_owned(), stable: Some(stable), records }
    }

    /// A function that was never given a version.
    pub fn unversioned(function: &str) -> Self {
        let only = (Version::UNVERSIONED, Lifecycle::default(), true);
        Self::built_in(function, Version::UNVERSIONED, [only])
    }

    /// What one of the versions is in this release.
    pub fn state(&self, record: &Record, release: &Version) -> LifecycleState {
        let is_stable = self.stable.is_some() && record.version == self.stable;
        record.lifecycle.state(is_stable, release)
    }

    /// This very version.
    pub fn version(&self, version: &Version) -> Option<&Record> {
        // Two revisions of a package can have the same version: the latest that may be called and answers is meant. If none may, the
        // error is about the latest.
        let same = self.records.iter().filter(|record| record.version.as_ref() == Some(version));
        same.max_by_key(|record| (record.is_active, record.is_serving, record.revision.number))
    }

    /// The labels of one of the versions, those that follow from its state included.
    pub fn label<'r>(&self, record: &'r Record, key: &str, release: &Version) -> Option<&'r str> {
        match record.source {
            // Computed, not stored, because it changes with the release that asks.
            VersionSource::BuiltIn if key == STABILITY_LABEL => Some(self.state(record, release).as_str()),
            _ => record.labels.get(key).map(String::as_str),
        }
    }
}
