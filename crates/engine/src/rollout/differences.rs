//! Compares the plans of two revisions of a function for a composite resource, given the same inputs.

use std::collections::BTreeMap;
use std::time::Duration;

use ferroplane_api::{Object, RolloutDifference, RolloutGates, meta};

use crate::failure::{Failure, chain};
use crate::plan::{Plan, Wanted};
use crate::status_size::shortened_to;

/// By how many bytes the composed resources have to grow to count as larger: small objects double easily.
const LEAST_GROWTH: usize = 16 << 10;
/// The most bytes of the description of a difference. What functions return is a part of it, and it is stored in several places of a status.
const DETAIL_LIMIT: usize = 2 << 10;
/// How many resources that only the new revision composes are named.
pub const MOST_ADDED: usize = 5;
/// The most bytes of such a name. Functions choose the names of resources.
const NAME_LIMIT: usize = 256;

/// All differences of the new revision for a composite resource. Empty if there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Differences(u16);

impl Differences {
    #[must_use]
    pub fn with(self, difference: RolloutDifference) -> Self {
        Self(self.0 | bit(difference))
    }

    /// Each of them, the most severe last. `Equal` if there is none.
    pub fn iter(self) -> impl Iterator<Item = RolloutDifference> {
        RolloutDifference::ALL.into_iter().filter(move |difference| match difference {
            RolloutDifference::Equal => self.0 == 0,
            other => self.0 & bit(*other) != 0,
        })
    }

    pub fn gravest(self) -> RolloutDifference {
        self.iter().last().unwrap_or(RolloutDifference::Equal)
    }

    /// The most severe difference that a rollout with this list refuses. Failing is always refused.
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
    /// All differences, for people, the most severe first. Empty if there are none. A long description is shortened.
    pub detail: String,
    /// The kinds and names of some resources that only the new revision composes: going back deletes them.
    pub added: Vec<String>,
}

impl Comparison {
    pub fn new(difference: RolloutDifference, detail: impl Into<String>) -> Self {
        Self { differences: difference.into(), detail: bounded(detail.into()), added: Vec::new() }
    }

    /// Add a difference, unless there is one of the same kind.
    pub fn note(&mut self, difference: RolloutDifference, detail: impl FnOnce() -> String) {
        let before = self.differences;
        self.differences = before.with(difference);
        if self.differences == before {
            return;
        }
        let detail = bounded(detail());
        let texts = match (before == Differences::default(), difference > before.gravest()) {
            (true, _) => [detail, String::new()],
            (false, true) => [detail, std::mem::take(&mut self.detail)],
            (false, false) => [std::mem::take(&mut self.detail), detail],
        };
        self.detail = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
    }

    /// Add a difference if the new revision composes much larger resources.
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

    /// Add a difference if the new revision takes much longer, unless it fails.
    pub fn note_time(&mut self, old: Duration, new: Duration, gates: &RolloutGates) {
        if self.differences.gravest() != RolloutDifference::Fails && is_slow(old, new, gates) {
            let detail = || format!("takes {} ms in place of {} ms", new.as_millis(), old.as_millis());
            self.note(RolloutDifference::Slower, detail);
        }
    }
}

fn bounded(detail: String) -> String {
    shortened_to(DETAIL_LIMIT, detail)
}

/// Whether a duration is too long, compared with the one before.
pub fn is_slow(old: Duration, new: Duration, gates: &RolloutGates) -> bool {
    let factor = u32::try_from(gates.max_latency_factor).unwrap_or_default();
    let slow = Duration::from_millis(u64::try_from(gates.slow_milliseconds).unwrap_or_default());
    factor > 0 && new > slow && new > old.saturating_mul(factor)
}

/// The size of a plan in bytes.
fn size(plan: &Plan) -> usize {
    let composed = plan.apply.iter().map(|wanted| serde_json::to_vec(&wanted.object));
    let status = std::iter::once(serde_json::to_vec(&plan.status));
    composed.chain(status).map(|bytes| bytes.map(|bytes| bytes.len()).unwrap_or_default()).sum()
}

