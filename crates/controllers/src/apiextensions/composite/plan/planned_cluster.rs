//! A cluster in memory: the existing objects, each read once, and the planned ones. Writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_api::{Object, meta};
use ferroplane_client::{Error, ObjectPath, Resource};
use ferroplane_engine::changes::ObjectName;
use ferroplane_engine::composite::secret_data;
use ferroplane_engine::{Answer, Reference, Want};
use ferroplane_runner::Resources;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::ResourceSelector;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::super::Composites;
use super::super::dependencies::Wanted;
use super::super::observe::{ObservedSource, leads_nowhere, unreadable_object};
use super::super::problem::Problem;
use super::super::secrets;
use super::group_kind;
use crate::live_resources::LiveResources;

/// The key of an object, in all versions of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn of(object: &Object) -> Self {
        let (group, kind) = group_kind(object);
        let (namespace, name) = (meta::namespace(object).to_owned(), meta::name(object).to_owned());
        Self { group, kind, namespace, name }
    }

    pub(super) fn at(path: ObjectPath<'_>) -> Self {
        Self {
            group: path.resource.group().to_owned(),
            kind: path.resource.kind.clone(),
            namespace: path.namespace.to_owned(),
            name: path.name.to_owned(),
        }
    }

    /// A composite resource, by the key of its controller.
    pub(super) fn named(resource: &Resource, key: &str) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Self::at(ObjectPath { resource, namespace, name })
    }
}

/// An object that was read.
#[derive(Debug, Clone)]
struct Read {
    resource: Arc<Resource>,
    object: Option<Object>,
}

/// A cluster in memory: the existing objects, and over them the planned ones.
pub(super) struct PlannedCluster {
    composites: Arc<Composites>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Objects as they were first read.
    read: BTreeMap<Key, Read>,
    /// Objects as planned. None if they would be deleted.
    planned: BTreeMap<Key, Option<Object>>,
    /// Lists that were read, by selector.
    lists: Vec<(ResourceSelector, Vec<Object>)>,
}

impl State {
    /// The planned objects that match a selector. All of the kind are next to each other in the map, and a named one is the first of
    /// them: functions ask for each composite resource, and a plan may change thousands of objects.
    fn matching(&self, selector: &ResourceSelector) -> Vec<Object> {
        let wanted = Wanted::of(selector);
        let (namespace, name) = wanted.name().unwrap_or_default();
        let most = if wanted.name().is_some() { 1 } else { usize::MAX };
        let (group, kind) = (meta::group(&selector.api_version).to_owned(), selector.kind.clone());
        let first = Key { group, kind, namespace: namespace.to_owned(), name: name.to_owned() };
        let (group, kind) = (first.group.clone(), first.kind.clone());
        let of_kind =
            self.planned.range(first..).take_while(|(key, _)| key.group == group && key.kind == kind);
        let planned = of_kind.take(most).filter_map(|(_, planned)| planned.as_ref());
        let is_so =
            |object: &&Object| meta::api_version(object) == selector.api_version && wanted.selects(object);
        planned.filter(is_so).cloned().collect()
    }
}

