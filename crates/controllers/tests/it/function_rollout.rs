//! `FunctionRollout`: a new revision of a function reaches composite resources in waves, and goes back when it misbehaves.

pub(crate) mod servers;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_controllers::PackagedFunction;
use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::condition;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use crate::rollout::{COMPOSITION, COMPOSITION_REVISIONS, OPERATES_ONLY, Rollout, compose, revisions_of};

const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/own";
const SECOND: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/second";
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";
const COUNT: usize = 5;

/// Sites that are composed by the first revision of a function, and a rollout for it.
struct Fleet {
    rollout: Rollout,
    first: String,
}

/// A function that answers by the name of the composite resource.
pub(crate) fn runner(answer: impl Fn(&str) -> Value + Send + Sync + 'static) -> Arc<Runner> {
    let answer = Arc::new(answer);
    let call = move |request| {
        let answer = answer.clone();
        async move {
            let request = to_json(&request).unwrap();
            let name = &request["observed"]["composite"]["resource"]["metadata"]["name"];
            Ok(from_json(&answer(name.as_str().unwrap_or_default())).unwrap())
        }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}

/// What composes these resources, and tells this color.
pub(crate) fn answer(color: &str, resources: &[&str]) -> Value {
    let object = |who: &str| {
        json!({
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": who, "color": color}},
            "ready": "READY_TRUE",
        })
    };
    let resources: serde_json::Map<_, _> =
        resources.iter().map(|who| ((*who).to_owned(), object(who))).collect();
    json!({"meta": {}, "desired": {"composite": {"resource": {"status": {"color": color}}}, "resources": resources}})
}

/// What composes the resources `a` and `b`, of which the latter cannot be changed.
pub(crate) fn fixed(color: &str, value: &str) -> Value {
    let mut answer = answer(color, &["a", "b"]);
    answer["desired"]["resources"]["b"]["resource"] =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": {"value": value}});
    answer
}

/// The same resources, but that `b` is called `c`.
pub(crate) fn renamed(mut answer: Value) -> Value {
    let resources = answer["desired"]["resources"].as_object_mut().unwrap();
    let b = resources.remove("b").unwrap();
    resources.insert("c".to_owned(), b);
    answer
}

pub(crate) fn fatal() -> Value {
    json!({"meta": {}, "results": [{"severity": "SEVERITY_FATAL", "message": "no way"}]})
}

/// What fails without an object of a kind that does not exist.
pub(crate) fn requiring() -> Value {
    let nothing = json!({"apiVersion": "nothing.example.org/v1", "kind": "Nothing", "matchName": "x"});
    let mut answer = fatal();
    answer["requirements"] = json!({"resources": {"nothing": nothing}});
    answer
}

pub(crate) fn function_rollout(name: &str, more: &Value) -> Value {
    // A busy machine is slow by itself.
    let mut spec = json!({
        "functionRef": {"name": "own"}, "waves": ["1", "50%", "100%"], "minReadySeconds": 0,
        "gates": {"maxLatencyFactor": 0},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionRollout", "metadata": {"name": name}, "spec": spec,
    })
}

fn site(number: usize) -> String {
    format!("{SITES}/site-{number}")
}

impl Fleet {
    async fn begin(more: Value) -> Self {
        let mut rollout = Rollout::begin().await;
        let first = rollout.install_running("v1.0.0", None, runner(|_| answer("one", &["a", "b"]))).await;
        rollout.compose("all", &json!({})).await;
        for number in 0..COUNT {
            rollout.plane.create_site(&format!("site-{number}"), "any").await;
        }
        for number in 0..COUNT {
            rollout.plane.until(&site(number), is_ready).await;
        }
        rollout.plane.apply(ROLLOUT, &function_rollout("own", &more)).await;
        let fleet = Self { rollout, first };
        fleet.until(|status| status["stable"] == fleet.first).await;
        fleet
    }

    async fn install(
        &mut self,
        version: &str,
        answer: impl Fn(&str) -> Value + Send + Sync + 'static,
    ) -> String {
        self.rollout.install_running(version, None, runner(answer)).await
    }

    /// Wait until the status of the rollout is so.
    async fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        self.rollout.plane.until(ROLLOUT, |rollout| is_so(&rollout["status"])).await["status"].clone()
    }

    async fn until_state(&self, state: &str) -> Value {
        self.until(|status| status["state"] == state).await
    }

    async fn sites(&self) -> Vec<Value> {
        let mut sites = Vec::new();
        for number in 0..COUNT {
            sites.push(self.rollout.plane.get(&site(number)).await);
        }
        sites
    }

    /// What users have written of the Function, its Composition and the sites.
    async fn written_by_users(&self) -> Vec<Value> {
        let (function, composition) =
            (self.rollout.plane.get(FUNCTION).await, self.rollout.plane.get(COMPOSITION).await);
        let mut written: Vec<_> =
            [&function, &composition].map(|it| it["metadata"]["generation"].clone()).into();
        for mut object in [function, composition].into_iter().chain(self.sites().await) {
            // The control plane records there what it composes.
            if let Some(machinery) = object["spec"]["crossplane"].as_object_mut() {
                machinery.remove("resourceRefs");
            }
            let metadata = &object["metadata"];
            written.push(json!([metadata["labels"], metadata["annotations"], object["spec"]]));
        }
        written
    }

    /// The identities of everything that sites compose.
    async fn composed(&self) -> BTreeSet<String> {
        let list = self.rollout.plane.get("/api/v1/configmaps?labelSelector=crossplane.io/composite").await;
        list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["uid"].to_string()).collect()
    }

    /// All sites are as the first revision made them, and nothing was deleted or told meanwhile.
    async fn assert_unharmed(&self, composed: &BTreeSet<String>) {
        for site in self.sites().await {
            assert!(is_ready(&site), "{site:#}");
            assert_eq!((&site["status"]["color"], revisions_of(&site)), (&json!("one"), vec![&*self.first]));
            let name = site["metadata"]["name"].as_str().unwrap();
            let events = self.rollout.plane.events(name).await;
            assert!(!events.iter().any(|event| event.starts_with("Warning")), "{events:#?}");
        }
        assert_eq!(self.composed().await, *composed);
    }

    /// Roll out a revision that answers so, and see it rolled back before anybody is harmed.
    async fn refuse(more: Value, answer: impl Fn(&str) -> Value + Send + Sync + 'static) -> Value {
        Self::begin(more).await.see_refused(runner(answer)).await
    }

    /// The same for a revision that this runs.
    async fn see_refused(self, runner: Arc<Runner>) -> Value {
        self.see_version_refused("v1.1.0", runner).await
    }

    /// The same for a version.
    async fn see_version_refused(mut self, version: &str, runner: Arc<Runner>) -> Value {
        let composed = self.composed().await;
        let second = self.rollout.install_running(version, None, runner).await;
        let status = self.until_state("RolledBack").await;
        assert_eq!(status["rejected"], second);
        assert_eq!(status["history"][0]["result"], "RolledBack");
        self.rollout.plane.until_said("own", "RolledBack").await;
        let rollout = self.rollout.plane.get(ROLLOUT).await;
        let is_coded = |it: &Value| it["type"] == "Ready" && it["code"] == "RolloutNotCompleted";
        assert!(rollout["status"]["conditions"].as_array().unwrap().iter().any(is_coded), "{rollout:#}");
        self.assert_unharmed(&composed).await;
        // It is not tried again.
        self.rollout.plane.quiet().await;
        assert_eq!(self.rollout.plane.quiet().await, Vec::<String>::new());
        status
    }
}