/// All differences between the plans of the new and the old revision: a rollout may refuse any of them.
pub fn compare(old: &Result<Plan, Failure>, new: &Result<Plan, Failure>) -> Comparison {
    match (old, new) {
        (Ok(_), Err(failure)) => Comparison::new(RolloutDifference::Fails, chain(failure)),
        (Ok(old), Ok(new)) => compare_plans(old, new),
        (Err(_), new) => compare_alone(new),
    }
}

/// The same if the plan of the old revision is unknown. A failure may have happened with the old one, too, and a repair does no harm. A
/// deletion may, and cannot be undone.
pub fn compare_alone(new: &Result<Plan, Failure>) -> Comparison {
    let deleted = new.as_ref().ok().and_then(|plan| plan.delete.iter().map(|it| it.resource.as_str()).min());
    match deleted {
        Some(gone) => Comparison::new(
            RolloutDifference::Deleted,
            format!("deletes `{gone}`, and the old revision cannot be called to compare"),
        ),
        None => Comparison::new(RolloutDifference::Equal, ""),
    }
}

fn compare_plans(old: &Plan, new: &Plan) -> Comparison {
    let (before, after) = (by_resource(old), by_resource(new));
    let both = || before.iter().filter_map(|(resource, old)| Some((*resource, *old, *after.get(resource)?)));
    let Unmatched { mut deleted, renamed, added } = Unmatched::between(&before, &after);
    deleted.extend(unwanted(old, new).filter(|resource| !before.contains_key(resource)));
    let mut comparison = Comparison::new(RolloutDifference::Equal, "");
    comparison.added = only_new(&before, &after);
    if let Some(gone) = deleted.iter().min() {
        comparison
            .note(RolloutDifference::Deleted, || format!("no longer composes `{gone}`, which is deleted"));
    }
    if let Some((gone, instead)) = renamed.first() {
        let detail = || format!("composes `{instead}` and no longer `{gone}`, which is deleted");
        comparison.note(RolloutDifference::Renamed, detail);
    }
    // Another object is another content, too, but that is no further difference.
    let is_same = |old: &Wanted, new: &Wanted| identity(old) == identity(new);
    if let Some((resource, ..)) = both().find(|(_, old, new)| !is_same(old, new)) {
        let detail = || format!("composes another object as `{resource}`, and the one before is deleted");
        comparison.note(RolloutDifference::Renamed, detail);
    }
    if let Some(added) = added.first() {
        comparison.note(RolloutDifference::Added, || format!("composes `{added}` besides"));
    }
    let mut changed = both().filter(|(_, old, new)| is_same(old, new) && old.object != new.object);
    if let Some((resource, ..)) = changed.next() {
        comparison.note(RolloutDifference::Changed, || format!("changes `{resource}`"));
    }
    if old.status != new.status || old.connection_details != new.connection_details {
        let detail = || "changes the status or the connection details".to_owned();
        comparison.note(RolloutDifference::Changed, detail);
    }
    comparison
}

/// What the new plan deletes and the old one does not. A resource whose object is another one is deleted under its old name.
fn unwanted<'p>(old: &'p Plan, new: &'p Plan) -> impl Iterator<Item = &'p str> {
    let deleted_before = move |resource: &str| old.delete.iter().any(|it| it.resource == resource);
    new.delete.iter().map(|it| it.resource.as_str()).filter(move |resource| !deleted_before(resource))
}

/// What the new plan composes and the old one does not, also if it is another object under the same name.
fn only_new(before: &BTreeMap<&str, &Wanted>, after: &BTreeMap<&str, &Wanted>) -> Vec<String> {
    let is_new = |wanted: &&Wanted| {
        let old = before.get(wanted.resource.as_str());
        old.is_none_or(|old| identity(old) != identity(wanted))
    };
    let named =
        |it: &Wanted| shortened_to(NAME_LIMIT, format!("{} `{}`", meta::kind(&it.object), it.resource));
    after.values().copied().filter(is_new).take(MOST_ADDED).map(named).collect()
}

