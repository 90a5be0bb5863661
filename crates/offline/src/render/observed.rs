//! Which composed resources exist, as far as a composite resource may know.

use std::collections::BTreeMap;

use anyhow::bail;
use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::Reference;

use super::cluster_state::ClusterState;
use super::composite::Composite;

/// What is observed: what was given, or else what the composite resource refers to and exists.
pub(crate) fn observe(
    composite: &mut Composite,
    given: Vec<Object>,
    cluster: &mut ClusterState,
) -> anyhow::Result<BTreeMap<String, Object>> {
    if !given.is_empty() {
        refuse_foreign(composite.object(), &given)?;
        let is_cluster = meta::namespace(composite.object()).is_empty();
        let references: Vec<_> = given.iter().map(|object| Reference::to(object, is_cluster)).collect();
        composite.refer_to(&references);
        for object in given {
            cluster.add(object)?;
        }
    }
    let mut observed = BTreeMap::new();
    for mut reference in composite.references() {
        let namespace = meta::namespace(composite.object());
        if !namespace.is_empty() {
            reference.namespace = Some(namespace.to_owned());
        }
        let Some(object) = cluster.get(&reference) else { continue };
        let controller = meta::controller_uid(object);
        if controller.is_some_and(|uid| uid != meta::uid(composite.object())) {
            continue;
        }
        let name = meta::annotation(object, keys::RESOURCE_NAME);
        if name.is_empty() {
            bail!(
                "observed resource `{}` ({}) has no annotation `{}`, so nobody knows which composed resource it is",
                meta::name(object),
                meta::kind(object),
                keys::RESOURCE_NAME
            );
        }
        observed.insert(name.to_owned(), object.clone());
    }
    Ok(observed)
}

/// What belongs to something else is not observed, and whoever gives it is mistaken.
fn refuse_foreign(xr: &Object, observed: &[Object]) -> anyhow::Result<()> {
    for object in observed {
        let name = meta::name(object);
        let controller = meta::controller_uid(object);
        if controller.is_some_and(|uid| uid != meta::uid(xr)) {
            bail!("observed resource `{name}` is controlled by something else than the composite resource");
        }
        if !meta::namespace(xr).is_empty() && meta::namespace(object) != meta::namespace(xr) {
            bail!("observed resource `{name}` is not in the namespace of the composite resource");
        }
    }
    Ok(())
}
