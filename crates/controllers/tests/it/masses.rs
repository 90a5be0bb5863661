//! Many composite resources that come and go at once. `cargo xtask masses` does it with ten thousand.

use std::time::{Duration, Instant};

use ferroplane_apiserver::store::Store;
use ferroplane_controllers::Holdings;
use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites};
use futures_util::{StreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

/// How many there are if nobody says otherwise, and what each becomes.
const COUNT: usize = 300;
const SETTINGS: [&str; 3] = ["one", "two", "three"];
/// For how long nothing may move before it is taken to be stuck.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sites_that_are_deleted_at_once_leave_nothing_behind() {
    let count = std::env::var("FERROPLANE_MASSES").map_or(COUNT, |text| text.parse().unwrap());
    let plane = plane_with_sites().await;
    let Some(store) = plane.store().cloned() else { return };
    plane.compose_sites(&SETTINGS).await;
    plane.create_site("last", "red").await;
    plane.until(&format!("{SITES}/last"), is_ready).await;
    plane.delete(&format!("{SITES}/last")).await;
    plane.until(&format!("{SITES}/last"), Value::is_null).await;
    until(&store, "configmaps that are composed", || composed(&store), 0).await;
    let before = until_calm(&plane).await;

    let began_at = Instant::now();
    create(&plane, count).await;
    until(&store, "sites that are ready", || ready(&store), count).await;
    assert_eq!(composed(&store), count * SETTINGS.len());
    eprintln!("{count} sites were made and ready after {:?}", began_at.elapsed());

    let began_at = Instant::now();
    let (code, _) = plane.send(Method::DELETE, SITES, "application/json", &Value::Null).await;
    assert_eq!(code, 200);
    until(&store, "sites", || sites(&store), 0).await;
    eprintln!("{count} sites were gone after {:?}", began_at.elapsed());
    until(&store, "configmaps that are composed", || composed(&store), 0).await;
    eprintln!("and everything they composed after {:?}", began_at.elapsed());
    assert_eq!(until_calm(&plane).await, before, "what controllers hold in memory");
}

async fn create(plane: &Plane, count: usize) {
    let creations = (0..count).map(|number| async move {
        let site = json!({
            "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": format!("site-{number}")},
            "spec": {"color": "red"},
        });
        let (code, answer) = plane.send(Method::POST, SITES, "application/json", &site).await;
        assert_eq!(code, 201, "{answer}");
    });
    stream::iter(creations).buffer_unordered(64).collect::<()>().await;
}

/// Wait for a number to come to what it should be, for as long as it moves.
async fn until(store: &Store, what: &str, count: impl Fn() -> usize, wanted: usize) {
    let mut moved_at = (store.revision(), Instant::now());
    while count() != wanted {
        if store.revision() != moved_at.0 {
            moved_at = (store.revision(), Instant::now());
        }
        assert!(moved_at.1.elapsed() < PATIENCE, "{what}: {} instead of {wanted}", count());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Wait until controllers have nothing to do. Returns what they hold then.
async fn until_calm(plane: &Plane) -> Holdings {
    let began_at = Instant::now();
    let mut before = plane.holdings();
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let holdings = plane.holdings();
        if holdings == before && holdings.queued == 0 {
            return holdings;
        }
        assert!(began_at.elapsed() < PATIENCE, "never calm: {holdings:?}");
        before = holdings;
    }
}

fn sites(store: &Store) -> usize {
    store.snapshot(&store.collection("example.org/sites")).len()
}

fn ready(store: &Store) -> usize {
    let snapshot = store.snapshot(&store.collection("example.org/sites"));
    let sites = snapshot.range(None, None);
    sites.filter(|site| is_ready(&serde_json::from_slice(site.bytes()).unwrap())).count()
}

/// How many settings have an owner.
fn composed(store: &Store) -> usize {
    let snapshot = store.snapshot(&store.collection("/configmaps"));
    let settings = snapshot.range(None, None);
    settings.filter(|setting| !setting.metadata().owners.is_empty()).count()
}