/// What only one of two plans composes, by name.
struct Unmatched<'p> {
    /// No longer composed, and nothing of its kind in its place.
    deleted: Vec<&'p str>,
    /// No longer composed, with the resource of the same kind that is composed in its place.
    renamed: Vec<(&'p str, &'p str)>,
    added: Vec<&'p str>,
}

impl<'p> Unmatched<'p> {
    fn between(before: &BTreeMap<&'p str, &'p Wanted>, after: &BTreeMap<&'p str, &'p Wanted>) -> Self {
        let mut added = only_in(after, before);
        let (mut deleted, mut renamed) = (Vec::new(), Vec::new());
        for gone in only_in(before, after) {
            // An object of another kind does not stand for the one that is lost: who announced renames has not announced that.
            match added.iter().position(|it| group_kind(it) == group_kind(gone)) {
                Some(index) => renamed.push((gone.resource.as_str(), added.remove(index).resource.as_str())),
                None => deleted.push(gone.resource.as_str()),
            }
        }
        Self { deleted, renamed, added: added.into_iter().map(|it| it.resource.as_str()).collect() }
    }
}

fn only_in<'p>(
    one: &BTreeMap<&'p str, &'p Wanted>,
    other: &BTreeMap<&'p str, &'p Wanted>,
) -> Vec<&'p Wanted> {
    one.values().copied().filter(|wanted| !other.contains_key(wanted.resource.as_str())).collect()
}

fn group_kind(wanted: &Wanted) -> (&str, &str) {
    (meta::group(meta::api_version(&wanted.object)), meta::kind(&wanted.object))
}

fn by_resource(plan: &Plan) -> BTreeMap<&str, &Wanted> {
    plan.apply.iter().map(|wanted| (wanted.resource.as_str(), wanted)).collect()
}

