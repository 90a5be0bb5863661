//! Groups composite resources that a change affects in the same way.

use super::{Action, CompositePlan, FieldChange, ObjectName, Verdict};

/// Composite resources that a change affects in the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeGroup<'a> {
    /// One of them, as an example.
    pub example: &'a CompositePlan,
    pub members: Vec<&'a ObjectName>,
}

/// What two composite resources must have in common to be in one group: the kind, the effect, and which fields of which composed
/// resources change. Names, values and references may differ.
#[derive(PartialEq)]
struct Pattern<'a> {
    kind: (&'a str, &'a str),
    verdict: &'a Verdict,
    changes: Vec<(Action, &'a str, &'a str, Vec<&'a str>)>,
}

impl<'a> Pattern<'a> {
    fn of(plan: &'a CompositePlan) -> Self {
        let path = |field: &'a FieldChange| field.path.as_str();
        let changes = plan.changes.iter().map(|change| {
            let fields = change.fields.iter().filter(|field| !field.is_reference()).map(path).collect();
            (change.action, change.object.kind.as_str(), change.resource.as_str(), fields)
        });
        Self {
            kind: (&plan.composite.api_version, &plan.composite.kind),
            verdict: &plan.verdict,
            changes: changes.collect(),
        }
    }

    /// Deletions and replacements come first, then effects that cannot be predicted, then failures.
    fn rank(&self) -> (u8, usize) {
        let is_destructive = |action: Action| matches!(action, Action::Delete | Action::Replace);
        let destroyed = self.changes.iter().filter(|(action, ..)| is_destructive(*action)).count();
        let rank = match self.verdict {
            Verdict::Changed if destroyed > 0 => 0,
            Verdict::Refused { .. } => 1,
            Verdict::Fails { .. } => 2,
            Verdict::Changed => 3,
            Verdict::Skipped { .. } => 4,
            Verdict::Unchanged => 5,
        };
        (rank, usize::MAX - destroyed)
    }
}

/// Group composite resources that a change affects in the same way; changes that cannot be undone come first.
pub fn group_alike(plans: &[CompositePlan]) -> Vec<ChangeGroup<'_>> {
    let mut groups: Vec<(Pattern<'_>, ChangeGroup<'_>)> = Vec::new();
    for plan in plans {
        let pattern = Pattern::of(plan);
        match groups.iter_mut().find(|(known, _)| *known == pattern) {
            Some((_, group)) => group.members.push(&plan.composite),
            None => groups.push((pattern, ChangeGroup { example: plan, members: vec![&plan.composite] })),
        }
    }
    groups.sort_by_cached_key(|(pattern, group)| (pattern.rank(), group.members[0].clone()));
    groups.into_iter().map(|(_, group)| group).collect()
}
