//! A small API server in memory, and a plane that runs phases on it and stops wherever a test wants.
#![expect(clippy::needless_pass_by_value, clippy::unused_self, reason = "it reads better here as it is")]

use std::collections::BTreeMap;

use ferroplane_api::{Cause, Object, meta};
use ferroplane_engine::action::{
    Address, Answer, CHECKPOINT_LIMIT, ContainerRun, Move, NamedBy, PHASE_ANNOTATION, Patch, Phase,
    PhaseFunction, PodSupport, Refused, Request, Scope, Secrets,
};
use ferroplane_schema::patch::json::Patch as JsonPatch;
use ferroplane_schema::patch::merge;
use serde_json::{Value, json};

use super::FUNCTIONS;
use crate::Code;

/// Kinds that the server has: apiVersion, kind, resource, whether they are namespaced, whether they know strategic merge.
const KINDS: [(&str, &str, &str, bool, bool); 9] = [
    ("v1", "ConfigMap", "configmaps", true, true),
    ("v1", "Secret", "secrets", true, true),
    ("v1", "Namespace", "namespaces", false, true),
    ("v1", "Pod", "pods", true, true),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, true),
    ("apps/v1", "Deployment", "deployments", true, true),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "volumesnapshots", true, false),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", "volumesnapshotcontents", false, false),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "volumesnapshotclasses", false, false),
];

/// Where an object is: kind, namespace, name.
pub(super) type Key = (usize, String, String);

/// The server.
#[derive(Debug, Clone, Default)]
pub(super) struct FakeCluster {
    pub(super) objects: BTreeMap<Key, Object>,
    pub(super) versions: u64,
    /// All that was asked for and changes something, in a line each.
    pub(super) effects: Vec<String>,
    /// Answers for commands and containers, in turn.
    pub(super) commands: Vec<Answer>,
    /// What all pods log.
    pub(super) log: String,
    /// How many bytes of it come at once. None: all.
    pub(super) log_chunk: Option<usize>,
    /// Refusals for requests to come.
    pub(super) refusals: Vec<Refused>,
}

pub(super) fn object(value: Value) -> Object {
    value.as_object().expect("an object").clone()
}

pub(super) fn refused(code: u16, reason: &str, message: &str) -> Refused {
    Refused { code, reason: reason.to_owned(), message: message.to_owned(), cause: Cause::PhaseFailed }
}

