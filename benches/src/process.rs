//! A whole process per render, side by side with upstream's engine.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferroplane_functions::builtin;
use ferroplane_testkit::FunctionServer;
use ferroplane_wire::render::render_request::Input;
use ferroplane_wire::render::{CompositeInput, FunctionInput, RenderRequest};
use nix::sys::resource::UsageWho;
use prost::Message as _;
use tokio::runtime::Runtime;

use crate::measure::{Stopwatch, Times, pretty};
use crate::objects::{composition, to_struct, xr};

const STEPS: usize = 3;
const RESOURCES: usize = 20;
const ROUNDS: u32 = 100;

pub(crate) fn run() {
    println!("{STEPS} steps, {RESOURCES} composed resources, one process per render, in turns\n");
    println!("| what | best | p50 | p99 | processor | runs |\n|---|---|---|---|---|---|");
    let runtime = Runtime::new().expect("there is a runtime");
    let dummy = builtin("function-dummy", None).expect("it is built in");
    let server = runtime.block_on(FunctionServer::start(move |request| Ok(dummy.run(&request))));
    let request = seam_request(&server.address());

    let directory = tempfile::tempdir().expect("there is room");
    let write = |name: &str, value: serde_json::Value| {
        std::fs::write(directory.path().join(name), value.to_string()).expect("there is room");
    };
    write("xr.yaml", xr());
    write("composition.yaml", composition(STEPS, RESOURCES));
    write("functions.yaml", function(&server.address()));
    write("store.yaml", crate::functions::xr());
    write("built-in.yaml", crate::functions::composition());

    let ours = ferroplane();
    let seam = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["internal", "render"]);
        command
    };
    let render = |files: &[&str]| {
        let mut command = Command::new(&ours);
        command.arg("render").args(files).current_dir(directory.path());
        command
    };
    let mut contestants = vec![
        ("ferroplane internal render", seam(&ours), Some(&request)),
        (
            "ferroplane render, functions running",
            render(&["xr.yaml", "composition.yaml", "functions.yaml"]),
            None,
        ),
        ("ferroplane render, the same built in", render(&["xr.yaml", "composition.yaml"]), None),
        ("ferroplane render, library", render(&["store.yaml", "built-in.yaml"]), None),
    ];
    let upstream = peers().join("crossplane");
    if upstream.exists() {
        contestants.insert(0, ("crossplane internal render", seam(&upstream), Some(&request)));
    } else {
        println!("(skipped: crossplane; `cargo xtask peers --heavy` installs it)");
    }
    let mut times = vec![(Vec::new(), Duration::ZERO); contestants.len()];
    for _ in 0..ROUNDS {
        for ((_, command, stdin), (times, processor)) in contestants.iter_mut().zip(&mut times) {
            let stopwatch = Stopwatch::start(UsageWho::RUSAGE_CHILDREN);
            times.push(once(command, stdin.map(Vec::as_slice)));
            *processor += stopwatch.read();
        }
    }
    for ((name, ..), (times, processor)) in contestants.iter().zip(times) {
        let times = Times::from(times);
        println!(
            "| {name} | {} | {} | {} | {} | {} |",
            pretty(times.best()),
            pretty(times.p50()),
            pretty(times.p99()),
            pretty(processor / ROUNDS),
            times.count()
        );
    }
}

fn once(command: &mut Command, stdin: Option<&[u8]>) -> Duration {
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is there");
    child.stdin.take().expect("it is piped").write_all(stdin.unwrap_or_default()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    started.elapsed()
}

fn seam_request(address: &str) -> Vec<u8> {
    let input = CompositeInput {
        composite_resource: Some(to_struct(xr())),
        composition: Some(to_struct(composition(STEPS, RESOURCES))),
        functions: vec![FunctionInput { name: "function-dummy".to_owned(), address: address.to_owned() }],
        ..CompositeInput::default()
    };
    RenderRequest { input: Some(Input::Composite(input)), ..RenderRequest::default() }.encode_to_vec()
}

fn function(address: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": "function-dummy", "annotations": {
            "render.crossplane.io/runtime": "Development",
            "render.crossplane.io/runtime-development-target": address
        }},
        "spec": {"package": "registry.example/function-dummy:v1"}
    })
}

/// Our binary, built by `cargo xtask bench` beside this one.
pub(crate) fn ferroplane() -> PathBuf {
    let this = std::env::current_exe().expect("this program is somewhere");
    this.with_file_name("ferroplane")
}

pub(crate) fn peers() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/ferroplane/peers");
    std::env::var_os("FERROPLANE_PEERS").map_or_else(home, PathBuf::from)
}
