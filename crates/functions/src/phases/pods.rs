//! Functions that run images in pods of their own: KubeTask, MultiContainerRun and PrepareData.
//!
//! Follow Kanister 0.119, `pkg/function/kube_task.go`, `multi_container_run.go` and `prepare_data.go`. A pod is created once, however often the
//! control plane stops, and deleted when it has ended. Where there are no pods, KubeTask and MultiContainerRun run in containers of the
//! control plane's own; from v0.1.0 on, `onInterruption: Rerun` says that these may be run again if the control plane was stopped while they
//! ran.

mod contained;
mod run;
mod template;

use ferroplane_api::{Cause, Object};
use ferroplane_engine::action::{
    ArgumentMistake, Move, Need, Phase, PhaseContract, PhaseFunction, PodSupport, Request,
};
use serde_json::{Value, json};

use super::arguments::{Arguments, is_template, mistake};
use super::exec;
use super::moves::{Failure, NextMove, settle};
use run::{PodRun, run};
use template::PodTemplate;

/// How much of the output of a container is reported if it fails.
const QUOTED: usize = 1000;
/// What to do if the control plane was stopped while containers ran: `Fail` or `Rerun`.
const ON_INTERRUPTION: &str = "onInterruption";
/// What may be said to MultiContainerRun. The last one is new in v0.1.0.
const MULTI_CONTAINER: &[&str] = &[
    "namespace",
    "initImage",
    "initCommand",
    "sharedVolumeMedium",
    "sharedVolumeSizeLimit",
    "sharedVolumeDir",
    "podOverride",
    "podLabels",
    "podAnnotations",
    ON_INTERRUPTION,
];
/// Where PrepareData mounts volumes of the workload that the action is about.
const MOUNTS: &str = "/mnt/prepare_data";

/// A plane without pods cannot do what a function does.
pub(super) fn no_pods(what: &str) -> Failure {
    Failure {
        cause: Cause::PhaseNeedsUnmet,
        message: format!(
            "the function {what}, and this control plane has no pods: run it on a cluster with `ferroplane start`"
        ),
    }
}

/// A version of KubeTask: runs a command in a new pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KubeTask {
    V0_0,
    V0_1,
}

/// A version of MultiContainerRun: runs two commands in one pod that share a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MultiContainerRun {
    V0_0,
    V0_1,
}

/// PrepareData: runs a command in a new pod that has volumes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrepareData;

impl PhaseFunction for KubeTask {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let may_rerun = may_rerun(phase, *self == Self::V0_1);
        settle(may_rerun.and_then(|may_rerun| run_image(phase, task, may_rerun)))
    }

    fn contract(&self) -> PhaseContract {
        let optional: &'static [&'static str] = match self {
            Self::V0_0 => &["namespace", "podOverride", "podLabels", "podAnnotations"],
            Self::V0_1 => &["namespace", "podOverride", "podLabels", "podAnnotations", ON_INTERRUPTION],
        };
        PhaseContract { required: &["image", "command"], optional, outputs: &[], needs: &[Need::Pods] }
    }

    fn argument_mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        mistakes(self.contract(), arguments)
    }

    fn clean_up(&self, phase: &Phase<'_>) -> Vec<Request> {
        clean_up(phase, task)
    }
}

impl PhaseFunction for MultiContainerRun {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let may_rerun = may_rerun(phase, *self == Self::V0_1);
        settle(may_rerun.and_then(|may_rerun| run_image(phase, multi_container, may_rerun)))
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract {
            required: &["backgroundImage", "backgroundCommand", "outputImage", "outputCommand"],
            optional: match self {
                Self::V0_0 => MULTI_CONTAINER.split_at(MULTI_CONTAINER.len() - 1).0,
                Self::V0_1 => MULTI_CONTAINER,
            },
            outputs: &[],
            needs: &[Need::Pods],
        }
    }

    fn argument_mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        mistakes(self.contract(), arguments)
    }

    fn clean_up(&self, phase: &Phase<'_>) -> Vec<Request> {
        clean_up(phase, multi_container)
    }
}

impl PhaseFunction for PrepareData {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        settle(on_cluster(phase).and_then(|()| run(phase, &prepare(phase)?)))
    }

    fn contract(&self) -> PhaseContract {
        PhaseContract {
            required: &["namespace", "image", "command"],
            optional: &[
                "volumes",
                "serviceaccount",
                "failOnError",
                "podOverride",
                "podLabels",
                "podAnnotations",
            ],
            outputs: &[],
            needs: &[Need::Pods, Need::Exec],
        }
    }

    fn clean_up(&self, phase: &Phase<'_>) -> Vec<Request> {
        clean_up(phase, prepare)
    }
}

