//! What the store tells the controllers about.

use tokio::sync::Notify;

use super::queue::Queue;
use crate::builtin::CLUSTER_ROLES;
use crate::store::{Entry, Event, EventKind, Uid};

/// One queue for each controller that waits for events.
#[derive(Debug, Default)]
pub(crate) struct WorkQueues {
    /// Objects whose owners or dependents may have changed.
    pub(crate) garbage: Queue<Uid>,
    /// Definitions that are new or have changed.
    pub(crate) definitions: Queue<Box<str>>,
    /// Definitions that have one object less.
    pub(crate) emptied: Queue<Box<str>>,
    /// Namespaces that may have become empty.
    pub(crate) namespaces: Queue<Box<str>>,
    /// Some cluster role is new or has changed. Told after the policy has learned of it, which a watch would not wait for.
    pub(crate) roles: Notify,
}

impl WorkQueues {
    /// Reads what has happened. Called for every event, so it must be quick.
    pub(crate) fn observe(&self, event: &Event) {
        let entry = event.entry();
        if entry.key().collection().name() == CLUSTER_ROLES {
            self.roles.notify_one();
        }
        self.enqueue_garbage(event);
        self.hasten_refused(event);
        if event.kind() == EventKind::Deleted {
            self.enqueue_emptied(entry);
        }
    }

    fn enqueue_garbage(&self, event: &Event) {
        let metadata = event.entry().metadata();
        let is_deleted = event.kind() == EventKind::Deleted;
        let former = event.previous().map(|previous| &previous.metadata().owners);
        let has_other_owners = match former {
            Some(former) => *former != metadata.owners,
            None => !metadata.owners.is_empty(),
        };
        if is_deleted || metadata.is_terminating || has_other_owners {
            self.garbage.push(metadata.uid.clone());
        }
        // Owners that wait for what they own may wait no longer.
        if is_deleted {
            metadata.owners.iter().for_each(|owner| self.garbage.push(owner.clone()));
        } else if has_other_owners {
            former
                .into_iter()
                .flat_map(|former| &**former)
                .for_each(|owner| self.garbage.push(owner.clone()));
        }
    }

    /// What a webhook refused to have deleted may be let go of now: the object is another one, or the webhooks are.
    fn hasten_refused(&self, event: &Event) {
        let entry = event.entry();
        self.garbage.hasten(&entry.metadata().uid);
        self.namespaces.hasten(entry.key().namespace());
        if is_webhook_configuration(entry) {
            self.garbage.hasten_all();
            self.namespaces.hasten_all();
        }
        // A definition waits for everything that its objects owned.
        if event.kind() == EventKind::Deleted && !entry.metadata().owners.is_empty() {
            self.definitions.hasten_all();
        }
    }

    fn enqueue_emptied(&self, entry: &Entry) {
        if let Some((group, plural)) = entry.key().collection().name().split_once('/')
            && group.contains('.')
        {
            self.emptied.push(format!("{plural}.{group}").into());
        }
        if !entry.key().namespace().is_empty() {
            self.namespaces.push(entry.key().namespace().into());
        }
    }
}

fn is_webhook_configuration(entry: &Entry) -> bool {
    let collection = entry.key().collection().name();
    collection.starts_with("admissionregistration.k8s.io/") && collection.ends_with("webhookconfigurations")
}