/// What holds for a minute, as the functions of the Go SDK say.
fn lasting(mut answer: Value) -> Value {
    answer["meta"]["ttl"] = json!("60s");
    answer
}

/// What answers differently each time.
pub(crate) fn changing(
    color: &str,
    resources: &'static [&'static str],
) -> impl Fn(&str) -> Value + Send + Sync + 'static {
    let (color, count) = (color.to_owned(), AtomicUsize::new(0));
    move |_| answer(&format!("{color} {}", count.fetch_add(1, Ordering::Relaxed)), resources)
}

/// A function that takes its time, as if it were busy.
pub(crate) fn slow_runner(time: Duration, answer: Value) -> Arc<Runner> {
    let call = move |_| {
        let answer = answer.clone();
        async move {
            tokio::time::sleep(time).await;
            Ok(from_json(&answer).unwrap())
        }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}

#[tokio::test]
async fn revision_that_works_reaches_all_in_waves() {
    let mut fleet = Fleet::begin(json!({"paused": true})).await;
    let called = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = called.clone();
    let second = fleet
        .install("v1.1.0", move |name| {
            seen.lock().unwrap().insert(name.to_owned());
            answer("two", &["a", "b", "c"])
        })
        .await;
    // It is in service, and nothing calls it.
    fleet.until_state("Paused").await;
    fleet.rollout.plane.quiet().await;
    assert!(called.lock().unwrap().is_empty());
    let written = fleet.written_by_users().await;
    fleet.rollout.plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
    let status = fleet.until_state("Promoted").await;
    assert_eq!((&status["stable"], &status["previous"]), (&json!(second), &json!(fleet.first)));
    assert_eq!(status["differences"], json!({"Added": COUNT, "Changed": COUNT}));
    for number in 0..COUNT {
        let is_new = |site: &Value| is_ready(site) && site["status"]["color"] == "two";
        let site = fleet.rollout.plane.until(&site(number), is_new).await;
        assert_eq!(revisions_of(&site), [&*second]);
    }
    let rollout = fleet.rollout.plane.get(ROLLOUT).await;
    assert_eq!(condition(&rollout, "Ready").as_deref(), Some("True/Promoted"));
    fleet.rollout.plane.until_said("own", "WaveStarted").await;
    // Nothing changed, nothing happens.
    fleet.rollout.plane.quiet().await;
    assert_eq!(fleet.written_by_users().await, written, "a rollout edits no object of a user");
    let metrics = fleet.rollout.plane.metrics();
    for line in [
        r#"ferroplane_function_rollout_state{rollout="own",state="Promoted"} 1"#,
        r#"ferroplane_function_rollout_state{rollout="own",state="Progressing"} 0"#,
        r#"ferroplane_function_rollout_composite_resources{rollout="own",state="moved"} 5"#,
        r#"ferroplane_function_rollouts_ended_total{rollout="own",result="Promoted"} 1"#,
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in\n{metrics}");
    }
    fleet.rollout.plane.restart().await;
    assert_eq!(fleet.rollout.plane.quiet().await, Vec::<String>::new());
}

/// Composite resources that change do not wake the controller of rollouts.
#[tokio::test]
async fn policy_without_a_new_revision_costs_nothing() {
    let mut fleet = Fleet::begin(json!({})).await;
    fleet.install("v1.1.0", |_| answer("two", &["a", "b"])).await;
    fleet.until_state("Promoted").await;
    let reconciles = || {
        let of_rollouts = r#"controller_runtime_reconcile_total{controller="functionrollout/"#;
        let metrics = fleet.rollout.plane.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with(of_rollouts));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>()
    };
    fleet.rollout.plane.quiet().await;
    let before = reconciles();
    assert!(before > 0.0, "it was reconciled while it moved composite resources");
    for number in 0..COUNT {
        fleet.rollout.plane.merge(&site(number), &json!({"spec": {"color": "blue"}})).await;
    }
    fleet.rollout.plane.quiet().await;
    assert!(reconciles() <= before, "nothing woke it");
}

