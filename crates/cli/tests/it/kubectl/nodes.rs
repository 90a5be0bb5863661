//! Nodes are drained, and pods looked into, although nothing runs on the ones or in the others.

use super::plane;

const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: one}, status: {capacity: {memory: 1Gi}}}";
const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: one, containers: [{name: web, image: nginx}]}}";

#[test]
fn node_is_drained() {
    let Some(plane) = plane() else { return };
    plane.told("kubectl create -f -", NODE);
    assert_eq!(plane.says("kubectl get node one -o jsonpath={.status.capacity.memory}"), "1Gi");
    plane.told("kubectl create -f -", POD);
    let dry = plane.says("kubectl drain one --force --dry-run=server --timeout=20s");
    assert!(dry.contains("node/one drained (server dry run)"), "{dry}");
    plane.says("kubectl get pod web");
    let drained = plane.says("kubectl drain one --force --timeout=20s");
    assert!(drained.contains("pod/web evicted") && drained.contains("node/one drained"), "{drained}");
    assert!(plane.fails("kubectl get pod web", "").contains("not found"));
}

#[test]
fn pod_is_looked_into() {
    let Some(plane) = plane() else { return };
    plane.told("kubectl create -f -", POD);
    plane.says("kubectl debug web --image=busybox --container=look --attach=false");
    assert_eq!(plane.says("kubectl get pod web -o jsonpath={.spec.ephemeralContainers[*].name}"), "look");
}

#[test]
fn policy_that_is_not_enforced_says_so() {
    let Some(plane) = plane() else { return };
    let policy = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, \
                  spec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], \
                  resources: [configmaps]}]}, validations: [{expression: 'false'}]}}";
    let said = plane.told("kubectl apply -f - 2>&1", policy);
    assert!(
        said.contains(
            "Warning: this API server keeps objects of kind ValidatingAdmissionPolicy but does not enforce"
        ),
        "{said}"
    );
}
