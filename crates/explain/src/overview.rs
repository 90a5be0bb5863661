//! Everything that is not ready, grouped by cause, the worst first. Performs no I/O.
//!
//! Thousands of objects fail for a few reasons. So objects are grouped by what they say of themselves, which costs no
//! request, and only one of each group is explained. What is ready is counted, and forgotten.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ferroplane_api::{Cause, Object, keys, meta};
use serde::Serialize;

use crate::diagnosis::{Diagnosis, says};
use crate::finding::Finding;
use crate::id::Id;
use crate::inquiry::is_fine;
use crate::look::{Role, conditions, created_at, deleted_at, ready, role, synced};
use crate::snapshot::{Snapshot, State};

/// How many groups are explained. The rest is listed with its own messages.
const EXPLAINED: usize = 32;
/// So many objects of a group are named. All of them are counted.
const NAMED: usize = 20;

/// How severe it is: the most severe comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// It cannot be made what it should be.
    Failing,
    /// It should be gone, and is not.
    Deleting,
    /// It is not ready yet.
    NotReady,
    /// Nothing acts on it.
    NotSupported,
}

/// What is known of all objects so far.
#[derive(Debug, Default)]
pub struct Survey {
    ready: usize,
    groups: BTreeMap<Signature, Group>,
    /// Kinds that could not be read, and why.
    unread: BTreeMap<String, String>,
}

/// What objects have in common that say the same.
type Signature = (Severity, String, String);

#[derive(Debug)]
struct Group {
    /// The one that has been so for longest.
    example: Id,
    since: String,
    count: usize,
    named: Vec<Id>,
    says: String,
}

/// Everything that is not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub ready: usize,
    pub not_ready: usize,
    pub causes: Vec<CauseGroup>,
    /// Kinds of whose objects nothing is known.
    pub unread: Vec<Unread>,
}

/// A kind whose objects could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unread {
    /// The plural name, with the group.
    pub kind: String,
    pub message: String,
}

/// Objects that are not ready for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CauseGroup {
    pub severity: Severity,
    pub count: usize,
    /// Some of them, the one that the cause was found at first.
    pub affected: Vec<Id>,
    /// What they say of themselves.
    pub says: String,
    /// Why the first of them is not ready. None if that was not looked for, or not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Finding>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
}

impl Survey {
    /// Take note of an object. The snapshot has to know the definitions.
    pub fn note(&mut self, snapshot: &Snapshot, object: &Object) {
        let id = Id::of(object);
        let role = role(snapshot, &id, object);
        // What is part of something else is explained with that.
        if role == Role::Composite && (meta::controller_uid(object).is_some() || is_claimed(object)) {
            return;
        }
        if is_fine(role, object) {
            self.ready += 1;
            return;
        }
        let says = said(snapshot, &id, object);
        let masked = masked(&id, &says);
        let key = (severity(role, object), format!("{}/{}", id.group(), id.kind), masked);
        let (since, named) = (since(object), vec![id.clone()]);
        self.add(key, Group { example: id, since, count: 1, named, says });
    }

    /// Take note that objects of a kind could not be read, or not all of them.
    pub fn note_unread(&mut self, kind: &str, message: &str) {
        self.unread.insert(kind.to_owned(), message.to_owned());
    }

    /// Take in what was noted of other objects.
    pub fn take_in(&mut self, other: Self) {
        self.ready += other.ready;
        self.unread.extend(other.unread);
        for (signature, group) in other.groups {
            self.add(signature, group);
        }
    }

    fn add(&mut self, signature: Signature, group: Group) {
        match self.groups.entry(signature) {
            Entry::Occupied(mut known) => known.get_mut().take_in(group),
            Entry::Vacant(new) => {
                new.insert(group);
            }
        }
    }

