//! Which composed resources exist, as far as a composite resource may know.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_engine::composite::{
    self, BadSecret, Machinery, composed_connection_details, composite_connection_secret, connection_secret,
    set_references,
};
use ferroplane_engine::{Event, Observed, Reference};
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

/// What the composite resource refers to and exists, with its connection details, and events about them.
pub(crate) fn observe(
    composite: &Composite,
    cluster: &ClusterState,
) -> anyhow::Result<(BTreeMap<String, Observed>, Vec<Event>)> {
    let Composite { object: xr, layout, .. } = composite;
    let references = Machinery::of(xr, *layout).references();
    let found = references.iter().filter_map(|reference| cluster.get(reference).cloned());
    let (mut observed, mut events) = (BTreeMap::new(), Vec::new());
    for (name, object) in composite::observe(xr, found)? {
        let secret = connection_secret(&object).and_then(|secret| cluster.referenced_secret(secret));
        let details = readable(&object, composed_connection_details(xr, &object, secret))?;
        events.extend(details.event);
        let object = Struct::try_from(object)?;
        observed.insert(name, Observed { object, connection_details: details.data });
    }
    Ok((observed, events))
}

/// The connection details of the composite resource itself.
pub(crate) fn own_connection_details(
    composite: &Composite,
    cluster: &ClusterState,
) -> anyhow::Result<BTreeMap<String, Bytes>> {
    let Composite { object: xr, layout, .. } = composite;
    let secret =
        composite_connection_secret(xr, *layout).and_then(|secret| cluster.referenced_secret(secret));
    readable(xr, composite::own_connection_details(xr, secret))
}

/// Files can have a Secret that no API server would store.
fn readable<T>(object: &Object, details: Result<T, BadSecret>) -> anyhow::Result<T> {
    let (kind, name) = (meta::kind(object), meta::name(object));
    details.with_context(|| format!("cannot read the connection secret of {kind} `{name}`"))
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
