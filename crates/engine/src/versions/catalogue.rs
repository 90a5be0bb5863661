//! The catalogue of all functions that can be called, in all their versions.

use std::collections::BTreeMap;

use super::rules::{self, Fault};
use super::{Lifecycle, LifecycleState, Version};

/// On a built-in version: its version.
pub const VERSION_LABEL: &str = "ferroplane.io/version";
/// On a built-in version: whether it is available, stable, deprecated or removed.
pub const STABILITY_LABEL: &str = "ferroplane.io/stability";

/// All functions that can be called in one release of the plane.
#[derive(Debug, Clone)]
pub struct Catalogue {
    release: Version,
    families: BTreeMap<String, Family>,
    /// The same functions under additional names, which are used if no other function has the name. They are kept separately so that a
    /// list of all functions has each function once.
    further_names: BTreeMap<String, Family>,
    /// Installed functions that cannot be called, by name.
    unusable: BTreeMap<String, UnusableFunction>,
    /// Whether a step may name a revision or labels.
    has_revision_selectors: bool,
    /// The preferred revision for steps that name none, by function, if it is not the newest.
    preferred: BTreeMap<String, String>,
}

/// An installed function that cannot be run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableFunction {
    /// The image of its package, with its version.
    pub package: String,
    /// Why it cannot be called, and the remedy.
    pub reason: String,
}

/// All versions of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    pub function: String,
    /// The version for steps that name none. Packages have no such version: the highest revision is used.
    pub stable: Option<Version>,
    /// Sorted by number.
    pub records: Vec<Record>,
}

/// One version of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub revision: Revision,
    /// None for a revision of a package whose tag is no version.
    pub version: Option<Version>,
    pub labels: BTreeMap<String, String>,
    pub lifecycle: Lifecycle,
    /// Whether it may be called. A removed version is never active, whatever this says.
    pub is_active: bool,
    /// Whether it has responded since it was activated. Until then, steps that do not name it continue to call an older revision. It
    /// stays true if the revision fails later: going back to an older one would undo what the newer one composed.
    pub is_serving: bool,
    /// The name of the built-in revision whose code runs in place of the package, if any.
    pub built_in: Option<String>,
    pub source: VersionSource,
    /// Whether its code exists. The entries of removed versions have none.
    pub is_implemented: bool,
}

/// Identifies one of the versions of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    pub name: String,
    pub number: u64,
}

/// The source of a version.
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
    /// An empty catalogue.
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

    /// Prefer this revision of a function for steps that name none, as long as it is active.
    pub fn prefer(&mut self, function: &str, revision: &str) {
        self.preferred.insert(function.to_owned(), revision.to_owned());
    }

    /// An error if steps cannot call a revision, with the reason.
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

    /// The preferred revision for steps that name none, if it is not the newest.
    pub fn preferred(&self, function: &str) -> Option<&str> {
        self.preferred.get(function).map(String::as_str)
    }

    /// Whether a step may name a revision or labels.
    pub fn has_revision_selectors(&self) -> bool {
        self.has_revision_selectors
    }

    /// Add all versions of a function. An error with every reason if they break the rules.
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

    /// Record that a function is installed and cannot be called. Other functions of the name are not called in its place: a fork is not
    /// the original.
    pub fn add_unusable(&mut self, function: &str, why: UnusableFunction) {
        self.remove(function);
        self.unusable.insert(function.to_owned(), why);
    }

    /// Why an installed function cannot be called, if so.
    pub fn unusable(&self, function: &str) -> Option<&UnusableFunction> {
        self.unusable.get(function)
    }

    /// Let a function stand for a package, under its name: in one version, or in any. Its versions were checked before, and a single one
    /// need not obey the rules for all of them.
    pub fn alias(&mut self, name: &str, family: &Family, version: Option<&Version>) {
        let mut family = Family { function: name.to_owned(), ..family.clone() };
        if let Some(version) = version {
            family.records.retain(|record| record.version.as_ref() == Some(version));
            // A step that names no version gets the one that the package's tag stands for.
            family.stable = Some(version.clone());
        }
        self.families.insert(name.to_owned(), family);
    }

    /// Add the revisions of a package to the function that stands for it. Steps that name no version get these first: the function is
    /// what runs them, and not another version of them.
    pub fn add_revisions(&mut self, function: &str, mut revisions: Vec<Record>) {
        let Some(family) = self.families.get_mut(function) else { return };
        revisions.sort_by_key(|record| record.revision.number);
        family.stable = None;
        for record in &mut family.records {
            record.revision.number = 0;
        }
        family.records.extend(revisions);
    }

    /// Add labels to all versions of a function. Existing ones stay.
    pub fn add_labels(&mut self, function: &str, labels: &BTreeMap<String, String>) {
        let records = self.families.get_mut(function).into_iter().flat_map(|family| &mut family.records);
        for record in records {
            for (key, value) in labels {
                record.labels.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Add a name for a function, which is used if no other function has it.
    ///
    /// Crossplane's package manager names a Function after its package when it installs it as a dependency, so that published
    /// Compositions call `crossplane-contrib-function-auto-ready`.
    pub fn name_further(&mut self, name: &str, family: &Family) {
        let family = Family { function: name.to_owned(), ..family.clone() };
        self.further_names.insert(name.to_owned(), family);
    }

    /// All additional names of functions, with their functions.
    pub fn further_names(&self) -> impl Iterator<Item = &Family> {
        self.further_names.values()
    }

    /// Remove a function by one of its names. Its other names stay.
    pub fn remove(&mut self, function: &str) {
        self.families.remove(function);
        self.further_names.remove(function);
    }

    /// The release that states of versions are computed for.
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

    /// The same functions in a past or future release. Rules are not checked again: a catalogue that is valid now may break them then,
    /// and its user has to know.
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

    /// A function without versions.
    pub fn unversioned(function: &str) -> Self {
        let only = (Version::UNVERSIONED, Lifecycle::default(), true);
        Self::built_in(function, Version::UNVERSIONED, [only])
    }

    /// The state of one of the versions in this release.
    pub fn state(&self, record: &Record, release: &Version) -> LifecycleState {
        let is_stable = self.stable.is_some() && record.version == self.stable;
        record.lifecycle.state(is_stable, release)
    }

    /// This version.
    pub fn version(&self, version: &Version) -> Option<&Record> {
        // Two revisions of a package can have the same version: the latest that is active and responds is used. If
        // none is, the error names the latest.
        let same = self.records.iter().filter(|record| record.version.as_ref() == Some(version));
        same.max_by_key(|record| (record.is_active, record.is_serving, record.revision.number))
    }

    /// A label of one of the versions, including those that follow from its state.
    pub fn label<'r>(&self, record: &'r Record, key: &str, release: &Version) -> Option<&'r str> {
        match record.source {
            // Computed, not stored, because it depends on the release.
            VersionSource::BuiltIn if key == STABILITY_LABEL => Some(self.state(record, release).as_str()),
            _ => record.labels.get(key).map(String::as_str),
        }
    }
}
