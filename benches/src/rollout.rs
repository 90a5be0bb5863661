//! Rollouts of functions: what a preview and a rollout of many composite resources take, and what the overlay costs each step.
//!
//! The functions are code in this process that answers at once, so that the figures are those of the control plane. The API server is in
//! memory. A preview is also measured with the built-in function-patch-and-transform, and with the Go one over mutual TLS. Plans of a
//! change of the Composition come last.

mod plans;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferroplane_api::Object;
use ferroplane_controllers::{PackagedFunction, PackagedFunctions};
use ferroplane_engine::intercept::Intercept;
use ferroplane_engine::rollout::Overlay;
use ferroplane_runner::{AsyncFunction, Runner, grpc};
use ferroplane_testkit::plane::sites::SITES;
use ferroplane_testkit::plane::{FakeRegistry, Plane};
use ferroplane_wire::from_json;
use nix::sys::resource::UsageWho;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::{Stopwatch, Times, at_rest, pretty, settle};
use crate::served_functions::{Program, ServedFunctions};

const COUNT: usize = 1000;
const ROLLOUT: &str = "/apis/rollout.ferroplane.io/v1alpha1/functionrollouts/own";
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";
const BUDGET: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(10);

pub(crate) fn run() {
    overlay();
    let runtime = Runtime::new().expect("there is a runtime");
    runtime.block_on(async {
        roll_out().await;
        preview_built_in().await;
        preview_served().await;
        plans::run().await;
    });
}

/// What each selection of a composite resource costs more.
fn overlay() {
    let rollout = object(&json!({
        "metadata": {"name": "own"},
        "spec": {"functionRef": {"name": "own"}, "first": {"matchLabels": {"tier": "canary"}}},
        "status": {
            "stable": "own-1", "candidate": "own-2", "wave": 2,
            "cohort": [{"until": "2026-11-01T00:00:00Z", "bound": "8fffffffffffffff", "movedAt": "2026-11-01T00:00:00Z"}],
        },
    }));
    let intercept = object(&json!({
        "metadata": {"name": "debug", "uid": "1"},
        "spec": {"functionRef": {"name": "own"}, "composites": {"kind": "Site", "name": "blog"}, "to": "laptop:9443"},
    }));
    let composite = object(&json!({
        "apiVersion": "example.org/v1", "kind": "Site",
        "metadata": {
            "name": "blog", "namespace": "default", "uid": "0b2f6c1e-6a53-4a55-9f0e-1f1e2d3c4b5a",
            "creationTimestamp": "2026-10-01T00:00:00Z", "labels": {"tier": "canary"},
        },
    }));
    let overlay = Overlay::read(&rollout).expect("it has a stable revision");
    let intercept = Intercept::read(&intercept).expect("it can be read");
    println!("| a look-up | best | p50 | p99 |\n|---|---|---|---|");
    // A thousand at a time: a clock is slower than one of them.
    let print = |what: &str, times: &Times| {
        let [best, p50, p99] = [times.best(), times.p50(), times.p99()].map(|time| pretty(time / 1000));
        println!("| {what} | {best} | {p50} | {p99} |");
    };
    let chosen =
        || (0..1000).filter(|_| overlay.revision(overlay.choose(&composite, false)) == "own-2").count();
    print("which revision a composite resource calls", &Times::of(BUDGET, chosen));
    let selected = || (0..1000).filter(|_| intercept.selects(&composite)).count();
    print("whether a developer's process is called", &Times::of(BUDGET, selected));
}

/// A fleet on which functions are rolled out.
struct Fleet {
    plane: Plane,
    functions: Arc<PackagedFunctions>,
    calls: Arc<AtomicUsize>,
}

/// What a change took.
struct Cost {
    wall: Duration,
    processor: Duration,
    calls: usize,
}

impl Cost {
    /// A row of the table, with the calls in percent of those of a plain change if that is known.
    fn print(&self, what: &str, plain: Option<&Self>) {
        let Self { wall, processor, calls } = self;
        let percent = plain.and_then(|plain| (calls * 100).checked_div(plain.calls));
        let percent = percent.map(|percent| format!("{percent} %")).unwrap_or_default();
        println!("| {what} | {} | {} | {calls} | {percent} |", pretty(*wall), pretty(*processor));
    }
}

fn print_head() {
    println!(
        "\n| {COUNT} XRs | wall | CPU | calls of functions | of those of a plain change |\n|---|---|---|---|---|"
    );
}

