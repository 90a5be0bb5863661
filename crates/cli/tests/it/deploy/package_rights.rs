//! The rights that the chart gives for packages are enough, and none is too many.
//!
//! On a real API server that enforces them, with a token of the service account and nothing else, packages of all kinds are installed,
//! upgraded and removed. The audit log then has no request that was refused, and shows each right, or it says here why it is there.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::cluster::{Cluster, NAMESPACE, Right, audited};
use super::rights::{Excuse, given, none_is_too_many};
use crate::packages::LocalRegistry;

const OPERATIONS: &str = "--set=operations.enabled=true";
const PACKAGES: &str = "--set=packages.enabled=true,packages.protectProviders=true,operations.enabled=true";
const ROLES: [(&str, &str); 4] = [
    ("Role", "ferroplane"),
    ("ClusterRole", "ferroplane:system"),
    ("ClusterRole", "ferroplane:operations"),
    ("ClusterRole", "ferroplane:packages"),
];

const PKG: &str = "pkg.crossplane.io";
const DEFINITIONS: &str = "apiextensions.crossplane.io";
const WEBHOOKS: &str = "admissionregistration.k8s.io";
const ADMISSION: &str = "asked for by admission";
const OWNERS: &str = "asked for by admission when owners change";
const FIRST: &str = "asked for when applied the first time";
const UPGRADES: &str = "asked for when dependencies are upgraded, which takes a flag";
/// What takes a right that no request shows.
const UNSEEN: &[Excuse] = &[
    ("update", PKG, "providers", UPGRADES),
    ("update", PKG, "configurations", UPGRADES),
    ("update", PKG, "functions", UPGRADES),
    ("update", PKG, "providers/finalizers", ADMISSION),
    ("update", PKG, "configurations/finalizers", ADMISSION),
    ("update", PKG, "functions/finalizers", ADMISSION),
    ("update", PKG, "providerrevisions/finalizers", ADMISSION),
    ("update", PKG, "configurationrevisions/finalizers", ADMISSION),
    ("update", PKG, "functionrevisions/finalizers", ADMISSION),
    ("delete", DEFINITIONS, "compositeresourcedefinitions", OWNERS),
    ("delete", DEFINITIONS, "compositions", OWNERS),
    ("delete", DEFINITIONS, "managedresourcedefinitions", OWNERS),
    ("delete", DEFINITIONS, "managedresourceactivationpolicies", OWNERS),
    ("delete", "ops.crossplane.io", "cronoperations", OWNERS),
    ("delete", "ops.crossplane.io", "watchoperations", OWNERS),
    ("delete", WEBHOOKS, "validatingwebhookconfigurations", OWNERS),
    ("delete", WEBHOOKS, "mutatingwebhookconfigurations", OWNERS),
    ("delete", "", "services", OWNERS),
    ("delete", "", "serviceaccounts", OWNERS),
    ("delete", "", "secrets", OWNERS),
    ("create", "protection.crossplane.io", "clusterusages", FIRST),
    ("create", "apps", "deployments", FIRST),
    ("create", "", "services", FIRST),
    ("create", "", "serviceaccounts", FIRST),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", "asked for while a binding is created"),
];

/// Roles for kinds that were just defined are gathered a moment later.
const GROUP: &str = "acme.org";

const KINDS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.cloud.acme.org}
spec:
  group: cloud.acme.org
  scope: Cluster
  names: {kind: Bucket, listKind: BucketList, plural: buckets, singular: bucket}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: buckets}
webhooks:
- name: buckets.cloud.acme.org
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Ignore
  clientConfig: {service: {name: webhooks, namespace: system, path: /validate}}
  rules: [{apiGroups: [cloud.acme.org], apiVersions: [v1], operations: [DELETE], resources: [nothing]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: buckets}
webhooks:
- name: defaults.cloud.acme.org
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Ignore
  clientConfig: {service: {name: webhooks, namespace: system, path: /mutate}}
  rules: [{apiGroups: [cloud.acme.org], apiVersions: [v1], operations: [CREATE], resources: [nothing]}]
";
const PLATFORM: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: things.acme.org}
spec:
  group: acme.org
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: things}
spec:
  compositeTypeRef: {apiVersion: acme.org/v1, kind: Thing}
  mode: Pipeline
  pipeline: [{step: own, functionRef: {name: own}}]
