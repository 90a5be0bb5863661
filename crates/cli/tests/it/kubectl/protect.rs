//! What is in use stays.

use super::plane;
use crate::plane::Plane;

const USAGE: &str = "
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u}
spec:
  replayDeletion: true
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: user}}
";

#[test]
fn what_is_in_use_goes_after_what_uses_it() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl create cm used && kubectl create cm user");
    plane.told("kubectl apply -f -", USAGE);
    plane.until_used(1);
    let rows = plane.rows("kubectl get usages.protection.crossplane.io");
    assert_eq!(rows, ["NAME DETAILS READY AGE", "u ConfigMap/user uses ConfigMap/used True AGE"]);
    let refusal = "admission webhook \"nousages.protection.crossplane.io\" denied the request: this resource is in-use by 1 usage";
    assert!(plane.fails("kubectl delete cm used --cascade=foreground", "").contains(refusal));

    // Nothing of this is forgotten.
    let plane = Plane::start(plane.stop(), &["--data-dir", "data"]);
    assert!(plane.fails("kubectl delete cm used --dry-run=server", "").contains(refusal));
    plane.says("kubectl delete cm user");
    plane.says("kubectl wait --for=delete usages.protection.crossplane.io/u cm/used --timeout=20s");
}

const ENVIRONMENTS: &str = r"
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: environments.example.org}
spec:
  group: example.org
  names: {kind: Environment, plural: environments}
  scope: Namespaced
  versions:
  - {name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: environments}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: Environment}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: cluster
        base: {apiVersion: v1, kind: ConfigMap, metadata: {labels: {role: cluster}}}
      - name: release
        base: {apiVersion: v1, kind: ConfigMap, metadata: {labels: {role: release}}}
      - name: release-uses-cluster
        base:
          apiVersion: protection.crossplane.io/v1beta1
          kind: Usage
          spec:
            of: {apiVersion: v1, kind: ConfigMap, resourceSelector: {matchControllerRef: true, matchLabels: {role: cluster}}}
            by: {apiVersion: v1, kind: ConfigMap, resourceSelector: {matchControllerRef: true, matchLabels: {role: release}}}
";

#[test]
fn environments_that_compose_usages_go_with_their_namespace_and_their_definition() {
    let Some(plane) = plane() else { return };
    plane.told("kubectl apply -f -", ENVIRONMENTS);
    plane.says("kubectl wait --for=condition=Established xrd/environments.example.org --timeout=20s");
    for namespace in ["kept", "gone"] {
        plane.says(&format!("kubectl create ns {namespace}"));
        for index in 0..5 {
            let environment = format!(
                "{{apiVersion: example.org/v1, kind: Environment, metadata: {{name: e{index}, namespace: {namespace}}}, spec: {{}}}}"
            );
            plane.told("kubectl create -f -", &environment);
        }
    }
    plane.until_used(10);
    plane.says("kubectl delete ns gone --timeout=30s");
    plane.says("kubectl delete environments -n kept e0 e1 --cascade=foreground --timeout=30s");
    plane.says("kubectl delete xrd environments.example.org --timeout=30s");
    plane.says(
        "kubectl wait --for=delete usages.protection.crossplane.io,cm -l crossplane.io/composite -n kept --timeout=30s",
    );
}
