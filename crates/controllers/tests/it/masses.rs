//! Many composite resources that come and go at once, or come while a function is rolled out. `cargo xtask masses` does it with ten
//! thousand.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ferroplane_apiserver::store::Store;
use ferroplane_controllers::Holdings;
use ferroplane_testkit::plane::Plane;
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites};
use futures_util::{StreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

use crate::function_rollout::{answer, fatal, function_rollout, runner};
use crate::rollout::Rollout;

/// How many there are if nobody says otherwise, and what each becomes.
const COUNT: usize = 300;
const SETTINGS: [&str; 3] = ["one", "two", "three"];
/// How many sites there are when a rollout begins.
const EARLY: usize = 5;
const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/own";
/// For how long nothing may move before it is taken to be stuck.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sites_that_are_deleted_at_once_leave_nothing_behind() {
    let count = count();
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

/// They call the old revision until it is their turn. The next revision fails for one of them, and harms nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sites_that_are_created_during_a_rollout_are_moved_in_their_turn() {
    let count = count();
    let mut rollout = Rollout::begin().await;
    let Some(store) = rollout.plane.store().cloned() else { return };
    rollout.install_running("v1.0.0", None, runner(|_| answer("one", &["a"]))).await;
    rollout.compose("all", &json!({})).await;
    for number in 0..EARLY {
        rollout.plane.create_site(&format!("early-{number}"), "any").await;
    }
    until(&store, "sites that are ready", || ready(&store), EARLY).await;
    adopt(&rollout.plane, &json!({"minReadySeconds": 600})).await;
    rollout.install_running("v1.1.0", None, runner(|_| answer("two", &["a"]))).await;
    rollout.plane.until(ROLLOUT, |rollout| rollout["status"]["composites"]["ready"] == 1).await;

    create(&rollout.plane, count).await;
    until(&store, "sites that are ready", || ready(&store), EARLY + count).await;
    assert_eq!(of_color(&store, "two"), 1, "those that were created call the old revision");
    let began_at = Instant::now();
    rollout.plane.merge(ROLLOUT, &json!({"spec": {"minReadySeconds": 0}})).await;
    until(&store, "sites that were moved", || of_color(&store, "two"), EARLY + count).await;
    let status = rollout.plane.until(ROLLOUT, |rollout| rollout["status"]["state"] == "Promoted").await;
    eprintln!("{count} sites that were created meanwhile were moved after {:?}", began_at.elapsed());
    assert_eq!(status["status"]["composites"]["total"], json!(EARLY + count));
    assert_eq!((ready(&store), composed(&store)), (EARLY + count, EARLY + count));

    let fails = |name: &str| if name == "site-7" { fatal() } else { answer("three", &["a"]) };
    rollout.install_running("v1.2.0", None, runner(fails)).await;
    until(&store, "rollouts that were rolled back", || rolled_back(&store), 1).await;
    until(&store, "sites that went back", || of_color(&store, "two"), EARLY + count).await;
    assert_eq!((ready(&store), composed(&store)), (EARLY + count, EARLY + count));
}

/// It works for a fifth of all, so that it reaches the third wave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_a_hundred_is_harmed_by_a_revision_that_fails_in_a_later_wave() {
    let count = count();
    let mut rollout = Rollout::begin().await;
    let Some(store) = rollout.plane.store().cloned() else { return };
    rollout.install_running("v1.0.0", None, runner(|_| answer("one", &["a"]))).await;
    rollout.compose("all", &json!({})).await;
    create(&rollout.plane, count).await;
    until(&store, "sites that are ready", || ready(&store), count).await;
    adopt(&rollout.plane, &json!({"waves": ["1", "10%", "100%"], "progressDeadlineSeconds": 10})).await;

    let (worked, enough) = (Mutex::new(BTreeSet::new()), count / 5);
    let answers = move |name: &str| {
        let mut worked = worked.lock().unwrap();
        if worked.len() < enough {
            worked.insert(name.to_owned());
        }
        let mut answer = answer("two", &["a"]);
        if !worked.contains(name) {
            answer["desired"]["resources"]["a"]["ready"] = json!("READY_FALSE");
        }
        answer
    };
    rollout.install_running("v1.1.0", None, runner(answers)).await;
    let most = Cell::new(0);
    let rolled_back_after_harm = || {
        most.set(most.get().max(count - ready(&store)));
        rolled_back(&store)
    };
    until(&store, "rollouts that were rolled back", rolled_back_after_harm, 1).await;
    until(&store, "sites that went back", || of_color(&store, "one"), count).await;
    until(&store, "sites that are ready", || ready(&store), count).await;
    let most = most.get();
    assert!((1..=(count / 100).max(1)).contains(&most), "{most} of {count} were harmed");
    assert_eq!(composed(&store), count, "nothing was deleted");
}

/// Have a rollout with this policy, beginning with the revision that is called.
async fn adopt(plane: &Plane, policy: &Value) {
    plane.apply(ROLLOUT, &function_rollout("own", policy)).await;
    plane.until(ROLLOUT, |rollout| rollout["status"]["stable"].is_string()).await;
}

/// How many there are to be.
pub(crate) fn count() -> usize {
    std::env::var("FERROPLANE_MASSES").map_or(COUNT, |text| text.parse().unwrap())
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
pub(crate) async fn until(store: &Store, what: &str, count: impl Fn() -> usize, wanted: usize) {
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

/// How many sites a revision has composed that tells this color.
fn of_color(store: &Store, color: &str) -> usize {
    let snapshot = store.snapshot(&store.collection("example.org/sites"));
    let sites = snapshot.range(None, None);
    let site = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    sites.filter(|it| site(it.bytes())["status"]["color"] == color).count()
}

/// How many rollouts have ended with all sites on the old revision.
fn rolled_back(store: &Store) -> usize {
    let snapshot = store.snapshot(&store.collection("rollout.ferroplane.io/functionrollouts"));
    let rollouts = snapshot.range(None, None);
    let rollout = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    rollouts.filter(|it| rollout(it.bytes())["status"]["state"] == "RolledBack").count()
}

/// How many settings have an owner.
fn composed(store: &Store) -> usize {
    let snapshot = store.snapshot(&store.collection("/configmaps"));
    let settings = snapshot.range(None, None);
    settings.filter(|setting| !setting.metadata().owners.is_empty()).count()
}
