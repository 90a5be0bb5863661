//! The format of a recording: protobuf, in which every object is referred to by its digest.

use bytes::Bytes;
use ferroplane_api::{keys, meta};
use ferroplane_wire::v1::{CredentialData, ResourceSelector, Resources, RunFunctionResponse, Schema};
use ferroplane_wire::{State, Struct};

/// What a list of recordings shows of one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Head {
    /// Later recordings have higher numbers.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// When the reconcile began, in milliseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub began_at: u64,
    #[prost(uint64, tag = "3")]
    pub micros: u64,
    #[prost(string, tag = "4")]
    pub api_version: String,
    #[prost(string, tag = "5")]
    pub kind: String,
    #[prost(string, tag = "6")]
    pub namespace: String,
    #[prost(string, tag = "7")]
    pub name: String,
    #[prost(string, tag = "8")]
    pub uid: String,
    #[prost(int64, tag = "9")]
    pub generation: i64,
    /// The Composition that was followed, and the revision of it.
    #[prost(string, tag = "10")]
    pub composition: String,
    #[prost(string, tag = "11")]
    pub revision: String,
    #[prost(enumeration = "Ending", tag = "12")]
    pub ending: i32,
    /// What the trouble was, if there was any.
    #[prost(string, tag = "13")]
    pub trouble: String,
    /// Whether something in it was a secret.
    #[prost(bool, tag = "14")]
    pub is_redacted: bool,
    /// How many calls of functions were answered, or made for phases.
    #[prost(uint32, tag = "15")]
    pub calls: u32,
    /// The release that recorded it.
    #[prost(string, tag = "16")]
    pub release: String,
    /// The step that is to blame for the trouble, if one is.
    #[prost(string, tag = "17")]
    pub step: String,
    #[prost(string, tag = "18")]
    pub resource_version: String,
    /// Whether the status said that all is ready.
    #[prost(bool, tag = "19")]
    pub is_ready: bool,
}

impl Head {
    /// Whether it is about an operation, and not about a composite resource.
    pub fn is_operation(&self) -> bool {
        meta::group(&self.api_version) == keys::OPS && self.kind == "Operation"
    }

    /// Whether it is about an ActionSet.
    pub fn is_action_set(&self) -> bool {
        meta::group(&self.api_version) == keys::KANISTER && self.kind == "ActionSet"
    }
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Ending {
    /// It did not come to its end.
    Unknown = 0,
    /// All was done that had to be.
    Succeeded = 1,
    /// Something stood in the way.
    Failed = 2,
    /// A write conflict; it was tried again.
    Conflict = 3,
    /// The composite resource, or what it needs, was not there (any more).
    Gone = 4,
}

/// What recordings that were written together are.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Heads {
    #[prost(message, repeated, tag = "1")]
    pub(crate) heads: Vec<Head>,
}

/// The rest of them, in the same order.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Bodies {
    #[prost(message, repeated, tag = "1")]
    pub(crate) bodies: Vec<Body>,
}

/// Everything that is not in the head.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Body {
    /// What this recording refers to and no earlier one in the same segment brought along.
    #[prost(message, repeated, tag = "1")]
    pub(crate) blobs: Vec<Blob>,
    /// The runs of the pipeline.
    #[prost(message, repeated, tag = "2")]
    pub(crate) takes: Vec<RunMessage>,
    /// What was said of it in the end: conditions and events, as JSON.
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) settlement: Bytes,
    /// Whether the status was written.
    #[prost(bool, tag = "4")]
    pub(crate) is_written: bool,
    /// The digest of the ActionSet, as JSON, before its status was written. Empty if it is about another kind.
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) action_set: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Blob {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) digest: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) content: Bytes,
}

