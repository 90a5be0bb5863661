//! Reads the objects that an inquiry asks for, in as few requests as possible, several at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{
    ApiClient, Error, LabelSelector, ObjectPath, Page, Query, Resource, ResourceCatalogue, StatusError, Watch,
};
use ferroplane_explain::{Home, Id, List, Purpose, Snapshot, State, Want, wants};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use super::known_functions;
use crate::client::Connection;

/// How many requests are on their way at the same time.
const CONCURRENCY: usize = 16;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// More objects of a kind are listed, not read one by one.
const FEW: usize = 6;
pub(super) const PAGE: u32 = 1000;
/// No more events of an object are read.
const EVENTS: u32 = 100;
/// How often an inquiry may ask for more.
const ROUNDS: usize = 64;
/// How often a list is read again from its beginning because its pages expired.
pub(super) const RESTARTS: u32 = 3;
/// How often a server that is overloaded is asked again.
const RETRIES: u32 = 3;
/// The pause before the first retry, unless the server says how long to wait. It doubles.
const PAUSE: Duration = Duration::from_millis(500);
/// No pause is longer, whatever the server says: a user waits.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Reads from one API server. Clones share connections and what is known of kinds.
#[derive(Clone)]
pub(super) struct Reader {
    client: ApiClient,
    catalogue: Arc<ResourceCatalogue>,
    home: Home,
    turns: Arc<Semaphore>,
}

/// The API server refuses to list a kind, or fails to.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {kind}: {}", .status.message)]
pub(super) struct Unlisted {
    /// The plural name, with the group.
    pub(super) kind: String,
    pub(super) status: StatusError,
}

/// Retries of one request that a server was too busy for.
#[derive(Default)]
struct Retries {
    made: u32,
}

/// What was read.
enum Read {
    Object(Id, State),
    /// Many of a kind, some of which were wanted.
    Some(Vec<Object>),
    List(List, Vec<Object>),
    Events(Id, Vec<Object>),
}

impl Reader {
    /// Learns which kinds there are.
    pub(super) async fn start(connection: &Connection) -> anyhow::Result<Self> {
        let client = connection.client.clone().with_timeout(TIMEOUT);
        let catalogue = client.catalogue().await.map_err(failure)?;
        let home = if connection.is_embedded().await { Home::Embedded } else { Home::Cluster };
        let turns = Arc::new(Semaphore::new(CONCURRENCY));
        Ok(Self { client, catalogue: Arc::new(catalogue), home, turns })
    }

    pub(super) fn catalogue(&self) -> &ResourceCatalogue {
        &self.catalogue
    }

    /// Everything that an inquiry about an object wants to see.
    pub(super) async fn read(&self, root: &Id, purpose: Purpose) -> anyhow::Result<Snapshot> {
        self.read_on(self.snapshot(), root, purpose).await
    }

