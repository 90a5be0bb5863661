//! Packages that are damaged, too large or slow to come, machines that have no room for them, and planes that share what they fetch.

mod hostile_registry;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use ferroplane_image::Hasher;
use ferroplane_image::build::{ImageBuilder, Layer};
use ferroplane_image::registry::{Options, Push, Registry};
use ferroplane_image::store::{Limits, Store};
use ferroplane_image::{Platform, Reference};
use ferroplane_testkit::{DebianRegistry, RegistrySetup};
use tempfile::TempDir;

use crate::packages::LocalRegistry;
use crate::peers::peer;
use crate::plane::{Plane, ferroplane};
use hostile_registry::{Attack, HostileRegistry};

const PACKAGES: usize = 100;

fn package_yaml(number: usize) -> String {
    format!(
        "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {{name: platform-{number}}}\nspec: {{}}\n---\n\
         apiVersion: apiextensions.crossplane.io/v2\nkind: CompositeResourceDefinition\nmetadata: {{name: things{number}.acme.org}}\n\
         spec: {{group: acme.org, scope: Namespaced, names: {{kind: Thing{number}, plural: things{number}}}, versions: [{{name: v1, served: true, \
         referenceable: true, schema: {{openAPIV3Schema: {{type: object}}}}}}]}}\n"
    )
}

fn configuration(name: &str, image: &str) -> String {
    format!(
        "apiVersion: pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {{name: {name}}}\nspec: {{package: '{image}'}}\n---\n"
    )
}