/// One run of a pipeline.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RunMessage {
    /// The composite resource and what it is composed of.
    #[prost(message, optional, tag = "1")]
    pub(crate) observed: Option<State>,
    #[prost(bool, tag = "2")]
    pub(crate) is_legacy: bool,
    /// The digest of the pipeline.
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) pipeline: Bytes,
    #[prost(message, repeated, tag = "4")]
    pub(crate) remembered: Vec<RequirementMessage>,
    #[prost(message, optional, tag = "5")]
    pub(crate) context: Option<Struct>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) notes: Vec<NoteMessage>,
    /// Its result, as JSON. Empty if it was aborted.
    #[prost(bytes = "bytes", tag = "7")]
    pub(crate) outcome: Bytes,
    #[prost(string, repeated, tag = "8")]
    pub(crate) unsynced: Vec<String>,
    /// How many composed resources were written.
    #[prost(uint32, tag = "9")]
    pub(crate) written: u32,
    /// What its steps were allowed to read besides, as JSON. Empty if nothing was.
    #[prost(bytes = "bytes", tag = "10")]
    pub(crate) grants: Bytes,
    /// Whether what is called the composite resource is an operation.
    #[prost(bool, tag = "11")]
    pub(crate) is_operation: bool,
    /// Whether nothing of it was done, because it was only tried.
    #[prost(bool, tag = "12")]
    pub(crate) is_trial: bool,
    /// In place of everything else: it is no pipeline that ran, but a phase. A program that does not know it misses what is
    /// observed, and so refuses the recording.
    #[prost(message, optional, tag = "13")]
    pub(crate) phase_call: Option<PhaseCallMessage>,
}

/// A call of the function of a phase.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PhaseCallMessage {
    #[prost(uint32, tag = "1")]
    pub(crate) action: u32,
    #[prost(string, tag = "2")]
    pub(crate) phase: String,
    #[prost(string, tag = "3")]
    pub(crate) function: String,
    #[prost(string, tag = "4")]
    pub(crate) version: String,
    /// What it was given, as JSON, without what templates saw.
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) input: Bytes,
    /// The digest of what templates saw, as JSON.
    #[prost(bytes = "bytes", tag = "6")]
    pub(crate) data: Bytes,
    /// What it decided, as JSON.
    #[prost(bytes = "bytes", tag = "7")]
    pub(crate) decided: Bytes,
    #[prost(bool, tag = "8")]
    pub(crate) is_redacted: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RequirementMessage {
    #[prost(string, tag = "1")]
    pub(crate) step: String,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) selector: Option<ResourceSelector>,
}

/// Something that was said to the engine.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NoteMessage {
    #[prost(string, tag = "1")]
    pub(crate) tag: String,
    #[prost(enumeration = "SaidKind", tag = "2")]
    pub(crate) kind: i32,
    #[prost(message, repeated, tag = "3")]
    pub(crate) answers: Vec<AnswerMessage>,
    #[prost(message, optional, tag = "4")]
    pub(crate) response: Option<RunFunctionResponse>,
    #[prost(string, tag = "5")]
    pub(crate) failure: String,
    /// The code of what failed.
    #[prost(string, tag = "6")]
    pub(crate) code: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum SaidKind {
    Provided = 0,
    Answered = 1,
    Recalled = 2,
    Failed = 3,
}

/// Something that was read.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AnswerMessage {
    #[prost(message, optional, tag = "1")]
    pub(crate) resources: Option<Resources>,
    #[prost(message, optional, tag = "2")]
    pub(crate) schema: Option<Schema>,
    /// Whether a Secret was read; without data there was none.
    #[prost(bool, tag = "3")]
    pub(crate) is_secret: bool,
    #[prost(message, optional, tag = "4")]
    pub(crate) secret: Option<CredentialData>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) is_namespaced: Option<bool>,
    #[prost(string, optional, tag = "6")]
    pub(crate) failure: Option<String>,
}

/// What identifies content in a segment.
// Half of a SHA-256: within one segment that is far more than enough, and references stay short.
pub(crate) type Digest = [u8; 16];

/// Begins what stands for an object: in its place, an object whose only entry is this digest.
// Field 1, length-delimited, 16 bytes. As a `Struct` it is not valid, so that no object can be mistaken for a
// reference.
const REFERENCE: [u8; 2] = [0x0a, 16];

pub(crate) fn reference_to(digest: &Digest) -> Struct {
    Struct::from(Bytes::from([&REFERENCE[..], digest].concat()))
}

pub(crate) fn referred_to(reference: &Struct) -> Option<Digest> {
    reference.wire().strip_prefix(&REFERENCE)?.try_into().ok()
}
