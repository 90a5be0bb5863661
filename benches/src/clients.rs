//! The API server among clients that do nothing useful: idle connections without credentials, and bodies that never end.
//!
//! `FERROPLANE_BENCH_CLIENTS` limits how many there are, for small machines.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferroplane_testkit::{ApiAddress, ApiClient, RawConnection};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::measure::{Times, pretty};
use crate::process::ferroplane;

const CLIENTS: [usize; 3] = [0, 1_000, 10_000];
/// How long each measurement lasts.
const SPELL: Duration = Duration::from_secs(10);
/// How long a client that was cut off waits before it comes again.
const PAUSE: Duration = Duration::from_secs(10);
/// How many clients connect at a time: they are to be there, not to race.
const AT_A_TIME: usize = 64;
/// How often health is asked for, and something is written.
const BEAT: Duration = Duration::from_millis(20);

/// What every connection of HTTP/2 begins with: the preface, and settings with nothing in them.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

pub(crate) fn run() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("there are limits");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("one may have what one may have");
    let limit = std::env::var("FERROPLANE_BENCH_CLIENTS").ok().and_then(|text| text.parse().ok());
    println!("| clients | connected | what | best | p50 | p99 |\n|---|---|---|---|---|---|");
    let runtime = Runtime::new().expect("there is a runtime");
    for clients in CLIENTS {
        let clients = clients.min(limit.unwrap_or(usize::MAX));
        runtime.block_on(measure(clients));
    }
}

/// A server, with a user who has no rights.
struct Server {
    child: Child,
    directory: tempfile::TempDir,
    admin: ApiAddress,
}

impl Server {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("there is room");
        let (tokens, kubeconfig) = (directory.path().join("tokens.csv"), directory.path().join("kubeconfig"));
        fs::write(&tokens, "slow,bob,1\n").expect("there is room");
        let child = Command::new(ferroplane())
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(directory.path().join("data"))
            .arg("--token-auth-file")
            .arg(&tokens)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program is there");
        let started = Instant::now();
        let admin = loop {
            if let Some(admin) = ApiAddress::from_kubeconfig(&kubeconfig)
                && ApiClient::connect(&admin).await.is_ok()
            {
                break admin;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "the server does not start");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        Self { child, directory, admin }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(self.directory.path());
    }
}

/// How many clients have connected, and how many are connected now.
#[derive(Default)]
struct Counts {
    arrived: AtomicUsize,
    open: AtomicUsize,
}

async fn measure(clients: usize) {
    let server = Server::start().await;
    let counts = Arc::<Counts>::default();
    let mut crowd = JoinSet::new();
    let turns = Arc::new(Semaphore::new(AT_A_TIME));
    for number in 0..clients {
        let (address, counts, turns) = (server.admin.clone(), Arc::clone(&counts), Arc::clone(&turns));
        crowd.spawn(async move { bother(number, address, &counts, &turns).await });
    }
    // Until all of them have been there once.
    while counts.arrived.load(Ordering::Relaxed) < clients {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (health, new_health, write) =
        tokio::join!(ask_health(&server.admin), connect_for_health(&server.admin), write(&server.admin));
    let measured = [
        ("health", health),
        ("health on a new connection", new_health),
        ("write by an administrator", write),
    ];
    for (what, times) in measured {
        let (best, p50, p99) = (pretty(times.best()), pretty(times.p50()), pretty(times.p99()));
        let open = counts.open.load(Ordering::Relaxed);
        println!("| {clients} | {open} | {what} | {best} | {p50} | {p99} |");
    }
}

/// Connects, and does as little as possible for as long as possible, over and over.
async fn bother(number: usize, address: ApiAddress, counts: &Counts, turns: &Semaphore) {
    let mut is_first = true;
    loop {
        let connection = {
            let _turn = turns.acquire().await.expect("it is never closed");
            connect(number, &address).await
        };
        if std::mem::take(&mut is_first) {
            counts.arrived.fetch_add(1, Ordering::Relaxed);
        }
        if let Ok(mut connection) = connection {
            counts.open.fetch_add(1, Ordering::Relaxed);
            // Until it is cut off.
            let _ = connection.read_to_end(&mut Vec::new()).await;
            counts.open.fetch_sub(1, Ordering::Relaxed);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Half of them are idle and speak HTTP/2, a quarter is idle and speaks HTTP/1.1, a quarter sends a body and stops after one byte.
async fn connect(number: usize, address: &ApiAddress) -> std::io::Result<RawConnection> {
    let host = u8::try_from(2 + number % 8).unwrap_or(2);
    let source = Ipv4Addr::new(127, 0, 0, host);
    let is_http2 = number.is_multiple_of(2);
    let mut connection = address.dial(source.into(), if is_http2 { "h2" } else { "http/1.1" }).await?;
    if is_http2 {
        connection.write_all(HTTP2).await?;
    } else if number % 4 == 1 {
        let request = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews HTTP/1.1\r\nhost: x\r\n\
                       authorization: Bearer slow\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
        connection.write_all(request.as_bytes()).await?;
    }
    connection.flush().await?;
    Ok(connection)
}

async fn ask_health(address: &ApiAddress) -> Times {
    let mut client = ApiClient::connect(address).await.expect("the server takes connections");
    let (mut times, end) = (Vec::new(), Instant::now() + SPELL);
    while Instant::now() < end {
        let started = Instant::now();
        let answer = client.send("GET", "/healthz", "").await.expect("the server answers");
        times.push(started.elapsed());
        assert_eq!(answer.code, 200);
        tokio::time::sleep(BEAT).await;
    }
    times.into()
}

/// As a probe does that has no credentials and connects each time.
async fn connect_for_health(address: &ApiAddress) -> Times {
    let (stranger, mut times, end) = (address.without_identity(), Vec::new(), Instant::now() + SPELL);
    while Instant::now() < end {
        let started = Instant::now();
        let mut client = ApiClient::connect(&stranger).await.expect("the server takes connections");
        let answer = client.send("GET", "/healthz", "").await.expect("the server answers");
        times.push(started.elapsed());
        assert_eq!(answer.code, 200);
        tokio::time::sleep(BEAT).await;
    }
    times.into()
}

async fn write(address: &ApiAddress) -> Times {
    let mut client = ApiClient::connect(address).await.expect("the server takes connections");
    let (mut times, end) = (Vec::new(), Instant::now() + SPELL);
    while Instant::now() < end {
        let name = format!("write-{}", times.len());
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
        let started = Instant::now();
        let answer = client.send("POST", "/api/v1/namespaces/default/configmaps", &map.to_string()).await;
        times.push(started.elapsed());
        assert_eq!(answer.expect("the server answers").code, 201);
        tokio::time::sleep(BEAT).await;
    }
    times.into()
}
