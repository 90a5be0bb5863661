//! Watches the objects of the demo until they are ready, and prints changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, InformerScope};
use tokio::sync::Notify;

use super::platform::{self, is_true};
use super::selector;
use crate::terminal::Terminal;
use crate::up::follow::Followed;

const KINDS: [&str; 4] = [CLOUD_KINDS[0], CLOUD_KINDS[1], CLOUD_KINDS[2], BACKEND];
const CLOUD_KINDS: [&str; 3] = ["Network", "Database", "Bucket"];
pub(super) const BACKEND: &str = "Backend";

/// What was seen last of everything in the demo.
#[derive(Debug)]
pub(super) struct Picture {
    followed: Vec<(&'static str, Followed)>,
    changed: Arc<Notify>,
    seen: BTreeMap<&'static str, Vec<Object>>,
    /// Whether anything became ready meanwhile.
    has_news: bool,
}

impl Picture {
    pub(super) fn follow(client: &ApiClient) -> Self {
        let changed = Arc::new(Notify::new());
        let followed = KINDS.map(|kind| {
            // Backends that are not of the demo are not waited for.
            let scope = match kind {
                BACKEND => {
                    InformerScope { labels: selector(), ..InformerScope::new(platform::backends().into()) }
                }
                kind => InformerScope::new(platform::cloud(kind).into()),
            };
            (kind, Followed::start_with(client, scope, changed.clone()))
        });
        Self { followed: followed.into(), changed, seen: BTreeMap::new(), has_news: false }
    }

    /// Objects of a kind, by name.
    pub(super) fn of(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.seen.get(kind).into_iter().flatten()
    }

    /// The composed resources of a composite resource, with their kinds.
    pub(super) fn composed<'a>(
        &'a self,
        backend: &'a Object,
    ) -> impl Iterator<Item = (&'static str, &'a Object)> {
        let all = CLOUD_KINDS.into_iter().flat_map(|kind| self.of(kind).map(move |object| (kind, object)));
        all.filter(|(_, object)| meta::controller_uid(object) == Some(meta::uid(backend)))
    }

    /// Whether anything became ready while it was checked.
    pub(super) fn has_news(&self) -> bool {
        self.has_news
    }

    /// Whether everything was ready in time.
    pub(super) async fn until_ready(
        &mut self,
        began: Instant,
        patience: Duration,
        terminal: &mut Terminal,
    ) -> bool {
        let spinner = terminal.spinner("waiting for the demo");
        let looking = async {
            for (_, followed) in &self.followed {
                followed.informer().synced().await;
            }
            // Objects that were ready before are not reported.
            self.look();
            while !self.is_ready() {
                self.changed.notified().await;
                for words in self.look() {
                    self.has_news = true;
                    let time = began.elapsed().as_millis();
                    spinner.suspend(|| terminal.line(&format!("{time:>6} ms  {words}")));
                }
            }
        };
        let _ = tokio::time::timeout(patience, looking).await;
        spinner.finish_and_clear();
        self.is_ready()
    }

    /// Look again. Says what has become ready since.
    fn look(&mut self) -> Vec<String> {
        let mut news = Vec::new();
        for (kind, followed) in &self.followed {
            let seen = followed.informer().objects();
            let before: BTreeSet<_> =
                self.of(kind).filter(|object| is_true(object, "Ready")).map(key).collect();
            let ready = seen
                .iter()
                .filter(|object| is_true(object, "Ready"))
                .filter(|object| !before.contains(&key(object)));
            news.extend(ready.map(|object| format!("{kind} {} is ready", meta::name(object))));
            self.seen.insert(kind, seen);
        }
        news
    }

    fn is_ready(&self) -> bool {
        let mut backends = self.of(BACKEND).peekable();
        // Each kind has a watch of its own. That of backends can be ahead of those of their composed resources.
        let has_ready_parts = |backend| self.composed(backend).all(|(_, object)| is_true(object, "Ready"));
        backends.peek().is_some()
            && backends.all(|backend| {
                is_true(backend, "Synced") && is_true(backend, "Ready") && has_ready_parts(backend)
            })
    }
}

fn key(object: &Object) -> (String, String) {
    (meta::namespace(object).to_owned(), meta::name(object).to_owned())
}
