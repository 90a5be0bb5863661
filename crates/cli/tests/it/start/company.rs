//! Nobody starts beside a Crossplane that runs.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ground::{Ground, SECRETS};
use super::replica::{Replica, dry_run, refused};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/crossplane-system/deployments";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/crossplane-system/leases";

fn deployment(replicas: u32) -> Value {
    let labels = json!({"app": "crossplane"});
    let pod = json!({"containers": [{"name": "core", "image": "crossplane", "args": ["core", "start"]}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "crossplane", "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    })
}

fn lease(renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "crossplane-leader-election-core"},
        "spec": {"holderIdentity": "crossplane-7d9f_1", "leaseDurationSeconds": 3, "renewTime": renewed, "leaseTransitions": 4},
    })
}

/// The process that runs Deployments writes to them, too.
fn scale_down(ground: &Ground) {
    let path = format!("{DEPLOYMENTS}/crossplane");
    loop {
        let mut stopped = ground.get(&path);
        stopped["spec"]["replicas"] = 0.into();
        match ground.send("PUT", &path, &stopped) {
            (200, _) => return,
            (409, _) => {}
            answer => panic!("{answer:?}"),
        }
    }
}

#[test]
fn nobody_starts_beside_a_crossplane_that_runs() {
    let ground = Ground::new();
    ground.create(DEPLOYMENTS, &deployment(2));
    let said = refused(&ground, &[]);
    let advice = "kubectl --namespace crossplane-system scale deployment crossplane --replicas 0";
    assert!(said.contains(advice), "{said}");
    let (code, said) = dry_run(&ground);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("Deployment `crossplane` in `crossplane-system`, 2 replicas"), "{said}");
    assert!(said.contains(advice), "{said}");
    assert_eq!(ground.get(&format!("{SECRETS}/crossplane-root-ca")), Value::Null);

    scale_down(&ground);
    // Its pod is still there, and renews.
    let time = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    ground.create(LEASES, &lease(&time("2126-01-01T00:00:00Z".parse().unwrap())));
    let said = refused(&ground, &[]);
    assert!(said.contains("`crossplane-7d9f_1` holds the lease"), "{said}");

    // It is gone: nobody renews any more.
    let path = format!("{LEASES}/crossplane-leader-election-core");
    let mut expired = ground.get(&path);
    expired["spec"] = lease("2026-01-01T00:00:00.000000Z")["spec"].clone();
    assert_eq!(ground.send("PUT", &path, &expired).0, 200);
    let replica = Replica::start(&ground, &[]);
    replica.until("replica stands by");
    replica.until("became the leader");
    assert_eq!(ground.lease()["leaseTransitions"], 5);
    replica.stop();
}

#[test]
fn nobody_starts_beside_the_controllers_of_an_embedded_plane() {
    let ground = Ground::new();
    if !ground.is_embedded() {
        return;
    }
    let plane = crate::plane::Plane::start(tempfile::TempDir::new().unwrap(), &["--in-memory"]);
    let kubeconfig = plane.path("kubeconfig");
    let said = refused(&ground, &["--kubeconfig", kubeconfig.to_str().unwrap()]);
    assert!(said.contains("start it with --no-controllers"), "{said}");
}
