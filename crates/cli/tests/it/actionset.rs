//! `ferroplane blueprint` and `ferroplane actionset`, from files and against `ferroplane up`.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::plane::Plane;
use crate::sandbox::Sandbox;

const FERROPLANE: &str = env!("CARGO_BIN_EXE_ferroplane");

fn example(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/blueprint").join(file);
    std::fs::read_to_string(path).unwrap()
}

/// An action that waits for a ConfigMap that nobody makes.
pub(crate) const PATIENT: &str = "
---
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: patient, namespace: default}
actions:
  wait:
    phases:
    - func: Wait
      funcVersion: v2.0.0
      name: wait
      args:
        timeout: 1h
        conditions:
          anyOf:
          - condition: 'true'
            objectReference: {apiVersion: v1, resource: configmaps, name: nobody, namespace: default}
";

/// A control plane with the example on it.
fn plane() -> Plane {
    let directory = TempDir::new().unwrap();
    let manifests = [example("app.yaml"), example("blueprint.yaml"), PATIENT.to_owned()].join("\n---\n");
    std::fs::write(directory.path().join("all.yaml"), manifests).unwrap();
    Plane::start(directory, &["--data-dir", "data", "all.yaml"])
}

pub(crate) fn created(said: &str) -> String {
    let rest = said.split_once("ActionSet `").unwrap_or_else(|| panic!("{said}")).1;
    rest.split_once('`').unwrap().0.to_owned()
}

#[test]
fn backup_is_made_and_restored_from_the_command_line() {
    let plane = plane();
    let create = format!("{FERROPLANE} actionset create --namespace default");
    let backup = "--action backup --blueprint settings --deployment default/db --config-maps settings=default/db-settings";
    let said = plane.says(&format!("{create} {backup} --preferred-version v0.1.0 --wait"));
    assert!(said.contains("is complete"), "{said}");
    assert!(
        said.contains("backup/stop (ScaleWorkload v0.1.0) complete: {\"originalReplicaCount\":\"3\"}"),
        "{said}"
    );
    let name = created(&said);
    let child = plane.says(&format!("{create} --action restore --from {name} --dry-run"));
    assert!(child.contains("preferredVersion: v0.1.0") && child.contains("keyValue:"), "{child}");
    assert!(child.contains(&format!("generateName: restore-{name}-")), "{child}");
    let said = plane.says(&format!("{create} --action restore --from {name} --wait"));
    assert!(said.contains("restore/write (KubeOps v0.1.0) complete"), "{said}");
    let logs = plane.says(&format!("{FERROPLANE} actionset logs {name} -n default"));
    assert!(logs.contains("backup/copy (KubeOps v0.1.0) complete"), "{logs}");
    let said = plane.fails(&format!("{FERROPLANE} actionset cancel {name} -n default"), "");
    assert!(said.contains("is complete: there is nothing to stop"), "{said}");
}

#[test]
fn action_set_that_waits_is_cancelled() {
    let plane = plane();
    let said = plane.says(&format!("{FERROPLANE} actionset create -n default -a wait -b patient"));
    let name = created(&said);
    let refused =
        plane.fails(&format!("{FERROPLANE} actionset create -n default -a again --from {name}"), "");
    assert!(refused.contains("only a complete ActionSet"), "{refused}");
    plane.says(&format!("{FERROPLANE} actionset cancel {name} -n default"));
    let said = plane
        .fails(&format!("{FERROPLANE} actionset logs {name} -n default --follow; test $? = 3 && exit 7"), "");
    assert!(said.contains("failed") && said.contains("cancelled"), "{said}");
}

#[test]
fn what_does_not_exist_is_found_before_anything_is_created() {
    let plane = plane();
    let fails =
        |arguments: &str| plane.fails(&format!("{FERROPLANE} actionset create -n default {arguments}"), "");
    assert!(fails("-a backup -b nothing").contains("there is no Blueprint `nothing` in namespace `default`"));
    assert!(fails("-a explode -b settings").contains("has no action `explode`: it has backup, restore"));
    let missing = fails("-a backup -b settings -d default/db -c settings=default/none");
    assert!(missing.contains("there is no ConfigMap `none`"), "{missing}");
    assert!(
        fails("-a backup -b settings --kind deployment --selector app=none")
            .contains("no deployment has the labels")
    );
    let label = "kubernetes.io/metadata.name=default";
    let selected = plane.says(&format!(
        "{FERROPLANE} actionset create -n default -a wait -b patient --kind namespace --selector {label} --dry-run"
    ));
    assert!(selected.contains("kind: namespace") && selected.contains("name: default"), "{selected}");
}

