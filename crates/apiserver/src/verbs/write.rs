//! Creates and changes objects: read, decide, store what was decided if nothing has changed since, or read again.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use ferroplane_schema::meta::{GENERATED_CHARACTERS, GENERATED_LENGTH};
use ferroplane_schema::status::Status;
use ferroplane_schema::writes::{self, Circumstances, Endpoint, Part, Proposal, Write, Written};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::beside_others::{UNBOUNDED, beside_others};
use super::conversions::PendingConversions;
use super::scale;
use super::subject::Subject;
use super::view::View;
use crate::admission::Admission;
use crate::builtin::service_allocator::Reservation;
use crate::clock;
use crate::options::WriteOptions;
use crate::registry::Origin;
use crate::store::{Change, Draft, DraftError, Entry, Expect, Key, Operation, Refused, Store, SubmitError};

/// How often a write that others keep overtaking is tried. There is an end to it, so that a livelock becomes an answer.
const ATTEMPTS: usize = 100;
/// The largest object that is stored: what etcd takes of kube-apiserver, so that what is stored here can be stored there.
pub(crate) const MAX_OBJECT: usize = 1536 * 1024;

/// Which object is written, and which part of it.
#[derive(Debug, Clone)]
pub(crate) struct ObjectLocation {
    pub(crate) view: View,
    pub(crate) part: Part,
    pub(crate) namespace: String,
    /// Empty for an object that is created.
    pub(crate) name: String,
}

/// How a write ended.
#[derive(Debug)]
pub(crate) struct WriteOutcome {
    /// The object as it is stored, or would be.
    pub(crate) bytes: Bytes,
    /// Whether the bytes are in the version of the request already.
    pub(crate) is_presented: bool,
    pub(crate) is_created: bool,
    pub(crate) subject: Subject,
    pub(crate) warnings: Vec<String>,
}

impl ObjectLocation {
    pub(super) fn endpoint(&self) -> Endpoint<'_> {
        Endpoint {
            behaviour: &*self.view.version().behaviour,
            resource: &self.view.resource.identity,
            part: self.part,
            namespace: &self.namespace,
            name: &self.name,
        }
    }

    /// How much there is to do to check so many bytes, as [`beside_others`] counts it. The patterns of a schema take as long to
    /// compile for the smallest object as for the largest.
    pub(super) fn checking_effort(&self, size: usize) -> usize {
        if self.view.version().behaviour.may_take_long() { UNBOUNDED } else { size }
    }

    pub(crate) fn key(&self, store: &Store, name: &str) -> Key {
        store.collection(&self.view.resource.collection).key(&self.namespace, name)
    }
}

/// What is to be written.
#[derive(Clone, Copy)]
pub(crate) struct WriteRequest<'r, 'w> {
    /// Reads it, anew for every attempt.
    pub(crate) read: &'r (dyn Fn() -> Result<Write<'w>, Status> + Sync),
    /// How many bytes were sent.
    pub(crate) size: usize,
}

/// Performs a write.
pub(crate) async fn write(
    store: &Store,
    admission: &Admission<'_>,
    location: &ObjectLocation,
    request: WriteRequest<'_, '_>,
    options: &WriteOptions,
) -> Result<WriteOutcome, Status> {
    for _ in 0..ATTEMPTS {
        let attempt = Attempt { store, admission, location, options };
        if let Some(outcome) = attempt.run(request).await? {
            return Ok(outcome);
        }
    }
    Err(Status::modified(&location.view.resource.identity, &location.name))
}

#[derive(Clone, Copy)]
struct Attempt<'a> {
    store: &'a Store,
    admission: &'a Admission<'a>,
    location: &'a ObjectLocation,
    options: &'a WriteOptions,
}

