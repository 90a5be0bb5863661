//! Requests that read objects: get, list and watch.

use std::time::Duration;

use ferroplane_schema::status::Status;
use ferroplane_schema::writes::Part;
use http::{Response, StatusCode};

use super::ResourceHandler;
use crate::listeners::InProcess;
use crate::negotiate::Presentation;
use crate::options::{ListOptions, ResourceVersion};
use crate::response::Body;
use crate::store::{Snapshot, WatchError};
use crate::verbs::{self, Page, Selection};

/// How long a request for something that has not happened yet waits for it. Kubernetes' watch cache waits as long.
const PATIENCE: Duration = Duration::from_secs(3);
/// The least and the most that a watch lasts if nothing is said: kube-apiserver's `--min-request-timeout`, up to twice.
const WATCH_SECONDS: (u64, u64) = (30 * 60, 60 * 60);

impl ResourceHandler<'_> {
    pub(super) async fn get(&self, presentation: Presentation) -> Result<Response<Body>, Status> {
        let (store, location) = (&self.server.store, self.location());
        let key = location.key(store, &location.name);
        match ListOptions::read(self.query, false)?.resource_version {
            ResourceVersion::NotOlderThan(revision) => self.reach(revision).await?,
            // A user who gave up waiting for a write and asks whether it happened must not be shown the object of before.
            ResourceVersion::Newest => store.finish_writes(&key).await,
            ResourceVersion::Any | ResourceVersion::Exactly(_) => {}
        }
        let entry = store.get(&key);
        let entry = entry.ok_or_else(|| Status::not_found(&self.view.resource.identity, &location.name))?;
        if location.part == Part::Scale {
            let object = self.view.convert(entry.bytes(), &self.server.store).await?;
            return self.scaled(presentation, &object.into_object());
        }
        self.shown(StatusCode::OK, presentation, entry.bytes()).await
    }

    pub(super) async fn list(&self, presentation: Presentation) -> Result<Response<Body>, Status> {
        let options = ListOptions::read(self.query, false)?;
        let rows = self.rows()?;
        let selection = Selection::new(self.view.clone(), &self.path.namespace, &options)?;
        let snapshot = match self.snapshot(&options).await? {
            Ok(snapshot) => snapshot,
            Err(expired) => return Ok(expired),
        };
        let page = Page::read(&snapshot, &selection, &options, &self.server.store).await?;
        if let Some(turn) = self.turn {
            turn.make_room(page.size)?;
        }
        let shares_objects = self.shares_objects();
        // What is made while it is sent takes no time now.
        let is_made_later = page.is_made_while_sent(&self.view, presentation, shares_objects);
        let size = if is_made_later { 0 } else { page.size };
        let answer = || page.into_response(&self.view, presentation, rows, shares_objects);
        Ok(verbs::beside_others(size, answer))
    }

    /// What the list is read from, or an answer that says that it is no longer there.
    pub(super) async fn snapshot(
        &self,
        options: &ListOptions,
    ) -> Result<Result<Snapshot, Response<Body>>, Status> {
        let store = &self.server.store;
        let collection = store.collection(&self.view.resource.collection);
        let exact = match (&options.continues, options.resource_version) {
            (Some(continues), _) => continues.revision,
            (None, ResourceVersion::Exactly(revision)) => {
                self.reach(revision).await?;
                Some(revision)
            }
            (None, ResourceVersion::NotOlderThan(revision)) => {
                self.reach(revision).await?;
                None
            }
            (None, ResourceVersion::Newest | ResourceVersion::Any) => None,
        };
        let Some(revision) = exact else { return Ok(Ok(store.snapshot(&collection))) };
        match (store.snapshot_at(&collection, revision), &options.continues) {
            (Ok(snapshot), _) => Ok(Ok(snapshot)),
            (Err(WatchError::TooOld { .. }), Some(continues)) => Ok(Err(verbs::expired(&continues.behind))),
            (Err(WatchError::TooOld { .. }), None) => {
                Err(Status::expired("The resourceVersion for the provided list is too old."))
            }
            (Err(error), _) => Err(verbs::too_old(&error)),
        }
    }

    /// Waits until the store has come to a revision, but not for long.
    async fn reach(&self, revision: u64) -> Result<(), Status> {
        let mut revisions = self.server.store.revisions();
        let reached =
            tokio::time::timeout(PATIENCE, revisions.wait_for(|current| *current >= revision)).await;
        if matches!(reached, Ok(Ok(_))) {
            return Ok(());
        }
        let current = self.server.store.revision();
        Err(verbs::too_old(&WatchError::TooNew { revision, current }))
    }

    /// Whether a client that asks is in this process, so that objects need not be copied.
    fn shares_objects(&self) -> bool {
        self.parts.extensions.get::<InProcess>().is_some()
    }

    pub(super) async fn watch(&self, presentation: Presentation) -> Result<Response<Body>, Status> {
        let options = ListOptions::read(self.query, true)?;
        let selection = Selection::new(self.view.clone(), &self.path.namespace, &options)?;
        let store = &self.server.store;
        let collection = store.collection(&self.view.resource.collection);
        if let ResourceVersion::NotOlderThan(revision) = options.resource_version {
            self.reach(revision).await?;
        }
        let begins_anew = options.sends_initial_events
            || matches!(options.resource_version, ResourceVersion::Newest | ResourceVersion::Any)
                && !self.query.has("sendInitialEvents");
        let initial = begins_anew.then(|| store.snapshot(&collection));
        let from = match (&initial, options.resource_version) {
            (Some(snapshot), _) => snapshot.revision(),
            (None, ResourceVersion::NotOlderThan(revision) | ResourceVersion::Exactly(revision)) => revision,
            (None, _) => store.revision(),
        };
        let watcher = match store.watch(&collection, from) {
            Ok(watcher) => watcher,
            Err(error) => return Ok(verbs::refuse_watch(&verbs::too_old(&error))),
        };
        let options = verbs::WatchOptions {
            selection,
            presentation,
            rows: self.rows()?,
            has_bookmarks: options.allows_bookmarks,
            marks_initial: begins_anew && options.allows_bookmarks,
            timeout: options.timeout.unwrap_or_else(random_timeout),
            shares_objects: self.shares_objects(),
        };
        Ok(verbs::watch(options, initial, watcher, store.clone(), self.server.stop.subscribe()))
    }
}

