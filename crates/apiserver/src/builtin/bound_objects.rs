//! Finds what tokens of service accounts are bound to.

use std::sync::Arc;

use serde_json::Value;

use crate::Server;
use crate::auth::authenticate::{BoundKind, BoundObject, Found, Lookup};
use crate::store::Store;

impl Server {
    /// Looks for what a token is bound to, in what is stored now.
    pub fn bound_object_lookup(&self) -> Box<Lookup> {
        let state = Arc::downgrade(&self.state);
        Box::new(move |object| find(&state.upgrade()?.store, object))
    }
}

fn find(store: &Store, object: BoundObject<'_>) -> Option<Found> {
    let collection = match object.kind {
        BoundKind::ServiceAccount => super::SERVICE_ACCOUNTS,
        BoundKind::Secret => "/secrets",
        BoundKind::Pod => "/pods",
        BoundKind::Node => "/nodes",
    };
    let entry = store.get(&store.collection(collection).key(object.namespace, object.name))?;
    let mut found = Found { uid: entry.metadata().uid.to_string(), ..Found::default() };
    if entry.metadata().is_terminating || object.kind == BoundKind::Pod {
        let value: Value = serde_json::from_slice(entry.bytes()).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        found.deleted = text(&value["metadata"]["deletionTimestamp"]).and_then(|time| time.parse().ok());
        found.service_account = text(&value["spec"]["serviceAccountName"]).unwrap_or_default();
    }
    Some(found)
}