impl Attempt<'_> {
    /// Tries once. Nothing if the object changed in the meantime.
    async fn run(self, request: WriteRequest<'_, '_>) -> Result<Option<WriteOutcome>, Status> {
        let location = self.location;
        let began_at = Instant::now();
        let entry = self.stored();
        let live = match &entry {
            Some(entry) => {
                let object = location.view.convert(entry.bytes(), self.store).await?;
                Some(beside_others(entry.bytes().len(), || object.into_value()))
            }
            None => None,
        };
        // What is sent is merged into what is stored: both have to be gone through.
        let size = request.size + entry.as_ref().map_or(0, |entry| entry.bytes().len());
        let request = WriteRequest { size, ..request };
        // Anew for every attempt: a generated name that turned out to be taken must not be tried again.
        let (time, uid, random) = (clock::timestamp(), crate::random::uuid().to_string(), random_suffix());
        let circumstances = Circumstances {
            manager: &self.options.manager,
            time: &time,
            uid: &uid,
            random: &random,
            field_validation: self.options.field_validation,
            converter: None,
        };
        let (written, reservation) = if location.part == Part::Scale {
            (
                scale::write(location, self.admission, (request.read)()?, live.as_ref(), &circumstances)
                    .await?,
                None,
            )
        } else {
            self.decide(request, live.as_ref(), &circumstances, began_at).await?
        };
        if self.options.is_dry_run {
            // A dry run fails wherever the real write would, as far as that can be known without storing anything.
            self.is_free(&written)?;
            if location.view.resource.converter.is_some() {
                self.draft(written.object.clone(), entry.as_deref()).await?;
            }
            return dry_run_outcome(&written).map(Some);
        }
        // An object that brings its name may have a prefix as well.
        let name = metadata_text(&written.object, "name");
        let is_generated =
            !metadata_text(&written.object, "generateName").is_empty() && name.ends_with(&random);
        self.store(written, entry.as_deref(), reservation, is_generated).await
    }

    /// What to store, and the addresses that are reserved for it.
    async fn decide(
        self,
        request: WriteRequest<'_, '_>,
        live: Option<&Value>,
        circumstances: &Circumstances<'_>,
        began_at: Instant,
    ) -> Result<(Written, Option<Reservation>), Status> {
        let location = self.location;
        // Webhooks may change the proposal, so that addresses are allocated behind them, and what is settled is what they left;
        // those that only validate must see what will be stored, so that they come last.
        let proposal = self.propose(request, live, circumstances).await?;
        let mut proposal = self.admission.mutate(location, proposal, live).await?;
        let reservation = self.admission.allocate(location, &mut proposal, live)?;
        yield_if_long(began_at).await;
        let version = self.take_version(&mut proposal);
        let settle = || writes::settle(&location.endpoint(), proposal, live, circumstances);
        let mut written = beside_others(location.checking_effort(request.size), settle)?;
        self.admission.validate(location, &mut written, live).await?;
        put_version(&mut written, version);
        yield_if_long(began_at).await;
        Ok((written, reservation))
    }

    /// What a new object says its version is. It may have none, which is noticed when it is stored; and a dry run stores nothing,
    /// so that upstream shows it as it was sent.
    fn take_version(self, proposal: &mut Proposal) -> Option<Value> {
        if !self.options.is_dry_run || !self.location.name.is_empty() {
            return None;
        }
        proposal.object.get_mut("metadata")?.as_object_mut()?.remove("resourceVersion")
    }

    /// A name that is taken is taken in a dry run, too.
    fn is_free(self, written: &Written) -> Result<(), Status> {
        let name = metadata_text(&written.object, "name");
        let is_taken = || {
            self.location.name.is_empty() && self.store.get(&self.location.key(self.store, name)).is_some()
        };
        if written.is_created && is_taken() {
            return Err(Status::already_exists(&self.location.view.resource.identity, name));
        }
        Ok(())
    }

    fn stored(self) -> Option<Arc<Entry>> {
        if self.location.name.is_empty() {
            return None;
        }
        self.store.get(&self.location.key(self.store, &self.location.name))
    }

    async fn store(
        self,
        written: Written,
        live: Option<&Entry>,
        reservation: Option<Reservation>,
        is_generated: bool,
    ) -> Result<Option<WriteOutcome>, Status> {
        let Written { is_created, changes_nothing, .. } = written;
        let subject = Subject::of(&written.object);
        if let (true, Some(live)) = (changes_nothing, live) {
            let bytes = live.bytes().clone();
            let warnings = written.warnings;
            return Ok(Some(WriteOutcome { bytes, is_presented: false, is_created, subject, warnings }));
        }
        let name = subject.name.clone();
        let key = self.location.key(self.store, &name);
        let mut last = None;
        let change = if live.is_some() && written.ends_deletion() {
            last = Some(Bytes::from(Value::Object(written.object).to_string()));
            Change::Delete
        } else {
            Change::Put(self.draft(written.object, live).await?)
        };
        // What was decided holds only for what was read; if that has changed, everything is decided anew.
        let expect = live.map_or(Expect::Absent, |live| Expect::Revision(live.revision()));
        let mut operations = vec![Operation { key, expect, change }];
        if is_created {
            operations.extend(self.admission.conditions(self.location, &name)?);
        }
        yield_to_cancellation().await;
        // Until the service is stored nothing else keeps others from its addresses, and its client may have left.
        match self.store.submit_holding(operations, Box::new(reservation)).await {
            Ok(entries) => {
                let is_presented = last.is_some();
                let stored = || entries.first().map(|entry| entry.bytes().clone()).unwrap_or_default();
                let bytes = last.unwrap_or_else(stored);
                Ok(Some(WriteOutcome {
                    bytes,
                    is_presented,
                    is_created,
                    subject,
                    warnings: written.warnings,
                }))
            }
            // A generated name that is taken is generated anew with the next attempt.
            Err(SubmitError::Refused(_)) if is_generated => Ok(None),
            Err(SubmitError::Refused(refused)) => self.refused(&name, live, &refused),
            Err(error) => Err(storage_failure(&error)),
        }
    }

    /// A conflict. Whether it is worth another attempt depends on the request.
    fn refused(
        self,
        name: &str,
        live: Option<&Entry>,
        refused: &Refused,
    ) -> Result<Option<WriteOutcome>, Status> {
        match (&refused.found, live) {
            (Some(found), None) if refused.index == 0 && self.location.name.is_empty() => {
                let resource = &self.location.view.resource.identity;
                let mut status = Status::already_exists(resource, name);
                if found.metadata().is_terminating {
                    status.message = format!("object is being deleted: {}", status.message);
                }
                Err(status)
            }
            _ => Ok(None),
        }
    }

    /// What the request asks for. Owners in other versions are found once it is known what the object is in those.
    async fn propose(
        self,
        request: WriteRequest<'_, '_>,
        live: Option<&Value>,
        circumstances: &Circumstances<'_>,
    ) -> Result<Proposal, Status> {
        let endpoint = self.location.endpoint();
        let Some(converter) = &self.location.view.resource.converter else {
            let propose = || writes::propose(&endpoint, (request.read)()?, live, circumstances);
            return beside_others(request.size, propose);
        };
        let translations = PendingConversions::default();
        let circumstances = Circumstances { converter: Some(&translations), ..*circumstances };
        loop {
            let propose = || writes::propose(&endpoint, (request.read)()?, live, &circumstances);
            let proposal = beside_others(request.size, propose);
            if !translations.learn(converter, self.store).await? {
                return proposal;
            }
        }
    }

    /// The object in the version that is stored.
    async fn draft(self, mut object: Map<String, Value>, live: Option<&Entry>) -> Result<Draft, Status> {
        let resource = &self.location.view.resource;
        let (stored, current) = (resource.stored(), self.location.view.version());
        if stored.behaviour.api_version() != current.behaviour.api_version() {
            if let Some(converter) = &resource.converter {
                object = converter.convert(object, stored.behaviour.api_version(), self.store).await?;
            }
            stored.behaviour.adopt(&mut object);
            if let (Origin::Builtin, Some(live)) = (&resource.origin, live) {
                keep_untouched(&mut object, live, self.location.part);
            }
            // It is read as it is stored, so that it must have what a stored object has.
            stored.behaviour.revive(&mut object);
        }
        let draft = Draft::new(&object).map_err(|error| match error {
            DraftError::TooLarge { .. } => too_large(),
            error => Status::bad_request(&error.to_string()),
        })?;
        if draft.size() > MAX_OBJECT { Err(too_large()) } else { Ok(draft) }
    }
}

