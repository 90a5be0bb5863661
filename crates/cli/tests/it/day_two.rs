//! The examples of day-two operations, by kubectl: a fleet is upgraded, apps are scheduled, what loops is paused, and a database is backed
//! up before it is deleted. They run on `ferroplane up` or, if the environment names an API server, on `ferroplane start` beside that one.

use std::ops::Deref;
use std::path::Path;

use tempfile::TempDir;

use crate::peers::peer;
use crate::plane::{Plane, ferroplane, has_oracle};
use crate::starlark;

/// Removes what the examples leave on an API server. What is paused is resumed first: nothing removes its finalizers otherwise.
const CLEAN_UP: &str = "
kubectl delete cronoperations,watchoperations,operations --all --timeout=60s
for kind in backupguards sites; do
  kubectl annotate $kind.example.org --all -n default crossplane.io/paused-
  kubectl delete $kind.example.org --all -n default --timeout=60s
done
kubectl delete xrd backupguards.example.org sites.example.org --ignore-not-found --timeout=60s
kubectl delete composition backup-guards sites --ignore-not-found
for kind in databases backups kubernetesclusters apps buckets; do
  kubectl delete crd $kind.example.org --ignore-not-found --timeout=60s
done
kubectl delete configmap page -n default --ignore-not-found
kubectl delete events --all -n default
";

/// A control plane with the kinds of an example. On an API server that others use afterwards, what the example made goes with it.
struct Stage(Plane);

impl Deref for Stage {
    type Target = Plane;

    fn deref(&self) -> &Plane {
        &self.0
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if has_oracle() {
            let _ = self.shell(CLEAN_UP).output();
        }
    }
}

/// A control plane with the kinds of an example, if there is a kubectl to speak with it.
fn plane(example: &str) -> Option<Stage> {
    peer("kubectl")?;
    let plane = Stage(if has_oracle() { Plane::find() } else { embedded() });
    let kinds = file(example, "crds.yaml");
    plane.told("kubectl apply -f -", &kinds);
    plane.told("kubectl wait --for=condition=Established --timeout=60s -f -", &kinds);
    Some(plane)
}

fn embedded() -> Plane {
    let directory = TempDir::new().unwrap();
    let mut command = ferroplane(directory.path(), &["up", "--listen", "127.0.0.1:0", "--in-memory"]);
    command.args(["--kubeconfig", "kubeconfig"]).env("XDG_CACHE_HOME", starlark::cache());
    Plane::run_by(directory, command)
}

/// A file of an example.
fn file(example: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example).join(name);
    std::fs::read_to_string(path).unwrap()
}

/// A file with something else in it.
fn changed(example: &str, name: &str, from: &str, to: &str) -> String {
    let text = file(example, name);
    assert!(text.contains(from), "{text}");
    text.replace(from, to)
}

/// Waits until an operation says something.
fn until_told(plane: &Plane, words: &str) {
    plane.until_said("kubectl get events -A -o jsonpath='{.items[*].message}'", |said| said.contains(words));
}

/// Waits until a schedule has come so many times more.
fn until_run(plane: &Plane, cron: &str, times: usize) {
    let line = format!("kubectl get cronoperation {cron} -o jsonpath='{{.status.lastSuccessfulTime}}'");
    let mut last = plane.says(&line);
    for _ in 0..times {
        last = plane.until_said(&line, |said| said != last);
    }
}

fn versions(plane: &Plane) -> String {
    plane.says("kubectl get kubernetesclusters -o jsonpath='{.items[*].spec.version}'")
}

