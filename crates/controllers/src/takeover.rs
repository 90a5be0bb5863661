//! Ends the ownership of fields from before objects were applied.

use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Subresource};
use ferroplane_engine::managers_to_keep;
use serde_json::json;

/// End it, if there is any. Returns the result.
pub(crate) async fn take_over(
    cluster: &ApiClient,
    target: ObjectPath<'_>,
    live: &Object,
    is_ours: impl Fn(&str) -> bool,
) -> Result<Option<Bytes>, Error> {
    let Some(managers) = managers_to_keep(live, is_ours) else { return Ok(None) };
    let version = meta::resource_version(live);
    let patch =
        json!({"metadata": {"managedFields": managers, "resourceVersion": version, "uid": meta::uid(live)}});
    match cluster.merge(target, Subresource::None, &patch).await {
        Err(error) if error.is_not_found() => Ok(None),
        result => result.map(Some),
    }
}
