//! Many manifests in one process, side by side with upstream's command line.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferroplane_api::crds;
use nix::sys::resource::UsageWho;
use serde_json::{Value, json};

use crate::measure::{Stopwatch, Times, pretty};
use crate::process::{ferroplane, peers};

const MANIFESTS: u32 = 5000;
const ROUNDS: u32 = 5;

pub(crate) fn run() {
    let manifests: Vec<_> = (0..MANIFESTS).map(manifest).collect();
    let bytes: usize = manifests.iter().map(String::len).sum();
    println!(
        "{MANIFESTS} manifests of {} bytes each: a third XRs with rules and defaults, a third ConfigMaps, a third \
         Deployments\n",
        bytes / manifests.len()
    );
    println!("| what | best | p50 | per second at p50 | processor per manifest |\n|---|---|---|---|---|");
    let directory = tempfile::tempdir().expect("there is room");
    write(directory.path(), &manifests);

    measure(
        "ferroplane validate, a file each",
        || {
            let mut command = Command::new(ferroplane());
            command.args(["validate", "many", "--schemas", "xrd.yaml"]);
            command
        },
        directory.path(),
    );
    measure(
        "ferroplane validate, one file",
        || {
            let mut command = Command::new(ferroplane());
            command.args(["validate", "one.yaml", "--schemas", "xrd.yaml"]);
            command
        },
        directory.path(),
    );
    let upstream = peers().join("crossplane-cli");
    if !upstream.exists() {
        println!("(skipped: crossplane-cli; `cargo xtask peers --heavy` installs it)");
        return;
    }
    measure(
        "crossplane resource validate, one file",
        || {
            let mut command = Command::new(&upstream);
            command.args(["resource", "validate", "xrd.yaml", "one.yaml", "--cache-dir=cache"]);
            command.arg("--crossplane-image=registry.example/core:v1");
            command
        },
        directory.path(),
    );
}

fn measure(name: &str, command: impl Fn() -> Command, directory: &Path) {
    let mut times = Vec::new();
    let stopwatch = Stopwatch::start(UsageWho::RUSAGE_CHILDREN);
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let mut command = command();
        command.current_dir(directory).env("HOME", directory).stdout(Stdio::null());
        assert!(command.status().expect("the program is there").success());
        times.push(started.elapsed());
    }
    let processor = stopwatch.read() / (MANIFESTS * ROUNDS);
    let times = Times::from(times);
    let per_second = |time: Duration| f64::from(MANIFESTS) / time.as_secs_f64();
    println!(
        "| {name} | {} | {} | {:.0} | {} |",
        pretty(times.best()),
        pretty(times.p50()),
        per_second(times.p50()),
        pretty(processor)
    );
}

fn write(directory: &Path, manifests: &[String]) {
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the directory")).expect("there is room");
        std::fs::write(path, text).expect("there is room");
    };
    put("xrd.yaml", &definition().to_string());
    put("one.yaml", &manifests.join("---\n"));
    for (number, manifest) in manifests.iter().enumerate() {
        put(&format!("many/{number}.yaml"), manifest);
    }
    // Upstream would download its own kinds, if they were not here.
    let ours: Vec<_> = crds::ALL.iter().map(|crd| crd.yaml).collect();
    put("cache/registry.example/core@v1/package.yaml", &ours.join("---\n"));
}

fn definition() -> Value {
    let text = || json!({"type": "string"});
    let containers = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "required": ["name", "image"], "properties": {
        "name": text(), "image": text(), "port": {"type": "integer", "default": 80}
    }}});
    let spec = json!({"type": "object", "required": ["tier"], "properties": {
        "tier": {"type": "string", "enum": ["free", "paid"]},
        "replicas": {"type": "integer", "minimum": 1, "default": 1},
        "contact": {"type": "string", "format": "email"},
        "labels": {"type": "object", "additionalProperties": text()},
        "containers": containers,
    }, "x-kubernetes-validations": [{"rule": "self.tier == 'paid' || self.replicas <= 2"}]});
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": "websites.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": "Website", "plural": "websites"},
            "versions": [{"name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

/// As people write them: in blocks, a line per value.
fn manifest(number: u32) -> String {
    let mut text = String::new();
    let (api_version, kind) =
        [("example.org/v1", "Website"), ("v1", "ConfigMap"), ("apps/v1", "Deployment")][number as usize % 3];
    let _ = write!(
        text,
        "apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: object-{number}\n  namespace: default\n  \
         labels:\n    app: object-{number}\n    team: checkout\n"
    );
    match kind {
        "Website" => {
            text += "spec:\n  tier: paid\n  replicas: 3\n  contact: someone@example.org\n  labels:\n    a: b\n  \
                     containers:\n";
            for container in 0..8 {
                let _ = write!(
                    text,
                    "  - name: container-{container}\n    image: registry.example/image:v{container}\n"
                );
            }
        }
        "ConfigMap" => {
            text += "data:\n";
            for key in 0..15 {
                let _ = writeln!(text, "  key-{key}: some value that is neither short nor long");
            }
        }
        _ => {
            text += "spec:\n  replicas: 2\n  selector:\n    matchLabels:\n      app: a\n  template:\n    metadata:\n      \
                     labels:\n        app: a\n    spec:\n      containers:\n";
            for container in 0..2 {
                let _ = write!(
                    text,
                    "      - name: container-{container}\n        image: registry.example/image:v1\n        ports:\n        \
                     - containerPort: 80\n        env:\n"
                );
                for variable in 0..5 {
                    let _ = write!(text, "        - name: VARIABLE_{variable}\n          value: something\n");
                }
                text += "        resources:\n          requests:\n            cpu: 100m\n            memory: 64Mi\n";
            }
        }
    }
    text
}
