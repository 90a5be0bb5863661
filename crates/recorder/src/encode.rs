//! From a recording to a recording: takes out secrets, and leaves out every object that the segment has already.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_engine::{
    Answer, CompositeSubject, EngineInput, Grants, Layout, Pipeline, Subject, TranscriptEntry,
};
use ferroplane_wire::v1::{CredentialData, Resource, Resources, RunFunctionResponse, Schema};
use ferroplane_wire::{State, Struct};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::builder::{Noted, Taken};
use crate::format::{
    AnswerMessage, Blob, Body, Digest, Head, NoteMessage, PhaseCallMessage, RequirementMessage, RunMessage,
    SaidKind, reference_to,
};
use crate::phase_calls::{ActionJson, CallJson};
use crate::redact::{Redactor, Secrets};
use crate::sensitive_fields::SensitiveFields;

/// How many pipelines are kept ready.
const PIPELINES: usize = 64;

/// What a segment has already.
#[derive(Debug, Default)]
pub(crate) struct Known {
    blobs: HashSet<Digest>,
    /// Pipelines that were recorded: most recordings are of the same few.
    pipelines: Vec<(Arc<Pipeline>, Written)>,
}

/// A pipeline that was recorded.
#[derive(Debug, Clone)]
struct Written {
    text: Bytes,
    digest: Digest,
}

impl Known {
    /// These are there now. Returns those that were not before.
    pub(crate) fn add(&mut self, blobs: &[Blob]) -> Vec<Digest> {
        let digests = blobs.iter().filter_map(|blob| Digest::try_from(&blob.digest[..]).ok());
        digests.filter(|digest| self.blobs.insert(*digest)).collect()
    }

    /// These are not there after all.
    pub(crate) fn remove(&mut self, digests: &[Digest]) {
        for digest in digests {
            self.blobs.remove(digest);
        }
    }

    fn written(&mut self, pipeline: &Arc<Pipeline>) -> Written {
        if let Some((_, written)) = self.pipelines.iter().find(|(known, _)| Arc::ptr_eq(known, pipeline)) {
            return written.clone();
        }
        if self.pipelines.len() == PIPELINES {
            // Dropping all is fine: pipelines are few, and writing one down again costs little.
            self.pipelines.clear();
        }
        let written = json!({"steps": pipeline.written_steps(), "callees": pipeline.written_callees()});
        let text = Bytes::from(written.to_string());
        let written = Written { digest: digest_of(&text), text };
        self.pipelines.push((pipeline.clone(), written.clone()));
        written
    }
}

/// What is kept of a reconcile. None if it has more secrets than can be looked for.
pub(crate) fn encode(mut noted: Noted, redactor: &Redactor, known: &mut Known) -> Option<(Head, Body)> {
    let action = std::mem::take(&mut noted.action).into_json();
    let pipelines: Vec<_> = noted.takes.iter().map(|take| known.written(&take.inputs.pipeline)).collect();
    // All of it is searched before anything is written: a value that turns out to be a secret in the last
    // answer may stand in the first object.
    let secrets = survey(&noted, &action, &pipelines, redactor, &known.blobs);
    let sensitive = own_fields(redactor, &noted.head);
    if secrets.are_too_many {
        return None;
    }
    let Noted { mut head, takes, settlement, is_written, .. } = noted;
    head.is_redacted = secrets.are_there();
    head.trouble = secrets.text(&head.trouble).into_owned();
    head.calls = takes.iter().map(calls).sum::<u32>() + u32::try_from(action.calls.len()).unwrap_or_default();
    let settlement = secrets.json(&settlement).into();
    let mut encoder =
        Encoder { secrets, sensitive, known: &known.blobs, added: HashSet::new(), blobs: Vec::new() };
    let mut takes: Vec<_> =
        takes.into_iter().zip(pipelines).map(|(take, pipeline)| encoder.take(take, &pipeline)).collect();
    takes.extend(action.calls.into_iter().map(|call| encoder.phase_call(call)));
    let action_set = action.before.map(|before| encoder.json(before).0).unwrap_or_default();
    Some((head, Body { blobs: encoder.blobs, takes, settlement, is_written, action_set }))
}

fn calls(take: &Taken) -> u32 {
    let is_call = |note: &&TranscriptEntry| !matches!(note.input, EngineInput::Provided(_));
    u32::try_from(take.notes.iter().filter(is_call).count()).unwrap_or(u32::MAX)
}