#[tokio::test]
async fn revision_that_returns_fatal_harms_nobody() {
    let status = Fleet::refuse(json!({}), |_| fatal()).await;
    assert!(status["message"].as_str().unwrap().contains("no way"), "{status:#}");
    assert_eq!(status["differences"], json!({"Fails": 1}));
}

/// Its trials are equal. If it were promoted, no composite resource could use the composition any more.
#[tokio::test]
async fn revision_that_cannot_compose_harms_nobody() {
    for preview in [false, true] {
        let fleet = Fleet::begin(json!({"preview": preview})).await;
        let same = runner(|_| answer("one", &["a", "b"]));
        let status = fleet.see_version_refused(OPERATES_ONLY, same).await;
        let missing = "does not have the capability `composition`";
        assert!(status["message"].as_str().unwrap().contains(missing), "{status:#}");
        let count = if preview { COUNT } else { 1 };
        assert_eq!(status["differences"], json!({"Fails": count}));
    }
}

#[tokio::test]
async fn compositions_are_valid_again_when_a_revision_that_cannot_compose_is_undone() {
    let mut fleet = Fleet::begin(json!({"paused": true})).await;
    let composed = fleet.composed().await;
    let second = fleet.install(OPERATES_ONLY, |_| answer("two", &["a", "b"])).await;
    fleet.until_state("Paused").await;
    let is_judged = |reason: &'static str| {
        move |list: &Value| {
            let mut revisions = list["items"].as_array().unwrap().iter();
            revisions.all(|it| condition(it, "ValidPipeline").as_deref() == Some(reason))
        }
    };
    for (annotation, reason) in [("promote", "False/MissingCapabilities"), ("undo", "True/ValidPipeline")] {
        let annotation = format!("rollout.ferroplane.io/{annotation}");
        let request = json!({"metadata": {"annotations": {annotation: second}}});
        fleet.rollout.plane.merge(ROLLOUT, &request).await;
        fleet.rollout.plane.until(COMPOSITION_REVISIONS, is_judged(reason)).await;
    }
    for number in 0..COUNT {
        let is_back = |site: &Value| is_ready(site) && site["status"]["color"] == "one";
        fleet.rollout.plane.until(&site(number), is_back).await;
    }
    assert_eq!(fleet.composed().await, composed);
}

#[tokio::test]
async fn revision_that_drops_a_resource_deletes_nothing() {
    let status = Fleet::refuse(json!({}), |_| answer("two", &["a"])).await;
    assert!(status["message"].as_str().unwrap().contains("no longer composes `b`"), "{status:#}");
}

#[tokio::test]
async fn revision_that_renames_a_resource_deletes_nothing() {
    let status = Fleet::refuse(json!({}), |_| answer("two", &["a", "other"])).await;
    assert_eq!(status["differences"], json!({"Changed": 1, "Renamed": 1}));
}

#[tokio::test]
async fn revision_that_answers_differently_each_time_can_be_refused() {
    let status = Fleet::refuse(json!({"refuse": ["NotDeterministic"]}), changing("two", &["a", "b"]));
    assert_eq!(status.await["differences"], json!({"Changed": 1, "NotDeterministic": 1}));
}

/// Its second response is not the cached first one.
#[tokio::test]
async fn revision_that_answers_differently_each_time_can_be_refused_though_responses_are_cached() {
    let answers = changing("two", &["a", "b"]);
    let more = json!({"refuse": ["NotDeterministic"]});
    let status = Fleet::refuse(more, move |name| lasting(answers(name)));
    assert_eq!(status.await["differences"], json!({"Changed": 1, "NotDeterministic": 1}));
}

#[tokio::test]
async fn preview_finds_that_a_revision_answers_differently_each_time() {
    for is_cached in [false, true] {
        let answers = changing("two", &["a", "b"]);
        let more = json!({"preview": true, "refuse": ["NotDeterministic"]});
        let answers = move |name: &str| if is_cached { lasting(answers(name)) } else { answers(name) };
        let status = Fleet::refuse(more, answers).await;
        // Of so few, one is called twice.
        assert_eq!(status["differences"], json!({"Changed": COUNT, "NotDeterministic": 1}));
    }
}

