//! Checks whether the owner of an object still exists before the object is created.
//!
//! Caches lag behind. The garbage collector deletes objects whose owner was deleted; a controller that sees that deletion while its cache
//! still has the owner would create the object again, repeatedly, until the cache is up to date. An owner with our own finalizer need not
//! be checked: it is deleted only after we have removed that.

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, Query, Resource};

/// Whether a cluster-scoped object still exists, with the same uid.
pub(crate) async fn is_still_there(
    cluster: &ApiClient,
    resource: &Resource,
    owner: &Object,
) -> Result<bool, Error> {
    // As a list, which every client with a cache may request.
    let name = format!("metadata.name={}", meta::name(owner));
    let query = Query { fields: Some(&name), metadata_only: true, ..Query::default() };
    let present = cluster.list_objects(resource, "", &query).await?;
    Ok(present.iter().any(|present| meta::uid(present) == meta::uid(owner)))
}
