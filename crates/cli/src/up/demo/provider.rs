//! Plays the provider: follows the objects of the demo's cloud and makes them ready.

use std::collections::BTreeMap;

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, InformerScope, ObjectPath, Subresource};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::warn;

use super::cloud::{self, Step};
use super::platform;
use crate::up::follow::Followed;

const KINDS: [&str; 3] = ["Network", "Database", "Bucket"];
const MANAGER: &str = "demo-provider";

/// A provider that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Provider {
    controllers: Vec<JoinHandle<()>>,
}

impl Provider {
    pub(super) fn start(client: &ApiClient) -> Self {
        let client = client.clone().with_field_manager(MANAGER);
        let start = |kind| {
            let scope = InformerScope::new(platform::cloud(kind).into());
            let objects = Followed::start(&client, scope);
            let (sender, changed) = unbounded_channel();
            objects.informer().listen(move |_, change| {
                let _ = sender.send(change.header().key());
            });
            let controller = Controller { client: client.clone(), objects, due: BTreeMap::new() };
            tokio::spawn(controller.run(changed))
        };
        Self { controllers: KINDS.into_iter().map(start).collect() }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.controllers.iter().for_each(JoinHandle::abort);
    }
}

/// Looks after the objects of one kind.
struct Controller {
    client: ApiClient,
    objects: Followed,
    /// When something will be finished, by key.
    due: BTreeMap<String, Instant>,
}

impl Controller {
    async fn run(mut self, mut changed: UnboundedReceiver<String>) {
        loop {
            let first =
                self.due.iter().min_by_key(|(_, time)| **time).map(|(key, time)| (key.clone(), *time));
            let (key, time) = first.clone().unwrap_or_else(|| (String::new(), Instant::now()));
            tokio::select! {
                biased;
                key = changed.recv() => match key {
                    Some(key) => self.reconcile(key).await,
                    None => return,
                },
                () = tokio::time::sleep_until(time), if first.is_some() => self.finish(&key).await,
            }
        }
    }

    async fn reconcile(&mut self, key: String) {
        let Some(object) = self.object(&key) else {
            self.due.remove(&key);
            return;
        };
        match self.next(&object) {
            Step::Rest => drop(self.due.remove(&key)),
            Step::Begin(status) => self.write(&object, status).await,
            // What changes again meanwhile is finished no later.
            Step::Finish(moment, _) => drop(self.due.entry(key).or_insert(Instant::now() + moment)),
        }
    }

    async fn finish(&mut self, key: &str) {
        self.due.remove(key);
        let Some(object) = self.object(key) else { return };
        if let Step::Finish(_, status) = self.next(&object) {
            self.write(&object, status).await;
        }
    }

    fn object(&self, key: &str) -> Option<Object> {
        let informer = self.objects.informer();
        informer.to_object(&informer.get_by_key(key)?)
    }

    fn next(&self, object: &Object) -> Step {
        cloud::next(&self.objects.informer().resource().plural, object, &now())
    }

    /// Writes the status of an object, if it still is as it was read.
    async fn write(&self, object: &Object, status: Object) {
        let resource = self.objects.informer().resource();
        let target = ObjectPath { resource, namespace: meta::namespace(object), name: meta::name(object) };
        let version = meta::resource_version(object);
        let changes = json!({"metadata": {"resourceVersion": version}, "status": status});
        match self.client.merge(target, Subresource::Status, &changes).await {
            // Who changed or deleted it meanwhile makes it be looked at again.
            Err(error) if !error.is_conflict() && !error.is_not_found() => {
                let (kind, name) = (resource.plural.as_str(), target.name);
                warn!(kind, name, %error, "the provider of the demo cannot write a status");
            }
            _ => {}
        }
    }
}

/// Without fractions, as Kubernetes writes it.
fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