fn set_status(plane: &Plane, cluster: &str, version: &str, ready: &str) {
    let conditions = format!(
        r#"[{{"type":"Synced","status":"True"}},{{"type":"Ready","status":"{ready}","reason":"Said"}}]"#
    );
    let status = format!(r#"{{"status":{{"version":"{version}","conditions":{conditions}}}}}"#);
    plane.says(&format!("kubectl patch kubernetescluster {cluster} --type=merge -p '{status}'"));
}

#[test]
fn fleet_is_upgraded_batch_by_batch_and_held_while_a_cluster_is_not_healthy() {
    const EXAMPLE: &str = "rolling-upgrade";
    let Some(plane) = plane(EXAMPLE) else { return };
    let wait = |clusters: &str| {
        plane
            .says(&format!("kubectl wait {clusters} --for=jsonpath='{{.spec.version}}'=v1.30 --timeout=60s"));
    };
    plane.told("kubectl apply -f -", &changed(EXAMPLE, "required.yaml", "v1.30", "v1.29"));
    plane.told("kubectl apply -f -", &changed(EXAMPLE, "operation.yaml", "0 12 * * *", "@every 1s"));

    wait("kubernetescluster/cluster-a");
    until_told(
        &plane,
        "Holding at batch 1 of 3: 1 of 1 that have v1.30 are not healthy: default/cluster-a (status.version is v1.29)",
    );
    assert_eq!(versions(&plane), "v1.30 v1.29 v1.29 v1.29 v1.29 v1.28");

    set_status(&plane, "cluster-a", "v1.30", "True");
    wait("kubernetescluster/cluster-b kubernetescluster/cluster-c");
    set_status(&plane, "cluster-b", "v1.30", "True");
    set_status(&plane, "cluster-c", "v1.30", "False");
    until_told(
        &plane,
        "Holding at batch 2 of 3: 1 of 3 that have v1.30 are not healthy: default/cluster-c (Ready is False: Said)",
    );
    until_run(&plane, "cluster-rolling-upgrade", 2);
    assert_eq!(versions(&plane), "v1.30 v1.30 v1.30 v1.29 v1.29 v1.28");

    set_status(&plane, "cluster-c", "v1.30", "True");
    wait("kubernetescluster/cluster-d kubernetescluster/cluster-e");
    for cluster in ["cluster-d", "cluster-e"] {
        set_status(&plane, cluster, "v1.30", "True");
    }
    until_told(&plane, "All batches are complete: 5 have v1.30");
    assert_eq!(versions(&plane), "v1.30 v1.30 v1.30 v1.30 v1.30 v1.28");
}

fn app(name: &str, replicas: u32) -> String {
    file("scheduling", "watched.yaml")
        .replace("name: shop", &format!("name: {name}"))
        .replace("replicas: 3", &format!("replicas: {replicas}"))
}

#[test]
fn apps_are_scheduled_to_clusters_of_their_region_with_room() {
    const EXAMPLE: &str = "scheduling";
    let Some(plane) = plane(EXAMPLE) else { return };
    let placed = |app: &str, cluster: &str| {
        plane.says(&format!(
            "kubectl wait app/{app} --for=jsonpath='{{.spec.clusterName}}'={cluster} --timeout=60s"
        ));
    };
    plane.told("kubectl apply -f -", &file(EXAMPLE, "required.yaml"));
    plane.told("kubectl apply -f -", &file(EXAMPLE, "operation.yaml"));
    placed("shop", "eu-2");
    until_told(
        &plane,
        "Found no place for 1: default/search (it takes 5, and no target has more room than 3)",
    );

    // Five are left on eu-2, and four on eu-1.
    plane.told("kubectl apply -f -", &app("wiki", 4));
    placed("wiki", "eu-2");
    plane.told("kubectl apply -f -", &app("forum", 4));
    placed("forum", "eu-1");
    plane.told("kubectl apply -f -", &app("late", 2));
    until_told(&plane, "default/late (it takes 2, and no target has more room than 1)");

    // A cluster becomes ready, and the next change of an App has it used.
    plane.says(r#"kubectl patch kubernetescluster eu-3 --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'"#);
    plane.says("kubectl annotate app late seen=yes");
    placed("late", "eu-3");
    assert_eq!(plane.says("kubectl get app search -o jsonpath='{.spec.clusterName}'"), "");
}

#[test]
fn bucket_with_many_events_is_paused_and_stays_resumed() {
    const EXAMPLE: &str = "pause-on-storm";
    const PAUSED: &str = r"-o jsonpath='{.metadata.annotations.crossplane\.io/paused}'";
    let Some(plane) = plane(EXAMPLE) else { return };
    // The events of the example are old, and so their storm would be over here.
    let now = plane.says("date -u +%Y-%m-%dT%H:%M:00Z");
    let recent =
        ["10:00:00", "10:01:30", "10:03:00"].iter().fold(file(EXAMPLE, "required.yaml"), |text, time| {
            text.replace(&format!("2026-01-01T{time}Z"), now.trim())
        });
    plane.told("kubectl apply -f -", &recent);
    plane.told("kubectl apply -f -", &changed(EXAMPLE, "operation.yaml", "* * * * *", "@every 1s"));
    plane.until_said(&format!("kubectl get bucket assets {PAUSED}"), |said| said == "true");
    assert_eq!(plane.says(&format!("kubectl get bucket logs {PAUSED}")), "");
    until_told(&plane, "Paused 1 of 2: default/assets (24 events within 10m0s)");

    plane.says("kubectl annotate bucket assets crossplane.io/paused-");
    until_run(&plane, "pause-looping-buckets", 3);
    assert_eq!(plane.says(&format!("kubectl get bucket assets {PAUSED}")), "");
}

/// A kind whose composed `ConfigMap` another user writes to as well.
const SITES: &str = r"
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: sites.example.org}
spec:
  group: example.org
  names: {kind: Site, plural: sites}
  scope: Namespaced
  versions:
  - {name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: sites}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: Site}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: page
        base: {apiVersion: v1, kind: ConfigMap, metadata: {name: page}, data: {color: red}}
        readinessChecks: [{type: None}]