/// The responses of the old revision are cached, so that it has to be called again to compare.
#[tokio::test]
async fn revision_that_is_much_slower_can_be_refused_though_responses_are_cached() {
    for preview in [false, true] {
        let more = json!({"refuse": ["Slower"], "preview": preview, "gates": {"maxLatencyFactor": 5}});
        let fleet = Fleet::begin(more).await;
        let kept = PackagedFunction::Serving(runner(|_| lasting(answer("one", &["a", "b"]))));
        fleet.rollout.functions.set(&fleet.first, Some(kept));
        fleet.rollout.plane.quiet().await;
        let slow = slow_runner(Duration::from_secs(1), lasting(answer("two", &["a", "b"])));
        let status = fleet.see_refused(slow).await;
        let count = if preview { COUNT } else { 1 };
        assert_eq!(status["differences"], json!({"Changed": count, "Slower": count}));
    }
}

#[tokio::test]
async fn change_is_refused_though_something_is_added_besides() {
    let more = json!({"refuse": ["Changed"]});
    let status = Fleet::refuse(more, |_| answer("two", &["a", "b", "c"])).await;
    assert_eq!(status["differences"], json!({"Added": 1, "Changed": 1}));
    assert!(status["message"].as_str().unwrap().contains("(refused: Changed)"), "{status:#}");
    assert!(status["message"].as_str().unwrap().contains("changes `a`"), "{status:#}");
}

#[tokio::test]
async fn preview_tries_a_revision_for_all_and_applies_nothing() {
    let mut fleet = Fleet::begin(json!({"preview": true, "paused": true})).await;
    let composed = fleet.composed().await;
    let second = fleet.install("v1.1.0", |_| answer("two", &["a", "b", "c"])).await;
    let status = fleet.until_state("Paused").await;
    assert_eq!(status["differences"], json!({"Added": COUNT, "Changed": COUNT}));
    assert_eq!(status["added"], json!(["ConfigMap `c`"]));
    fleet.assert_unharmed(&composed).await;
    fleet.rollout.plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
    fleet.until_state("Promoted").await;

    // Going back deletes what was added, and says so.
    let undo = json!({"metadata": {"annotations": {"rollout.ferroplane.io/undo": second}}});
    fleet.rollout.plane.merge(ROLLOUT, &undo).await;
    let status = fleet.until_state("RolledBack").await;
    let lost =
        format!("what only it composed is deleted (ConfigMap `c`), for up to {COUNT} composite resources");
    assert!(status["message"].as_str().unwrap().contains(&lost), "{status:#}");
    fleet.rollout.plane.until_said("own", &lost).await;
    for number in 0..COUNT {
        fleet.rollout.plane.until(&site(number), |site| site["status"]["color"] == "one").await;
    }
    fleet.rollout.plane.quiet().await;
    assert_eq!(fleet.composed().await, composed);
}

#[tokio::test]
async fn preview_that_finds_a_deletion_for_one_of_all_ends_the_rollout() {
    let more = json!({"preview": true});
    let status =
        Fleet::refuse(more, |name| answer("two", if name == "site-3" { &["a"] } else { &["a", "b"] }));
    assert_eq!(status.await["differences"], json!({"Changed": COUNT, "Deleted": 1}));
}

#[tokio::test]
async fn deletion_that_was_announced_is_carried_out() {
    let mut fleet = Fleet::begin(json!({"refuse": ["Renamed"]})).await;
    fleet.install("v1.1.0", |_| answer("two", &["a"])).await;
    let status = fleet.until_state("Promoted").await;
    assert_eq!(status["differences"], json!({"Changed": COUNT, "Deleted": COUNT}));
    fleet.rollout.plane.quiet().await;
    assert_eq!(fleet.composed().await.len(), COUNT);
}

#[tokio::test]
async fn revision_that_never_becomes_ready_goes_back() {
    let mut fleet = Fleet::begin(json!({"progressDeadlineSeconds": 1})).await;
    let composed = fleet.composed().await;
    let second = fleet
        .install("v1.1.0", |_| {
            let mut answer = answer("two", &["a", "b"]);
            answer["desired"]["resources"]["a"]["ready"] = json!("READY_FALSE");
            answer
        })
        .await;
    let status = fleet.until_state("RolledBack").await;
    assert_eq!(status["rejected"], second);
    assert!(status["message"].as_str().unwrap().contains("not ready in time"), "{status:#}");
    for number in 0..COUNT {
        fleet
            .rollout
            .plane
            .until(&site(number), |site| is_ready(site) && site["status"]["color"] == "one")
            .await;
    }
    assert_eq!(fleet.composed().await, composed);
}

#[tokio::test]
async fn revision_that_works_for_the_first_and_fails_later_goes_back() {
    let mut fleet = Fleet::begin(json!({})).await;
    let composed = fleet.composed().await;
    let worked = Mutex::new(BTreeSet::new());
    fleet
        .install("v1.1.0", move |name| {
            let mut worked = worked.lock().unwrap();
            if worked.len() < 3 {
                worked.insert(name.to_owned());
            }
            if worked.contains(name) { answer("two", &["a", "b"]) } else { fatal() }
        })
        .await;
    let status = fleet.until_state("RolledBack").await;
    assert_eq!(status["differences"], json!({"Changed": 3, "Fails": 1}));
    fleet.assert_unharmed(&composed).await;
}

#[tokio::test]
async fn revision_that_crashes_while_it_is_rolled_out_goes_back() {
    let mut fleet = Fleet::begin(json!({"minReadySeconds": 600})).await;
    let composed = fleet.composed().await;
    let second = fleet.install("v1.1.0", |_| answer("two", &["a", "b"])).await;
    fleet.until(|status| status["composites"]["ready"] == 1).await;
    fleet.rollout.functions.set(&second, Some(PackagedFunction::Down("it ended".to_owned())));
    let status = fleet.until_state("RolledBack").await;
    assert!(status["message"].as_str().unwrap().contains("it ended"), "{status:#}");
    fleet.assert_unharmed(&composed).await;
}

