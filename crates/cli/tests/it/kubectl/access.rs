//! Who may do what: `kubectl auth`, impersonation, tokens.

use super::plane;

#[test]
fn rights_are_told_and_enforced() {
    let Some(plane) = plane() else { return };
    assert_eq!(plane.says("kubectl auth can-i create pods"), "yes\n");
    assert_eq!(plane.fails("kubectl auth can-i create pods --as=bob", ""), "no\n");
    let refused = plane.fails("kubectl get pods --as=bob", "");
    assert_eq!(
        refused,
        "Error from server (Forbidden): pods is forbidden: User \"bob\" cannot list resource \"pods\" in API group \"\" \
         in the namespace \"default\"\n"
    );
    plane.says("kubectl create role reader --verb=get,list --resource=pods");
    plane.says("kubectl create rolebinding reads --role=reader --user=bob");
    assert_eq!(plane.says("kubectl auth can-i list pods --as=bob"), "yes\n");
    assert_eq!(plane.says("kubectl get pods --as=bob"), "No resources found in default namespace.\n");
    let rights = plane.rows("kubectl auth can-i --list --as=bob");
    assert!(rights.contains(&"pods [] [] [get list]".to_owned()), "{rights:#?}");
    let who = plane.rows("kubectl auth whoami --as=bob --as-group=readers");
    assert_eq!(who[1..], ["Username bob", "Groups [readers system:authenticated]"]);
}

#[test]
fn a_service_account_acts_with_its_token() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl create serviceaccount robot");
    plane.says("kubectl create clusterrolebinding robots --clusterrole=view --serviceaccount=default:robot");
    plane.says("kubectl create token robot --duration=10m > token");
    let robot = "kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' \
                 | base64 -d > ca && kubectl --kubeconfig=/dev/null --certificate-authority=ca --token=$(cat token) \
                 --server=$(kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}')";
    assert!(plane.says(&format!("{robot} auth whoami")).contains("system:serviceaccount:default:robot"));
    plane.says(&format!("{robot} get cm"));
    let refused = plane.fails(&format!("{robot} get secrets"), "");
    assert!(
        refused.contains("User \"system:serviceaccount:default:robot\" cannot list resource \"secrets\"")
    );
    let long = plane.says("kubectl create token robot --duration=876000h 2>&1 >/dev/null");
    assert_eq!(long, "Warning: requested expiration of 3153600000 seconds shortened to 172800 seconds\n");
    let missing = plane.fails("kubectl create token nobody", "");
    assert_eq!(missing, "error: failed to create token: serviceaccounts \"nobody\" not found\n");
}
