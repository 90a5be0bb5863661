//! Writes the objects of a package: all of them as a dry run first, and then for real.

use std::sync::Arc;

use ferroplane_api::{Object, PackageKind, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Resource, Subresource};
use ferroplane_engine::packages::{
    AlreadyControlled, Establishing, Party, establish, establish_input_kind, release,
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

/// How many objects of a package are read or written at the same time, unless an administrator says otherwise.
pub const ESTABLISHERS: usize = 10;

/// Why the objects of a package cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum EstablishError {
    #[error("cannot read {kind} `{name}`")]
    Read { kind: String, name: String, source: Error },
    #[error("cannot write {kind} `{name}`: the API server does not serve {api_version}")]
    NotServed { kind: String, name: String, api_version: String },
    #[error("cannot write {kind} `{name}`")]
    Write { kind: String, name: String, source: Error },
    #[error("cannot write the objects of the package: {0}")]
    Controlled(#[from] AlreadyControlled),
}

impl EstablishError {
    /// Whether it is a write conflict.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Write { source, .. } => source.is_conflict() || source.is_already_exists(),
            _ => false,
        }
    }
}

/// An object, and its change.
struct Target {
    resource: Arc<Resource>,
    live: Option<Object>,
    /// The object to write. None if nothing is to change.
    write: Option<Object>,
}

/// Write the objects of a package, so many at a time. Returns references to them.
pub(super) async fn establish_all(
    cluster: &ApiClient,
    kind: PackageKind,
    objects: &[&Object],
    how: &Establishing<'_>,
    concurrency: usize,
) -> Result<Vec<Value>, EstablishError> {
    // Made before they are a stream: a stream that makes them cannot be sent to another thread.
    let planning: Vec<_> = objects.iter().map(|object| plan(cluster, kind, object, how)).collect();
    let targets: Vec<Target> = stream::iter(planning).buffered(concurrency).try_collect().await?;
    let trial = cluster.clone().with_dry_run();
    // As a dry run first: a refused object must not leave half of a package behind.
    let trying: Vec<_> = targets.iter().map(|target| target.write(&trial)).collect();
    stream::iter(trying).buffered(concurrency).try_for_each(|_| std::future::ready(Ok(()))).await?;
    let writing: Vec<_> = targets.iter().map(|target| target.write(cluster)).collect();
    let written: Vec<Option<Object>> = stream::iter(writing).buffered(concurrency).try_collect().await?;
    let present = targets.into_iter().zip(written).filter_map(|(target, written)| written.or(target.live));
    let mut references: Vec<Value> = present.map(|object| reference(&object)).collect();
    // As Crossplane sorts them.
    references.sort_by_key(|reference| std::cmp::Reverse(sort_key(reference)));
    Ok(references)
}

/// Give up control of all objects of a revision that is no longer active.
pub(super) async fn release_all(
    cluster: &ApiClient,
    references: &[Value],
    party: Party<'_>,
) -> Result<(), EstablishError> {
    for reference in references {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let read = |source| EstablishError::Read { kind: kind.to_owned(), name: name.to_owned(), source };
        let Some(resource) = cluster.resource(text("apiVersion"), kind).await.map_err(read)? else {
            continue;
        };
        let path = ObjectPath { resource: &resource, namespace: "", name };
        let Some(live) = cluster.get_object(path).await.map_err(read)? else { continue };
        // Objects that it never owned are left alone.
        let Some(released) = release(&live, party).filter(|_| owns(&live, party)) else { continue };
        cluster.replace(path, Subresource::None, &released).await.map_err(|source| {
            EstablishError::Write { kind: kind.to_owned(), name: name.to_owned(), source }
        })?;
    }
    Ok(())
}

fn owns(live: &Object, party: Party<'_>) -> bool {
    let owners = live.get("metadata").and_then(|metadata| metadata.get("ownerReferences")?.as_array());
    let uid = meta::uid(party.revision);
    owners.into_iter().flatten().any(|owner| owner.get("uid").and_then(Value::as_str) == Some(uid))
}