#[tokio::test]
async fn revision_deletes_nothing_while_the_old_one_cannot_say_whether_it_would() {
    let mut fleet = Fleet::begin(json!({"paused": true})).await;
    let composed = fleet.composed().await;
    fleet.install("v1.1.0", |_| answer("two", &["a"])).await;
    fleet.until_state("Paused").await;
    fleet.rollout.functions.set(&fleet.first, Some(PackagedFunction::Down("it ended".to_owned())));
    fleet.rollout.plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
    let status = fleet.until_state("RolledBack").await;
    assert!(status["message"].as_str().unwrap().contains("cannot be called to compare"), "{status:#}");
    assert_eq!(status["differences"], json!({"Deleted": 1}));
    assert_eq!(fleet.composed().await, composed);
    // All are as before once the old one is there again.
    let again = PackagedFunction::Serving(runner(|_| answer("one", &["a", "b"])));
    fleet.rollout.functions.set(&fleet.first, Some(again));
    for number in 0..COUNT {
        let is_back = |site: &Value| is_ready(site) && site["status"]["color"] == "one";
        fleet.rollout.plane.until(&site(number), is_back).await;
    }
    assert_eq!(fleet.composed().await, composed);
}

#[tokio::test]
async fn plan_does_not_count_as_a_trial() {
    let more = json!({"waves": ["100%"], "maxUnavailable": "100%", "minReadySeconds": 600});
    let mut fleet = Fleet::begin(more).await;
    let second = fleet.install("v1.1.0", |_| answer("two", &["a", "b"])).await;
    fleet.until(|status| status["composites"]["ready"] == COUNT).await;
    // Nobody is reconciled any more, so that nobody notices that the revision is gone.
    for number in 0..COUNT {
        let paused = json!({"metadata": {"annotations": {"crossplane.io/paused": "true"}}});
        fleet.rollout.plane.merge(&site(number), &paused).await;
        let is_paused = |site: &Value| condition(site, "Synced").as_deref() == Some("False/ReconcilePaused");
        fleet.rollout.plane.until(&site(number), is_paused).await;
    }
    fleet.rollout.functions.set(&second, Some(PackagedFunction::Down("it ended".to_owned())));
    fleet.rollout.plane.quiet().await;
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any", "namespace": "default"}, "data": {},
    });
    fleet.rollout.plane.plan(&[object]).await.unwrap();
    fleet.rollout.plane.quiet().await;
    let status = fleet.until(|_| true).await;
    assert_eq!(
        (&status["state"], &status["differences"]),
        (&json!("Progressing"), &json!({"Changed": COUNT}))
    );
}

#[tokio::test]
async fn calls_for_plans_break_no_gate() {
    let more = json!({
        "waves": ["100%"], "maxUnavailable": "100%", "minReadySeconds": 600, "maxFailures": COUNT,
        "gates": {"minCalls": 1, "maxErrorPercent": 1, "maxLatencyFactor": 0},
    });
    let mut fleet = Fleet::begin(more).await;
    // It fails for those with a label.
    let call = |request| async move {
        let request = to_json(&request).unwrap();
        let metadata = &request["observed"]["composite"]["resource"]["metadata"];
        let is_labelled = metadata["labels"]["team"].is_string();
        Ok(from_json(&if is_labelled { fatal() } else { answer("two", &["a", "b"]) }).unwrap())
    };
    let picky = Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)));
    fleet.rollout.install_running("v1.1.0", None, picky).await;
    fleet.until(|status| status["composites"]["ready"] == COUNT).await;
    let labelled = json!({
        "apiVersion": "example.org/v1", "kind": "Site",
        "metadata": {"name": "site-0", "namespace": "default", "labels": {"team": "one"}},
    });
    fleet.rollout.plane.plan(&[labelled]).await.unwrap();
    // All that was called is judged now.
    fleet.rollout.plane.merge(ROLLOUT, &json!({"spec": {"minReadySeconds": 0}})).await;
    let status = fleet.until(|status| status["candidate"].is_null()).await;
    assert_eq!(status["state"], "Promoted", "{status:#}");
}

#[tokio::test]
async fn who_was_previewed_is_not_compared_again_unless_something_changed() {
    let mut fleet = Fleet::begin(json!({"preview": true, "paused": true})).await;
    let (old, new) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = |count: &Arc<AtomicUsize>, color: &'static str| {
        let count = count.clone();
        move |_: &str| {
            count.fetch_add(1, Ordering::Relaxed);
            answer(color, &["a", "b"])
        }
    };
    let counted = PackagedFunction::Serving(runner(counting(&old, "one")));
    fleet.rollout.functions.set(&fleet.first, Some(counted));
    fleet.rollout.plane.quiet().await;
    old.store(0, Ordering::Relaxed);
    fleet.install("v1.1.0", counting(&new, "two")).await;
    fleet.until_state("Paused").await;
    fleet.rollout.plane.quiet().await;
    // The preview calls the new revision a second time for a sample, which is one of so few.
    assert_eq!([&old, &new].map(|count| count.load(Ordering::Relaxed)), [COUNT, COUNT + 1]);

    // The label may be an input of functions.
    fleet.rollout.plane.merge(&site(0), &json!({"metadata": {"labels": {"team": "one"}}})).await;
    fleet.rollout.plane.quiet().await;
    for count in [&old, &new] {
        count.store(0, Ordering::Relaxed);
    }
    fleet.rollout.plane.merge(ROLLOUT, &json!({"spec": {"paused": null}})).await;
    fleet.until_state("Promoted").await;
    for number in 0..COUNT {
        fleet.rollout.plane.until(&site(number), |site| site["status"]["color"] == "two").await;
    }
    fleet.rollout.plane.quiet().await;
    assert_eq!(old.load(Ordering::Relaxed), 1, "only the one that changed is compared again");
    // The new revision composes each of them, and once more when its resources have changed.
    let called = new.load(Ordering::Relaxed);
    assert!(called <= 2 * COUNT + 1, "{called} calls for {COUNT} composite resources");
}

