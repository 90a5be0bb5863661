//! The API server as a process of its own, over TLS, side by side with a real one where one runs.
//!
//! `cargo xtask oracle --durable -- cargo xtask bench apiserver` has both in one run. The load comes from this process, on the same
//! cores: what it costs, both pay.

mod contestant;
mod definitions;
mod watches;

use std::time::{Duration, Instant};

use ferroplane_testkit::{ApiAnswer, ApiClient};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::measure::{Times, pretty};
use contestant::Contestant;

const CONNECTIONS: [usize; 3] = [1, 64, 256];
/// How long each load lasts.
const SPELL: Duration = Duration::from_secs(4);
const LISTED: usize = 10_000;
const WATCHERS: [usize; 3] = [1, 100, 1000];
const DEFINITIONS: usize = 1000;

pub(crate) fn run() {
    let runtime = Runtime::new().expect("there is a runtime");
    runtime.block_on(async {
        let mut contestants = Vec::new();
        contestants.extend(Contestant::real());
        if contestants.is_empty() {
            println!("(skipped: kube-apiserver; `cargo xtask oracle --durable -- cargo xtask bench apiserver` starts it)\n");
        }
        contestants.push(Contestant::ours().await);
        for contestant in &contestants {
            make_widgets(&mut contestant.client().await).await;
        }
        println!("| what | best | p50 | p99 | per second |\n|---|---|---|---|---|");
        for connections in CONNECTIONS {
            for contestant in &contestants {
                creates(contestant, connections, Kind::ConfigMap).await;
                creates(contestant, connections, Kind::Widget).await;
            }
        }
        for contestant in &contestants {
            reads(contestant).await;
        }
        println!("\n| watchers | first knows, p50 | p99 | all know, p50 | p99 |\n|---|---|---|---|---|");
        for watchers in WATCHERS {
            for contestant in &contestants {
                watches::measure(contestant, watchers).await;
            }
        }
        println!("\n| server | ready after | memory, empty | memory, {LISTED} objects of 1 kB more |\n|---|---|---|---|");
        for contestant in &mut contestants {
            contestant.print_memory(LISTED).await;
        }
        // Last, because it leaves much behind. Ours begins anew: what it has let go of before would be used again.
        contestants.pop();
        contestants.push(Contestant::ours().await);
        println!("\n| definitions | all are served after | memory | more than before, of each |\n|---|---|---|---|");
        for contestant in &contestants {
            definitions::measure(contestant, DEFINITIONS).await;
        }
    });
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    ConfigMap,
    Widget,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Self::ConfigMap => "/api/v1/namespaces/default/configmaps",
            Self::Widget => "/apis/bench.ferroplane.io/v1/namespaces/default/widgets",
        }
    }

    fn object(self, name: &str) -> Value {
        let text = "x".repeat(700);
        match self {
            Self::ConfigMap => json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "bench"}},
                "data": {"text": text},
            }),
            Self::Widget => json!({
                "apiVersion": "bench.ferroplane.io/v1", "kind": "Widget",
                "metadata": {"name": name, "labels": {"app": "bench"}},
                "spec": {"size": 3, "text": text, "items": [{"name": "a", "value": 1}, {"name": "b", "value": 2}]},
            }),
        }
    }
}

/// Creates objects on some connections, each as fast as answers come.
async fn creates(contestant: &Contestant, connections: usize, kind: Kind) {
    let mut tasks = tokio::task::JoinSet::new();
    let end = Instant::now() + SPELL;
    for connection in 0..connections {
        let mut client = contestant.client().await;
        tasks.spawn(async move {
            let mut times = Vec::new();
            let mut number = 0;
            while Instant::now() < end {
                let name = format!("c{connections}-{connection}-{number}");
                let body = kind.object(&name).to_string();
                let started = Instant::now();
                let answer = send(&mut client, "POST", kind.path(), &body).await;
                times.push(started.elapsed());
                assert_eq!(answer.code, 201, "{}", String::from_utf8_lossy(&answer.body));
                number += 1;
            }
            times
        });
    }
    let times: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    #[expect(clippy::cast_precision_loss, reason = "there are not that many")]
    let rate = times.len() as f64 / SPELL.as_secs_f64();
    let times = Times::from(times);
    println!(
        "| {}: create {kind:?}, {connections} connections | {} | {} | {} | {rate:.0} |",
        contestant.name(),
        pretty(times.best()),
        pretty(times.p50()),
        pretty(times.p99()),
    );
}

async fn reads(contestant: &Contestant) {
    let mut client = contestant.client().await;
    let path = format!("{}/c1-0-0", Kind::ConfigMap.path());
    measure(contestant, "get an object", 500, &mut client, &path).await;
    let listed = format!("{}?limit={LISTED}", Kind::ConfigMap.path());
    let answer = send(&mut client, "GET", &listed, "").await;
    let words = format!("list up to {LISTED} objects, {:.1} MB", mega(answer.body.len()));
    measure(contestant, &words, 50, &mut client, &listed).await;
}

async fn measure(contestant: &Contestant, what: &str, rounds: usize, client: &mut ApiClient, path: &str) {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        let answer = send(client, "GET", path, "").await;
        times.push(started.elapsed());
        assert_eq!(answer.code, 200);
    }
    let times = Times::from(times);
    println!(
        "| {}: {what} | {} | {} | {} | {:.0} |",
        contestant.name(),
        pretty(times.best()),
        pretty(times.p50()),
        pretty(times.p99()),
        1.0 / times.p50().as_secs_f64()
    );
}

#[expect(clippy::cast_precision_loss, reason = "it is for people")]
fn mega(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// Defines a kind with a schema, defaults and a rule, and waits until it is served.
async fn make_widgets(client: &mut ApiClient) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = send(client, "POST", path, &definition("widgets", "Widget").to_string()).await;
    assert!(matches!(answer.code, 201 | 409), "{}", String::from_utf8_lossy(&answer.body));
    until_served(client, Kind::Widget.path()).await;
}

async fn until_served(client: &mut ApiClient, path: &str) {
    let began = Instant::now();
    while send(client, "GET", path, "").await.code != 200 {
        assert!(began.elapsed() < Duration::from_mins(5), "the kind is never served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.bench.ferroplane.io")},
        "spec": {
            "group": "bench.ferroplane.io", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {
                    "type": "object",
                    "properties": {
                        "size": {"type": "integer", "minimum": 0},
                        "color": {"type": "string", "default": "red"},
                        "text": {"type": "string", "maxLength": 4096},
                        "items": {
                            "type": "array", "maxItems": 50,
                            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "required": ["name"], "properties": {
                                "name": {"type": "string", "maxLength": 63}, "value": {"type": "integer"},
                            }},
                        },
                    },
                    "x-kubernetes-validations": [{"rule": "self.size >= size(self.items)"}],
                }},
            }}}],
        },
    })
}

async fn send(client: &mut ApiClient, method: &str, path: &str, body: &str) -> ApiAnswer {
    client.send(method, path, body).await.expect("the server answers")
}
