//! Helm, with a chart that has a little of everything.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::peers::{heavy_peer, peer};
use crate::plane::Plane;
use crate::sandbox::Ran;

/// A plane, and Helm. Something may play the part of a cluster, where deployments become ready and jobs end.
struct Shop {
    // A caller that uses the plane must end before it does.
    cluster: Option<Child>,
    helm: PathBuf,
    plane: Plane,
}

impl Drop for Shop {
    fn drop(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            let _ = cluster.kill();
            let _ = cluster.wait();
        }
    }
}

impl Shop {
    /// Nothing if Helm is not installed.
    fn open() -> Option<Self> {
        Some(Self { helm: heavy_peer("helm")?, cluster: None, plane: Plane::new() })
    }

    fn with_cluster(mut self) -> Option<Self> {
        let mut command = self.plane.client(&peer("clients-go")?);
        let mut cluster = command.arg("play-cluster").stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(cluster.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "playing\n");
        self.cluster = Some(cluster);
        Some(self)
    }

    fn helm(&self, arguments: &[&str]) -> Ran {
        self.plane.client(&self.helm).args(arguments).output().unwrap().into()
    }

    /// A release as Helm has it, with what the server has of its objects.
    fn status(&self) -> Value {
        serde_json::from_str(&self.helm(&["status", "shop", "--output", "json"]).ok()).unwrap()
    }

    /// An object of the release, as the server has it.
    fn object(&self, place: &str) -> Value {
        let status = self.status();
        let (kind, name) = place.split_once('/').unwrap();
        let resources = status["info"]["resources"].as_object().unwrap();
        let mut objects = resources.values().flat_map(|objects| objects.as_array().unwrap());
        let found = objects.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {place} in {status:#}")).clone()
    }
}

/// The chart's directory.
fn chart() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/oracles/helm/chart");
    path.to_str().unwrap().to_owned()
}

#[test]
fn helm_installs_upgrades_rolls_back_and_uninstalls() {
    let Some(shop) = Shop::open().and_then(Shop::with_cluster) else { return };
    let wait = ["--wait", "--timeout", "60s"];

    shop.helm(&[&["install", "shop", &chart()], &wait[..]].concat()).ok();
    let config = shop.object("ConfigMap/shop-config");
    assert_eq!(config["data"], json!({"greeting": "hello", "kubernetes": "36", "knowsEvents": "true"}));
    assert_eq!(shop.object("Deployment/shop")["status"]["readyReplicas"], 2);
    assert_eq!(shop.object("Good/shop-pear")["spec"]["price"], 2);
    assert_eq!(
        shop.object("Secret/shop-secret")["data"],
        json!({"password": "aGVsbG8=", "namespace": "ZGVmYXVsdA=="})
    );

    let changes = ["--set", "replicas=3,greeting=bye"];
    shop.helm(&[&["upgrade", "shop", &chart()], &changes[..], &wait[..]].concat()).ok();
    assert_eq!(shop.object("ConfigMap/shop-config")["data"]["greeting"], "bye");
    assert_eq!(shop.object("ConfigMap/shop-config")["metadata"]["uid"], config["metadata"]["uid"]);
    assert_eq!(shop.object("Deployment/shop")["status"]["readyReplicas"], 3);

    shop.helm(&[&["rollback", "shop", "1"], &wait[..]].concat()).ok();
    assert_eq!(shop.object("ConfigMap/shop-config")["data"]["greeting"], "hello");
    let history = shop.helm(&["history", "shop", "--output", "json"]).ok();
    let history: Vec<Value> = serde_json::from_str(&history).unwrap();
    let states: Vec<_> = history.iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["superseded", "superseded", "deployed"]);

    shop.helm(&[&["uninstall", "shop"], &wait[..]].concat()).ok();
    assert_eq!(shop.helm(&["list", "--output", "json"]).ok().trim(), "[]");
    // The definition stays, as Helm never deletes one; everything can be installed once more.
    shop.helm(&[&["install", "shop", &chart()], &wait[..]].concat()).ok();
}

#[test]
fn helm_waits_for_the_job_of_a_hook_that_never_ends() {
    let Some(shop) = Shop::open() else { return };
    let said = shop.helm(&["install", "shop", &chart(), "--timeout", "1s"]).fails_with(1);
    assert!(said.contains("pre-install") && said.contains("deadline exceeded"), "{said}");
    assert_eq!(shop.status()["info"]["status"], "failed");
}

#[test]
fn helm_waits_for_a_deployment_that_never_is_ready() {
    let Some(shop) = Shop::open() else { return };
    let arguments = ["install", "shop", &chart(), "--no-hooks", "--wait", "--timeout", "1s"];
    let said = shop.helm(&arguments).fails_with(1);
    assert!(said.contains("Deployment/default/shop not ready"), "{said}");
}
