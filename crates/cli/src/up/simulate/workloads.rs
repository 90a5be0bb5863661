//! The status of Kubernetes' own workloads, as its controllers and nodes write it. Performs no I/O.
//!
//! Only what users and functions look at: no Pods are made for a Deployment. `function-auto-ready` calls all of these ready.

use ferroplane_api::{Object, meta};
use ferroplane_client::Resource;
use serde_json::{Value, json};

use super::kind::SimulatedKind;
use super::status::{Draft, Phase, Says};

/// A kind of Kubernetes that needs a controller or a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    CronJob,
    DaemonSet,
    Deployment,
    HorizontalPodAutoscaler,
    Ingress,
    Job,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    Service,
    StatefulSet,
}

const ALL: [(Workload, &str, &str); 11] = [
    (Workload::CronJob, "batch/v1", "CronJob"),
    (Workload::DaemonSet, "apps/v1", "DaemonSet"),
    (Workload::Deployment, "apps/v1", "Deployment"),
    (Workload::HorizontalPodAutoscaler, "autoscaling/v2", "HorizontalPodAutoscaler"),
    (Workload::Ingress, "networking.k8s.io/v1", "Ingress"),
    (Workload::Job, "batch/v1", "Job"),
    (Workload::PersistentVolumeClaim, "v1", "PersistentVolumeClaim"),
    (Workload::Pod, "v1", "Pod"),
    (Workload::ReplicaSet, "apps/v1", "ReplicaSet"),
    (Workload::Service, "v1", "Service"),
    (Workload::StatefulSet, "apps/v1", "StatefulSet"),
];

/// All built-in kinds that are simulated.
pub(super) fn kinds() -> impl Iterator<Item = SimulatedKind> {
    ALL.into_iter().map(|(workload, api_version, kind)| {
        let plural = if kind.ends_with('s') { "es" } else { "s" };
        let plural = format!("{}{plural}", kind.to_lowercase());
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        SimulatedKind::of_workload(workload, Resource { api_version, kind, plural, is_namespaced: true })
    })
}

impl Workload {
    /// The status of an object, or None if there is nothing to say of it.
    pub(super) fn status(self, object: &Object, phase: Phase<'_>, now: &str) -> Option<Object> {
        let mut draft = Draft::of(object, now);
        match self {
            Self::CronJob => cron_job(&mut draft, phase),
            Self::DaemonSet => daemon_set(&mut draft, object, phase),
            Self::Deployment => deployment(&mut draft, object, phase, now),
            Self::HorizontalPodAutoscaler => autoscaler(&mut draft, object, phase),
            Self::Job if spec(object, "suspend") == Some(&Value::Bool(true)) => return None,
            Self::Job => job(&mut draft, object, phase),
            Self::PersistentVolumeClaim => claim(&mut draft, object, phase),
            Self::Pod => pod(&mut draft, object, phase, now),
            Self::ReplicaSet => replica_set(&mut draft, object, phase),
            Self::Service if spec(object, "type") != Some(&"LoadBalancer".into()) => return None,
            Self::Ingress | Self::Service => load_balancer(&mut draft, object, phase),
            Self::StatefulSet => stateful_set(&mut draft, object, phase),
        }
        Some(draft.fields)
    }

    /// Whether a controller has reconciled the object before. Those of some kinds write no status before they are done.
    pub(super) fn is_begun(self, object: &Object) -> bool {
        match self {
            Self::CronJob | Self::Ingress | Self::PersistentVolumeClaim | Self::Pod | Self::Service => true,
            Self::Job => Draft::of(object, "").fields.contains_key("startTime"),
            _ => Draft::of(object, "").fields.contains_key("observedGeneration"),
        }
    }
}

fn spec<'a>(object: &'a Object, field: &str) -> Option<&'a Value> {
    object.get("spec")?.get(field)
}

fn replicas(object: &Object) -> i64 {
    spec(object, "replicas").and_then(Value::as_i64).unwrap_or(1)
}

