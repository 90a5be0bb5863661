//! The `CustomResourceDefinition`s of definitions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_api::{Object, meta};
use ferroplane_client::{ObjectPath, Propagation, Resource, Subresource};
use ferroplane_engine::{NotOurs, adopt};
use ferroplane_ownership::same;
use ferroplane_schema::builtin;
use ferroplane_schema::structural::crd;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::report::DefinitionFailure;
use crate::context::Context;
use crate::setup::install::{definitions, is_established};

/// The `CustomResourceDefinition`s of one side of all definitions.
#[derive(Debug)]
pub(crate) struct CustomKinds {
    context: Arc<Context>,
    resource: Resource,
    known: Mutex<HashMap<String, Known>>,
}

/// The state of a `CustomResourceDefinition`, by its name.
#[derive(Debug)]
struct Known {
    /// The name of its definition.
    xrd: String,
    /// The desired content, and the version that has just that and is served.
    settled: Option<(Digest, u64)>,
}

type Digest = [u8; 32];

/// The result of reconciling a `CustomResourceDefinition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Objects of the kind are served.
    pub(crate) is_served: bool,
    pub(crate) change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    Created,
    Replaced,
}

impl CustomKinds {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, resource: definitions(), known: Mutex::default() }
    }

    /// The definition of a `CustomResourceDefinition`.
    pub(super) fn owner(&self, name: &str) -> Option<String> {
        self.known().get(name).map(|known| known.xrd.clone())
    }

    /// Create or update a `CustomResourceDefinition`. One that is up to date costs no request.
    pub(crate) async fn ensure(&self, xrd: &Object, wanted: &Object) -> Result<Standing, DefinitionFailure> {
        self.ensure_by(xrd, wanted, |present| adopt(present, wanted, meta::uid(xrd))).await
    }

    /// The same, with a function that updates an existing one.
    pub(crate) async fn ensure_by(
        &self,
        xrd: &Object,
        wanted: &Object,
        adopt: impl FnOnce(&Object) -> Result<Object, NotOurs>,
    ) -> Result<Standing, DefinitionFailure> {
        let name = meta::name(wanted);
        self.expect(name, xrd);
        let digest = Sha256::digest(serde_json::to_vec(wanted).unwrap_or_default()).into();
        if self.is_settled(name, digest) {
            return Ok(Standing { is_served: true, change: Change::Nothing });
        }
        let Some(present) = self.get(name).await? else {
            let created = self.context.cluster.create(&self.resource, "", wanted).await;
            let created = created.map_err(DefinitionFailure::doing("create the CustomResourceDefinition"))?;
            return Ok(Standing { is_served: self.settle(name, digest, &created), change: Change::Created });
        };
        if meta::is_being_deleted(&present) {
            // It is being deleted. It is created again when it is gone.
            return Ok(Standing { is_served: false, change: Change::Nothing });
        }
        let adopted = adopt(&present)?;
        // Compared as a server would store them: defaults and dropped fields must not look like a change, or we
        // would write for ever.
        if same(&as_stored(&present), &as_stored(&adopted)) {
            let is_served = self.settle_object(name, digest, &present);
            return Ok(Standing { is_served, change: Change::Nothing });
        }
        let replaced = self.context.cluster.replace(self.path(name), Subresource::None, &adopted).await;
        let replaced = replaced.map_err(DefinitionFailure::doing("replace the CustomResourceDefinition"))?;
        Ok(Standing { is_served: self.settle(name, digest, &replaced), change: Change::Replaced })
    }

    /// The `CustomResourceDefinition` if this definition controls it.
    pub(super) async fn owned(&self, xrd: &Object, name: &str) -> Result<Option<Object>, DefinitionFailure> {
        self.expect(name, xrd);
        let present = self.get(name).await?;
        Ok(present.filter(|present| meta::controller_uid(present) == Some(meta::uid(xrd))))
    }

    pub(super) async fn delete(&self, crd: &Object) -> Result<(), DefinitionFailure> {
        let (name, uid) = (meta::name(crd), meta::uid(crd));
        let deleted = self.context.cluster.delete(self.path(name), Some(uid), Propagation::Background).await;
        deleted.map_err(DefinitionFailure::doing("delete the CustomResourceDefinition"))
    }

    /// A definition was deleted.
    pub(super) fn forget(&self, xrd: &str) {
        self.known().retain(|_, known| known.xrd != xrd);
    }

    /// Watch changes of this one from now on.
    fn expect(&self, name: &str, xrd: &Object) {
        let mut known = self.known();
        let entry = Known { xrd: meta::name(xrd).to_owned(), settled: None };
        known.entry(name.to_owned()).or_insert(entry);
    }

    fn is_settled(&self, name: &str, digest: Digest) -> bool {
        let Some(held) = self.context.kinds.get("", name) else { return false };
        // By its version, not by its content: every write is checked.
        let settled = self.known().get(name).and_then(|known| known.settled);
        settled == Some((digest, held.version))
    }

    /// Remember a write if it is served. Returns whether it is.
    fn settle(&self, name: &str, digest: Digest, bytes: &[u8]) -> bool {
        let object: Option<Object> = serde_json::from_slice(bytes).ok();
        object.is_some_and(|object| self.settle_object(name, digest, &object))
    }

    fn settle_object(&self, name: &str, digest: Digest, crd: &Object) -> bool {
        let is_served = is_established(crd);
        // One that is not served yet is checked again, even without a write.
        let version = meta::resource_version(crd).parse().ok().filter(|_| is_served);
        if let Some(known) = self.known().get_mut(name) {
            known.settled = version.map(|version| (digest, version));
        }
        is_served
    }

    async fn get(&self, name: &str) -> Result<Option<Object>, DefinitionFailure> {
        let object = self.context.cluster.get_object(self.path(name)).await;
        object.map_err(DefinitionFailure::doing("read the CustomResourceDefinition"))
    }

    fn path<'p>(&'p self, name: &'p str) -> ObjectPath<'p> {
        ObjectPath { resource: &self.resource, namespace: "", name }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An approximation of how an API server stores it: unknown fields are dropped, and defaults are set.
fn as_stored(definition: &Object) -> Value {
    let kind = builtin::kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let whole = Value::Object(definition.clone());
    let Some(Ok(read)) = kind.map(|kind| kind.read(&whole)) else { return whole };
    let mut object = read.object;
    crd::default(&mut object);
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    Value::Object(object)
}
