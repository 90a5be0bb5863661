//! Tests of KubeOps.
#![expect(clippy::trivially_copy_pass_by_ref, reason = "it reads better here as it is")]

use std::collections::BTreeSet;

use ferroplane_api::Cause;
use serde_json::json;

use super::*;
use crate::phases::testing::{Crash, CrashCase, End, FakeCluster, Plane, object, refused};

const SPEC: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n---\napiVersion: v1\nkind: ConfigMap\n\
                    metadata: {name: b, namespace: other}\n";

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}, "data": {"k": "v"}})
}

fn reference_to(resource: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "group": "", "resource": resource, "name": name, "namespace": "team"})
}

fn run(version: &'static KubeOps, arguments: Value, cluster: &mut FakeCluster) -> End {
    Plane::of(version, arguments).run(cluster)
}

#[test]
fn create_makes_all_documents_and_refers_to_the_last() {
    for version in [&KubeOps::V0_0, &KubeOps::V0_1] {
        let mut cluster = FakeCluster::default();
        let output =
            run(version, json!({"operation": "create", "namespace": "team", "spec": SPEC}), &mut cluster)
                .output();
        assert_eq!(
            output,
            json!({"apiVersion": "v1", "group": "", "resource": "configmaps", "kind": "", "name": "b", "namespace": "other"})
        );
        assert!(cluster.get("ConfigMap", "team", "a").is_some(), "{cluster:?}");
        // What create puts out, delete takes.
        let deleted = run(version, json!({"operation": "delete", "objectReference": output}), &mut cluster);
        assert!(matches!(deleted, End::Done(_)), "{deleted:?}");
        assert_eq!(cluster.names("ConfigMap"), ["a"]);
    }
}

/// A ConfigMap that keeps its place when it is deleted, until it is let go.
fn held() -> Value {
    let mut held = config_map("a");
    held["metadata"]["finalizers"] = json!(["somebody"]);
    held
}

fn custom_resource() -> Value {
    let metadata = json!({"name": "s", "namespace": "team"});
    json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": metadata})
}

/// A patch of the ConfigMap, or of the custom resource, of this type; of none that is named if it is empty.
fn patch_of(resource: &str, kind: &str, spec: &str) -> Value {
    let reference = match resource {
        "configmaps" => reference_to(resource, "a"),
        _ => {
            json!({"apiVersion": "v1", "group": "snapshot.storage.k8s.io", "resource": resource, "name": "s",
            "namespace": "team"})
        }
    };
    let mut patch = json!({"operation": "patch", "objectReference": reference, "spec": spec});
    if !kind.is_empty() {
        patch["patchType"] = kind.into();
    }
    patch
}

/// Only whether a JSON patch was made cannot be found out: what it does must not be done twice.
pub(in crate::phases) fn crashes() -> Vec<CrashCase> {
    let case = |version, arguments| CrashCase {
        cluster: FakeCluster::with([held(), custom_resource()]),
        meanwhile: Box::new(|cluster| {
            cluster.remove("ConfigMap", "team", "a");
            true
        }),
        ..CrashCase::of("KubeOps", version, arguments)
    };
    let on_nothing =
        |version, arguments| CrashCase { cluster: FakeCluster::default(), ..case(version, arguments) };
    let with_spec =
        |operation: &str, spec: &str| json!({"operation": operation, "namespace": "team", "spec": spec});
    let generated = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: job-}}";
    let about =
        |operation| json!({"operation": operation, "objectReference": reference_to("configmaps", "a")});
    let append = "- {op: add, path: /metadata/finalizers/-, value: z}";
    vec![
        on_nothing("v0.0.0", with_spec("create", SPEC)),
        case("v0.0.0", patch_of("configmaps", "", "data: {k: w}")),
        case("v0.0.0", about("delete")),
        on_nothing("v0.1.0", with_spec("create", SPEC)),
        on_nothing("v0.1.0", with_spec("create", generated)),
        on_nothing("v0.1.0", with_spec("apply", SPEC)),
        case("v0.1.0", with_spec("apply", SPEC)),
        case("v0.1.0", about("get")),
        case("v0.1.0", patch_of("configmaps", "", "data: {k: w}")),
        case("v0.1.0", patch_of("volumesnapshots", "", "spec: {size: 3}")),
        case("v0.1.0", patch_of("configmaps", "strategic", "data: {k: w}")),
        case("v0.1.0", patch_of("volumesnapshots", "merge", "spec: {size: 3}")),
        CrashCase {
            interrupted: &[Crash::After(2)],
            ..case("v0.1.0", patch_of("configmaps", "json", append))
        },
        case("v0.1.0", about("delete")),
    ]
}