    /// Nothing yet, of this API server.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot::knowing(known_functions()).at(self.home)
    }

    pub(super) fn home(&self) -> Home {
        self.home
    }

    /// The same, given what was read before.
    pub(super) async fn read_on(
        &self,
        mut snapshot: Snapshot,
        root: &Id,
        purpose: Purpose,
    ) -> anyhow::Result<Snapshot> {
        for _ in 0..ROUNDS {
            let wants = wants(&snapshot, root, purpose);
            if wants.is_empty() {
                break;
            }
            self.fulfil(wants, root, &mut snapshot).await?;
        }
        Ok(snapshot)
    }

    async fn fulfil(&self, wants: BTreeSet<Want>, root: &Id, snapshot: &mut Snapshot) -> anyhow::Result<()> {
        let mut objects: BTreeMap<_, Vec<Id>> = BTreeMap::new();
        let mut tasks = JoinSet::new();
        for want in wants {
            match want {
                Want::Object(id) => {
                    let place = (id.api_version.clone(), id.kind.clone(), id.namespace.clone());
                    objects.entry(place).or_default().push(id);
                }
                Want::List(list) => {
                    let reader = self.clone();
                    tasks.spawn(async move { reader.list(list).await });
                }
                Want::Events(id, uid) => {
                    let reader = self.clone();
                    tasks.spawn(async move { reader.events(id, uid).await });
                }
            }
        }
        let label = composite_of(snapshot, root);
        let mut left = BTreeSet::new();
        for ((api_version, kind, namespace), ids) in objects {
            let is_known = self.catalogue.get(&api_version, &kind).is_some();
            // One list by label instead of many reads. It may show more than was asked for, which the snapshot keeps for
            // later.
            if ids.len() > FEW && is_known {
                let (reader, label) = (self.clone(), label.clone());
                left.extend(ids);
                tasks.spawn(async move { reader.some(&api_version, &kind, &namespace, label).await });
                continue;
            }
            for id in ids {
                let reader = self.clone();
                tasks.spawn(async move { reader.object(id).await });
            }
        }
        gather(tasks, &mut left, snapshot).await?;
        // What has no labels any more is read alone.
        let mut tasks = JoinSet::new();
        for id in left {
            let reader = self.clone();
            tasks.spawn(async move { reader.object(id).await });
        }
        gather(tasks, &mut BTreeSet::new(), snapshot).await
    }

    async fn object(&self, id: Id) -> anyhow::Result<Read> {
        let Some(resource) = self.catalogue.get(&id.api_version, &id.kind) else {
            return Ok(Read::Object(id, State::UnknownKind));
        };
        let _turn = self.turn().await?;
        let path = ObjectPath { resource, namespace: &id.namespace, name: &id.name };
        let state = match self.client.get_object(path).await {
            Ok(Some(object)) => State::Here(Box::new(object)),
            Ok(None) => State::Missing,
            // An object that the user may not read is marked as such, and the rest is shown.
            Err(Error::Refused(status)) => State::Unreadable(status.message),
            // A user who wrote the reference wrote no name. The rest of the tree can be read all the same.
            Err(Error::InvalidPath(problem)) => State::Unreadable(problem),
            Err(error) => return Err(failure(error)),
        };
        Ok(Read::Object(id, state))
    }

    /// Whatever of a kind was composed, for the same composite resource if that is known.
    async fn some(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        composite: Option<String>,
    ) -> anyhow::Result<Read> {
        let Some(resource) = self.catalogue.get(api_version, kind) else { return Ok(Read::Some(Vec::new())) };
        let labels = match composite {
            Some(composite) => [(keys::COMPOSITE, composite)].into_iter().collect(),
            None => LabelSelector { exists: Some(keys::COMPOSITE), ..LabelSelector::default() },
        };
        // What is not in the list is read alone, which says why it cannot be read.
        let objects = match self.objects(resource, namespace, &labels).await {
            Err(error) if error.is::<Unlisted>() => Vec::new(),
            objects => objects?,
        };
        Ok(Read::Some(objects))
    }

    async fn list(&self, list: List) -> anyhow::Result<Read> {
        // An explanation leaves out what its reader may not read.
        let objects = permitted(self.listed(&list).await)?.unwrap_or_default();
        Ok(Read::List(list, objects))
    }

    /// The objects of a list. None of a kind that the server does not have.
    pub(super) async fn listed(&self, list: &List) -> anyhow::Result<Vec<Object>> {
        let Some(resource) = self.catalogue.get_any_version(&list.api_version, &list.kind) else {
            return Ok(Vec::new());
        };
        let labels = list.label.iter().cloned().collect();
        self.objects(resource, &list.namespace, &labels).await
    }

    async fn events(&self, id: Id, uid: String) -> anyhow::Result<Read> {
        let namespace = if id.namespace.is_empty() { "default" } else { &id.namespace };
        let events = Resource {
            api_version: "v1".to_owned(),
            kind: "Event".to_owned(),
            plural: "events".to_owned(),
            is_namespaced: true,
        };
        let fields = format!("involvedObject.uid={uid}");
        let query = Query { fields: Some(&fields), limit: Some(EVENTS), ..Query::default() };
        let _turn = self.turn().await?;
        let page = self.page(&events, namespace, &query).await;
        let found = page.and_then(|page| page.objects(&events)).map_err(|error| unlisted(&events, error));
        Ok(Read::Events(id, permitted(found)?.unwrap_or_default()))
    }

    /// All objects of a kind with these labels. None of a kind that is no longer served.
    pub(super) async fn objects(
        &self,
        resource: &Resource,
        namespace: &str,
        labels: &LabelSelector,
    ) -> anyhow::Result<Vec<Object>> {
        let _turn = self.turn().await?;
        let (mut objects, mut continuation, mut restarts) = (Vec::new(), None::<String>, 0);
        loop {
            let query = Query {
                labels: Some(labels),
                limit: Some(PAGE),
                continuation: continuation.as_deref(),
                ..Query::default()
            };
            let page = match self.page(resource, namespace, &query).await {
                Err(error) if error.is_not_found() => return Ok(Vec::new()),
                Err(error) if error.is_gone() && restarts < RESTARTS => {
                    (objects, continuation, restarts) = (Vec::new(), None, restarts + 1);
                    continue;
                }
                page => page.map_err(|error| unlisted(resource, error))?,
            };
            objects.extend(page.objects(resource).map_err(|error| unlisted(resource, error))?);
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(objects);
            }
        }
    }

    /// A page of a list.
    pub(super) async fn page(
        &self,
        resource: &Resource,
        namespace: &str,
        query: &Query<'_>,
    ) -> Result<Page, Error> {
        let mut retries = Retries::default();
        loop {
            let error = match self.client.list(resource, namespace, query).await {
                Ok(page) => return Ok(page),
                Err(error) => error,
            };
            if !retries.wait_after(&error).await {
                return Err(error);
            }
        }
    }

    /// What happens to objects of a kind from a version on.
    pub(super) async fn watch(
        &self,
        resource: &Resource,
        namespace: &str,
        version: &str,
    ) -> Result<Watch, Error> {
        let query = Query { resource_version: Some(version), ..Query::default() };
        self.client.watch(resource, namespace, &query).await
    }

    /// The version at which the objects of a kind are now.
    pub(super) async fn version(&self, resource: &Resource, namespace: &str) -> anyhow::Result<String> {
        let query = Query { limit: Some(1), ..Query::default() };
        match self.client.list(resource, namespace, &query).await {
            Ok(page) => Ok(page.resource_version),
            // It cannot be watched either.
            Err(Error::Refused(_)) => Ok("0".to_owned()),
            Err(error) => Err(failure(error)),
        }
    }

    /// One of the places for requests that are on their way.
    async fn turn(&self) -> anyhow::Result<SemaphorePermit<'_>> {
        self.turns.acquire().await.context("cannot continue to watch")
    }
}

