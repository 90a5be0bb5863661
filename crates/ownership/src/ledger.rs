//! Who owns what, while a write is worked out.
//!
//! Follows structured-merge-diff 6.3.3, `fieldpath/managers.go`; apimachinery 0.36.4,
//! `pkg/util/managedfields/internal/managedfields.go`.

use std::borrow::Cow;
use std::cmp::Ordering;

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::stamp::Stamp;
use super::{Convert, Request, VersionedKind};
use crate::merge::compare::Comparison;
use crate::merge::set::Set;
use crate::merge::shape::Cursor;
use crate::merge::text::push_json_string;
use crate::merge::validate::{Duplicates, validate};

/// How fields came to be owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells owners apart. Those who apply keep their identity when they change the version.
#[derive(Debug, Clone)]
pub(super) struct Identity<'a> {
    pub(super) manager: Cow<'a, str>,
    pub(super) operation: Operation,
    pub(super) api_version: Cow<'a, str>,
    pub(super) subresource: Cow<'a, str>,
}

impl<'a> Identity<'a> {
    pub(super) fn of(request: &Request<'a>, operation: Operation) -> Self {
        // The name that Kubernetes gives to a client that sends none.
        let manager = if request.manager.is_empty() { "unknown" } else { request.manager };
        Self {
            manager: manager.into(),
            operation,
            api_version: request.api_version.into(),
            subresource: request.subresource.into(),
        }
    }

    pub(super) fn is_same(&self, other: &Identity<'_>) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            // An applier that moves to another version takes over what it applied before; an updater does
            // not, because its fields were observed in one version.
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The text by which upstream sorts owners.
    pub(super) fn text(&self) -> String {
        let mut out = String::from("{");
        let is_update = self.operation == Operation::Update;
        // Must agree with `is_same`: `decode` and `cap` find records by this text.
        let api_version = if is_update { &*self.api_version } else { "" };
        for (name, value) in [
            ("manager", &*self.manager),
            ("operation", self.operation.name()),
            ("apiVersion", api_version),
            ("subresource", &*self.subresource),
        ] {
            if !value.is_empty() {
                out.push_str(if out.len() > 1 { ",\"" } else { "\"" });
                out.push_str(name);
                out.push_str("\":");
                push_json_string(&mut out, value, true);
            }
        }
        out.push('}');
        out
    }
}

/// An owner and what it owns.
#[derive(Debug, Clone)]
pub(super) struct Record<'a> {
    pub(super) identity: Identity<'a>,
    pub(super) time: Option<Stamp<'a>>,
    pub(super) set: Set<'a>,
    /// The entry that already says this, apart from the time.
    pub(super) source: Option<usize>,
    /// The entry that said most of this, written as it should be.
    pub(super) origin: Option<Origin<'a>>,
    /// Whether the time is another than that of the entry.
    pub(super) is_retimed: bool,
}

/// An entry of an owner: its place among all, what it said, and in which version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) index: usize,
    pub(super) fields: &'a Value,
    pub(super) api_version: &'a str,
}

impl<'a> Record<'a> {
    pub(super) fn retime(&mut self, time: Option<Stamp<'a>>) {
        if self.time != time {
            self.time = time;
            self.is_retimed = true;
        }
    }

    /// Takes fields away that changed, or are gone.
    fn lose(&mut self, comparison: &Comparison<'_>) {
        let lost = [&comparison.modified, &comparison.added, &comparison.removed];
        // All three are subtracted, whatever the first one gave: no short circuit here.
        let lost = lost.map(|fields| self.set.subtract(fields));
        if lost.contains(&true) {
            self.source = None;
        }
    }
}

/// All owners of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger<'a> {
    pub(super) records: Vec<Record<'a>>,
}

impl<'a> Ledger<'a> {
    pub(super) fn position(&self, identity: &Identity<'_>) -> Option<usize> {
        self.records.iter().position(|record| record.identity.is_same(identity))
    }

    /// Adapts all records to the shapes of today, and drops those of versions that no longer exist.
    pub(super) fn reconcile(&mut self, versions: &mut Versions<'_>, live: &JsonObject) -> Result<(), String> {
        let mut result = Ok(());
        self.records.retain_mut(|record| {
            // After a failure nothing is asked for: converting may be a call to a webhook, and one that does not answer would be waited
            // for once for each owner.
            if result.is_err() {
                return true;
            }
            let shape = match versions.shape_for(&record.identity.api_version, live) {
                Ok(shape) => shape,
                Err(problem) => {
                    result = Err(problem);
                    return true;
                }
            };
            // The kind no longer has the version, so that the meaning of its fields is unknown.
            let Some(shape) = shape else { return false };
            if record.set.reconcile(shape) {
                record.source = None;
            }
            true
        });
        result
    }

