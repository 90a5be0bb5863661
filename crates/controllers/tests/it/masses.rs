//! Many composite resources that come and go at once, or come while a function is rolled out. `cargo xtask masses` does it with ten
//! thousand.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferroplane_apiserver::store::Store;
use ferroplane_controllers::Holdings;
use ferroplane_runner::{AsyncFunction, CallError, Runner};
use ferroplane_testkit::FunctionServer;
use ferroplane_testkit::plane::sites::{SITES, is_ready, plane_with_sites};
use ferroplane_testkit::plane::{Plane, condition};
use ferroplane_wire::from_json;
use futures_util::{StreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

use crate::function_rollout::servers::{calling, name_in};
use crate::function_rollout::{
    answer, changing, fatal, fixed, function_rollout, renamed, requiring, runner, slow_runner,
};
use crate::rollout::Rollout;

/// How many there are if nobody says otherwise, and what each becomes.
const COUNT: usize = 300;
const SETTINGS: [&str; 3] = ["one", "two", "three"];
/// How many sites there are when a rollout begins.
const EARLY: usize = 5;
const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/own";
/// What each site composes in a rollout of a revision that misbehaves.
const BOTH: &[&str] = &["a", "b"];
/// How long it may take that all are as before, once a rollout has found a fault.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// How long a call may take of a function that hangs.
const HUNG_AFTER: Duration = Duration::from_secs(2);
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

/// Each of them is the next revision of the same function, under the same rollout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_a_hundred_is_harmed_by_a_revision_that_misbehaves_in_whichever_wave() {
    let count = count();
    let mut rollout = Rollout::begin().await;
    let Some(store) = rollout.plane.store().cloned() else { return };
    rollout.install_running("v1.0.0", None, runner(|_| fixed("one", "first"))).await;
    rollout.compose("all", &json!({})).await;
    create(&rollout.plane, count).await;
    until(&store, "sites that are ready", || ready(&store), count).await;
    let composed = identities(&store);
    assert_eq!(composed.len(), count * BOTH.len());
    let hanging = [hang(0).await, hang(enough(count)).await];
    let faults = faults(count, &hanging.each_ref().map(FunctionServer::address));
    let faults = faults.into_iter().chain(faults_of_calls(enough(count)));
    for (number, Fault { name, policy, runner }) in faults.enumerate() {
        adopt(&rollout.plane, &policy).await;
        let revision = rollout.install_running(&format!("v1.{}.0", number + 1), None, runner).await;
        let (most, took) = until_back(&store, &revision, count).await;
        eprintln!(
            "{most} of {count} were harmed by one that {name}, and all were back {took:?} after that was found"
        );
        assert!(most <= (count / 100).max(1), "{name}: {most} of {count} were harmed");
        assert!(took <= BACK_WITHIN, "{name}: back after {took:?}");
        assert_eq!(identities(&store), composed, "{name}: nothing was deleted, and nothing is left");
    }
}

