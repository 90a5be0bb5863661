//! Composite resources on the embedded plane, all in this process: how fast they become ready, what they cost when nothing
//! happens, and after a restart. Three `ConfigMap`s each, two steps, built-in functions, everything durable.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::doors::Door;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Server, Settings as ServerSettings};
use ferroplane_controllers::{BuiltIns, Clock, Cluster, Controllers, Settings, install};
use ferroplane_functions::Library;
use ferroplane_runner::{Answers, Directory, grpc};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use nix::sys::resource::UsageWho;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::measure::{Stopwatch, Times, pretty};

const SITES: &str = "/apis/bench.ferroplane.io/v1/namespaces/default/sites";
/// How many are made one after the other, and how many at once.
const SINGLE: usize = 200;
const CLIENTS: usize = 32;
const IDLE: Duration = Duration::from_secs(10);
/// How many there are at each look.
const SIZES: [usize; 2] = [1_000, 10_000];

pub(crate) fn run() {
    let runtime = Runtime::new().expect("there is a runtime");
    let directory = tempfile::tempdir().expect("there is room");
    runtime.block_on(async {
        let plane = Plane::start(directory.path()).await;
        plane.define().await;
        plane.one_by_one().await;
        println!(
            "\n| XRs | ready per second | CPU per XR | memory | idle CPU in {} s | idle writes |",
            IDLE.as_secs()
        );
        println!("|---|---|---|---|---|---|");
        let mut made = SINGLE;
        for size in SIZES {
            plane.many(made, size).await;
            made = size;
        }
        let plane = plane.restart(directory.path(), made).await;
        plane.stop().await;
    });
}

struct Plane {
    client: kube::Client,
    server: Server,
    controllers: Controllers,
    ready: Arc<Seen>,
}

/// When composite resources were seen to be ready.
#[derive(Default)]
struct Seen {
    at: Mutex<HashMap<String, Instant>>,
    news: Notify,
}

impl Seen {
    async fn wait_for(&self, count: usize) {
        loop {
            let news = self.news.notified();
            if self.at.lock().expect("nobody panics").len() >= count {
                return;
            }
            news.await;
        }
    }
}

impl Plane {
    async fn start(directory: &Path) -> Self {
        let store = Store::open(directory, Options::default()).expect("nobody else has it");
        let server = Server::start(store, ServerSettings::default()).await.expect("it starts");
        let client = |name: &str| {
            let identity = Identity::authenticated(name, ["system:masters".to_owned()]);
            kube::Client::new(Door::inside(server.clone(), identity), "default")
        };
        install(&Cluster::new(client("ferroplane"))).await.expect("kinds are installed");
        let library = Library::built_in().expect("functions are in order");
        let settings = Settings {
            clock: Clock::system(),
            built_ins: BuiltIns {
                catalogue: library.catalogue().clone(),
                directory: Directory::built_in(&library),
                capabilities: library.capabilities(),
                natives: Arc::new(|_| None),
            },
            calls: grpc::Options::default(),
            answers: Arc::new(Answers::in_memory()),
            writes_roles: true,
        };
        let controllers = Controllers::start(client("ferroplane"), settings).await.expect("they start");
        Self { client: client("user"), server, controllers, ready: Arc::default() }
    }

    async fn stop(self) {
        self.controllers.stop().await;
        self.server.stop();
        let store = self.server.store().clone();
        drop((self.server, self.client));
        store.close().await;
    }