/// Runs a pod, or its containers where there are no pods. A pod continues when the control plane stops: it is never run again.
fn run_image(
    phase: &Phase<'_>,
    pod: impl Fn(&Phase<'_>) -> Result<PodRun, Failure>,
    may_rerun: bool,
) -> NextMove {
    match phase.pods {
        PodSupport::Cluster => run(phase, &pod(phase)?),
        PodSupport::Containers => contained::run(phase, &pod(phase)?, may_rerun),
        PodSupport::None => Err(no_pods("runs an image")),
    }
}

/// Whether containers may be run again, in a version that can be told so.
fn may_rerun(phase: &Phase<'_>, can_be_told: bool) -> Result<bool, Failure> {
    match Arguments(phase.arguments).optional_text(ON_INTERRUPTION)? {
        Some(choice) if can_be_told => exec::may_rerun(choice),
        _ => Ok(false),
    }
}

fn mistakes(contract: PhaseContract, arguments: &Object) -> Vec<ArgumentMistake> {
    let mut mistakes = contract.mistakes(arguments);
    let choice = arguments.get(ON_INTERRUPTION).and_then(Value::as_str);
    let choice =
        choice.filter(|text| !text.is_empty() && !is_template(text) && contract.takes(ON_INTERRUPTION));
    if let Some(Err(failure)) = choice.map(exec::may_rerun) {
        mistakes.push(mistake(failure, ON_INTERRUPTION));
    }
    mistakes
}

fn on_cluster(phase: &Phase<'_>) -> Result<(), Failure> {
    if phase.pods == PodSupport::Cluster { Ok(()) } else { Err(no_pods("runs a pod with volumes")) }
}

fn task(phase: &Phase<'_>) -> Result<PodRun, Failure> {
    let arguments = Arguments(phase.arguments);
    let container = json!({
        "name": "container", "image": arguments.text("image")?, "imagePullPolicy": "IfNotPresent",
        "command": arguments.texts("command")?,
    });
    let namespace = arguments.optional_text("namespace")?.unwrap_or(phase.namespace);
    let template =
        PodTemplate { prefix: "kanister-job", namespace, spec: spec(json!({"containers": [container]})) };
    Ok(PodRun { pod: template.pod(phase)?, container: "container", fails: true })
}

fn multi_container(phase: &Phase<'_>) -> Result<PodRun, Failure> {
    let arguments = Arguments(phase.arguments);
    let directory = arguments.optional_text("sharedVolumeDir")?.unwrap_or("/tmp/");
    let mut volume = Object::new();
    if let Some(medium) = arguments.optional_text("sharedVolumeMedium")? {
        volume.insert("medium".to_owned(), medium.into());
    }
    if let Some(limit) = arguments.optional_text("sharedVolumeSizeLimit")? {
        volume.insert("sizeLimit".to_owned(), limit.into());
    }
    let container = |name: &str| {
        Ok::<_, Failure>(json!({
            "name": name, "image": arguments.text(&format!("{name}Image"))?, "imagePullPolicy": "IfNotPresent",
            "command": arguments.texts(&format!("{name}Command"))?,
            "volumeMounts": [{"name": "shared", "mountPath": directory}],
        }))
    };
    let mut pod = json!({
        "volumes": [{"name": "shared", "emptyDir": volume}],
        "containers": [container("background")?, container("output")?],
    });
    if arguments.optional_text("initImage")?.is_some() {
        pod["initContainers"] = json!([container("init")?]);
    } else if arguments.optional_texts("initCommand")?.is_some() {
        return Err(Failure::argument("initImage", "it is required if there is an initCommand"));
    }
    let namespace = arguments.optional_text("namespace")?.unwrap_or(phase.namespace);
    let template = PodTemplate { prefix: "kanister-multi-container", namespace, spec: spec(pod) };
    Ok(PodRun { pod: template.pod(phase)?, container: "output", fails: true })
}

fn prepare(phase: &Phase<'_>) -> Result<PodRun, Failure> {
    let arguments = Arguments(phase.arguments);
    let volumes = volumes(phase, arguments)?;
    let mounts: Vec<_> = (0..)
        .zip(volumes.values())
        .map(|(index, path): (usize, &Value)| json!({"name": format!("volume-{index}"), "mountPath": path}))
        .collect();
    let claims: Vec<_> = (0..)
        .zip(volumes.keys())
        .map(|(index, claim): (usize, &String)| {
            json!({"name": format!("volume-{index}"), "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect();
    let container = json!({
        "name": "container", "image": arguments.text("image")?, "imagePullPolicy": "IfNotPresent",
        "command": arguments.texts("command")?, "volumeMounts": mounts,
    });
    let mut pod = json!({"containers": [container], "volumes": claims});
    if let Some(account) = arguments.optional_text("serviceaccount")? {
        pod["serviceAccountName"] = account.into();
    }
    let template =
        PodTemplate { prefix: "prepare-data", namespace: arguments.text("namespace")?, spec: spec(pod) };
    let fails = arguments.flag("failOnError", false)?;
    Ok(PodRun { pod: template.pod(phase)?, container: "container", fails })
}

/// The claims to mount, and where: those that are named, or those of the workload that the action is about.
fn volumes(phase: &Phase<'_>, arguments: Arguments<'_>) -> Result<Object, Failure> {
    let named = arguments.text_map("volumes")?;
    if !named.is_empty() {
        return Ok(named);
    }
    let data = phase.scope.data();
    let workload =
        ["Deployment", "StatefulSet", "DeploymentConfig"].into_iter().find_map(|kind| data.get(kind));
    let pods =
        workload.and_then(|workload| workload.get("PersistentVolumeClaims")).and_then(Value::as_object);
    let claims =
        pods.into_iter().flat_map(|pods| pods.values()).filter_map(Value::as_object).flat_map(Object::keys);
    let found: Object = claims.map(|claim| (claim.clone(), format!("{MOUNTS}/{claim}").into())).collect();
    if found.is_empty() {
        let why = "it is required: the action is about no workload with volumes";
        return Err(Failure::argument("volumes", why));
    }
    Ok(found)
}

fn spec(value: Value) -> Object {
    match value {
        Value::Object(spec) => spec,
        _ => Object::new(),
    }
}

fn clean_up(phase: &Phase<'_>, pod: impl Fn(&Phase<'_>) -> Result<PodRun, Failure>) -> Vec<Request> {
    match pod(phase) {
        Ok(pod) if phase.pods == PodSupport::Cluster => vec![pod.delete()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
pub(super) mod tests;
