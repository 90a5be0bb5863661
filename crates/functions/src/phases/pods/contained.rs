//! Runs what would be a pod in containers of the plane's own, where there are no pods.
//!
//! Of the pod that the phase and the ActionSet describe, images, commands, variables, limits, the shared directory and
//! `activeDeadlineSeconds` count. What containers cannot have (other volumes, variables from elsewhere) fails the phase before anything
//! runs; everything else is about nodes and has no effect.
//!
//! Containers end with the plane. Their progress is unknown, so that the phase fails then, unless it may run them again.

use ferroplane_api::{Object, meta};
use ferroplane_engine::action::{
    Answer, ContainerEnding, ContainerGroup, ContainerRun, Move, Phase, Request,
};
use ferroplane_engine::scaled_quantity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::QUOTED;
use super::run::PodRun;
use crate::phases::moves::{Failure, NextMove, checkpoint, perform, text_at, value_at};
use crate::phases::output::{last_words, outputs};

/// The volume that containers can share.
const SHARED: &str = "shared";
/// What no directory may be put in place of.
const RESERVED: [&str; 3] = ["/dev", "/proc", "/sys"];

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "camelCase")]
enum Contained {
    Run,
}

/// What to do next about the containers.
pub(super) fn run(phase: &Phase<'_>, run: &PodRun, may_rerun: bool) -> NextMove {
    let group = group(&run.pod)?;
    match (checkpoint(phase)?, phase.answers) {
        (None, []) => Ok(perform(&Contained::Run, vec![Request::RunContainers(group)])),
        (Some(Contained::Run), []) if may_rerun => {
            Ok(perform(&Contained::Run, vec![Request::RunContainers(group)]))
        }
        (Some(Contained::Run), []) => Err(Failure::interrupted(format!(
            "the control plane stopped while a container of {} ran; whether its command finished is not known",
            images(&group)
        ))),
        (_, [Answer::ContainersEnded(endings)]) => ended(phase, run, &group, endings),
        (_, answers) => Err(Failure::unexpected(answers)),
    }
}

/// The output of the phase, unless a container failed.
fn ended(phase: &Phase<'_>, run: &PodRun, group: &ContainerGroup, endings: &[ContainerEnding]) -> NextMove {
    let failures: Vec<_> = endings.iter().filter(|ending| ending.exit_code != 0).collect();
    if run.fails && !failures.is_empty() {
        let failures: Vec<_> = failures.into_iter().map(|ending| failure(phase, group, ending)).collect();
        return Err(Failure::new(failures.join("; ")));
    }
    let printed = endings.iter().find(|ending| ending.name == run.container);
    Ok(Move::Done { output: outputs(printed.map_or("", |ending| ending.stdout.as_str()))? })
}

/// How a container failed, in its own words.
fn failure(phase: &Phase<'_>, group: &ContainerGroup, ending: &ContainerEnding) -> String {
    let ContainerEnding { name, exit_code, stdout, stderr } = ending;
    let of = all(group).find(|run| run.name == *name).map_or("", |run| run.image.as_str());
    // Before it is cut: what is left of a value would not be recognised.
    let words = [stderr, stdout].map(|printed| last_words(&phase.secrets.redact(printed), QUOTED));
    let words = words.into_iter().find(|words| !words.is_empty()).unwrap_or_default();
    let separator = if words.is_empty() { "" } else { ": " };
    format!("container `{name}` of `{of}` exited with code {exit_code}{separator}{words}")
}

fn all(group: &ContainerGroup) -> impl Iterator<Item = &ContainerRun> {
    group.initial.iter().chain(&group.containers)
}

fn images(group: &ContainerGroup) -> String {
    let images: Vec<_> = all(group).map(|run| format!("`{}`", run.image)).collect();
    images.join(", ")
}

