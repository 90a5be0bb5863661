//! The rights that the chart gives are enough, and none is too many.
//!
//! On a real API server that enforces them, with a token of the service account and nothing else, everything that controllers do
//! is done once. What the audit log says then is compared with the rules: each was used, or it says here why it is there.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::cluster::{Cluster, NAMESPACE, Right, audited};
use super::{find, objects, template};

/// A right that no request shows (verb, group, resource), and why it is given.
pub(super) type Excuse = (&'static str, &'static str, &'static str, &'static str);

const KANISTER: &str = "cr.kanister.io";
const UNSEEN: &[Excuse] = &[
    ("patch", "", "events", "what is said again after ten minutes is counted"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", "asked for while a role is created"),
    (
        "update",
        "apiextensions.crossplane.io",
        "compositeresourcedefinitions/finalizers",
        "asked for by admission",
    ),
    ("update", "apiextensions.crossplane.io", "compositions/finalizers", "asked for by admission"),
    (
        "create",
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "asked for when applied the first time",
    ),
    (
        "update",
        "rollout.ferroplane.io",
        "functionrollouts/status",
        "asked for while a function is rolled out",
    ),
    ("update", "rollout.ferroplane.io", "functionintercepts/status", "asked for while calls are intercepted"),
    ("delete", "rollout.ferroplane.io", "functionintercepts", "asked for when an intercept has expired"),
    ("get", KANISTER, "actionsets", "asked for when an Operation waits for its ActionSet"),
    ("patch", KANISTER, "actionsets", "asked for when an Operation cancels its ActionSet"),
    ("get", KANISTER, "blueprints", "asked for before the cache has a Blueprint"),
];

const DEFINITIONS: &str = include_str!("rights/definitions.yaml");
const OBJECTS: &str = include_str!("rights/objects.yaml");
const BLUEPRINT: &str = include_str!("rights/blueprint.yaml");
const ACTION_SET: &str = "
apiVersion: cr.kanister.io/v1alpha1
kind: ActionSet
metadata: {name: copy, namespace: default}
spec: {actions: [{name: copy, blueprint: copies}]}
";
const GROUP: &str = "rights.ferroplane.io";

#[test]
fn rights_of_the_chart_are_enough_and_none_is_too_many() {
    let Some(cluster) = Cluster::find() else { return };
    cluster.helm(
        "install",
        "--create-namespace --set metrics.enabled=true,rbac.aggregateToKubernetesRoles=true,blueprints.enabled=true",
    );
    cluster.lead_webhooks_to("127.0.0.1");
    let first = cluster.replica("first", "127.0.0.1");
    cluster.until(&format!("kubectl wait --for=create lease/crossplane-leader-election-core -n {NAMESPACE}"));
    let said = cluster.helm_test();
    assert!(said.contains("It would start."), "{said}");
    define(&cluster);
    rights_that_are_missing_are_named_and_then_heal(&cluster);
    everything_is_done_once(&cluster);
    let second = cluster.replica("second", "127.0.0.2");
    second.until("replica is ready");
    cluster.lead_webhooks_to("127.0.0.2");
    let mut log = first.stop();
    second.until("\"became the leader\"");
    everything_goes(&cluster);
    log += &second.stop();

    let log: Vec<_> = log.lines().filter(|line| line.contains("forbidden") && !is_expected(line)).collect();
    assert!(log.is_empty(), "{log:#?}");
    compare_with_the_audit_log();
    cluster.helm("uninstall", "");
}

/// Before a role gathers those of a kind that was just defined, nobody may read it. And what is not composed yet may not be.
fn is_expected(line: &str) -> bool {
    line.contains(GROUP) || line.contains("configmaps")
}

/// The same, and a dry run counts packages if it may.
fn may_be_refused(right: &Right) -> bool {
    right.group == GROUP || ["configmaps", "providers", "configurations"].contains(&right.resource.as_str())
}

fn define(cluster: &Cluster) {
    cluster.until("kubectl wait --for=condition=Established crd/compositeresourcedefinitions.apiextensions.crossplane.io");
    cluster.until("kubectl wait --for=condition=Established crd/usages.protection.crossplane.io");
    cluster.told("kubectl apply -f -", DEFINITIONS);
    cluster.until("kubectl wait xrd --all --for=condition=Established --timeout=60s");
    cluster.until("kubectl wait xrd/xbases.rights.ferroplane.io --for=condition=Offered --timeout=60s");
}

fn rights_that_are_missing_are_named_and_then_heal(cluster: &Cluster) {
    cluster.told("kubectl apply -f -", OBJECTS);
    let complaint = "system:serviceaccount:ferroplane-system:ferroplane is not allowed to [get, list, watch, create, update, patch, \
                     delete] resource configmaps/v1 in namespace default";
    cluster.until(&format!("kubectl describe note first | grep -F '{complaint}'"));
    let condition = "jsonpath='{.status.conditions[?(@.type==\"Synced\")].message}'";
    let refusal =
        "configmaps.*is forbidden: User \"system:serviceaccount:ferroplane-system:ferroplane\" cannot";
    cluster.until(&format!("kubectl get note first -o {condition} | grep '{refusal}'"));

    let rules = r#"[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list","watch","create","update","patch","delete"]}]"#;
    cluster.helm("upgrade", &format!("--reuse-values --set-json 'rbac.composedResources={rules}'"));
    cluster.says("kubectl wait note/first base/mine --for=condition=Ready --timeout=120s");
    cluster.until("kubectl wait usages.protection.crossplane.io/of-note --for=condition=Ready --timeout=60s");
    cluster.until("kubectl wait clusterusage/of-base usages.apiextensions.crossplane.io/legacy --for=condition=Ready --timeout=60s");
}

fn everything_is_done_once(cluster: &Cluster) {
    // Connection details were handed on, and are when they change.
    cluster.until("kubectl wait secret/mine --for=jsonpath={.data.host}=b25l --timeout=60s");
    cluster.says(
        "kubectl patch composition xbases --type=json \
         -p '[{\"op\":\"replace\",\"path\":\"/spec/pipeline/0/input/resources/0/connectionDetails/0/value\",\"value\":\"two\"}]'",
    );
    cluster.until("kubectl wait secret/mine --for=jsonpath={.data.host}=dHdv --timeout=60s");
    // An earlier revision counts again.
    cluster.told("kubectl apply -f -", DEFINITIONS);
    cluster.until("kubectl wait secret/mine --for=jsonpath={.data.host}=b25l --timeout=60s");
    // A role that a user changed is mended, and a kind gets the versions of its definition.
    cluster.says(&format!("kubectl patch clusterrole crossplane:composite:notes.{GROUP}:aggregate-to-view --type=merge -p '{{\"rules\":[]}}'"));
    cluster.until(&format!(
        "kubectl get clusterrole crossplane:composite:notes.{GROUP}:aggregate-to-view -o yaml | grep -q notes"
    ));
    cluster.says(
        "kubectl patch xrd notes.rights.ferroplane.io --type=json \
         -p '[{\"op\":\"add\",\"path\":\"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/more\",\"value\":{\"type\":\"string\"}}]'",
    );
    cluster.until("kubectl get crd notes.rights.ferroplane.io -o yaml | grep -q more:");
    // Who may edit in a namespace may edit what was defined.
    cluster.says("kubectl create rolebinding bob --clusterrole=edit --user=bob");
    cluster.until("kubectl auth can-i create notes.rights.ferroplane.io --as=bob");
    // An action needs the rights to run ActionSets, and those on the kinds of its phases.
    cluster.told("kubectl apply -f -", BLUEPRINT);
    cluster.told("kubectl apply -f -", ACTION_SET);
    cluster.says("kubectl wait actionset/copy --for=jsonpath={.status.state}=complete --timeout=60s");
    assert_eq!(cluster.object("configmap/copied")["data"]["text"], "hello");
    // What is in use stays.
    let refused = cluster.fails("kubectl delete note first --timeout=10s");
    assert!(refused.contains("this resource is in-use by 1 usage"), "{refused}");
}

fn everything_goes(cluster: &Cluster) {
    cluster.says("kubectl delete usages.protection.crossplane.io --all --timeout=60s");
    cluster.says("kubectl delete clusterusage,usages.apiextensions.crossplane.io --all --timeout=60s");
    cluster.says("kubectl delete note,base --all --timeout=60s");
    cluster.says("kubectl delete actionset/copy blueprint/copies configmap/copied --timeout=60s");
    cluster.says("kubectl delete xrd --all --timeout=120s");
    cluster.says("kubectl wait --for=delete crd/notes.rights.ferroplane.io crd/bases.rights.ferroplane.io --timeout=60s");
}

fn compare_with_the_audit_log() {
    let log = PathBuf::from(std::env::var_os("FERROPLANE_ORACLE_AUDIT").unwrap());
    let audited = audited(&log);
    let used: BTreeSet<_> =
        audited.keys().filter(|(is_allowed, _)| *is_allowed).map(|(_, right)| right.clone()).collect();
    let refused = audited.keys().filter(|(is_allowed, _)| !is_allowed).map(|(_, right)| right);
    let unexpected: Vec<_> = refused.filter(|right| !may_be_refused(right)).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");

    let roles = [
        ("ClusterRole", "ferroplane:system"),
        ("ClusterRole", "ferroplane:blueprints"),
        ("Role", "ferroplane"),
    ];
    let given = given(&["--set=blueprints.enabled=true"], &roles);
    none_is_too_many(&given, &used, UNSEEN);
}

/// The rights that these roles of the chart give with these flags.
pub(super) fn given(flags: &[&str], roles: &[(&str, &str)]) -> BTreeSet<Right> {
    let objects = objects(&template(flags).unwrap().ok());
    let given_by =
        |(kind, name): &(&str, &str)| find(&objects, kind, name)["rules"].as_array().unwrap().clone();
    roles.iter().flat_map(given_by).flat_map(|rule| rights(&rule)).collect()
}

/// Every right was used, or there is an excuse. Every excuse is needed.
pub(super) fn none_is_too_many(given: &BTreeSet<Right>, used: &BTreeSet<Right>, excuses: &[Excuse]) {
    let unseen: BTreeSet<_> =
        excuses.iter().map(|(verb, group, resource, _)| Right::new(verb, group, resource)).collect();
    let idle: Vec<_> = given.difference(used).filter(|right| !unseen.contains(right)).collect();
    assert!(idle.is_empty(), "nobody uses {idle:#?}");
    let stale: Vec<_> =
        unseen.iter().filter(|right| used.contains(right) || !given.contains(right)).collect();
    assert!(stale.is_empty(), "need no excuse: {stale:#?}");
}

/// Every right that a rule gives.
fn rights(rule: &Value) -> Vec<Right> {
    let list = |field: &str| {
        rule[field].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>()
    };
    let mut rights = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            rights.extend(list("verbs").iter().map(|verb| Right::new(verb, group, resource)));
        }
    }
    rights
}
