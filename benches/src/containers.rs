//! Containers: a call against bare `crun run` of the same bundle, and a server in a container against the same server outside.

mod servers;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferroplane_sandbox::{Call, Container, Grants, ImageConfig, Limits, LineSink, Options};
use tokio::runtime::Runtime;

use crate::measure::{Times, pretty, ratio};

/// This program as the process that runs containers.
const HOST: &str = "container-host";
/// This program as a server that echoes.
const ECHO: &str = "echo-server";
/// As long as a request of a function is.
const INPUT: usize = 17_000;
const ROUNDS: usize = 5;
const CALLS: usize = 40;

/// Plays the part that this program was started for, if there is one.
pub(crate) fn plays_a_part(name: &str) -> bool {
    match name {
        HOST => drop(ferroplane_sandbox::host::main()),
        ECHO => servers::serve(),
        _ => return false,
    }
    true
}

pub(crate) fn run() {
    let directory = tempfile::tempdir().expect("there is room");
    let image = directory.path().join("image");
    make_image(&image);
    let containers =
        match ferroplane_sandbox::Runtime::new(Options::new(helper(), directory.path().join("state"))) {
            Ok(containers) => containers,
            Err(error) => return println!("skipped: {error}"),
        };
    let runtime = Runtime::new().expect("there is a runtime");
    if let Err(error) = runtime.block_on(containers.probe()) {
        return println!("skipped: {error}");
    }
    calls(&runtime, &containers, &image, directory.path());
    println!();
    stops(&runtime, &containers, &image);
    println!();
    runtime.block_on(containers.close());
    servers::run(&runtime, &image, directory.path());
}

/// Starts this program as the process that runs containers.
fn helper() -> Vec<OsString> {
    let own = std::env::current_exe().expect("this program is somewhere");
    vec![own.into(), HOST.into()]
}

/// The files of an image: a shell, and this program with its libraries.
fn make_image(image: &Path) {
    fs::create_dir_all(image.join("bin")).expect("there is room");
    fs::copy("/bin/busybox", image.join("bin/busybox")).expect("busybox-static is installed");
    for name in ["sh", "cat", "sleep"] {
        std::os::unix::fs::symlink("busybox", image.join("bin").join(name)).expect("there is room");
    }
    let own = std::env::current_exe().expect("this program is somewhere");
    fs::copy(&own, image.join("bin/benches")).expect("there is room");
    let libraries = Command::new("ldd").arg(&own).output().expect("there is ldd").stdout;
    let libraries = String::from_utf8_lossy(&libraries).into_owned();
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let target = image.join(library.trim_start_matches('/'));
        fs::create_dir_all(target.parent().expect("it is a file")).expect("there is room");
        fs::copy(library, target).expect("there is room");
    }
}

fn container(image: &Path, command: &[&str]) -> Container {
    let entrypoint = command.iter().map(ToString::to_string).collect();
    Container::new(image, ImageConfig { entrypoint, user: "1000:1000".to_owned(), ..ImageConfig::default() })
}

fn calls(runtime: &Runtime, containers: &ferroplane_sandbox::Runtime, image: &Path, directory: &Path) {
    println!("`cat` of {INPUT} bytes, one call after the other, in turns\n");
    println!("| what | best | p50 | p99 | against bare |\n|---|---|---|---|---|");
    let input = vec![b'x'; INPUT];
    let bare = Bare::prepare(runtime, containers, image, directory, &input);
    let cat = container(image, &["/bin/cat"]);
    let call = async || {
        let started = Instant::now();
        let call = Call {
            container: &cat,
            input: &input,
            limits: Limits::default(),
            grants: Grants::default(),
            key: "",
            log: LineSink::nowhere(),
        };
        assert_eq!(containers.call(call).await.expect("it answers").stdout.len(), INPUT);
        started.elapsed()
    };
    let (mut bare_times, mut our_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare_times.extend(bare.run());
        runtime.block_on(async {
            for _ in 0..CALLS {
                our_times.push(call().await);
            }
        });
    }
    let (bare, ours) = (Times::from(bare_times), Times::from(our_times));
    for (what, times, base) in [("bare `crun run`", &bare, None), ("call", &ours, Some(bare.p50()))] {
        row(what, times, base);
    }
}

fn row(what: &str, times: &Times, base: Option<Duration>) {
    let against = base.map_or_else(|| "1".to_owned(), |base| ratio(times.p50(), base));
    let (best, p50, p99) = (pretty(times.best()), pretty(times.p50()), pretty(times.p99()));
    println!("| {what} | {best} | {p50} | {p99} | {against} |");
}

/// A program that uses more than it may.
struct Runaway {
    what: &'static str,
    script: &'static str,
    limits: Limits,
    /// How long it may go on. None where the limit is not one of time: then the whole call counts.
    budget: Option<Duration>,
}

