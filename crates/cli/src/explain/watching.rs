//! Waits until something changes that a tree shows.

use std::collections::BTreeMap;
use std::time::Duration;

use ferroplane_client::WatchEvent;
use ferroplane_explain::{Id, Node};
use tokio::task::JoinSet;

use super::Inquiry;
use super::reader::Reader;

/// What comes in a row is one change.
const ROW: Duration = Duration::from_millis(60);

/// The kinds, and where, that a tree is made of, and the version at which they are.
pub(crate) type Versions = BTreeMap<(String, String, String), String>;

impl Inquiry {
    /// At which versions all is that a tree shows.
    pub(crate) async fn versions(&self, tree: &Node) -> anyhow::Result<Versions> {
        let mut versions = Versions::new();
        places(tree, &mut versions);
        for ((api_version, kind, namespace), version) in &mut versions {
            if let Some(resource) = self.reader.catalogue().get(api_version, kind) {
                *version = self.reader.version(resource, namespace).await?;
            }
        }
        Ok(versions)
    }

    /// Until something of it has changed since then. What cannot be watched does not change.
    pub(crate) async fn changed_since(&self, versions: Versions) {
        let mut watches = JoinSet::new();
        for ((api_version, kind, namespace), version) in versions {
            let reader = self.reader.clone();
            watches.spawn(async move { watch(&reader, &api_version, &kind, &namespace, &version).await });
        }
        while let Some(ended) = watches.join_next().await {
            if matches!(ended, Ok(true)) {
                tokio::time::sleep(ROW).await;
                return;
            }
        }
        // Nothing can be watched.
        std::future::pending::<()>().await;
    }
}

fn places(node: &Node, versions: &mut Versions) {
    let Id { api_version, kind, namespace, .. } = &node.id;
    versions.insert((api_version.clone(), kind.clone(), namespace.clone()), String::new());
    for child in &node.children {
        places(child, versions);
    }
}

/// Whether there was a change, or the watch ended and there may have been one.
async fn watch(reader: &Reader, api_version: &str, kind: &str, namespace: &str, version: &str) -> bool {
    let Some(resource) = reader.catalogue().get(api_version, kind) else { return false };
    let Ok(mut watch) = reader.watch(resource, namespace, version).await else { return false };
    while let Ok(Some(WatchEvent::Bookmark(_))) = watch.next().await {}
    true
}