#[test]
fn every_operation_and_every_type_of_patch_is_tried_with_crashes() {
    let text = |case: &CrashCase, name: &str| case.arguments[name].as_str().unwrap_or_default().to_owned();
    let tried: BTreeSet<_> = crashes()
        .iter()
        .map(|case| (case.version, text(case, "operation"), text(case, "patchType")))
        .collect();
    let mut all = BTreeSet::new();
    for (name, version) in [("v0.0.0", KubeOps::V0_0), ("v0.1.0", KubeOps::V0_1)] {
        let operations = version.operations().iter();
        all.extend(operations.map(|operation| (name, (*operation).to_owned(), String::new())));
        if version.contract().takes("patchType") {
            all.extend(patch::TYPES.iter().map(|kind| (name, "patch".to_owned(), (*kind).to_owned())));
        }
    }
    assert_eq!(tried, all);
}

#[test]
fn name_that_the_server_would_make_is_made_once() {
    let spec = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}});
    let create =
        || Plane::of(&KubeOps::V0_1, json!({"operation": "create", "namespace": "team", "spec": spec}));
    let mut cluster = FakeCluster::default();
    create().run(&mut cluster);
    Plane { identity: "another".to_owned(), ..create() }.run(&mut cluster);
    assert_eq!(cluster.names("ConfigMap").len(), 2);
}

#[test]
fn object_of_somebody_else_is_not_taken_for_ones_own() {
    let mut cluster = FakeCluster::with([config_map("a")]);
    let spec = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let create = json!({"operation": "create", "namespace": "team", "spec": spec});
    let failure = run(&KubeOps::V0_0, create.clone(), &mut cluster).failure();
    assert_eq!(failure, "cannot create ConfigMap `a` in namespace `team`: it exists already");
    let mut crashed = Plane { crash: Crash::Before(1), ..Plane::of(&KubeOps::V0_0, create) };
    assert!(crashed.run(&mut cluster).failure().contains("exists already"));
    assert_eq!(cluster.get("ConfigMap", "team", "a").unwrap()["data"]["k"], "v");
}

#[test]
fn refusal_of_the_server_is_told() {
    let mut cluster = FakeCluster {
        refusals: vec![refused(403, "Forbidden", "you may not create configmaps")],
        ..FakeCluster::default()
    };
    let spec = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let failure = run(&KubeOps::V0_0, json!({"operation": "create", "spec": spec}), &mut cluster).failure();
    assert_eq!(failure, "you may not create configmaps");
}

#[test]
fn delete_of_what_is_absent_fails_at_first_and_succeeds_later() {
    let delete = || json!({"operation": "delete", "objectReference": reference_to("configmaps", "a")});
    let failure = run(&KubeOps::V0_0, delete(), &mut FakeCluster::default()).failure();
    assert_eq!(failure, "cannot delete configmaps `a` in namespace `team`: it does not exist");
    assert!(matches!(run(&KubeOps::V0_1, delete(), &mut FakeCluster::default()), End::Done(_)));
}

#[test]
fn delete_waits_until_the_object_is_gone_and_leaves_its_successor() {
    let cluster = FakeCluster::with([held()]);
    let delete = || {
        Plane::of(
            &KubeOps::V0_0,
            json!({"operation": "delete", "objectReference": reference_to("configmaps", "a")}),
        )
    };
    assert_eq!(delete().run(&mut cluster.clone()), End::Waits);
    let release = |cluster: &mut FakeCluster| {
        cluster.remove("ConfigMap", "team", "a");
        cluster.put(object(config_map("a")));
        true
    };
    // Whoever makes another object of the name meanwhile keeps it.
    let mut later = cluster.clone();
    assert!(matches!(delete().run_while(&mut later, &release), End::Done(_)));
    assert_eq!(later.names("ConfigMap"), ["a"]);
}

#[test]
fn delete_that_was_interrupted_deletes_nothing_that_came_later() {
    let plane = Plane::of(
        &KubeOps::V0_1,
        json!({"operation": "delete", "objectReference": reference_to("configmaps", "a")}),
    );
    let checkpoint = json!({"step": "look", "uid": "old"});
    let answer = Answer::Object { object: object(config_map("a")), resource: "configmaps".to_owned() };
    assert!(matches!(plane.advance(&checkpoint, &[answer]), Move::Done { .. }));
}

