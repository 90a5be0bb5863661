//! The audit log of `ferroplane up`: what it says of people and of controllers, and which policies it refuses.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::peers::peer;
use crate::plane::{Plane, ferroplane};
use crate::sandbox::Ran;

const PLATFORM: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: apps.example.org}
spec:
  group: example.org
  names: {kind: App, plural: apps}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {text: {type: string}}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: apps}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: text
        base: {apiVersion: v1, kind: ConfigMap, data: {}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.text, toFieldPath: data.text}
";

/// The lines of a log that are selected, once there is one.
fn lines(plane: &Plane, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(plane.path("data/audit.log")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines: Vec<_> = lines.filter(&is_wanted).collect();
        if !lines.is_empty() {
            return lines;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "there is no such line: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_a_person_did_and_what_the_plane_did_in_consequence_can_be_joined() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::new();
    plane.told("kubectl apply -f -", PLATFORM);
    plane.says("kubectl wait xrd/apps.example.org --for=condition=Established --timeout=60s");
    let app = "{apiVersion: example.org/v1, kind: App, metadata: {name: shop, namespace: default}, spec: {text: one}}";
    plane.told("kubectl apply -f -", app);
    let is_about = |line: &Value, resource: &str| line["objectRef"]["resource"] == resource;
    let by_person = lines(&plane, |line| is_about(line, "apps") && line["verb"] == "create").remove(0);
    assert_eq!(by_person["user"]["username"], "ferroplane-admin");
    let (uid, generation) =
        (&by_person["objectRef"]["uid"], &by_person["annotations"]["audit.ferroplane.io/generation"]);
    let caused = |line: &Value| {
        line["annotations"]["audit.ferroplane.io/cause-uid"] == *uid
            && line["annotations"]["audit.ferroplane.io/cause-generation"] == *generation
    };
    let by_plane = lines(&plane, |line| caused(line) && is_about(line, "configmaps")).remove(0);
    assert_ne!(by_plane["user"]["username"], "ferroplane-admin");
    assert_eq!(by_plane["annotations"]["audit.ferroplane.io/cause-group"], "example.org");
    assert_eq!(by_plane["annotations"]["audit.ferroplane.io/cause-kind"], "App");
    assert_eq!(by_plane["annotations"]["audit.ferroplane.io/cause-namespace"], "default");
    assert_eq!(by_plane["annotations"]["audit.ferroplane.io/cause-name"], "shop");
    assert!(!by_plane["objectRef"]["name"].as_str().unwrap().is_empty());
}

#[test]
fn policy_file_decides_what_is_logged() {
    if peer("kubectl").is_none() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], rules: [
        {level: Request, verbs: [create], resources: [{group: '', resources: [configmaps]}]}, {level: None}]}";
    fs::write(directory.path().join("policy.yaml"), policy).unwrap();
    let plane = Plane::start(directory, &["--data-dir", "data", "--audit-policy-file", "policy.yaml"]);
    plane.says("kubectl create secret generic hidden --from-literal=a=b");
    plane.says("kubectl create cm shown --from-literal=a=b");
    let all = lines(&plane, |line| line["objectRef"]["name"] == "shown");
    assert_eq!((all.len(), &all[0]["requestObject"]["data"]["a"]), (1, &Value::from("b")));
    let is_selected =
        |line: &Value| line["objectRef"]["resource"] == "configmaps" && line["verb"] == "create";
    assert!(lines(&plane, |_| true).iter().all(is_selected));
}

#[test]
fn policy_with_mistakes_is_refused_with_all_of_them() {
    let directory = TempDir::new().unwrap();
    let refused = |text: &str| {
        fs::write(directory.path().join("policy.yaml"), text).unwrap();
        let flags = ["up", "--in-memory", "--listen", "127.0.0.1:0", "--audit-policy-file", "policy.yaml"];
        let ran = Ran::from(ferroplane(directory.path(), &flags).output().unwrap());
        assert_eq!(ran.code, Some(1), "{ran:#?}");
        ran.stderr
    };
    let said = refused(
        "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: All}, {level: None, omitStages: [X]}]}",
    );
    assert!(
        said.starts_with("error: cannot use the audit policy `policy.yaml`: the policy is invalid: "),
        "{said}"
    );
    assert!(
        said.contains("rules[0].level: `All` is not a level") && said.contains("rules[1].omitStages[0]"),
        "{said}"
    );
    let said = refused("apiVersion: audit.k8s.io/v1\nkind: Policy\nrule: []\n");
    assert!(said.contains("cannot read the policy: ") && said.contains("rule"), "{said}");
}

#[test]
fn link_in_the_place_of_the_log_is_not_followed() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("victim"), "mine\n").unwrap();
    std::os::unix::fs::symlink("victim", directory.path().join("audit.log")).unwrap();
    let flags = ["up", "--in-memory", "--listen", "127.0.0.1:0", "--audit-log", "audit.log"];
    let ran = Ran::from(ferroplane(directory.path(), &flags).output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("cannot write the audit log `audit.log`: it is a symbolic link"), "{ran:#?}");
    assert_eq!(fs::read_to_string(directory.path().join("victim")).unwrap(), "mine\n");
}
