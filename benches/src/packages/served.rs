//! A function in a package of 40 MB, installed by `ferroplane up` from a registry on the loopback, called, and upgraded while it is called.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::registry::{Options, Push, Registry};
use ferroplane_image::store::{Limits, Store};
use ferroplane_image::{Execution, Platform, Reference};
use ferroplane_testkit::{ApiAddress, ApiClient, DebianRegistry, Process, RegistrySetup};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::pretty;
use crate::process::{ferroplane, peers};

const META: &str =
    "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: function-own}\nspec: {}\n";
/// What the image has beside its program, so that it is 40 MB.
const SIZE: usize = 40_000_000;
const XRS: usize = 1000;
const PATIENCE: Duration = Duration::from_mins(2);
const FUNCTION: &str = "/apis/pkg.crossplane.io/v1/functions/own";
const THINGS: &str = "/apis/acme.org/v1/namespaces/default/things";

pub(super) fn run() {
    let program = peers().join("function-auto-ready");
    if !program.exists() || Command::new("skopeo").arg("--version").output().is_err() {
        println!("(skipped: function-auto-ready or skopeo is not installed)");
        return;
    }
    let Some(registry) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let runtime = Runtime::new().expect("there is a runtime");
    let size = u64::try_from(SIZE).unwrap_or_default() + program.metadata().map_or(0, |it| it.len());
    for version in ["v1.0.0", "v1.1.0"] {
        runtime.block_on(push(&registry, &program, version));
    }
    let transfer = transfer(&registry);
    let home = tempfile::tempdir().expect("there is room");
    let mut command = Command::new(ferroplane());
    command.args(["up", "--listen", "127.0.0.1:0", "--kubeconfig", "kubeconfig", "--data-dir", "data"]);
    command.current_dir(home.path()).env("HOME", home.path());
    let plane = Process::spawn(command);
    plane.lines_until("it is ready", |line| line.contains("the API server is ready"));
    runtime.block_on(measure(&home.path().join("kubeconfig"), &registry, size, transfer));
}

async fn measure(kubeconfig: &Path, registry: &DebianRegistry, size: u64, transfer: Duration) {
    let address = ApiAddress::from_kubeconfig(kubeconfig).expect("there is a kubeconfig");
    let mut plane = Client(ApiClient::connect(&address).await.expect("it listens"));
    plane.define().await;
    plane.thing("first").await;
    let started = Instant::now();
    plane.install(registry, "v1.0.0").await;
    plane.until("first", "Ready").await;
    let first = started.elapsed();
    println!(
        "| a function of {:.0} MB | |\n|---|---|",
        f64::from(u32::try_from(size).unwrap_or(u32::MAX)) / 1e6
    );
    println!("| skopeo copy to a directory | {} |", pretty(transfer));
    println!("| apply to the first answer | {} |", pretty(first));
    println!("| of that beyond the transfer | {} |\n", pretty(first.saturating_sub(transfer)));

    for number in 0..XRS {
        plane.thing(&format!("thing-{number}")).await;
    }
    plane.until(&format!("thing-{}", XRS - 1), "Ready").await;
    plane.all(|thing| holds(thing, "Ready")).await;
    let before = plane.failed_calls().await;
    let started = Instant::now();
    plane.install(registry, "v1.1.0").await;
    let upgraded = plane.upgraded().await;
    let elapsed = started.elapsed();
    let calls = plane.failed_calls().await - before;
    println!(
        "| upgrade under {XRS} XRs | XRs called by the new one | time | calls that failed | XRs that failed meanwhile |\n\
         |---|---|---|---|---|"
    );
    println!("| v1.0.0 to v1.1.0 | {XRS} | {} | {calls} | {upgraded} |", pretty(elapsed));
}

struct Client(ApiClient);

impl Client {
    async fn get(&mut self, path: &str) -> Value {
        let answer = self.0.send("GET", path, "").await.expect("it answers");
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }

    async fn apply(&mut self, path: &str, object: &Value) {
        let path = format!("{path}?fieldManager=bench&force=true");
        let kind = "application/apply-patch+yaml";
        let answer = self.0.send_with("PATCH", &path, &[("content-type", kind)], &object.to_string()).await;
        let answer = answer.expect("it answers");
        assert!(answer.code < 300, "{}", String::from_utf8_lossy(&answer.body));
    }