#[test]
fn objects_without_namespace_need_the_later_version() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let delete = json!({"operation": "delete", "objectReference": {"apiVersion": "v1", "resource": "namespaces", "name": "n"}});
    let mut cluster = FakeCluster::with([namespace]);
    let failure = run(&KubeOps::V0_0, delete.clone(), &mut cluster).failure();
    assert!(failure.contains("v0.0.0 deletes objects in namespaces only"), "{failure}");
    assert_eq!(cluster.names("Namespace"), ["n"]);
    assert!(matches!(run(&KubeOps::V0_1, delete, &mut cluster), End::Done(_)));
    assert!(cluster.names("Namespace").is_empty());
}

#[test]
fn patch_of_a_custom_resource_is_refused_at_first_and_merged_later() {
    let patch = patch_of("volumesnapshots", "", "spec: {size: 3}");
    let mut cluster = FakeCluster::with([custom_resource()]);
    let failure = run(&KubeOps::V0_0, patch.clone(), &mut cluster).failure();
    assert_eq!(failure, "the body of the request was in an unknown format");
    let output = run(&KubeOps::V0_1, patch.clone(), &mut cluster).output();
    assert_eq!(output["resource"], "volumesnapshots");
    assert_eq!(cluster.get("VolumeSnapshot", "team", "s").unwrap()["spec"]["size"], 3);
    // Who asks for a type gets it, or the refusal.
    let mut strategic = patch;
    strategic["patchType"] = "strategic".into();
    assert!(run(&KubeOps::V0_1, strategic, &mut cluster).failure().contains("unknown format"));
}

#[test]
fn json_patch_is_made_once_whatever_happens() {
    let mut cluster = FakeCluster::with([held()]);
    let patch = patch_of("configmaps", "json", "- {op: add, path: /metadata/finalizers/-, value: z}");
    // After the patch was made and its answer lost, nobody knows who changed the object.
    let mut crashed = Plane { crash: Crash::After(2), ..Plane::of(&KubeOps::V0_1, patch) };
    let end = crashed.run(&mut cluster);
    assert!(matches!(end, End::Failed(Cause::PhaseInterrupted, _)), "{end:?}");
    let finalizers = &cluster.get("ConfigMap", "team", "a").unwrap()["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["somebody", "z"]));
}

#[test]
fn json_patch_that_does_not_apply_ends() {
    let mut cluster = FakeCluster::with([config_map("a")]);
    let arguments = json!({"operation": "patch", "patchType": "json", "objectReference": reference_to("configmaps", "a"),
        "spec": "- {op: remove, path: /nothing}"});
    let failure = run(&KubeOps::V0_1, arguments, &mut cluster).failure();
    assert!(failure.contains("an operation of the patch does not apply"), "{failure}");
}

#[test]
fn json_patch_is_tried_again_when_somebody_else_was_faster() {
    let plane = Plane::of(
        &KubeOps::V0_1,
        json!({"operation": "patch", "patchType": "json",
        "objectReference": reference_to("configmaps", "a"), "spec": "[]"}),
    );
    let checkpoint = json!({"step": "json", "tries": 3, "resourceVersion": "7"});
    let answers = [Answer::Refused(refused(409, "Conflict", "changed"))];
    let Move::Perform { checkpoint, requests } = plane.advance(&checkpoint, &answers) else {
        panic!("no request")
    };
    assert_eq!(checkpoint["tries"], 4);
    assert!(matches!(&requests[..], [Request::Get(_)]));
}

#[test]
fn apply_and_get_are_new() {
    let mut cluster = FakeCluster::default();
    let apply = json!({"operation": "apply", "namespace": "team", "spec": SPEC});
    assert!(
        run(&KubeOps::V0_0, apply.clone(), &mut cluster)
            .failure()
            .contains("`apply` is none of create, patch, delete")
    );
    let output = run(&KubeOps::V0_1, apply, &mut cluster).output();
    assert_eq!(output["name"], "b");
    let get = json!({"operation": "get", "objectReference": reference_to("configmaps", "a")});
    let output = run(&KubeOps::V0_1, get, &mut cluster).output();
    assert_eq!(output["object"]["data"], json!({"k": "v"}));
}

#[test]
fn secrets_and_large_objects_do_not_become_output() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "team"}, "data": {"p": "eA=="}});
    let mut large = config_map("l");
    large["data"]["k"] = "x".repeat(40_000).into();
    let mut cluster = FakeCluster::with([secret, large]);
    let get = |resource, name| json!({"operation": "get", "objectReference": reference_to(resource, name)});
    let failure = run(&KubeOps::V0_1, get("secrets", "s"), &mut cluster).failure();
    assert!(failure.starts_with("cannot get a Secret") && !failure.contains("eA=="), "{failure}");
    assert!(run(&KubeOps::V0_1, get("configmaps", "l"), &mut cluster).failure().contains("output may have"));
    assert!(
        run(&KubeOps::V0_1, get("configmaps", "none"), &mut cluster).failure().contains("does not exist")
    );
}

