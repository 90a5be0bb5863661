//! The objects that the client of a plan may read, as the API server says.

use std::collections::BTreeMap;

use ferroplane_client::ApiClient;
use ferroplane_engine::changes::ObjectName;

use super::super::rights::may;

/// Whether objects may be read; the API server is asked once for each kind and namespace.
pub(super) struct Access<'a> {
    caller: &'a ApiClient,
    known: BTreeMap<(String, String, String), bool>,
}

impl<'a> Access<'a> {
    pub(super) fn of(caller: &'a ApiClient) -> Self {
        Self { caller, known: BTreeMap::new() }
    }

    /// Whether an object may be read. If that is unknown, it may not.
    pub(super) async fn may_get(&mut self, object: &ObjectName) -> bool {
        let ObjectName { api_version, kind, namespace, .. } = object;
        let key = (api_version.clone(), kind.clone(), namespace.clone());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let resource = self.caller.resource(api_version, kind).await.ok().flatten();
        let is_allowed = match resource {
            Some(resource) => may(self.caller, "get", &resource, namespace).await == Some(true),
            None => false,
        };
        self.known.insert(key, is_allowed);
        is_allowed
    }
}