#[tokio::test]
async fn plan_for_who_was_moved_says_what_is_carried_out_if_the_revision_is_refused() {
    let more =
        json!({"waves": ["100%"], "maxUnavailable": "100%", "minReadySeconds": 600, "onFailure": "Pause"});
    let mut fleet = Fleet::begin(more).await;
    fleet.install("v1.1.0", |_| answer("two", &["a"])).await;
    fleet.until_state("Paused").await;
    fleet.rollout.plane.quiet().await;
    // It would delete `b`, and is not let.
    let label = json!({
        "apiVersion": "example.org/v1", "kind": "Site",
        "metadata": {"name": "site-0", "namespace": "default", "labels": {"team": "one"}},
    });
    let plan = fleet.rollout.plane.plan(&[label]).await.unwrap();
    let changes: Vec<_> = plan.composites.iter().flat_map(|it| &it.changes).collect();
    assert!(changes.iter().all(|change| change.object.kind == "Site"), "{plan:#?}");
}

#[tokio::test]
async fn revision_that_is_much_larger_can_be_refused() {
    let status = Fleet::refuse(json!({"refuse": ["Larger"]}), |_| {
        let mut answer = answer("two", &["a", "b"]);
        answer["desired"]["resources"]["a"]["resource"]["data"]["long"] = json!("x".repeat(40_000));
        answer
    });
    let status = status.await;
    assert_eq!(status["differences"], json!({"Changed": 1, "Larger": 1}));
}

#[tokio::test]
async fn revision_whose_calls_fail_too_often_goes_back_though_some_may_fail() {
    let more = json!({"maxFailures": 4, "gates": {"minCalls": 4, "maxErrorPercent": 10, "maxLatencyFactor": 0}, "waves": ["100%"]});
    let status = Fleet::refuse(more, |name| {
        // Two of five fail: less than may fail, and more than a tenth of all calls.
        if ["site-0", "site-1"].contains(&name) { fatal() } else { answer("two", &["a", "b"]) }
    });
    let status = status.await;
    assert!(status["message"].as_str().unwrap().contains("calls fail with it"), "{status:#}");
}

#[tokio::test]
async fn plane_that_is_restarted_goes_on_where_it_was() {
    let mut fleet = Fleet::begin(json!({"minReadySeconds": 3})).await;
    let second = fleet.install("v1.1.0", |_| answer("two", &["a", "b"])).await;
    let before = fleet.until(|status| status["composites"]["ready"] == 1).await;
    fleet.rollout.plane.restart().await;
    let after = fleet.rollout.plane.get(ROLLOUT).await["status"].clone();
    assert_eq!((&after["candidate"], &after["startedAt"]), (&before["candidate"], &before["startedAt"]));
    fleet.until(|status| status["wave"] == 2 || status["state"] == "Promoted").await;
    fleet.rollout.plane.restart().await;
    fleet.until_state("Promoted").await;
    for number in 0..COUNT {
        let site = fleet.rollout.plane.until(&site(number), |site| site["status"]["color"] == "two").await;
        assert_eq!(revisions_of(&site), [&*second]);
    }
}

#[tokio::test]
async fn old_revision_stays_active_beyond_the_limit_until_a_newer_one_is_promoted() {
    let mut fleet = Fleet::begin(json!({})).await;
    fleet.install("v1.1.0", |_| fatal()).await;
    fleet.until_state("RolledBack").await;
    let third = fleet.install("v1.2.0", |_| answer("three", &["a", "b"])).await;
    let status = fleet.until(|status| status["stable"] == third).await;
    assert_eq!(status["history"].as_array().unwrap().len(), 2);
    for number in 0..COUNT {
        fleet.rollout.plane.until(&site(number), |site| site["status"]["color"] == "three").await;
        let events = fleet.rollout.plane.events(&format!("site-{number}")).await;
        assert!(!events.iter().any(|event| event.starts_with("Warning")), "{events:#?}");
    }
    // Then the limit counts again.
    let active = |list: &Value| {
        let revisions = list["items"].as_array().unwrap().iter();
        revisions.filter(|it| it["spec"]["desiredState"] == "Active").count() == 2
    };
    fleet.rollout.plane.until("/apis/pkg.crossplane.io/v1/functionrevisions", active).await;
    assert_eq!(fleet.rollout.states().await, [(1, false), (2, true), (3, true)]);
}

