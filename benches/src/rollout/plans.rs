//! Plans of a change of a Composition that reaches all composite resources, without and with an object that their function requires.
//!
//! The object is a `ConfigMap`, of which each composite resource composes three: the plan has to find it among those that it changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_runner::{AsyncFunction, Runner};
use ferroplane_testkit::plane::sites::SETTINGS;
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use super::{COUNT, Fleet};
use crate::measure::pretty;

pub(super) async fn run() {
    println!(
        "\n| a plan of a change of a Composition, {COUNT} XRs | wall | CPU | calls of functions | XRs that change | objects that change |"
    );
    println!("|---|---|---|---|---|---|");
    plan("without required objects", false).await;
    plan("with a required `ConfigMap`", true).await;
}

async fn plan(what: &str, requires: bool) {
    let calls = Arc::<AtomicUsize>::default();
    let fleet = Fleet::begin(&steps("one"), painting(requires, &calls), "one", &calls).await;
    if requires {
        let shared = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "namespace": "default"}, "data": {},
        });
        fleet.plane.apply(&format!("{SETTINGS}/shared"), &shared).await;
    }
    fleet.plane.quiet().await;
    let changed = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "sites"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"},
            "mode": "Pipeline", "pipeline": steps("two"),
        },
    });
    let (mut composites, mut objects): (usize, usize) = (0, 0);
    let cost = fleet
        .cost(async {
            let plan = fleet.plane.plan(&[changed]).await.expect("nothing moves meanwhile");
            composites = plan.composites.iter().filter(|it| !it.changes.is_empty()).count();
            objects = plan.composites.iter().map(|it| it.changes.len()).sum();
        })
        .await;
    println!(
        "| {what} | {} | {} | {} | {composites} | {objects} |",
        pretty(cost.wall),
        pretty(cost.processor),
        cost.calls
    );
}

/// A pipeline that makes sites of this color.
fn steps(color: &str) -> Value {
    let input = json!({"apiVersion": "example.org/v1", "kind": "Paint", "color": color});
    json!([{"step": "own", "functionRef": {"name": "own"}, "input": input}])
}

/// A function in this process that makes sites of the color in its input.
fn painting(requires: bool, calls: &Arc<AtomicUsize>) -> Arc<Runner> {
    let calls = calls.clone();
    let call = move |request| {
        calls.fetch_add(1, Ordering::Relaxed);
        async move {
            let request = to_json(&request).expect("it is a request");
            let color = &request["input"]["color"];
            let resource = |name: &str| {
                let data = json!({"who": name, "color": color});
                json!({
                    "resource": {"apiVersion": "v1", "kind": "ConfigMap", "data": data}, "ready": "READY_TRUE",
                })
            };
            let mut answer = json!({"meta": {}, "desired": {
                "composite": {"resource": {"status": {"color": color}}},
                "resources": {"a": resource("a"), "b": resource("b"), "c": resource("c")},
            }});
            if requires {
                let shared = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "matchName": "shared", "namespace": "default",
                });
                answer["requirements"] = json!({"resources": {"shared": shared}});
            }
            Ok(from_json(&answer).expect("it is an answer"))
        }
    };
    Arc::new(Runner::AsyncFunction(AsyncFunction::new(call)))
}
