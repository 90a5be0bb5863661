//! Fetches templates once, however many ask for them, and remembers them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_engine::{RemoteRepository, RemoteTemplates};
use ferroplane_image::registry::{Registry, Timeouts, TlsError};
use ferroplane_wire::Struct;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::cache::Cache;
use crate::{Error, Options, artifact, git};

/// How many are fetched at the same time.
const PARALLEL: usize = 4;
/// How many places are remembered, with their templates in memory.
const CAPACITY: usize = 64;

/// Fetches templates. Clones share what they know.
#[derive(Debug, Clone)]
pub struct Fetcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    registry: Registry,
    cache: Option<Cache>,
    turn: Semaphore,
    known: Mutex<HashMap<String, Known>>,
}

type Outcome = Result<Struct, Error>;

#[derive(Debug)]
struct Known {
    /// Nothing while it is being fetched.
    outcome: watch::Receiver<Option<Outcome>>,
    /// When a failure may be forgotten.
    failed_until: Arc<Mutex<Option<Instant>>>,
    used_at: Instant,
}

impl Fetcher {
    pub fn new(mut options: Options) -> Result<Self, Error> {
        let limits = options.limits;
        options.registry.max_image_bytes = limits.transfer;
        options.registry.timeouts = Timeouts { total: limits.time, ..options.registry.timeouts };
        let tls = |error: TlsError| Error::from(std::io::Error::other(ferroplane_engine::chain(&error)));
        let registry = Registry::new(options.registry.clone()).map_err(tls)?;
        let cache = options.directory.as_deref().map(Cache::open).transpose()?;
        let (turn, known) = (Semaphore::new(PARALLEL), Mutex::default());
        Ok(Self(Arc::new(Inner { options, registry, cache, turn, known })))
    }

    /// The templates at a place, as an object whose `data` are the files, if they are here. If they are not, they are fetched
    /// meanwhile. Never waits. Has to be called where tokio runs.
    pub fn get(&self, remote: &str) -> Outcome {
        let outcome = self.outcome(remote)?;
        let known = outcome.borrow().clone();
        known.unwrap_or(Err(Error::Fetching))
    }

    /// The same, but it waits until they are here.
    pub async fn fetch(&self, remote: &str) -> Outcome {
        let mut outcome = self.outcome(remote)?;
        let known = outcome.wait_for(Option::is_some).await.map_err(|_| Error::Ended)?;
        known.clone().unwrap_or(Err(Error::Ended))
    }

    fn outcome(&self, remote: &str) -> Result<watch::Receiver<Option<Outcome>>, Error> {
        let mut known = self.known();
        let now = Instant::now();
        if let Some(known) = known.get_mut(remote).filter(|known| !known.may_be_tried_again(now)) {
            known.used_at = now;
            return Ok(known.outcome.clone());
        }
        let templates = RemoteTemplates::parse(remote)?;
        if !self.0.options.allowed.iter().any(|listed| templates.is_within(listed)) {
            return Err(Error::NotAllowed);
        }
        make_room(&mut known)?;
        let (sender, outcome) = watch::channel(None);
        let failed_until = Arc::new(Mutex::new(None));
        let entry = Known { outcome: outcome.clone(), failed_until: failed_until.clone(), used_at: now };
        known.insert(remote.to_owned(), entry);
        drop(known);
        let (fetcher, remote) = (self.clone(), remote.to_owned());
        tokio::spawn(async move {
            let outcome = fetcher.bring(&remote, &templates).await;
            if outcome.is_err() {
                let until = Instant::now() + fetcher.0.options.limits.pause;
                *failed_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
            }
            sender.send_replace(Some(outcome));
        });
        Ok(outcome)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From the directory, or from the network.
    async fn bring(&self, remote: &str, templates: &RemoteTemplates) -> Outcome {
        let _turn = self.0.turn.acquire().await.map_err(|_| Error::Ended)?;
        let limits = self.0.options.limits;
        if let Some(cache) = self.0.cache.clone() {
            let remote = remote.to_owned();
            let kept = tokio::task::spawn_blocking(move || cache.get(&remote, limits)).await;
            if let Ok(Some(files)) = kept {
                return to_object(templates, files);
            }
        }
        let fetched = tokio::time::timeout(limits.time, self.fetch_now(templates)).await;
        let files = fetched.unwrap_or(Err(Error::TooSlow { seconds: limits.time.as_secs() }))?;
        if let Some(cache) = self.0.cache.clone() {
            let (remote, files) = (remote.to_owned(), files.clone());
            // What cannot be kept can be used nevertheless.
            tokio::task::spawn_blocking(move || cache.put(&remote, &files)).await.ok();
        }
        to_object(templates, files)
    }

    async fn fetch_now(&self, templates: &RemoteTemplates) -> Result<BTreeMap<String, String>, Error> {
        let RemoteTemplates { repository, directory } = templates;
        let options = &self.0.options;
        match repository {
            RemoteRepository::Artifact(reference) => {
                artifact::fetch(&self.0.registry, reference, directory, options.limits).await
            }
            RemoteRepository::Git { location, commit } => {
                git::fetch(&options.git, git::Commit { location, commit }, directory, options.limits).await
            }
        }
    }
}

impl Known {
    fn may_be_tried_again(&self, now: Instant) -> bool {
        self.failed_until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| until <= now)
    }

    fn is_being_fetched(&self) -> bool {
        self.outcome.borrow().is_none()
    }
}

/// Forgets what was not used for longest. What is being fetched stays.
fn make_room(known: &mut HashMap<String, Known>) -> Result<(), Error> {
    if known.len() < CAPACITY {
        return Ok(());
    }
    let done = known.iter().filter(|(_, known)| !known.is_being_fetched());
    let oldest = done.min_by_key(|(_, known)| known.used_at).map(|(remote, _)| remote.clone());
    known.remove(&oldest.ok_or(Error::Busy)?);
    Ok(())
}

/// The files, as an object that a step could require.
fn to_object(templates: &RemoteTemplates, files: BTreeMap<String, String>) -> Outcome {
    let data: Map<_, _> = files.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
    let object = json!({
        "apiVersion": "render.ferroplane.io/v1beta1", "kind": "TemplateDirectory",
        "metadata": {"name": templates.to_string()}, "data": data,
    });
    let object = object.as_object().cloned().unwrap_or_default();
    Struct::try_from(object).map_err(|error| std::io::Error::other(error.to_string()).into())
}
