//! Which composed resources exist, as far as a composite resource may know.

use std::collections::BTreeMap;

use anyhow::bail;
use ferroplane_api::{Object, meta};
use ferroplane_engine::composite::{self, Machinery, set_references};
use ferroplane_engine::{Observed, Reference};
use ferroplane_wire::Struct;

use super::cluster_state::ClusterState;
use super::composite::Composite;

/// Let what is given exist, and have the composite resource refer to it.
pub(crate) fn refer_to(
    composite: &mut Composite,
    given: Vec<Object>,
    cluster: &mut ClusterState,
) -> anyhow::Result<()> {
    if given.is_empty() {
        return Ok(());
    }
    refuse_foreign(&composite.object, &given)?;
    // Only one without a namespace may refer into namespaces; the others' references name none.
    let is_cluster = meta::namespace(&composite.object).is_empty();
    // A composite resource observes what it refers to, so that files are referred to as if an earlier reconcile had made them.
    let references: Vec<_> = given.iter().map(|object| Reference::to(object, is_cluster)).collect();
    set_references(&mut composite.object, composite.layout, &references);
    for object in given {
        cluster.add(object)?;
    }
    Ok(())
}

/// What the composite resource refers to and exists, with its connection details.
pub(crate) fn observe(
    composite: &Composite,
    cluster: &ClusterState,
) -> anyhow::Result<BTreeMap<String, Observed>> {
    let references = Machinery::of(&composite.object, composite.layout).references();
    let found = references.iter().filter_map(|reference| cluster.get(reference).cloned());
    let observed = composite::observe(&composite.object, found)?.into_iter().map(|(name, object)| {
        let connection_details =
            cluster.connection_details(&object, composite::connection_secret(&object))?;
        Ok((name, Observed { object: Struct::try_from(object)?, connection_details }))
    });
    observed.collect()
}

/// Objects with another controller are not observed, so that passing one is a mistake.
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