#[tokio::test]
async fn limit_that_is_lowered_during_a_rollout_moves_nobody_past_its_gates() {
    let mut fleet = Fleet::begin(json!({"minReadySeconds": 600})).await;
    fleet.install("v1.1.0", |_| answer("two", &["a", "b"])).await;
    fleet.until(|status| status["composites"]["ready"] == 1).await;
    fleet.rollout.plane.merge(FUNCTION, &json!({"spec": {"activeRevisionLimit": 1}})).await;
    let is_told =
        |rollout: &Value| condition(rollout, "Accepted").as_deref() == Some("True/BeyondActiveRevisionLimit");
    fleet.rollout.plane.until(ROLLOUT, is_told).await;
    fleet.rollout.plane.quiet().await;
    let states = fleet.rollout.states().await;
    assert!(states.starts_with(&[(1, true), (2, true)]), "both revisions stay active: {states:?}");
    let moved = fleet.sites().await.iter().filter(|site| site["status"]["color"] == "two").count();
    assert_eq!(moved, 1);
    fleet.rollout.plane.merge(ROLLOUT, &json!({"spec": {"minReadySeconds": 0}})).await;
    fleet.until_state("Promoted").await;
    for number in 0..COUNT {
        fleet.rollout.plane.until(&site(number), |site| site["status"]["color"] == "two").await;
    }
}

#[tokio::test]
async fn limit_that_is_lowered_after_a_rollback_does_not_bring_the_revision_back() {
    let mut fleet = Fleet::begin(json!({})).await;
    let composed = fleet.composed().await;
    fleet.install("v1.1.0", |_| answer("two", &["a"])).await;
    fleet.until_state("RolledBack").await;
    fleet.rollout.plane.merge(FUNCTION, &json!({"spec": {"activeRevisionLimit": 1}})).await;
    let is_told =
        |rollout: &Value| condition(rollout, "Accepted").as_deref() == Some("True/BeyondActiveRevisionLimit");
    fleet.rollout.plane.until(ROLLOUT, is_told).await;
    fleet.rollout.plane.quiet().await;
    fleet.assert_unharmed(&composed).await;
}

#[tokio::test]
async fn promote_and_undo_that_are_requested_at_once_undo_once() {
    let mut fleet = Fleet::begin(json!({"paused": true})).await;
    let second = fleet.install("v1.1.0", |_| answer("two", &["a", "b"])).await;
    fleet.until_state("Paused").await;
    let annotations = json!({"rollout.ferroplane.io/undo": second, "rollout.ferroplane.io/promote": second});
    fleet.rollout.plane.merge(ROLLOUT, &json!({"metadata": {"annotations": annotations}})).await;
    fleet.until_state("RolledBack").await;
    fleet.rollout.plane.quiet().await;
    let status = fleet.until_state("RolledBack").await;
    assert_eq!(status["history"].as_array().unwrap().len(), 1, "{status:#}");
    assert_eq!((&status["handledUndo"], &status["handledPromote"]), (&json!(second), &json!(second)));
}

#[tokio::test]
async fn operations_call_the_stable_revision_until_another_one_is_promoted() {
    let mut fleet = Fleet::begin(json!({"minReadySeconds": 600})).await;
    let called = Arc::new(Mutex::new(Vec::new()));
    // Only requests of operations name no composite resource.
    let operating = |color: &'static str| {
        let called = called.clone();
        move |name: &str| {
            if !name.is_empty() {
                return answer(color, &["a", "b"]);
            }
            called.lock().unwrap().push(color);
            json!({"meta": {}})
        }
    };
    let first = PackagedFunction::Serving(runner(operating("one")));
    fleet.rollout.functions.set(&fleet.first, Some(first));
    fleet.rollout.plane.quiet().await;
    let second = fleet.install("v1.1.0", operating("two")).await;
    fleet.until(|status| status["composites"]["ready"] == 1).await;
    let operate = async |name: &str| {
        let path = format!("/apis/ops.crossplane.io/v1alpha1/operations/{name}");
        let step = json!({"step": "own", "functionRef": {"name": "own"}});
        let operation = json!({
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": name},
            "spec": {"mode": "Pipeline", "pipeline": [step]},
        });
        fleet.rollout.plane.apply(&path, &operation).await;
        let is_done = |it: &Value| condition(it, "Succeeded").as_deref() == Some("True/PipelineSuccess");
        fleet.rollout.plane.until(&path, is_done).await;
    };
    operate("before").await;
    let promote = json!({"metadata": {"annotations": {"rollout.ferroplane.io/promote": second}}});
    fleet.rollout.plane.merge(ROLLOUT, &promote).await;
    fleet.until_state("Promoted").await;
    operate("after").await;
    assert_eq!(*called.lock().unwrap(), ["one", "two"]);
}

#[tokio::test]
async fn undo_goes_back_from_what_was_promoted() {
    let mut fleet = Fleet::begin(json!({})).await;
    let second = fleet.install("v1.1.0", |_| answer("two", &["a", "b"])).await;
    fleet.until_state("Promoted").await;
    let undo = json!({"metadata": {"annotations": {"rollout.ferroplane.io/undo": second}}});
    fleet.rollout.plane.merge(ROLLOUT, &undo).await;
    let status = fleet.until_state("RolledBack").await;
    assert_eq!(status["stable"], fleet.first);
    for number in 0..COUNT {
        fleet.rollout.plane.until(&site(number), |site| site["status"]["color"] == "one").await;
    }
}