";

#[test]
fn composite_resource_that_loops_is_paused() {
    let Some(plane) = plane("pause-on-storm") else { return };
    plane.told("kubectl apply -f -", SITES);
    plane.says("kubectl wait xrd/sites.example.org --for=condition=Established --timeout=60s");
    plane.told(
        "kubectl apply -f -",
        "{apiVersion: example.org/v1, kind: Site, metadata: {name: blog, namespace: default}, spec: {}}",
    );
    plane.says("kubectl wait site/blog --for=condition=Ready --timeout=60s");
    let operation = file("pause-on-storm", "operation.yaml").replace("* * * * *", "@every 1s");
    let operation = operation.replace("kind: Bucket", "kind: Site");
    let (before, _) = operation.split_once("          events:").unwrap();
    plane.told("kubectl apply -f -", &format!("{before}          conditions: [{{type: Responsive}}]\n"));

    // Somebody keeps changing what the Site composes, which the control plane changes back each time.
    let change = |number: u32| {
        format!(
            "---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: page, namespace: default}}, data: {{color: c{number}}}}}\n"
        )
    };
    let storm: String = (0..200).map(change).collect();
    plane.told("kubectl apply --server-side --force-conflicts --field-manager=somebody -f -", &storm);
    plane.until_said(
        r"kubectl get site blog -o jsonpath='{.metadata.annotations.crossplane\.io/paused}'",
        |said| said == "true",
    );
    until_told(&plane, "default/blog (Responsive is False: WatchCircuitOpen)");
    plane.says("kubectl wait site/blog --for=jsonpath='{.status.conditions[?(@.type==\"Synced\")].reason}'=ReconcilePaused --timeout=60s");
    plane.told("kubectl apply --server-side --force-conflicts --field-manager=somebody -f -", &change(1000));
    until_run(&plane, "pause-looping-buckets", 2);
    assert_eq!(plane.says("kubectl get cm page -o jsonpath='{.data.color}'"), "c1000");
}

