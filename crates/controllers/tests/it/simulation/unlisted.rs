//! Phases that wait for objects which cannot be watched, or not even be read: they are polled until they can, and not any more from then
//! on.

use std::time::Duration;

use serde_json::{Value, json};

use super::actions::{ACTION_SETS, BLUEPRINTS};
use super::in_virtual_time;
use super::operations::{MAPS, map, settle};
use super::world::World;

/// Longer than the control plane waits before it asks again for what it was refused.
const LATEST: Duration = Duration::from_mins(2);

/// A phase that waits until the ConfigMap `gate` is open.
fn wait() -> Value {
    let gate = json!({"apiVersion": "v1", "resource": "configmaps", "name": "gate", "namespace": "default"});
    let condition = json!({"condition": "{{ eq .data.v \"yes\" }}", "objectReference": gate});
    let args = json!({"timeout": "24h", "conditions": {"anyOf": [condition]}});
    json!({"func": "WaitV2", "name": "gate", "args": args})
}

async fn define(world: &World, actions: &Value) {
    let blueprint = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "b"}, "actions": actions,
    });
    world.plane.apply(&format!("{BLUEPRINTS}/b"), &blueprint).await;
}

/// Begin an ActionSet with these actions.
async fn run(world: &World, actions: &[&str]) {
    let actions: Vec<_> = actions.iter().map(|name| json!({"name": name, "blueprint": "b"})).collect();
    let set = json!({
        "apiVersion": "cr.kanister.io/v1alpha1", "kind": "ActionSet", "metadata": {"name": "s"},
        "spec": {"actions": actions},
    });
    world.plane.apply(&format!("{ACTION_SETS}/s"), &set).await;
}

async fn begin_to_wait(world: &World) {
    open(world, "no").await;
    define(world, &json!({"wait": {"phases": [wait()]}})).await;
    run(world, &["wait"]).await;
    settle(world).await;
    assert_eq!(state(world).await, "running");
}

async fn open(world: &World, v: &str) {
    world.plane.apply(&format!("{MAPS}/gate"), &map("gate", v)).await;
}

async fn state(world: &World) -> Value {
    world.plane.get(&format!("{ACTION_SETS}/s")).await["status"]["state"].clone()
}

/// How often the object was read within some minutes, after some more.
async fn reads(world: &World) -> u64 {
    tokio::time::sleep(LATEST).await;
    let before = world.weather.reads(&format!("{MAPS}/gate"));
    tokio::time::sleep(LATEST).await;
    world.weather.reads(&format!("{MAPS}/gate")) - before
}

fn refuse(world: &World, code: u16) {
    *world.weather.unlisted.lock().unwrap() = Some((MAPS, code));
    world.weather.cut_watches();
}

fn allow(world: &World) {
    *world.weather.unlisted.lock().unwrap() = None;
}

#[test]
fn phase_notices_changes_after_the_right_to_watch_was_taken_away() {
    in_virtual_time(async {
        let world = World::with_actions(0).await;
        begin_to_wait(&world).await;
        assert_eq!(reads(&world).await, 0, "it is watched");
        refuse(&world, 403);
        assert_ne!(reads(&world).await, 0, "it is polled");
        allow(&world);
        assert_eq!(reads(&world).await, 0, "it is watched again");
        refuse(&world, 403);
        tokio::time::sleep(LATEST).await;
        open(&world, "yes").await;
        tokio::time::sleep(LATEST).await;
        assert_eq!(state(&world).await, "complete");
        world.end().await;
    });
}

#[test]
fn phase_is_not_polled_for_ever_after_an_api_server_that_did_not_answer() {
    in_virtual_time(async {
        let world = World::with_actions(0).await;
        refuse(&world, 503);
        begin_to_wait(&world).await;
        assert_ne!(reads(&world).await, 0, "it is polled");
        allow(&world);
        assert_eq!(reads(&world).await, 0, "it is watched");
        open(&world, "yes").await;
        settle(&world).await;
        assert_eq!(state(&world).await, "complete");
        world.end().await;
    });
}

#[test]
fn action_goes_on_while_the_object_of_another_one_cannot_be_read() {
    const GATE: &str = "/api/v1/namespaces/default/configmaps/gate";
    in_virtual_time(async {
        let world = World::with_actions(0).await;
        *world.weather.unlisted.lock().unwrap() = Some((GATE, 503));
        let make = json!({"operation": "create", "spec": map("made", "x").to_string()});
        let make = json!({"func": "KubeOps", "name": "make", "args": make});
        define(&world, &json!({"wait": {"phases": [wait()]}, "make": {"phases": [make]}})).await;
        run(&world, &["wait", "make"]).await;
        tokio::time::sleep(LATEST).await;
        let set = world.plane.get(&format!("{ACTION_SETS}/s")).await;
        let states = [0, 1].map(|action| &set["status"]["actions"][action]["phases"][0]["state"]);
        assert_eq!(states, ["running", "complete"], "{set}");
        allow(&world);
        open(&world, "yes").await;
        settle(&world).await;
        assert_eq!(state(&world).await, "complete");
        world.end().await;
    });
}
