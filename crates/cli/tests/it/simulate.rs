//! `ferroplane up --simulate`: what nothing manages becomes ready by itself.

use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::peers::peer;
use crate::plane::Plane;

const HELLO: [&str; 3] = ["definition.yaml", "composition.yaml", "xr.yaml"];

/// A platform of somebody who has no cloud: a CRD as providers install it, and one that asks for much.
const CRDS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: queues.cloud.example.org
  annotations:
    simulate.ferroplane.io/status: '{atProvider: {url: \"https://${metadata.name}.${spec.region}\"}}'
spec:
  group: cloud.example.org
  scope: Namespaced
  names: {kind: Queue, plural: queues, singular: queue, listKind: QueueList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {region: {type: string}}}
          status:
            type: object
            properties:
              atProvider: {type: object, properties: {url: {type: string}}}
              conditions:
                type: array
                items: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: silent.cloud.example.org
spec:
  group: cloud.example.org
  scope: Cluster
  names: {kind: Silent, plural: silent, singular: silent, listKind: SilentList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}
";

fn plane(flags: &[&str]) -> Plane {
    Plane::start(TempDir::new().unwrap(), &[&["--in-memory"], flags].concat())
}

fn queue(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: cloud.example.org/v1\nkind: Queue\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec: {{region: eu}}\n"
    )
}

/// Installs the kinds, and waits until they are served.
fn with_crds(plane: &Plane) {
    plane.told("kubectl apply -f -", CRDS);
    plane.says(
        "kubectl wait crd/queues.cloud.example.org crd/silent.cloud.example.org --for=condition=Established",
    );
}

/// How often an object was written.
fn version(plane: &Plane, what: &str) -> String {
    plane.says(&format!("kubectl get {what} -o jsonpath={{.metadata.resourceVersion}}"))
}

#[test]
fn first_example_becomes_ready_and_is_written_once() {
    if peer("kubectl").is_none() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello");
    for name in HELLO {
        std::fs::copy(example.join(name), directory.path().join(name)).unwrap();
    }
    let plane = Plane::start(directory, &[&["--in-memory", "--simulate"], &HELLO[..]].concat());
    // There is nothing to wait for before it is applied.
    plane.until("app.demo.ferroplane.io/hello in default created");
    plane.says("kubectl wait app/hello --for=condition=Ready --timeout=60s");
    assert_eq!(plane.says("kubectl get app hello -o jsonpath={.status.availableReplicas}"), "2");
    plane.says("kubectl patch app hello --type=merge -p '{\"spec\":{\"replicas\":5}}'");
    plane.says("kubectl wait app/hello --for=jsonpath={.status.availableReplicas}=5 --timeout=60s");
    plane.says("kubectl rollout status deployment -l crossplane.io/composite=hello --timeout=60s");

    // Nothing is written any more, whatever else happens.
    let deployment = "deployment -l crossplane.io/composite=hello -o name";
    let deployment = plane.says(&format!("kubectl get {deployment}"));
    let before = version(&plane, deployment.trim());
    plane.says("kubectl annotate app hello nothing=changes");
    plane.says("kubectl create configmap later && kubectl get app hello");
    assert_eq!(version(&plane, deployment.trim()), before);
}

/// The shape of the first application that Crossplane's documentation builds: a Deployment and a Service with readiness checks.
const APPLICATION: &str = include_str!("../corpus/app-of-kubernetes.yaml");

const APPLICATIONS: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: apps.platform.example.org}
spec:
  group: platform.example.org
  scope: Namespaced
  names: {kind: App, plural: apps}
  versions:
  - name: v1alpha1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {image: {type: string}}}
          status: {type: object, properties: {replicas: {type: integer}}}
";

#[test]
fn application_with_readiness_checks_becomes_ready() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = plane(&["--simulate"]);
    let mut documents = APPLICATION.split("\n---\n");
    let (composition, app) = (documents.next().unwrap(), documents.next().unwrap());
    plane.told("kubectl apply -f -", APPLICATIONS);
    plane.told("kubectl apply -f -", composition);
    plane.says("kubectl wait xrd/apps.platform.example.org --for=condition=Established --timeout=60s");
    plane.says("kubectl create namespace web");
    plane.told("kubectl apply -f -", app);
    plane.says("kubectl wait app/shop -n web --for=condition=Ready --timeout=60s");
    assert_eq!(plane.says("kubectl get app shop -n web -o jsonpath={.status.replicas}"), "2");
}

