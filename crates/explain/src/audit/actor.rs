//! Actors: subjects, and what subjects can make act for them.

use super::reach::Reach;
use super::rights::RoleName;
use super::subject::Subject;

/// A user, group or service account that does something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Actor {
    Subject(Subject),
    /// Any user that has rights.
    Users,
    /// Any group that has rights, `system:masters` too.
    Groups,
    /// Any service account there.
    ServiceAccounts(Reach),
    /// A subject with every right there.
    Unlimited(Reach),
    /// A subject that has bound this role to itself.
    Role {
        role: RoleName,
        reach: Reach,
    },
    /// A pod of somebody's own making.
    Pod(Reach),
    /// The control plane, as it composes.
    Composer {
        reach: Reach,
        work: Work,
    },
    /// A program of a Provider.
    Provider,
    /// Whatever deletes objects there because what they belong to is deleted. Without a group and plural name, objects of all kinds.
    Deletion {
        reach: Reach,
        resource: Option<(String, String)>,
    },
}

/// What a subject makes the control plane do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// Whatever it may.
    Anything,
    /// Read whatever it may.
    Reading,
    /// What Compositions of a kind say, by its place among all kinds.
    Composing(usize),
    /// The same, if all that can be made of it is deletion.
    Deleting(usize),
}

/// A way from one actor to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) to: Actor,
    /// What a caller that takes it does, as a sentence without its subject. Empty for a part of what was said before.
    pub(super) does: String,
    /// The binding that allows it, in words.
    pub(super) by: String,
    /// Whether it takes nothing but what is there now.
    pub(super) is_certain: bool,
}