impl FakeCluster {
    pub(super) fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut cluster = Self::default();
        for value in objects {
            cluster.put(object(value));
        }
        cluster
    }

    /// Store an object as somebody else would.
    pub(super) fn put(&mut self, mut object: Object) {
        let key = key_of(&object);
        self.versions += 1;
        let uid = self
            .objects
            .get(&key)
            .map_or_else(|| format!("uid-{}", self.versions), |it| meta::uid(it).to_owned());
        meta::set_field(&mut object, "uid", &uid);
        meta::set_field(&mut object, "resourceVersion", &self.versions.to_string());
        self.objects.insert(key, object);
    }

    pub(super) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Object> {
        let index = KINDS.iter().position(|known| known.1 == kind)?;
        self.objects.get(&(index, namespace.to_owned(), name.to_owned()))
    }

    /// Change an object as somebody else would.
    pub(super) fn change(&mut self, kind: &str, namespace: &str, name: &str, change: &Value) {
        let mut object = self.get(kind, namespace, name).expect("the object exists").clone();
        merge::apply(&mut object, change.clone()).expect("the change applies");
        self.put(object);
    }

    pub(super) fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        let index = KINDS.iter().position(|known| known.1 == kind).expect("a known kind");
        self.objects.remove(&(index, namespace.to_owned(), name.to_owned()));
    }

    /// All objects, without what differs from run to run.
    pub(super) fn state(&self) -> Vec<Value> {
        let shown = self.objects.values().map(|object| {
            let mut object = object.clone();
            for field in ["uid", "resourceVersion"] {
                meta::child(&mut object, "metadata").remove(field);
            }
            Value::Object(object)
        });
        shown.collect()
    }

    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        let index = KINDS.iter().position(|known| known.1 == kind);
        self.objects.keys().filter(|key| Some(key.0) == index).map(|key| key.2.clone()).collect()
    }

    fn find(&self, address: &Address) -> Result<Key, Refused> {
        let index = KINDS.iter().position(|known| match &address.kind.by {
            NamedBy::Kind(kind) => known.0 == address.kind.api_version && known.1 == kind,
            NamedBy::Resource(resource) => known.0 == address.kind.api_version && known.2 == resource,
        });
        let index = index.ok_or_else(|| refused(404, "NotFound", "the server has no such kind"))?;
        let namespace = if KINDS[index].3 { address.namespace.clone() } else { String::new() };
        Ok((index, namespace, address.name.clone()))
    }

    /// Perform a request for whatever phase.
    pub(super) fn answer_to(&mut self, request: &Request) -> Answer {
        self.perform(request, "")
    }

    /// Perform a request for a phase.
    fn perform(&mut self, request: &Request, identity: &str) -> Answer {
        if !self.refusals.is_empty() {
            return Answer::Refused(self.refusals.remove(0));
        }
        self.try_perform(request, identity).unwrap_or_else(Answer::Refused)
    }

    fn try_perform(&mut self, request: &Request, identity: &str) -> Result<Answer, Refused> {
        match request {
            Request::Get(address) => Ok(self.answer(&self.find(address)?)),
            Request::Create { object, .. } => self.create(object.clone(), identity),
            Request::Patch { target, patch, .. } => self.patch(target, patch),
            Request::Delete { target, uid } => self.delete(target, uid.as_deref()),
            Request::Scale { target, replicas } => {
                self.effects.push(format!("scale {} to {replicas}", target.name));
                let key = self.find(target)?;
                let mut object =
                    self.objects.get(&key).cloned().ok_or_else(|| refused(404, "NotFound", "gone"))?;
                meta::child(&mut object, "spec").insert("replicas".to_owned(), (*replicas).into());
                self.put(object);
                let scale =
                    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
                Ok(Answer::Object { object: self::object(scale), resource: "deployments".to_owned() })
            }
            Request::Exec { pod, container, command, .. } => {
                self.effects.push(format!("exec {pod}/{container}: {}", command.join(" ")));
                Ok(self.commands.remove(0))
            }
            Request::RunContainers(group) => {
                for ContainerRun { image, command, .. } in group.initial.iter().chain(&group.containers) {
                    self.effects.push(format!("run {image}: {}", command.join(" ")));
                }
                Ok(self.commands.remove(0))
            }
            Request::ReadLog { namespace, pod, offset, .. } => {
                if self.get("Pod", namespace, pod).is_none() {
                    return Err(refused(404, "NotFound", "there is no such pod"));
                }
                let start = usize::try_from(*offset).unwrap_or(usize::MAX).min(self.log.len());
                Ok(self.log_from(start))
            }
            Request::List { .. } | Request::CallFunction(_) => {
                Err(refused(500, "InternalError", "nobody lists, and nobody calls others"))
            }
        }
    }

    /// A part of the log, in whole lines unless it is the last.
    fn log_from(&self, start: usize) -> Answer {
        let rest = &self.log[start..];
        let chunk = self.log_chunk.unwrap_or(rest.len()).min(rest.len());
        let is_end = chunk == rest.len();
        let lines = rest[..chunk].rfind('\n').map_or(0, |end| end + 1);
        let text = if is_end { rest } else { &rest[..lines] };
        Answer::Log { text: text.to_owned(), next_offset: (start + lines) as u64, is_end }
    }

    fn answer(&self, key: &Key) -> Answer {
        match self.objects.get(key) {
            Some(object) => Answer::Object { object: object.clone(), resource: KINDS[key.0].2.to_owned() },
            None => Answer::Absent,
        }
    }

    fn create(&mut self, mut object: Object, identity: &str) -> Result<Answer, Refused> {
        self.effects.push(format!("create {} {}", meta::kind(&object), meta::name(&object)));
        meta::set_annotation(&mut object, PHASE_ANNOTATION, identity);
        let key = key_of(&object);
        if !KINDS[key.0].3 {
            meta::child(&mut object, "metadata").remove("namespace");
        }
        if self.objects.contains_key(&key) {
            let message = format!("{} {:?} already exists", KINDS[key.0].2, key.2);
            return Err(refused(409, "AlreadyExists", &message));
        }
        self.put(object);
        Ok(self.answer(&key))
    }

    fn patch(&mut self, target: &Address, patch: &Patch) -> Result<Answer, Refused> {
        let key = self.find(target)?;
        self.effects.push(format!("patch {}", target.name));
        if let Patch::Apply { object, .. } = patch {
            let mut object = object.clone();
            if !KINDS[key.0].3 {
                meta::child(&mut object, "metadata").remove("namespace");
            }
            let mut merged = self.objects.get(&key).cloned().unwrap_or_default();
            merge::apply(&mut merged, Value::Object(object)).expect("it applies");
            self.put(merged);
            return Ok(self.answer(&key));
        }
        let Some(mut object) = self.objects.get(&key).cloned() else { return Ok(Answer::Absent) };
        let invalid =
            |_| refused(422, "Invalid", "the server rejected our request due to an error in our request");
        match patch {
            Patch::Strategic(_) if !KINDS[key.0].4 => {
                let message = "the body of the request was in an unknown format";
                return Err(refused(415, "UnsupportedMediaType", message));
            }
            Patch::Strategic(body) | Patch::Merge(body) => {
                let version = body["metadata"]["resourceVersion"].as_str();
                if version.is_some_and(|version| version != meta::resource_version(&object)) {
                    return Err(refused(409, "Conflict", "the object has been modified"));
                }
                merge::apply(&mut object, body.clone())
                    .map_err(|_| refused(400, "BadRequest", "bad patch"))?;
            }
            Patch::Json(body) => {
                let patch =
                    JsonPatch::decode(body.clone()).map_err(|_| refused(400, "BadRequest", "bad patch"))?;
                object = self::object(patch.apply(Value::Object(object)).map_err(invalid)?);
            }
            Patch::Apply { .. } => unreachable!("handled above"),
        }
        self.put(object);
        Ok(self.answer(&key))
    }

    fn delete(&mut self, target: &Address, uid: Option<&str>) -> Result<Answer, Refused> {
        let key = self.find(target)?;
        self.effects.push(format!("delete {}", target.name));
        let Some(mut object) = self.objects.get(&key).cloned() else { return Ok(Answer::Absent) };
        if uid.is_some_and(|uid| uid != meta::uid(&object)) {
            return Err(refused(409, "Conflict", "the UID in the precondition does not match"));
        }
        if object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()) {
            meta::set_field(&mut object, "deletionTimestamp", "2026-01-01T00:00:00Z");
            self.put(object);
            return Ok(self.answer(&key));
        }
        self.objects.remove(&key);
        Ok(Answer::Absent)
    }
}

