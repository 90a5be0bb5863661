//! The actions of Blueprints that run, as they were when they began.
//!
//! A Blueprint that is changed meanwhile does not change what runs. After a restart only the Blueprint is there: then an action goes on
//! if it is still the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::{Blueprint, BlueprintAction};
use ferroplane_client::{Error, Informer, ObjectPath};
use ferroplane_engine::action::action_hash;

use crate::context::Context;

/// How many actions are remembered that nobody runs.
const REMEMBERED: usize = 256;

/// The actions that run, by their hash.
pub(super) struct Actions {
    context: Arc<Context>,
    blueprints: Arc<Informer>,
    by_hash: Mutex<HashMap<String, Arc<BlueprintAction>>>,
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
        Self { context, blueprints, by_hash: Mutex::default(), read: Mutex::default() }
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
    pub(super) fn remember(&self, hash: &str, action: &BlueprintAction) {
        let mut by_hash = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        if by_hash.len() >= REMEMBERED {
            by_hash.retain(|_, action| Arc::strong_count(action) > 1);
        }
        by_hash.entry(hash.to_owned()).or_insert_with(|| Arc::new(action.clone()));
    }

    /// The action with this hash, or what has become of it.
    pub(super) async fn find(
        &self,
        namespace: &str,
        blueprint: &str,
        action: &str,
        hash: &str,
    ) -> Result<Found, Error> {
        let known = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned();
        if let Some(action) = known {
            return Ok(Found::Same(action));
        }
        let blueprint = self.blueprint(namespace, blueprint).await?;
        let Some(found) = blueprint.as_ref().and_then(|it| it.actions.get(action)) else {
            return Ok(Found::Gone);
        };
        if action_hash(found) == hash {
            self.remember(hash, found);
            return Ok(Found::Same(Arc::new(found.clone())));
        }
        Ok(Found::Changed(Arc::new(found.clone())))
    }
}