    async fn define(&mut self) {
        let definition = json!({
            "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
            "metadata": {"name": "things.acme.org"},
            "spec": {"group": "acme.org", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": [{
                "name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }]},
        });
        let composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "things"},
            "spec": {"compositeTypeRef": {"apiVersion": "acme.org/v1", "kind": "Thing"}, "mode": "Pipeline",
                "pipeline": [{"step": "ready", "functionRef": {"name": "own"}}]},
        });
        let extensions = "/apis/apiextensions.crossplane.io";
        self.apply(&format!("{extensions}/v2/compositeresourcedefinitions/things.acme.org"), &definition)
            .await;
        self.apply(&format!("{extensions}/v1/compositions/things"), &composition).await;
        while self.0.send("GET", THINGS, "").await.expect("it answers").code != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn thing(&mut self, name: &str) {
        let thing =
            json!({"apiVersion": "acme.org/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {}});
        self.apply(&format!("{THINGS}/{name}"), &thing).await;
    }

    async fn install(&mut self, registry: &DebianRegistry, version: &str) {
        let package = format!("{}/bench/own:{version}", registry.address);
        let function = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "own"},
            "spec": {"package": package},
        });
        self.apply(FUNCTION, &function).await;
    }

    async fn until(&mut self, thing: &str, condition: &str) {
        let began = Instant::now();
        loop {
            let found = self.get(&format!("{THINGS}/{thing}")).await;
            if holds(&found, condition) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{found}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn all(&mut self, is_so: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let list = self.get(THINGS).await;
            if list["items"].as_array().into_iter().flatten().all(&is_so) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "they are not all so");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many calls of functions have failed, also those that were tried again at once.
    async fn failed_calls(&mut self) -> u64 {
        let answer = self.0.send("GET", "/metrics", "").await.expect("it answers");
        assert_eq!(answer.code, 200);
        let text = String::from_utf8_lossy(&answer.body);
        let calls = text.lines().filter(|line| line.starts_with("function_run_function_response_total{"));
        let failed = calls.filter(|line| !line.contains("grpc_code=\"OK\""));
        failed.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Wait until the new revision has composed everything. Returns how many composite resources were seen to fail.
    async fn upgraded(&mut self) -> usize {
        let began = Instant::now();
        let mut failed = std::collections::BTreeSet::new();
        loop {
            let list = self.get(THINGS).await;
            let things = list["items"].as_array().cloned().unwrap_or_default();
            for thing in things.iter().filter(|thing| !holds(thing, "Synced")) {
                failed.insert(thing["metadata"]["name"].to_string());
            }
            let current = self.get(FUNCTION).await["status"]["currentRevision"].clone();
            let is_new = |thing: &Value| {
                let functions = thing["status"]["ferroplane"]["functions"].as_array();
                functions.into_iter().flatten().any(|it| it["revision"] == current)
            };
            if current.is_string() && things.iter().all(is_new) && began.elapsed() > Duration::from_secs(1) {
                return failed.len();
            }
            if began.elapsed() > PATIENCE {
                println!("(not all of them were called by the new revision within {} s)", PATIENCE.as_secs());
                return failed.len();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn holds(object: &Value, condition: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|it| it["type"] == condition && it["status"] == "True")
}

/// How long others take to fetch the image.
fn transfer(registry: &DebianRegistry) -> Duration {
    let place = tempfile::tempdir().expect("there is room");
    let from = format!("docker://{}/bench/own:v1.0.0", registry.address);
    let to = format!("dir:{}", place.path().join("copy").display());
    let started = Instant::now();
    let status = Command::new("skopeo")
        .args(["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false", &from, &to])
        .status();
    assert!(status.expect("skopeo runs").success());
    started.elapsed()
}

async fn push(registry: &DebianRegistry, program: &Path, version: &str) {
    let store = Store::open(registry.directory().join("store"), Limits::default()).expect("there is room");
    let mut files = Layer::new();
    files.add_file(program, "function").expect("it is a file");
    files.add_bytes(noise(version), "noise", false).expect("it is new");
    let mut manifests = Layer::new().annotate("io.crossplane.xpkg", "base");
    manifests.add_bytes(META.as_bytes().to_vec(), "package.yaml", false).expect("it is new");
    let mut builder = ImageBuilder::new(Platform::host());
    builder.execution = Execution {
        entrypoint: Some(vec!["/function".to_owned()]),
        user: Some("65532:65532".to_owned()),
        ..Execution::default()
    };
    builder.layers = vec![files, manifests];
    let image = builder.build(&store).expect("it is built");
    let reference = format!("{}/bench/own:{version}", registry.address);
    let reference = Reference::parse(&reference, None).expect("it is a reference");
    let client = Registry::new(Options::default()).expect("it needs no TLS");
    client.push(&reference, &image.digest, &Push::from(&store)).await.expect("it is pushed");
}

/// Bytes that cannot be compressed.
fn noise(seed: &str) -> Vec<u8> {
    let mut state =
        seed.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |state, byte| state.wrapping_mul(31) ^ u64::from(byte));
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(SIZE).collect()
}
