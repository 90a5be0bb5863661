//! Installs the platform of the demo. What is there already is left as it is.

use ferroplane_api::{Object, meta};
use serde_json::Value;

use super::{PATIENCE, SELECTOR};
use crate::up::follow::{Seen, follow};
use crate::up::objects::{Error, Force, Kind, Objects, read_embedded};

const CRDS: &str = include_str!("../../../../../examples/demo/crds.yaml");
const XRD: &str = include_str!("../../../../../examples/demo/xrd.yaml");
const COMPOSITION: &str = include_str!("../../../../../examples/demo/composition.yaml");
const COMPOSITES: &str = include_str!("../../../../../examples/demo/xr.yaml");
/// Owns what is installed.
const MANAGER: &str = "ferroplane/demo";

/// What of the demo was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Some,
    Everything,
}

impl Found {
    pub(super) fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Some }
    }
}

/// The kind of the composite resources.
pub(super) fn backends() -> Kind {
    Kind::new("platform.demo.ferroplane.io/v1", "backends", true)
}

/// The kinds of the cloud that is simulated.
pub(super) fn cloud(plural: &str) -> Kind {
    Kind::new("cloud.demo.ferroplane.io/v1", plural, true)
}

fn crds() -> Kind {
    Kind::new("apiextensions.k8s.io/v1", "customresourcedefinitions", false)
}

fn xrds() -> Kind {
    Kind::new("apiextensions.crossplane.io/v2", "compositeresourcedefinitions", false)
}

fn compositions() -> Kind {
    Kind::new("apiextensions.crossplane.io/v1", "compositions", false)
}

/// Install kinds and what is composed of them, and wait until they are served.
pub(super) async fn install_definitions(objects: &Objects) -> anyhow::Result<Found> {
    // Compositions check what they compose; kinds come first, and all of them at once.
    let (crds_found, xrd_found, composition_found) = tokio::try_join!(
        put_missing(objects, crds(), CRDS),
        put_missing(objects, xrds(), XRD),
        put_missing(objects, compositions(), COMPOSITION),
    )?;
    let number = read_embedded(CRDS)?.len();
    let established = async {
        tokio::join!(until_established(objects, crds(), number), until_established(objects, xrds(), 1))
    };
    // Whatever is wrong with them, who needs them will say it.
    let _ = tokio::time::timeout(PATIENCE, established).await;
    Ok(crds_found.and(xrd_found).and(composition_found))
}

/// Ask for what two teams ask for.
pub(super) async fn install_composites(objects: &Objects) -> anyhow::Result<Found> {
    put_missing(objects, backends(), COMPOSITES).await
}

/// Whether the demo was installed here.
pub(super) async fn is_installed(objects: &Objects) -> bool {
    objects.list(&xrds(), SELECTOR).await.is_ok_and(|(found, _)| !found.is_empty())
}

/// What somebody changed stays changed, and who wants the original back deletes it.
async fn put_missing(objects: &Objects, kind: Kind, text: &str) -> anyhow::Result<Found> {
    let wanted = read_embedded(text)?;
    let mut missing = 0;
    for object in &wanted {
        if objects.get(&kind, object).await?.is_none() {
            missing += 1;
            objects.apply(&kind, object, MANAGER, Force::Yes).await.map_err(|error| named(error, object))?;
        }
    }
    Ok(match missing {
        0 => Found::Everything,
        missing if missing == wanted.len() => Found::Nothing,
        _ => Found::Some,
    })
}

fn named(error: Error, object: &Object) -> anyhow::Error {
    let subject = format!("{} `{}`", meta::kind(object), meta::name(object));
    anyhow::Error::new(error).context(format!("cannot install {subject} of the demo"))
}

/// Waits until so many definitions are in use.
async fn until_established(objects: &Objects, kind: Kind, number: usize) {
    let mut established = std::collections::BTreeSet::new();
    let mut seen = follow(objects.clone(), kind, SELECTOR);
    while let Some(seen) = seen.recv().await {
        let some = match seen {
            Seen::All(all) => all,
            Seen::Put(object) => vec![object],
            Seen::Gone(_) => continue,
        };
        let served = some.iter().filter(|definition| is_true(definition, "Established"));
        established.extend(served.map(|definition| meta::name(definition).to_owned()));
        if established.len() >= number {
            return;
        }
    }
}

/// Whether an object has a condition, and it is true.
pub(super) fn is_true(object: &Object, kind: &str) -> bool {
    conditions(object).any(|condition| condition["type"] == kind && condition["status"] == "True")
}

pub(super) fn conditions(object: &Object) -> impl Iterator<Item = &Value> {
    let conditions = object.get("status").and_then(|status| status.get("conditions")?.as_array());
    conditions.into_iter().flatten()
}