/// The secret fields of the composite resource that was reconciled.
fn own_fields<'r>(redactor: &'r Redactor, head: &Head) -> Option<&'r SensitiveFields> {
    redactor.sensitive_fields(&head.api_version, &head.kind)
}

/// Learn what is secret in all of it. What was kept before has been checked.
fn survey<'r>(
    noted: &Noted,
    action: &ActionJson,
    pipelines: &[Written],
    redactor: &'r Redactor,
    known: &HashSet<Digest>,
) -> Secrets<'r> {
    let mut secrets = Secrets::new(redactor);
    for (take, pipeline) in noted.takes.iter().zip(pipelines) {
        if !known.contains(&pipeline.digest) && redactor.is_suspicious(&pipeline.text) {
            secrets.learn_value(&serde_json::from_slice(&pipeline.text).unwrap_or_default());
        }
        each_object(take, &mut |object| {
            // What the segment has already was searched when it was kept, and would make every reconcile
            // search everything.
            if !known.contains(&digest(object)) {
                secrets.learn(object);
            }
        });
        each_details(take, &mut |details| secrets.learn_details(details));
        // Others are known by their kinds, which functions may leave out here.
        if let Some(fields) = own_fields(redactor, &noted.head) {
            each_wanted_composite(take, &mut |composite| secrets.learn_sensitive(composite, fields));
        }
    }
    if !action.is_empty() {
        action.learn(&noted.settlement, &mut secrets);
    }
    if secrets.are_there() {
        for object in action.objects() {
            names_of(object).for_each(|name| secrets.learn_name(name));
        }
        for take in &noted.takes {
            let subject = &take.inputs.subject;
            let observed = subject.observed().values().map(|observed| &observed.object);
            for object in observed.chain([subject.object()]).filter_map(|object| object.json().ok()) {
                // A password that equals part of a name would otherwise garble names, by which recordings are
                // found.
                names_of(object).for_each(|name| secrets.learn_name(name));
            }
        }
        secrets.close();
    }
    secrets
}

fn names_of(object: &Object) -> impl Iterator<Item = &str> {
    [meta::api_version(object), meta::kind(object), meta::namespace(object), meta::name(object)].into_iter()
}

fn each_object(take: &Taken, look: &mut dyn FnMut(&Struct)) {
    look(take.inputs.subject.object());
    take.inputs.subject.observed().values().for_each(|observed| look(&observed.object));
    take.inputs.context.iter().for_each(&mut *look);
    for note in &take.notes {
        match &note.input {
            EngineInput::Provided(answers) => {
                for answer in answers {
                    match answer {
                        Answer::Resources(objects) => objects.iter().for_each(&mut *look),
                        Answer::Schema(schema) => schema.iter().for_each(&mut *look),
                        _ => {}
                    }
                }
            }
            EngineInput::Answered(response) | EngineInput::Recalled(response) => {
                let resources = resources_of(response).filter_map(|resource| resource.resource.as_ref());
                resources.chain(&response.context).chain(&response.output).for_each(&mut *look);
            }
            EngineInput::Failed { .. } => {}
        }
    }
}

/// The composite resource as functions want it.
fn each_wanted_composite(take: &Taken, look: &mut dyn FnMut(&Struct)) {
    for note in &take.notes {
        if let EngineInput::Answered(response) | EngineInput::Recalled(response) = &note.input {
            let desired = response.desired.iter().filter_map(|desired| desired.composite());
            desired.filter_map(|composite| composite.resource.as_ref()).for_each(&mut *look);
        }
    }
}

fn each_details(take: &Taken, look: &mut dyn FnMut(&BTreeMap<String, Bytes>)) {
    take.inputs.subject.composite().iter().for_each(|composite| look(&composite.connection_details));
    take.inputs.subject.observed().values().for_each(|observed| look(&observed.connection_details));
    for note in &take.notes {
        match &note.input {
            EngineInput::Provided(answers) => {
                for answer in answers {
                    if let Answer::Secret(Some(data)) = answer {
                        look(data);
                    }
                }
            }
            EngineInput::Answered(response) | EngineInput::Recalled(response) => {
                resources_of(response).for_each(|resource| look(&resource.connection_details));
            }
            EngineInput::Failed { .. } => {}
        }
    }
}

