//! Compares what two revisions of a function would do to a composite resource, given the same.

use std::collections::BTreeMap;
use std::time::Duration;

use ferroplane_api::{Object, RolloutDifference, RolloutGates, meta};

use crate::failure::{Failure, chain};
use crate::plan::{Plan, Wanted};

/// What is composed has to grow by this many bytes before it is called larger: small objects double easily.
const LEAST_GROWTH: usize = 16 << 10;

/// Everything in which the new revision differs for a composite resource. Empty if it does the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Differences(u16);

impl Differences {
    #[must_use]
    pub fn with(self, difference: RolloutDifference) -> Self {
        Self(self.0 | bit(difference))
    }

    /// Each of them, the gravest last. `Equal` if there is none.
    pub fn iter(self) -> impl Iterator<Item = RolloutDifference> {
        RolloutDifference::ALL.into_iter().filter(move |difference| match difference {
            RolloutDifference::Equal => self.0 == 0,
            other => self.0 & bit(*other) != 0,
        })
    }

    pub fn gravest(self) -> RolloutDifference {
        self.iter().last().unwrap_or(RolloutDifference::Equal)
    }

    /// The gravest one that a rollout which refuses these differences refuses. To fail is always refused.
    pub fn refused(self, refuse: &[RolloutDifference]) -> Option<RolloutDifference> {
        let is_refused = |it: &RolloutDifference| *it == RolloutDifference::Fails || refuse.contains(it);
        self.iter().filter(is_refused).last()
    }
}

impl From<RolloutDifference> for Differences {
    fn from(difference: RolloutDifference) -> Self {
        Self::default().with(difference)
    }
}

fn bit(difference: RolloutDifference) -> u16 {
    match difference {
        RolloutDifference::Equal => 0,
        other => 1 << (other as u16),
    }
}

/// How the new revision differs from the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    pub differences: Differences,
    /// What the gravest difference is, for people. Empty if nothing is different.
    pub detail: String,
}

impl Comparison {
    pub fn new(difference: RolloutDifference, detail: impl Into<String>) -> Self {
        Self { differences: difference.into(), detail: detail.into() }
    }

    /// Note a further difference. What it is in words counts if it is the gravest.
    pub fn note(&mut self, difference: RolloutDifference, detail: impl FnOnce() -> String) {
        if difference > self.differences.gravest() {
            self.detail = detail();
        }
        self.differences = self.differences.with(difference);
    }

    /// Note it if what the new revision composes is much larger.
    pub fn note_size(
        &mut self,
        old: &Result<Plan, Failure>,
        new: &Result<Plan, Failure>,
        gates: &RolloutGates,
    ) {
        let (Ok(old), Ok(new)) = (old, new) else { return };
        let (before, after) = (size(old), size(new));
        let factor = usize::try_from(gates.max_size_factor).unwrap_or_default();
        if factor > 0 && after > before.saturating_mul(factor) && after - before >= LEAST_GROWTH {
            let detail = || format!("composes {after} bytes instead of {before}");
            self.note(RolloutDifference::Larger, detail);
        }
    }

    /// Note it if the new revision takes much longer. To fail takes any time.
    pub fn note_time(&mut self, old: Duration, new: Duration, gates: &RolloutGates) {
        if self.differences.gravest() != RolloutDifference::Fails && is_slow(old, new, gates) {
            let detail = || format!("takes {} ms in place of {} ms", new.as_millis(), old.as_millis());
            self.note(RolloutDifference::Slower, detail);
        }
    }
}

/// Whether something takes too long, compared with how long it took before.
pub(super) fn is_slow(old: Duration, new: Duration, gates: &RolloutGates) -> bool {
    let factor = u32::try_from(gates.max_latency_factor).unwrap_or_default();
    let slow = Duration::from_millis(u64::try_from(gates.slow_milliseconds).unwrap_or_default());
    factor > 0 && new > slow && new > old.saturating_mul(factor)
}

/// How many bytes a plan comes to.
fn size(plan: &Plan) -> usize {
    let composed = plan.apply.iter().map(|wanted| serde_json::to_vec(&wanted.object));
    let status = std::iter::once(serde_json::to_vec(&plan.status));
    composed.chain(status).map(|bytes| bytes.map(|bytes| bytes.len()).unwrap_or_default()).sum()
}

/// How what the new revision would do differs from what the old one would do. The gravest difference counts.
pub fn compare(old: &Result<Plan, Failure>, new: &Result<Plan, Failure>) -> Comparison {
    match (old, new) {
        (Ok(_), Err(failure)) => Comparison::new(RolloutDifference::Fails, chain(failure)),
        (Ok(old), Ok(new)) => compare_plans(old, new),
        (Err(_), new) => compare_alone(new),
    }
}

/// The same if nobody knows what the old one would do. What fails anyway is not the new one's doing, and what it mends is no harm. What it
/// deletes may be, and does not come back.
pub fn compare_alone(new: &Result<Plan, Failure>) -> Comparison {
    let deleted = new.as_ref().ok().and_then(|plan| plan.delete.iter().map(|it| it.resource.as_str()).min());
    match deleted {
        Some(gone) => Comparison::new(
            RolloutDifference::Deleted,
            format!("deletes `{gone}`, and the old revision cannot be asked whether it would, too"),
        ),
        None => Comparison::new(RolloutDifference::Equal, ""),
    }
}