/// A package, pushed. Returns the digests of everything that it is made of, without their algorithm.
fn push(registry: &DebianRegistry, image: &str, package: &str, ballast: Vec<u8>) -> Vec<String> {
    let directory = TempDir::new().unwrap();
    let store = Store::open(directory.path(), Limits::default()).unwrap();
    let mut layer = Layer::new().annotate("io.crossplane.xpkg", "base");
    layer.add_bytes(package.as_bytes().to_vec(), "package.yaml", false).unwrap();
    let mut builder = ImageBuilder::new(Platform::host());
    builder.layers.push(layer);
    if !ballast.is_empty() {
        let mut layer = Layer::new();
        layer.add_bytes(ballast, "ballast", false).unwrap();
        builder.layers.push(layer);
    }
    let built = builder.build(&store).unwrap();
    let reference: Reference = format!("{}/{image}", registry.address).parse().unwrap();
    let client = Registry::new(Options::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(client.push(&reference, &built.digest, &Push::from(&store))).unwrap();
    let manifest: serde_json::Value =
        serde_json::from_slice(&store.read_to_vec(&built.digest, 1 << 20).unwrap()).unwrap();
    let layers = manifest["layers"].as_array().unwrap().iter();
    let digests = layers.map(|layer| layer["digest"].as_str().unwrap().to_owned());
    let all =
        digests.chain([manifest["config"]["digest"].as_str().unwrap().to_owned(), built.digest.to_string()]);
    all.map(|digest| digest.rsplit(':').next().unwrap().to_owned()).collect()
}

/// Flip a bit of a file. Doing it twice is doing nothing.
fn flip(path: &std::path::Path, number: usize) {
    let mut content = fs::read(path).unwrap();
    let at = number * (content.len() - 1) / PACKAGES;
    content[at] ^= 1 << (number % 8);
    fs::write(path, content).unwrap();
}

/// What registries serve may have been damaged on their disks. Nothing of it is installed, the reason is told, and what is whole again is
/// installed.
#[test]
fn hundred_packages_with_a_flipped_byte_are_refused_and_installed_once_they_are_whole() {
    let (Some(debian), Some(_)) = (DebianRegistry::start(&RegistrySetup::default()), peer("kubectl")) else {
        return;
    };
    let mut damaged = Vec::new();
    let mut all = String::new();
    for number in 0..PACKAGES {
        let image = format!("acme/platform-{number}:v1.0.0");
        let parts = push(&debian, &image, &package_yaml(number), Vec::new());
        // In turns: the layer, the configuration, the manifest.
        let path = debian.blob_path(&parts[number % parts.len()]);
        flip(&path, number);
        damaged.push(path);
        all += &configuration(&format!("p{number}"), &format!("{}/{image}", debian.address));
    }
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    plane.told("kubectl apply -f -", &all);
    plane.says("kubectl wait configurations --all --for=condition=Healthy=false --timeout=120s");
    let said = plane.says(
        "kubectl get configurations -o jsonpath='{range .items[*]}{.status.conditions[?(@.type==\"Healthy\")].message}{\"\\n\"}{end}'",
    );
    assert_eq!(said.lines().filter(|line| line.len() > 20).count(), PACKAGES, "{said}");
    assert_eq!(plane.says("kubectl get xrds -o name"), "", "nothing of them is installed");
    for (number, path) in damaged.iter().enumerate() {
        flip(path, number);
    }
    // Whoever does not want to wait for the next try says so.
    plane.says("kubectl annotate configurations --all look=again");
    plane.says("kubectl wait configurations --all --for=condition=Healthy --timeout=420s");
    assert_eq!(plane.rows("kubectl get xrds -o name").len(), PACKAGES);
    plane.stop();
}

/// A package that costs more than its limits, or brings what no package may, is refused, and others are installed.
#[test]
fn hostile_packages_are_refused_with_the_reason_in_a_condition() {
    let (Some(debian), Some(_)) = (DebianRegistry::start(&RegistrySetup::default()), peer("kubectl")) else {
        return;
    };
    let own = package_yaml(0);
    let object = "---\napiVersion: apiextensions.crossplane.io/v1\nkind: Composition\n";
    let cases = [
        ("many", format!("{own}{}", object.repeat(10_001)), "more than 10000 objects"),
        // Hardly anything while it is compressed.
        ("bomb", format!("{own}{}", "#".repeat(100 << 20)), "unpacks to more than"),
        // Sixteen times as much once it is read.
        ("values", format!("{own}---\nspec: [{}", "0,".repeat(30 << 20)), "lines, items and fields"),
        ("secret", format!("{own}---\napiVersion: v1\nkind: Secret\n"), "no package may bring Secret of v1"),
    ];
    let plane = Plane::start(TempDir::new().unwrap(), &["--data-dir", "data"]);
    for (name, package, reason) in cases {
        let image = format!("acme/{name}:v1.0.0");
        push(&debian, &image, &package, Vec::new());
        plane.told("kubectl apply -f -", &configuration(name, &format!("{}/{image}", debian.address)));
        plane.says(&format!(
            "for try in $(seq 300); do kubectl get configuration/{name} -o jsonpath='{{.status.conditions[*].message}}' | grep -qF '{reason}' && exit 0; \
             sleep 0.2; done; kubectl get configuration/{name} -o yaml; exit 1"
        ));
    }
    assert_eq!(plane.says("kubectl get xrds -o name"), "", "nothing of them is installed");
    push(&debian, "acme/good:v1.0.0", &own, Vec::new());
    plane.told("kubectl apply -f -", &configuration("good", &format!("{}/acme/good:v1.0.0", debian.address)));
    plane.says("kubectl wait configuration/good --for=condition=Healthy --timeout=60s");
    // What the chart gives to it.
    let most = most_memory(&plane);
    assert!(most < 1 << 30, "it took {most} bytes");
    plane.stop();
}

/// The most memory that a control plane had since its start.
fn most_memory(plane: &Plane) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", plane.id().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// What leaves its directory, is of another kind than layers are, or never ends is not installed, and the condition says which of them it is.
#[test]
fn hostile_layers_are_refused_with_the_reason_in_a_condition() {
    const FOREIGN: &str = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    let (Some(debian), Some(_)) = (DebianRegistry::start(&RegistrySetup::default()), peer("kubectl")) else {
        return;
    };
    let attacks = [
        ("outside", Attack::File("../../outside")),
        ("foreign", Attack::MediaType(FOREIGN)),
        ("endless", Attack::Endless(100_000)),
    ];
    let own = package_yaml(0);
    let hostile = HostileRegistry::start(&attacks, &own);
    let flags = ["--data-dir", "data", "--plain-http", &hostile.address];
    let plane = Plane::start(TempDir::new().unwrap(), &flags);
    for (name, attack) in attacks {
        let reason = match attack {
            Attack::File(path) => format!("cannot use `{path}` of the package: its name has the part `..`"),
            Attack::MediaType(foreign) => format!("cannot use media type `{foreign}`"),
            Attack::Endless(size) => format!("a blob of more than {size} bytes"),
        };
        let image = format!("{}/acme/{name}:v1.0.0", hostile.address);
        plane.told("kubectl apply -f -", &configuration(name, &image));
        let messages =
            format!("kubectl get configuration/{name} -o jsonpath='{{.status.conditions[*].message}}'");
        plane.until_said(&messages, |said| said.contains(&reason));
    }
    assert_eq!(plane.says("kubectl get xrds -o name"), "", "nothing of them is installed");
    push(&debian, "acme/good:v1.0.0", &own, Vec::new());
    plane.told("kubectl apply -f -", &configuration("good", &format!("{}/acme/good:v1.0.0", debian.address)));
    plane.says("kubectl wait configuration/good --for=condition=Healthy --timeout=60s");
    let directory = plane.stop();
    assert!(!directory.path().join("outside").exists() && !directory.path().join("data/outside").exists());
}

#[test]
fn machine_without_room_says_so_and_installs_what_it_has_room_for() {
    let (Some(debian), Some(_)) = (DebianRegistry::start(&RegistrySetup::default()), peer("kubectl")) else {
        return;
    };
    let can = Command::new("unshare").args(["-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine does not let us mount anything");
        return;
    }
    let noise: Vec<u8> = (0..200_000_u64)
        .flat_map(|number| Hasher::digest(&number.to_le_bytes()).to_string().into_bytes())
        .collect();
    push(&debian, "acme/large:v1.0.0", &package_yaml(1), noise);
    push(&debian, "acme/small:v1.0.0", &package_yaml(2), Vec::new());
    let directory = TempDir::new().unwrap();
    fs::create_dir_all(directory.path().join("data/images")).unwrap();
    let plain = ferroplane(
        directory.path(),
        &["up", "--listen", "127.0.0.1:0", "--kubeconfig", "kubeconfig", "--data-dir", "data"],
    );
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=1m tmpfs data/images && exec \"$@\"";
    command
        .args(["-Urm", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(plain.get_program())
        .args(plain.get_args());
    command
        .current_dir(directory.path())
        .env("HOME", directory.path())
        .env("RECORDING_ADDRESS", "127.0.0.1:0");
    let plane = Plane::run_by(directory, command);
    plane.told(
        "kubectl apply -f -",
        &configuration("large", &format!("{}/acme/large:v1.0.0", debian.address)),
    );
    plane.says(
        "for try in $(seq 300); do kubectl get configuration/large -o jsonpath='{.status.conditions[*].message}' | grep -qi 'no space left' && exit 0; \
         sleep 0.2; done; kubectl get configuration/large -o yaml; exit 1",
    );
    plane.told(
        "kubectl apply -f -",
        &configuration("small", &format!("{}/acme/small:v1.0.0", debian.address)),
    );
    plane.says("kubectl wait configuration/small --for=condition=Healthy --timeout=120s");
    plane.stop();
}

#[test]
fn two_planes_share_one_cache() {
    let (Some(registry), Some(_)) = (LocalRegistry::start(), peer("kubectl")) else { return };
    let mut all = String::new();
    for number in 0..20 {
        registry.push(&format!("acme/platform-{number}:v1.0.0"), &package_yaml(number));
        all += &configuration(
            &format!("p{number}"),
            &format!("{}/acme/platform-{number}:v1.0.0", registry.address),
        );
    }
    let images = TempDir::new().unwrap();
    let planes = [0, 1].map(|_| {
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("data")).unwrap();
        symlink(images.path(), directory.path().join("data/images")).unwrap();
        Plane::start(directory, &["--data-dir", "data"])
    });
    for plane in &planes {
        plane.told("kubectl apply -f -", &all);
    }
    for plane in &planes {
        plane.says("kubectl wait configurations --all --for=condition=Healthy --timeout=120s");
        assert_eq!(plane.rows("kubectl get xrds -o name").len(), 20);
    }
    for plane in planes {
        plane.stop();
    }
}