#[test]
fn action_set_is_printed_without_a_control_plane() {
    let ran = Sandbox::new().run(&[
        "actionset",
        "create",
        "--namespace",
        "shop",
        "--action",
        "backup",
        "--blueprint",
        "db",
        "--deployment",
        "db,other/web",
        "--secrets",
        "login=shop/s",
        "--profile",
        "store",
        "--options",
        "a=1,b=2",
        "--podlabels",
        "x=y",
        "--dry-run",
    ]);
    let made: Value = ran.documents().remove(0);
    assert_eq!(made["spec"]["actions"].as_array().unwrap().len(), 2);
    assert_eq!(made["spec"]["actions"][1]["object"]["namespace"], "other");
    assert_eq!(made["spec"]["actions"][0]["options"]["b"], "2");
    assert_eq!(made["spec"]["actions"][0]["profile"]["namespace"], "shop");
    let said = Sandbox::new()
        .run(&["actionset", "create", "-n", "a", "-a", "b", "-b", "c", "-d", "x/y/z", "--dry-run"])
        .fails_with(1);
    assert!(said.contains("--deployment: `x/y/z` is not NAMESPACE/NAME"), "{said}");
    Sandbox::new().run(&["actionset", "create", "--action", "backup"]).fails_with(2);
}

#[test]
fn mistakes_in_blueprints_are_told_with_file_and_line() {
    let good = example("blueprint.yaml");
    let sandbox = Sandbox::new().with("blueprint.yaml", &good);
    let ran = sandbox.run(&["blueprint", "validate", "blueprint.yaml"]);
    assert_eq!(ran.stderr, "note: 1 Blueprints: 0 errors, 0 warnings\n");
    ran.ok();
    let bad =
        good.replacen("operation: create", "operation: crate", 1).replacen("replicas: 0", "replica: 0", 1);
    let ran = Sandbox::new().with("blueprint.yaml", &bad).run(&["blueprint", "validate", "blueprint.yaml"]);
    assert!(ran.stdout.contains("blueprint.yaml:11: actions.backup.phases[0]"), "{}", ran.stdout);
    assert!(ran.stdout.contains("there is no argument `replica`"), "{}", ran.stdout);
    assert!(ran.stdout.contains("`crate` is none of create, apply, get, patch, delete"), "{}", ran.stdout);
    ran.fails_with(3);
    let said = Sandbox::new().with("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    assert!(said.run(&["blueprint", "validate", "a.yaml"]).fails_with(1).contains("there is no Blueprint"));
}

#[test]
fn phases_are_rendered_from_files() {
    let sandbox = ["app.yaml", "blueprint.yaml", "backup.yaml"]
        .into_iter()
        .fold(Sandbox::new(), |sandbox, file| sandbox.with(file, &example(file)));
    let files = [
        "blueprint",
        "render",
        "app.yaml",
        "blueprint.yaml",
        "backup.yaml",
        "--output",
        "copy.name=x",
        "--output",
        "stop.originalReplicaCount=3",
    ];
    let shown: Value = sandbox.run(&files).documents().remove(0);
    let phases = shown["actions"][0]["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["stop", "copy", "start"]);
    assert!(phases[1]["args"]["spec"].as_str().unwrap().contains("\"size\":\"large\""), "{shown:#}");
    assert_eq!(phases[2]["args"]["replicas"], "3");
    assert_eq!(shown["actions"][0]["artifacts"]["copy"]["keyValue"]["name"], "x");
    // Without the ConfigMap, the action would fail before its first phase.
    let ran = Sandbox::new()
        .with("blueprint.yaml", &example("blueprint.yaml"))
        .with("backup.yaml", &example("backup.yaml"))
        .run(&["blueprint", "render", "blueprint.yaml", "backup.yaml"]);
    ran.fails_with(3);
}