#[tokio::test]
async fn steps_that_name_a_revision_and_composites_on_manual_are_not_moved() {
    let mut fleet = Fleet::begin(json!({})).await;
    let manual = json!({"spec": {"crossplane": {"compositionUpdatePolicy": "Manual"}}});
    fleet.rollout.plane.merge(&site(0), &manual).await;
    fleet.rollout.plane.until(&site(0), is_ready).await;
    fleet.install("v1.1.0", |_| answer("two", &["a", "b"])).await;
    let status = fleet.until_state("Promoted").await;
    assert_eq!(
        (&status["composites"]["total"], &status["composites"]["manual"]),
        (&json!(COUNT - 1), &json!(1))
    );
    for number in 1..COUNT {
        fleet.rollout.plane.until(&site(number), |site| site["status"]["color"] == "two").await;
    }
    fleet.rollout.plane.quiet().await;
    assert_eq!(fleet.rollout.plane.get(&site(0)).await["status"]["color"], "one");
    // Nor are steps that say which revision.
    let named = json!({"functionRevisionRef": {"name": fleet.first}});
    fleet.rollout.compose("named", &named).await;
    for number in 1..COUNT {
        fleet.rollout.plane.until(&site(number), |site| site["status"]["color"] == "one").await;
    }
}

/// Whether or not there is a step besides that names none of them, and is moved.
#[tokio::test]
async fn steps_that_name_a_revision_labels_or_a_version_are_not_moved() {
    for is_moved in [true, false] {
        let mut fleet = Fleet::begin(json!({})).await;
        // Labels alone make no revision.
        assert_eq!(fleet.rollout.install("v1.0.0", Some("stable")).await, fleet.first);
        let (function, first) = (json!({"name": "own"}), fleet.first.clone());
        let mut steps = vec![
            json!({"step": "by-name", "functionRef": function, "functionRevisionRef": {"name": first}}),
            json!({
                "step": "by-labels", "functionRef": function,
                "functionRevisionSelector": {"matchLabels": {"release-channel": "stable"}},
            }),
            json!({"step": "by-version", "functionRef": {"name": "own", "version": "v1.0.0"}}),
        ];
        steps.extend(is_moved.then(|| json!({"step": "open", "functionRef": function})));
        compose(&fleet.rollout.plane, "several", &json!(steps)).await;
        let mut revisions = vec![&*first; steps.len()];
        for number in 0..COUNT {
            let is_composed = |site: &Value| is_ready(site) && revisions_of(site) == revisions;
            fleet.rollout.plane.until(&site(number), is_composed).await;
        }
        let two = runner(|_| answer("two", &["a", "b"]));
        let second = fleet.rollout.install_running("v1.1.0", Some("alpha"), two).await;
        let status = fleet.until(|status| status["stable"] == second).await;
        let total = status["composites"]["total"].as_u64().unwrap_or_default();
        assert_eq!(total, if is_moved { COUNT as u64 } else { 0 }, "{status:#}");
        fleet.rollout.plane.quiet().await;
        if is_moved {
            revisions[3] = &second;
        }
        for number in 0..COUNT {
            let site = fleet.rollout.plane.until(&site(number), is_ready).await;
            assert_eq!(revisions_of(&site), revisions);
        }
    }
}

#[tokio::test]
async fn rollout_says_what_it_needs_and_a_second_one_is_refused() {
    let fleet = Fleet::begin(json!({})).await;
    let plane = &fleet.rollout.plane;
    plane.apply(SECOND, &function_rollout("second", &json!({}))).await;
    let reason = |reason: &'static str| {
        move |rollout: &Value| condition(rollout, "Accepted").as_deref() == Some(reason)
    };
    plane.until(SECOND, reason("False/AnotherRollout")).await;
    plane.until(ROLLOUT, reason("True/Accepted")).await;
    plane.delete(ROLLOUT).await;
    plane.until(SECOND, |it| reason("True/Accepted")(it) && it["status"]["stable"] == fleet.first).await;
    plane.merge(FUNCTION, &json!({"spec": {"activeRevisionLimit": 1}})).await;
    // Every change of the spec makes a revision. If it comes before the refusal, it is rolled out first.
    let is_next = |function: &Value| function["status"]["currentRevision"] != *fleet.first;
    let next = plane.until(FUNCTION, is_next).await["status"]["currentRevision"].as_str().unwrap().to_owned();
    let functions = &fleet.rollout.functions;
    functions.wanted().wait_for(|wanted| wanted.contains_key(&next)).await.unwrap();
    functions.set(&next, Some(PackagedFunction::Serving(runner(|_| answer("one", &["a", "b"])))));
    let refused = plane.until(SECOND, reason("False/ActiveRevisionLimitTooLow")).await;
    assert_eq!(condition(&refused, "Ready").as_deref(), Some("False/ActiveRevisionLimitTooLow"));
    assert_eq!(refused["status"]["stable"], Value::Null);
}

#[tokio::test]
async fn waves_that_do_not_reach_all_are_refused_by_the_schema() {
    let fleet = Fleet::begin(json!({})).await;
    let (kind, change) = ("application/merge-patch+json", json!({"spec": {"waves": ["1", "10%"]}}));
    let (code, answer) = fleet.rollout.plane.send(http::Method::PATCH, ROLLOUT, kind, &change).await;
    assert_eq!(code, 422, "{answer:#}");
    assert!(answer["message"].as_str().unwrap().contains("the last wave has to be 100%"), "{answer:#}");
}
