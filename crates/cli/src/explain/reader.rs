//! Reads what an inquiry wants to see, in as few requests as possible, several at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, keys, meta};
use ferroplane_explain::{Id, List, Purpose, Snapshot, State, Want, wants};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::kinds::{Kinds, Resource};
use crate::client::Connection;

/// How many requests are on their way at the same time.
const CONCURRENCY: usize = 16;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// More objects of a kind are listed, not read one by one.
const FEW: usize = 6;
const PAGE: usize = 1000;
/// How often an inquiry may ask for more.
const ROUNDS: usize = 64;
const LARGEST_ANSWER: usize = 256 << 20;
const JSON: &str = "application/json";
const ALL_GROUPS: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Reads from one API server. Clones share connections and what is known of kinds.
#[derive(Clone)]
pub(super) struct Reader {
    connection: Connection,
    kinds: Arc<Kinds>,
    turns: Arc<Semaphore>,
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
    pub(super) async fn start(connection: Connection) -> anyhow::Result<Self> {
        let mut reader =
            Self { connection, kinds: Arc::default(), turns: Arc::new(Semaphore::new(CONCURRENCY)) };
        let mut kinds = Kinds::default();
        let (core, others) =
            tokio::try_join!(reader.get("/api", ALL_GROUPS), reader.get("/apis", ALL_GROUPS))?;
        for (answer, root) in [(core, "/api"), (others, "/apis")] {
            match answer {
                (StatusCode::OK, answer) if answer["kind"] == "APIGroupDiscoveryList" => {
                    kinds.add_groups(&answer);
                }
                (StatusCode::OK, answer) => reader.learn_one_by_one(&mut kinds, root, &answer).await?,
                (status, answer) => bail!("it says {status}: {}", message(&answer)),
            }
        }
        reader.kinds = Arc::new(kinds);
        Ok(reader)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Older servers tell of each group alone.
    async fn learn_one_by_one(&self, kinds: &mut Kinds, root: &str, answer: &Value) -> anyhow::Result<()> {
        let groups = answer["groups"].as_array().into_iter().flatten();
        let preferred = groups.filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
        let core = answer["versions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for api_version in preferred.chain(core) {
            if let (StatusCode::OK, answer) = self.get(&format!("{root}/{api_version}"), JSON).await? {
                kinds.add_version(api_version, &answer);
            }
        }
        Ok(())
    }

    /// Everything that an inquiry about an object wants to see.
    pub(super) async fn read(&self, root: &Id, purpose: Purpose) -> anyhow::Result<Snapshot> {
        let mut snapshot = Snapshot::default();
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
            let is_known = self.kinds.get(&api_version, &kind).is_some();
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
        let Some(kind) = self.kinds.get(&id.api_version, &id.kind) else {
            return Ok(Read::Object(id, State::UnknownKind));
        };
        let path = format!("{}/{}", path(kind, &id.namespace), encoded(&id.name));
        let state = match self.get(&path, JSON).await? {
            (StatusCode::OK, Value::Object(object)) => State::Here(Box::new(object)),
            (StatusCode::NOT_FOUND, _) => State::Missing,
            (_, answer) => State::Unreadable(message(&answer)),
        };
        Ok(Read::Object(id, state))
    }

    /// Whatever of a kind was composed, for the same composite resource if that is known.
    async fn some(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        label: Option<String>,
    ) -> anyhow::Result<Read> {
        let Some(kind) = self.kinds.get(api_version, kind) else { return Ok(Read::Some(Vec::new())) };
        let selector =
            label.map_or_else(|| keys::COMPOSITE.to_owned(), |label| format!("{}={label}", keys::COMPOSITE));
        Ok(Read::Some(self.pages(kind, namespace, &format!("labelSelector={}", encoded(&selector))).await?))
    }

    async fn list(&self, list: List) -> anyhow::Result<Read> {
        let Some(kind) = self.kinds.get_any(&list.api_version, &list.kind) else {
            return Ok(Read::List(list, Vec::new()));
        };
        let selector = list
            .label
            .as_ref()
            .map(|(key, value)| format!("labelSelector={}", encoded(&format!("{key}={value}"))));
        let objects = self.pages(kind, &list.namespace, &selector.unwrap_or_default()).await?;
        Ok(Read::List(list, objects))
    }

    async fn events(&self, id: Id, uid: String) -> anyhow::Result<Read> {
        let namespace = if id.namespace.is_empty() { "default" } else { &id.namespace };
        let selector = encoded(&format!("involvedObject.uid={uid}"));
        let path =
            format!("/api/v1/namespaces/{}/events?fieldSelector={selector}&limit=100", encoded(namespace));
        let (_, answer) = self.get(&path, JSON).await?;
        Ok(Read::Events(id, items(answer).0))
    }

    /// All objects of a kind that have something in common. None if they may not be read.
    async fn pages(&self, kind: &Resource, namespace: &str, query: &str) -> anyhow::Result<Vec<Object>> {
        let mut objects = Vec::new();
        let mut token = String::new();
        loop {
            let mut uri = format!("{}?limit={PAGE}&{query}", path(kind, namespace));
            if !token.is_empty() {
                uri.push_str(&format!("&continue={}", encoded(&token)));
            }
            let (code, answer) = self.get(&uri, JSON).await?;
            if code != StatusCode::OK {
                return Ok(objects);
            }
            let (page, next) = items(answer);
            objects.extend(page.into_iter().map(|mut object| {
                // Items of lists do not say what they are.
                object.entry("apiVersion").or_insert_with(|| kind.api_version.as_str().into());
                object.entry("kind").or_insert_with(|| kind.kind.as_str().into());
                object
            }));
            if next.is_empty() {
                return Ok(objects);
            }
            token = next;
        }
    }

    /// An answer in JSON.
    pub(super) async fn get(&self, uri: &str, accept: &str) -> anyhow::Result<(StatusCode, Value)> {
        let _turn = self.turns.acquire().await.context("cannot go on reading")?;
        let request = Request::get(uri).header("accept", accept).body(Body::empty())?;
        let exchange = async {
            let response = self.connection.client.send(request).await?;
            let code = response.status();
            let body = http_body_util::Limited::new(response.into_body(), LARGEST_ANSWER);
            let bytes = body.collect().await.map_err(anyhow::Error::from_boxed)?.to_bytes();
            anyhow::Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        };
        tokio::time::timeout(PATIENCE, exchange).await.context("there was no answer in time")?
    }

    /// What happens to objects of a kind from a version on.
    pub(super) async fn watch(
        &self,
        kind: &Resource,
        namespace: &str,
        version: &str,
    ) -> anyhow::Result<Body> {
        let uri = format!("{}?watch=true&resourceVersion={version}", path(kind, namespace));
        let request = Request::get(uri).header("accept", JSON).body(Body::empty())?;
        let response = self.connection.client.send(request).await?;
        if response.status() != StatusCode::OK {
            bail!("cannot watch {}: {}", kind.kind, response.status());
        }
        Ok(response.into_body())
    }

    /// The version at which the objects of a kind are now.
    pub(super) async fn version(&self, kind: &Resource, namespace: &str) -> anyhow::Result<String> {
        let (_, answer) = self.get(&format!("{}?limit=1", path(kind, namespace)), JSON).await?;
        Ok(answer["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned())
    }
}

/// Takes in what was read, and notes what was found of what is left to be read.
async fn gather(
    mut tasks: JoinSet<anyhow::Result<Read>>,
    left: &mut BTreeSet<Id>,
    snapshot: &mut Snapshot,
) -> anyhow::Result<()> {
    while let Some(read) = tasks.join_next().await {
        match read.context("cannot go on reading")?? {
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

fn path(kind: &Resource, namespace: &str) -> String {
    let root = if meta::group(&kind.api_version).is_empty() { "/api" } else { "/apis" };
    let (api_version, plural) = (&kind.api_version, &kind.plural);
    if kind.is_namespaced && !namespace.is_empty() {
        return format!("{root}/{api_version}/namespaces/{}/{plural}", encoded(namespace));
    }
    format!("{root}/{api_version}/{plural}")
}

/// Whatever somebody types does not become part of a path.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let encode =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

fn items(mut list: Value) -> (Vec<Object>, String) {
    let token = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    let Value::Array(items) = list["items"].take() else { return (Vec::new(), token) };
    let object = |item| if let Value::Object(object) = item { Some(object) } else { None };
    (items.into_iter().filter_map(object).collect(), token)
}

fn message(answer: &Value) -> String {
    answer["message"].as_str().unwrap_or("there is no reason given").to_owned()
}