async fn roll_out() {
    let calls = Arc::<AtomicUsize>::default();
    let steps = json!([{"step": "own", "functionRef": {"name": "own"}}]);
    let fleet = Fleet::begin(&steps, answering("one", &calls), "one", &calls).await;
    print_head();
    // Without a rollout, all are moved at once.
    let plain = fleet.change("v2.0.0", answering("two", &calls), "two").await;
    plain.print("plain change", None);
    let waves = fleet.roll_out("v3.0.0", answering("three", &calls), &waves(), "Promoted").await;
    waves.print("rollout in waves", Some(&plain));
    let preview = fleet.roll_out("v4.0.0", answering("four", &calls), &preview(), "Paused").await;
    preview.print("preview", Some(&plain));
    let waves = fleet.roll_out("v4.0.0", answering("four", &calls), &waves_after_preview(), "Promoted").await;
    waves.print("rollout in waves, after that", Some(&plain));
    rest(&fleet).await;
}

/// What a policy costs while there is no new revision.
async fn rest(fleet: &Fleet) {
    // Without it first, and again afterwards: what a busy process still does for a while is no cost of the policy.
    fleet.plane.delete(ROLLOUT).await;
    settle().await;
    let before = at_rest(IDLE).await;
    fleet.adopt(&waves()).await;
    settle().await;
    let idle = at_rest(IDLE).await;
    fleet.plane.delete(ROLLOUT).await;
    settle().await;
    let after = at_rest(IDLE).await;
    println!(
        "\nCPU in {} s of rest, without a policy, with an idle one, and without again: {}, {}, {}",
        IDLE.as_secs(),
        pretty(before),
        pretty(idle),
        pretty(after)
    );
}

/// A preview with a function that is built in. Both revisions run the same code.
async fn preview_built_in() {
    let calls = Arc::<AtomicUsize>::default();
    let fleet = Fleet::begin(&patching(), built_in(&calls), "any", &calls).await;
    print_head();
    let preview = fleet.roll_out("v2.0.0", built_in(&calls), &preview(), "Paused").await;
    preview.print("preview with a built-in function", None);
}

/// The same preview with a function on the Go SDK, in two processes of which one is the new revision.
async fn preview_served() {
    let name = "function-patch-and-transform";
    let Some(served) = ServedFunctions::start(&[name, name]) else {
        println!("\n(skipped: a preview with a Go function; `cargo xtask peers` installs {name})");
        return;
    };
    let calls = Arc::<AtomicUsize>::default();
    let runners: Vec<_> = served.programs.iter().map(|it| calling(it, served.calls(), &calls)).collect();
    let [old, new] = runners.as_slice() else { return };
    let fleet = Fleet::begin(&patching(), old.clone(), "any", &calls).await;
    print_head();
    let preview = fleet.roll_out("v2.0.0", new.clone(), &preview(), "Paused").await;
    preview.print("preview with a Go function over mTLS", None);
}

fn preview() -> Value {
    json!({"functionRef": {"name": "own"}, "preview": true, "paused": true, "minReadySeconds": 0})
}

fn waves() -> Value {
    json!({"functionRef": {"name": "own"}, "minReadySeconds": 0})
}

fn waves_after_preview() -> Value {
    json!({"functionRef": {"name": "own"}, "minReadySeconds": 0, "preview": false, "paused": false})
}

/// The steps of a Composition that patches and transforms.
fn patching() -> Value {
    json!([
        {"step": "own", "functionRef": {"name": "own"}, "input": patches()},
        {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
    ])
}

/// Three `ConfigMap`s, and the color in the status.
fn patches() -> Value {
    let resources = ["a", "b", "c"].map(|name| {
        json!({
            "name": name, "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name}},
            "patches": [
                {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"},
                {"type": "ToCompositeFieldPath", "fromFieldPath": "data.color", "toFieldPath": "status.color"},
            ],
        })
    });
    json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources})
}

/// A function in this process that makes sites of this color.
fn answering(color: &str, calls: &Arc<AtomicUsize>) -> Arc<Runner> {
    let resource = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name, "color": color}});
        json!({"resource": object, "ready": "READY_TRUE"})
    };
    let answer = json!({"meta": {}, "desired": {
        "composite": {"resource": {"status": {"color": color}}},
        "resources": {"a": resource("a"), "b": resource("b"), "c": resource("c")},
    }});
    let calls = calls.clone();
    let call = move |_| {
        calls.fetch_add(1, Ordering::Relaxed);
        let answer = answer.clone();
        async move { Ok(from_json(&answer).expect("it is an answer")) }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}