#[test]
fn hostile_arguments_fail_before_anything_is_done() {
    let reference = json!({"apiVersion": "v1", "resource": "configmaps", "name": "a"});
    for (arguments, expected) in [
        (json!({}), "argument `operation`: it is required"),
        (json!({"operation": "explode"}), "`explode` is none of"),
        (json!({"operation": ["create"]}), "it is a list, and should be text"),
        (json!({"operation": "create"}), "argument `spec`: it is required"),
        (json!({"operation": "create", "spec": "a: [b"}), "it is not valid YAML"),
        (json!({"operation": "create", "spec": "---\n---\n"}), "it has no object"),
        (json!({"operation": "create", "spec": "- a"}), "document 1 is not an object"),
        (json!({"operation": "create", "spec": "kind: ConfigMap"}), "has no `apiVersion`"),
        (json!({"operation": "create", "spec": "apiVersion: v1\nkind: ConfigMap"}), "document 1 has no name"),
        (
            json!({"operation": "create", "spec": "apiVersion: v1\nkind: ConfigMap\nmetadata: []"}),
            "is not a map",
        ),
        (
            json!({"operation": "create", "spec": format!("{SPEC}---\n{SPEC}")}),
            "is the second one with ConfigMap `a`",
        ),
        (json!({"operation": "create", "spec": format!("{SPEC}---\n").repeat(60)}), "the second one"),
        (json!({"operation": "delete"}), "argument `objectReference`: it should be a reference"),
        (json!({"operation": "delete", "objectReference": {"name": "a"}}), "`objectReference.apiVersion`"),
        (
            json!({"operation": "delete", "objectReference": {"name": 3}}),
            "`objectReference.name`: it is a number",
        ),
        (json!({"operation": "delete", "objectReference": {"nmae": "a"}}), "no field `nmae`"),
        (
            json!({"operation": "patch", "objectReference": reference, "spec": "text"}),
            "the patch is not a map",
        ),
        (json!({"operation": "patch", "objectReference": reference, "spec": "a: b\n---\nc: d"}), "one patch"),
        (
            json!({"operation": "patch", "objectReference": reference, "spec": "a: b", "patchType": "x"}),
            "none of",
        ),
    ] {
        let mut cluster = FakeCluster::default();
        let failure = run(&KubeOps::V0_1, arguments.clone(), &mut cluster).failure();
        assert!(failure.contains(expected), "{arguments}: {failure}");
        assert!(cluster.effects.is_empty(), "{arguments}: {:?}", cluster.effects);
    }
}

#[test]
fn arguments_belong_to_versions() {
    let mistakes = |version: KubeOps, arguments: Value| {
        let found = version.argument_mistakes(arguments.as_object().unwrap());
        found.into_iter().map(|mistake| mistake.message).collect::<Vec<_>>()
    };
    let merge = json!({"operation": "patch", "patchType": "merge"});
    assert_eq!(mistakes(KubeOps::V0_1, merge.clone()), Vec::<String>::new());
    assert_eq!(
        mistakes(KubeOps::V0_0, merge),
        ["there is no argument `patchType`: it takes operation, namespace, spec, objectReference"]
    );
    assert_eq!(mistakes(KubeOps::V0_0, json!({"spec": ""})), ["argument `operation` is required"]);
    assert_eq!(
        mistakes(KubeOps::V0_0, json!({"operation": "apply"})),
        ["argument `operation`: `apply` is none of create, patch, delete"]
    );
    assert!(mistakes(KubeOps::V0_0, json!({"operation": "{{ .Options.operation }}"})).is_empty());
}

#[test]
fn checkpoint_of_something_else_fails_the_phase() {
    let plane = Plane::of(&KubeOps::V0_1, json!({"operation": "create", "namespace": "team", "spec": SPEC}));
    for checkpoint in [json!(3), json!({"step": "unknown"}), json!({"step": "look", "uid": null})] {
        let Move::Fail { cause, .. } = plane.advance(&checkpoint, &[]) else { panic!("{checkpoint}") };
        assert_eq!(cause, Cause::PhaseInterrupted);
    }
}
