//! Installs the platform of the demo. Leaves existing objects as they are.

use anyhow::Context as _;
use ferroplane_api::{Object, meta};
use ferroplane_client::{
    ApiClient, ApplyOptions, Error, InformerScope, ObjectPath, Query, Resource, Subresource,
};
use serde_json::Value;

use super::{CLOUD, PATIENCE, selector};
use crate::up::follow::Followed;

const CRDS: &str = include_str!("../../../../../examples/demo/crds.yaml");
const XRD: &str = include_str!("../../../../../examples/demo/xrd.yaml");
const COMPOSITION: &str = include_str!("../../../../../examples/demo/composition.yaml");
const COMPOSITES: &str = include_str!("../../../../../examples/demo/xr.yaml");
const OPERATIONS: &str = include_str!("../../../../../examples/demo/operations.yaml");
/// Who owns what is installed, and how it is applied.
const OPTIONS: ApplyOptions<'_> =
    ApplyOptions { field_manager: "ferroplane/demo", is_forced: true, is_strict: true };

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
pub(super) fn backends() -> Resource {
    resource("platform.demo.ferroplane.io/v1", "Backend", true)
}

/// A kind of the cloud that is simulated.
pub(super) fn cloud(kind: &str) -> Resource {
    resource(&format!("{CLOUD}/v1"), kind, true)
}

fn crds() -> Resource {
    resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", false)
}

fn xrds() -> Resource {
    resource("apiextensions.crossplane.io/v2", "CompositeResourceDefinition", false)
}

fn compositions() -> Resource {
    resource("apiextensions.crossplane.io/v1", "Composition", false)
}

fn cron_operations() -> Resource {
    resource("ops.crossplane.io/v1alpha1", "CronOperation", false)
}

fn resource(api_version: &str, kind: &str, is_namespaced: bool) -> Resource {
    let plural = format!("{}s", kind.to_lowercase());
    Resource { api_version: api_version.to_owned(), kind: kind.to_owned(), plural, is_namespaced }
}

/// Install kinds and what is composed of them, and wait until they are served.
pub(super) async fn install_definitions(client: &ApiClient) -> anyhow::Result<Found> {
    // Compositions check what they compose; kinds come first, and all of them at once.
    let (crds_found, xrd_found, composition_found) = tokio::try_join!(
        put_missing(client, crds(), CRDS),
        put_missing(client, xrds(), XRD),
        put_missing(client, compositions(), COMPOSITION),
    )?;
    let number = read_embedded(CRDS)?.len();
    let established = async {
        tokio::join!(until_established(client, crds(), number), until_established(client, xrds(), 1))
    };
    // Whatever is wrong with them, who needs them will say it.
    let _ = tokio::time::timeout(PATIENCE, established).await;
    Ok(crds_found.and(xrd_found).and(composition_found))
}

/// Ask for what two teams ask for.
pub(super) async fn install_composites(client: &ApiClient) -> anyhow::Result<Found> {
    put_missing(client, backends(), COMPOSITES).await
}

/// Have day-two work ready to be tried.
pub(super) async fn install_operations(client: &ApiClient) -> anyhow::Result<Found> {
    put_missing(client, cron_operations(), OPERATIONS).await
}

/// Whether the demo was installed here.
pub(super) async fn is_installed(client: &ApiClient) -> bool {
    let labels = selector();
    let query = Query { labels: Some(&labels), ..Query::default() };
    client.list_objects(&xrds(), "", &query).await.is_ok_and(|found| !found.is_empty())
}

/// What a user changed stays changed, and who wants the original back deletes it.
async fn put_missing(client: &ApiClient, resource: Resource, text: &str) -> anyhow::Result<Found> {
    let wanted = read_embedded(text)?;
    let mut missing = 0;
    for object in &wanted {
        let target =
            ObjectPath { resource: &resource, namespace: meta::namespace(object), name: meta::name(object) };
        if client.get(target).await?.is_none() {
            missing += 1;
            let applied = client.apply_with(target, Subresource::None, OPTIONS, object).await;
            applied.map_err(|error| named(error, object))?;
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
async fn until_established(client: &ApiClient, resource: Resource, number: usize) {
    let scope = InformerScope { labels: selector(), ..InformerScope::new(resource.into()) };
    let definitions = Followed::start(client, scope);
    let is_established = |definition: &&Object| is_true(definition, "Established");
    while definitions.informer().objects().iter().filter(is_established).count() < number {
        definitions.changed().await;
    }
}

/// The objects of a text of ours.
fn read_embedded(text: &str) -> anyhow::Result<Vec<Object>> {
    serde_saphyr::from_multiple(text).context("cannot read the manifests of the demo")
}

/// Whether an object has a condition, and it is true.
pub(super) fn is_true(object: &Object, kind: &str) -> bool {
    conditions(object).any(|condition| condition["type"] == kind && condition["status"] == "True")
}

pub(super) fn conditions(object: &Object) -> impl Iterator<Item = &Value> {
    let conditions = object.get("status").and_then(|status| status.get("conditions")?.as_array());
    conditions.into_iter().flatten()
}