/// The containers of a pod.
fn group(pod: &Object) -> Result<ContainerGroup, Failure> {
    let containers = |field: &str| list(pod, &["spec", field]).map(container).collect::<Result<Vec<_>, _>>();
    Ok(ContainerGroup {
        name: meta::name(pod).to_owned(),
        shared_bytes: shared_bytes(pod)?,
        initial: containers("initContainers")?,
        containers: containers("containers")?,
        deadline: value_at(pod, &["spec", "activeDeadlineSeconds"]).and_then(Value::as_u64),
    })
}

/// How much may be in the directory that containers share. No other volume can be there.
fn shared_bytes(pod: &Object) -> Result<Option<u64>, Failure> {
    let mut limit = None;
    for volume in list(pod, &["spec", "volumes"]) {
        let name = text_at(volume, &["name"]);
        if name != SHARED || !volume.contains_key("emptyDir") {
            return Err(impossible(&format!("volume `{name}`")));
        }
        limit = amount(volume, &["emptyDir", "sizeLimit"], 1)?;
    }
    Ok(limit)
}

fn container(container: &Object) -> Result<ContainerRun, Failure> {
    let texts = |field: &str| {
        let texts = container.get(field).and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    Ok(ContainerRun {
        name: text_at(container, &["name"]).to_owned(),
        image: text_at(container, &["image"]).to_owned(),
        command: texts("command"),
        arguments: texts("args"),
        environment: environment(container)?,
        shared_at: shared_at(container)?,
        memory: amount(container, &["resources", "limits", "memory"], 1)?,
        cpu: amount(container, &["resources", "limits", "cpu"], 1000)?,
    })
}

fn environment(container: &Object) -> Result<Vec<(String, String)>, Failure> {
    if container.contains_key("envFrom") {
        return Err(impossible("`envFrom`"));
    }
    let variable = |variable: &Object| {
        let name = text_at(variable, &["name"]).to_owned();
        if variable.contains_key("valueFrom") {
            return Err(impossible(&format!("`valueFrom` of the variable `{name}`")));
        }
        Ok((name, text_at(variable, &["value"]).to_owned()))
    };
    list(container, &["env"]).map(variable).collect()
}

/// Where a container sees the shared directory.
fn shared_at(container: &Object) -> Result<Option<String>, Failure> {
    let mut found = None;
    for mount in list(container, &["volumeMounts"]) {
        let (name, path) = (text_at(mount, &["name"]), text_at(mount, &["mountPath"]));
        if name != SHARED {
            return Err(impossible(&format!("volume `{name}`")));
        }
        let path = path.trim_end_matches('/');
        let is_below = |reserved: &&str| {
            path.strip_prefix(*reserved).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_plain = path.starts_with('/') && path.split('/').all(|part| part != "..");
        if !is_plain || RESERVED.iter().any(is_below) {
            let why = format!("containers cannot share a directory at `{path}`");
            return Err(Failure::argument("sharedVolumeDir", why));
        }
        found = Some(path.to_owned());
    }
    Ok(found)
}

/// A quantity, in units of one part in `scale`.
fn amount(object: &Object, path: &[&str], scale: u64) -> Result<Option<u64>, Failure> {
    let Some(value) = value_at(object, path) else { return Ok(None) };
    let amount = scaled_quantity(value, scale).filter(|amount| *amount > 0);
    let unreadable = || {
        let name = path.last().copied().unwrap_or_default();
        Failure::argument("podOverride", format!("{name}: expected a quantity above zero, got {value}"))
    };
    amount.ok_or_else(unreadable).map(Some)
}

fn impossible(what: &str) -> Failure {
    let why = format!(
        "{what} cannot be had in a container of this control plane, which has no pods: leave it out, or run the ActionSet on a cluster \
         with `ferroplane start`"
    );
    Failure::argument("podOverride", why)
}

/// The maps in a list somewhere below an object.
fn list<'o>(object: &'o Object, path: &[&str]) -> impl Iterator<Item = &'o Object> + use<'o> {
    let list = value_at(object, path).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}