fn runaways() -> [Runaway; 5] {
    let time = Duration::from_millis(100);
    let timed = |what, script, limits| Runaway { what, script, limits, budget: Some(time) };
    let sized = |what, script, limits| Runaway { what, script, limits, budget: None };
    let usual = Limits::default();
    [
        timed("`sleep`, beyond 100 ms", "sleep 60", Limits { time, ..usual }),
        timed("endless forks, beyond 100 ms", "f() { f | f & }; f; sleep 60", Limits { time, ..usual }),
        timed("endless loop, beyond 100 ms of processor time", LOOP, Limits { cpu_time: time, ..usual }),
        sized("32 MiB of memory, whole call", HOARD, Limits { memory: 32 << 20, ..usual }),
        sized("16 MiB of output, whole call", "cat /dev/zero", usual),
    ]
}

const LOOP: &str = "while :; do :; done";
const HOARD: &str = "x=a; while :; do x=$x$x; done";

/// How long after a limit a call comes back, with everything that it started gone.
fn stops(runtime: &Runtime, containers: &ferroplane_sandbox::Runtime, image: &Path) {
    println!("Programs that use more than they may\n");
    println!("| what | best | p50 | p99 |\n|---|---|---|---|");
    for Runaway { what, script, limits, budget } in runaways() {
        let program = container(image, &["/bin/sh", "-c", script]);
        let mut times = Vec::new();
        runtime.block_on(async {
            for _ in 0..CALLS {
                let started = Instant::now();
                let (grants, log) = (Grants::default(), LineSink::nowhere());
                let call = Call { container: &program, input: b"", limits, grants, key: "", log };
                let answer = containers.call(call).await;
                times.push(started.elapsed().saturating_sub(budget.unwrap_or_default()));
                // A shell that gets no more memory may end before it is ended.
                assert!(answer.is_err() || answer.is_ok_and(|output| output.exit_code != 0), "{what}");
            }
        });
        let times = Times::from(times);
        let (best, p50, p99) = (pretty(times.best()), pretty(times.p50()), pretty(times.p99()));
        println!("| {what} | {best} | {p50} | {p99} |");
    }
}

/// The same bundle, started by a shell in the namespaces of the host, where nothing of ours comes in between.
struct Bare {
    host: String,
}

impl Bare {
    fn prepare(
        runtime: &Runtime,
        containers: &ferroplane_sandbox::Runtime,
        image: &Path,
        directory: &Path,
        input: &[u8],
    ) -> Self {
        let host = second_stage(directory);
        let scratch = PathBuf::from(format!("/proc/{host}/root/sys/fs/ferroplane/bundles"));
        // The configuration of a call that runs is that of the next one, but for the command.
        let sleep = container(image, &["/bin/sleep", "60"]);
        let configuration = runtime.block_on(async {
            let limits = Limits::default();
            let (grants, log) = (Grants::default(), LineSink::nowhere());
            let call = Call { container: &sleep, input: b"", limits, grants, key: "", log };
            tokio::select! {
                _ = containers.call(call) => unreachable!("it sleeps for longer"),
                text = read_configuration(&scratch) => text,
            }
        });
        let mut configuration: serde_json::Value = serde_json::from_str(&configuration).expect("it is JSON");
        configuration["process"]["args"] = serde_json::json!(["/bin/cat"]);
        fs::create_dir(scratch.join("bare")).expect("there is room");
        fs::write(scratch.join("bare/config.json"), configuration.to_string()).expect("there is room");
        fs::write(scratch.join("bare/input"), input).expect("there is room");
        Self { host }
    }

    fn run(&self) -> Vec<Duration> {
        let script = format!(
            "cd /sys/fs/ferroplane/bundles/bare; for i in $(seq {CALLS}); do a=$EPOCHREALTIME; \
             crun --root ../../state --cgroup-manager=disabled --log=log run --bundle . bare$i < input > output; \
             b=$EPOCHREALTIME; echo $((${{b/./}} - ${{a/./}})); done"
        );
        let output = Command::new("nsenter")
            .args([
                "--target",
                &self.host,
                "--user",
                "--mount",
                "--pid",
                "--preserve-credentials",
                "bash",
                "-c",
                &script,
            ])
            .stderr(Stdio::inherit())
            .output()
            .expect("there is nsenter");
        let times = String::from_utf8_lossy(&output.stdout).into_owned();
        let times: Vec<Duration> =
            times.lines().map(|line| Duration::from_micros(line.parse().expect("a number"))).collect();
        assert_eq!(times.len(), CALLS, "every run ended");
        times
    }
}

async fn read_configuration(scratch: &Path) -> String {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let bundle = fs::read_dir(scratch).expect("it is there").flatten().next();
        if let Some(text) =
            bundle.and_then(|bundle| fs::read_to_string(bundle.path().join("config.json")).ok())
        {
            return text;
        }
    }
}

/// The process that starts containers: the child of the one in the ledger.
fn second_stage(directory: &Path) -> String {
    let ledger = fs::read_dir(directory.join("state/ledger")).expect("there is a ledger");
    let entry =
        ledger.flatten().next().expect("there is a host").file_name().into_string().expect("it is text");
    let first = entry.split('-').next().expect("it begins with a number");
    let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).expect("it runs");
    children.trim().to_owned()
}
