//! Watches: what is there, if wanted, and then everything that happens.
//!
//! A watch holds no queue. It reads the history of its collection at its own pace; if it falls behind further than that reaches, it ends
//! with an error.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_schema::status::{Cause, Status};
use ferroplane_schema::table::Options;
use futures_util::stream;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::selection::Selection;
use super::view::{Rows, VersionedObject};
use crate::clock;
use crate::negotiate::Presentation;
use crate::response::{self, Body};
use crate::store::{Entry, Event, EventKind, Snapshot, Store, WatchError, Watcher};

/// How often a client that wants bookmarks gets one; as often as kube-apiserver sends them.
const BOOKMARKS: Duration = Duration::from_mins(1);
/// What is there already is sent in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// What a watch is to show, and for how long.
#[derive(Debug)]
pub(crate) struct WatchOptions {
    pub(crate) selection: Selection,
    pub(crate) presentation: Presentation,
    pub(crate) rows: Rows,
    pub(crate) has_bookmarks: bool,
    /// Whether a bookmark says that everything that was there has been sent.
    pub(crate) marks_initial: bool,
    pub(crate) timeout: Duration,
    /// Whether a client that watches holds on to objects, and may hold those of the store.
    pub(crate) shares_objects: bool,
}

/// A watch that runs.
struct Watch {
    options: WatchOptions,
    store: Store,
    watcher: Watcher,
    stage: Stage,
    /// What is to be sent before anything else.
    lines: Lines,
    bookmarks: Interval,
    end: Instant,
    is_first_row: bool,
    stop: Receiver<bool>,
    /// Whether what is watched is gone, or is no longer as it was.
    gone: Receiver<bool>,
}

/// How far a watch has come.
enum Stage {
    /// What is there is being sent; it has come to this path.
    Initial {
        snapshot: Snapshot,
        behind: Option<String>,
    },
    Live,
    Over,
}

/// What a watch waits for.
enum Next {
    Events(Vec<Arc<Event>>),
    Bookmark,
    FallenBehind(WatchError),
    TimeIsUp,
    Stopping,
}

/// Answers with a watch that begins with what is there, if there is a snapshot, and continues from the watcher.
pub(crate) fn start(
    options: WatchOptions,
    initial: Option<Snapshot>,
    watcher: Watcher,
    store: Store,
    stop: Receiver<bool>,
) -> Response<Body> {
    let now = Instant::now();
    let mut bookmarks = interval_at(now + BOOKMARKS, BOOKMARKS);
    bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stage = initial.map_or(Stage::Live, |snapshot| Stage::Initial { snapshot, behind: None });
    let end = now + options.timeout;
    let gone = options.selection.view.resource.end.subscribe();
    let lines = Lines { shares_objects: options.shares_objects, ..Lines::default() };
    let watch =
        Watch { options, store, watcher, stage, lines, bookmarks, end, is_first_row: true, stop, gone };
    let pieces = stream::unfold(watch, |mut watch| async move {
        let piece = watch.next().await?;
        Some((piece, watch))
    });
    response::json(StatusCode::OK, Body::stream(pieces))
}

/// Answers a watch that cannot begin with one event, which clients of watches look for.
pub(crate) fn refuse(status: &Status) -> Response<Body> {
    response::json(StatusCode::OK, error_line(status))
}

/// What says that a watch cannot continue from where a client is.
pub(crate) fn too_old(error: &WatchError) -> Status {
    match error {
        WatchError::TooOld { revision, floor } => {
            Status::expired(&format!("too old resource version: {revision} ({floor})"))
        }
        WatchError::TooNew { revision, current } => {
            let words = format!("Too large resource version: {revision}, current: {current}");
            let mut status = Status::timeout(&words, 1);
            if let Some(details) = &mut status.details {
                let (reason, message) =
                    ("ResourceVersionTooLarge".into(), "Too large resource version".into());
                details.causes.push(Cause { reason, message, ..Cause::default() });
            }
            status
        }
    }
}

