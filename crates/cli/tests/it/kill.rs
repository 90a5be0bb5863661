//! Kills the real program, over and over, while others write: what was acknowledged is there, and watches have no gap.
//!
//! `FERROPLANE_KILLS` says how often; the ordinary test is content with a few.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferroplane_testkit::{ApiAddress, ApiClient};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 8;

/// The program while it runs. It never outlives the test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What writers were told: for each object, the highest count that was acknowledged, and the highest that was tried.
type Ledger = BTreeMap<String, Told>;

#[derive(Debug, Clone, Copy, Default)]
struct Told {
    acknowledged: u64,
    tried: u64,
}

#[test]
fn program_that_is_killed_forgets_nothing_that_it_acknowledged() {
    let kills = std::env::var("FERROPLANE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(6);
    let home = TempDir::new().unwrap();
    let mut ledger = Ledger::new();
    let mut seen = 0;
    Runtime::new().unwrap().block_on(async {
        for round in 0..kills {
            let (mut child, address) = start(home.path()).await;
            seen = check(&address, &ledger, seen).await;
            let life = Duration::from_millis(40 + (round * 37) % 200);
            write_until_killed(&mut child, &address, &mut ledger, life).await;
        }
        let (mut child, address) = start(home.path()).await;
        check(&address, &ledger, seen).await;
        child.kill();
    });
    assert!(ledger.values().any(|told| told.acknowledged > 0), "nothing was ever acknowledged");
}

pub(crate) async fn start(home: &Path) -> (Running, ApiAddress) {
    let kubeconfig = home.join("kubeconfig");
    // An old one would name the port of a server that is gone.
    let _ = std::fs::remove_file(&kubeconfig);
    let child = Command::new(env!("CARGO_BIN_EXE_ferroplane"))
        .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = Running(child.unwrap());
    let began = Instant::now();
    loop {
        if let Some(address) = ApiAddress::from_kubeconfig(&kubeconfig)
            && ApiClient::connect(&address).await.is_ok()
        {
            return (child, address);
        }
        assert!(began.elapsed() < Duration::from_secs(20), "the server does not start");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Everybody counts in an object of their own, each count in one write, until the server is gone.
async fn write_until_killed(child: &mut Running, address: &ApiAddress, ledger: &mut Ledger, life: Duration) {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let name = format!("writer-{writer}");
        let told = ledger.get(&name).copied().unwrap_or_default();
        let address = address.clone();
        writers.spawn(async move {
            let told = count(&address, &name, told).await;
            (name, told)
        });
    }
    tokio::time::sleep(life).await;
    child.kill();
    ledger.extend(writers.join_all().await);
}

async fn count(address: &ApiAddress, name: &str, mut told: Told) -> Told {
    let Ok(mut client) = ApiClient::connect(address).await else { return told };
    let mut exists = told.acknowledged > 0 || told.tried > 0;
    loop {
        told.tried += 1;
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"count": told.tried.to_string(), "again": told.tried.to_string()},
        });
        let (method, path) =
            if exists { ("PUT", format!("{MAPS}/{name}")) } else { ("POST", MAPS.to_owned()) };
        match client.send(method, &path, &map.to_string()).await {
            Ok(answer) if matches!(answer.code, 200 | 201) => {
                told.acknowledged = told.tried;
                exists = true;
            }
            // What was tried before the last kill may be there, or not.
            Ok(answer) if answer.code == 404 || answer.code == 409 => exists = answer.code == 409,
            Ok(answer) => panic!("{}: {}", answer.code, String::from_utf8_lossy(&answer.body)),
            Err(_) => return told,
        }
    }
}

/// Compares what is there with what was told, and watches from where the last check ended. Says where this one did.
async fn check(address: &ApiAddress, ledger: &Ledger, seen: u64) -> u64 {
    let mut client = ApiClient::connect(address).await.unwrap();
    let answer = client.send("GET", MAPS, "").await.unwrap();
    let list: Value = serde_json::from_slice(&answer.body).unwrap();
    let counts = counts(list["items"].as_array().unwrap());
    for (name, told) in ledger {
        let count = counts.get(name).copied().unwrap_or_default();
        assert!(count >= told.acknowledged, "{name} was told {told:?} and has {count}");
        assert!(count <= told.tried, "{name} tried {told:?} and has {count}");
    }
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    if seen > 0 {
        let path = format!("{MAPS}?watch=true&timeoutSeconds=1&resourceVersion={seen}");
        let answer = client.send("GET", &path, "").await.unwrap();
        let events = String::from_utf8(answer.body.to_vec()).unwrap();
        let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(events.iter().all(|event| event["type"] != "ERROR"), "the watch cannot go on");
        is_without_gap(&events, &counts);
    }
    revision
}

fn counts(items: &[Value]) -> BTreeMap<String, u64> {
    let is_ours =
        |item: &&Value| item["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("writer"));
    let count = |item: &Value| {
        // Both fields were written at once, so they are there at once.
        assert_eq!(item["data"]["count"], item["data"]["again"]);
        let count = item["data"]["count"].as_str().unwrap().parse().unwrap();
        (item["metadata"]["name"].as_str().unwrap().to_owned(), count)
    };
    items.iter().filter(is_ours).map(count).collect()
}

/// Every count of every writer is seen once, in order, up to the one that is there.
fn is_without_gap(events: &[Value], counts: &BTreeMap<String, u64>) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut version = 0;
    for event in events {
        let object = &event["object"];
        let Some(name) = object["metadata"]["name"].as_str().filter(|name| name.starts_with("writer")) else {
            continue;
        };
        let now: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(now > version, "events are in order");
        version = now;
        let count: u64 = object["data"]["count"].as_str().unwrap().parse().unwrap();
        if let Some(before) = last.insert(name, count) {
            assert!(count > before, "{name} went from {before} to {count}");
        }
    }
    for (name, count) in last {
        assert_eq!(counts.get(name), Some(&count), "the watch of {name} ends where the list does");
    }
}
