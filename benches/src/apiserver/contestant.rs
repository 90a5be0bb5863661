//! A server that is measured.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferroplane_testkit::{ApiAddress, ApiClient};

use super::{Kind, mega, send};
use crate::measure::pretty;
use crate::process::ferroplane;

pub(super) struct Contestant {
    name: &'static str,
    address: ApiAddress,
    ready: Option<Duration>,
    /// Processes whose memory counts.
    processes: Vec<u32>,
    empty: usize,
    child: Option<(Child, tempfile::TempDir)>,
}

impl Contestant {
    /// The real one, if `cargo xtask oracle` runs one.
    pub(super) fn real() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let url = variable("FERROPLANE_ORACLE_URL")?;
        let pem = fs::read(variable("FERROPLANE_ORACLE_CA")?).ok()?;
        let address = ApiAddress::with_token(&url, &pem, variable("FERROPLANE_ORACLE_TOKEN"));
        let supervisor = variable("FERROPLANE_ORACLE_SUPERVISOR")?.parse().ok()?;
        let processes = ["kube-apiserver", "etcd"].into_iter().flat_map(processes_named);
        let processes: Vec<_> = processes.filter(|process| descends_from(*process, supervisor)).collect();
        let empty = resident(&processes);
        let ready = variable("FERROPLANE_ORACLE_READY").and_then(|millis| millis.parse().ok());
        let ready = ready.map(Duration::from_millis);
        let is_durable = variable("FERROPLANE_ORACLE_DURABLE").is_some();
        let name = if is_durable { "kube-apiserver + etcd" } else { "kube-apiserver + etcd, not durable" };
        Some(Self { name, address, ready, processes, empty, child: None })
    }

    /// Ours, started for this.
    pub(super) async fn ours() -> Self {
        let directory = tempfile::tempdir().expect("there is room");
        let kubeconfig = directory.path().join("kubeconfig");
        let started = Instant::now();
        let child = Command::new(ferroplane())
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is there");
        let address = loop {
            if let Some(address) = ApiAddress::from_kubeconfig(&kubeconfig)
                && let Ok(mut client) = ApiClient::connect(&address).await
                && client.send("GET", "/readyz", "").await.is_ok_and(|answer| answer.code == 200)
            {
                break address;
            }
            assert!(started.elapsed() < Duration::from_secs(10), "the server does not start");
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let ready = started.elapsed();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let processes = vec![child.id()];
        let empty = resident(&processes);
        Self {
            name: "ferroplane up",
            address,
            ready: Some(ready),
            processes,
            empty,
            child: Some((child, directory)),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) async fn client(&self) -> ApiClient {
        ApiClient::connect(&self.address).await.expect("the server takes connections")
    }

    /// How much memory it takes now, in bytes.
    pub(super) fn resident(&self) -> usize {
        resident(&self.processes)
    }

    /// What it takes with nothing in it, and what more objects add.
    pub(super) async fn print_memory(&mut self, objects: usize) {
        let before = resident(&self.processes);
        let mut tasks = tokio::task::JoinSet::new();
        for part in 0..16 {
            let mut client = self.client().await;
            tasks.spawn(async move {
                for number in (part..objects).step_by(16) {
                    let object = Kind::ConfigMap.object(&format!("m-{number}"));
                    assert_eq!(
                        send(&mut client, "POST", Kind::ConfigMap.path(), &object.to_string()).await.code,
                        201
                    );
                }
            });
        }
        tasks.join_all().await;
        let after = resident(&self.processes);
        println!(
            "| {} | {} | {:.0} MB | {:.0} MB |",
            self.name,
            self.ready.map_or_else(|| "not measured here".to_owned(), pretty),
            mega(self.empty),
            mega(after.saturating_sub(before)),
        );
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn processes_named(name: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let is_it =
            fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| name.starts_with(comm.trim()));
        if is_it {
            found.push(id);
        }
    }
    found
}

/// There may be others of the same name.
fn descends_from(process: u32, ancestor: u32) -> bool {
    let parent = |process: u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse::<u32>().ok().filter(|parent| *parent > 1)
    };
    std::iter::successors(Some(process), |process| parent(*process)).any(|process| process == ancestor)
}

/// The resident memory of some processes, in bytes.
fn resident(processes: &[u32]) -> usize {
    let of = |process: &u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_ascii_whitespace().nth(1)?.parse::<usize>().ok()
    };
    processes.iter().filter_map(of).sum::<usize>() * 1024
}
