//! Everything that reconciles a composite resource.
//!
//! | What changes | Which composite resources are reconciled |
//! |---|---|
//! | A composite resource, unless we wrote it ourselves | It |
//! | A definition: its spec, or which fields are sensitive | All of its kind, since their controller is started anew (`Composites::start`) |
//! | A Composition or one of its revisions | Those that use the composition, and those that use none yet |
//! | A Function or one of its revisions | Those that use a revision of a composition that calls it |
//! | The state of a program on this machine | The same: the status of its Function says so (`unsupported.rs`) |
//! | The state of the program of a package | The same: the status of its revision says so (`pkg/revision/runtime.rs`) |
//! | A `FunctionRollout` | Those that call another revision from now on |
//! | A `FunctionIntercept`, unless it is only renewed | Those that call its function |
//! | A function can be reached again | Those that failed because one could not be |
//! | A composed resource, unless we wrote it ourselves | The one that controls it, or did before |
//! | An object that functions required | Those whose functions required it |
//! | A Secret that functions required, credentials of a step, or a connection Secret of a composed resource | Those that read it (`secrets.rs`) |
//! | The connection Secret of a composite resource, unless we wrote it ourselves | It (`secrets.rs`) |
//! | An `AccessGrant` | Those in the namespaces that it is for |
//! | Time: a response expires, a poll interval or a pause after a failure is over | It (`requeue.rs`) |
//!
//! A trigger is cheap: a composite resource whose inputs did not change is not reconciled.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{
    CachedObject, Change, Informer, InformerScope, ObjectHeader, OwnerReference, Resource, cache_key,
};
use ferroplane_engine::conditions_in;
use ferroplane_engine::intercept::{ACTIVE, Intercept};
use ferroplane_engine::rollout::{Choice, Member, Overlay};

use super::Composites;
use super::controller::Controller;
use super::fingerprints::LastReconcile;
use super::memory::Name;
use crate::apiextensions::grants::namespaces_concerned;

/// Requeue composite resources of a kind when they change.
pub(super) fn follow_composites(controller: &Arc<Controller>) {
    listen(&controller.informer, &Arc::downgrade(controller), |controller, _, change| {
        let name: Name = change.header().key().into();
        let is_ours = match change {
            Change::Applied { object, .. } => controller.memory.is_own_write(&name, object.version),
            Change::Deleted { .. } => false,
        };
        if !is_ours {
            controller.queue.add(name);
        }
        controller.shared.functions.trials().note_change();
    });
}

/// Requeue composite resources when a source of their selection changes.
pub(super) fn follow_selections(composites: &Arc<Composites>) {
    let context = &composites.shared.context;
    let weak = Arc::downgrade(composites);
    listen(&context.compositions, &weak, |composites, _, change| {
        composition_changed(composites, &change.header().metadata.name);
    });
    listen(&context.revisions, &weak, |composites, _, change| {
        composition_changed(composites, change.header().label(keys::COMPOSITION_NAME).unwrap_or_default());
    });
    listen(&context.functions, &weak, |composites, _, change| {
        function_changed(composites, &change.header().metadata.name);
    });
    listen(&context.function_revisions, &weak, |composites, _, change| {
        function_changed(composites, change.header().label(keys::PACKAGE).unwrap_or_default());
    });
    listen(&context.rollouts, &weak, |composites, _, change| {
        rollout_changed(composites, change);
    });
    listen(&context.intercepts, &weak, |composites, _, change| {
        intercept_changed(composites, change);
    });
    listen(&context.grants, &weak, |composites, _, change| {
        composites.wake_in(namespaces_concerned(change).as_ref());
    });
}

/// Requeue composite resources that wait for a function when one can be reached again.
pub(super) fn follow_functions(composites: &Arc<Composites>) {
    let whom = Arc::downgrade(composites);
    composites.shared.functions.on_return(move || {
        for controller in whom.upgrade().iter().flat_map(|composites| composites.all()) {
            for name in controller.memory.stop_waiting_for_functions() {
                controller.queue.add(name);
            }
        }
    });
}

/// Requeue composite resources when their composed resources change.
pub(super) fn follow_composed(composites: &Weak<Composites>, informer: &Informer) {
    listen(informer, composites, |composites, scope, change| {
        let controller = change.header().controller();
        if let Some(owner) = controller {
            composed_changed(composites, owner, &scope.resource, change);
        }
        if let Change::Applied { object, before: Some(before), .. } = change
            && before.version != object.version
            && let Some(header) = ObjectHeader::read(&before.bytes)
            && let Some(former) = header.controller()
            && controller.is_none_or(|owner| owner.uid != former.uid)
        {
            // Its controller was removed or replaced: the former one applies it again, or reports that it cannot.
            composed_changed(composites, former, &scope.resource, change);
        }
    });
}

/// Requeue composite resources when required resources change.
pub(super) fn follow_required(composites: &Weak<Composites>, informer: &Informer) {
    listen(informer, composites, |composites, scope, change| {
        let woken = composites.shared.dependencies.required_changed(&scope.resource, change);
        for (definition, name) in woken {
            if let Some(controller) = composites.get(&definition) {
                controller.queue.add(name);
            }
        }
    });
}

