//! Compares what two revisions of a function would do to a composite resource, given the same.

use std::collections::BTreeMap;

use ferroplane_api::{Object, RolloutDifference, meta};

use crate::failure::{Failure, chain};
use crate::plan::{Plan, Wanted};

/// How the new revision differs from the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    pub difference: RolloutDifference,
    /// What is different, for people. Empty if nothing is.
    pub detail: String,
}

impl Comparison {
    fn new(difference: RolloutDifference, detail: impl Into<String>) -> Self {
        Self { difference, detail: detail.into() }
    }
}

/// Whether a rollout that refuses these differences refuses this one. One that fails is always refused.
pub fn is_refused(difference: RolloutDifference, refuse: &[RolloutDifference]) -> bool {
    difference == RolloutDifference::Fails || refuse.contains(&difference)
}

/// How what the new revision would do differs from what the old one would do. The gravest difference counts.
pub fn compare(old: &Result<Plan, Failure>, new: &Result<Plan, Failure>) -> Comparison {
    match (old, new) {
        (Ok(_), Err(failure)) => Comparison::new(RolloutDifference::Fails, chain(failure)),
        (Ok(old), Ok(new)) => compare_plans(old, new),
        // What fails anyway is not the new one's doing, and what it mends is no harm.
        (Err(_), _) => Comparison::new(RolloutDifference::Equal, ""),
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