impl PlannedCluster {
    pub(super) fn new(composites: Arc<Composites>) -> Self {
        Self { composites, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Add a proposed object.
    pub(super) fn propose(&self, before: Option<&Object>, after: Object) {
        let resource = Arc::new(Resource {
            api_version: meta::api_version(&after).to_owned(),
            kind: meta::kind(&after).to_owned(),
            plural: String::new(),
            is_namespaced: !meta::namespace(&after).is_empty(),
        });
        let key = Key::of(&after);
        let mut state = self.state();
        state.read.insert(key.clone(), Read { resource, object: before.cloned() });
        state.planned.insert(key, Some(after));
    }

    /// The planned state of an object.
    pub(super) async fn get(&self, path: ObjectPath<'_>) -> Result<Option<Object>, Error> {
        let key = Key::at(path);
        let known = self.state().planned.get(&key).cloned();
        match known {
            Some(planned) => Ok(planned),
            None => self.before(path).await,
        }
    }

    /// The state of an object when it was first read.
    pub(super) async fn before(&self, path: ObjectPath<'_>) -> Result<Option<Object>, Error> {
        let key = Key::at(path);
        if let Some(read) = self.state().read.get(&key) {
            return Ok(read.object.clone());
        }
        let object = self.live(path).await?;
        let resource = Arc::new(path.resource.clone());
        let mut state = self.state();
        // Another visit may have read it meanwhile. The first read counts for all.
        Ok(state.read.entry(key).or_insert(Read { resource, object }).object.clone())
    }

    async fn live(&self, path: ObjectPath<'_>) -> Result<Option<Object>, Error> {
        let ObjectPath { resource, namespace, name } = path;
        let kind = (resource.group().to_owned(), resource.kind.clone());
        let composite = self.composites.of_kind(&kind).map(|controller| controller.informer.clone());
        let composite = composite.filter(|informer| informer.resource().api_version == resource.api_version);
        let followed =
            composite.or_else(|| self.composites.shared.dependencies.followed(&Arc::new(resource.clone())));
        // The informer may not have an object yet that was just created.
        match followed.and_then(|informer| informer.object(namespace, name)) {
            Some(object) => Ok(Some(object)),
            None => self.composites.shared.context.cluster.get_object(path).await,
        }
    }

    pub(super) fn put(&self, object: Object) {
        self.state().planned.insert(Key::of(&object), Some(object));
    }

    pub(super) fn remove(&self, key: Key) {
        self.state().planned.insert(key, None);
    }

    /// Whether the plan deletes an object and does not create it again.
    pub(super) fn is_removed(&self, key: &Key) -> bool {
        matches!(self.state().planned.get(key), Some(None))
    }

    /// All planned changes, each with the object before and after.
    pub(super) fn differences(&self) -> Vec<(Option<Object>, Option<Object>)> {
        let state = self.state();
        let planned = state.planned.iter().map(|(key, planned)| {
            let before = state.read.get(key).and_then(|read| read.object.clone());
            (before, planned.clone())
        });
        planned.collect()
    }

    /// An object that has changed since it was read, if there is one.
    pub(super) async fn moved(&self) -> Option<ObjectName> {
        match self.moved_since_read().await {
            None => self.moved_since_listed().await,
            moved => moved,
        }
    }

    async fn moved_since_read(&self) -> Option<ObjectName> {
        let read: Vec<_> = self.state().read.clone().into_iter().collect();
        for (key, Read { resource, object }) in read {
            // The client has just read the proposed objects.
            if resource.plural.is_empty() {
                continue;
            }
            let path = ObjectPath { resource: &resource, namespace: &key.namespace, name: &key.name };
            let Ok(now) = self.live(path).await else { return Some(name_of(&key, &resource)) };
            if version(now.as_ref()) != version(object.as_ref()) {
                return Some(name_of(&key, &resource));
            }
        }
        None
    }

    /// The same for objects that functions require.
    async fn moved_since_listed(&self) -> Option<ObjectName> {
        let lists = self.state().lists.clone();
        for (selector, before) in lists {
            let name = |namespace: &str, name: &str| ObjectName {
                api_version: selector.api_version.clone(),
                kind: selector.kind.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            let Ok(now) = self.list(&selector).await else { return Some(name("", "")) };
            let versions = |objects: &[Object]| -> BTreeSet<_> {
                objects.iter().map(|object| (Key::of(object), version(Some(object)))).collect()
            };
            if let Some((key, _)) = versions(&before).symmetric_difference(&versions(&now)).next() {
                return Some(name(&key.namespace, &key.name));
            }
        }
        None
    }

    /// The versions of all objects that were read, except those that are left out, and a hash of the lists.
    pub(super) fn basis(&self, is_left_out: impl Fn(&Key) -> bool) -> (Vec<(ObjectName, String)>, String) {
        let state = self.state();
        let mut digest = Sha256::new();
        let versions = state.read.iter().filter(|(key, _)| !is_left_out(key)).map(|(key, read)| {
            let (uid, version) = version(read.object.as_ref());
            digest.update(format!("{key:?} {uid} {version}\n"));
            (name_of(key, &read.resource), version)
        });
        let versions = versions.collect();
        let mut lists: Vec<_> = state
            .lists
            .iter()
            .map(|(selector, found)| {
                let found: Vec<_> =
                    found.iter().map(|object| (Key::of(object), version(Some(object)))).collect();
                format!("{selector:?} {found:?}\n")
            })
            .collect();
        lists.sort();
        for list in &lists {
            digest.update(list);
        }
        (versions, ferroplane_wire::to_hex(&digest.finalize()))
    }

    /// The planned objects that match a selector.
    async fn select(&self, selector: &ResourceSelector) -> Result<Vec<Struct>, String> {
        let mut found = self.listed(selector).await?;
        let state = self.state();
        found.retain(|object| !state.planned.contains_key(&Key::of(object)));
        found.extend(state.matching(selector));
        drop(state);
        found
            .sort_by_cached_key(|object| (meta::namespace(object).to_owned(), meta::name(object).to_owned()));
        found.into_iter().map(|object| Struct::try_from(object).map_err(|error| error.to_string())).collect()
    }

    /// The existing objects that match a selector, read once.
    async fn listed(&self, selector: &ResourceSelector) -> Result<Vec<Object>, String> {
        let known = |state: &State| {
            let list = state.lists.iter().find(|(known, _)| known == selector);
            list.map(|(_, found)| found.clone())
        };
        if let Some(found) = known(&self.state()) {
            return Ok(found);
        }
        let found = self.list(selector).await?;
        let mut state = self.state();
        if let Some(found) = known(&state) {
            return Ok(found);
        }
        state.lists.push((selector.clone(), found.clone()));
        Ok(found)
    }

    /// The existing objects that match a selector.
    async fn list(&self, selector: &ResourceSelector) -> Result<Vec<Object>, String> {
        let cluster = &self.composites.shared.context.cluster;
        if secrets::are_selected(selector) && Wanted::of(selector).name().is_none() {
            return secrets::list(cluster, selector).await.map_err(|error| ferroplane_engine::chain(&error));
        }
        match LiveResources(cluster).fetch(&Want::Resources(selector.clone())).await {
            Answer::Resources(found) => {
                Ok(found.into_iter().filter_map(|object| object.into_json().ok()).collect())
            }
            Answer::Failed(reason) => Err(reason),
            _ => Ok(Vec::new()),
        }
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Object>, Error> {
        self.get(ObjectPath { resource: &secrets::resource(), namespace, name }).await
    }

    async fn cluster_resources(&self, selector: &ResourceSelector) -> Result<Answer, String> {
        let live = LiveResources(&self.composites.shared.context.cluster);
        match live.resource(&selector.api_version, &selector.kind).await? {
            Some(resource) if resource.is_namespaced => Ok(Answer::Scope { is_namespaced: true }),
            _ => self.select(selector).await.map(Answer::Resources),
        }
    }
}

impl Resources for PlannedCluster {
    async fn fetch(&self, want: &Want) -> Answer {
        let answer = match want {
            Want::Resources(selector) => self.select(selector).await.map(Answer::Resources),
            Want::ClusterResources(selector) => self.cluster_resources(selector).await,
            Want::Secret { namespace, name } => match self.secret(namespace, name).await {
                Ok(secret) => {
                    Ok(Answer::Secret(secret.map(|secret| secret_data(&secret).unwrap_or_default())))
                }
                Err(error) => Err(ferroplane_engine::chain(&error)),
            },
            // Kinds and schemas stay as they are: a plan defines none.
            Want::Schema(_) | Want::Scope { .. } => {
                return LiveResources(&self.composites.shared.context.cluster).fetch(want).await;
            }
        };
        answer.unwrap_or_else(Answer::Failed)
    }
}

impl ObservedSource for PlannedCluster {
    async fn find(&self, reference: &Reference) -> Result<Option<(u64, Object)>, Problem> {
        let resource = self.composites.shared.referenced_kind(reference).await?;
        let Some(resource) = resource.filter(|resource| !leads_nowhere(reference, resource)) else {
            return Ok(None);
        };
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let path = ObjectPath { resource: &resource, namespace, name: &reference.name };
        let found = self.get(path).await.map_err(|error| unreadable_object(reference, &error))?;
        Ok(found.map(|object| (0, object)))
    }

    async fn composed_secret(&self, namespace: &str, name: &str) -> Result<Option<Object>, Error> {
        self.secret(namespace, name).await
    }

    async fn own_secret(&self, namespace: &str, name: &str) -> Result<Option<Object>, Error> {
        self.secret(namespace, name).await
    }
}

fn name_of(key: &Key, resource: &Resource) -> ObjectName {
    ObjectName {
        api_version: resource.api_version.clone(),
        kind: key.kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

fn version(object: Option<&Object>) -> (String, String) {
    let text = |read: fn(&Object) -> &str| object.map(read).unwrap_or_default().to_owned();
    (text(meta::uid), text(meta::resource_version))
}

/// Merge fields into an object, like an apply without conflicts.
pub(super) fn merge(into: &mut Object, fields: &Object) {
    for (field, value) in fields {
        match (into.get_mut(field), value) {
            (Some(Value::Object(into)), Value::Object(fields)) => merge(into, fields),
            // A set to which all managers add.
            (Some(Value::Array(into)), Value::Array(items)) if field == "finalizers" => {
                let added: Vec<_> = items.iter().filter(|item| !into.contains(item)).cloned().collect();
                into.extend(added);
            }
            _ => {
                into.insert(field.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::v1::MatchLabels;
    use ferroplane_wire::v1::resource_selector::Match;
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str) -> Object {
        let metadata = json!({"name": name, "namespace": "default", "labels": {"name": name}});
        serde_json::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap()
    }

    #[test]
    fn selectors_find_planned_objects_by_name_and_by_labels() {
        let mut state = State::default();
        for (kind, name) in [("ConfigMap", "a"), ("ConfigMap", "b"), ("ConfigMap", "c"), ("Secret", "b")] {
            let object = object(kind, name);
            state.planned.insert(Key::of(&object), Some(object));
        }
        state.planned.insert(Key::of(&object("ConfigMap", "gone")), None);
        let by_name = |name: &str| Match::MatchName(name.to_owned());
        let by_label = |name: &str| {
            Match::MatchLabels(MatchLabels { labels: [("name".to_owned(), name.to_owned())].into() })
        };
        let everything = Match::MatchLabels(MatchLabels::default());
        let cases = [
            (by_name("b"), vec!["b"]),
            (by_name("aa"), vec![]),
            (by_name("gone"), vec![]),
            (by_label("c"), vec!["c"]),
            (everything, vec!["a", "b", "c"]),
        ];
        for (r#match, expected) in cases {
            let selector = ResourceSelector {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: Some("default".to_owned()),
                r#match: Some(r#match),
            };
            let found = state.matching(&selector);
            assert_eq!(found.iter().map(meta::name).collect::<Vec<_>>(), expected, "{selector:?}");
        }
    }
}
