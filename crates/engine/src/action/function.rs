//! What a function of a Blueprint phase is to the engine: a pure decision about the next move.
//!
//! A phase is polled. [`PhaseFunction::advance`] is given the arguments, the checkpoint of the last move and the answers to the requests
//! of that move, and returns the next [`Move`]. The plane performs the requests, waits and writes the status; a function never touches
//! an API server, a clock or a source of randomness.
//!
//! ```text
//! advance(checkpoint: null) ─▶ Perform{checkpoint, requests}
//!     the checkpoint is written to status, the requests are performed
//! advance(checkpoint, answers) ─▶ Wait{checkpoint, wake_at, watch}
//!     the checkpoint is written to status; time passes, or a watched object changes
//! advance(checkpoint, answers: []) ─▶ … ─▶ Done{output} | Fail{cause, message}
//! ```
//!
//! # What a function has to cope with
//! * A checkpoint is durable before the requests that come with it are performed. After a crash between the two, or before the answers
//!   were used, the function is asked again with that checkpoint and without answers, as if it had waited. It must then find out by
//!   reading what happened: a create finds its own object (by the annotation [`PHASE_ANNOTATION`], which the plane adds to whatever a
//!   phase creates, or by uid), not "already exists".
//! * A wait may end early or late, and for no reason: look, do not trust.
//! * Names of objects derive from [`Phase::identity`], so that twice is once.
//! * A checkpoint is stored in the status of the ActionSet: at most [`CHECKPOINT_LIMIT`] bytes of JSON, never a Secret:
//!   what others say is redacted with [`Phase::secrets`] first.

use std::fmt;

use ferroplane_api::{Cause, Object};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::custom::{FunctionCall, FunctionReturn};
use super::scope::Scope;
use super::secrets::Secrets;

/// The most bytes of JSON that a checkpoint may have. A move with a larger one fails the phase.
pub const CHECKPOINT_LIMIT: usize = 4096;

/// On every object that a phase creates: the [`Phase::identity`] of the phase. The plane adds it.
pub const PHASE_ANNOTATION: &str = "ferroplane.io/created-by-phase";

/// Marks output in the lines that commands print, as Kanister's tools write it.
pub const OUTPUT_MARKER: &str = "###Phase-output###:";

/// A function that phases of Blueprints call, in one version. It decides; the plane acts.
pub trait PhaseFunction: Send + Sync {
    /// What to do next.
    fn advance(&self, phase: &Phase<'_>) -> Move;

    /// Which arguments it takes, and what it needs in order to run.
    fn contract(&self) -> PhaseContract;

    /// Whether [`Phase::arguments`] are to be passed as they are written, so that the function renders them itself with
    /// [`Phase::scope`], as `Wait` does.
    fn renders_arguments_itself(&self) -> bool {
        false
    }

    /// All mistakes in the arguments as a Blueprint writes them. Templates are not rendered yet, so that values with templates are
    /// assumed to be valid. Admission and `ferroplane blueprint validate` both call this.
    fn argument_mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        self.contract().mistakes(arguments)
    }

    /// Requests to perform when a phase is abandoned because its ActionSet was cancelled or deleted: usually, to delete the pod that runs
    /// for it. Best effort; no answer is checked.
    fn clean_up(&self, _phase: &Phase<'_>) -> Vec<Request> {
        Vec::new()
    }
}

/// A mistake in an argument of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentMistake {
    /// The path to it below `args`, like `operation` or `conditions.anyOf[0].condition`.
    pub argument: String,
    /// The mistake, with the name of the argument.
    pub message: String,
}

impl fmt::Display for ArgumentMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a version of a function declares, for admission and for discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseContract {
    pub required: &'static [&'static str],
    pub optional: &'static [&'static str],
    /// The keys of its output, where they are known beforehand.
    pub outputs: &'static [&'static str],
    pub needs: &'static [Need],
}

impl PhaseContract {
    /// Whether the function takes this argument.
    pub fn takes(&self, argument: &str) -> bool {
        self.names().any(|it| it == argument)
    }

    /// Required arguments that are missing, and arguments that the function does not take.
    pub fn mistakes(&self, arguments: &Object) -> Vec<ArgumentMistake> {
        let missing = self.required.iter().filter(|name| !arguments.contains_key(**name));
        let missing = missing.map(|name| ArgumentMistake {
            argument: (*name).to_owned(),
            message: format!("argument `{name}` is required"),
        });
        let unknown = arguments.keys().filter(|name| !self.takes(name));
        let unknown = unknown.map(|name| ArgumentMistake {
            argument: name.clone(),
            message: format!("there is no argument `{name}`: {}", self.known()),
        });
        missing.chain(unknown).collect()
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().chain(self.optional).copied()
    }

