//! What a submission may do, and what it finds.

use std::sync::Arc;

use ferroplane_apiserver::store::{Draft, Entry, Expect, Operation, Options, Store, SubmitError, Uid};
use serde_json::json;

use super::fixtures::{contents, delete, draft, drain, put, set, things};

fn store() -> Store {
    Store::in_memory(Options::default()).unwrap()
}

/// What was found instead of what was expected: which operation, and the revision of what is there.
async fn refusal(store: &Store, operations: Vec<Operation>) -> (usize, Option<u64>) {
    match store.submit(operations).await {
        Err(SubmitError::Refused(refused)) => (refused.index, refused.found.map(|entry| entry.revision())),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn expectations_are_held_against_what_is_there() {
    let store = store();
    let key = |name: &str| things(&store).key("here", name);
    let there = set(&store, "there", 1).await.revision();

    assert_eq!(refusal(&store, vec![put(key("there"), Expect::Absent, 2)]).await, (0, Some(there)));
    assert_eq!(refusal(&store, vec![put(key("there"), Expect::Revision(99), 2)]).await, (0, Some(there)));
    assert_eq!(refusal(&store, vec![put(key("gone"), Expect::Present, 2)]).await, (0, None));
    assert_eq!(refusal(&store, vec![put(key("gone"), Expect::Revision(there), 2)]).await, (0, None));
    for expect in [Expect::Absent, Expect::Any, Expect::Present] {
        assert_eq!(refusal(&store, vec![delete(key("gone"), expect)]).await, (0, None));
    }
    assert_eq!(store.revision(), there, "refusals use no revision");
    store.submit(vec![Operation::update(key("there"), there, draft(3))]).await.unwrap();
    store.submit(vec![Operation::delete(key("there"), there + 1)]).await.unwrap();
    store.submit(vec![Operation::create(key("there"), draft(1))]).await.unwrap();
}

#[tokio::test]
async fn transaction_happens_wholly_or_not_at_all() {
    let store = store();
    let key = |name: &str| things(&store).key("here", name);
    set(&store, "old", 1).await;
    let before = contents(&store.snapshot(&things(&store)));
    let mut watcher = store.watch(&things(&store), store.revision()).unwrap();

    let refused = refusal(
        &store,
        vec![
            put(key("new"), Expect::Absent, 1),
            delete(key("old"), Expect::Present),
            put(key("new"), Expect::Absent, 2),
        ],
    );
    assert_eq!(refused.await, (2, Some(2)));
    assert_eq!(contents(&store.snapshot(&things(&store))), before);
    assert!(drain(&mut watcher).unwrap().is_empty());

    let done = store
        .submit(vec![
            put(key("new"), Expect::Absent, 1),
            put(key("new"), Expect::Revision(2), 2),
            delete(key("new"), Expect::Revision(3)),
            put(key("new"), Expect::Absent, 3),
        ])
        .await
        .unwrap();
    assert_eq!(done.iter().map(|entry| entry.revision()).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(watcher.next().await.unwrap().len(), 4);
}

#[tokio::test]
async fn write_that_changes_nothing_moves_nothing() {
    let store = store();
    let first = set(&store, "one", 1).await;
    let again = set(&store, "one", 1).await;
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(store.revision(), first.revision());
    assert_eq!(set(&store, "one", 2).await.revision(), first.revision() + 1);
}

#[tokio::test]
async fn one_of_many_who_compete_wins() {
    let store = store();
    let key = things(&store).key("here", "one");
    let mut running = tokio::task::JoinSet::new();
    for value in 0..100 {
        let (store, key) = (store.clone(), key.clone());
        running.spawn(async move { store.submit(vec![put(key, Expect::Absent, value)]).await.is_ok() });
    }
    let winners = running.join_all().await.into_iter().filter(|has_won| *has_won).count();
    assert_eq!((winners, store.revision()), (1, 1));
}

fn owned(uid: &str, owners: &[&str]) -> Draft {
    let owners: Vec<_> = owners.iter().map(|uid| json!({"uid": uid, "name": "x"})).collect();
    let object = json!({"metadata": {"uid": uid, "ownerReferences": owners}});
    Draft::new(object.as_object().unwrap()).unwrap()
}

#[tokio::test]
async fn dependents_are_found_by_the_uids_of_their_owners() {
    const OWNER: &str = "0b5d1cbd-b6c4-4f6c-8d52-1d7ab2c9c2a1";
    let store = store();
    let (things, others) = (things(&store), store.collection("example.org/others"));
    let keys = [things.key("here", "b"), things.key("here", "a"), others.key("", "c")];
    let create = |(index, key): (usize, &_)| {
        Operation::create(Clone::clone(key), owned(&format!("uid-{index}"), &[OWNER, "odd owner"]))
    };
    store.submit(keys.iter().enumerate().map(create).collect()).await.unwrap();
    let names = |owner: &str| -> Vec<String> {
        store.dependents(&Uid::from(owner)).iter().map(|entry| entry.key().name().to_owned()).collect()
    };
    assert_eq!(names(OWNER), ["a", "b", "c"]);
    assert_eq!(names("odd owner"), ["a", "b", "c"]);
    let by_uid = |uid: &str| store.by_uid(&Uid::from(uid)).map(|entry: Arc<Entry>| entry.revision());
    assert_eq!(by_uid("uid-1"), Some(2));

    // One is released, one is deleted.
    let release = Operation {
        expect: Expect::Any,
        ..Operation::create(keys[1].clone(), owned("uid-1", &["odd owner"]))
    };
    store.submit(vec![release, delete(keys[2].clone(), Expect::Any)]).await.unwrap();
    assert_eq!(
        (names(OWNER), names("odd owner")),
        (vec!["b".to_owned()], vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!((by_uid("uid-1"), by_uid("uid-2"), by_uid("")), (Some(4), None, None));
}

#[tokio::test]
async fn pages_follow_one_another_within_a_namespace() {
    let store = store();
    let things = things(&store);
    let create = |namespace: &str, name: String| Operation::create(things.key(namespace, &name), draft(1));
    let mut operations: Vec<_> = (0..100).map(|index| create("here", format!("{index:03}"))).collect();
    operations.push(create("her", "x".to_owned()));
    operations.push(create("here-too", "x".to_owned()));
    store.submit(operations).await.unwrap();

    let snapshot = store.snapshot(&things);
    assert_eq!(snapshot.len(), 102);
    let mut after = None;
    let mut names = Vec::new();
    loop {
        let mut page = snapshot.range(Some("here"), after.as_deref());
        assert_eq!(page.len(), 100 - names.len());
        let Some(last) =
            page.by_ref().take(7).inspect(|entry| names.push(entry.key().name().to_owned())).last()
        else {
            break;
        };
        after = Some(last.key().path().to_owned());
    }
    assert_eq!(names, (0..100).map(|index| format!("{index:03}")).collect::<Vec<_>>());
    assert_eq!(snapshot.range(Some("nowhere"), None).count(), 0);
}
