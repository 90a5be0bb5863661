//! Functions are rolled out on a cluster: design 000 step by step with kubectl, and a rollout whose leader is killed.

use rustix::process::Signal;

use super::ground::{BUCKETS, FUNCTIONS, Ground, ROLLOUTS};
use super::replica::Replica;
use crate::packages::LocalRegistry;
use crate::peers::peer;
use crate::rollout::{
    BUILT_IN, built_in_packages, define, function, open_bucket, open_composition, roll_out, rollout,
    settings, until_status,
};

const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/buckets";
/// The kinds that the tests apply, which kubectl does not wait for.
const KINDS: [&str; 4] = [
    "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions",
    "/apis/apiextensions.crossplane.io/v1/compositions",
    FUNCTIONS,
    ROLLOUTS,
];

/// A replica that installs packages and lets steps choose among their revisions, with a cache of this name.
fn begin(ground: &Ground, cache: &str) -> Replica {
    let cache = ground.path(cache);
    let flags = [
        "--enable-packages",
        "--enable-function-revision-selectors",
        "--lease-duration",
        "3s",
        "--xpkg-cache-dir",
        cache.to_str().unwrap(),
    ];
    Replica::start(ground, &flags)
}

/// The same as the leader, when its kinds are served.
fn lead(ground: &Ground) -> Replica {
    let replica = begin(ground, "images");
    replica.until("became the leader");
    for kind in KINDS {
        ground.until(kind, |list| list["items"].is_array());
    }
    replica
}

#[test]
fn function_that_is_built_in_is_rolled_out_by_labels_on_a_cluster() {
    let (Some(_), Some(registry)) = (peer("kubectl"), LocalRegistry::start()) else { return };
    let ground = Ground::new();
    let shell = ground.shell();
    let replica = lead(&ground);
    let images = built_in_packages(&registry);
    let versions = roll_out(&shell, BUILT_IN, images.each_ref().map(String::as_str), &settings(&["a"]));
    assert_eq!(versions, ["v0.8.1", "v0.8.2"]);
    replica.stop();
    ground.sweep();
}

/// Its revisions are WebAssembly, which a cluster runs without pods.
#[cfg(feature = "wasm")]
#[test]
fn function_that_is_not_built_in_is_rolled_out_by_labels_on_a_cluster() {
    use serde_json::Value;

    use crate::containers::registry::TestRegistry;
    use crate::wasm::{PACKAGE, counting, image};

    let (Some(_), Some(registry)) = (peer("kubectl"), TestRegistry::start(false)) else { return };
    let ground = Ground::new();
    let shell = ground.shell();
    let replica = lead(&ground);
    let images = [("v1.0.0", "One"), ("v1.1.0", "Two")].map(|(version, reason)| {
        let answer = format!(
            r#"{{"conditions": [{{"type": "Ran", "status": "STATUS_CONDITION_TRUE", "reason": "{reason}_"}}]}}"#
        );
        registry.push(&image(counting(&answer), Some(PACKAGE)), &format!("acme/function-own:{version}"))
    });
    let versions = roll_out(&shell, "own", images.each_ref().map(String::as_str), "");
    assert_eq!(versions, ["v1.0.0", "v1.1.0"]);
    for (xr, reason) in [("other", "One0"), ("my-bucket", "Two0")] {
        let has_ran = |it: &Value| it["type"] == "Ran" && it["reason"] == reason;
        ground.until(&format!("{BUCKETS}/{xr}"), |bucket| {
            bucket["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(has_ran))
        });
    }
    replica.stop();
    ground.sweep();
}

#[test]
fn rollout_continues_where_it_was_when_another_replica_leads() {
    let (Some(_), Some(registry)) = (peer("kubectl"), LocalRegistry::start()) else { return };
    let ground = Ground::new();
    let shell = ground.shell();
    let images = built_in_packages(&registry);
    let mut first = lead(&ground);
    let second = begin(&ground, "other-images");
    second.until("replica stands by");
    define(&shell);
    shell.told("kubectl apply -f -", &function(BUILT_IN, &images[0], "any"));
    shell.says(&format!("kubectl wait function/{BUILT_IN} --for=condition=Healthy --timeout=120s"));
    shell.told("kubectl apply -f -", &open_composition(&settings(&["a"])));
    shell.told("kubectl apply -f -", &["one", "two"].map(open_bucket).concat());
    shell.says("kubectl wait acmebuckets --all --for=condition=Ready --timeout=60s");
    let policy = |seconds: u32| {
        let fields = format!("waves: ['1', '100%'], minReadySeconds: {seconds}");
        rollout(&format!("functionRef: {{name: {BUILT_IN}}}, {fields}"))
    };
    shell.told("kubectl apply -f -", &policy(600));
    until_status(&shell, "state", "Idle");
    shell.told("kubectl apply -f -", &function(BUILT_IN, &images[1], "any"));
    until_status(&shell, "composites.ready", "1");

    let before = ground.get(ROLLOUT)["status"].clone();
    first.signal(Signal::KILL);
    first.end();
    second.until("became the leader");
    let after = ground.get(ROLLOUT)["status"].clone();
    for field in ["candidate", "stable", "startedAt", "state", "wave", "cohort"] {
        assert_eq!(after[field], before[field], "{field}: {after:#}");
    }
    shell.told("kubectl apply -f -", &policy(0));
    until_status(&shell, "state", "Promoted");
    for bucket in ["one", "two"] {
        ground.until(&format!("{BUCKETS}/{bucket}"), |bucket| {
            bucket["status"]["ferroplane"]["functions"][0]["version"] == "v0.8.2"
        });
    }
    second.stop();
    ground.sweep();
}
