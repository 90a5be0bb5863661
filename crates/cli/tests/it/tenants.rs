//! What people who share `ferroplane up` with others cannot do.

use crate::peers::peer;
use crate::plane::Plane;

/// A definition, a Composition and a composite resource of an author who has the right to write just these.
const TAKE_OVER: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: wides.tenant.test.io}
spec:
  group: tenant.test.io
  scope: Cluster
  names: {kind: Wide, plural: wides}
  versions:
  - {name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: take-over}
spec:
  mode: Pipeline
  compositeTypeRef: {apiVersion: tenant.test.io/v1, kind: Wide}
  pipeline:
  - step: compose
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: binding
        base:
          apiVersion: rbac.authorization.k8s.io/v1
          kind: ClusterRoleBinding
          metadata: {name: take-over}
          roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
          subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: author}]
";
const WIDE: &str = "{apiVersion: tenant.test.io/v1, kind: Wide, metadata: {name: greedy}, spec: {}}";

#[test]
fn author_of_compositions_does_not_become_an_administrator() {
    let Some(_) = peer("kubectl") else { return };
    let plane = Plane::new();
    plane.says(
        "kubectl create clusterrole author --verb='*' \
         --resource=compositeresourcedefinitions.apiextensions.crossplane.io,compositions.apiextensions.crossplane.io && \
         kubectl create clusterrolebinding author --clusterrole=author --user=author",
    );
    plane.told("kubectl apply --as=author -f -", TAKE_OVER);
    plane.says("kubectl wait xrd/wides.tenant.test.io --for=condition=Established --timeout=30s");
    plane.says(
        "kubectl create clusterrole wides --verb='*' --resource=wides.tenant.test.io && \
         kubectl create clusterrolebinding wides --clusterrole=wides --user=author",
    );
    plane.told("kubectl apply --as=author -f -", WIDE);
    plane.says("kubectl wait wide/greedy --for=condition=Synced=False --timeout=30s");

    let synced = plane
        .says("kubectl get wide greedy -o jsonpath='{.status.conditions[?(@.type==\"Synced\")].message}'");
    // The first reconcile records the reference and may not apply; those after it may not even read what is recorded.
    let unread = "User \"system:ferroplane\" cannot get resource \"clusterrolebindings\"";
    let refusal = "User \"system:ferroplane:composer\" cannot patch resource \"clusterrolebindings\"";
    assert!(synced.contains(refusal) || synced.contains(unread), "{synced}");
    plane.fails("kubectl get clusterrolebinding take-over", "");
    assert_eq!(plane.fails("kubectl auth can-i '*' '*' --as=author", "").trim_end(), "no");
    let why = plane.fails(&format!("{} why wide/greedy", env!("CARGO_BIN_EXE_ferroplane")), "");
    let told = "system:ferroplane:composer is not allowed to [get, list, watch, create, update, patch, delete] resource \
                clusterrolebindings.rbac.authorization.k8s.io/v1";
    assert!(why.contains(told) || why.contains(unread), "{why}");
    assert!(why.contains("rbac.crossplane.io/aggregate-to-crossplane"), "{why}");
}