---
apiVersion: ops.crossplane.io/v1alpha1
kind: CronOperation
metadata: {name: nightly}
spec:
  schedule: 0 3 * * *
  operationTemplate: {spec: {mode: Pipeline, pipeline: [{step: own, functionRef: {name: own}}]}}
---
apiVersion: ops.crossplane.io/v1alpha1
kind: WatchOperation
metadata: {name: things}
spec:
  watch: {apiVersion: acme.org/v1, kind: Thing}
  operationTemplate: {spec: {mode: Pipeline, pipeline: [{step: own, functionRef: {name: own}}]}}
---
apiVersion: ops.crossplane.io/v1alpha1
kind: Operation
metadata: {name: once}
spec: {mode: Pipeline, pipeline: [{step: own, functionRef: {name: own}}]}
---
apiVersion: apiextensions.crossplane.io/v1alpha1
kind: ManagedResourceActivationPolicy
metadata: {name: platform}
spec: {activate: [buckets.cloud.acme.org]}
";
const VERSIONS: [&str; 3] = ["v1.0.0", "v1.1.0", "v1.2.0"];
/// What the Configuration depends on.
const NEEDED: [(&str, &str); 3] = [("Function", "needed"), ("Provider", "driver"), ("Configuration", "base")];
const BUCKET: &str = "{apiVersion: cloud.acme.org/v1, kind: Bucket, metadata: {name: b}}";

/// Three versions of a Function, a Provider and a Configuration, which depends on another one of each kind.
fn push(registry: &LocalRegistry) {
    let manifest = |kind: &str, version: &str, spec: &str| {
        format!(
            "# {version}\napiVersion: meta.pkg.crossplane.io/v1\nkind: {kind}\nmetadata: {{name: p}}\nspec: {spec}\n"
        )
    };
    let mut needs = Vec::new();
    for (kind, name) in NEEDED {
        registry.push(&format!("acme/{name}:v1.0.0"), &manifest(kind, name, "{}"));
        let (kind, source) = (kind.to_lowercase(), format!("{}/acme/{name}", registry.address));
        needs.push(format!("{{{kind}: {source}, version: '>=v1.0.0'}}"));
    }
    let needs = format!("{{dependsOn: [{}]}}", needs.join(", "));
    for version in VERSIONS {
        registry.push(&format!("acme/own:{version}"), &manifest("Function", version, "{}"));
        let provider = format!("{}---{KINDS}", manifest("Provider", version, "{}"));
        registry.push(&format!("acme/cloud:{version}"), &provider);
        let platform = format!("{}---{PLATFORM}", manifest("Configuration", version, &needs));
        registry.push(&format!("acme/platform:{version}"), &platform);
    }
}

/// Apply this version of all packages, and wait until it is installed and healthy.
fn install(cluster: &Cluster, registry: &LocalRegistry, version: &str) {
    let packages = [("Function", "own"), ("Provider", "cloud"), ("Configuration", "platform")];
    for (kind, name) in packages {
        let image = format!("{}/acme/{name}:{version}", registry.address);
        let package = format!(
            "{{apiVersion: pkg.crossplane.io/v1, kind: {kind}, metadata: {{name: {name}}}, spec: {{package: '{image}'}}}}"
        );
        cluster.told("kubectl apply -f -", &package);
        cluster.until(&format!(
            "kubectl wait {kind}/{name} --for=jsonpath='{{.status.currentIdentifier}}'={image} --timeout=5s"
        ));
    }
    // What a node would do.
    let ready = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    cluster.until(&format!(
        "for pod in $(kubectl get pods -n {NAMESPACE} -o name); do kubectl patch -n {NAMESPACE} $pod --subresource=status --type=merge \
         -p '{ready}'; done; kubectl wait functions,providers,configurations --all --for=condition=Healthy --timeout=2s"
    ));
}

