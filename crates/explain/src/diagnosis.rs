//! Finds out why something is not ready: from the top down, until nothing deeper is to blame.

use std::collections::BTreeSet;

use ferroplane_api::{Object, UnsupportedKind, unsupported};
use serde::Serialize;

use crate::finding::Finding;
use crate::id::Id;
use crate::inquiry::{DEEPEST, is_fine, is_ready};
use crate::look::{Role, at, children, condition, created_at, deleted_at, is_inactive, ready, role, synced};
use crate::rules::{RULES, Suspect, When};
use crate::snapshot::{Snapshot, State};
use crate::words::one_line;

/// What was found out about an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    pub object: Id,
    /// There may be a cause all the same: for what does not go well, although it can be used.
    pub is_ready: bool,
    /// Whether the object itself is there.
    pub is_there: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Finding>,
    /// From the object that was asked about to the one that is to blame.
    pub chain: Vec<Link>,
    /// What else is wrong beside that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Finding>,
}

/// An object on the way to the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    pub object: Id,
    /// Its own messages.
    pub says: String,
}

/// Find out why an object is not ready, given all that [`crate::wants`] asked for.
pub fn diagnose(snapshot: &Snapshot, root: &Id) -> Diagnosis {
    let mut search = CauseSearch { snapshot, seen: BTreeSet::new(), path: Vec::new(), found: Vec::new() };
    let object = snapshot.object(root);
    search.descend(root, None);
    let role = object.map(|object| role(snapshot, root, object));
    let is_ready = object.zip(role).is_some_and(|(object, role)| is_ready(role, object));
    let is_ready = is_ready && (!role.is_some_and(speaks_through_others) || search.found.is_empty());
    let mut found = search.found.into_iter();
    let (cause, chain) = match found.next() {
        Some((cause, chain)) => (Some(cause), chain),
        None => (None, vec![Link { object: root.clone(), says: says(snapshot, root) }]),
    };
    let others = found.map(|(cause, _)| cause).collect();
    Diagnosis { object: root.clone(), is_ready, is_there: object.is_some(), cause, chain, others }
}

struct CauseSearch<'a> {
    snapshot: &'a Snapshot,
    seen: BTreeSet<Id>,
    path: Vec<Link>,
    found: Vec<(Finding, Vec<Link>)>,
}

/// What is above an object.
#[derive(Clone, Copy)]
pub(crate) struct Above<'a> {
    pub(crate) object: &'a Object,
    pub(crate) is_leaving: bool,
}

impl<'a> CauseSearch<'a> {
    /// Whether a cause was found.
    fn descend(&mut self, id: &Id, above: Option<Above<'a>>) -> bool {
        if self.path.len() > DEEPEST || !self.seen.insert(id.clone()) {
            return false;
        }
        self.path.push(Link { object: id.clone(), says: says(self.snapshot, id) });
        let suspect = Suspect::new(self.snapshot, id, above);
        let is_further = suspect.is_leaving || !suspect.is_fine() || speaks_through_others(suspect.role);
        let below = self.snapshot.object(id).filter(|_| is_further);
        let below = below.map(|object| Above { object, is_leaving: suspect.is_leaving });
        let is_found = self.apply(&suspect, When::First)
            || below.is_some_and(|below| self.descend_further(id, below))
            || self.apply(&suspect, When::Last);
        self.path.pop();
        is_found
    }

    fn apply(&mut self, suspect: &Suspect<'_>, when: When) -> bool {
        let cause = RULES.iter().filter(|rule| rule.when == when).find_map(|rule| rule.apply(suspect));
        let Some(cause) = cause else { return false };
        self.found.push((cause, self.path.clone()));
        true
    }

