//! The running actions of Blueprints, as they were when they began.
//!
//! A change of a Blueprint does not affect actions that run. After a restart only the Blueprint is left: then an action continues if it
//! is still the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ferroplane_api::{Blueprint, BlueprintAction};
use ferroplane_client::{Error, Informer, ObjectPath};
use ferroplane_engine::action::action_hash;

use super::action_set::Key;
use super::turn_limit::TurnPace;
use crate::context::Context;

/// How many parsed Blueprints are cached.
const REMEMBERED: usize = 256;

/// Identifies an action of a Blueprint in one version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ActionText {
    /// The namespace of the Blueprint. With a hash alone, a user who writes the hash to the status of an ActionSet in any namespace could
    /// read the text of the Blueprint.
    pub(super) namespace: String,
    pub(super) blueprint: String,
    pub(super) action: String,
    pub(super) hash: String,
}

/// The running actions.
pub(super) struct Actions {
    context: Arc<Context>,
    blueprints: Arc<Informer>,
    remembered: Mutex<Remembered>,
    read: Mutex<ReadBlueprints>,
}

/// Parsed Blueprints, by namespace and name, with their versions.
type ReadBlueprints = HashMap<(String, String), (u64, Arc<Blueprint>)>;

/// The action of a Blueprint for an action of an ActionSet.
pub(super) enum Found {
    Same(Arc<RunningAction>),
    /// It was changed after the ActionSet began.
    Changed(Arc<RunningAction>),
    /// It no longer exists.
    Gone,
}

impl Actions {
    pub(super) fn new(context: Arc<Context>, blueprints: Arc<Informer>) -> Self {
        Self { context, blueprints, remembered: Mutex::default(), read: Mutex::default() }
    }

