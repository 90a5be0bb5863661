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
    plane.says("kubectl wait --for=condition=Ready usages.protection.crossplane.io/u --timeout=20s");
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
