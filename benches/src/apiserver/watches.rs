//! How soon watchers know of a write: many of them, each on a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ferroplane_testkit::ApiWatch;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use super::contestant::Contestant;
use super::{Kind, send};
use crate::measure::{Times, pretty};

const WRITES: usize = 100;

/// One write at a time, from when it is sent until the first watcher has read the event, and until all have.
pub(super) async fn measure(contestant: &Contestant, watchers: usize) {
    let mut writer = contestant.client().await;
    let path = format!(
        "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={}",
        now(&mut writer).await
    );
    let told = Arc::new(AtomicUsize::new(0));
    let everyone = Arc::new(Notify::new());
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    for _ in 0..watchers {
        let watch = contestant.client().await.watch(&path).await.expect("the server lets watch");
        running.spawn(follow(watch, watchers, told.clone(), everyone.clone(), sender.clone()));
    }
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for number in 0..WRITES {
        told.store(0, Ordering::SeqCst);
        let object = Kind::ConfigMap.object(&format!("w{watchers}-{number}")).to_string();
        let before = Instant::now();
        let answer = send(&mut writer, "POST", Kind::ConfigMap.path(), &object).await;
        assert_eq!(answer.code, 201, "{}", String::from_utf8_lossy(&answer.body));
        everyone.notified().await;
        all.push(before.elapsed());
        let at: Instant = receiver.recv().await.expect("the first has told");
        first.push(at - before);
    }
    running.shutdown().await;
    let (first, all) = (Times::from(first), Times::from(all));
    let figures = [first.p50(), first.p99(), all.p50(), all.p99()].map(pretty);
    println!("| {}: {watchers} | {} |", contestant.name(), figures.join(" | "));
}

/// The resource version from which on nothing has happened yet.
async fn now(client: &mut ferroplane_testkit::ApiClient) -> String {
    let answer = send(client, "GET", "/api/v1/namespaces/default/configmaps?limit=1", "").await;
    let list: serde_json::Value = serde_json::from_slice(&answer.body).expect("it is JSON");
    list["metadata"]["resourceVersion"].as_str().expect("lists have versions").to_owned()
}

async fn follow(
    mut watch: ApiWatch,
    watchers: usize,
    told: Arc<AtomicUsize>,
    everyone: Arc<Notify>,
    first: mpsc::UnboundedSender<Instant>,
) {
    while let Ok(Some(_)) = watch.next().await {
        let before = told.fetch_add(1, Ordering::SeqCst);
        if before == 0 {
            let _ = first.send(Instant::now());
        }
        if before + 1 == watchers {
            everyone.notify_one();
        }
    }
}
