//! Deleting, and what becomes of what was owned.

use super::plane;
use crate::plane::Plane;

/// A config map that owns another.
fn family(plane: &Plane, name: &str) {
    plane.says(&format!("kubectl create cm {name}"));
    let uid = plane.says(&format!("kubectl get cm {name} -o jsonpath={{.metadata.uid}}"));
    let child = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}-child, ownerReferences: [{{apiVersion: v1, \
         kind: ConfigMap, name: {name}, uid: {uid}, blockOwnerDeletion: true}}]}}}}"
    );
    plane.told("kubectl create -f -", &child);
}

#[test]
fn children_go_with_their_owner_or_stay() {
    let Some(plane) = plane() else { return };
    for name in ["a", "b", "c"] {
        family(&plane, name);
    }
    let deleted = plane.says("kubectl delete cm a --cascade=background");
    assert_eq!(deleted, "configmap \"a\" deleted from default namespace\n");
    plane.says("kubectl wait --for=delete cm/a-child --timeout=20s");
    plane.says("kubectl delete cm b --cascade=foreground --timeout=20s");
    assert!(plane.fails("kubectl get cm b-child", "").contains("not found"));
    plane.says("kubectl delete cm c --cascade=orphan");
    assert_eq!(plane.says("kubectl get cm c-child -o jsonpath='{.metadata.ownerReferences}'"), "");
}

#[test]
fn finalizers_hold_objects_until_they_are_gone() {
    let Some(plane) = plane() else { return };
    let held = "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.org/held]}}";
    plane.told("kubectl create -f -", held);
    let late = plane.fails("kubectl delete cm held --timeout=100ms", "");
    assert!(late.contains("timed out waiting for the condition on configmaps/held"), "{late}");
    plane.says("kubectl patch cm held --type=merge -p '{\"metadata\":{\"finalizers\":null}}'");
    plane.says("kubectl wait --for=delete cm/held --timeout=20s");
}

#[test]
fn namespaces_take_everything_with_them_but_some_stay() {
    let Some(plane) = plane() else { return };
    plane.says(
        "kubectl create ns team && kubectl create cm x -n team && kubectl create deploy d --image=i -n team",
    );
    assert_eq!(plane.says("kubectl delete ns team --timeout=20s"), "namespace \"team\" deleted\n");
    assert!(plane.fails("kubectl get cm x -n team", "").contains("not found"));
    let refused = plane.fails("kubectl delete ns default", "");
    assert_eq!(
        refused,
        "Error from server (Forbidden): namespaces \"default\" is forbidden: this namespace may not be deleted\n"
    );
}

#[test]
fn what_is_selected_is_deleted_and_what_is_missing_is_said() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    assert_eq!(
        plane.says("kubectl delete cm -l app=web"),
        "configmap \"settings\" deleted from default namespace\n"
    );
    assert!(
        plane.says("kubectl delete svc --all").contains("service \"web\" deleted from default namespace\n")
    );
    assert!(plane.fails("kubectl delete cm nosuch", "").contains("configmaps \"nosuch\" not found"));
    assert_eq!(plane.says("kubectl delete cm nosuch --ignore-not-found"), "");
}