fn key_of(object: &Object) -> Key {
    let is_it = |known: &(&str, &str, &str, bool, bool)| {
        known.0 == meta::api_version(object) && known.1 == meta::kind(object)
    };
    let index = KINDS.iter().position(is_it).unwrap_or_else(|| panic!("no kind of {object:?}"));
    let namespace = if KINDS[index].3 { meta::namespace(object) } else { "" };
    (index, namespace.to_owned(), meta::name(object).to_owned())
}

/// How a phase ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    Done(Value),
    Failed(Cause, String),
    /// It waits, and nobody does anything.
    Waits,
}

impl End {
    pub(super) fn output(self) -> Value {
        match self {
            Self::Done(output) => output,
            other => panic!("not done: {other:?}"),
        }
    }

    pub(super) fn failure(self) -> String {
        match self {
            Self::Failed(_, message) => message,
            other => panic!("did not fail: {other:?}"),
        }
    }
}

/// Where the plane stops once, counted in moves that perform something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    Never,
    /// The checkpoint is written, and nothing was performed.
    Before(usize),
    /// All was performed, and the answers are lost.
    After(usize),
}

/// What happens while a phase waits. False if nothing does.
type Meanwhile<'t> = &'t dyn Fn(&mut FakeCluster) -> bool;

/// A plane that runs one phase.
pub(super) struct Plane<'f> {
    pub(super) function: &'f dyn PhaseFunction,
    pub(super) arguments: Object,
    pub(super) target: Object,
    pub(super) scope: Scope,
    pub(super) secrets: Secrets,
    /// All checkpoints that the phase had, as text.
    pub(super) checkpoints: Vec<String>,
    pub(super) pods: PodSupport,
    pub(super) pod_override: Object,
    pub(super) pod_labels: Object,
    pub(super) identity: String,
    pub(super) crash: Crash,
    pub(super) now: i64,
}

impl<'f> Plane<'f> {
    pub(super) fn of(function: &'f dyn PhaseFunction, arguments: Value) -> Self {
        Self {
            function,
            arguments: object(arguments),
            target: Object::new(),
            scope: Scope::default(),
            secrets: Secrets::default(),
            checkpoints: Vec::new(),
            pods: PodSupport::Cluster,
            pod_override: Object::new(),
            pod_labels: Object::new(),
            identity: "uid-of-actionset/0/phase".to_owned(),
            crash: Crash::Never,
            now: 1_000_000,
        }
    }

    /// What the function does next.
    pub(super) fn advance(&self, checkpoint: &Value, answers: &[Answer]) -> Move {
        self.function.advance(&self.phase(checkpoint, answers))
    }

