//! The controller of one side of all definitions.
//!
//! # Invariants
//! * A definition that is up to date costs no request, and nothing is polled: definitions, their `CustomResourceDefinition`s and, when
//!   they are deleted, their objects are watched.
//! * The controller of a kind is stopped only when no object of the kind is left that needs it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_api::{Object, meta};
use ferroplane_client::{Informer, ObjectPath};
use ferroplane_engine::Defined;

use super::custom_kind::{Change, CustomKinds};
use super::report::{DefinitionFailure, DefinitionState, observed};
use super::side::Side;
use crate::context::Context;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::finalizers;
use crate::runtime::queue::{Next, Queue};

/// How many definitions are worked on at the same time.
const CONCURRENCY: usize = 16;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The controller of one side of all definitions.
pub(crate) struct Definer<S> {
    pub(super) context: Arc<Context>,
    pub(super) side: S,
    pub(super) recorder: Recorder,
    pub(super) kinds: CustomKinds,
    pub(super) queue: Queue<String>,
    /// The objects of definitions that are being deleted, watched until they are gone.
    pub(super) going: Mutex<HashMap<String, Arc<Informer>>>,
}

impl<S: Side> Definer<S> {
    pub(crate) fn new(context: Arc<Context>, side: S) -> Arc<Self> {
        Arc::new(Self {
            side,
            recorder: context.recorder.of(S::WORDS.controller),
            kinds: CustomKinds::new(context.clone()),
            queue: context.queue(LONGEST_PAUSE, S::WORDS.controller),
            going: Mutex::default(),
            context,
        })
    }

    /// Run until dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let queue = self.queue.clone();
        self.context
            .definitions
            .listen(move |_, change| queue.add(change.header().metadata.name.to_string()));
        let definer = Arc::downgrade(&self);
        self.context.kinds.listen(move |_, change| {
            if let Some(definer) = definer.upgrade()
                && let Some(xrd) = definer.kinds.owner(&change.header().metadata.name)
            {
                definer.queue.add(xrd);
            }
        });
        self.queue.clone().work(CONCURRENCY, |name| self.clone().reconcile(name)).await;
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(mut xrd) = self.context.definitions.object("", &name) else {
            self.forget(&name);
            return Next::Rest;
        };
        let written_for = cause_of_writes(&xrd);
        let work = async {
            let result = if meta::is_being_deleted(&xrd) {
                self.terminate(&mut xrd).await
            } else {
                self.establish(&mut xrd).await
            };
            self.settle(&xrd, result).await
        };
        written_for.scope(work).await
    }

    /// Each line must hold before the next may happen.
    async fn establish(&self, xrd: &mut Object) -> Result<DefinitionState, DefinitionFailure> {
        let Some(defined) = S::derive(xrd)? else { return Ok(DefinitionState::Idle) };
        self.hold(xrd).await?;
        if !self.define(xrd, &defined).await? {
            return Ok(DefinitionState::Idle);
        }
        self.start(xrd, &defined);
        Ok(DefinitionState::Watching { api_version: defined.api_version, kind: defined.kind })
    }

    /// Add the finalizer, so that the definition is not deleted before its objects.
    async fn hold(&self, xrd: &mut Object) -> Result<(), DefinitionFailure> {
        let path = ObjectPath {
            resource: self.context.definitions.resource(),
            namespace: "",
            name: meta::name(xrd),
        };
        let held = finalizers::add(&self.context.cluster, path, xrd, S::WORDS.finalizer).await;
        self.take_in(xrd, held.map_err(DefinitionFailure::doing("add the finalizer"))?);
        Ok(())
    }

    /// Create or update the kind. Returns whether it is served.
    async fn define(&self, xrd: &Object, defined: &Defined) -> Result<bool, DefinitionFailure> {
        let standing = self.kinds.ensure(xrd, &defined.definition).await?;
        if standing.change == Change::Created {
            // A controller of another kind of that name would wait for its objects for too long.
            self.side.stop(meta::name(xrd));
        }
        let name = meta::name(&defined.definition);
        if standing.change != Change::Nothing {
            let message = format!("Applied the CustomResourceDefinition {name}");
            self.recorder.normal(xrd, S::WORDS.establish, message);
        }
        if !standing.is_served {
            let message = format!("Waiting until {} are served", S::WORDS.objects);
            self.recorder.normal(xrd, S::WORDS.establish, message);
        }
        Ok(standing.is_served)
    }

    fn start(&self, xrd: &Object, defined: &Defined) {
        if S::is_outdated(observed::<S>(xrd), xrd, defined) {
            let message = format!("Restarted the controller of {}: the definition changed", S::WORDS.objects);
            self.recorder.normal(xrd, S::WORDS.restart, message);
            self.side.stop(meta::name(xrd));
        }
        self.side.start(xrd, defined);
    }

    /// Continue with the definition as the API server returned it.
    pub(super) fn take_in(&self, xrd: &mut Object, written: Option<bytes::Bytes>) {
        let Some(bytes) = written else { return };
        self.context.definitions.insert_written(&bytes);
        if let Ok(object) = serde_json::from_slice(&bytes) {
            *xrd = object;
        }
    }

    /// A definition was deleted.
    pub(super) fn forget(&self, name: &str) {
        self.side.stop(name);
        self.unfollow(name);
        self.kinds.forget(name);
        self.queue.forget(&name.to_owned());
    }
}
