//! The example of a Blueprint on a control plane, by kubectl: a backup, what it left, and why another one failed.

use std::path::Path;

use crate::peers::peer;
use crate::plane::{Plane, ferroplane};

const FERROPLANE: &str = env!("CARGO_BIN_EXE_ferroplane");

/// A file of the example.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/blueprint").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn example_backs_up_restores_and_explains_what_fails() {
    let Some(_) = peer("kubectl") else { return };
    let directory = tempfile::TempDir::new().unwrap();
    let mut command = ferroplane(directory.path(), &["up", "--listen", "127.0.0.1:0", "--in-memory"]);
    command.args(["--kubeconfig", "kubeconfig"]);
    let plane = Plane::run_by(directory, command);
    plane.told("kubectl apply -f -", &file("app.yaml"));
    plane.told("kubectl apply -f -", &file("blueprint.yaml"));
    let backup = file("backup.yaml").replace("generateName: backup-", "name: backup");
    plane.told("kubectl create -f -", &backup);
    let states = "kubectl get actionset backup -o jsonpath='{.status.state}'";
    plane.until_said(states, |said| said == "complete");
    let table = plane.says("kubectl get actionsets");
    assert!(table.contains("STATE") && table.contains("complete") && table.contains("100"), "{table}");
    // It was stopped, and is started again.
    assert_eq!(plane.says("kubectl get deployment db -o jsonpath='{.spec.replicas}'"), "3");
    let copy = plane
        .says("kubectl get actionset backup -o jsonpath='{.status.actions[0].artifacts.copy.keyValue.name}'");
    assert_eq!(plane.says(&format!("kubectl get configmap {copy} -o jsonpath='{{.data.size}}'")), "large");

    plane.says("kubectl patch configmap db-settings --type=merge -p '{\"data\":{\"size\":\"small\"}}'");
    let restore = format!(
        "apiVersion: cr.kanister.io/v1alpha1\nkind: ActionSet\nmetadata: {{name: restore, namespace: default}}\nspec:\n  actions:\n  - name: \
         restore\n    blueprint: settings\n    object: {{kind: Deployment, name: db, namespace: default}}\n    artifacts: {{copy: {{keyValue: \
         {{name: {copy}, namespace: default}}}}}}\n"
    );
    plane.told("kubectl create -f -", &restore);
    plane
        .until_said("kubectl get actionset restore -o jsonpath='{.status.state}'", |said| said == "complete");
    assert_eq!(plane.says("kubectl get configmap db-settings -o jsonpath='{.data.size}'"), "large");

    // Without what the Blueprint asks for, nothing runs, and everybody says why.
    let incomplete = restore
        .replace("name: restore, namespace", "name: incomplete, namespace")
        .replace("{copy:", "{other:");
    plane.told("kubectl create -f -", &incomplete);
    plane.until_said("kubectl get actionset incomplete -o jsonpath='{.status.state}'", |said| {
        said == "failed"
    });
    let said = plane.says("kubectl get actionset incomplete -o jsonpath='{.status.error.message}'");
    assert!(said.contains("artifact `copy`"), "{said}");
    let why = |name: &str| plane.says(&format!("{FERROPLANE} why actionset/{name}; echo \"code $?\""));
    let told = why("incomplete");
    assert!(told.starts_with("ActionSet default/incomplete: field `spec.actions`: "), "{told}");
    assert!(
        told.contains("artifact `copy`") && told.contains("supply the missing input in a new ActionSet"),
        "{told}"
    );
    assert!(told.ends_with("code 3\n"), "{told}");
    assert!(why("restore").ends_with("code 0\n"));
}
