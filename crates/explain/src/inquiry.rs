//! Decides which objects to read next.

use std::collections::BTreeSet;

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_engine::composite::Machinery;
use ferroplane_engine::operation::{Standing, standing};

use crate::id::Id;
use crate::look::{
    Condition, Role, at, children, composition, compositions, condition, conditions, definition_of,
    definitions, deleted_at, function, is_paused, operations_of, ready, revision_id, revision_of,
    revisions_of, role, rollouts, synced, usages,
};
use crate::packages::{dependencies, lock, packages_like};
use crate::snapshot::{Snapshot, State, Want};
use crate::steps::steps;

/// Deeper trees are cut.
pub(crate) const DEEPEST: usize = 24;
/// Of so many objects, what happened to them is read.
const MOST_EVENTFUL: usize = 24;

/// What the answers are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To draw a tree.
    Tree,
    /// To find a cause: also what is not part of the tree, if something is wrong.
    Cause,
}

/// What to read next, given what was read before. Nothing once all was read.
pub fn wants(snapshot: &Snapshot, root: &Id, purpose: Purpose) -> BTreeSet<Want> {
    let mut inquiry =
        Inquiry { snapshot, purpose, wants: BTreeSet::new(), seen: BTreeSet::new(), eventful: 0 };
    inquiry.want(Want::List(definitions()));
    inquiry.visit(root, 0, false);
    inquiry.wants
}

struct Inquiry<'a> {
    snapshot: &'a Snapshot,
    purpose: Purpose,
    wants: BTreeSet<Want>,
    seen: BTreeSet<Id>,
    eventful: usize,
}

impl Inquiry<'_> {
    fn want(&mut self, want: Want) {
        if !self.snapshot.has(&want) {
            self.wants.insert(want);
        }
    }

    fn visit(&mut self, id: &Id, depth: usize, is_leaving: bool) {
        if depth > DEEPEST || !self.seen.insert(id.clone()) {
            return;
        }
        self.want(Want::Object(id.clone()));
        let snapshot = self.snapshot;
        match snapshot.state(id) {
            Some(State::Here(object)) => self.visit_object(id, object, depth, is_leaving),
            Some(State::UnknownKind) if self.purpose == Purpose::Cause => self.ask_for_kind(id),
            _ => {}
        }
    }

    fn visit_object(&mut self, id: &Id, object: &Object, depth: usize, is_leaving: bool) {
        let role = role(self.snapshot, id, object);
        if let Some(list) = revisions_of(object) {
            self.want(Want::List(list));
        }
        if let Some(list) = operations_of(object) {
            self.want(Want::List(list));
        }
        if role == Role::Package {
            self.ask_for_dependencies(object);
        }
        if role == Role::Composite
            && let Some(revision) = revision_id(object)
        {
            self.want(Want::Object(revision));
        }
        // A rollout may hold back composite resources that revisions of functions composed.
        let has_revisions = at(object, &["status", "ferroplane", "functions"]).is_some();
        if role == Role::Composite && self.purpose == Purpose::Cause && has_revisions {
            self.want(Want::List(rollouts()));
        }
        let is_leaving = is_leaving || !deleted_at(object).is_empty();
        let was_unwanted = !meta::annotation(object, keys::DELETION_ATTEMPT).is_empty();
        if self.purpose == Purpose::Cause && (is_leaving || was_unwanted || !is_fine(role, object)) {
            self.ask_for_context(id, object, role, is_leaving || was_unwanted);
        }
        for child in children(self.snapshot, id, object) {
            self.visit(&child, depth + 1, is_leaving);
        }
    }

    /// What else can explain what is wrong with an object.
    fn ask_for_context(&mut self, id: &Id, object: &Object, role: Role, is_leaving: bool) {
        if self.eventful < MOST_EVENTFUL {
            // Every object takes a request of its own, and the first ones on the way down are the most
            // telling.
            self.eventful += 1;
            self.want(Want::Events(id.clone(), meta::uid(object).to_owned()));
        }
        if is_leaving {
            for list in usages() {
                self.want(Want::List(list));
            }
        }
        if !id.namespace.is_empty() {
            self.want(Want::Object(Id::new("v1", "Namespace", "", &id.namespace)));
        }
        if role == Role::Operation {
            self.ask_for_functions(object);
        }
        if role != Role::Composite {
            return;
        }
        self.ask_for_kind(id);
        self.want(Want::List(compositions()));
        let composition =
            self.snapshot.object(&composition(Machinery::guess(object).composition().unwrap_or_default()));
        if let Some(revisions) = composition.and_then(revisions_of) {
            self.want(Want::List(revisions));
        }
        if let Some(revision) = revision_of(self.snapshot, object) {
            self.ask_for_functions(revision);
        }
    }

    /// The functions that a pipeline calls.
    fn ask_for_functions(&mut self, pipeline: &Object) {
        for step in steps(pipeline) {
            self.want(Want::Object(function(step.function)));
        }
    }

    /// The packages that a package depends on. Which they are, only the Lock tells.
    fn ask_for_dependencies(&mut self, package: &Object) {
        self.want(Want::Object(lock()));
        for dependency in dependencies(self.snapshot, package) {
            if let Some(list) = packages_like(&dependency) {
                self.want(Want::List(list));
            }
        }
    }

    /// What is known of the kind itself.
    fn ask_for_kind(&mut self, id: &Id) {
        if let Some((definition, role)) = definition_of(self.snapshot, id) {
            let names = if role == Role::Claim { "claimNames" } else { "names" };
            self.want(Want::Object(crate::look::custom_kind(definition, names)));
        }
    }
}

/// Whether there is nothing to explain, as far as an object itself says.
pub(crate) fn is_fine(role: Role, object: &Object) -> bool {
    let restless = |kind: &str| condition(object, kind).is_some_and(|it| it.status == "False");
    is_ready(role, object) && !restless("Responsive") && !restless("Uncontested")
}

/// Whether an object says that it is what it should be, and can be used.
pub(crate) fn is_ready(role: Role, object: &Object) -> bool {
    let is_ours = matches!(role, Role::Composite | Role::Claim | Role::Operation);
    // A Crossplane says of a schedule that it is synced only when it has come for the first time.
    let says_ready = is_ours
        || matches!(
            role,
            Role::OperationMaker | Role::ActionSet | Role::Definition | Role::Package | Role::Own
        );
    let holds = |condition: Option<Condition<'_>>, is_expected: bool| {
        condition.map_or(!is_expected, |condition| condition.is_true())
    };
    let is_current = |condition: Condition<'_>| {
        condition.generation == 0 || condition.generation == meta::generation(object)
    };
    // An operation that has ended is not checked again, whatever becomes of its spec.
    let has_ended = role == Role::Operation && standing(object) != Standing::Running;
    let is_supported = role != Role::Unsupported
        && !conditions(object).any(|condition| condition.code == Cause::KindNotSupported.code());
    is_supported
        && deleted_at(object).is_empty()
        && !is_paused(object)
        && holds(synced(object), is_ours)
        && holds(ready(object), says_ready)
        && (has_ended || synced(object).is_none_or(is_current))
}