    fn known(&self) -> String {
        let names: Vec<_> = self.names().collect();
        if names.is_empty() { "it takes none".to_owned() } else { format!("it takes {}", names.join(", ")) }
    }
}

/// What a function needs from the plane. A phase whose needs are not met fails before the first phase of its action runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Requests to the API server. Every plane can perform those.
    Api,
    /// Commands in containers of pods that run already.
    Exec,
    /// Running pods and their logs; or containers of the plane's own, see [`PodSupport`].
    Pods,
}

impl Need {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Exec => "exec",
            Self::Pods => "pods",
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the plane can run images for phases, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodSupport {
    /// It cannot.
    #[default]
    None,
    /// As containers of its own: [`Request::RunContainers`].
    Containers,
    /// As pods of a cluster: create the pod, watch it, read its log, delete it.
    Cluster,
}

/// A phase that is running, as its function sees it.
#[derive(Debug, Clone, Copy)]
pub struct Phase<'a> {
    /// The name of the phase in its Blueprint.
    pub name: &'a str,
    /// Stable text that is unique to the phase: the uid of the ActionSet, the index of the action and the name of the phase.
    pub identity: &'a str,
    /// The namespace of the ActionSet.
    pub namespace: &'a str,
    /// The arguments: rendered, or as written if the function renders them itself.
    pub arguments: &'a Object,
    /// The object that the action acts on, as it was when the phase began.
    pub target: &'a Object,
    /// The data that templates of the phase can use.
    pub scope: &'a Scope,
    /// The values of Secrets that the action knows. Logs and messages may contain them, and are redacted before they are shortened or
    /// stored in a checkpoint.
    pub secrets: &'a Secrets,
    /// The checkpoint of the last move. Null at first.
    pub checkpoint: &'a Value,
    /// The answers to the requests of the last move, in the same order. Empty if the last move was a wait, or the phase was interrupted.
    pub answers: &'a [Answer],
    /// Milliseconds since 1970. It never goes back within a phase.
    pub now: i64,
    /// How the plane runs images.
    pub pods: PodSupport,
    /// What the ActionSet configures for pods that functions create: `podOverride` (a strategic merge patch of the pod's spec),
    /// `podLabels`, `podAnnotations`.
    pub pod_override: &'a Object,
    pub pod_labels: &'a Object,
    pub pod_annotations: &'a Object,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Move {
    /// Perform all requests in order, and call `advance` again with their answers.
    Perform { checkpoint: Value, requests: Vec<Request> },
    /// Call `advance` again at a time, or when one of these objects changes, whichever is first. Waiting costs nothing.
    Wait {
        checkpoint: Value,
        /// Milliseconds since 1970. None: only a change of a watched object ends the wait.
        wake_at: Option<i64>,
        watch: Vec<Address>,
        /// In percent, for users. None if it is unknown.
        progress: Option<u8>,
    },
    /// The phase is complete. Its output is shown in the status, and templates of later phases can use it; values are usually text.
    Done { output: Object },
    /// The phase failed. Phases are not retried.
    Fail { cause: Cause, message: String },
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    pub kind: ResourceName,
    /// Ignored for cluster-scoped kinds: the plane knows the scope of a kind, functions do not.
    pub namespace: String,
    pub name: String,
}

/// A kind of objects, by one of its two names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceName {
    /// Like `v1` or `apps/v1`.
    pub api_version: String,
    pub by: NamedBy,
}

/// The name of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NamedBy {
    /// `Deployment`.
    Kind(String),
    /// `deployments`.
    Resource(String),
}

impl ResourceName {
    pub fn kind(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), by: NamedBy::Kind(kind.into()) }
    }

    pub fn resource(api_version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), by: NamedBy::Resource(resource.into()) }
    }
}

/// A request that the plane performs for a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Request {
    Get(Address),
    List {
        kind: ResourceName,
        /// Empty for all namespaces, and for objects of cluster-scoped kinds.
        namespace: String,
        /// A label selector as users write it, like `app=shop`. Empty for all.
        labels: String,
    },
    /// Create an object, with the [`PHASE_ANNOTATION`]. Its namespace and name are those of its metadata; the namespace is left out for
    /// cluster-scoped kinds.
    Create {
        object: Object,
        field_manager: String,
    },
    Patch {
        target: Address,
        patch: Patch,
        field_manager: String,
    },
    Delete {
        target: Address,
        /// Delete only the object with this uid, and not another one that has its name by now.
        uid: Option<String>,
    },
    /// Set the number of replicas through the scale subresource.
    Scale {
        target: Address,
        replicas: i64,
    },
    /// Run a command in a container of a pod and wait until it ends. If it prints more than the plane keeps, the answer is a refusal
    /// ([`Refused::is_too_large`]), although it has run.
    Exec {
        namespace: String,
        pod: String,
        /// Empty for the pod's only or default container.
        container: String,
        command: Vec<String>,
        /// Milliseconds that it may take. After that the answer is [`Answer::Refused`] with the reason `Timeout`, and the effect of the
        /// command in the pod is unknown.
        timeout: Option<i64>,
    },
    /// Read the log of a container, from this byte on. A log that is longer than the plane reads is refused ([`Refused::is_too_large`]).
    ReadLog {
        namespace: String,
        pod: String,
        container: String,
        offset: u64,
    },
    /// Run images in containers of the plane's own ([`PodSupport::Containers`]), wait until they end and remove them. They never outlive
    /// the plane.
    RunContainers(ContainerGroup),
    /// Call a function that is not built in.
    CallFunction(FunctionCall),
}

