//! A release is installed, upgraded, rolled back and uninstalled, and what matters stays.

use std::path::Path;

use serde_json::Value;

use super::{OPEN, chart};
use crate::peers::{heavy_peer, peer};
use crate::plane::Plane;

/// What a user has who uses the control plane: a kind, an object of it, and the certificates that functions trust.
const PLATFORM: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: notes.life.ferroplane.io}
spec:
  group: life.ferroplane.io
  names: {kind: Note, plural: notes}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {text: {type: string}}}}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: notes}
spec:
  compositeTypeRef: {apiVersion: life.ferroplane.io/v1, kind: Note}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: config
        base: {apiVersion: v1, kind: ConfigMap, data: {text: nothing}}
        readinessChecks: [{type: None}]
---
apiVersion: v1
kind: Secret
metadata: {name: crossplane-root-ca, namespace: ferroplane-system}
stringData: {tls.crt: a certificate, tls.key: a key}
";
const NOTE: &str =
    "{apiVersion: life.ferroplane.io/v1, kind: Note, metadata: {name: first, namespace: default}, spec: {}}";

/// Who is who, of everything that must stay.
const WHAT_STAYS: &str = "kubectl get crd,xrd,composition,compositionrevision,clusterrole,secret,note,configmap -A -o \
     jsonpath='{range .items[*]}{.kind}/{.metadata.name} {.metadata.uid}{\"\\n\"}{end}' | grep -v -e ferroplane: -e helm.release";

fn helm(plane: &Plane, program: &Path, line: &str) -> String {
    let namespace = ["--namespace", "ferroplane-system"];
    let output = plane.client(program).args(line.split(' ')).args(namespace).output().unwrap();
    crate::sandbox::Ran::from(output).ok()
}

#[test]
fn what_matters_outlives_upgrade_rollback_and_uninstall() {
    let (Some(program), Some(_)) = (heavy_peer("helm"), peer("kubectl")) else { return };
    let plane = Plane::new();
    let chart = format!("{} {OPEN}", chart());
    helm(&plane, &program, &format!("install ferroplane {chart} --create-namespace"));
    plane.told("kubectl apply -f -", PLATFORM);
    plane.says("kubectl wait xrd/notes.life.ferroplane.io --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", NOTE);
    plane.says("kubectl wait note/first --for=condition=Ready --timeout=60s");
    let stays = || {
        let listed = plane.says(WHAT_STAYS);
        let ours = |line: &&str| {
            !line.starts_with("ClusterRole/ferroplane ") && !line.starts_with("ConfigMap/ferroplane ")
        };
        listed.lines().filter(ours).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = stays();
    for name in [
        "CustomResourceDefinition/notes.",
        "Secret/crossplane-root-ca",
        "Note/first",
        "ClusterRole/crossplane:composite:notes.",
    ] {
        assert!(before.iter().any(|line| line.starts_with(name)), "no {name} in {before:#?}");
    }

    let changes = "--set replicas=2,metrics.enabled=true,webhooks.enabled=false,rbac.crossplaneDefaults=true";
    helm(
        &plane,
        &program,
        &format!("upgrade ferroplane {chart} {changes} --set-json config={{\"leaseDuration\":\"20s\"}}"),
    );
    assert_eq!(deployment(&plane)["spec"]["replicas"], 2);
    plane.says(
        "kubectl --namespace ferroplane-system get pdb/ferroplane service/ferroplane-metrics cm/ferroplane",
    );
    plane.fails("kubectl --namespace ferroplane-system get service/ferroplane-webhooks", "");
    assert_eq!(stays(), before);

    helm(&plane, &program, "rollback ferroplane 1");
    assert_eq!(deployment(&plane)["spec"]["replicas"], 1);
    plane.fails("kubectl --namespace ferroplane-system get pdb/ferroplane", "");
    plane.says("kubectl --namespace ferroplane-system get service/ferroplane-webhooks");
    assert_eq!(stays(), before);

    helm(&plane, &program, "uninstall ferroplane");
    plane.fails("kubectl --namespace ferroplane-system get deployment/ferroplane", "");
    plane.fails("kubectl get clusterrole/ferroplane:system", "");
    assert_eq!(stays(), before);
    // Once more, by somebody who changed their mind.
    helm(&plane, &program, &format!("install ferroplane {chart}"));
    assert_eq!(stays(), before);
}

fn deployment(plane: &Plane) -> Value {
    let said = plane.says("kubectl --namespace ferroplane-system get deployment/ferroplane -o json");
    serde_json::from_str(&said).unwrap()
}
