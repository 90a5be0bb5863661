//! Looking at objects: tables, forms, selections, descriptions, watches.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::plane;

#[test]
fn tables_have_the_columns_of_a_real_cluster() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    let rows = plane.rows("kubectl get deploy,svc -o wide");
    let address = plane.says("kubectl get svc web -o jsonpath='{.spec.clusterIP}'");
    assert!(address.starts_with("10."), "{address}");
    assert_eq!(
        rows,
        [
            "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR",
            "deployment.apps/web 0/2 0 0 AGE web nginx:1 app=web",
            "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR",
            "service/kubernetes ClusterIP 10.96.0.1 <none> 443/TCP AGE <none>",
            &*format!("service/web ClusterIP {address} <none> 80/TCP AGE app=web"),
        ]
    );
    assert_eq!(plane.rows("kubectl get cm settings"), ["NAME DATA AGE", "settings 2 AGE"]);
    assert_eq!(plane.rows("kubectl get ns default"), ["NAME STATUS AGE", "default Active AGE"]);
    let all = plane.rows("kubectl get all");
    assert!(all.contains(&"deployment.apps/web 0/2 0 0 AGE".to_owned()), "{all:?}");
}

#[test]
fn objects_are_shown_in_every_form() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    assert_eq!(plane.says("kubectl get deploy web -o name"), "deployment.apps/web\n");
    assert_eq!(plane.says("kubectl get deploy web -o jsonpath='{.spec.replicas}'"), "2");
    let columns = plane.rows("kubectl get deploy web -o custom-columns=N:.metadata.name,X:.nope");
    assert_eq!(columns, ["N X", "web <none>"]);
    let yaml = plane.says("kubectl get cm settings -o yaml");
    assert!(yaml.starts_with("apiVersion: v1\ndata:\n  a: \"1\"\n  b: \"2\"\nkind: ConfigMap\n"), "{yaml}");
    let json: serde_json::Value = serde_json::from_str(&plane.says("kubectl get cm -o json")).unwrap();
    assert_eq!(json["kind"], "List");
    let raw = plane.says("kubectl get --raw /api/v1/namespaces/default/configmaps/settings");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&raw).unwrap()["data"]["a"], "1");
    assert_eq!(plane.says("kubectl get --raw /healthz"), "ok");
    let unknown = plane.fails("kubectl get --raw /nosuch", "");
    assert_eq!(unknown, "Error from server (NotFound): the server could not find the requested resource\n");
}

#[test]
fn objects_are_selected_and_paged() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    plane.says("for i in 1 2 3; do kubectl create cm c$i; done");
    let names = |flags: &str| plane.says(&format!("kubectl get cm {flags} -o name"));
    assert_eq!(names("-l 'app in (web),!x'"), "configmap/settings\n");
    assert_eq!(names("--field-selector metadata.name=c2"), "configmap/c2\n");
    assert!(
        plane.fails("kubectl get cm --field-selector spec.x=1", "").contains("not a known field selector")
    );
    assert!(plane.rows("kubectl get cm -A --chunk-size=1").len() > 5);
    assert_eq!(plane.says("kubectl get pods"), "No resources found in default namespace.\n");
    let missing = plane.fails("kubectl get cm nosuch", "");
    assert_eq!(missing, "Error from server (NotFound): configmaps \"nosuch\" not found\n");
    let unknown = plane.fails("kubectl get nosuch", "");
    assert_eq!(unknown, "error: the server doesn't have a resource type \"nosuch\"\n");
}

#[test]
fn a_watch_shows_changes_as_they_happen() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    let mut watch = plane.shell("exec kubectl get cm -l app=web -w --no-headers --output-watch-events");
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap().split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    assert_eq!(next(), "ADDED settings");
    plane.says("kubectl patch cm settings --type=merge -p '{\"data\":{\"c\":\"3\"}}'");
    assert_eq!(next(), "MODIFIED settings");
    plane.says("kubectl label cm settings app-");
    assert_eq!(next(), "DELETED settings");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn objects_are_described_with_their_events() {
    let Some(plane) = plane() else { return };
    plane.says("kubectl apply -f web.yaml");
    let event = "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: default}, reason: Tested, type: Normal, \
                 involvedObject: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: default}, \
                 message: it was tested, source: {component: tester}, count: 3}";
    plane.told("kubectl create -f -", event);
    let uid = "kubectl patch event e --type=merge -p \"{\\\"involvedObject\\\":{\\\"uid\\\":\\\"$(kubectl get deploy web -o jsonpath={.metadata.uid})\\\"}}\"";
    plane.says(uid);
    let described = plane.says("kubectl describe deploy web");
    assert!(described.contains("Replicas:               2 desired | 0 updated | 0 total"), "{described}");
    assert!(described.contains("tester  it was tested"), "{described}");
    let events = plane.rows("kubectl get events");
    assert_eq!(
        events,
        ["LAST SEEN TYPE REASON OBJECT MESSAGE", "<unknown> Normal Tested deployment/web it was tested"]
    );
    assert!(plane.says("kubectl events --for deployment/web").contains("Tested"));
    let other = plane.says("kubectl get events.v1.events.k8s.io e -o jsonpath='{.note} {.regarding.name}'");
    assert_eq!(other, "it was tested web");
    assert!(plane.says("kubectl describe ns default").contains("No resource quota."));
    assert!(plane.says("kubectl describe svc web").contains("Selector:"));
}

#[test]
fn fields_are_explained() {
    let Some(plane) = plane() else { return };
    let replicas = plane.says("kubectl explain deployment.spec.replicas");
    assert!(replicas.starts_with(
        "GROUP:      apps\nKIND:       Deployment\nVERSION:    v1\n\nFIELD: replicas <integer>\n"
    ));
    assert!(plane.says("kubectl explain cm --recursive").contains("  binaryData\t<map[string]string>\n"));
    let unknown = plane.fails("kubectl explain nosuch", "");
    assert_eq!(unknown, "the server doesn't have a resource type \"nosuch\"\n");
}

#[test]
fn the_server_says_what_there_is() {
    let Some(plane) = plane() else { return };
    let resources = plane.rows("kubectl api-resources");
    for expected in [
        "configmaps cm v1 true ConfigMap",
        "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition",
        "deployments deploy apps/v1 true Deployment",
        "events ev events.k8s.io/v1 true Event",
    ] {
        assert!(resources.iter().any(|row| row == expected), "{expected}\n{resources:#?}");
    }
    assert!(plane.says("kubectl api-versions").contains("rbac.authorization.k8s.io/v1\n"));
    assert!(plane.says("kubectl cluster-info").contains("is running at"));
    assert!(plane.says("kubectl version").contains("Server Version: v1.36.4+ferroplane"));
    assert_eq!(plane.says("kubectl config current-context"), "ferroplane\n");
}