fn deployment(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>, now: &str) {
    let (wanted, ready) = (replicas(object), if phase == Phase::Ready { replicas(object) } else { 0 });
    draft.set("observedGeneration", meta::generation(object));
    draft.count("replicas", wanted);
    draft.count("updatedReplicas", wanted);
    draft.count("readyReplicas", ready);
    draft.count("availableReplicas", ready);
    draft.count("unavailableReplicas", wanted - ready);
    let available = match phase {
        Phase::Ready => {
            Says::new("Available", true, "MinimumReplicasAvailable", "Deployment has minimum availability.")
        }
        _ => Says::new(
            "Available",
            false,
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
    };
    let progressing = match phase {
        Phase::Creating => Says::new("Progressing", true, "ReplicaSetUpdated", ""),
        Phase::Ready => Says::new("Progressing", true, "NewReplicaSetAvailable", ""),
        Phase::Failed(message) => Says::new("Progressing", false, "ProgressDeadlineExceeded", message),
    };
    for says in [available, progressing] {
        // Conditions of Deployments have the time of the last update, too. Only a change is worth a new time.
        let updated = draft.updated(says, now);
        draft.condition(says, &[("lastUpdateTime", updated)]);
    }
}

fn replica_set(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>) {
    let (wanted, ready) = (replicas(object), if phase == Phase::Ready { replicas(object) } else { 0 });
    draft.set("observedGeneration", meta::generation(object));
    draft.set("replicas", wanted);
    draft.count("fullyLabeledReplicas", wanted);
    draft.count("readyReplicas", ready);
    draft.count("availableReplicas", ready);
    match phase {
        Phase::Failed(message) => {
            draft.condition(Says::new("ReplicaFailure", true, "FailedCreate", message), &[]);
        }
        _ => draft.remove_condition("ReplicaFailure"),
    }
}

fn stateful_set(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>) {
    let (wanted, ready) = (replicas(object), if phase == Phase::Ready { replicas(object) } else { 0 });
    let revision = format!("{}-{}", meta::name(object), meta::generation(object));
    draft.set("observedGeneration", meta::generation(object));
    draft.set("replicas", wanted);
    draft.count("readyReplicas", ready);
    draft.count("currentReplicas", ready);
    draft.count("updatedReplicas", ready);
    draft.set("availableReplicas", ready);
    if phase == Phase::Ready {
        // Only when it is ready: `kubectl rollout status` waits until both revisions are the same.
        draft.set("currentRevision", revision.clone());
    }
    draft.set("updateRevision", revision);
}

/// As on a cluster of one node.
fn daemon_set(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>) {
    let ready = i64::from(phase == Phase::Ready);
    draft.set("observedGeneration", meta::generation(object));
    draft.set("desiredNumberScheduled", 1);
    draft.set("currentNumberScheduled", 1);
    draft.set("numberMisscheduled", 0);
    draft.set("numberReady", ready);
    draft.count("updatedNumberScheduled", 1);
    draft.count("numberAvailable", ready);
    draft.count("numberUnavailable", 1 - ready);
}

fn job(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>) {
    let wanted = spec(object, "completions").and_then(Value::as_i64).unwrap_or(1);
    draft.set_time("startTime");
    match phase {
        Phase::Creating => draft.count("active", 1),
        Phase::Ready => {
            draft.count("active", 0);
            draft.count("succeeded", wanted);
            draft.set_time("completionTime");
            draft.remove_condition("Failed");
            draft.condition(Says::new("Complete", true, "CompletionsReached", ""), &[]);
        }
        Phase::Failed(message) => {
            draft.count("active", 0);
            draft.count("failed", 1);
            draft.remove_condition("Complete");
            draft.condition(Says::new("Failed", true, "BackoffLimitExceeded", message), &[]);
        }
    }
}

/// As if its first job had been started, and had succeeded.
fn cron_job(draft: &mut Draft<'_>, phase: Phase<'_>) {
    match phase {
        Phase::Creating => {}
        Phase::Ready => {
            draft.set_time("lastScheduleTime");
            draft.set_time("lastSuccessfulTime");
        }
        Phase::Failed(_) => {
            draft.set_time("lastScheduleTime");
            draft.fields.remove("lastSuccessfulTime");
        }
    }
}

fn autoscaler(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>) {
    let replicas = spec(object, "minReplicas").and_then(Value::as_i64).unwrap_or(1);
    draft.set("observedGeneration", meta::generation(object));
    draft.count("currentReplicas", replicas);
    draft.set("desiredReplicas", replicas);
    draft.condition(Says::new("AbleToScale", true, "ReadyForNewScale", ""), &[]);
    let active = match phase {
        Phase::Ready => Says::new("ScalingActive", true, "ValidMetricFound", ""),
        Phase::Creating => Says::new("ScalingActive", false, "FailedGetResourceMetric", ""),
        Phase::Failed(message) => Says::new("ScalingActive", false, "FailedGetResourceMetric", message),
    };
    draft.condition(active, &[]);
}

fn claim(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>) {
    if phase != Phase::Ready {
        draft.set("phase", "Pending");
        return;
    }
    draft.set("phase", "Bound");
    if let Some(modes) = spec(object, "accessModes") {
        draft.set("accessModes", modes.clone());
    }
    if let Some(capacity) = spec(object, "resources").and_then(|resources| resources.get("requests")) {
        draft.set("capacity", capacity.clone());
    }
}

fn pod(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>, now: &str) {
    let runs_for_good = spec(object, "restartPolicy").is_none_or(|policy| *policy == "Always");
    match phase {
        Phase::Creating => draft.set("phase", "Pending"),
        Phase::Failed(message) => {
            draft.set("phase", "Failed");
            draft.set("reason", "Simulated");
            draft.set("message", message);
            draft.condition(Says::new("Ready", false, "PodFailed", message), &[]);
        }
        Phase::Ready => {
            draft.set("phase", if runs_for_good { "Running" } else { "Succeeded" });
            draft.fields.remove("reason");
            draft.fields.remove("message");
            draft.set_time("startTime");
            for kind in ["PodScheduled", "Initialized"] {
                draft.condition(Says::new(kind, true, "", ""), &[]);
            }
            let reason = if runs_for_good { "" } else { "PodCompleted" };
            for kind in ["ContainersReady", "Ready"] {
                draft.condition(Says::new(kind, runs_for_good, reason, ""), &[]);
            }
            draft.set_once("containerStatuses", || container_statuses(object, runs_for_good, now));
        }
    }
}

fn container_statuses(object: &Object, runs_for_good: bool, now: &str) -> Value {
    let containers = spec(object, "containers").and_then(Value::as_array);
    let status = |container: &Value| {
        let state = if runs_for_good {
            json!({"running": {"startedAt": now}})
        } else {
            let (started, finished) = (now, now);
            json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": finished}})
        };
        json!({
            "name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
            "ready": runs_for_good, "started": runs_for_good, "state": state,
        })
    };
    containers.into_iter().flatten().map(status).collect()
}

/// An address that is reserved for documentation, and leads nowhere.
fn load_balancer(draft: &mut Draft<'_>, object: &Object, phase: Phase<'_>) {
    if phase != Phase::Ready {
        return;
    }
    let has_ingress = |balancer: &Value| balancer["ingress"].as_array().is_some_and(|list| !list.is_empty());
    if !draft.fields.get("loadBalancer").is_some_and(has_ingress) {
        // From the uid, so that the address stays the same, and mostly differs from that of other Services.
        let host = meta::uid(object).bytes().fold(0_u32, |sum, byte| (sum * 31 + u32::from(byte)) % 254) + 1;
        draft.set("loadBalancer", json!({"ingress": [{"ip": format!("192.0.2.{host}")}]}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-02-02T00:00:00Z";

    fn object(spec: &Value) -> Object {
        let metadata = json!({"name": "it", "uid": "1", "generation": 3});
        json!({"metadata": metadata, "spec": spec}).as_object().cloned().unwrap()
    }

    fn specs(workload: Workload) -> Value {
        match workload {
            Workload::Service => json!({"type": "LoadBalancer"}),
            Workload::Pod => json!({"containers": [{"name": "a", "image": "b"}]}),
            _ => json!({"replicas": 2}),
        }
    }

    #[test]
    fn status_that_was_written_is_not_written_again() {
        for (workload, _, kind) in ALL {
            let mut object = object(&specs(workload));
            for phase in [Phase::Creating, Phase::Ready, Phase::Failed("no node"), Phase::Ready] {
                let first = workload.status(&object, phase, THEN).unwrap();
                object.insert("status".to_owned(), first.clone().into());
                assert_eq!(workload.status(&object, phase, NOW), Some(first), "{kind} {phase:?}");
            }
        }
    }

    #[test]
    fn replicas_follow_the_spec() {
        let mut object = object(&json!({"replicas": 2}));
        let status = Workload::Deployment.status(&object, Phase::Ready, THEN).unwrap();
        assert_eq!((&status["availableReplicas"], &status["observedGeneration"]), (&json!(2), &json!(3)));
        object.insert("status".to_owned(), status.into());
        object["spec"]["replicas"] = 5.into();
        let status = Workload::Deployment.status(&object, Phase::Ready, NOW).unwrap();
        assert_eq!(status["availableReplicas"], 5);
        assert_eq!(status["conditions"][0]["lastTransitionTime"], THEN);
    }

    #[test]
    fn what_needs_no_controller_gets_no_status() {
        assert_eq!(Workload::Service.status(&object(&json!({"type": "ClusterIP"})), Phase::Ready, NOW), None);
        assert_eq!(Workload::Job.status(&object(&json!({"suspend": true})), Phase::Ready, NOW), None);
    }

    #[test]
    fn plurals_are_those_of_kubernetes() {
        let names: Vec<_> = kinds().map(|kind| kind.definition_name()).collect();
        assert!(names.contains(&"ingresses.networking.k8s.io".to_owned()), "{names:?}");
        assert!(names.contains(&"statefulsets.apps".to_owned()), "{names:?}");
    }
}
