//! The actions of Blueprints that run, as they were when they began.
//!
//! A Blueprint that is changed meanwhile does not change what runs. After a restart only the Blueprint is there: then an action goes on
//! if it is still the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_api::{Blueprint, BlueprintAction};
use ferroplane_client::{Error, Informer, ObjectPath};
use ferroplane_engine::action::action_hash;

use crate::context::Context;

/// How many actions are remembered that nobody runs.
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

    /// Remember an action that begins to run.
    pub(super) fn remember(&self, text: ActionText, action: &BlueprintAction) -> Arc<BlueprintAction> {
        self.remembered().remember(text, action)
    }

    /// The action as it was, or what has become of it.
    pub(super) async fn find(&self, text: ActionText) -> Result<Found, Error> {
        let known = self.remembered().get(&text);
        if let Some(action) = known {
            return Ok(Found::Same(action));
        }
        let blueprint = self.blueprint(&text.namespace, &text.blueprint).await?;
        let Some(found) = blueprint.as_ref().and_then(|it| it.actions.get(&text.action)) else {
            return Ok(Found::Gone);
        };
        if action_hash(found) == text.hash {
            return Ok(Found::Same(self.remember(text, found)));
        }
        Ok(Found::Changed(Arc::new(found.clone())))
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Actions that were seen.
#[derive(Debug, Default)]
struct Remembered {
    by_text: HashMap<ActionText, Arc<BlueprintAction>>,
}

impl Remembered {
    fn remember(&mut self, text: ActionText, action: &BlueprintAction) -> Arc<BlueprintAction> {
        if self.by_text.len() >= REMEMBERED {
            self.by_text.retain(|_, action| Arc::strong_count(action) > 1);
        }
        self.by_text.entry(text).or_insert_with(|| Arc::new(action.clone())).clone()
    }

    fn get(&self, text: &ActionText) -> Option<Arc<BlueprintAction>> {
        self.by_text.get(text).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(namespace: &str, blueprint: &str, action: &str) -> ActionText {
        let [namespace, blueprint, action, hash] = [namespace, blueprint, action, "h"].map(str::to_owned);
        ActionText { namespace, blueprint, action, hash }
    }

    #[test]
    fn text_of_an_action_is_found_in_its_own_blueprint_only() {
        let mut remembered = Remembered::default();
        remembered.remember(text("shop", "b", "backup"), &BlueprintAction::default());
        assert!(remembered.get(&text("shop", "b", "backup")).is_some());
        for other in [text("team", "b", "backup"), text("shop", "c", "backup"), text("shop", "b", "restore")]
        {
            assert!(remembered.get(&other).is_none(), "{other:?}");
        }
    }
}