fn error_line(status: &Status) -> Bytes {
    let mut lines = Lines::default();
    lines.put_status(status);
    lines.open.into()
}

/// Lines that are to be sent, in pieces.
#[derive(Default)]
struct Lines {
    /// Whether objects are pieces of their own, which are those of the store.
    shares_objects: bool,
    closed: VecDeque<Bytes>,
    open: Vec<u8>,
}

impl Lines {
    fn put(&mut self, kind: &str, object: &Bytes) {
        self.begin(kind);
        if self.shares_objects {
            self.close();
            self.closed.push_back(object.clone());
        } else {
            self.open.extend_from_slice(object);
        }
        self.end();
    }

    fn put_value(&mut self, kind: &str, object: &Value) {
        self.begin(kind);
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut self.open, object);
        self.end();
    }

    fn put_status(&mut self, status: &Status) {
        self.put_value("ERROR", &status.to_json());
    }

    fn begin(&mut self, kind: &str) {
        self.open.extend_from_slice(b"{\"type\":\"");
        self.open.extend_from_slice(kind.as_bytes());
        self.open.extend_from_slice(b"\",\"object\":");
    }

    fn end(&mut self) {
        self.open.extend_from_slice(b"}\n");
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.closed.push_back(std::mem::take(&mut self.open).into());
        }
    }

    /// The next piece, if there is one.
    fn take(&mut self) -> Option<Bytes> {
        if self.closed.is_empty() {
            self.close();
        }
        self.closed.pop_front()
    }
}

