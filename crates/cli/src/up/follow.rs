//! Follows the objects of a kind, however often the watch ends.

use std::time::Duration;

use ferroplane_api::Object;
use futures_util::StreamExt as _;
use kube::core::WatchEvent;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tracing::debug;

use super::objects::{Error, Kind, Objects};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What was seen of objects.
#[derive(Debug)]
pub(super) enum Seen {
    /// These are all there are.
    All(Vec<Object>),
    Put(Object),
    Gone(Object),
}

/// Follow the objects with these labels until nobody listens.
pub(super) fn follow(objects: Objects, kind: Kind, labels: &'static str) -> Receiver<Seen> {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let mut pause = FIRST_PAUSE;
        loop {
            let told = tokio::select! {
                biased;
                () = sender.closed() => return,
                told = tell(&objects, &kind, labels, &sender) => told,
            };
            match told {
                Ok(()) => pause = FIRST_PAUSE,
                // A kind that is gone may come back.
                Err(error) => {
                    debug!(?kind, %error, "cannot follow");
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
            }
            tokio::select! {
                biased;
                () = sender.closed() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    });
    receiver
}

/// Tell everything until the watch ends. Whoever listens no longer is noticed elsewhere.
async fn tell(objects: &Objects, kind: &Kind, labels: &str, sender: &Sender<Seen>) -> Result<(), Error> {
    let (all, version) = objects.list(kind, labels).await?;
    let _ = sender.send(Seen::All(all)).await;
    let mut events = std::pin::pin!(objects.watch(kind, labels, &version).await?);
    while let Some(event) = events.next().await {
        let seen = match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Seen::Put(object),
            WatchEvent::Deleted(object) => Seen::Gone(object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => return Err(Error::Refused(status)),
        };
        let _ = sender.send(seen).await;
    }
    Ok(())
}