    /// What others own of what changes.
    pub(super) fn conflicts(
        &self,
        own: Option<usize>,
        comparisons: &Comparisons<'_>,
    ) -> Vec<(Identity<'a>, Set<'a>)> {
        let mut conflicts = Vec::new();
        for (index, record) in self.records.iter().enumerate() {
            let Some(comparison) = comparisons.get(&record.identity.api_version) else { continue };
            if Some(index) == own {
                continue;
            }
            // A removed field is no conflict: pruning removes only fields without another owner.
            let mut taken = record.set.intersection(&comparison.modified);
            taken.unite(record.set.intersection(&comparison.added));
            if !taken.is_empty() {
                conflicts.push((record.identity.clone(), taken));
            }
        }
        conflicts
    }

    /// Takes away from others what changes or is gone.
    pub(super) fn lose(&mut self, own: Option<&Identity<'_>>, comparisons: &Comparisons<'_>) {
        for record in &mut self.records {
            let is_own = own.is_some_and(|own| own.is_same(&record.identity));
            if let Some(comparison) = comparisons.get(&record.identity.api_version).filter(|_| !is_own) {
                record.lose(comparison);
            }
        }
        self.records.retain(|record| !record.set.is_empty());
    }
}

/// The shapes of the versions of a kind, and which of them an object was found to fit.
pub(super) struct Versions<'a> {
    kind: &'a VersionedKind,
    current: &'a str,
    converter: Option<&'a dyn Convert>,
    checked: Vec<&'a str>,
}

/// An object as a version sees it.
pub(super) struct Seen<'o, 'a> {
    pub(super) object: Cow<'o, JsonObject>,
    pub(super) shape: Cursor<'a>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(kind: &'a VersionedKind, request: &Request<'a>) -> Self {
        Self { kind, current: request.api_version, converter: request.converter, checked: Vec::new() }
    }

    pub(super) fn current(&self) -> Result<Cursor<'a>, String> {
        self.kind.shape(self.current).ok_or_else(|| self.unknown())
    }

    /// The complaint about a version that the kind does not have.
    pub(super) fn unknown(&self) -> String {
        let (group, version) = self.current.split_once('/').unwrap_or(("", self.current));
        format!("no corresponding type for {group}/{version}, Kind={}", self.kind.name)
    }

    /// The shape of a version that exists. An object that is seen in another version has to fit it.
    pub(super) fn shape_for(
        &mut self,
        api_version: &str,
        object: &JsonObject,
    ) -> Result<Option<Cursor<'a>>, String> {
        let known = self.kind.versions.iter().find(|version| version.api_version == api_version);
        let Some(version) = known else { return Ok(None) };
        // In the version of the request it was checked by the caller, with its own words for a mistake.
        if api_version == self.current || self.checked.contains(&api_version) {
            return Ok(Some(version.shapes.root()));
        }
        let seen = self.converted(self.current, &version.api_version, object)?;
        // Converting may be a call to a webhook, so each version is tried once.
        self.checked.push(&version.api_version);
        Ok(seen.map(|seen| seen.shape))
    }

    /// An object that is in some version already, as another version sees it; nothing if there is no such version.
    pub(super) fn converted<'o>(
        &self,
        from: &str,
        to: &str,
        object: &'o JsonObject,
    ) -> Result<Option<Seen<'o, 'a>>, String> {
        let Some(shape) = self.kind.shape(to) else { return Ok(None) };
        if from == to {
            return Ok(Some(Seen { object: Cow::Borrowed(object), shape }));
        }
        let object = match self.converter {
            Some(converter) => Cow::Owned(converter.convert(object, to)?),
            // Without a converter all versions have the same content, and only the shape differs.
            None => Cow::Borrowed(object),
        };
        validate(&object, shape, Duplicates::Refused).map_err(|problems| problems.to_string())?;
        Ok(Some(Seen { object, shape }))
    }
}

/// What changes, as seen in each version.
#[derive(Debug, Default)]
pub(super) struct Comparisons<'a>(pub(super) Vec<(Cow<'a, str>, Comparison<'a>)>);

impl<'a> Comparisons<'a> {
    pub(super) fn get(&self, api_version: &str) -> Option<&Comparison<'a>> {
        self.0.iter().find(|(version, _)| version == api_version).map(|(_, comparison)| comparison)
    }
}

/// The order in which upstream names owners.
pub(super) fn by_text(one: &Identity<'_>, other: &Identity<'_>) -> Ordering {
    one.text().cmp(&other.text())
}