    /// The objects to be explained: one of each group, the worst first, and not too many.
    pub fn examples(&self) -> Vec<Id> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|((severity, ..), group)| (*severity, Reverse(group.count), group.since.clone()));
        groups.into_iter().take(EXPLAINED).map(|(_, group)| group.example.clone()).collect()
    }

    /// What it all comes to, given what was found out about the examples.
    pub fn conclude(self, explained: &[Diagnosis]) -> Overview {
        let mut causes: Vec<CauseGroup> = Vec::new();
        for ((severity, ..), group) in self.groups {
            let diagnosis = explained.iter().find(|diagnosis| diagnosis.object == group.example);
            let cause = diagnosis.and_then(|diagnosis| diagnosis.cause.clone());
            let Group { example, since, count, mut named, says } = group;
            named.retain(|id| *id != example);
            named.insert(0, example);
            named.truncate(NAMED);
            let new = CauseGroup { severity, count, affected: named, says, cause, since };
            match causes.iter_mut().find(|known| is_same(known, &new)) {
                Some(known) => known.take_in(new),
                None => causes.push(new),
            }
        }
        causes.sort_by_key(|group| (group.severity, Reverse(group.count), group.since.clone()));
        let not_ready = causes.iter().map(|group| group.count).sum();
        let unread = self.unread.into_iter().map(|(kind, message)| Unread { kind, message }).collect();
        Overview { ready: self.ready, not_ready, causes, unread }
    }
}

impl Group {
    fn take_in(&mut self, other: Self) {
        self.count += other.count;
        self.named.extend(other.named);
        self.named.truncate(NAMED);
        if other.since < self.since {
            (self.example, self.since) = (other.example, other.since);
        }
    }
}

impl CauseGroup {
    fn take_in(&mut self, other: Self) {
        self.count += other.count;
        self.severity = self.severity.min(other.severity);
        self.affected.extend(other.affected);
        self.affected.truncate(NAMED);
        if other.since < self.since {
            self.since = other.since;
        }
    }
}

/// Whether two groups have one cause: the same object is to blame for the same, or objects of one kind say the same of
/// themselves.
fn is_same(one: &CauseGroup, other: &CauseGroup) -> bool {
    let (Some(first), Some(second)) = (&one.cause, &other.cause) else { return false };
    let is_own = |group: &CauseGroup, cause: &Finding| group.affected.first() == Some(&cause.object);
    let are_alike = is_own(one, first) && is_own(other, second) && first.object.kind == second.object.kind;
    (first.rule, &first.step, &first.message) == (second.rule, &second.step, &second.message)
        && (first.object == second.object || are_alike)
}

fn is_claimed(object: &Object) -> bool {
    !meta::label(object, keys::CLAIM_NAME).is_empty()
}

fn severity(role: Role, object: &Object) -> Severity {
    let is_unsupported = |code: &str| code == Cause::KindNotSupported.code();
    match () {
        () if role == Role::Unsupported => Severity::NotSupported,
        () if conditions(object).any(|condition| is_unsupported(condition.code)) => Severity::NotSupported,
        () if !deleted_at(object).is_empty() => Severity::Deleting,
        () if synced(object).is_some_and(|synced| !synced.is_true()) => Severity::Failing,
        () => Severity::NotReady,
    }
}

fn said(snapshot: &Snapshot, id: &Id, object: &Object) -> String {
    let mut alone = Snapshot::default().at(snapshot.home());
    alone.put(id.clone(), State::Here(Box::new(object.clone())));
    says(&alone, id)
}

/// A text without what only one object can say.
fn masked(id: &Id, text: &str) -> String {
    let deleted = text.split_once(" since ").map_or(text, |(before, _)| before);
    let text = if text.starts_with("is being deleted") { deleted } else { text };
    // Only where it is quoted as a name: other words may be the same.
    let quoted = [format!("`{}`", id.name), format!("\"{}\"", id.name), format!("`{}`", id.path())];
    quoted.iter().fold(text.to_owned(), |text, name| text.replace(name, "*"))
}