#[test]
fn database_is_deleted_when_its_backup_was_made() {
    const EXAMPLE: &str = "backup";
    if !starlark::is_there() {
        return;
    }
    let Some(plane) = plane(EXAMPLE) else { return };
    for name in ["xrd.yaml", "composition.yaml", "operation.yaml"] {
        plane.told("kubectl apply -f -", &file(EXAMPLE, name));
    }
    plane.says("kubectl wait xrd/backupguards.example.org --for=condition=Established --timeout=60s");
    plane.told("kubectl apply -f -", &file(EXAMPLE, "guard.yaml"));
    plane.says("kubectl wait backupguard/orders --for=condition=Ready --timeout=60s");
    plane.until_used(1);
    // Nobody wants it gone, and so there is no backup.
    plane.says("kubectl wait watchoperation/back-up-before-deletion --for=jsonpath='{.status.lastSuccessfulTime}' --timeout=120s");
    assert_eq!(plane.says("kubectl get backups -o name"), "");

    // Suspended until the refusal has been seen. The webhook marks the Database before it refuses, and kube-apiserver then asks it about
    // the new state once more: by that time, the backup could have been made, and the Database be gone.
    let suspend = |is_suspended: bool| {
        let patch = format!(r#"{{"spec":{{"suspend":{is_suspended}}}}}"#);
        plane
            .says(&format!("kubectl patch watchoperation back-up-before-deletion --type=merge -p '{patch}'"));
    };
    suspend(true);
    plane.says(
        "kubectl wait watchoperation/back-up-before-deletion --for=condition=Watching=False --timeout=60s",
    );
    let refused = plane.fails("kubectl delete database orders", "");
    assert!(refused.contains("with reason: it is backed up before it is deleted"), "{refused}");
    suspend(false);
    plane.says("kubectl wait database/orders --for=delete --timeout=120s");
    let content = plane.says("kubectl get backup orders-final -o jsonpath='{.spec.content.engine}'");
    assert_eq!(content, "postgres");
    let outputs =
        plane.says("kubectl get operations -o jsonpath='{.items[*].status.pipeline[*].output.backup}'");
    assert_eq!(outputs, "orders-final");
}

/// A template where the design omits it for brevity.
fn complete(manifest: &str) -> String {
    let template = "spec: {mode: Pipeline, pipeline: [{step: check, functionRef: {name: function-cel-validation}, input: {apiVersion: validation.fn.ferroplane.io/v1beta1, kind: Validation, rules: [{rule: 'true', message: no}]}}]}";
    assert!(manifest.contains("# Omitted for brevity."), "{manifest}");
    manifest.replace("# Omitted for brevity.", template)
}

/// To the letter, statuses included: kubectl has the API server refuse fields that it does not know.
#[test]
fn manifests_of_the_design_apply_as_they_are_written() {
    let Some(plane) = plane("scheduling") else { return };
    plane.told("kubectl apply -f -", &changed("rolling-upgrade", "required.yaml", "v1.30", "v1.29"));
    plane.told("kubectl apply -f -", include_str!("day_two/operation.yaml"));
    plane.says("kubectl wait operation/cluster-rolling-upgrade --for=condition=Succeeded --timeout=60s");
    // The smallest batch is one cluster.
    assert_eq!(versions(&plane), "v1.30 v1.29 v1.29 v1.29 v1.29 v1.28");
    let status = plane.says("kubectl get operation cluster-rolling-upgrade -o jsonpath='{.status}'");
    assert!(status.contains(r#""upgradedTargets":"#), "{status}");
    // What the manifest says of its own status is not believed.
    assert!(!status.contains("mutatedResources") && !status.contains("failures"), "{status}");

    plane.told("kubectl apply -f -", include_str!("day_two/cron-operation.yaml"));
    plane.says("kubectl wait cronoperation/cluster-rolling-upgrade --for=condition=Scheduling --timeout=60s");
    let deadline =
        plane.says("kubectl get cronoperation cluster-rolling-upgrade -o jsonpath='{.spec.startDeadline}'");
    assert_eq!(deadline, "10m");

    let watch = |manifest: &str| {
        plane.told("kubectl apply -f -", &complete(manifest));
        plane.says(
            "kubectl wait watchoperation/schedule-app-to-cluster --for=condition=Watching --timeout=60s",
        );
    };
    watch(include_str!("day_two/watch-operation.yaml"));
    plane.told("kubectl apply -f -", &app("designed", 1));
    let count =
        "kubectl get watchoperation schedule-app-to-cluster -o jsonpath='{.status.watchingResources}'";
    plane.until_said(count, |said| said == "1");
    watch(include_str!("day_two/watch-operation-fields.yaml"));
    let field = "-o jsonpath='{.spec.watch.fields[0].fieldPath}'";
    let field = plane.says(&format!("kubectl get watchoperation schedule-app-to-cluster {field}"));
    assert_eq!(field, "metadata.generation");
}
