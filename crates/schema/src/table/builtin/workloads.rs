//! What runs: pods, and what makes them.
//!
//! Follows Kubernetes 1.36.4, `pkg/printers/internalversion/printers.go`.

use serde_json::Value;

use super::pods::PODS;
use super::seen::{Seen, or_none};
use super::{AGE, BuiltinColumn, NAME, boolean, integer, text, wide};
use crate::builtin::autoscalers;
use crate::table::age::{duration_between, human_duration};

const CONTAINERS: BuiltinColumn =
    wide("Containers", |it| it.each("/spec/template/spec/containers", "/name").into());
const IMAGES: BuiltinColumn = wide("Images", |it| it.each("/spec/template/spec/containers", "/image").into());
const SELECTOR: BuiltinColumn = wide("Selector", |it| or_none(it.selector("/spec/selector")).into());
const DESIRED: BuiltinColumn = integer("Desired", |it| it.number("/spec/replicas").into());
const CURRENT: BuiltinColumn = integer("Current", |it| it.number("/status/replicas").into());
const READY: BuiltinColumn = integer("Ready", |it| it.number("/status/readyReplicas").into());
const READY_OF: BuiltinColumn = text("Ready", |it| {
    format!("{}/{}", it.number("/status/readyReplicas"), it.number("/spec/replicas")).into()
});