#[test]
fn objects_of_crds_become_ready_as_they_ask() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = plane(&["--simulate"]);
    with_crds(&plane);
    plane.told("kubectl apply -f -", &queue("plain", ""));
    plane.says("kubectl wait queue/plain --for=condition=Ready --timeout=60s");
    assert_eq!(
        plane.says("kubectl get queue plain -o jsonpath={.status.atProvider.url}"),
        "https://plain.eu"
    );

    plane.told("kubectl apply -f -", &queue("broken", "simulate.ferroplane.io/failure: quota exceeded"));
    plane.says("kubectl wait queue/broken --for=condition=Synced=False --timeout=60s");
    let said = plane
        .says("kubectl get queue broken -o jsonpath='{.status.conditions[?(@.type==\"Synced\")].message}'");
    assert_eq!(said, "quota exceeded");
    plane.says("kubectl annotate queue broken simulate.ferroplane.io/failure-");
    plane.says("kubectl wait queue/broken --for=condition=Ready --timeout=60s");

    plane.told("kubectl apply -f -", &queue("slow", "simulate.ferroplane.io/delay: 1h"));
    plane.says("kubectl wait queue/slow --for=condition=Ready=False --timeout=60s");
    // Whoever has waited long enough asks for less.
    plane.says("kubectl annotate queue slow simulate.ferroplane.io/delay- --overwrite");
    plane.says("kubectl wait queue/slow --for=condition=Ready --timeout=60s");
}

/// The delay is real: nothing is ready before it has elapsed, and everything is afterwards.
#[test]
fn objects_become_ready_when_the_delay_has_elapsed() {
    const DELAY: Duration = Duration::from_secs(3);
    if peer("kubectl").is_none() {
        return;
    }
    let plane = plane(&["--simulate", "--simulate-delay", "3s"]);
    with_crds(&plane);
    let began = Instant::now();
    plane.told("kubectl apply -f -", &queue("late", ""));
    plane.says("kubectl wait queue/late --for=condition=Ready=False --timeout=60s");
    plane.says("kubectl wait queue/late --for=condition=Ready --timeout=60s");
    assert!(began.elapsed() >= DELAY, "{:?}", began.elapsed());
}

#[test]
fn object_that_somebody_else_looks_after_and_kind_without_status_are_left_alone() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = plane(&["--simulate"]);
    with_crds(&plane);
    plane.told("kubectl apply -f -", &queue("mine", "simulate.ferroplane.io/ignore: \"true\""));
    let status =
        "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\",\"reason\":\"Mine\"}]}}";
    plane.says(&format!("kubectl patch queue mine --subresource=status --type=merge -p '{status}'"));
    plane.says("kubectl annotate queue mine simulate.ferroplane.io/ignore-");
    plane.told(
        "kubectl apply -f -",
        "apiVersion: cloud.example.org/v1\nkind: Silent\nmetadata: {name: it}\nspec: {}\n",
    );
    // What was asked for later is there: everything before was checked.
    plane.told("kubectl apply -f -", &queue("later", ""));
    plane.says("kubectl wait queue/later --for=condition=Ready --timeout=60s");
    let reason = "jsonpath='{.status.conditions[?(@.type==\"Ready\")].reason}'";
    assert_eq!(plane.says(&format!("kubectl get queue mine -o {reason}")), "Mine");
    assert_eq!(plane.says("kubectl get silent it -o jsonpath={.metadata.generation}"), "1");
}

/// An admission webhook that cannot be reached, so that no status of a queue can be written.
const UNREACHABLE: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: away}
webhooks:
- name: away.example.org
  clientConfig: {url: 'https://127.0.0.1:1/'}
  rules: [{apiGroups: [cloud.example.org], apiVersions: [v1], resources: [queues/status], operations: [UPDATE]}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
";

#[test]
fn object_whose_status_could_not_be_written_for_a_while_becomes_ready_all_the_same() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = plane(&["--simulate"]);
    with_crds(&plane);
    plane.told("kubectl apply -f -", UNREACHABLE);
    plane.told("kubectl apply -f -", &queue("orders", ""));
    plane.until("cannot simulate a status yet");
    plane.says("kubectl delete validatingwebhookconfiguration away");
    plane.says("kubectl wait queue/orders --for=condition=Ready --timeout=60s");
}

