//! Decodes a recording: puts every object back into its place.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use ferroplane_api::Cause;
use ferroplane_engine::{
    Answer, CompositeSubject, EngineInput, Grants, Inputs, Layout, Observed, Pipeline, Requirement, Subject,
    TranscriptEntry,
};
use ferroplane_wire::v1::{Resource, RunFunctionResponse};
use ferroplane_wire::{State, Struct};
use serde_json::Value;

use crate::format::{
    AnswerMessage, Body, Digest, NoteMessage, PhaseCallMessage, RunMessage, SaidKind, referred_to,
};
use crate::phase_calls::RecordedCall;
use crate::recording::{Damaged, RecordedRun};

pub(crate) struct Decoder<'a>(pub(crate) &'a HashMap<Digest, Bytes>);

impl Decoder<'_> {
    pub(crate) fn take(&self, message: RunMessage) -> Result<RecordedRun, Damaged> {
        // Every run observes something. What has nothing here is something that a later release records in
        // its place.
        let (composite, observed) = self.state(message.observed.ok_or(Damaged::Later)?)?.into_parts();
        let composite = composite.ok_or(Damaged::Garbled)?;
        let observed = observed.into_iter().map(|(name, resource)| {
            let object = resource.resource.ok_or(Damaged::Garbled)?;
            Ok((name, Observed { object, connection_details: resource.connection_details }))
        });
        let remembered = message.remembered.into_iter().map(|requirement| Requirement {
            step: requirement.step,
            name: requirement.name,
            selector: requirement.selector.unwrap_or_default(),
        });
        let object = composite.resource.ok_or(Damaged::Garbled)?;
        let subject = if message.is_operation {
            Subject::Operation { object }
        } else {
            Subject::Composite(CompositeSubject {
                object,
                layout: if message.is_legacy { Layout::Legacy } else { Layout::Modern },
                connection_details: composite.connection_details,
                observed: observed.collect::<Result<_, Damaged>>()?,
            })
        };
        let inputs = Inputs {
            subject,
            pipeline: Arc::new(self.pipeline(&message.pipeline)?),
            remembered: remembered.collect(),
            context: message.context.map(|context| self.object(&context)).transpose()?,
            grants: Arc::new(read_grants(&message.grants)?),
        };
        let notes = message.notes.into_iter().map(|note| self.note(note)).collect::<Result<_, Damaged>>()?;
        let RunMessage { outcome, unsynced, written, is_trial, .. } = message;
        Ok(RecordedRun { inputs, notes, outcome: outcome.to_vec(), unsynced, written, is_trial })
    }

    pub(crate) fn phase_call(&self, message: PhaseCallMessage) -> Result<RecordedCall, Damaged> {
        let PhaseCallMessage { action, phase, function, version, input, data, decided, is_redacted } =
            message;
        let read = |text: &[u8]| serde_json::from_slice::<Value>(text).map_err(|_| Damaged::Garbled);
        let (mut input, decided) = (read(&input)?, read(&decided)?);
        if let Value::Object(input) = &mut input {
            // Kept apart because many calls share it; the function wants it where it was.
            input.insert("data".to_owned(), self.json(&data)?);
        }
        Ok(RecordedCall { action, phase, function, version, input, decided, is_redacted })
    }

    /// What was kept as JSON. Null if nothing was.
    pub(crate) fn json(&self, digest: &[u8]) -> Result<Value, Damaged> {
        if digest.is_empty() {
            return Ok(Value::Null);
        }
        let digest = Digest::try_from(digest).map_err(|_| Damaged::Garbled)?;
        let text = self.0.get(&digest).ok_or(Damaged::Incomplete)?;
        serde_json::from_slice(text).map_err(|_| Damaged::Garbled)
    }

    fn pipeline(&self, digest: &[u8]) -> Result<Pipeline, Damaged> {
        let digest = Digest::try_from(digest).map_err(|_| Damaged::Garbled)?;
        let written = self.0.get(&digest).ok_or(Damaged::Incomplete)?;
        let written: Value = serde_json::from_slice(written).map_err(|_| Damaged::Garbled)?;
        Ok(Pipeline::read(&written["steps"], &written["callees"])?)
    }

    fn note(&self, note: NoteMessage) -> Result<TranscriptEntry, Damaged> {
        let kind = note.kind();
        let NoteMessage { tag, answers, response, failure, code, .. } = note;
        let input = match kind {
            SaidKind::Provided => {
                let answers = answers.into_iter().map(|answer| self.answer(answer));
                EngineInput::Provided(answers.collect::<Result<_, Damaged>>()?)
            }
            SaidKind::Answered => EngineInput::Answered(self.response(response.unwrap_or_default())?),
            SaidKind::Recalled => EngineInput::Recalled(self.response(response.unwrap_or_default())?),
            SaidKind::Failed => {
                // Older releases recorded no code, and a later one may have recorded one that is new.
                let cause = code.parse().unwrap_or(Cause::FunctionCallFailed);
                EngineInput::Failed { cause, reason: failure }
            }
        };
        Ok(TranscriptEntry { tag, input })
    }

    fn answer(&self, message: AnswerMessage) -> Result<Answer, Damaged> {
        if let Some(resources) = message.resources {
            let objects = resources.items.into_iter().map(|item| {
                let object = item.resource.ok_or(Damaged::Garbled)?;
                self.object(&object)
            });
            return Ok(Answer::Resources(objects.collect::<Result<_, Damaged>>()?));
        }
        if let Some(schema) = message.schema {
            let schema = schema.openapi_v3.map(|schema| self.object(&schema)).transpose()?;
            return Ok(Answer::Schema(schema));
        }
        if message.is_secret {
            return Ok(Answer::Secret(message.secret.map(|secret| secret.data)));
        }
        if let Some(is_namespaced) = message.is_namespaced {
            return Ok(Answer::Scope { is_namespaced });
        }
        message.failure.map(Answer::Failed).ok_or(Damaged::Garbled)
    }

    fn response(&self, mut response: RunFunctionResponse) -> Result<RunFunctionResponse, Damaged> {
        response.desired = response.desired.map(|desired| self.state(desired)).transpose()?;
        response.context = response.context.map(|context| self.object(&context)).transpose()?;
        response.output = response.output.map(|output| self.object(&output)).transpose()?;
        Ok(response)
    }

    fn state(&self, state: State) -> Result<State, Damaged> {
        let (composite, resources) = state.into_parts();
        let composite = composite.map(|composite| self.resource(composite)).transpose()?;
        let resources = resources.into_iter().map(|(name, resource)| Ok((name, self.resource(resource)?)));
        Ok(State::new(composite, resources.collect::<Result<BTreeMap<_, _>, Damaged>>()?))
    }

    fn resource(&self, resource: Resource) -> Result<Resource, Damaged> {
        let object = resource.resource.as_ref().map(|object| self.object(object)).transpose()?;
        Ok(Resource { resource: object, ..resource })
    }

    fn object(&self, reference: &Struct) -> Result<Struct, Damaged> {
        let digest = referred_to(reference).ok_or(Damaged::Garbled)?;
        // Not decoded any further here: most objects of a recording are never looked into.
        self.0.get(&digest).cloned().map(Struct::from).ok_or(Damaged::Incomplete)
    }
}