const DEPLOYMENTS: &[BuiltinColumn] = &[
    NAME,
    READY_OF,
    text("Up-to-date", |it| it.number("/status/updatedReplicas").into()),
    text("Available", |it| it.number("/status/availableReplicas").into()),
    AGE,
    CONTAINERS,
    IMAGES,
    // Without `<none>`, unlike the others: `printDeployment` formats it by another function.
    wide("Selector", |it| it.selector("/spec/selector").into()),
];
const REPLICA_SETS: &[BuiltinColumn] = &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR];
const REPLICATION_CONTROLLERS: &[BuiltinColumn] = &[
    NAME,
    DESIRED,
    CURRENT,
    READY,
    AGE,
    CONTAINERS,
    IMAGES,
    wide("Selector", |it| it.labels("/spec/selector").into()),
];
const STATEFUL_SETS: &[BuiltinColumn] = &[NAME, READY_OF, AGE, CONTAINERS, IMAGES];
const DAEMON_SETS: &[BuiltinColumn] = &[
    NAME,
    integer("Desired", |it| it.number("/status/desiredNumberScheduled").into()),
    integer("Current", |it| it.number("/status/currentNumberScheduled").into()),
    integer("Ready", |it| it.number("/status/numberReady").into()),
    integer("Up-to-date", |it| it.number("/status/updatedNumberScheduled").into()),
    integer("Available", |it| it.number("/status/numberAvailable").into()),
    text("Node Selector", |it| it.labels("/spec/template/spec/nodeSelector").into()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
const REVISIONS: &[BuiltinColumn] =
    &[NAME, text("Controller", controller), text("Revision", |it| it.number("/revision").into()), AGE];
const JOBS: &[BuiltinColumn] = &[
    NAME,
    text("Status", job_status),
    text("Completions", completions),
    text("Duration", job_duration),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
const CRON_JOBS: &[BuiltinColumn] = &[
    NAME,
    text("Schedule", |it| it.text("/spec/schedule").into()),
    text("Timezone", |it| it.text_or("/spec/timeZone", "<none>").into()),
    boolean("Suspend", suspend),
    integer("Active", |it| it.count("/status/active").into()),
    text("Last Schedule", |it| {
        if it.has("/status/lastScheduleTime") {
            it.age("/status/lastScheduleTime").into()
        } else {
            "<none>".into()
        }
    }),
    AGE,
    wide("Containers", |it| it.each("/spec/jobTemplate/spec/template/spec/containers", "/name").into()),
    wide("Images", |it| it.each("/spec/jobTemplate/spec/template/spec/containers", "/image").into()),
    wide("Selector", |it| or_none(it.selector("/spec/jobTemplate/spec/selector")).into()),
];
const AUTOSCALERS: &[BuiltinColumn] = &[
    NAME,
    text("Reference", |it| {
        format!("{}/{}", it.text("/spec/scaleTargetRef/kind"), it.text("/spec/scaleTargetRef/name")).into()
    }),
    text("Targets", targets),
    text("MinPods", |it| it.either_or("/spec/minReplicas", "<unset>").into()),
    text("MaxPods", |it| it.number("/spec/maxReplicas").into()),
    text("Replicas", |it| it.number("/status/currentReplicas").into()),
    AGE,
];
const SCALES: &[BuiltinColumn] =
    &[NAME, DESIRED, integer("Available", |it| it.number("/status/replicas").into()), AGE];
const POD_TEMPLATES: &[BuiltinColumn] = &[
    NAME,
    text("Containers", |it| it.each("/template/spec/containers", "/name").into()),
    text("Images", |it| it.each("/template/spec/containers", "/image").into()),
    text("Pod Labels", |it| it.labels("/template/metadata/labels").into()),
];
const DISRUPTION_BUDGETS: &[BuiltinColumn] = &[
    NAME,
    text("Min Available", |it| it.either_or("/spec/minAvailable", "N/A").into()),
    text("Max Unavailable", |it| it.either_or("/spec/maxUnavailable", "N/A").into()),
    integer("Allowed Disruptions", |it| it.number("/status/disruptionsAllowed").into()),
    AGE,
];

pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [BuiltinColumn]> {
    Some(match (group, plural) {
        ("", "pods") => PODS,
        ("", "podtemplates") => POD_TEMPLATES,
        ("", "replicationcontrollers") => REPLICATION_CONTROLLERS,
        ("apps", "deployments") => DEPLOYMENTS,
        ("apps", "replicasets") => REPLICA_SETS,
        ("apps", "statefulsets") => STATEFUL_SETS,
        ("apps", "daemonsets") => DAEMON_SETS,
        ("apps", "controllerrevisions") => REVISIONS,
        ("batch", "jobs") => JOBS,
        ("batch", "cronjobs") => CRON_JOBS,
        ("autoscaling", "horizontalpodautoscalers") => AUTOSCALERS,
        ("autoscaling", "scales") => SCALES,
        ("policy", "poddisruptionbudgets") => DISRUPTION_BUDGETS,
        _ => return None,
    })
}

fn suspend(it: &Seen<'_>) -> Value {
    match it.value("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True".into(),
        Some(false) => "False".into(),
        None => "<unset>".into(),
    }
}

fn controller(it: &Seen<'_>) -> Value {
    let owner = it.items("/metadata/ownerReferences").find(|owner| owner.is("/controller"));
    let Some(owner) = owner else { return "<none>".into() };
    let kind = owner.text("/kind").to_lowercase();
    match owner.text("/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{}", group.to_lowercase(), owner.text("/name")).into(),
        None => format!("{kind}/{}", owner.text("/name")).into(),
    }
}

fn job_status(it: &Seen<'_>) -> Value {
    let holds = |kind: &str| it.condition(kind) == "True";
    // Before the deletion is checked: a job that is over is not being stopped.
    let before = ["Complete", "Failed"].into_iter().find(|kind| holds(kind));
    let after = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let otherwise =
        || if it.is_going() { Some("Terminating") } else { after.into_iter().find(|kind| holds(kind)) };
    before.or_else(otherwise).unwrap_or("Running").into()
}

fn completions(it: &Seen<'_>) -> Value {
    let succeeded = it.number("/status/succeeded");
    let parallelism = it.number("/spec/parallelism");
    match it.value("/spec/completions") {
        Some(completions) => format!("{succeeded}/{completions}").into(),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}").into(),
        None => format!("{succeeded}/1").into(),
    }
}

fn job_duration(it: &Seen<'_>) -> Value {
    let (start, end) = (it.text("/status/startTime"), it.text("/status/completionTime"));
    if start.is_empty() {
        return "".into();
    }
    if end.is_empty() {
        return it.age("/status/startTime").into();
    }
    duration_between(start, end)
        .map_or_else(|| "<invalid>".into(), |nanoseconds| human_duration(nanoseconds).into())
}

/// What is measured, and what it should be.
fn targets(it: &Seen<'_>) -> Value {
    // The first version says it elsewhere.
    if it.text("/apiVersion") == "autoscaling/v1"
        && let Some(Value::Object(mut autoscaler)) = it.value("").cloned()
    {
        autoscalers::convert(&mut autoscaler, "autoscaling/v2");
        return targets(&it.part(&Value::Object(autoscaler)));
    }
    let current = it.list("/status/currentMetrics");
    let texts: Vec<_> = it
        .items("/spec/metrics")
        .enumerate()
        .map(|(index, metric)| target(&metric, current.get(index)))
        .collect();
    let shown = texts[..texts.len().min(2)].join(", ");
    match texts.len() {
        0 => "<none>".into(),
        1 | 2 => shown.into(),
        count => format!("{shown} + {} more...", count - 2).into(),
    }
}

fn target(metric: &Seen<'_>, current: Option<&Value>) -> String {
    let (field, has_name) = match metric.text("/type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let measured = |name: &str| {
        let value = current.and_then(|current| current.pointer(&format!("/{field}/current/{name}")));
        value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let measured = |name: &str| measured(name).unwrap_or_else(|| "<unknown>".to_owned());
    let wanted = |name: &str| metric.value(&format!("/{field}/target/{name}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let percent = |text: String| if text.starts_with('<') { text } else { format!("{text}%") };
    let label = metric.text(&format!("/{field}/name"));
    match (has_name, wanted("averageValue"), wanted("value")) {
        (true, Some(average), _) => format!("{label}: {}/{}", measured("averageValue"), text(average)),
        (true, None, _) => {
            let wanted = wanted("averageUtilization").map_or("<auto>".to_owned(), Value::to_string);
            format!("{label}: {}/{}", percent(measured("averageUtilization")), percent(wanted))
        }
        (false, Some(average), _) if field == "pods" => {
            format!("{}/{}", measured("averageValue"), text(average))
        }
        (false, Some(average), _) => format!("{}/{} (avg)", measured("averageValue"), text(average)),
        (false, None, value) => format!("{}/{}", measured("value"), value.map(text).unwrap_or_default()),
    }
}