#[test]
fn only_kinds_that_were_named_are_simulated() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = plane(&["--simulate=*.cloud.example.org"]);
    with_crds(&plane);
    plane.says("kubectl create deployment web --image=nginx");
    plane.told("kubectl apply -f -", &queue("named", ""));
    plane.says("kubectl wait queue/named --for=condition=Ready --timeout=60s");
    assert_eq!(plane.says("kubectl get deployment web -o jsonpath={.status.conditions}"), "");
}

#[test]
fn workloads_become_healthy() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = plane(&["--simulate"]);
    plane.says("kubectl run web --image=nginx && kubectl create job once --image=busybox");
    plane.says("kubectl create service loadbalancer web --tcp=80");
    plane.says("kubectl wait pod/web --for=condition=Ready --timeout=60s");
    plane.says("kubectl wait job/once --for=condition=Complete --timeout=60s");
    plane.says("kubectl wait service/web --for=jsonpath='{.status.loadBalancer.ingress}' --timeout=60s");
    assert_eq!(plane.rows("kubectl get pods")[1], "web 1/1 Running 0 AGE");
}

/// One of everything that needs a controller or a node, and a pair with readiness checks of their own, as beginners compose it.
const PLATFORM: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: sites.example.org}
spec:
  group: example.org
  names: {kind: Site, plural: sites}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {kind: {type: string}}}}}}
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
      - name: checked-deployment
        base: {apiVersion: apps/v1, kind: Deployment, spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: &template {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: nginx}]}}}}
        readinessChecks: [{type: MatchCondition, matchCondition: {type: Available, status: 'True'}}]
      - name: checked-service
        base: {apiVersion: v1, kind: Service, spec: {selector: {a: b}, ports: [{port: 80}]}}
        readinessChecks: [{type: NonEmpty, fieldPath: spec.clusterIP}]
      - {name: daemon-set, base: {apiVersion: apps/v1, kind: DaemonSet, spec: {selector: {matchLabels: {a: b}}, template: *template}}}
      - {name: replica-set, base: {apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: *template}}}
      - {name: stateful-set, base: {apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 3, serviceName: s, selector: {matchLabels: {a: b}}, template: *template}}}
      - {name: job, base: {apiVersion: batch/v1, kind: Job, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: nginx}]}}}}}
      - {name: cron-job, base: {apiVersion: batch/v1, kind: CronJob, spec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: nginx}]}}}}}}}
      - {name: pod, base: {apiVersion: v1, kind: Pod, spec: {containers: [{name: a, image: nginx}]}}}
      - {name: claim, base: {apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}
      - {name: balancer, base: {apiVersion: v1, kind: Service, spec: {type: LoadBalancer, ports: [{port: 80}]}}}
      - {name: ingress, base: {apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}}}
      - {name: scaler, base: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: x, apiVersion: apps/v1}}}}
  - step: ready
    functionRef: {name: function-auto-ready}
";

#[test]
fn platform_of_every_workload_becomes_ready_and_rests() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = plane(&["--simulate"]);
    plane.told("kubectl apply -f -", PLATFORM);
    plane.says("kubectl wait xrd/sites.example.org --for=condition=Established --timeout=60s");
    plane.told(
        "kubectl apply -f -",
        "apiVersion: example.org/v1\nkind: Site\nmetadata: {name: mine, namespace: default}\nspec: {}\n",
    );
    plane.says("kubectl wait site/mine --for=condition=Ready --timeout=60s");
    let versions = "kubectl get all,pvc,ingress,hpa -o jsonpath='{range .items[*]}{.kind}={.metadata.resourceVersion} {end}'";
    let before = plane.says(versions);
    // Everything is checked once more, and nothing is written.
    plane.says("kubectl annotate site mine nothing=changes");
    plane
        .says("kubectl create configmap later && kubectl wait site/mine --for=condition=Ready --timeout=60s");
    assert_eq!(plane.says(versions), before);
}