#[test]
fn rights_for_packages_are_enough_and_none_is_too_many() {
    let Some(cluster) = Cluster::find() else { return };
    let Some(registry) = LocalRegistry::start() else { return };
    push(&registry);
    cluster.helm("install", &format!("--create-namespace {PACKAGES}"));
    cluster.lead_webhooks_to("127.0.0.1");
    let replica = cluster.replica("only", "127.0.0.1");
    for kind in ["functions", "providers", "configurations"] {
        cluster.until(&format!("kubectl wait --for=condition=Established crd/{kind}.pkg.crossplane.io"));
    }
    install(&cluster, &registry, VERSIONS[0]);
    cluster.until("kubectl wait xrd/things.acme.org --for=condition=Established --timeout=5s");
    cluster.until("kubectl wait crd/buckets.cloud.acme.org --for=condition=Established --timeout=5s");

    packages_are_protected(&cluster);
    // A binding that another client changed is mended.
    let binding = "$(kubectl get clusterrolebindings -o name | grep crossplane:provider:cloud- | head -n 1)";
    cluster.says(&format!("kubectl patch {binding} --type=merge -p '{{\"subjects\":[]}}'"));
    cluster.until(&format!("kubectl get {binding} -o yaml | grep -q 'kind: ServiceAccount'"));

    // The third version has the first one deleted.
    install(&cluster, &registry, VERSIONS[1]);
    install(&cluster, &registry, VERSIONS[2]);
    cluster.until(
        "kubectl delete configuration/platform provider/cloud function/own --ignore-not-found --timeout=60s",
    );
    cluster.until(
        "kubectl delete function/acme-needed provider/acme-driver configuration/acme-base --ignore-not-found --timeout=60s",
    );
    cluster.until(
        "test -z \"$(kubectl get functionrevisions,providerrevisions,configurationrevisions -o name)\"",
    );
    let log = replica.stop();

    let forbidden: Vec<_> =
        log.lines().filter(|line| line.contains("forbidden") && !line.contains(GROUP)).collect();
    assert!(forbidden.is_empty(), "{forbidden:#?}");
    compare_with_the_audit_log();
    cluster.helm("uninstall", "");
}

/// A provider is protected while something of its kinds exists, and any package while a usage says so.
fn packages_are_protected(cluster: &Cluster) {
    cluster.told("kubectl apply -f -", BUCKET);
    cluster.until("kubectl get provider/cloud -o yaml | grep -q 'crossplane.io/in-use: \"true\"'");
    let refused = cluster.fails("kubectl delete provider/cloud --timeout=10s");
    assert!(refused.contains("this resource is in-use by 1 usage"), "{refused}");
    cluster.says("kubectl delete bucket b --timeout=60s");
    for (kind, name) in [("Configuration", "platform"), ("Function", "own")] {
        let of = format!("{{apiVersion: {PKG}/v1, kind: {kind}, resourceRef: {{name: {name}}}}}");
        let usage = format!(
            "{{apiVersion: protection.crossplane.io/v1beta1, kind: ClusterUsage, metadata: {{name: {name}}}, spec: {{of: {of}, reason: it is needed}}}}"
        );
        cluster.told("kubectl apply -f -", &usage);
        cluster.until(&format!("kubectl wait clusterusage/{name} --for=condition=Ready --timeout=5s"));
        cluster.says(&format!("kubectl delete clusterusage/{name} --timeout=60s"));
    }
    cluster.until("test -z \"$(kubectl get clusterusages -o name)\"");
}

fn compare_with_the_audit_log() {
    let log = PathBuf::from(std::env::var_os("FERROPLANE_ORACLE_AUDIT").unwrap());
    let (allowed, refused): (Vec<_>, Vec<_>) =
        audited(&log).into_keys().partition(|(is_allowed, _)| *is_allowed);
    let unexpected: Vec<_> = refused.iter().filter(|(_, right)| !right.group.ends_with(GROUP)).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");

    let used: BTreeSet<Right> = allowed.into_iter().map(|(_, right)| right).collect();
    let without = given(&[OPERATIONS], &ROLES[..3]);
    let for_packages = given(&[PACKAGES], &ROLES).difference(&without).cloned().collect();
    none_is_too_many(&for_packages, &used, UNSEEN);
}
