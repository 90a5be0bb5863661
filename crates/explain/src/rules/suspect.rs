//! The object that rules are applied to, with everything that they ask about it.

use ferroplane_api::{Cause, Object, keys, meta};

use crate::complaint::{Complaint, complaints};
use crate::diagnosis::Above;
use crate::finding::Finding;
use crate::id::Id;
use crate::inquiry::is_fine;
use crate::look::{Role, children, condition, created_at, deleted_at, revision_of, role};
use crate::snapshot::{Home, Snapshot, State};
use crate::texts;

/// An object that something may be wrong with.
pub(crate) struct Suspect<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) id: &'a Id,
    pub(crate) state: Option<&'a State>,
    pub(crate) object: Option<&'a Object>,
    pub(crate) role: Role,
    pub(crate) above: Option<&'a Object>,
    /// It, or what it is part of, is being deleted.
    pub(crate) is_leaving: bool,
    /// Why it could not be made what it should be, the most telling first.
    pub(crate) complaints: Vec<Complaint<'a>>,
}

impl<'a> Suspect<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, id: &'a Id, above: Option<Above<'a>>) -> Self {
        let object = snapshot.object(id);
        let role = object.map_or(Role::Other, |object| role(snapshot, id, object));
        let is_leaving = above.is_some_and(|above| above.is_leaving)
            || object.is_some_and(|object| !deleted_at(object).is_empty());
        // What others say of themselves means something else.
        let is_ours = matches!(
            role,
            Role::Composite | Role::Claim | Role::Operation | Role::OperationMaker | Role::ActionSet
        );
        let ours = object.filter(|_| is_ours);
        let complaints = ours.map(|object| complaints(snapshot, id, object, role)).unwrap_or_default();
        let above = above.map(|above| above.object);
        Self { snapshot, id, state: snapshot.state(id), object, role, above, is_leaving, complaints }
    }

    pub(crate) fn is_fine(&self) -> bool {
        self.object.is_some_and(|object| is_fine(self.role, object))
    }

    /// What has the steps that it runs: an operation itself, and of a composite resource the revision that it follows.
    pub(crate) fn pipeline(&self) -> Option<&'a Object> {
        match self.role {
            Role::Operation => self.object,
            _ => revision_of(self.snapshot, self.object?),
        }
    }

    /// The first complaint that one of these failed.
    pub(super) fn said(&self, causes: &[Cause]) -> Option<Complaint<'a>> {
        let is_one =
            |complaint: &&Complaint<'a>| complaint.cause.is_some_and(|cause| causes.contains(&cause));
        self.complaints.iter().find(is_one).copied()
    }

    /// A finding for which this object is to blame.
    pub(crate) fn own(&self, complaint: Complaint<'_>) -> Finding {
        blame(self.id, complaint)
    }

    /// A finding for which something composed is to blame, if the complaint names it.
    pub(crate) fn composed(&self, complaint: Complaint<'_>) -> Finding {
        blame(&self.composed_id(complaint).unwrap_or_else(|| self.id.clone()), complaint)
    }

    /// What is composed that a complaint is about.
    pub(crate) fn composed_id(&self, complaint: Complaint<'_>) -> Option<Id> {
        let children = children(self.snapshot, self.id, self.object?);
        let is_named = |child: &&Id| {
            let name =
                self.snapshot.object(child).map(|object| meta::annotation(object, keys::RESOURCE_NAME));
            complaint.resource.is_some() && name == complaint.resource
        };
        // What could not be created has no annotation, but the API server may have said its name.
        let found = children.iter().find(is_named);
        found
            .or_else(|| children.iter().find(|child| texts::names_object(complaint.text, &child.name)))
            .cloned()
    }
}

/// Messages of others are shown without the operation that failed: the step and the object show that.
fn blame(object: &Id, complaint: Complaint<'_>) -> Finding {
    let failure = texts::failure_in(complaint.text, complaint.step);
    Finding::new(object, failure).step(complaint.step).since(complaint.since)
}

/// Since when a condition is as it is, or since when there is the object.
pub(crate) fn since(object: &Object, kind: &str) -> String {
    let since = condition(object, kind).map(|condition| condition.since).filter(|since| !since.is_empty());
    since.unwrap_or_else(|| created_at(object)).to_owned()
}

/// What manages kinds that we do not know: providers, in most cases.
pub(crate) fn controllers_of(suspect: &Suspect<'_>, finding: Finding) -> Finding {
    let finding = match suspect.snapshot.home() {
        Home::Cluster => finding,
        Home::Embedded => finding.advice(
            "`ferroplane up` runs no pods: install the Provider of the kind, run its controller against this API server, or simulate it with `ferroplane up --simulate`",
        ),
    };
    finding.advice("kubectl get providers")
}

/// What shows everything about an object.
pub(crate) fn describe(id: &Id) -> String {
    format!("kubectl describe {}", id.arguments())
}
