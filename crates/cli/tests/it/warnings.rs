//! What `kubectl apply` says about a Composition, by `ferroplane up` or, if the environment names an API server, by
//! `ferroplane start` beside that one.

use std::time::{Duration, Instant};

use crate::peers::peer;
use crate::plane::Plane;

/// How long it may take until an API server knows whom to ask.
const PATIENCE: Duration = Duration::from_mins(1);

const KINDS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: policies.warned.test.io}
spec:
  group: warned.test.io
  scope: Namespaced
  names: {kind: Policy, plural: policies, singular: policy, listKind: PolicyList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {region: {type: string}}}}
---
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: guards.warned.test.io}
spec:
  scope: Namespaced
  group: warned.test.io
  names: {kind: Guard, plural: guards}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {place: {type: string}}}}}}
";

fn composition(version: &str, kind: &str, from: &str, to: &str) -> String {
    format!(
        "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {{name: guards}}
spec:
  compositeTypeRef: {{apiVersion: warned.test.io/v1, kind: Guard}}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {{name: function-patch-and-transform}}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: policy
        base: {{apiVersion: warned.test.io/{version}, kind: {kind}}}
        patches:
        - {{type: FromCompositeFieldPath, fromFieldPath: {from}, toFieldPath: {to}}}
"
    )
}

/// Applies a Composition, and again until that is said.
fn apply_until(plane: &Plane, composition: &str, words: &str) {
    let began = Instant::now();
    loop {
        let said = plane.told("kubectl apply --dry-run=server -f -", composition);
        let warning = format!("Warning: step `compose`: input.resources[0].{words}\n");
        if said.contains(&warning) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{words}: {said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn bases_and_patches_that_do_not_fit_the_kinds_on_the_plane_are_warned_of() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::find();
    plane.told("kubectl apply -f -", KINDS);
    plane.says("kubectl wait crd/policies.warned.test.io --for=condition=Established --timeout=60s");
    plane.says("kubectl wait xrd/guards.warned.test.io --for=condition=Established --timeout=60s");
    for (version, kind, from, to, words) in [
        (
            "v1",
            "Policy",
            "spec.place",
            "spec.regoin",
            "patches[0].toFieldPath: Policy has no field `spec.regoin`",
        ),
        (
            "v1",
            "Policy",
            "spec.location",
            "spec.region",
            "patches[0].fromFieldPath: Guard has no field `spec.location`",
        ),
        (
            "v2",
            "Policy",
            "spec.place",
            "spec.region",
            "base.apiVersion: Policy (warned.test.io) has no version v2, only v1",
        ),
        ("v1", "Rule", "spec.place", "spec.region", "base.kind: no CRD or XRD defines Rule (warned.test.io)"),
    ] {
        apply_until(&plane, &composition(version, kind, from, to), words);
    }
    let said = plane.told("kubectl apply -f -", &composition("v1", "Policy", "spec.place", "spec.region"));
    assert_eq!(said, "composition.apiextensions.crossplane.io/guards created\n");
    plane.says("kubectl delete composition/guards xrd/guards.warned.test.io crd/policies.warned.test.io --timeout=60s");
}