fn read_grants(written: &[u8]) -> Result<Grants, Damaged> {
    if written.is_empty() {
        return Ok(Grants::default());
    }
    let written = serde_json::from_slice(written).map_err(|_| Damaged::Garbled)?;
    Grants::from_json(written).map_err(|_| Damaged::Garbled)
}

/// Everything that a recording refers to.
pub(crate) fn needed(body: &Body) -> HashSet<Digest> {
    let mut needed = HashSet::new();
    let mut need = |object: Option<&Struct>| needed.extend(object.and_then(referred_to));
    for take in &body.takes {
        states(take.observed.as_ref(), &mut need);
        need(take.context.as_ref());
        for note in &take.notes {
            for answer in &note.answers {
                let items = answer.resources.iter().flat_map(|resources| &resources.items);
                items.for_each(|item| need(item.resource.as_ref()));
                need(answer.schema.as_ref().and_then(|schema| schema.openapi_v3.as_ref()));
            }
            if let Some(response) = &note.response {
                states(response.desired.as_ref(), &mut need);
                need(response.context.as_ref());
                need(response.output.as_ref());
            }
        }
    }
    let data = body.takes.iter().filter_map(|take| take.phase_call.as_ref()).map(|call| &call.data);
    let digests = body.takes.iter().map(|take| &take.pipeline).chain(data).chain([&body.action_set]);
    needed.extend(digests.filter_map(|digest| Digest::try_from(&digest[..]).ok()));
    needed
}

fn states(state: Option<&State>, need: &mut impl FnMut(Option<&Struct>)) {
    let Some(state) = state else { return };
    let resources = state.composite().into_iter().chain(state.resources().values());
    resources.for_each(|resource| need(resource.resource.as_ref()));
}
