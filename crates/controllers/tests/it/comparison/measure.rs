//! What composing costs, with Crossplane and with our controllers, on the same API server and with the same functions: three
//! `ConfigMap`s per composite resource, two steps. `cargo xtask compare --controllers --measure 300` prints a table.
//!
//! Whoever makes composite resources and waits for them is a process of its own, so that nobody pays for it.

mod operations;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use ferroplane_testkit::plane::{ApiServer, condition, master, send};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::chapter::apply;
use super::functions::Functions;
use super::{Troupe, name};

const SITES: &str = "/apis/measure.example.org/v1/namespaces/default/sites";
/// How many are made one after the other, and how many requests are under way at once when there are many.
const SINGLE: usize = 30;
const CLIENTS: usize = 16;
const IDLE: Duration = Duration::from_mins(1);
const RESTART: Duration = Duration::from_secs(45);

/// With how many to measure, if the environment says so.
fn count(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn composing_is_measured() {
    let wanted = count("FERROPLANE_MEASURE");
    let (Some(count), false, None) = (wanted, name().is_empty(), std::env::var_os("FERROPLANE_LOAD")) else {
        return;
    };
    let ground = ApiServer::find().await;
    let client = ground.client(&master("user"));
    let mut functions = Functions::prepare();
    let troupe = Troupe::start(&ground, &functions).await;
    functions.install(&client).await;
    define(&client).await;
    let single = load("single", SINGLE);
    let before = Spent::now(&troupe);
    let many = load("many", count);
    let spent = Spent::now(&troupe).since(&before);
    let memory = troupe.processes().iter().map(|process| resident(*process)).sum::<u64>();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (before, written) = (Spent::now(&troupe), writes(&client).await);
    tokio::time::sleep(IDLE).await;
    let idle = Spent::now(&troupe).since(&before);
    let idle_writes = writes(&client).await - written;
    troupe.stop().await;
    let (ours_before, written) = (cpu(std::process::id()), writes(&client).await);
    let troupe = Troupe::start(&ground, &functions).await;
    tokio::time::sleep(RESTART).await;
    let restart = match &troupe {
        Troupe::Crossplane(_) => troupe.processes().iter().map(|process| cpu(*process)).sum(),
        Troupe::Ferroplane(_) => cpu(std::process::id()) - ours_before,
    };
    let restart_writes = writes(&client).await - written;
    troupe.stop().await;
    let per = |seconds: f64| seconds * 1000.0 / count_of(count);
    println!(
        "{}: {count} XRs: {:.1} ready/s, create to ready p50 {} ms; CPU per XR {:.2} ms, API server and etcd {:.1} ms; {} MB; \
         in {} s of rest {:.2} CPU-s, {idle_writes} writes; {} s after a restart {restart:.2} CPU-s, {restart_writes} writes; load {}",
        name(),
        count_of(count) / many.as_secs_f64(),
        single.as_millis(),
        per(spent.controllers),
        per(spent.servers),
        memory / 1024,
        IDLE.as_secs(),
        idle.controllers,
        RESTART.as_secs(),
        load_average(),
    );
}

/// How busy the machine is.
fn load_average() -> String {
    fs::read_to_string("/proc/loadavg").unwrap().trim().to_owned()
}

fn count_of(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}

impl Troupe {
    fn processes(&self) -> Vec<u32> {
        match self {
            Self::Crossplane(crossplane) => crossplane.processes(),
            Self::Ferroplane(_) => vec![std::process::id()],
        }
    }
}

/// CPU time, in seconds.
struct Spent {
    controllers: f64,
    servers: f64,
}

impl Spent {
    fn now(troupe: &Troupe) -> Self {
        let sum = |processes: Vec<u32>| processes.into_iter().map(cpu).sum();
        Self { controllers: sum(troupe.processes()), servers: sum(servers()) }
    }

    fn since(&self, before: &Self) -> Self {
        Self { controllers: self.controllers - before.controllers, servers: self.servers - before.servers }
    }
}

/// The processes of the API server that the supervisor has started.
fn servers() -> Vec<u32> {
    let supervisor = std::env::var("FERROPLANE_ORACLE_SUPERVISOR").unwrap();
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    let is_server = |process: &u32| {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        ["kube-apiserver", "etcd"].contains(&name.trim())
    };
    children.filter(is_server).collect()
}

/// The CPU time that a process has used, in seconds.
fn cpu(process: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may hold anything, but ends with the last parenthesis.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks =
        |place: usize| fields.split_whitespace().nth(place).map_or(0.0, |ticks| ticks.parse().unwrap());
    (ticks(11) + ticks(12)) / 100.0
}

/// The memory of a process, in kB.
fn resident(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().map_or(0, |number| number.parse().unwrap())
}

/// How many writes of composite resources, what they compose, and events the API server has seen.
async fn writes(client: &Client) -> i64 {
    let request = http::Request::builder().uri("/metrics").body(kube::client::Body::empty()).unwrap();
    let response = client.send(request).await.unwrap();
    let text = String::from_utf8(response.into_body().collect_bytes().await.unwrap().to_vec()).unwrap();
    let counts = |line: &&str| {
        let is_about =
            ["sites", "configmaps", "events"].iter().any(|it| line.contains(&format!("resource=\"{it}\"")));
        let is_write = ["APPLY", "PATCH", "PUT", "POST", "DELETE"];
        line.starts_with("apiserver_request_total{")
            && is_about
            && is_write.iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")))
    };
    let number = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number")]
    let sum = text.lines().filter(counts).map(number).sum::<f64>() as i64;
    sum
}

/// Make composite resources in another process, and wait for them. Returns how long that took, or one of them in the middle.
fn load(how: &str, count: usize) -> Duration {
    timed(how, count)[0]
}

/// Make something in another process. Returns the times that it prints.
fn timed(how: &str, count: usize) -> Vec<Duration> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "comparison::measure::others_make_composite_resources", "--nocapture"])
        .env("FERROPLANE_LOAD", format!("{how} {count}"))
        .output()
        .unwrap();
    let [text, trouble] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let times = text.lines().find_map(|line| line.strip_prefix("took "));
    let times = times.unwrap_or_else(|| panic!("{text}\n{trouble}"));
    times.split(' ').map(|micros| Duration::from_micros(micros.parse().unwrap())).collect()
}

