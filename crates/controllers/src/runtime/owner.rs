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
    let present = present(cluster, resource, owner).await?;
    Ok(present.iter().any(|present| meta::uid(present) == meta::uid(owner)))
}

/// Whether a cluster-scoped object is still the one that something was decided about: with the same uid and spec, and not being deleted.
pub(crate) async fn is_unchanged(
    cluster: &ApiClient,
    resource: &Resource,
    object: &Object,
) -> Result<bool, Error> {
    let is_same = |present: &Object| {
        meta::uid(present) == meta::uid(object)
            && meta::generation(present) == meta::generation(object)
            && !meta::is_being_deleted(present)
    };
    Ok(present(cluster, resource, object).await?.iter().any(is_same))
}

/// The metadata of the object of this name, if there is one.
async fn present(cluster: &ApiClient, resource: &Resource, object: &Object) -> Result<Vec<Object>, Error> {
    // As a list, which every client with a cache may request.
    let name = format!("metadata.name={}", meta::name(object));
    let query = Query { fields: Some(&name), metadata_only: true, ..Query::default() };
    cluster.list_objects(resource, "", &query).await
}
