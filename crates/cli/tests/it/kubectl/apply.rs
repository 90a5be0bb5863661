//! Applying manifests on either side, editing and patching.

use super::{WEB, plane};

#[test]
fn what_is_applied_is_created_then_changed_then_left_alone() {
    let Some(plane) = plane() else { return };
    let all =
        |verb: &str| format!("deployment.apps/web {verb}\nservice/web {verb}\nconfigmap/settings {verb}\n");
    assert_eq!(plane.says("kubectl apply -f web.yaml"), all("created"));
    assert_eq!(plane.says("kubectl apply -f web.yaml"), all("unchanged"));
    let plane = plane.with("more.yaml", &WEB.replace("replicas: 2", "replicas: 3"));
    let difference = plane.fails("kubectl diff -f more.yaml", "");
    assert!(difference.contains("-  replicas: 2\n+  replicas: 3\n"), "{difference}");
    assert!(plane.says("kubectl apply -f more.yaml").starts_with("deployment.apps/web configured\n"));
    assert_eq!(plane.says("kubectl diff -f more.yaml"), "");
    assert_eq!(
        plane.says("kubectl get deploy web -o jsonpath='{.spec.replicas} {.metadata.generation}'"),
        "3 2"
    );
}

#[test]
fn owners_of_fields_get_in_each_others_way_unless_forced() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    let applied = plane.says("kubectl apply -f web.yaml --server-side");
    assert!(applied.starts_with("deployment.apps/web serverside-applied\n"), "{applied}");
    let plane = plane.with("seven.yaml", &WEB.replace("replicas: 2", "replicas: 7"));
    let refused = plane.fails("kubectl apply -f seven.yaml --server-side --field-manager=other", "");
    let expected = "error: Apply failed with 1 conflict: conflict with \"kubectl\": .spec.replicas\n";
    assert!(refused.contains(expected), "{refused}");
    plane.says("kubectl apply -f seven.yaml --server-side --field-manager=other --force-conflicts");
    let refused = plane.fails("kubectl apply -f web.yaml --server-side", "");
    assert!(refused.contains("conflict with \"other\": .spec.replicas"), "{refused}");
    let managers =
        "kubectl get deploy web --show-managed-fields -o jsonpath='{.metadata.managedFields[*].manager}'";
    assert_eq!(plane.says(managers), "kubectl-last-applied kubectl other");
}