    fn descend_further(&mut self, id: &Id, above: Above<'a>) -> bool {
        let mut children = children(self.snapshot, id, above.object);
        match role(self.snapshot, id, above.object) {
            Role::Composition => children = newest(self.snapshot, children),
            Role::OperationMaker => children = latest_result(self.snapshot, children),
            // What is wrong with a revision that was replaced does not matter any more.
            Role::Package => {
                children.retain(|child| !self.snapshot.object(child).is_some_and(is_inactive));
            }
            _ => {}
        }
        children.sort_by_cached_key(|child| (urgency(self.snapshot, child), child.clone()));
        let mut is_found = false;
        for child in children {
            is_found |= self.descend(&child, Some(above));
        }
        is_found
    }
}

/// Whether something says nothing of what goes wrong with it: a Composition leaves that to its revisions, and what makes operations
/// to those.
fn speaks_through_others(role: Role) -> bool {
    matches!(role, Role::Composition | Role::OperationMaker)
}

/// The latest operation that has come to something, good or bad. Those that run without trouble have nothing to say yet, and what
/// became of older ones does not matter any more.
fn latest_result(snapshot: &Snapshot, operations: Vec<Id>) -> Vec<Id> {
    let result = |id: &Id| {
        let object = snapshot.object(id)?;
        let has_ended = condition(object, "Succeeded").is_some_and(|it| it.status != "Unknown");
        let has_failed = synced(object).is_some_and(|it| it.status == "False");
        (has_ended || has_failed).then(|| (created_at(object).to_owned(), id.name.clone()))
    };
    let results = operations.into_iter().filter_map(|id| Some((result(&id)?, id)));
    results.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, id)| id).into_iter().collect()
}

/// The newest of the revisions of a Composition. Older ones may be wrong: that is why there is a newer one.
fn newest(snapshot: &Snapshot, revisions: Vec<Id>) -> Vec<Id> {
    let number = |id: &Id| snapshot.object(id).and_then(|it| at(it, &["spec", "revision"])?.as_i64());
    revisions.into_iter().max_by_key(number).into_iter().collect()
}

/// What is checked first: what has something to say about itself, and what has more below it.
fn urgency(snapshot: &Snapshot, id: &Id) -> u8 {
    let object = match snapshot.state(id) {
        Some(State::Here(object)) => object,
        Some(_) => return 2,
        None => return 9,
    };
    let role = role(snapshot, id, object);
    let is_false = |condition: Option<crate::look::Condition<'_>>| condition.is_some_and(|it| !it.is_true());
    match () {
        () if !deleted_at(object).is_empty() => 0,
        () if role == Role::Composite && !is_fine(role, object) => 0,
        () if is_false(synced(object)) => 1,
        () if ready(object).is_some_and(|ready| !ready.is_true() && !ready.message.is_empty()) => 3,
        () if is_false(ready(object)) => 4,
        () => 5,
    }
}

/// What an object says of itself, in one line.
pub(crate) fn says(snapshot: &Snapshot, id: &Id) -> String {
    let object = match snapshot.state(id) {
        Some(State::Here(object)) => object,
        Some(State::Missing) => return "is not there".to_owned(),
        Some(State::UnknownKind) => return "is of a kind that the API server does not have".to_owned(),
        Some(State::Unreadable(why)) => return format!("cannot be read: {}", one_line(why)),
        None => return "was not read".to_owned(),
    };
    let deleted = deleted_at(object);
    if !deleted.is_empty() {
        return format!("is being deleted since {deleted}");
    }
    let conditions: Vec<_> = [synced(object), ready(object)].into_iter().flatten().collect();
    match conditions.iter().find(|condition| !condition.is_true()) {
        Some(condition) => {
            let words = one_line(condition.words());
            format!("{} is {}: {words}", condition.kind, condition.status)
        }
        None if role(snapshot, id, object) == Role::Unsupported => {
            let kind = unsupported(id.group(), &id.kind);
            kind.map_or("nothing acts on it", UnsupportedKind::message).to_owned()
        }
        None if conditions.is_empty() => "has neither of the conditions Synced and Ready".to_owned(),
        None => "is ready".to_owned(),
    }
}
