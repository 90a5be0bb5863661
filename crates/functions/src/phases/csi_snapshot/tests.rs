//! Tests of the functions for CSI snapshots.

use ferroplane_engine::action::PhaseFunction as _;
use serde_json::{Value, json};

use super::*;
use crate::phases::testing::{Crash, CrashCase, End, FakeCluster, Plane, object};

fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "team"}})
}

fn class() -> Value {
    json!({"apiVersion": API_VERSION, "kind": "VolumeSnapshotClass", "metadata": {"name": "fast"}, "deletionPolicy": "Retain"})
}

fn dynamic() -> Plane<'static> {
    Plane::of(
        &CreateCsiSnapshot,
        json!({"pvc": "data", "namespace": "team", "snapshotClass": "fast", "labels": {"a": "b"}}),
    )
}

fn fixed() -> Plane<'static> {
    Plane::of(
        &CreateCsiSnapshotStatic,
        json!({"name": "s", "namespace": "team", "driver": "d", "snapshotHandle": "h",
        "snapshotClass": "fast"}),
    )
}

fn restore() -> Plane<'static> {
    Plane::of(
        &RestoreCsiSnapshot,
        json!({"name": "s", "pvc": "new", "namespace": "team", "storageClass": "ssd", "restoreSize": "10Gi"}),
    )
}

fn delete() -> Plane<'static> {
    Plane::of(&DeleteCsiSnapshot::Snapshot, json!({"name": "s", "namespace": "team"}))
}

fn delete_content() -> Plane<'static> {
    Plane::of(&DeleteCsiSnapshot::Content, json!({"name": "c"}))
}

/// A snapshot that its controller holds, and the content of one.
fn cluster_with_snapshot() -> FakeCluster {
    FakeCluster::with([
        json!({"apiVersion": API_VERSION, "kind": "VolumeSnapshot", "metadata": {"name": "s", "namespace": "team",
        "finalizers": ["controller"]}}),
        json!({"apiVersion": API_VERSION, "kind": "VolumeSnapshotContent", "metadata": {"name": "c"}}),
    ])
}

/// These functions find out by reading how far they were: they are never interrupted.
pub(in crate::phases) fn crashes() -> Vec<CrashCase> {
    let case =
        |function, plane: Plane<'static>| CrashCase::of(function, "v0.0.0", Value::Object(plane.arguments));
    let gone = |cluster: &mut FakeCluster| {
        cluster.remove("VolumeSnapshot", "team", "s");
        true
    };
    vec![
        CrashCase {
            cluster: FakeCluster::with([claim("data")]),
            meanwhile: Box::new(ready),
            ..case("CreateCSISnapshot", dynamic())
        },
        CrashCase {
            cluster: FakeCluster::with([class()]),
            meanwhile: Box::new(ready),
            ..case("CreateCSISnapshotStatic", fixed())
        },
        case("RestoreCSISnapshot", restore()),
        CrashCase {
            cluster: cluster_with_snapshot(),
            meanwhile: Box::new(gone),
            ..case("DeleteCSISnapshot", delete())
        },
        CrashCase { cluster: cluster_with_snapshot(), ..case("DeleteCSISnapshotContent", delete_content()) },
    ]
}

/// The snapshot controller does its work.
fn ready(cluster: &mut FakeCluster) -> bool {
    let status =
        json!({"status": {"readyToUse": true, "restoreSize": "10Gi", "boundVolumeSnapshotContentName": "c"}});
    for name in cluster.names("VolumeSnapshot") {
        cluster.change("VolumeSnapshot", "team", &name, &status);
    }
    true
}

