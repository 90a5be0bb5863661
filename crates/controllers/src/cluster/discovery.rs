//! Which kinds the API server has, and what they are called in paths. Learned when needed, forgotten when kinds change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::meta;
use serde::Deserialize;

use super::{Cluster, Error, Resource};

type Kinds = HashMap<String, Arc<Resource>>;

/// What was learned about kinds.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    groups: Mutex<Learned>,
}

#[derive(Debug, Default)]
struct Learned {
    /// Counts how often everything was forgotten: an answer that was asked for before must not be kept after.
    era: u64,
    groups: HashMap<String, Arc<Kinds>>,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}

impl Discovery {
    /// None if there is no such kind, as of now.
    pub(super) async fn resource(
        &self,
        cluster: &Cluster,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Arc<Resource>>, Error> {
        if !is_api_version(api_version) {
            return Ok(None);
        }
        let (era, known) = self.recall(api_version);
        if let Some(resource) = known.and_then(|kinds| kinds.get(kind).cloned()) {
            return Ok(Some(resource));
        }
        // A kind that is not known may have come since.
        let kinds = Arc::new(learn(cluster, api_version).await?);
        let resource = kinds.get(kind).cloned();
        let mut learned = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.era == era {
            learned.groups.insert(api_version.to_owned(), kinds);
        }
        Ok(resource)
    }

    pub(super) fn forget(&self) {
        let mut learned = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        learned.era += 1;
        learned.groups.clear();
    }

    fn recall(&self, api_version: &str) -> (u64, Option<Arc<Kinds>>) {
        let learned = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        (learned.era, learned.groups.get(api_version).cloned())
    }
}

/// Functions and users choose it, and it becomes part of a path.
fn is_api_version(text: &str) -> bool {
    let is_plain = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
        !part.is_empty() && part.bytes().all(plain) && !part.bytes().all(|byte| byte == b'.')
    };
    text.split('/').count() <= 2 && text.split('/').all(is_plain)
}

async fn learn(cluster: &Cluster, api_version: &str) -> Result<Kinds, Error> {
    let root = if meta::group(api_version).is_empty() { "/api" } else { "/apis" };
    let Some(bytes) = cluster.read(&format!("{root}/{api_version}")).await? else { return Ok(Kinds::new()) };
    let list: ResourceList = serde_json::from_slice(&bytes).map_err(Error::garbled)?;
    // Parts of objects are listed too, as `plural/part`.
    let whole = list.resources.into_iter().filter(|entry| !entry.name.contains('/'));
    let kinds = whole.map(|entry| {
        let resource = Resource {
            api_version: api_version.to_owned(),
            kind: entry.kind.clone(),
            plural: entry.name,
            is_namespaced: entry.namespaced,
        };
        (entry.kind, Arc::new(resource))
    });
    Ok(kinds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_apis_become_paths() {
        for version in ["v1", "apps/v1", "a.b-c.io/v1beta1"] {
            assert!(is_api_version(version), "{version}");
        }
        for version in ["", "/", "v1/", "a/b/c", "../v1", "v1?x", "a b", "V1", ".."] {
            assert!(!is_api_version(version), "{version}");
        }
    }
}