impl Watch {
    /// The next piece of the answer, which is never empty; nothing at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.lines.take() {
                return Some(piece);
            }
            let outcome = match &self.stage {
                Stage::Over => return None,
                Stage::Initial { .. } => self.initial().await,
                Stage::Live => self.live().await,
            };
            // An object that cannot be shown ends the watch, so that no client believes to have seen everything.
            if let Err(status) = outcome {
                self.stage = Stage::Over;
                self.lines.put_status(&status);
            }
        }
    }

    /// Some of what is there.
    async fn initial(&mut self) -> Result<(), Status> {
        let Stage::Initial { snapshot, behind } = std::mem::replace(&mut self.stage, Stage::Live) else {
            return Ok(());
        };
        let namespace = self.options.selection.namespace.clone();
        let mut size = 0;
        let some: Vec<_> = snapshot
            .range(namespace.as_deref(), behind.as_deref())
            .take_while(|entry| {
                // One at least, however large, or there would be no progress.
                let is_first = size == 0;
                size += entry.bytes().len();
                is_first || size <= PIECE
            })
            .cloned()
            .collect();
        let stored: Vec<_> = match self.options.selection.view.converter() {
            Some(_) => some.iter().map(|entry| entry.bytes().clone()).collect(),
            None => Vec::new(),
        };
        let converted = self.options.selection.view.convert_by_webhook(&stored, &self.store).await?;
        for (index, entry) in some.iter().enumerate() {
            let converted = converted.as_ref().map(|converted| &converted[index]);
            if self.options.selection.matches(entry, converted) {
                self.put_object("ADDED", self.seen(entry.bytes(), converted));
            }
        }
        let last = some.last().map(|entry| entry.key().path().to_owned());
        let has_more =
            last.is_some() && snapshot.range(namespace.as_deref(), last.as_deref()).next().is_some();
        if has_more {
            self.stage = Stage::Initial { snapshot, behind: last };
        } else if self.options.marks_initial {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            self.put_bookmark(snapshot.revision(), Some(annotations));
        }
        Ok(())
    }

    fn seen(&self, stored: &Bytes, converted: Option<&Bytes>) -> VersionedObject {
        converted.map_or_else(
            || self.options.selection.view.convert_locally(stored),
            |bytes| VersionedObject::Bytes(bytes.clone()),
        )
    }

    /// What happens next, unless it is time to end.
    async fn live(&mut self) -> Result<(), Status> {
        match self.wait().await {
            Next::Events(events) => {
                for event in events {
                    self.put_event(&event).await?;
                }
            }
            Next::Bookmark => self.put_progress(),
            Next::FallenBehind(error) => return Err(too_old(&error)),
            Next::TimeIsUp => {
                self.stage = Stage::Over;
                self.put_progress();
            }
            Next::Stopping => self.stage = Stage::Over,
        }
        Ok(())
    }

    async fn wait(&mut self) -> Next {
        tokio::select! {
            // In this order: a client that sees the end of the watch has received all events before it.
            biased;
            events = self.watcher.next() => events.map_or_else(Next::FallenBehind, Next::Events),
            () = sleep_until(self.end) => Next::TimeIsUp,
            _ = self.stop.wait_for(|is_stopping| *is_stopping) => Next::Stopping,
            // Earlier events have been sent by now.
            _ = self.gone.wait_for(|is_gone| *is_gone) => Next::Stopping,
            _ = self.bookmarks.tick() => Next::Bookmark,
        }
    }

    fn put_progress(&mut self) {
        if self.options.has_bookmarks {
            let revision = self.watcher.progress();
            self.put_bookmark(revision, None);
        }
    }

    /// An event as it looks to someone who sees only what is selected.
    async fn put_event(&mut self, event: &Event) -> Result<(), Status> {
        let selection = &self.options.selection;
        let entry = event.entry();
        let is_wanted = event.kind() != EventKind::Deleted && self.is_wanted(entry).await?;
        let was_wanted = match event.previous() {
            Some(previous) => self.is_wanted(previous).await?,
            None => false,
        };
        let (kind, stored) = match (was_wanted, is_wanted) {
            (false, false) => return Ok(()),
            (false, true) => ("ADDED", entry.bytes().clone()),
            (true, true) => ("MODIFIED", entry.bytes().clone()),
            (true, false) if event.kind() == EventKind::Deleted => ("DELETED", entry.bytes().clone()),
            // It is still there, but no longer selected: shown as it was when it was last seen.
            (true, false) => {
                let Some(previous) = event.previous() else { return Ok(()) };
                ("DELETED", previous.bytes_at(event.revision()))
            }
        };
        let seen = selection.view.convert(&stored, &self.store).await?;
        self.put_object(kind, seen);
        Ok(())
    }

    async fn is_wanted(&self, entry: &Entry) -> Result<bool, Status> {
        let selection = &self.options.selection;
        if !selection.needs_conversion() {
            return Ok(selection.matches(entry, None));
        }
        let converted = selection.view.convert(entry.bytes(), &self.store).await?.into_bytes();
        Ok(selection.matches(entry, Some(&converted)))
    }

    fn put_object(&mut self, kind: &str, seen: VersionedObject) {
        let view = &self.options.selection.view;
        if matches!(self.options.presentation, Presentation::Objects(_)) {
            self.lines.put(kind, &seen.into_bytes());
            return;
        }
        let rows = Rows { now: clock::now(), ..self.options.rows };
        let options = Options { include: rows.include, has_headers: self.is_first_row };
        self.is_first_row = false;
        let object = view.present(self.options.presentation, &seen.into_value(), options, rows);
        self.lines.put_value(kind, &object);
    }

    /// Says how far the watch has come.
    fn put_bookmark(&mut self, revision: u64, annotations: Option<Value>) {
        let view = &self.options.selection.view;
        // Go writes a time that was never set as null.
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let object = json!({
            "kind": view.resource.names.kind,
            "apiVersion": view.version().behaviour.api_version(),
            "metadata": metadata,
        });
        let rows = Rows { now: clock::now(), ..self.options.rows };
        let options = Options { include: rows.include, has_headers: self.is_first_row };
        let shown = match self.options.presentation {
            Presentation::Objects(_) => object,
            presentation => view.present(presentation, &object, options, rows),
        };
        self.lines.put_value("BOOKMARK", &shown);
    }
}