/// The built-in function-patch-and-transform.
fn built_in(calls: &Arc<AtomicUsize>) -> Arc<Runner> {
    let function =
        ferroplane_functions::builtin("function-patch-and-transform", None).expect("it is built in");
    let calls = calls.clone();
    let call = move |request| {
        calls.fetch_add(1, Ordering::Relaxed);
        let response = function.run(&request);
        async move { Ok(response) }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}

/// A function that is a program of its own.
fn calling(program: &Program, options: grpc::Options, calls: &Arc<AtomicUsize>) -> Arc<Runner> {
    let target: grpc::Target = program.endpoint.parse().expect("it is an address");
    let client = Arc::new(grpc::Client::new(target, options).expect("it has certificates"));
    let calls = calls.clone();
    let call = move |request| {
        calls.fetch_add(1, Ordering::Relaxed);
        let client = client.clone();
        async move { client.call(&request).await }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}

impl Fleet {
    /// Sites that become what these steps say. Returns when all are of this color.
    async fn begin(steps: &Value, first: Arc<Runner>, color: &str, calls: &Arc<AtomicUsize>) -> Self {
        let registry = FakeRegistry::default();
        for version in ["v1.0.0", "v2.0.0", "v3.0.0", "v4.0.0"] {
            let image = format!("registry.example.org/acme/function-own:{version}");
            let package = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-own}\nspec: {}\n";
            registry.push(&image, &format!("# {version}\n{package}"));
        }
        let functions = registry.run_functions();
        let plane = Plane::with_registry(&registry).await;
        plane.define_sites().await;
        let fleet = Self { plane, functions, calls: calls.clone() };
        fleet.install("v1.0.0", first).await;
        fleet.plane.compose_sites_of(steps).await;
        for number in 0..COUNT {
            fleet.plane.create_site(&format!("site-{number}"), "any").await;
        }
        fleet.until_color(color).await;
        fleet
    }

    /// Install a version that this runs.
    async fn install(&self, version: &str, runner: Arc<Runner>) {
        let function = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "own"},
            "spec": {
                "package": format!("registry.example.org/acme/function-own:{version}"), "activeRevisionLimit": 2,
                "revisionHistoryLimit": 9,
            },
        });
        let applied = self.plane.apply(FUNCTION, &function).await;
        let is_current = |function: &Value| {
            function["status"]["currentIdentifier"] == applied["spec"]["package"]
                && function["status"]["currentRevision"].is_string()
        };
        let current = self.plane.until(FUNCTION, is_current).await;
        let revision = current["status"]["currentRevision"].as_str().unwrap_or_default().to_owned();
        let mut wanted = self.functions.wanted();
        wanted.wait_for(|wanted| wanted.contains_key(&revision)).await.expect("the controller wants it");
        self.functions.set(&revision, Some(PackagedFunction::Serving(runner)));
    }

    async fn until_color(&self, color: &str) {
        let is_all = |list: &Value| {
            let sites = list["items"].as_array().into_iter().flatten();
            sites.filter(|site| site["status"]["color"] == color).count() == COUNT
        };
        self.plane.until(SITES, is_all).await;
    }

    /// Install a version. What it takes until all sites are of its color.
    async fn change(&self, version: &str, runner: Arc<Runner>, color: &str) -> Cost {
        self.cost(async {
            self.install(version, runner).await;
            self.until_color(color).await;
        })
        .await
    }

    /// Have a rollout with this policy, beginning with the revision that is called.
    async fn adopt(&self, spec: &Value) {
        let rollout = json!({
            "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionRollout", "metadata": {"name": "own"}, "spec": spec,
        });
        self.plane.apply(ROLLOUT, &rollout).await;
        self.plane.until(ROLLOUT, |rollout| rollout["status"]["stable"].is_string()).await;
    }

    /// Install a version. What it takes until this rollout of it is in a state.
    async fn roll_out(&self, version: &str, runner: Arc<Runner>, spec: &Value, state: &str) -> Cost {
        self.adopt(spec).await;
        self.cost(async {
            self.install(version, runner).await;
            self.plane.until(ROLLOUT, |rollout| rollout["status"]["state"] == state).await;
        })
        .await
    }

    async fn cost(&self, work: impl Future<Output = ()>) -> Cost {
        let before = self.calls.load(Ordering::Relaxed);
        let (started, processor) = (Instant::now(), Stopwatch::start(UsageWho::RUSAGE_SELF));
        work.await;
        let calls = self.calls.load(Ordering::Relaxed) - before;
        Cost { wall: started.elapsed(), processor: processor.read(), calls }
    }
}

fn object(value: &Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}
