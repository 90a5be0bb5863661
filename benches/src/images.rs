//! Pulling an image of 40 MB from a registry on the loopback and unpacking it, side by side with skopeo and umoci.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ferroplane_image::archive::export_layout;
use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::registry::{Options, Pull, Registry};
use ferroplane_image::store::{Limits as StoreLimits, Store};
use ferroplane_image::unpack::{Limits, Roots};
use ferroplane_image::{Image, Platform, Reference};
use ferroplane_testkit::{DebianRegistry, RegistrySetup};
use tokio::runtime::Runtime;

use crate::measure::{Times, pretty, ratio};

const ROUNDS: usize = 10;
const LAYERS: usize = 4;
const FILES: usize = 500;

pub(crate) fn run() {
    let tools = ["skopeo", "umoci", "docker-registry"];
    if let Some(tool) = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err()) {
        println!("(skipped: {tool} is not installed)");
        return;
    }
    let directory = tempfile::tempdir().expect("there is room");
    let layout = directory.path().join("layout");
    let size = build(directory.path(), &layout);
    let Some(registry) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let address = &registry.address;
    let (from, name) = (format!("oci:{}:latest", text(&layout)), format!("{address}/image:latest"));
    execute(
        "skopeo",
        &["--insecure-policy", "copy", "--dest-tls-verify=false", &from, &format!("docker://{name}")],
    );
    println!(
        "An image of {LAYERS} layers, {} files, {size:.1} MB compressed, from a registry on the loopback\n",
        LAYERS * FILES
    );
    println!("| what | best | p50 | against skopeo and umoci |\n|---|---|---|---|");
    let runtime = Runtime::new().expect("there is a runtime");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let place = |who: &str| directory.path().join(format!("{who}-{round}"));
        ours.push(once(&place("ours"), |place| pull_and_unpack(&runtime, &name, place)));
        theirs.push(once(&place("theirs"), |place| run_tools(&name, place)));
    }
    let (ours, theirs) = (Times::from(ours), Times::from(theirs));
    println!("| skopeo copy, umoci unpack | {} | {} | 1 |", pretty(theirs.best()), pretty(theirs.p50()));
    println!(
        "| ferroplane | {} | {} | {} |",
        pretty(ours.best()),
        pretty(ours.p50()),
        ratio(ours.p50(), theirs.p50())
    );
}

/// The time that work takes in an empty directory, which is thrown away.
fn once(place: &Path, work: impl FnOnce(&Path)) -> Duration {
    std::fs::create_dir(place).expect("there is room");
    let started = Instant::now();
    work(place);
    let taken = started.elapsed();
    std::fs::remove_dir_all(place).expect("it is ours");
    taken
}

fn pull_and_unpack(runtime: &Runtime, name: &str, place: &Path) {
    let store = Store::open(place.join("store"), StoreLimits::default()).expect("there is room");
    let roots = Roots::open(place.join("roots"), Limits::default()).expect("there is room");
    let registry = Registry::new(Options::default()).expect("there are authorities");
    let reference = Reference::parse(name, None).expect("it is a reference");
    let pulled = runtime.block_on(registry.pull(&reference, &Pull::into(&store))).expect("it is there");
    roots.get(&store, &pulled.image).expect("we built it");
}

fn run_tools(name: &str, place: &Path) {
    let copy = text(&place.join("copy"));
    let (from, to) = (format!("docker://{name}"), format!("oci:{copy}:latest"));
    execute("skopeo", &["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false", &from, &to]);
    let bundle = text(&place.join("bundle"));
    execute("umoci", &["unpack", "--rootless", "--image", &format!("{copy}:latest"), &bundle]);
}

fn text(path: &Path) -> String {
    path.to_str().expect("it is text").to_owned()
}

fn execute(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it is installed");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Build the image, and return its size in megabytes. Half of each file cannot be compressed.
fn build(directory: &Path, layout: &Path) -> f64 {
    let store = Store::open(directory.join("source"), StoreLimits::default()).expect("there is room");
    let mut builder = ImageBuilder::new(Platform::host());
    let mut state = 1_u64;
    for layer_number in 0..LAYERS {
        let mut layer = Layer::new();
        for file in 0..FILES {
            let mut content = vec![b'x'; 20_000];
            content.extend((0..20_000).map(|_| noise(&mut state)));
            let path = format!("layer{layer_number}/directory{}/file{file}", file / 50);
            layer.add_bytes(content, &path, false).expect("the name is fine");
        }
        builder.layers.push(layer);
    }
    let descriptor = builder.build(&store).expect("there is room");
    let image = Image::load(&store, &descriptor.digest).expect("it is there");
    export_layout(&store, &[(descriptor, Some("latest"))], layout).expect("there is room");
    let bytes: u64 = image.manifest.layers.iter().map(|layer| layer.size).sum();
    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    let megabytes = bytes as f64 / 1e6;
    megabytes
}

/// Xorshift: the same noise every time.
fn noise(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.to_le_bytes()[3]
}
