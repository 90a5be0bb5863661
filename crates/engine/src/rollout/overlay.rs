//! Decides which revision of a function a composite resource calls during a rollout.

use std::collections::BTreeMap;

use ferroplane_api::{
    FunctionRolloutSpec, FunctionRolloutStatus, Object, RolloutCohort, RolloutDifference, RolloutFirst,
    RolloutGates, RolloutTarget, meta,
};
use serde_json::Value;

/// The highest rank.
pub(super) const LAST: u64 = u64::MAX;
/// Set in the ranks of composite resources that do not come first.
const NOT_FIRST: u64 = 1 << 63;

/// The revisions that a `FunctionRollout` assigns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// The function of the revisions. Empty if they are those of a composition.
    pub function: String,
    /// The composition of the revisions. Empty if they are those of a function.
    pub composition: String,
    /// For composite resources that were not moved, and for other callers.
    pub stable: String,
    /// For composite resources that were moved.
    pub candidate: Option<String>,
    /// For those with the update policy `Manual`, as long as it is active.
    pub previous: Option<String>,
    /// The differences that the candidate must not have.
    pub refuse: Vec<RolloutDifference>,
    /// When it counts as too slow or too large.
    pub gates: RolloutGates,
    /// How long a composite resource may take to become ready.
    pub progress_deadline_seconds: i64,
    /// Whether only the first wave was moved.
    pub is_first_wave: bool,
    /// Whether the candidate is tried for all before any is moved.
    pub is_preview: bool,
    first: RolloutFirst,
    cohort: Vec<Bound>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    until: String,
    place: u64,
}

/// One of the revisions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    #[default]
    Stable,
    Candidate,
    Previous,
}

/// The facts that decide whether a composite resource was moved.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub uid: &'a str,
    /// When it was created, in RFC 3339.
    pub created: &'a str,
    /// Whether it is one of those that are moved first.
    pub is_first: bool,
}

/// The overlays of all `FunctionRollout`s.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlays {
    /// By function.
    pub functions: BTreeMap<String, Overlay>,
    /// By composition.
    pub compositions: BTreeMap<String, Overlay>,
}

/// The overlays of all `FunctionRollout`s. Of two for the same target the older one counts.
pub fn overlays<'o>(rollouts: impl IntoIterator<Item = &'o Object>) -> Overlays {
    let mut all: Vec<&Object> = rollouts.into_iter().collect();
    all.sort_by_key(|rollout| age(rollout));
    let mut overlays = Overlays::default();
    // The youngest first, so that an older one of the same target replaces it in the map.
    for overlay in all.into_iter().rev().filter_map(Overlay::read) {
        if overlay.composition.is_empty() {
            overlays.functions.insert(overlay.function.clone(), overlay);
        } else {
            overlays.compositions.insert(overlay.composition.clone(), overlay);
        }
    }
    overlays
}

/// The key by which the older one of two is determined.
pub(super) fn age(rollout: &Object) -> (&str, &str) {
    (created(rollout), meta::name(rollout))
}

impl Overlay {
    /// Read a `FunctionRollout`. None before it has a stable revision.
    pub fn read(rollout: &Object) -> Option<Self> {
        let spec = serde_json::from_value(rollout.get("spec")?.clone()).ok()?;
        let status = serde_json::from_value(rollout.get("status")?.clone()).ok()?;
        Self::of(&spec, &status)
    }

    pub(super) fn of(spec: &FunctionRolloutSpec, status: &FunctionRolloutStatus) -> Option<Self> {
        let (function, composition) = match spec.target() {
            RolloutTarget::Function(name) => (name, ""),
            RolloutTarget::Composition(name) => ("", name),
        };
        Some(Self {
            function: function.to_owned(),
            composition: composition.to_owned(),
            stable: status.stable.clone()?,
            candidate: status.candidate.clone(),
            previous: status.previous.clone(),
            refuse: spec.refuse.clone(),
            gates: spec.gates.clone(),
            progress_deadline_seconds: spec.progress_deadline_seconds,
            is_first_wave: status.wave <= 1,
            is_preview: status.candidate.is_some() && status.wave == 0,
            first: spec.first.clone().unwrap_or_default(),
            cohort: status.cohort.iter().map(Bound::of).collect(),
        })
    }

    /// The revisions whose calls are compared: both, if there is a candidate.
    pub fn compared(&self) -> Vec<String> {
        self.candidate.iter().flat_map(|candidate| [self.stable.clone(), candidate.clone()]).collect()
    }

    /// Which revision a composite resource calls.
    pub fn choose(&self, composite: &Object, is_manual: bool) -> Choice {
        if is_manual {
            return if self.previous.is_some() { Choice::Previous } else { Choice::Stable };
        }
        let is_first = comes_first(&self.first, composite);
        let member = Member { uid: meta::uid(composite), created: created(composite), is_first };
        if self.has_moved(member) { Choice::Candidate } else { Choice::Stable }
    }

    /// The name of the revision that is chosen.
    pub fn revision(&self, choice: Choice) -> &str {
        let chosen = match choice {
            Choice::Stable => None,
            Choice::Candidate => self.candidate.as_deref(),
            Choice::Previous => self.previous.as_deref(),
        };
        chosen.unwrap_or(&self.stable)
    }

    /// Whether a composite resource with this namespace and these labels is moved first.
    pub fn is_first<'l>(&self, namespace: &str, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.first.selects(namespace, label)
    }

    /// Whether a composite resource calls the candidate.
    pub fn has_moved(&self, member: Member<'_>) -> bool {
        let Some(candidate) = self.candidate.as_deref().filter(|_| !self.cohort.is_empty()) else {
            return false;
        };
        let place = place(candidate, member.uid, member.is_first);
        self.cohort.iter().any(|bound| place <= bound.place && member.created < bound.until.as_str())
    }
}

impl Bound {
    fn of(cohort: &RolloutCohort) -> Self {
        // An invalid status moves no composite resource.
        let place = u64::from_str_radix(&cohort.bound, 16).ok();
        let until = if place.is_some() { cohort.until.clone() } else { String::new() };
        Self { until, place: place.unwrap_or_default() }
    }
}

/// The rank of a composite resource. It differs for each revision, so that it is not always the same ones that come first.
pub(super) fn place(candidate: &str, uid: &str, is_first: bool) -> u64 {
    let hash = hash(candidate, uid) >> 1;
    if is_first { hash } else { hash | NOT_FIRST }
}

/// FNV-1a, and the last step of `MurmurHash3`, without which uids that differ only at their end would have adjacent ranks.
fn hash(candidate: &str, uid: &str) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in candidate.bytes().chain([0]).chain(uid.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Whether a composite resource is moved before all others.
pub(super) fn comes_first(first: &RolloutFirst, composite: &Object) -> bool {
    let labels = composite.get("metadata").and_then(|metadata| metadata.get("labels"));
    first.selects(meta::namespace(composite), |key| labels.and_then(|labels| labels.get(key)?.as_str()))
}

pub(super) fn created(object: &Object) -> &str {
    let created = object.get("metadata").and_then(|metadata| metadata.get("creationTimestamp"));
    created.and_then(Value::as_str).unwrap_or_default()
}
