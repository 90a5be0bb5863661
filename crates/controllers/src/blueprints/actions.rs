//! The actions of Blueprints that run, as they were when they began.
//!
//! A Blueprint that is changed meanwhile does not change what runs. After a restart only the Blueprint is there: then an action goes on
//! if it is still the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ferroplane_api::{Blueprint, BlueprintAction};
use ferroplane_client::{Error, Informer, ObjectPath};
use ferroplane_engine::action::action_hash;

use super::action_set::Key;
use crate::context::Context;

/// How many Blueprints are remembered as they were read.
const REMEMBERED: usize = 256;

/// An action of a Blueprint as it once was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ActionText {
    /// The namespace of the Blueprint. A hash alone would give the text of a Blueprint to whoever writes the hash in the status of an
    /// ActionSet, wherever that is.
    pub(super) namespace: String,
    pub(super) blueprint: String,
    pub(super) action: String,
    pub(super) hash: String,
}

/// The actions that run.
pub(super) struct Actions {
    context: Arc<Context>,
    blueprints: Arc<Informer>,
    remembered: Mutex<Remembered>,
    read: Mutex<ReadBlueprints>,
}

/// Blueprints that were read, by namespace and name, with their versions.
type ReadBlueprints = HashMap<(String, String), (u64, Arc<Blueprint>)>;

/// The action of a Blueprint that an action of an ActionSet runs.
pub(super) enum Found {
    Same(Arc<BlueprintAction>),
    /// It is not what it was when the ActionSet began.
    Changed(Arc<BlueprintAction>),
    /// There is no such action any more.
    Gone,
}

impl Actions {
    pub(super) fn new(context: Arc<Context>, blueprints: Arc<Informer>) -> Self {
        Self { context, blueprints, remembered: Mutex::default(), read: Mutex::default() }
    }

    /// A Blueprint as it is now. None if there is none, or if it cannot be read.
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
        // It may have been applied together with the ActionSet, and the watch has not told yet.
        let path = ObjectPath { resource: self.blueprints.resource(), namespace, name };
        let object = self.context.cluster.get_object(path).await?;
        Ok(object.and_then(|object| Blueprint::of(&object).ok()).map(Arc::new))
    }

    /// Remember an action that an ActionSet begins to run, until it rests.
    pub(super) fn remember(
        &self,
        key: &Key,
        text: ActionText,
        action: &BlueprintAction,
    ) -> Arc<BlueprintAction> {
        self.remembered().remember(key, text, action)
    }

    /// An ActionSet runs nothing any more.
    pub(super) fn forget(&self, key: &Key) {
        self.remembered().forget(key);
    }

    /// The action of an ActionSet as it was, or what has become of it.
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
        Ok(Found::Changed(Arc::new(found.clone())))
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The actions of all ActionSets that have not ended, however many there are. Those that run the same share its text.
#[derive(Debug, Default)]
struct Remembered {
    by_action_set: HashMap<Key, HashMap<ActionText, Arc<BlueprintAction>>>,
    by_text: HashMap<ActionText, Weak<BlueprintAction>>,
}

impl Remembered {
    fn remember(&mut self, key: &Key, text: ActionText, action: &BlueprintAction) -> Arc<BlueprintAction> {
        let known = self.by_text.get(&text).and_then(Weak::upgrade);
        let action = known.unwrap_or_else(|| Arc::new(action.clone()));
        self.by_text.insert(text.clone(), Arc::downgrade(&action));
        self.by_action_set.entry(key.clone()).or_default().insert(text, action.clone());
        action
    }

    fn get(&mut self, key: &Key, text: &ActionText) -> Option<Arc<BlueprintAction>> {
        if let Some(own) = self.by_action_set.get(key).and_then(|own| own.get(text)) {
            return Some(own.clone());
        }
        // Another one that runs it knows the text, also if the Blueprint has changed since.
        let shared = self.by_text.get(text)?.upgrade()?;
        let own = self.by_action_set.entry(key.clone()).or_default();
        own.insert(text.clone(), shared.clone());
        Some(shared)
    }

    fn forget(&mut self, key: &Key) {
        if self.by_action_set.remove(key).is_some() {
            // Those that others still run stay.
            self.by_text.retain(|_, action| action.strong_count() > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("shop".to_owned(), name.to_owned())
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
        remembered.forget(&key("one"));
        assert!(remembered.get(&key("two"), &backup()).is_some());
    }
}
