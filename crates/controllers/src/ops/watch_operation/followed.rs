//! The objects that a `WatchOperation` watches.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::{Object, meta};
use ferroplane_client::{DataStandIn, Informer, InformerScope, LabelSelector, Resource};
use ferroplane_engine::chain;
use ferroplane_engine::operation::{Selection, WatchSpec, WatchState};
use tokio::task::JoinHandle;

use crate::context::Context;
use crate::runtime::queue::Queue;

/// The watched objects of one `WatchOperation`, until dropped.
pub(super) struct Followed {
    uid: String,
    /// What is cached in place of the data of Secrets.
    digests: DataStandIn,
    /// The part of the spec that the informer and the state were made with.
    watched: Option<(Selection, Vec<String>)>,
    pub(super) informer: Option<Arc<Informer>>,
    /// Has the `WatchOperation` reconciled when the API server refuses what is watched.
    guard: Option<JoinHandle<()>>,
    /// The keys of objects that have changed since the last reconcile.
    changed: Arc<Mutex<HashSet<String>>>,
    pub(super) state: WatchState,
    /// Whether all objects were reported to the state.
    is_seen: bool,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Followed {
    pub(super) fn new(watch: &Object, spec: &WatchSpec, digests: DataStandIn) -> Self {
        Self {
            uid: meta::uid(watch).to_owned(),
            digests,
            watched: None,
            informer: None,
            guard: None,
            changed: Arc::default(),
            state: WatchState::restore(watch, spec),
            is_seen: false,
        }
    }

    /// Whether it belongs to this object, and not to an earlier one of the same name.
    pub(super) fn is_of(&self, watch: &Object) -> bool {
        self.uid == meta::uid(watch)
    }

    fn stop(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.abort();
        }
        if let Some(informer) = self.informer.take() {
            informer.stop();
        }
        self.watched = None;
    }

    /// Watch the objects of the spec, or return why that is not possible.
    pub(super) async fn follow(
        &mut self,
        context: &Context,
        spec: &WatchSpec,
        name: &str,
        queue: &Queue<String>,
    ) -> Result<(), String> {
        let Selection { api_version, kind, .. } = &spec.selection;
        let resource = context.cluster.resource(api_version, kind).await;
        let resource =
            resource.map_err(|error| format!("cannot watch {kind} in {api_version}: {}", chain(&error)))?;
        let Some(resource) = resource else {
            self.stop();
            return Err(format!(
                "cannot watch {kind} in {api_version}: there is no such kind; is it installed?"
            ));
        };
        let fields = spec.fields.iter().map(ToString::to_string).collect();
        let wanted = (spec.selection.clone(), fields);
        if self.watched.as_ref() != Some(&wanted) {
            self.stop();
            let scope = scope(&spec.selection, resource, &self.digests);
            let informer = Informer::start(context.cluster.clone(), scope);
            let guard = reconcile_when_refused(informer.clone(), queue.clone(), name.to_owned());
            self.guard = Some(tokio::spawn(guard));
            let (changed, queue, name) =
                (Arc::new(Mutex::<HashSet<String>>::default()), queue.clone(), name.to_owned());
            self.changed = changed.clone();
            informer.listen(move |_, change| {
                changed.lock().unwrap_or_else(PoisonError::into_inner).insert(change.header().key());
                queue.add(name.clone());
            });
            self.informer = Some(informer);
            self.watched = Some(wanted);
            self.is_seen = false;
            self.state.select(spec);
        }
        let Some(informer) = &self.informer else { return Ok(()) };
        let synced = informer.synced_or_failed().await;
        let served = synced.and_then(|()| informer.refusal().map_or(Ok(()), Err));
        served.map_err(|error| format!("cannot watch {kind} in {api_version}: {}", chain(&error)))
    }

    /// Learn which operations were created. Their objects are reported again.
    pub(super) fn learn(&mut self, operations: &[Object]) {
        let learnt = self.state.learn(operations);
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).extend(learnt);
    }

    /// Report changed objects to the state.
    pub(super) fn look(&mut self, spec: &WatchSpec, now: i64) {
        let Some(informer) = &self.informer else { return };
        // Taken before the objects are read: a change meanwhile is reported again.
        let changed = std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        if !self.is_seen {
            let objects = informer.objects();
            self.state.see_all(objects.iter(), spec, now);
            self.is_seen = true;
            return;
        }
        for key in changed {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            let object = informer.object(namespace, name);
            self.state.see(&key, object.as_ref(), spec, now);
        }
    }
}

/// What is kept of the selected objects.
fn scope(selection: &Selection, resource: Arc<Resource>, digests: &DataStandIn) -> InformerScope {
    let Selection { api_version, kind, namespace, labels } = selection;
    InformerScope {
        // Objects of a cluster-scoped kind have no namespace.
        namespace: namespace.clone().filter(|_| resource.is_namespaced),
        labels: LabelSelector { equal: labels.clone(), exists: None },
        // Digests say when the data has changed, and functions are given what is read then.
        without_data: api_version == "v1" && kind == "Secret",
        stand_in: Some(digests.clone()),
        ..InformerScope::new(resource)
    }
}

/// Have a `WatchOperation` reconciled when the API server refuses what it watches, and when it serves that again. A right may be taken away,
/// and a kind removed, long after the watch began.
async fn reconcile_when_refused(informer: Arc<Informer>, queue: Queue<String>, name: String) {
    for is_refused in [true, false].into_iter().cycle() {
        informer.until_refused(is_refused).await;
        queue.add(name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_secrets_is_not_kept() {
        for (kind, is_kept) in [("Secret", false), ("ConfigMap", true)] {
            let resource = Resource {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                plural: format!("{}s", kind.to_lowercase()),
                is_namespaced: true,
            };
            let selection = Selection {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                namespace: Some("default".to_owned()),
                labels: [("of".to_owned(), "test".to_owned())].into(),
            };
            let digests = DataStandIn::new(|_| Object::new());
            let scope = scope(&selection, resource.into(), &digests);
            assert_eq!(scope.without_data, !is_kept, "{kind}");
            assert_eq!((scope.namespace, scope.labels.equal), (selection.namespace, selection.labels));
        }
    }
}
