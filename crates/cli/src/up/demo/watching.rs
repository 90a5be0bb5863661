//! Looks on while the demo becomes ready, and says what does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferroplane_api::{Object, meta};
use futures_util::future::select_all;
use tokio::sync::mpsc::Receiver;

use super::SELECTOR;
use super::platform::{self, is_true};
use crate::terminal::Terminal;
use crate::up::follow::{Seen, follow};
use crate::up::objects::Objects;

const KINDS: [&str; 4] = ["Network", "Database", "Bucket", BACKEND];
pub(super) const BACKEND: &str = "Backend";

/// What was seen last of everything in the demo.
#[derive(Debug)]
pub(super) struct Picture {
    followed: Vec<(&'static str, Receiver<Seen>)>,
    seen: BTreeMap<(&'static str, String), Object>,
    /// Which kinds were seen at all.
    begun: usize,
    /// Whether anything became ready meanwhile.
    has_news: bool,
}

impl Picture {
    pub(super) fn follow(objects: &Objects) -> Self {
        let followed = KINDS.map(|kind| {
            // Whoever has Backends of their own waits for them by themselves.
            let (resource, labels) = match kind {
                BACKEND => (platform::backends(), SELECTOR),
                kind => (platform::cloud(&format!("{}s", kind.to_lowercase())), ""),
            };
            (kind, follow(objects.clone(), resource, labels))
        });
        Self { followed: followed.into(), seen: BTreeMap::new(), begun: 0, has_news: false }
    }

    /// Objects of a kind, by name.
    pub(super) fn of(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.seen.iter().filter(move |((its, _), _)| *its == kind).map(|(_, object)| object)
    }

    /// Whether anything became ready while it was looked at.
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
            while !self.is_ready() {
                let Some((kind, seen)) = self.next().await else { return };
                if let Some(words) = self.add(kind, seen) {
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

    async fn next(&mut self) -> Option<(&'static str, Seen)> {
        let waiting = self.followed.iter_mut().map(|(kind, receiver)| {
            let kind = *kind;
            Box::pin(async move { receiver.recv().await.map(|seen| (kind, seen)) })
        });
        select_all(waiting).await.0
    }

    /// What became ready with this.
    fn add(&mut self, kind: &'static str, seen: Seen) -> Option<String> {
        match seen {
            Seen::All(all) => {
                self.begun += 1;
                self.seen.extend(all.into_iter().map(|object| ((kind, key(&object)), object)));
                None
            }
            Seen::Gone(object) => {
                self.seen.remove(&(kind, key(&object)));
                None
            }
            Seen::Put(object) => {
                let words = format!("{kind} {} is ready", meta::name(&object));
                let is_ready = is_true(&object, "Ready");
                let before = self.seen.insert((kind, key(&object)), object);
                let was_ready = before.is_some_and(|before| is_true(&before, "Ready"));
                (is_ready && !was_ready).then_some(words)
            }
        }
    }

    fn is_ready(&self) -> bool {
        let mut backends = self.of(BACKEND).peekable();
        self.begun >= KINDS.len()
            && backends.peek().is_some()
            && backends.all(|backend| is_true(backend, "Synced") && is_true(backend, "Ready"))
    }
}

fn key(object: &Object) -> String {
    format!("{}/{}", meta::namespace(object), meta::name(object))
}