    async fn define(&self) {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"color": {"type": "string"}}},
        }});
        let definition = json!({
            "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
            "metadata": {"name": "sites.bench.ferroplane.io"},
            "spec": {"group": "bench.ferroplane.io", "names": {"kind": "Site", "plural": "sites"}, "versions": [
                {"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema}},
            ]},
        });
        self.post("/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions", &definition).await;
        let resources = ["one", "two", "three"].map(|name| {
            json!({
                "name": name, "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name}},
                "patches": [
                    {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"},
                ],
            })
        });
        let input =
            json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources});
        let composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
            "spec": {
                "compositeTypeRef": {"apiVersion": "bench.ferroplane.io/v1", "kind": "Site"}, "mode": "Pipeline",
                "pipeline": [
                    {"step": "settings", "functionRef": {"name": "function-patch-and-transform"}, "input": input},
                    {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
                ],
            },
        });
        self.post("/apis/apiextensions.crossplane.io/v1/compositions", &composition).await;
        while self.send(Method::GET, SITES, &Value::Null).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.follow().await;
        // The revision is there, and judged, once the first one is ready.
        self.make("first").await;
        self.ready.wait_for(1).await;
        self.ready.at.lock().expect("nobody panics").clear();
    }

    /// Note when composite resources become ready.
    async fn follow(&self) {
        let request =
            Request::get(format!("{SITES}?watch=true")).body(Body::empty()).expect("it is a request");
        let response = self.client.send(request).await.expect("it is answered");
        let (ready, mut body) = (self.ready.clone(), response.into_body());
        tokio::spawn(async move {
            let mut rest = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                rest.extend_from_slice(&data);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<_> = rest.drain(..=end).collect();
                    note(&ready, &line);
                }
            }
        });
    }

    async fn make(&self, name: &str) {
        let site = json!({
            "apiVersion": "bench.ferroplane.io/v1", "kind": "Site", "metadata": {"name": name},
            "spec": {"color": "red"},
        });
        self.post(SITES, &site).await;
    }

    async fn one_by_one(&self) {
        let mut times = Vec::new();
        for number in 0..SINGLE {
            let name = format!("site-{number}");
            let before = Instant::now();
            self.make(&name).await;
            self.ready.wait_for(number + 1).await;
            times.push(self.ready.at.lock().expect("nobody panics")[&name] - before);
        }
        let times = Times::from(times);
        println!("| one after the other | best | p50 | p99 |\n|---|---|---|---|");
        println!(
            "| create to Ready | {} | {} | {} |",
            pretty(times.best()),
            pretty(times.p50()),
            pretty(times.p99())
        );
    }

    async fn many(&self, made: usize, wanted: usize) {
        let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
        let started = Instant::now();
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let plane = (self.client.clone(), made + client);
            clients.spawn(async move {
                let (client, first) = plane;
                for number in (first..wanted).step_by(CLIENTS) {
                    let site = json!({
                        "apiVersion": "bench.ferroplane.io/v1", "kind": "Site",
                        "metadata": {"name": format!("site-{number}")}, "spec": {"color": "red"},
                    });
                    assert_eq!(send(&client, Method::POST, SITES, &site).await.0, 201);
                }
            });
        }
        clients.join_all().await;
        self.ready.wait_for(wanted).await;
        let (elapsed, used) = (started.elapsed(), processor.read());
        let count = u32::try_from(wanted - made).expect("it is small");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (revision, idle) = (self.revision().await, Stopwatch::start(UsageWho::RUSAGE_SELF));
        tokio::time::sleep(IDLE).await;
        let idle = idle.read();
        println!(
            "| {wanted} | {:.0} | {} | {} MB | {} | {} |",
            f64::from(count) / elapsed.as_secs_f64(),
            pretty(used / count),
            resident() / 1_000_000,
            pretty(idle),
            self.revision().await - revision,
        );
    }

    /// Start again with everything that is there, and see what that costs.
    async fn restart(self, directory: &Path, count: usize) -> Self {
        self.stop().await;
        let processor = Stopwatch::start(UsageWho::RUSAGE_SELF);
        let started = Instant::now();
        let plane = Self::start(directory).await;
        let up = started.elapsed();
        let revision = plane.revision().await;
        let mut used = processor.read();
        // It is done when the processor has nothing to do.
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = processor.read();
            if now.saturating_sub(used) < Duration::from_millis(20) {
                break;
            }
            used = now;
        }
        println!(
            "\nrestart with {count} XRs: up after {}, {} CPU until nothing happens, {} writes, {} MB",
            pretty(up),
            pretty(used),
            plane.revision().await - revision,
            resident() / 1_000_000,
        );
        plane
    }

    /// How much has been written.
    async fn revision(&self) -> u64 {
        let (_, list) = self.send(Method::GET, &format!("{SITES}?limit=1"), &Value::Null).await;
        list["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|version| version.parse().ok())
            .unwrap_or_default()
    }

    async fn post(&self, path: &str, object: &Value) {
        let (code, answer) = self.send(Method::POST, path, object).await;
        assert_eq!(code, 201, "{answer}");
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        send(&self.client, method, path, body).await
    }
}

async fn send(client: &kube::Client, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response =
        client.send(request.body(Body::from(text)).expect("it is a request")).await.expect("it is answered");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.expect("it is read");
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn note(ready: &Seen, line: &[u8]) {
    let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
    let site = &event["object"];
    let conditions = site["status"]["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|condition| condition["type"] == "Ready");
    if conditions.any(|condition| condition["status"] == "True")
        && let Some(name) = site["metadata"]["name"].as_str()
    {
        ready.at.lock().expect("nobody panics").entry(name.to_owned()).or_insert_with(Instant::now);
        ready.news.notify_waiters();
    }
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok()).unwrap_or_default()
        * 1024
}