/// Watches that say nothing last for different times, so that they do not all end at once.
fn random_timeout() -> Duration {
    let (least, most) = WATCH_SECONDS;
    let random = u64::from(crate::random::uuid().as_bytes()[0]);
    Duration::from_secs(least + (most - least) * random / 255)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body::Body as _;
    use http_body_util::{BodyExt as _, Empty};

    use super::*;
    use crate::Server;
    use crate::auth::identity::{Identity, MASTERS};
    use crate::builtin::NAMESPACES;
    use crate::server::Settings;
    use crate::store::{Options, Store};

    #[tokio::test]
    async fn objects_of_a_list_are_shared_within_the_process_and_joined_to_larger_pieces_for_others() {
        let store = Store::in_memory(Options::default()).unwrap();
        let server = Server::start(store, Settings::default()).await.unwrap();
        let held = server.store().get(&server.store().collection(NAMESPACES).key("", "default")).unwrap();
        for is_in_process in [true, false] {
            let mut request = Request::get("/api/v1/namespaces").body(Empty::<Bytes>::new()).unwrap();
            request.extensions_mut().insert(Identity::authenticated("admin", [MASTERS.to_owned()]));
            if is_in_process {
                request.extensions_mut().insert(InProcess);
            }
            let mut body = server.handle(request).await.into_body();
            let (length, mut chunks) = (body.size_hint().exact().unwrap(), Vec::new());
            while let Some(Ok(frame)) = body.frame().await {
                chunks.push(frame.into_data().unwrap());
            }
            assert_eq!(chunks.iter().map(Bytes::len).sum::<usize>() as u64, length);
            let is_shared = chunks.iter().any(|chunk| chunk.as_ptr() == held.bytes().as_ptr());
            assert_eq!(is_shared, is_in_process);
            let text: Vec<_> = chunks.iter().flatten().copied().collect();
            let list: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let names = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]);
            assert!(names.len() > 1 && names.clone().any(|name| name == "default"), "{list}");
        }
    }
}
