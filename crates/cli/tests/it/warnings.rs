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
---
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: fences.warned.test.io}
spec:
  scope: Cluster
  group: warned.test.io
  names: {kind: Fence, plural: fences}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {place: {type: string}}}}}}
";

const SYNTAX_ERROR: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: guards}
spec:
  compositeTypeRef: {apiVersion: warned.test.io/v1, kind: Guard}
  mode: Pipeline
  pipeline:
  - step: check
    functionRef: {name: function-cel-validation}
    input:
      apiVersion: validation.fn.ferroplane.io/v1beta1
      kind: Validation
      rules:
      - {name: a, rule: '1 +'}
";

/// Where Crossplane 1 published connection details.
const FORMER_FIELD: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: guards}
spec:
  compositeTypeRef: {apiVersion: warned.test.io/v1, kind: Guard}
  publishConnectionDetailsWithStoreConfigRef: {name: default}
  mode: Pipeline
  pipeline:
  - {step: ready, functionRef: {name: function-auto-ready}}
";

const LOST_PATCH: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: guards}
spec:
  compositeTypeRef: {apiVersion: warned.test.io/v1, kind: Guard}
  mode: Resources
  resources:
  - name: policy
    base: {apiVersion: warned.test.io/v1, kind: Policy}
    patches:
    - {type: ToCompositeFieldPath, fromFieldPath: spec.region, toFieldPath: spec.place}
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

/// Applies a Composition, and again until a warning begins with that.
fn apply_until(plane: &Plane, composition: &str, words: &str) {
    let began = Instant::now();
    loop {
        let said = plane.told("kubectl apply --dry-run=server -f -", composition);
        if said.contains(&format!("Warning: {words}")) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{words}: {said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn mistakes_in_a_composition_are_warned_of_when_it_is_applied() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::find();
    plane.told("kubectl apply -f -", KINDS);
    plane.says("kubectl wait crd/policies.warned.test.io --for=condition=Established --timeout=60s");
    for definition in ["guards", "fences"] {
        let wait =
            format!("kubectl wait xrd/{definition}.warned.test.io --for=condition=Established --timeout=60s");
        plane.says(&wait);
    }
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
        let words = format!("step `compose`: input.resources[0].{words}\n");
        apply_until(&plane, &composition(version, kind, from, to), &words);
    }
    let without_namespace =
        composition("v1", "Policy", "spec.place", "spec.region").replace("kind: Guard", "kind: Fence");
    for (composition, words) in [
        (
            SYNTAX_ERROR,
            "step `check`: input.rules: cannot compile rule \"a\": ERROR: <input>:1:4: Syntax error",
        ),
        (
            FORMER_FIELD,
            "spec.publishConnectionDetailsWithStoreConfigRef has no effect: external secret stores were removed",
        ),
        (
            LOST_PATCH,
            "spec.resources[0].patches[0]: `resources[0].patches[0]` writes `spec.place` of the composite",
        ),
        (
            without_namespace.as_str(),
            "step `compose`: input.resources[0].base.metadata.namespace: Required value: Policy is namespaced and Fence is \
             cluster scoped",
        ),
    ] {
        apply_until(&plane, composition, words);
    }
    let said = plane.told("kubectl apply -f -", &composition("v1", "Policy", "spec.place", "spec.region"));
    assert_eq!(said, "composition.apiextensions.crossplane.io/guards created\n");
    plane.says(
        "kubectl delete composition/guards xrd/guards.warned.test.io xrd/fences.warned.test.io crd/policies.warned.test.io \
         --timeout=60s",
    );
}