#[tokio::test]
async fn others_make_composite_resources() {
    let Ok(load) = std::env::var("FERROPLANE_LOAD") else { return };
    let (how, count) = load.split_once(' ').unwrap();
    let count: usize = count.parse().unwrap();
    let client = ApiServer::reach(&master("user"));
    let took = match how {
        "single" => vec![one_by_one(&client, count).await],
        "many" => vec![many(&client, count).await],
        _ => operations::load(how, &client, count).await,
    };
    let micros: Vec<_> = took.iter().map(|time| time.as_micros().to_string()).collect();
    println!("\ntook {}", micros.join(" "));
}

async fn one_by_one(client: &Client, count: usize) -> Duration {
    let mut times = Vec::new();
    for number in 0..count {
        let (started, name) = (Instant::now(), format!("single-{number}"));
        create(client, &name).await;
        while !is_ready(&get(client, &format!("{SITES}/{name}")).await) {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        times.push(started.elapsed());
    }
    times.sort();
    times[count / 2]
}

async fn many(client: &Client, count: usize) -> Duration {
    let (started, user) = (Instant::now(), client.clone());
    for_all(count, move |number| {
        let user = user.clone();
        async move { create(&user, &format!("many-{number}")).await }
    })
    .await;
    loop {
        let list = get(client, &format!("{SITES}?resourceVersion=0")).await;
        let is_one =
            |site: &&Value| site["metadata"]["name"].as_str().unwrap().starts_with("many-") && is_ready(site);
        if list["items"].as_array().unwrap().iter().filter(is_one).count() == count {
            return started.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Do something for each number below `count`, several at once.
async fn for_all<F>(count: usize, work: impl Fn(usize) -> F + Clone + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let mut working = tokio::task::JoinSet::new();
    for first in 0..CLIENTS {
        let work = work.clone();
        working.spawn(async move {
            for number in (first..count).step_by(CLIENTS) {
                work(number).await;
            }
        });
    }
    working.join_all().await;
}

fn is_ready(site: &Value) -> bool {
    condition(site, "Ready").is_some_and(|ready| ready.starts_with("True"))
}

async fn create(client: &Client, name: &str) {
    let site = json!({
        "apiVersion": "measure.example.org/v1", "kind": "Site", "metadata": {"name": name}, "spec": {"color": "red"},
    });
    let (code, answer) = send(client, Method::POST, SITES, "application/json", &site).await;
    assert_eq!(code, 201, "{answer}");
}

async fn get(client: &Client, path: &str) -> Value {
    send(client, Method::GET, path, "application/json", &Value::Null).await.1
}

/// The kind, its composition, and time for both.
async fn define(client: &Client) {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"color": {"type": "string"}}},
    }});
    let definition = json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "sites.measure.example.org"},
        "spec": {"group": "measure.example.org", "names": {"kind": "Site", "plural": "sites"}, "versions": [
            {"name": "v1", "served": true, "referenceable": true, "schema": {"openAPIV3Schema": schema}},
        ]},
    });
    apply(client, &definition).await;
    let resources = ["one", "two", "three"].map(|name| {
        let patch =
            json!({"type": "FromCompositeFieldPath", "fromFieldPath": "spec.color", "toFieldPath": "data.color"});
        json!({"name": name, "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"who": name}}, "patches": [patch]})
    });
    let input =
        json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": resources});
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "measure"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "measure.example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [
                {"step": "settings", "functionRef": {"name": "function-patch-and-transform"}, "input": input},
                {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
            ],
        },
    });
    apply(client, &composition).await;
    while send(client, Method::GET, SITES, "application/json", &Value::Null).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
}
