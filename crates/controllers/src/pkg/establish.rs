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
