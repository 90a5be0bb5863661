//! Plays the provider: follows the objects of the demo's cloud and makes them ready.

use std::collections::BTreeMap;

use ferroplane_api::{Object, meta};
use jiff::Timestamp;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::warn;

use super::cloud::{self, Step};
use super::platform;
use crate::up::follow::{Seen, follow};
use crate::up::objects::{Kind, Objects};

const KINDS: [&str; 3] = ["networks", "databases", "buckets"];
const MANAGER: &str = "demo-provider";

/// A provider that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Provider {
    kinds: Vec<JoinHandle<()>>,
}

impl Provider {
    pub(super) fn start(objects: &Objects) -> Self {
        let start = |name| {
            let kind = platform::cloud(name);
            let seen = follow(objects.clone(), kind.clone(), "");
            let (objects, known, due) = (objects.clone(), BTreeMap::new(), BTreeMap::new());
            tokio::spawn(Desk { objects, kind, name, known, due }.work(seen))
        };
        Self { kinds: KINDS.into_iter().map(start).collect() }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.kinds.iter().for_each(JoinHandle::abort);
    }
}

/// Where the objects of one kind are looked after.
struct Desk {
    objects: Objects,
    kind: Kind,
    name: &'static str,
    known: BTreeMap<String, Object>,
    /// When something will be finished.
    due: BTreeMap<String, Instant>,
}

impl Desk {
    async fn work(mut self, mut seen: Receiver<Seen>) {
        loop {
            let first =
                self.due.iter().min_by_key(|(_, time)| **time).map(|(key, time)| (key.clone(), *time));
            let (key, time) = first.clone().unwrap_or_else(|| (String::new(), Instant::now()));
            tokio::select! {
                biased;
                seen = seen.recv() => match seen {
                    Some(seen) => self.take(seen).await,
                    None => return,
                },
                () = tokio::time::sleep_until(time), if first.is_some() => self.finish(&key).await,
            }
        }
    }

    async fn take(&mut self, seen: Seen) {
        match seen {
            Seen::All(all) => {
                self.known.clear();
                self.due.clear();
                for object in all {
                    self.look_at(object).await;
                }
            }
            Seen::Put(object) => self.look_at(object).await,
            Seen::Gone(object) => {
                self.known.remove(&key(&object));
                self.due.remove(&key(&object));
            }
        }
    }

    async fn look_at(&mut self, object: Object) {
        let key = key(&object);
        match cloud::next(self.name, &object, &now()) {
            Step::Rest => drop(self.due.remove(&key)),
            Step::Begin(status) => self.write(&object, status).await,
            // What changes again meanwhile is finished no later.
            Step::Finish(moment, _) => drop(self.due.entry(key.clone()).or_insert(Instant::now() + moment)),
        }
        self.known.insert(key, object);
    }

    async fn finish(&mut self, key: &str) {
        self.due.remove(key);
        let Some(object) = self.known.get(key) else { return };
        if let Step::Finish(_, status) = cloud::next(self.name, object, &now()) {
            self.write(object, status).await;
        }
    }

    async fn write(&self, object: &Object, status: Object) {
        match self.objects.set_status(&self.kind, object, status, MANAGER).await {
            Err(error) if !error.is_overtaken() => {
                let name = meta::name(object);
                warn!(kind = self.name, name, %error, "the provider of the demo cannot write a status");
            }
            _ => {}
        }
    }
}

fn key(object: &Object) -> String {
    format!("{}/{}", meta::namespace(object), meta::name(object))
}

/// Without fractions, as Kubernetes writes it.
fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