async fn plan(
    cluster: &ApiClient,
    package: PackageKind,
    wanted: &Object,
    how: &Establishing<'_>,
) -> Result<Target, EstablishError> {
    let (kind, name, api_version) = (meta::kind(wanted), meta::name(wanted), meta::api_version(wanted));
    let read = |source| EstablishError::Read { kind: kind.to_owned(), name: name.to_owned(), source };
    let resource = cluster.resource(api_version, kind).await.map_err(read)?;
    let resource = resource.ok_or_else(|| EstablishError::NotServed {
        kind: kind.to_owned(),
        name: name.to_owned(),
        api_version: api_version.to_owned(),
    })?;
    let path = ObjectPath { resource: &resource, namespace: "", name };
    let live = cluster.get_object(path).await.map_err(read)?;
    let write = match package {
        PackageKind::Function => establish_input_kind(wanted, live.as_ref(), how),
        PackageKind::Provider | PackageKind::Configuration => establish(wanted, live.as_ref(), how)?,
    };
    Ok(Target { resource, live, write })
}

impl Target {
    /// Write the object, if there is a change.
    async fn write(&self, cluster: &ApiClient) -> Result<Option<Object>, EstablishError> {
        let Some(object) = &self.write else { return Ok(None) };
        let name = meta::name(object);
        let written = if self.live.is_some() {
            let path = ObjectPath { resource: &self.resource, namespace: "", name };
            cluster.replace(path, Subresource::None, object).await
        } else {
            cluster.create(&self.resource, "", object).await
        };
        let written = written.map_err(|source| EstablishError::Write {
            kind: meta::kind(object).to_owned(),
            name: name.to_owned(),
            source,
        })?;
        Ok(serde_json::from_slice(&written).ok())
    }
}

fn reference(object: &Object) -> Value {
    json!({
        "apiVersion": meta::api_version(object), "kind": meta::kind(object), "name": meta::name(object),
        "uid": meta::uid(object),
    })
}

fn sort_key(reference: &Value) -> String {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    format!("{}, Kind={}/{}", text("apiVersion"), text("kind"), text("name"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use http::{Method, Request, Response, StatusCode};
    use kube::client::Body;
    use tower_service::Service;

    use super::*;

    /// An API server without objects, which takes a second for every answer.
    #[derive(Clone, Default)]
    struct SlowServer(Arc<Mutex<Load>>);

    #[derive(Default)]
    struct Load {
        now: usize,
        highest: usize,
        created: usize,
    }

    impl Service<Request<Body>> for SlowServer {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let load = self.0.clone();
            Box::pin(async move {
                let is_write = *request.method() == Method::POST;
                let is_trial = request.uri().query().is_some_and(|query| query.contains("dryRun"));
                {
                    let mut load = load.lock().unwrap();
                    load.now += 1;
                    load.highest = load.highest.max(load.now);
                    load.created += usize::from(is_write && !is_trial);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                load.lock().unwrap().now -= 1;
                let kinds = json!({"resources": [{"name": "things", "kind": "Thing", "namespaced": false}]});
                let absent = json!({"kind": "Status", "code": 404, "reason": "NotFound"});
                let (code, answer) = match request.uri().path() {
                    _ if is_write => {
                        (StatusCode::CREATED, request.into_body().collect_bytes().await.unwrap().to_vec())
                    }
                    "/apis/acme.org/v1" => (StatusCode::OK, kinds.to_string().into_bytes()),
                    _ => (StatusCode::NOT_FOUND, absent.to_string().into_bytes()),
                };
                let mut response = Response::new(Body::from(answer));
                *response.status_mut() = code;
                Ok(response)
            })
        }
    }

    fn object(kind: &str, name: &str) -> Object {
        let object = json!({
            "apiVersion": "acme.org/v1", "kind": kind, "metadata": {"name": name, "uid": format!("uid-{name}")},
        });
        serde_json::from_value(object).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_objects_as_an_administrator_says_are_read_and_written_at_the_same_time() {
        let (package, revision) = (object("Configuration", "p"), object("ConfigurationRevision", "p-1"));
        let objects: Vec<Object> = (0..20).map(|number| object("Thing", &format!("t{number}"))).collect();
        let objects: Vec<&Object> = objects.iter().collect();
        let (siblings, none) = (BTreeSet::new(), BTreeMap::new());
        let party = Party { package: &package, revision: &revision, siblings: &siblings };
        let how = Establishing { party, control: true, common_labels: &none, common_annotations: &none };
        for concurrency in [1, 3, 10] {
            let server = SlowServer::default();
            let cluster = ApiClient::new(kube::Client::new(server.clone(), "default"));
            let written =
                establish_all(&cluster, PackageKind::Configuration, &objects, &how, concurrency).await;
            assert_eq!(written.unwrap().len(), objects.len());
            let load = server.0.lock().unwrap();
            assert_eq!((load.highest, load.created), (concurrency, objects.len()));
        }
    }
}
