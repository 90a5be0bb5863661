//! What those who watch are told.

use std::time::Duration;

use ferroplane_apiserver::store::{Options, Store, WatchError, Window};

use super::fixtures::{Contents, contents, replay, set, things, unset};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyone_sees_the_same_in_the_same_order() {
    let store = Store::in_memory(Options::default()).unwrap();
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut watcher = store.watch(&things(&store), 0).unwrap();
        watchers.spawn(async move {
            let (mut replica, mut revisions) = (Contents::new(), Vec::new());
            while !replica.contains_key("here/end") {
                for event in watcher.next().await.unwrap() {
                    revisions.push(event.revision());
                    replay(&mut replica, &event);
                }
            }
            (replica, revisions)
        });
    }
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            for round in 0..100 {
                let name = format!("{}", (writer + round) % 5);
                set(&store, &name, format!("{writer} {round}")).await;
            }
        });
    }
    writers.join_all().await;
    unset(&store, "1").await;
    set(&store, "end", 1).await;
    let state = contents(&store.snapshot(&things(&store)));
    let revisions: Vec<_> = (1..=store.revision()).collect();
    for (replica, seen) in watchers.join_all().await {
        assert_eq!(replica, state);
        assert_eq!(seen, revisions);
    }
}

#[tokio::test]
async fn who_is_too_slow_is_told_so_and_who_keeps_up_is_not() {
    let window = Window { events: 10, ..Window::default() };
    let store = Store::in_memory(Options { window, ..Options::default() }).unwrap();
    let mut slow = store.watch(&things(&store), 0).unwrap();
    let mut quick = store.watch(&things(&store), 0).unwrap();
    let others = store.collection("example.org/others");
    let mut quiet = store.watch(&others, 0).unwrap();
    for round in 0..50 {
        set(&store, "one", round).await;
        quick.next().await.unwrap();
    }
    assert_eq!(slow.next().await.unwrap_err(), WatchError::TooOld { revision: 0, floor: 40 });
    // Nothing happened in the other collection, so nothing was missed.
    assert!(quiet.take().unwrap().is_empty());
    assert_eq!(quiet.progress(), 50);
    store.watch(&others, 0).unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_can_be_given_up_without_loss() {
    let store = Store::in_memory(Options::default()).unwrap();
    let mut watcher = store.watch(&things(&store), 0).unwrap();
    for round in 1..=10 {
        assert!(tokio::time::timeout(Duration::from_secs(1), watcher.next()).await.is_err());
        set(&store, "one", round).await;
        assert_eq!(watcher.next().await.unwrap()[0].revision(), round);
    }
}

#[tokio::test]
async fn progress_says_what_has_been_seen_and_no_more() {
    let store = Store::in_memory(Options::default()).unwrap();
    let mut watcher = store.watch(&things(&store), 0).unwrap();
    set(&store, "one", 1).await;
    assert_eq!(watcher.progress(), 0, "there is something it has not seen");
    watcher.next().await.unwrap();
    assert_eq!(watcher.progress(), 1);
    let mut revisions = store.revisions();
    set(&store, "one", 2).await;
    assert_eq!(*revisions.wait_for(|revision| *revision >= 2).await.unwrap(), 2);
}