/// Call a listener with changes for as long as its owner exists.
fn listen<T: Send + Sync + 'static>(
    informer: &Informer,
    whom: &Weak<T>,
    tell: impl Fn(&T, &InformerScope, Change<'_>) + Send + Sync + 'static,
) {
    let whom = whom.clone();
    informer.listen(move |scope, change| {
        if let Some(whom) = whom.upgrade() {
            tell(&whom, scope, change);
        }
    });
}

fn composition_changed(composites: &Composites, composition: &str) {
    composites.wake(|last| {
        last.is_none_or(|last| last.composition.is_empty() || &*last.composition == composition)
    });
}

fn function_changed(composites: &Composites, function: &str) {
    let callers: BTreeSet<_> = composites.shared.compositions.revisions_calling(function);
    if !callers.is_empty() {
        composites.wake(|last| last.is_some_and(|last| callers.contains(&*last.revision)));
    }
}

fn rollout_changed(composites: &Composites, change: Change<'_>) {
    let read = |cached: &CachedObject| Overlay::read(&serde_json::from_slice(&cached.bytes).ok()?);
    let (before, after) = match change {
        Change::Applied { object, before, .. } => (before.and_then(read), read(object)),
        Change::Deleted { object, .. } => (read(object), None),
    };
    let revisions = |overlay: &Overlay| {
        [Choice::Stable, Choice::Candidate, Choice::Previous].map(|it| overlay.revision(it).to_owned())
    };
    match (before, after) {
        // Other composite resources move to the same revision. To check all for each of them would be quadratic.
        (Some(before), Some(after)) if revisions(&before) == revisions(&after) => {
            for controller in composites.all() {
                controller.wake_moved(&before, &after);
            }
        }
        (before, after) => {
            for overlay in before.iter().chain(&after) {
                match overlay.composition.as_str() {
                    "" => function_changed(composites, &overlay.function),
                    composition => composition_changed(composites, composition),
                }
            }
        }
    }
}

/// A renewal changes nothing. An expired intercept says so in its status.
fn intercept_changed(composites: &Composites, change: Change<'_>) {
    let read = |cached: &CachedObject| serde_json::from_slice::<Object>(&cached.bytes).ok();
    let (before, after) = match change {
        Change::Applied { object, before, .. } => (before.and_then(read), read(object)),
        Change::Deleted { object, .. } => (read(object), None),
    };
    let said = |object: &Option<Object>| {
        let object = object.as_ref()?;
        let reason = condition_reason(object, ACTIVE);
        Some((Intercept::read(object), reason))
    };
    if said(&before) == said(&after) {
        return;
    }
    let intercepts = before.iter().chain(&after).filter_map(Intercept::read);
    for intercept in intercepts {
        function_changed(composites, intercept.function());
    }
}

fn condition_reason(object: &Object, kind: &str) -> Option<String> {
    let conditions = conditions_in(object.get("status")?.get("conditions")?);
    conditions.into_iter().find(|condition| condition.kind == kind).map(|condition| condition.reason)
}

impl Controller {
    /// Requeue those that one of two overlays moves, and the other does not.
    fn wake_moved(&self, before: &Overlay, after: &Overlay) {
        let callers = self.shared.compositions.revisions_open_to(&after.function);
        let is_concerned = |last: Option<&LastReconcile>| {
            last.is_some_and(|last| match after.composition.as_str() {
                "" => callers.contains(&last.revision),
                composition => &*last.composition == composition,
            })
        };
        for name in self.memory.names_of(is_concerned) {
            let Some(cached) = self.informer.get_by_key(&name) else { continue };
            let Some(header) = ObjectHeader::read(&cached.bytes) else { continue };
            let has_moved = |overlay: &Overlay| {
                let is_first = overlay.is_first(&header.metadata.namespace, |key| header.label(key));
                let created = header.metadata.creation_timestamp.as_deref().unwrap_or_default();
                overlay.has_moved(Member { uid: &header.metadata.uid, created, is_first })
            };
            if has_moved(before) != has_moved(after) {
                self.queue.add(name);
            }
        }
    }
}

fn composed_changed(
    composites: &Composites,
    owner: &OwnerReference<'_>,
    resource: &Resource,
    change: Change<'_>,
) {
    let kind = (meta::group(&owner.api_version).to_owned(), owner.kind.clone().into_owned());
    let Some(controller) = composites.of_kind(&kind) else { return };
    let metadata = &change.header().metadata;
    let namespace = if controller.is_namespaced() { metadata.namespace.as_ref() } else { "" };
    let name: Name = cache_key(namespace, &owner.name).into();
    let is_news = match change {
        // The response to our own write is known already: its watch event is not new, however many there are.
        Change::Applied { object, before, .. } => {
            before.is_none_or(|before| before.version != object.version)
                && !controller.memory.is_own_write(&name, object.version)
        }
        Change::Deleted { .. } => true,
    };
    if is_news {
        let version = change.object().version;
        let source = || format!("{}/{}", resource.kind, metadata.name);
        controller.memory.count_change(&name, version, source);
        controller.queue.add(name);
    }
}