fn compare_plans(old: &Plan, new: &Plan) -> Comparison {
    let (before, after) = (by_resource(old), by_resource(new));
    let deleted_before = |resource: &str| old.delete.iter().any(|it| it.resource == resource);
    let unwanted = new.delete.iter().map(|it| it.resource.as_str()).filter(|it| !deleted_before(it));
    let dropped = before.keys().copied().filter(|resource| !after.contains_key(resource));
    // A resource whose object is another one is deleted under its old name.
    let gone = dropped.chain(unwanted.filter(|it| !before.contains_key(it))).min();
    let added = after.keys().copied().find(|resource| !before.contains_key(resource));
    if let Some(gone) = gone {
        return match added {
            Some(added) => Comparison::new(
                RolloutDifference::Renamed,
                format!("composes `{added}` and no longer `{gone}`, which is deleted"),
            ),
            None => Comparison::new(
                RolloutDifference::Deleted,
                format!("no longer composes `{gone}`, which is deleted"),
            ),
        };
    }
    let both = || before.iter().filter_map(|(resource, old)| Some((*resource, *old, *after.get(resource)?)));
    if let Some((resource, ..)) = both().find(|(_, old, new)| identity(old) != identity(new)) {
        let detail = format!("composes another object as `{resource}`, and the one before is deleted");
        return Comparison::new(RolloutDifference::Renamed, detail);
    }
    if let Some(added) = added {
        return Comparison::new(RolloutDifference::Added, format!("composes `{added}` besides"));
    }
    if let Some((resource, ..)) = both().find(|(_, old, new)| old.object != new.object) {
        return Comparison::new(RolloutDifference::Changed, format!("changes `{resource}`"));
    }
    if old.status != new.status || old.connection_details != new.connection_details {
        return Comparison::new(RolloutDifference::Changed, "changes the status or the connection details");
    }
    Comparison::new(RolloutDifference::Equal, "")
}

fn by_resource(plan: &Plan) -> BTreeMap<&str, &Wanted> {
    plan.apply.iter().map(|wanted| (wanted.resource.as_str(), wanted)).collect()
}

/// What makes an object that one and no other.
fn identity(wanted: &Wanted) -> [&str; 4] {
    let object: &Object = &wanted.object;
    [meta::api_version(object), meta::kind(object), meta::namespace(object), meta::name(object)]
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::Struct;

    use super::*;
    use crate::plan::Deletion;

    #[test]
    fn gravest_difference_that_is_refused_counts() {
        let both = Differences::from(RolloutDifference::Slower).with(RolloutDifference::Changed);
        assert_eq!(both.iter().collect::<Vec<_>>(), [RolloutDifference::Slower, RolloutDifference::Changed]);
        assert_eq!(both.gravest(), RolloutDifference::Changed);
        assert_eq!(both.refused(&[RolloutDifference::Deleted]), None);
        assert_eq!(both.refused(&[RolloutDifference::Slower]), Some(RolloutDifference::Slower));
        let fails = Differences::from(RolloutDifference::Fails);
        assert_eq!(fails.refused(&[]), Some(RolloutDifference::Fails));
        let equal = Differences::default();
        assert_eq!(equal.iter().collect::<Vec<_>>(), [RolloutDifference::Equal]);
    }

    #[test]
    fn what_is_deleted_counts_though_the_old_revision_fails() {
        let failure = || Failure::Fatal { step: "one".to_owned(), message: "no way".to_owned() };
        let deletion = Deletion { resource: "b".to_owned(), object: Struct::default() };
        let deleting = Plan { delete: vec![deletion], ..Plan::default() };
        for alone in [compare_alone(&Ok(deleting.clone())), compare(&Err(failure()), &Ok(deleting))] {
            assert_eq!(alone.differences, Differences::from(RolloutDifference::Deleted));
            assert!(
                alone.detail.starts_with("deletes `b`, and the old revision cannot be asked"),
                "{alone:?}"
            );
        }
        for harmless in [Ok(Plan::default()), Err(failure())] {
            assert_eq!(compare(&Err(failure()), &harmless).differences, Differences::default());
        }
    }

    #[test]
    fn trial_is_slow_if_it_takes_much_longer_and_long_enough_to_matter() {
        let gates = RolloutGates::default();
        let slow = |old: u64, new: u64| {
            let mut comparison = Comparison::new(RolloutDifference::Equal, "");
            comparison.note_time(Duration::from_millis(old), Duration::from_millis(new), &gates);
            comparison.differences.gravest() == RolloutDifference::Slower
        };
        assert!(slow(30, 300) && slow(0, 101));
        assert!(!slow(1, 90), "nobody notices 90 ms");
        assert!(!slow(30, 140), "less than five times as long");
        let any = RolloutGates { max_latency_factor: 0, ..gates.clone() };
        assert!(!is_slow(Duration::ZERO, Duration::from_mins(1), &any));
    }

    #[test]
    fn plan_is_larger_if_it_grows_by_much() {
        let plan = |bytes: usize| {
            let status = serde_json::json!({"text": "x".repeat(bytes)}).as_object().cloned();
            Ok::<_, Failure>(Plan { status, ..Plan::default() })
        };
        let larger = |old: usize, new: usize| {
            let mut comparison = Comparison::new(RolloutDifference::Changed, "changes the status");
            comparison.note_size(&plan(old), &plan(new), &RolloutGates::default());
            comparison.differences.refused(&[RolloutDifference::Larger]).is_some()
        };
        assert!(larger(10, 20_000) && larger(20_000, 50_000));
        assert!(!larger(10, 1000) && !larger(50_000, 70_000));
    }
}