    /// The current Blueprint. None if it does not exist, or is invalid.
    pub(super) async fn blueprint(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Blueprint>>, Error> {
        if name.is_empty() {
            return Ok(None);
        }
        if let Some(cached) = self.blueprints.get(namespace, name) {
            let key = (namespace.to_owned(), name.to_owned());
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
            if let Some((_, blueprint)) = read.filter(|(version, _)| *version == cached.version) {
                return Ok(Some(blueprint));
            }
            let object = self.blueprints.to_object(&cached);
            let Some(blueprint) = object.and_then(|object| Blueprint::of(&object).ok()) else {
                return Ok(None);
            };
            let blueprint = Arc::new(blueprint);
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            if read.len() >= REMEMBERED {
                read.clear();
            }
            read.insert(key, (cached.version, blueprint.clone()));
            return Ok(Some(blueprint));
        }
        // It may have been applied together with the ActionSet, before its watch event arrived.
        let path = ObjectPath { resource: self.blueprints.resource(), namespace, name };
        let object = self.context.cluster.get_object(path).await?;
        Ok(object.and_then(|object| Blueprint::of(&object).ok()).map(Arc::new))
    }

    /// Keep an action that an ActionSet begins to run, until it ends.
    pub(super) fn remember(
        &self,
        key: &Key,
        text: ActionText,
        action: &BlueprintAction,
    ) -> Arc<RunningAction> {
        self.remembered().remember(key, text, action)
    }

    /// An ActionSet has ended.
    pub(super) fn forget(&self, key: &Key) {
        self.remembered().forget(key);
    }

    /// The action of an ActionSet as it was when it began, or what has become of it.
    pub(super) async fn find(&self, key: &Key, text: ActionText) -> Result<Found, Error> {
        let known = self.remembered().get(key, &text);
        if let Some(action) = known {
            return Ok(Found::Same(action));
        }
        let blueprint = self.blueprint(&text.namespace, &text.blueprint).await?;
        let Some(found) = blueprint.as_ref().and_then(|it| it.actions.get(&text.action)) else {
            return Ok(Found::Gone);
        };
        if action_hash(found) == text.hash {
            return Ok(Found::Same(self.remember(key, text, found)));
        }
        Ok(Found::Changed(Arc::new(RunningAction::new(text, found))))
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The actions of all ActionSets that have not ended. ActionSets with the same action share its text.
#[derive(Debug, Default)]
struct Remembered {
    by_action_set: HashMap<Key, Vec<Arc<RunningAction>>>,
    by_text: HashMap<ActionText, Weak<RunningAction>>,
}

/// An action that runs, as it was when it began.
#[derive(Debug)]
pub(super) struct RunningAction {
    text: ActionText,
    pub(super) action: BlueprintAction,
    /// How long the turns of all who run it take.
    pub(super) pace: TurnPace,
}

impl RunningAction {
    fn new(text: ActionText, action: &BlueprintAction) -> Self {
        Self { text, action: action.clone(), pace: TurnPace::default() }
    }
}

impl Remembered {
    fn remember(&mut self, key: &Key, text: ActionText, action: &BlueprintAction) -> Arc<RunningAction> {
        let known = self.by_text.get(&text).and_then(Weak::upgrade);
        let running = known.unwrap_or_else(|| {
            let running = Arc::new(RunningAction::new(text.clone(), action));
            self.by_text.insert(text, Arc::downgrade(&running));
            running
        });
        self.add(key, &running);
        running
    }

    fn get(&mut self, key: &Key, text: &ActionText) -> Option<Arc<RunningAction>> {
        let mut own = self.by_action_set.get(key).into_iter().flatten();
        if let Some(own) = own.find(|own| own.text == *text) {
            return Some(own.clone());
        }
        // Another ActionSet that runs it has the text, also if the Blueprint has changed since.
        let shared = self.by_text.get(text)?.upgrade()?;
        self.add(key, &shared);
        Some(shared)
    }

    fn add(&mut self, key: &Key, running: &Arc<RunningAction>) {
        let own = self.by_action_set.entry(key.clone()).or_default();
        if !own.iter().any(|other| Arc::ptr_eq(other, running)) {
            // Most have one action, and thousands may wait.
            own.reserve_exact(1);
            own.push(running.clone());
        }
    }

    fn forget(&mut self, key: &Key) {
        if self.by_action_set.remove(key).is_some() {
            // Texts that others still use stay.
            self.by_text.retain(|_, action| action.strong_count() > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Arc::new(("shop".to_owned(), name.to_owned()))
    }

    fn text(namespace: &str, blueprint: &str, action: &str) -> ActionText {
        let [namespace, blueprint, action, hash] = [namespace, blueprint, action, "h"].map(str::to_owned);
        ActionText { namespace, blueprint, action, hash }
    }

    #[test]
    fn text_of_an_action_is_found_in_its_own_blueprint_only() {
        let mut remembered = Remembered::default();
        let one = key("one");
        remembered.remember(&one, text("shop", "b", "backup"), &BlueprintAction::default());
        assert!(remembered.get(&one, &text("shop", "b", "backup")).is_some());
        for other in [text("team", "b", "backup"), text("shop", "c", "backup"), text("shop", "b", "restore")]
        {
            assert!(remembered.get(&one, &other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn actions_that_run_are_remembered_until_they_rest() {
        let mut remembered = Remembered::default();
        let names: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
        for name in &names {
            remembered.remember(&key(name), text("shop", "b", name), &BlueprintAction::default());
        }
        for name in &names {
            assert!(remembered.get(&key(name), &text("shop", "b", name)).is_some(), "{name}");
            remembered.forget(&key(name));
            assert!(remembered.get(&key(name), &text("shop", "b", name)).is_none(), "{name}");
        }
        assert!(remembered.by_text.is_empty() && remembered.by_action_set.is_empty());
    }

    #[test]
    fn action_that_several_run_is_kept_once_for_the_last_of_them() {
        let mut remembered = Remembered::default();
        let backup = || text("shop", "b", "backup");
        let first = remembered.remember(&key("one"), backup(), &BlueprintAction::default());
        let second = remembered.remember(&key("two"), backup(), &BlueprintAction::default());
        assert!(Arc::ptr_eq(&first, &second));
        drop((first, second));
        // Asked for again, it is not kept again.
        remembered.remember(&key("two"), backup(), &BlueprintAction::default());
        assert_eq!(remembered.by_action_set[&key("two")].len(), 1);
        remembered.forget(&key("one"));
        assert!(remembered.get(&key("two"), &backup()).is_some());
    }
}