/// Containers that run for a phase, as those of a pod do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerGroup {
    /// A name that no other group has.
    pub name: String,
    /// Run these first, one after the other. If one fails, nothing else runs.
    pub initial: Vec<ContainerRun>,
    /// Run these afterwards, at the same time, until all of them have ended.
    pub containers: Vec<ContainerRun>,
    /// How many bytes the shared directory may have. None: the limit of the plane.
    pub shared_bytes: Option<u64>,
    /// Seconds that each container may take. None: the limit of the plane.
    pub deadline: Option<u64>,
}

/// An image to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRun {
    pub name: String,
    pub image: String,
    /// Replaces the entrypoint of the image. Empty: that of the image.
    pub command: Vec<String>,
    pub arguments: Vec<String>,
    /// Variables beside those of the image.
    #[serde(serialize_with = "serialize_variables")]
    pub environment: Vec<(String, String)>,
    /// Where the container mounts the shared directory.
    pub shared_at: Option<String>,
    /// Bytes.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub cpu: Option<u64>,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerEnding {
    pub name: String,
    pub exit_code: i32,
    pub stdout: String,
    /// Only the end of it, if it is long.
    pub stderr: String,
}

/// As pods have them. Recordings know by the name beside a value that it is a secret.
fn serialize_variables<S: Serializer>(
    variables: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Variable<'a> {
        name: &'a str,
        value: &'a str,
    }
    serializer.collect_seq(variables.iter().map(|(name, value)| Variable { name, value }))
}

impl Request {
    /// Whether it only reads. Such requests need no durable checkpoint, and are performed again after a crash without harm.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Get(_) | Self::List { .. } | Self::ReadLog { .. })
    }
}

/// A change of an object, in one of the forms that API servers know.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Patch {
    Strategic(Value),
    Merge(Value),
    Json(Value),
    /// Server-side apply.
    Apply {
        object: Object,
        is_forced: bool,
    },
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Answer {
    /// The object as it is now: read, created, patched, scaled, or marked as deleted and held by finalizers.
    Object {
        object: Object,
        /// The plural name of its kind.
        resource: String,
    },
    List(Vec<Object>),
    /// There is no such object, or it was deleted at once.
    Absent,
    /// The API server, or a grant that is missing, refused the request.
    Refused(Refused),
    /// A command ended.
    Ended {
        exit_code: i32,
        /// All lines with the [`OUTPUT_MARKER`], from the marker on, and the end of the output if it is long.
        stdout: String,
        /// Only the end of it, if it is long.
        stderr: String,
    },
    /// Containers ended. The initial ones come first; the others are missing if an initial one failed.
    ContainersEnded(Vec<ContainerEnding>),
    /// A function answered.
    Returned(FunctionReturn),
    /// A part of the log of a container.
    Log {
        /// Whole lines. Only at the end of the log, the last one may not be complete.
        text: String,
        /// The offset after the last complete line: where to continue reading. It counts bytes of the log, and not of the text, in which
        /// other bytes replace invalid UTF-8.
        next_offset: u64,
        /// Whether this is the end of the log for now.
        is_end: bool,
    },
}

/// A request that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// The HTTP status.
    pub code: u16,
    /// As the API server has it, like `AlreadyExists`, `Conflict` or `Invalid`.
    pub reason: String,
    /// What was requested, and why it was refused.
    pub message: String,
    /// The code, for programs.
    pub cause: Cause,
}

impl Refused {
    /// The reason of a refusal because the result is larger than the plane reads.
    pub const TOO_LARGE: &'static str = "TooLarge";

    /// The reason of a refusal because a function cannot be called now.
    pub const UNAVAILABLE: &'static str = "Unavailable";

    pub fn is_unavailable(&self) -> bool {
        self.reason == Self::UNAVAILABLE
    }

    pub fn is_too_large(&self) -> bool {
        self.reason == Self::TOO_LARGE
    }

    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    pub fn already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }
}