/// Wait until a revision was rolled back and all sites are as before. Returns how many were harmed at most at the same time, and how long
/// it took after the rollout had found a fault.
async fn until_back(store: &Store, revision: &str, count: usize) -> (usize, Duration) {
    let (mut moved_at, mut most, mut found_at) = ((store.revision(), Instant::now()), 0, None);
    loop {
        if store.revision() != moved_at.0 {
            moved_at = (store.revision(), Instant::now());
        }
        let is_found = rollouts(store).iter().any(|it| it["status"]["rejected"] == revision);
        if is_found {
            found_at.get_or_insert_with(Instant::now);
        }
        let harmed = harmed(store);
        most = most.max(harmed);
        if let Some(found_at) = found_at
            && harmed == 0
            && rolled_back(store) == 1
            && of_color(store, "one") == count
        {
            return (most, found_at.elapsed());
        }
        assert!(moved_at.1.elapsed() < PATIENCE, "{harmed} are harmed, {:#?}", rollouts(store));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A revision that misbehaves. What it should not have composed has the color `bad`.
struct Fault {
    name: &'static str,
    policy: Value,
    runner: Arc<Runner>,
}

/// A revision that misbehaves, with these fields of its policy.
fn fault(name: &'static str, more: Value, runner: Arc<Runner>) -> Fault {
    // All fields, so that nothing of an earlier policy stays.
    let mut policy = json!({
        "waves": ["1", "10%", "100%"], "refuse": ["Deleted", "Renamed"], "gates": {"maxLatencyFactor": 0},
        "progressDeadlineSeconds": 600,
    });
    let Value::Object(more) = more else { panic!("a policy has fields") };
    policy.as_object_mut().unwrap().extend(more);
    Fault { name, policy, runner }
}

/// Revisions that misbehave, the last ones only after the second wave. There are servers at these addresses that hang at once, and then.
fn faults(count: usize, hanging: &[String; 2]) -> Vec<Fault> {
    let drops = |_: &str| answer("bad", &["a"]);
    let renames = |_: &str| renamed(fixed("bad", "first"));
    let changes = |_: &str| fixed("bad", "second");
    let never_ready = |_: &str| {
        let mut answer = fixed("bad", "first");
        answer["desired"]["resources"]["a"]["ready"] = json!("READY_FALSE");
        answer
    };
    let slow = json!({"refuse": ["Slower"], "gates": {"maxLatencyFactor": 10}});
    let [hangs, hangs_later] = hanging.each_ref().map(|address| calling(address, HUNG_AFTER));
    let later = enough(count);
    vec![
        fault("fails", json!({}), runner(|_| fatal())),
        fault("drops a resource", json!({}), runner(drops)),
        fault("renames a resource", json!({}), runner(renames)),
        fault("changes an immutable field", json!({}), runner(changes)),
        fault("requires what does not exist", json!({}), runner(|_| requiring())),
        fault("hangs", json!({}), hangs),
        fault("is not deterministic", json!({"refuse": ["NotDeterministic"]}), runner(changing("bad", BOTH))),
        fault("is slow", slow, slow_runner(Duration::from_secs(3), fixed("bad", "first"))),
        fault("fails in the third wave", json!({}), runner(working_for(later, |_| fatal()))),
        fault("drops a resource in the third wave", json!({}), runner(working_for(later, drops))),
        fault("renames a resource in the third wave", json!({}), runner(working_for(later, renames))),
        fault("changes an immutable field in the third wave", json!({}), runner(working_for(later, changes))),
        fault(
            "requires what does not exist in the third wave",
            json!({}),
            runner(working_for(later, |_| requiring())),
        ),
        fault("hangs in the third wave", json!({}), hangs_later),
        fault(
            "is never ready in the third wave",
            json!({"progressDeadlineSeconds": 10}),
            runner(working_for(later, never_ready)),
        ),
    ]
}

/// Revisions whose process ends in a call, as if it was killed for its memory, or answers too much: at once, and after the second wave.
fn faults_of_calls(later: usize) -> [Fault; 4] {
    let lost = || CallError::Lost { target: "own".to_owned(), reason: "it was killed".to_owned() };
    let huge = || CallError::ResponseTooLarge { target: "own".to_owned(), limit: 16 << 20 };
    [
        fault("loses the connection", json!({}), failing_for_others(0, lost)),
        fault("answers too much", json!({}), failing_for_others(0, huge)),
        fault("loses the connection in the third wave", json!({}), failing_for_others(later, lost)),
        fault("answers too much in the third wave", json!({}), failing_for_others(later, huge)),
    ]
}

/// More composite resources than the first two waves have, so that the third one finds what fails after them.
fn enough(count: usize) -> usize {
    count / 5
}

/// Whether a composite resource is among the first that this is asked for.
fn among_first(enough: usize) -> impl Fn(&str) -> bool + Send + Sync + 'static {
    let first = Mutex::new(BTreeSet::new());
    move |name| {
        let mut first = first.lock().unwrap();
        if first.len() < enough {
            first.insert(name.to_owned());
        }
        first.contains(name)
    }
}

/// What works for the first composite resources that it is called for.
fn working_for(
    enough: usize,
    otherwise: impl Fn(&str) -> Value + Send + Sync + 'static,
) -> impl Fn(&str) -> Value + Send + Sync + 'static {
    let is_first = among_first(enough);
    move |name| if is_first(name) { fixed("two", "first") } else { otherwise(name) }
}

/// What works for the first composite resources that it is called for. Calls for others fail.
fn failing_for_others(enough: usize, error: impl Fn() -> CallError + Send + Sync + 'static) -> Arc<Runner> {
    let is_first = among_first(enough);
    let call = move |request| {
        let works = is_first(&name_in(&request));
        let answer = if works { Ok(from_json(&fixed("two", "first")).unwrap()) } else { Err(error()) };
        async move { answer }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}

/// A server that works for the first composite resources that it is called for, and never answers for others.
async fn hang(enough: usize) -> FunctionServer {
    let is_first = among_first(enough);
    FunctionServer::start_async(move |request| {
        let works = is_first(&name_in(&request));
        async move {
            if !works {
                std::future::pending::<()>().await;
            }
            Ok(from_json(&fixed("two", "first")).unwrap())
        }
    })
    .await
}

/// How many sites are not ready or not synced, or have what the policy does not let them have.
fn harmed(store: &Store) -> usize {
    let is_harmed = |site: &Value| {
        !is_ready(site)
            || condition(site, "Synced").is_none_or(|synced| !synced.starts_with("True"))
            || site["status"]["color"].as_str().is_none_or(|color| color.starts_with("bad"))
    };
    all_sites(store).iter().filter(|site| is_harmed(site)).count()
}

/// The identities of everything that sites compose.
fn identities(store: &Store) -> BTreeSet<String> {
    let settings = objects(store, "/configmaps").into_iter().map(|it| it["metadata"].clone());
    settings.filter(|it| it["ownerReferences"].is_array()).map(|it| it["uid"].to_string()).collect()
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

fn all_sites(store: &Store) -> Vec<Value> {
    objects(store, "example.org/sites")
}

fn rollouts(store: &Store) -> Vec<Value> {
    objects(store, "rollout.ferroplane.io/functionrollouts")
}

fn objects(store: &Store, collection: &str) -> Vec<Value> {
    let snapshot = store.snapshot(&store.collection(collection));
    let objects = snapshot.range(None, None);
    objects.map(|object| serde_json::from_slice(object.bytes()).unwrap()).collect()
}

fn ready(store: &Store) -> usize {
    all_sites(store).iter().filter(|site| is_ready(site)).count()
}

/// How many sites a revision has composed that tells this color.
fn of_color(store: &Store, color: &str) -> usize {
    all_sites(store).iter().filter(|site| site["status"]["color"] == color).count()
}

/// How many rollouts have ended with all sites on the old revision.
fn rolled_back(store: &Store) -> usize {
    rollouts(store).iter().filter(|it| it["status"]["state"] == "RolledBack").count()
}

/// How many settings have an owner.
fn composed(store: &Store) -> usize {
    let snapshot = store.snapshot(&store.collection("/configmaps"));
    let settings = snapshot.range(None, None);
    settings.filter(|setting| !setting.metadata().owners.is_empty()).count()
}