#[test]
fn snapshot_is_taken_and_waited_for() {
    let mut cluster = FakeCluster::with([claim("data")]);
    assert_eq!(dynamic().run(&mut cluster.clone()), End::Waits);
    let output = dynamic().run_while(&mut cluster, &ready).output();
    let name = output["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("data-snapshot-"), "{name}");
    assert_eq!(
        output,
        json!({"name": name, "pvc": "data", "namespace": "team", "restoreSize": "10Gi", "snapshotContent": "c"})
    );
    let snapshot = cluster.get("VolumeSnapshot", "team", &name).unwrap();
    assert_eq!(snapshot["spec"]["source"]["persistentVolumeClaimName"], "data");
    assert_eq!(snapshot["metadata"]["labels"], json!({"a": "b"}));
}

#[test]
fn snapshot_of_a_storage_system_is_made_known_with_the_policy_of_its_class() {
    let mut cluster = FakeCluster::with([class()]);
    let output = fixed().run_while(&mut cluster, &ready).output();
    assert_eq!(
        output,
        json!({"name": "s", "namespace": "team", "restoreSize": "10Gi", "snapshotContent": "c"})
    );
    let [content] = &cluster.names("VolumeSnapshotContent")[..] else { panic!("{cluster:?}") };
    let content = cluster.get("VolumeSnapshotContent", "", content).unwrap();
    assert_eq!(content["spec"]["deletionPolicy"], "Retain");
    assert_eq!(content["spec"]["volumeSnapshotRef"], json!({"name": "s", "namespace": "team"}));
}

#[test]
fn what_a_snapshot_is_made_of_has_to_exist() {
    assert!(dynamic().run(&mut FakeCluster::default()).failure().contains("persistentvolumeclaims `data`"));
    assert!(fixed().run(&mut FakeCluster::default()).failure().contains("volumesnapshotclasses `fast`"));
}

#[test]
fn failure_of_the_snapshot_is_told_in_its_own_words() {
    let broken = |message: &'static str| {
        move |cluster: &mut FakeCluster| {
            for name in cluster.names("VolumeSnapshot") {
                cluster.change(
                    "VolumeSnapshot",
                    "team",
                    &name,
                    &json!({"status": {"error": {"message": message}}}),
                );
            }
            true
        }
    };
    let failure = dynamic().run_while(&mut FakeCluster::with([claim("data")]), &broken("no space")).failure();
    assert!(failure.ends_with("failed: no space"), "{failure}");
    // The controller of snapshots continues by itself after this.
    let transient = broken("cannot update: the object has been modified; try again");
    let checkpoint = json!({"step": "wait"});
    let mut cluster = FakeCluster::with([claim("data")]);
    dynamic().run(&mut cluster);
    transient(&mut cluster);
    let name = cluster.names("VolumeSnapshot").remove(0);
    let snapshot = cluster.get("VolumeSnapshot", "team", &name).unwrap().clone();
    let answer = Answer::Object { object: snapshot, resource: "volumesnapshots".to_owned() };
    assert!(matches!(dynamic().advance(&checkpoint, &[answer]), Move::Wait { .. }));
}

#[test]
fn snapshot_of_somebody_else_with_the_name_is_left_alone() {
    let other = json!({"apiVersion": API_VERSION, "kind": "VolumeSnapshot", "metadata": {"name": "s", "namespace": "team"}});
    let mut cluster = FakeCluster::with([class(), other]);
    assert!(fixed().run_while(&mut cluster, &ready).failure().contains("exists already"));
}

#[test]
fn volume_claim_is_made_of_a_snapshot() {
    let mut cluster = FakeCluster::default();
    assert_eq!(restore().run(&mut cluster), End::Done(json!({})));
    let claim = cluster.get("PersistentVolumeClaim", "team", "new").unwrap();
    assert_eq!(
        claim["spec"],
        json!({
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "storageClassName": "ssd",
            "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
            "resources": {"requests": {"storage": "10Gi"}},
        })
    );
    let mut taken = FakeCluster::with([self::claim("new")]);
    assert!(restore().run(&mut taken).failure().contains("exists already"));
    let mut crashed = Plane { crash: Crash::After(1), ..restore() };
    assert_eq!(crashed.run(&mut FakeCluster::default()), End::Done(json!({})));
}

#[test]
fn size_and_modes_of_a_claim_have_to_make_sense() {
    for (field, value, expected) in [
        ("restoreSize", json!("0"), "0 is not more than nothing"),
        ("restoreSize", json!("-1Gi"), "is not more than nothing"),
        ("restoreSize", json!("big"), "`big` is not a quantity"),
        ("restoreSize", json!(10), "it is a number"),
        ("accessModes", json!(["ReadOnce"]), "`ReadOnce` is none of"),
        ("accessModes", json!("ReadWriteOnce"), "should be a list"),
        ("volumeMode", json!("Disk"), "`Disk` is none of"),
        ("labels", json!({"a": 1}), "argument `labels.a`"),
    ] {
        let mut arguments = json!({"name": "s", "pvc": "new", "namespace": "team", "storageClass": "ssd", "restoreSize": "10Gi"});
        arguments[field] = value;
        let mut cluster = FakeCluster::default();
        let failure = Plane::of(&RestoreCsiSnapshot, arguments).run(&mut cluster).failure();
        assert!(failure.contains(expected) && cluster.effects.is_empty(), "{failure}");
    }
    let zero =
        object(json!({"name": "s", "pvc": "n", "namespace": "t", "storageClass": "c", "restoreSize": "0"}));
    assert_eq!(RestoreCsiSnapshot.argument_mistakes(&zero)[0].argument, "restoreSize");
}

#[test]
fn snapshot_and_content_are_deleted_and_may_be_absent() {
    assert_eq!(delete().run(&mut cluster_with_snapshot()), End::Waits);
    for mut plane in [delete(), delete_content()] {
        assert_eq!(plane.run(&mut FakeCluster::default()), End::Done(json!({})));
    }
}
