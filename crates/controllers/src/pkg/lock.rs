//! The `Lock`, which lists active revisions with their dependencies.

use ferroplane_api::{LockPackage, Object, keys, lock_packages, meta};
use ferroplane_client::{Error, ObjectPath, Subresource};
use ferroplane_engine::packages::{join_lock, leave_lock};
use serde_json::{Value, json};

use super::Manager;
use crate::runtime::finalizers;

const NAME: &str = "lock";
/// Keeps the lock while it has packages.
const FINALIZER: &str = "lock.pkg.crossplane.io";

impl Manager {
    /// The cached lock.
    pub(super) fn lock(&self) -> Option<Object> {
        self.locks.object("", NAME)
    }

    /// Add a revision to the lock. Returns all packages in it then.
    pub(super) async fn join(&self, own: &LockPackage) -> Result<Vec<LockPackage>, Error> {
        let _turn = self.lock_turn.lock().await;
        let lock = self.lock();
        let packages = lock.as_ref().map(lock_packages).unwrap_or_default();
        match join_lock(&packages, own) {
            None => Ok(packages),
            Some(joined) => self.write_lock(lock, &joined).await.map(|()| joined),
        }
    }

    /// Remove a revision from the lock.
    pub(super) async fn leave(&self, revision: &str) -> Result<(), Error> {
        let _turn = self.lock_turn.lock().await;
        let Some(lock) = self.lock() else { return Ok(()) };
        match leave_lock(&lock_packages(&lock), revision) {
            None => Ok(()),
            Some(left) => self.write_lock(Some(lock), &left).await,
        }
    }

    async fn write_lock(&self, lock: Option<Object>, packages: &[LockPackage]) -> Result<(), Error> {
        let resource = self.locks.resource();
        let is_new = lock.is_none();
        let mut lock = lock.unwrap_or_else(|| {
            let mut lock = Object::new();
            resource.add_kind(&mut lock);
            meta::set_field(&mut lock, "name", NAME);
            lock
        });
        lock.insert("packages".to_owned(), json!(packages));
        let finalizers =
            if packages.is_empty() { without_finalizer(&lock) } else { finalizers::with(&lock, FINALIZER) };
        meta::child(&mut lock, "metadata").insert("finalizers".to_owned(), finalizers);
        let bytes = if is_new {
            self.context.cluster.create(resource, "", &lock).await?
        } else {
            let path = ObjectPath { resource, namespace: "", name: NAME };
            self.context.cluster.replace(path, Subresource::None, &lock).await?
        };
        self.locks.insert_written(&bytes);
        Ok(())
    }
}

fn without_finalizer(lock: &Object) -> Value {
    let finalizers = lock.get("metadata").and_then(|metadata| metadata.get("finalizers")?.as_array());
    finalizers.into_iter().flatten().filter(|finalizer| *finalizer != FINALIZER).cloned().collect()
}

/// The entry of a revision in the lock.
pub(super) fn entry(kind: ferroplane_api::PackageKind, revision: &Object, image: &str) -> LockPackage {
    let parts = ferroplane_api::image::ImageReference::parse(image);
    LockPackage {
        api_version: Some(format!("{}/v1", keys::PKG)),
        kind: Some(kind.name().to_owned()),
        name: meta::name(revision).to_owned(),
        source: parts.repository.to_owned(),
        version: parts.digest.or(parts.tag).unwrap_or_default().to_owned(),
        ..LockPackage::default()
    }
}