impl Retries {
    /// Waits until a request can be sent again. False if that is no use, or was tried often enough.
    async fn wait_after(&mut self, error: &Error) -> bool {
        let is_busy = matches!(error.code(), Some(429 | 503));
        if !is_busy || self.made == RETRIES {
            return false;
        }
        let pause = error.retry_after().unwrap_or(PAUSE * 2_u32.pow(self.made));
        tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
        self.made += 1;
        true
    }
}

/// None if the API server does not list it, whatever the reason is. An explanation goes on without it.
pub(super) fn permitted<T>(answer: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match answer {
        Err(error) if error.is::<Unlisted>() => Ok(None),
        answer => answer.map(Some),
    }
}

/// Why a kind cannot be listed.
pub(super) fn unlisted(resource: &Resource, error: Error) -> anyhow::Error {
    match error {
        Error::Refused(status) => {
            let kind = format!("{}.{}", resource.plural, resource.group());
            // The core group has no name.
            Unlisted { kind: kind.trim_end_matches('.').to_owned(), status }.into()
        }
        error => failure(error),
    }
}

/// Without the words that a caller that asked adds anyhow: that the server cannot be reached.
fn failure(error: Error) -> anyhow::Error {
    match error {
        Error::Refused(status) => anyhow::anyhow!("it says {}: {}", status.code, status.message),
        Error::Unreachable(source) => anyhow::Error::from_boxed(source),
        Error::InvalidPath(problem) => anyhow::anyhow!(problem),
    }
}

/// Takes in what was read, and notes what was found of what is left to be read.
async fn gather(
    mut tasks: JoinSet<anyhow::Result<Read>>,
    left: &mut BTreeSet<Id>,
    snapshot: &mut Snapshot,
) -> anyhow::Result<()> {
    while let Some(read) = tasks.join_next().await {
        match read.context("cannot continue to watch")?? {
            Read::Object(id, state) => snapshot.put(id, state),
            Read::List(list, objects) => snapshot.put_list(list, objects),
            Read::Events(id, events) => snapshot.put_events(id, events),
            Read::Some(objects) => {
                for object in objects {
                    let id = Id::of(&object);
                    left.remove(&id);
                    snapshot.put(id, State::Here(Box::new(object)));
                }
            }
        }
    }
    Ok(())
}

/// What all that was composed for the same composite resource is labelled with.
fn composite_of(snapshot: &Snapshot, root: &Id) -> Option<String> {
    let object = snapshot.object(root)?;
    let label = meta::label(object, keys::COMPOSITE);
    let claimed = || object.get("spec")?.get("resourceRef")?.get("name")?.as_str();
    let name = if label.is_empty() { claimed()? } else { label };
    Some(name.to_owned())
}