/// The identity of an object.
fn identity(wanted: &Wanted) -> [&str; 4] {
    let object: &Object = &wanted.object;
    [meta::api_version(object), meta::kind(object), meta::namespace(object), meta::name(object)]
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::Struct;
    use serde_json::json;

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
                alone.detail.starts_with("deletes `b`, and the old revision cannot be called"),
                "{alone:?}"
            );
        }
        for harmless in [Ok(Plan::default()), Err(failure())] {
            assert_eq!(compare(&Err(failure()), &harmless).differences, Differences::default());
        }
    }

    /// A plan with these resources, each of which is of the kind behind its colon.
    fn composing(resources: &[&str]) -> Plan {
        let wanted = |text: &&str| {
            let (resource, kind) = text.split_once(':').unwrap();
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": resource}});
            Wanted {
                resource: resource.to_owned(),
                step: "one".to_owned(),
                object: object.as_object().cloned().unwrap(),
                is_ready: true,
            }
        };
        Plan { apply: resources.iter().map(wanted).collect(), ..Plan::default() }
    }

    #[test]
    fn resource_is_renamed_only_if_one_of_its_kind_is_in_its_place() {
        use RolloutDifference::{Added, Deleted, Renamed};
        let found = |old: &[&str], new: &[&str]| {
            let comparison = compare(&Ok(composing(old)), &Ok(composing(new)));
            (comparison.differences.iter().collect::<Vec<_>>(), comparison.detail)
        };
        let (differences, detail) = found(&["a:Claim", "b:Claim"], &["a:Claim", "c:Claim"]);
        assert_eq!(differences, [Renamed]);
        assert_eq!(detail, "composes `c` and no longer `b`, which is deleted");
        // Of two that go, one is in the place of one.
        let (differences, detail) = found(&["a:Claim", "b:Claim"], &["c:Claim"]);
        assert_eq!(differences, [Renamed, Deleted]);
        assert_eq!(
            detail,
            "no longer composes `b`, which is deleted; composes `c` and no longer `a`, which is deleted"
        );
        let (differences, _) = found(&["a:Claim"], &["c:ConfigMap"]);
        assert_eq!(differences, [Added, Deleted], "what it held is lost");
        assert_eq!(found(&["a:Claim"], &["a:Claim", "c:Claim"]).0, [Added]);
        assert_eq!(found(&["a:Claim"], &["a:Secret"]).0, [Renamed]);
    }

    #[test]
    fn every_difference_counts_whatever_else_differs() {
        use RolloutDifference::{Added, Changed, Deleted, Renamed};
        let old = composing(&["a:Claim", "b:Secret"]);
        for (new, others) in [
            (composing(&["a:Claim", "b:Secret", "c:Claim"]), vec![Added]),
            (composing(&["a:Claim"]), vec![Deleted]),
            (composing(&["a:Claim", "c:Secret"]), vec![Renamed]),
            (composing(&["a:Claim", "c:Service", "d:Service"]), vec![Added, Deleted]),
        ] {
            let found = compare(&Ok(old.clone()), &Ok(new.clone())).differences;
            assert_eq!(found.iter().collect::<Vec<_>>(), others);
            assert_eq!(found.refused(&[Changed]), None, "nothing else changes with {others:?}");
            let mut with_content = new.clone();
            with_content.apply[0].object.insert("data".to_owned(), json!({"color": "two"}));
            let with_status = Plan { status: json!({"color": "two"}).as_object().cloned(), ..new };
            for (new, detail) in [(with_content, "changes `a`"), (with_status, "changes the status")] {
                let comparison = compare(&Ok(old.clone()), &Ok(new));
                let expected: Vec<_> = [Changed].into_iter().chain(others.clone()).collect();
                assert_eq!(comparison.differences.iter().collect::<Vec<_>>(), expected);
                assert_eq!(comparison.differences.refused(&[Changed]), Some(Changed));
                assert!(comparison.detail.contains(&format!("; {detail}")), "{comparison:?}");
            }
        }
    }

    #[test]
    fn what_only_the_new_revision_composes_is_named() {
        let added = |old: &[&str], new: &[&str]| compare(&Ok(composing(old)), &Ok(composing(new))).added;
        assert_eq!(added(&["a:Claim"], &["a:Claim"]), [""; 0]);
        assert_eq!(added(&["a:Claim"], &["a:Claim", "b:Secret", "c:Claim"]), ["Secret `b`", "Claim `c`"]);
        assert_eq!(added(&["a:Claim"], &["c:Claim"]), ["Claim `c`"], "a rename is undone by a deletion");
        assert_eq!(added(&["a:Claim"], &["a:Secret"]), ["Secret `a`"]);
        let many: Vec<String> =
            (0..9).map(|number| format!("{}{number}:Claim", "x".repeat(1 << 20))).collect();
        let many = added(&[], &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.len(), MOST_ADDED);
        assert!(many.iter().all(|name| name.len() < 2 * NAME_LIMIT), "{many:?}");
    }

    #[test]
    fn description_of_a_difference_is_bounded_whatever_a_function_returns() {
        let long = "no way ".repeat(150_000);
        let failure = Failure::Fatal { step: "one".to_owned(), message: long.clone() };
        let comparison = compare(&Ok(Plan::default()), &Err(failure));
        assert!(comparison.detail.contains("no way"), "{}", comparison.detail);
        assert!(comparison.detail.ends_with("more bytes are left out)"), "{}", comparison.detail);
        assert!(comparison.detail.len() < 2 * DETAIL_LIMIT);
        let mut comparison = Comparison::new(RolloutDifference::Changed, long.clone());
        comparison.note(RolloutDifference::Added, || long.clone());
        comparison.note(RolloutDifference::Larger, || long);
        assert!(comparison.detail.len() < 4 * DETAIL_LIMIT, "{} bytes", comparison.detail.len());
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