    pub(super) fn phase<'a>(&'a self, checkpoint: &'a Value, answers: &'a [Answer]) -> Phase<'a> {
        Phase {
            name: "phase",
            identity: &self.identity,
            namespace: "team",
            arguments: &self.arguments,
            target: &self.target,
            scope: &self.scope,
            secrets: &self.secrets,
            checkpoint,
            answers,
            now: self.now,
            pods: self.pods,
            pod_override: &self.pod_override,
            pod_labels: &self.pod_labels,
            pod_annotations: &self.pod_labels,
        }
    }

    /// Run the phase until it ends, or nothing happens any more.
    pub(super) fn run(&mut self, cluster: &mut FakeCluster) -> End {
        self.run_while(cluster, &|_| false)
    }

    /// The same, while something happens whenever the phase waits.
    pub(super) fn run_while(&mut self, cluster: &mut FakeCluster, meanwhile: Meanwhile<'_>) -> End {
        let (mut checkpoint, mut answers, mut performed) = (Value::Null, Vec::new(), 0);
        for _ in 0..200 {
            match self.advance(&checkpoint, &answers) {
                Move::Perform { checkpoint: next, requests } => {
                    performed += 1;
                    self.checkpoints.push(next.to_string());
                    assert!(!requests.is_empty() && next.to_string().len() <= CHECKPOINT_LIMIT, "{next}");
                    // Nobody writes a checkpoint down for a request that only reads.
                    let durable =
                        if requests.iter().all(Request::is_read) { checkpoint } else { next.clone() };
                    if self.crash == Crash::Before(performed) {
                        (checkpoint, answers) = (durable, Vec::new());
                        continue;
                    }
                    answers =
                        requests.iter().map(|request| cluster.perform(request, &self.identity)).collect();
                    checkpoint = next;
                    if self.crash == Crash::After(performed) {
                        (checkpoint, answers) = (durable, Vec::new());
                    }
                }
                Move::Wait { checkpoint: next, wake_at, .. } => {
                    self.checkpoints.push(next.to_string());
                    assert!(next.to_string().len() <= CHECKPOINT_LIMIT, "{next}");
                    (checkpoint, answers) = (next, Vec::new());
                    if meanwhile(cluster) {
                        continue;
                    }
                    let Some(wake_at) = wake_at else { return End::Waits };
                    self.now = self.now.max(wake_at);
                }
                Move::Done { output } => return End::Done(output.into()),
                Move::Fail { cause, message } => return End::Failed(cause, message),
            }
        }
        panic!("the phase never ends: {checkpoint}")
    }
}

/// A phase during which the plane stops: it has to end as if the plane had not, except at the places that are named.
pub(super) struct CrashCase {
    pub(super) function: &'static str,
    pub(super) version: &'static str,
    pub(super) arguments: Value,
    pub(super) target: Object,
    pub(super) pods: PodSupport,
    pub(super) cluster: FakeCluster,
    /// What happens while the phase waits.
    pub(super) meanwhile: Box<dyn Fn(&mut FakeCluster) -> bool>,
    /// Where the effects of the phase are unknown afterwards, so that it has to fail as interrupted: all of these places.
    pub(super) interrupted: &'static [Crash],
}

/// A phase that makes all its requests at once, and must not repeat them.
pub(super) const INTERRUPTED_ONCE: &[Crash] = &[Crash::Before(1), Crash::After(1)];

impl CrashCase {
    pub(super) fn of(function: &'static str, version: &'static str, arguments: Value) -> Self {
        Self {
            function,
            version,
            arguments,
            target: Object::new(),
            pods: PodSupport::Cluster,
            cluster: FakeCluster::default(),
            meanwhile: Box::new(|_| false),
            interrupted: &[],
        }
    }

    /// Run the phase with the plane stopping at every place that there is, one place after the other.
    pub(super) fn check(&self) {
        let what = format!("{} {} {}", self.function, self.version, self.arguments);
        let (mut plane, mut expected) = (self.plane(Crash::Never), self.cluster.clone());
        let end = plane.run_while(&mut expected, &self.meanwhile);
        assert!(matches!(end, End::Done(_)), "{what}: {end:?}");
        let mut interrupted = Vec::new();
        for place in 1..=plane.checkpoints.len() {
            for crash in [Crash::Before(place), Crash::After(place)] {
                let mut tried = self.cluster.clone();
                let found = self.plane(crash).run_while(&mut tried, &self.meanwhile);
                if matches!(found, End::Failed(Cause::PhaseInterrupted, _)) {
                    interrupted.push(crash);
                    continue;
                }
                assert_eq!(found, end, "{what}: {crash:?}");
                assert_eq!(tried.state(), expected.state(), "{what}: {crash:?}");
            }
        }
        assert_eq!(interrupted, self.interrupted, "{what}");
    }

    fn plane(&self, crash: Crash) -> Plane<'static> {
        let function = FUNCTIONS.iter().find(|it| it.function == self.function).expect("a known function");
        let version = function.versions.iter().find(|it| it.0 == self.version).expect("a known version");
        let Code::Phase(code) = version.1 else { panic!("{} is no function of phases", self.function) };
        let (target, pods) = (self.target.clone(), self.pods);
        Plane { target, pods, crash, ..Plane::of(code, self.arguments.clone()) }
    }
}
