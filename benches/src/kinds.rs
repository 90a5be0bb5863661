//! Kubernetes' own kinds: reading, defaulting and checking deployments of three sizes, and what comes before.

use std::time::{Duration, Instant};

use ferroplane_schema::builtin;
use serde_json::{Value, json};

use crate::measure::{Times, pretty};

const BUDGET: Duration = Duration::from_millis(500);

pub(crate) fn run() {
    let start = Instant::now();
    let kind = builtin::kind("apps", "v1", "Deployment").expect("it is known");
    println!("The first use of a kind, which reads its table: {}.", pretty(start.elapsed()));
    let start = Instant::now();
    let count = builtin::kinds().count();
    println!("All tables, {count} kinds: {}.\n", pretty(start.elapsed()));
    println!("| what | object | best | p50 |\n|---|---|---|---|");
    for containers in [6, 60, 600] {
        let object = deployment(containers);
        let size = object.to_string().len();
        let report = |what: &str, times: &Times| {
            println!("| {what} | {size} B | {} | {} |", pretty(times.best()), pretty(times.p50()));
        };
        report("copy", &Times::of(BUDGET, || object.clone()));
        report("read", &Times::of(BUDGET, || kind.read(&object).expect("it is one")));
        report("check", &Times::of(BUDGET, || kind.check(&object)));
        let read = kind.read(&object).expect("it is one").object;
        let default = || {
            let mut object = read.clone();
            kind.default(&mut object);
            object
        };
        report("copy and default", &Times::of(BUDGET, default));
        let whole = default();
        report("validate", &Times::of(BUDGET, || kind.validate(&whole)));
    }
    println!("| shapes of a deployment | | {} | |", pretty(Times::of(BUDGET, || kind.shapes()).best()));
    println!("| facts for patches | | {} | |", pretty(Times::of(BUDGET, || kind.patch_facts()).best()));
    let document = || builtin::openapi::version_3("apps", "v1").expect("there are resources");
    println!(
        "| OpenAPI of apps/v1 | {} B | {} | |",
        document().to_string().len(),
        pretty(Times::of(BUDGET, document).best())
    );
}

fn deployment(containers: usize) -> Value {
    let container = |index: usize| {
        json!({
            "name": format!("container-{index}"), "image": "example.org/application:v1.2.3",
            "env": [{"name": "A", "value": "b"}, {"name": "C", "value": "d"}],
            "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "requests": {"cpu": "100m"}},
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "application", "namespace": "default", "labels": {"app": "application"}},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "application"}},
            "template": {
                "metadata": {"labels": {"app": "application"}},
                "spec": {"containers": (0..containers).map(container).collect::<Vec<_>>()},
            },
        },
    })
}