fn since(object: &Object) -> String {
    let wrong = [synced(object), ready(object)].into_iter().flatten().find(|condition| !condition.is_true());
    let since = wrong.map(|condition| condition.since).filter(|since| !since.is_empty());
    let deleted = Some(deleted_at(object)).filter(|time| !time.is_empty());
    deleted.or(since).unwrap_or_else(|| created_at(object)).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::snapshot::Home;
    use crate::testing::{Plane, condition, object};

    fn app(name: &str, conditions: &Value) -> Object {
        object(&json!({
            "apiVersion": "demo.io/v1", "kind": "App", "metadata": {"name": name, "namespace": "default", "generation": 1},
            "status": {"conditions": conditions},
        }))
    }

    fn survey(objects: &[Object]) -> Survey {
        let snapshot = Plane::with(json!([])).read();
        let mut survey = Survey::default();
        for object in objects {
            survey.note(&snapshot, object);
        }
        survey
    }

    #[test]
    fn objects_that_say_the_same_are_one_group_and_the_worst_comes_first() {
        let synced = || condition("Synced", "True", "", "");
        let creating = |name: &str| {
            app(name, &json!([synced(), condition("Ready", "False", "Creating", &format!("`{name}` waits"))]))
        };
        let fine = app("fine", &json!([synced(), condition("Ready", "True", "", "")]));
        let failing = app("bad", &json!([condition("Synced", "False", "ReconcileError", "no region")]));
        let survey = survey(&[creating("a1"), creating("b2"), fine, failing]);
        assert_eq!(survey.examples().iter().map(|id| id.name.as_str()).collect::<Vec<_>>(), ["bad", "a1"]);
        let overview = survey.conclude(&[]);
        let counts: Vec<_> = overview.causes.iter().map(|group| (group.severity, group.count)).collect();
        assert_eq!(counts, [(Severity::Failing, 1), (Severity::NotReady, 2)]);
        assert_eq!((overview.ready, overview.not_ready), (1, 3));
    }

    #[test]
    fn object_that_cannot_say_that_nothing_acts_on_it_is_listed() {
        let config = object(&json!({
            "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "c"},
        }));
        let mut survey = Survey::default();
        survey.note(&Plane::with(json!([])).read().at(Home::Embedded), &config);
        let overview = survey.conclude(&[]);
        let [group] = &overview.causes[..] else { panic!("{overview:?}") };
        assert_eq!((group.severity, group.affected[0].name.as_str()), (Severity::NotSupported, "c"));
        assert!(group.says.starts_with("has no effect"), "{}", group.says);
    }

    #[test]
    fn groups_with_one_cause_become_one() {
        let say = |name: &str, text: &str| {
            app(name, &json!([condition("Synced", "False", "ReconcileError", text)]))
        };
        let survey = survey(&[say("a", "one"), say("b", "other")]);
        let bucket = Id::new("cloud.io/v1", "Bucket", "default", "shared");
        let diagnosis = |id: Id| Diagnosis {
            object: id,
            is_ready: false,
            is_there: true,
            cause: Some(Finding::new(&bucket, "is gone")),
            chain: Vec::new(),
            others: Vec::new(),
        };
        let explained: Vec<_> = survey.examples().into_iter().map(diagnosis).collect();
        let overview = survey.conclude(&explained);
        let [group] = &overview.causes[..] else { panic!("{overview:?}") };
        assert_eq!((group.count, group.affected.len()), (2, 2));
    }

    #[test]
    fn what_is_part_of_something_else_is_not_told_twice() {
        let mut nested = app("nested", &json!([condition("Synced", "False", "ReconcileError", "no")]));
        let mut claimed = nested.clone();
        nested["metadata"]["ownerReferences"] =
            json!([{"uid": "1", "kind": "App", "name": "a", "controller": true}]);
        claimed["metadata"]["labels"] = json!({"crossplane.io/claim-name": "c"});
        assert_eq!(survey(&[nested, claimed]).conclude(&[]).not_ready, 0);
    }
}