fn resources_of(response: &RunFunctionResponse) -> impl Iterator<Item = &Resource> {
    response
        .desired
        .iter()
        .flat_map(|desired| desired.composite().into_iter().chain(desired.resources().values()))
}

fn digest(object: &Struct) -> Digest {
    std::array::from_fn(|place| object.digest()[place])
}

fn digest_of(bytes: &[u8]) -> Digest {
    let digest = Sha256::digest(bytes);
    std::array::from_fn(|place| digest[place])
}

fn written_grants(grants: &Grants) -> Bytes {
    if grants.is_empty() { Bytes::new() } else { grants.to_json().to_string().into() }
}

/// A recording in the making.
struct Encoder<'a> {
    secrets: Secrets<'a>,
    /// The secret fields of the composite resource.
    sensitive: Option<&'a SensitiveFields>,
    known: &'a HashSet<Digest>,
    added: HashSet<Digest>,
    blobs: Vec<Blob>,
}

impl Encoder<'_> {
    fn take(&mut self, take: Taken, pipeline: &Written) -> RunMessage {
        let Taken { inputs, notes, outcome, unsynced, written, is_trial } = take;
        let is_operation = matches!(inputs.subject, Subject::Operation { .. });
        let subject = match inputs.subject {
            Subject::Composite(composite) => composite,
            Subject::Operation { object } => CompositeSubject::new(object, Layout::Modern),
        };
        let composite = Resource {
            resource: Some(subject.object),
            connection_details: subject.connection_details,
            ..Resource::default()
        };
        let observed = subject.observed.into_iter().map(|(name, observed)| {
            let (resource, connection_details) = (Some(observed.object), observed.connection_details);
            (name, Resource { resource, connection_details, ..Resource::default() })
        });
        let observed = State::new(Some(composite), observed.collect());
        let remembered = inputs.remembered.into_iter().map(|requirement| RequirementMessage {
            step: requirement.step,
            name: requirement.name,
            selector: Some(requirement.selector),
        });
        RunMessage {
            observed: Some(self.state(&observed)),
            is_legacy: subject.layout == Layout::Legacy,
            is_operation,
            pipeline: self.pipeline(pipeline),
            remembered: remembered.collect(),
            context: inputs.context.as_ref().map(|context| self.object(context)),
            notes: notes.into_iter().map(|note| self.note(note)).collect(),
            outcome: self.outcome(outcome).into(),
            unsynced,
            written,
            grants: written_grants(&inputs.grants),
            is_trial,
            phase_call: None,
        }
    }

    fn outcome(&self, outcome: Vec<u8>) -> Vec<u8> {
        if self.secrets.are_there() { self.secrets.outcome(&outcome, self.sensitive) } else { outcome }
    }

    fn phase_call(&mut self, call: CallJson) -> RunMessage {
        let CallJson { action, phase, function, version, mut input, data, mut decided, hides_secrets } = call;
        let (data, mut is_redacted) = self.json(data);
        is_redacted |= hides_secrets | self.secrets.value(&mut input) | self.secrets.value(&mut decided);
        let (input, decided) = (input.to_string().into(), decided.to_string().into());
        let call = PhaseCallMessage { action, phase, function, version, input, data, decided, is_redacted };
        RunMessage { phase_call: Some(call), ..RunMessage::default() }
    }

    /// What stands for something that is kept as JSON, and whether it had secrets.
    fn json(&mut self, mut value: Value) -> (Bytes, bool) {
        let is_redacted = self.secrets.value(&mut value);
        let text = Bytes::from(value.to_string());
        let digest = digest_of(&text);
        self.put(digest, || text);
        (Bytes::copy_from_slice(&digest), is_redacted)
    }

    fn pipeline(&mut self, written: &Written) -> Bytes {
        let Written { mut text, mut digest } = written.clone();
        if self.secrets.are_there() {
            let mut value: Value = serde_json::from_slice(&text).unwrap_or_default();
            if self.secrets.value(&mut value) {
                text = value.to_string().into();
                // The text changed, and its digest with it; what `known` has is the original's.
                digest = digest_of(&text);
            }
        }
        self.put(digest, || text);
        Bytes::copy_from_slice(&digest)
    }

    fn note(&mut self, note: TranscriptEntry) -> NoteMessage {
        let TranscriptEntry { tag, input } = note;
        // The digest of a request would confirm a guessed secret.
        let tag = if self.secrets.are_there() { String::new() } else { tag };
        let code = match &input {
            EngineInput::Failed { cause, .. } => cause.code().to_owned(),
            _ => String::new(),
        };
        let (kind, answers, response, failure) = match input {
            EngineInput::Provided(answers) => {
                let answers = answers.into_iter().map(|answer| self.answer(answer)).collect();
                (SaidKind::Provided, answers, None, String::new())
            }
            EngineInput::Answered(response) => {
                (SaidKind::Answered, Vec::new(), Some(self.response(response)), String::new())
            }
            EngineInput::Recalled(response) => {
                (SaidKind::Recalled, Vec::new(), Some(self.response(response)), String::new())
            }
            EngineInput::Failed { reason, .. } => {
                (SaidKind::Failed, Vec::new(), None, self.secrets.text(&reason).into_owned())
            }
        };
        NoteMessage { tag, kind: kind.into(), answers, response, failure, code }
    }

    fn answer(&mut self, answer: Answer) -> AnswerMessage {
        let mut message = AnswerMessage::default();
        match answer {
            Answer::Resources(objects) => {
                let item = |object| Resource { resource: Some(self.object(&object)), ..Resource::default() };
                message.resources = Some(Resources { items: objects.into_iter().map(item).collect() });
            }
            Answer::Schema(schema) => {
                message.schema = Some(Schema { openapi_v3: schema.map(|schema| self.object(&schema)) });
            }
            Answer::Secret(data) => {
                message.is_secret = true;
                message.secret = data.map(|data| CredentialData { data: self.secrets.details(&data) });
            }
            Answer::Scope { is_namespaced } => message.is_namespaced = Some(is_namespaced),
            Answer::Failed(reason) => message.failure = Some(self.secrets.text(&reason).into_owned()),
        }
        message
    }

    fn response(&mut self, mut response: RunFunctionResponse) -> RunFunctionResponse {
        response.desired = response.desired.map(|desired| self.state(&desired));
        response.context = response.context.map(|context| self.object(&context));
        response.output = response.output.map(|output| self.object(&output));
        if !self.secrets.are_there() {
            return response;
        }
        for result in &mut response.results {
            result.message = self.secrets.text(&result.message).into_owned();
        }
        for condition in &mut response.conditions {
            condition.message =
                condition.message.take().map(|message| self.secrets.text(&message).into_owned());
        }
        if let Some(meta) = &mut response.meta {
            // For the same reason as the tag of a note.
            meta.tag.clear();
        }
        response
    }

    fn state(&mut self, state: &State) -> State {
        let composite = state.composite().map(|composite| Resource {
            resource: composite.resource.as_ref().map(|object| self.composite(object)),
            connection_details: self.secrets.details(&composite.connection_details),
            ready: composite.ready,
        });
        let resources = state.resources().iter();
        let resources = resources.map(|(name, resource)| (name.clone(), self.resource(resource))).collect();
        State::new(composite, resources)
    }

    fn resource(&mut self, resource: &Resource) -> Resource {
        Resource {
            resource: resource.resource.as_ref().map(|object| self.object(object)),
            connection_details: self.secrets.details(&resource.connection_details),
            ready: resource.ready,
        }
    }

    /// What stands for the composite resource.
    fn composite(&mut self, object: &Struct) -> Struct {
        let Some(fields) = self.sensitive.filter(|_| self.secrets.are_there()) else {
            return self.object(object);
        };
        self.keep(self.secrets.composite(object, fields).as_ref().unwrap_or(object))
    }

    /// What stands for an object.
    fn object(&mut self, object: &Struct) -> Struct {
        let redacted = if self.secrets.are_there() { self.secrets.object(object) } else { None };
        self.keep(redacted.as_ref().unwrap_or(object))
    }

    fn keep(&mut self, object: &Struct) -> Struct {
        let digest = digest(object);
        self.put(digest, || object.wire().clone());
        reference_to(&digest)
    }

    fn put(&mut self, digest: Digest, content: impl FnOnce() -> Bytes) {
        if !self.known.contains(&digest) && self.added.insert(digest) {
            self.blobs.push(Blob { digest: Bytes::copy_from_slice(&digest), content: content() });
        }
    }
}
