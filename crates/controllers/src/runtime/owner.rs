//! Whether the owner of something that is about to be made is still there.
//!
//! Caches lag behind. The garbage collector deletes what is made for an owner that is gone; whoever hears of that and still has the owner
//! in its cache would make it again at once, and again, for as long as the cache lags. An owner that our own finalizer holds back need
//! not be asked for: it goes only once we have seen it go.

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, Query, Resource};

/// Ask the API server whether a cluster-scoped object is still the one that is known.
pub(crate) async fn is_still_there(
    cluster: &ApiClient,
    resource: &Resource,
    owner: &Object,
) -> Result<bool, Error> {
    // As a list, which everybody may have that has a cache.
    let name = format!("metadata.name={}", meta::name(owner));
    let query = Query { fields: Some(&name), metadata_only: true, ..Query::default() };
    let present = cluster.list_objects(resource, "", &query).await?;
    Ok(present.iter().any(|present| meta::uid(present) == meta::uid(owner)))
}