#[test]
fn objects_are_patched_in_three_ways() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    let side = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s:1"}]}}}}"#;
    assert_eq!(plane.says(&format!("kubectl patch deploy web -p '{side}'")), "deployment.apps/web patched\n");
    let images = "kubectl get deploy web -o jsonpath='{.spec.template.spec.containers[*].image}'";
    assert_eq!(plane.says(images), "s:1 nginx:1");
    plane.says(r#"kubectl patch cm settings --type=merge -p '{"data":{"a":null,"m":"merged"}}'"#);
    plane
        .says(r#"kubectl patch cm settings --type=json -p '[{"op":"add","path":"/data/j","value":"json"}]'"#);
    let data = "kubectl get cm settings -o jsonpath='{.data}'";
    assert_eq!(plane.says(data), r#"{"b":"2","j":"json","m":"merged"}"#);
    let unchanged = plane.says(r#"kubectl patch cm settings --type=merge -p '{"data":{"j":"json"}}'"#);
    assert_eq!(unchanged, "configmap/settings patched (no change)\n");
    let refused =
        r#"kubectl patch cm settings --type=json -p '[{"op":"test","path":"/data/j","value":"other"}]'"#;
    assert_eq!(
        plane.fails(refused, ""),
        "The request is invalid: the server rejected our request due to an error in our request\n"
    );
}

#[test]
fn objects_are_edited_labelled_annotated_and_replaced() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    let edited = plane.says("EDITOR=\"sed -i 's/a: \\\"1\\\"/a: edited/'\" kubectl edit cm settings");
    assert_eq!(edited, "configmap/settings edited\n");
    assert_eq!(plane.says("kubectl get cm settings -o jsonpath='{.data.a}'"), "edited");
    assert_eq!(plane.says("kubectl label cm settings x=y"), "configmap/settings labeled\n");
    assert!(plane.fails("kubectl label cm settings x=z", "").contains("'x' already has a value (y)"));
    plane.says("kubectl label cm settings x=z --overwrite");
    assert_eq!(plane.says("kubectl label cm settings x-"), "configmap/settings unlabeled\n");
    assert_eq!(plane.says("kubectl annotate cm settings note=hello"), "configmap/settings annotated\n");
    let fresh = "kubectl get cm settings -o yaml | sed 's/note: hello/note: bye/' > fresh.yaml";
    plane.says(fresh);
    assert_eq!(plane.says("kubectl replace -f fresh.yaml"), "configmap/settings replaced\n");
    let conflict = plane.fails("kubectl replace -f fresh.yaml", "");
    assert!(
        conflict.contains("the object has been modified; please apply your changes to the latest version")
    );
    plane.says("kubectl replace --force -f fresh.yaml");
}

#[test]
fn deployments_are_scaled_and_rolled_out() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    assert_eq!(plane.says("kubectl scale deploy web --replicas=5"), "deployment.apps/web scaled\n");
    let wrong = plane.fails("kubectl scale deploy web --replicas=6 --current-replicas=1", "");
    assert!(wrong.contains("Expected replicas to be 1, was 5"), "{wrong}");
    let scale = plane.rows("kubectl get deploy web --subresource=scale");
    assert_eq!(scale, ["NAME DESIRED AVAILABLE AGE", "web 5 0 AGE"]);
    let image = plane.says("kubectl set image deploy/web web=nginx:2");
    assert_eq!(image, "deployment.apps/web image updated\n");
    assert_eq!(plane.says("kubectl rollout restart deploy/web"), "deployment.apps/web restarted\n");
    assert_eq!(
        plane.says("kubectl rollout history deploy/web"),
        "deployment.apps/web \nNo rollout history found.\n"
    );
    let status = r#"{"status":{"observedGeneration":9,"replicas":5,"updatedReplicas":5,"readyReplicas":5,"availableReplicas":5}}"#;
    plane.says(&format!("kubectl patch deploy web --subresource=status --type=merge -p '{status}'"));
    let done = plane.says("kubectl rollout status deploy/web --timeout=10s");
    assert_eq!(done, "deployment \"web\" successfully rolled out\n");
    assert_eq!(plane.rows("kubectl get deploy web")[1], "web 5/5 5 5 AGE");
}

#[test]
fn directories_with_a_kustomization_are_applied() {
    let Some(plane) = plane() else { return };
    let plane = plane
        .with("kust/kustomization.yaml", "namePrefix: k-\nresources: [cm.yaml]\n")
        .with("kust/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n");
    assert_eq!(plane.says("kubectl apply -k kust"), "configmap/k-cm created\n");
}

#[test]
fn wrong_manifests_are_refused_in_the_words_of_a_real_cluster() {
    let Some(plane) = plane() else { return };
    let refused = |manifest: &str, flags: &str| plane.fails(&format!("kubectl apply -f - {flags}"), manifest);
    assert_eq!(
        refused("{apiVersion: nosuch.org/v1, kind: Thing, metadata: {name: x}}", ""),
        "error: resource mapping not found for name: \"x\" namespace: \"\" from \"STDIN\": no matches for kind \
         \"Thing\" in version \"nosuch.org/v1\"\nensure CRDs are installed first\n"
    );
    assert_eq!(
        refused("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, dat: {}}", ""),
        "Error from server (BadRequest): error when creating \"STDIN\": ConfigMap in version \"v1\" cannot be \
         handled as a ConfigMap: strict decoding error: unknown field \"dat\"\n"
    );
    let both =
        refused("{apiVersion: v1, kind: ConfigMap, metadata: {name: Bad_Name}, dat: {}}", "--validate=warn");
    assert!(
        both.starts_with("Warning: unknown field \"dat\"\nThe ConfigMap \"Bad_Name\" is invalid: "),
        "{both}"
    );
    assert!(
        both.contains("metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain"),
        "{both}"
    );
    let service =
        refused("{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 99999}]}}", "");
    assert!(
        service.contains("spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535"),
        "{service}"
    );
    let text = refused(&WEB.replace("replicas: 2", "replicas: two"), "");
    assert!(text.contains("unable to decode") || text.contains("cannot unmarshal"), "{text}");
    assert_eq!(
        plane.fails("kubectl create cm x -n nowhere", ""),
        "error: failed to create configmap: namespaces \"nowhere\" not found\n"
    );
}
