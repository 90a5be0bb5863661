//! Pods: how many containers are ready, and the one word that says how things are.
//!
//! Follows Kubernetes 1.36.4, `pkg/printers/internalversion/printers.go`.

use serde_json::Value;

use super::seen::Seen;
use super::{AGE, BuiltinColumn, NAME, text, wide};
use crate::table::age::is_before;

pub(super) const PODS: &[BuiltinColumn] = &[
    NAME,
    // Counted anew for each of three columns, which is cheap and spares a place to keep it.
    text("Ready", |it| Containers::of(it).ready.into()),
    text("Status", |it| Containers::of(it).reason.into()),
    text("Restarts", |it| Containers::of(it).restarts.into()),
    AGE,
    wide("IP", |it| it.filled_or("/status/podIPs/0/ip", "<none>").into()),
    wide("Node", |it| it.filled_or("/spec/nodeName", "<none>").into()),
    wide("Nominated Node", |it| it.filled_or("/status/nominatedNodeName", "<none>").into()),
    wide("Readiness Gates", gates),
];

fn gates(it: &Seen<'_>) -> Value {
    let gates = it.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open =
        it.items("/spec/readinessGates").filter(|gate| it.condition(gate.text("/conditionType")) == "True");
    format!("{}/{}", open.count(), gates.len()).into()
}

/// What the containers of a pod come to.
struct Containers {
    ready: String,
    reason: String,
    restarts: String,
}

/// While containers are counted.
struct Count<'o> {
    ready: i64,
    reason: String,
    restarts: i64,
    last: &'o str,
}

impl<'o> Count<'o> {
    fn restarted(&mut self, container: &Seen<'o>) {
        self.restarts += container.number("/restartCount");
        let ended = container.text("/lastState/terminated/finishedAt");
        if is_before(self.last, ended) {
            self.last = ended;
        }
    }
}

impl Containers {
    fn of(pod: &Seen<'_>) -> Self {
        let mut count =
            Count { ready: 0, reason: pod.text("/status/phase").to_owned(), restarts: 0, last: "" };
        if !pod.text("/status/reason").is_empty() {
            pod.text("/status/reason").clone_into(&mut count.reason);
        }
        let is_gated =
            |it: Seen<'_>| it.text("/type") == "PodScheduled" && it.text("/reason") == "SchedulingGated";
        if pod.items("/status/conditions").any(is_gated) {
            "SchedulingGated".clone_into(&mut count.reason);
        }
        let is_initializing = initial(pod, &mut count);
        if !is_initializing || pod.condition("Initialized") == "True" {
            main(pod, &mut count);
        }
        let is_over = matches!(pod.text("/status/phase"), "Failed" | "Succeeded");
        // `NodeUnreachablePodReason`: it is unknown whether the pod still runs.
        if pod.is_going() && pod.text("/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut count.reason);
        } else if pod.is_going() && !is_over {
            "Terminating".clone_into(&mut count.reason);
        }
        let sidecars = pod.items("/spec/initContainers").filter(is_sidecar).count();
        let total = pod.list("/spec/containers").len() + sidecars;
        let restarts = match (count.restarts, count.last) {
            (0, _) | (_, "") => count.restarts.to_string(),
            (restarts, last) => format!("{restarts} ({} ago)", crate::table::age::age(last, pod.now)),
        };
        Self { ready: format!("{}/{total}", count.ready), reason: count.reason, restarts }
    }
}

/// A container that starts before the others and runs beside them.
fn is_sidecar(container: &Seen<'_>) -> bool {
    container.text("/restartPolicy") == "Always"
}

/// Counts the containers that run first. Whether they still do.
fn initial<'o>(pod: &Seen<'o>, count: &mut Count<'o>) -> bool {
    let specified = pod.list("/spec/initContainers").len();
    for (index, container) in pod.items("/status/initContainerStatuses").enumerate() {
        count.restarted(&container);
        let name = container.text("/name");
        let mut initial = pod.items("/spec/initContainers");
        let is_sidecar = initial.find(|it| it.text("/name") == name).is_some_and(|it| is_sidecar(&it));
        let waits_for = container.text("/state/waiting/reason");
        if container.has("/state/terminated") && container.number("/state/terminated/exitCode") == 0 {
            continue;
        }
        if is_sidecar && container.is("/started") {
            count.ready += i64::from(container.is("/ready"));
            continue;
        }
        count.reason = if container.has("/state/terminated") {
            format!("Init:{}", end(&container))
        } else if !matches!(waits_for, "" | "PodInitializing") {
            format!("Init:{waits_for}")
        } else {
            format!("Init:{index}/{specified}")
        };
        // What comes after the first container that is not done does not count yet.
        return true;
    }
    false
}

/// Counts the containers that a pod is there for.
fn main<'o>(pod: &Seen<'o>, count: &mut Count<'o>) {
    // Once the main containers run, restarts of those before them no longer count, except of sidecars.
    (count.restarts, count.last) = (0, "");
    for container in pod.items("/status/initContainerStatuses") {
        let name = container.text("/name");
        if pod.items("/spec/initContainers").any(|it| it.text("/name") == name && is_sidecar(&it)) {
            count.restarted(&container);
        }
    }
    let mut is_running = false;
    let mut failure = None;
    // Backwards, so that the first container has the last word about the reason.
    for container in pod.items("/status/containerStatuses").rev() {
        count.restarted(&container);
        let waits_for = container.text("/state/waiting/reason");
        if !waits_for.is_empty() {
            waits_for.clone_into(&mut count.reason);
        } else if container.has("/state/terminated") {
            count.reason = end(&container);
            if container.number("/state/terminated/exitCode") != 0 {
                failure = Some(count.reason.clone());
            }
        } else if container.is("/ready") && container.has("/state/running") {
            is_running = true;
            count.ready += 1;
        }
    }
    if count.reason == "Completed" {
        let is_ready = pod.condition("Ready") == "True";
        match (is_running, failure) {
            (true, _) if is_ready => "Running".clone_into(&mut count.reason),
            (_, Some(failure)) => count.reason = failure,
            (true, None) => "NotReady".clone_into(&mut count.reason),
            (false, None) => {}
        }
    }
}

/// How a container ended.
fn end(container: &Seen<'_>) -> String {
    let (reason, signal) =
        (container.text("/state/terminated/reason"), container.number("/state/terminated/signal"));
    match (reason, signal) {
        ("", 0) => format!("ExitCode:{}", container.number("/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