/// Pauses just long enough for the listener to drop a request whose client went away: what nothing waits for is not begun. Who
/// asks next, by the same connection, then finds either nothing of it or, by [`Store::finish_writes`], how it ended.
pub(super) async fn yield_to_cancellation() {
    let mut has_paused = false;
    poll_fn(|context| {
        if has_paused {
            return Poll::Ready(());
        }
        has_paused = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How long a write may work on end. Most take less than a millisecond.
const LONG: Duration = Duration::from_millis(20);

/// Pauses between the steps of a write that takes long: one whose time is over goes no further, and others get their turn.
async fn yield_if_long(began_at: Instant) {
    if began_at.elapsed() > LONG {
        tokio::task::yield_now().await;
    }
}

/// What a write does not concern is kept as it is stored: it may say more than the version of the request can.
fn keep_untouched(object: &mut Map<String, Value>, live: &Entry, part: Part) {
    let live: Map<String, Value> = serde_json::from_slice(live.bytes()).unwrap_or_default();
    let name = if part == Part::Status { "spec" } else { "status" };
    if let (true, Some(value)) = (object.contains_key(name), live.get(name)) {
        object.insert(name.to_owned(), value.clone());
    }
}

fn put_version(written: &mut Written, version: Option<Value>) {
    if let (Some(version), Some(Value::Object(metadata))) = (version, written.object.get_mut("metadata")) {
        metadata.insert("resourceVersion".to_owned(), version);
    }
}

/// The answer to a dry run.
fn dry_run_outcome(written: &Written) -> Result<WriteOutcome, Status> {
    let bytes = Bytes::from(Value::Object(written.object.clone()).to_string());
    if bytes.len() > MAX_OBJECT {
        return Err(too_large());
    }
    Ok(WriteOutcome {
        bytes,
        is_presented: true,
        is_created: written.is_created,
        subject: Subject::of(&written.object),
        warnings: written.warnings.clone(),
    })
}

/// What says that nothing was stored, or that it is not known whether it was.
pub(crate) fn storage_failure(error: &SubmitError) -> Status {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    let words = format!("{error}{source}");
    match error {
        // By the definition of its reason, the outcome of the request is unknown.
        SubmitError::Unknown(_) | SubmitError::Unanswered => Status::internal(&words),
        _ => Status::unavailable(&words),
    }
}

pub(crate) fn too_large() -> Status {
    Status::request_too_large(&format!("limit is {MAX_OBJECT}"))
}

pub(crate) fn metadata_text<'o>(object: &'o Map<String, Value>, name: &str) -> &'o str {
    object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// The end of a generated name.
fn random_suffix() -> String {
    let alphabet = GENERATED_CHARACTERS.as_bytes();
    let random = crate::random::uuid();
    let bytes = random.as_bytes().iter().take(GENERATED_LENGTH);
    bytes.map(|byte| char::from(alphabet[usize::from(*byte) % alphabet.len()])).collect()
}
