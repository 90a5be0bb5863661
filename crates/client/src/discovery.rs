//! Which kinds the API server has, and what they are called in paths. Learned when needed, forgotten when kinds change.

mod catalogue;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::resource::group_version_path;
use crate::{ApiClient, Error, Resource};
pub use catalogue::ResourceCatalogue;

type Kinds = HashMap<String, Arc<Resource>>;

/// The kinds that were looked up, by version of an API group.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    learned: Mutex<Learned>,
}

#[derive(Debug, Default)]
struct Learned {
    /// Counts how often everything was forgotten: an answer that was asked for before must not be kept after.
    era: u64,
    kinds: HashMap<String, Arc<Kinds>>,
}

/// The `APIResourceList` of a version of an API group.
#[derive(Deserialize)]
struct ApiResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    short_names: Vec<String>,
}

impl Discovery {
    /// None if there is no such kind now.
    pub(crate) async fn resource(
        &self,
        client: &ApiClient,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Arc<Resource>>, Error> {
        let (era, known) = self.recall(api_version);
        if let Some(resource) = known.and_then(|kinds| kinds.get(kind).cloned()) {
            return Ok(Some(resource));
        }
        // A kind that is not known may have come since.
        Ok(self.ask(client, api_version, era).await?.get(kind).cloned())
    }

    /// The same, by the name that a kind has in paths.
    pub(crate) async fn resource_of_plural(
        &self,
        client: &ApiClient,
        api_version: &str,
        plural: &str,
    ) -> Result<Option<Arc<Resource>>, Error> {
        let find = |kinds: &Kinds| kinds.values().find(|it| it.plural == plural).cloned();
        let (era, known) = self.recall(api_version);
        if let Some(resource) = known.as_deref().and_then(find) {
            return Ok(Some(resource));
        }
        let kinds = self.ask(client, api_version, era).await?;
        Ok(find(&kinds))
    }

    /// What the API server says now. It is the answer to a client that asks, also if everything is forgotten meanwhile; then it is not kept.
    async fn ask(&self, client: &ApiClient, api_version: &str, era: u64) -> Result<Arc<Kinds>, Error> {
        if !is_api_version(api_version) {
            return Ok(Arc::default());
        }
        let kinds = Arc::new(learn(client, api_version).await?);
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.era == era {
            learned.kinds.insert(api_version.to_owned(), kinds.clone());
        }
        Ok(kinds)
    }

    pub(crate) fn forget(&self) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learned.era += 1;
        learned.kinds.clear();
    }

    fn recall(&self, api_version: &str) -> (u64, Option<Arc<Kinds>>) {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        (learned.era, learned.kinds.get(api_version).cloned())
    }
}

/// The versions of a group, as `/apis/<group>` lists them.
#[derive(Deserialize)]
struct ApiGroup {
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

impl ApiClient {
    /// What a group serves now, in all versions, the one that the server prefers first. Nothing if there is no such group. The core group
    /// has no name, and one version.
    pub async fn resources_of_group(&self, group: &str) -> Result<Vec<Arc<Resource>>, Error> {
        let mut resources = Vec::new();
        for api_version in versions(self, group).await? {
            let served = served(self, &api_version).await?;
            resources.extend(served.iter().map(|entry| entry.resource(&api_version)));
        }
        Ok(resources)
    }

    /// Whether the server serves a kind in this version now, whatever was learned before.
    pub async fn is_served(&self, resource: &Resource) -> Result<bool, Error> {
        let served = served(self, &resource.api_version).await?;
        Ok(served.iter().any(|entry| entry.kind == resource.kind && entry.name == resource.plural))
    }
}

async fn versions(client: &ApiClient, group: &str) -> Result<Vec<String>, Error> {
    if group.is_empty() {
        return Ok(vec!["v1".to_owned()]);
    }
    if group.contains('/') || !is_api_version(group) {
        return Ok(Vec::new());
    }
    let Some(bytes) = client.read(&format!("/apis/{group}")).await? else { return Ok(Vec::new()) };
    let group: ApiGroup = serde_json::from_slice(&bytes).map_err(Error::invalid_answer)?;
    Ok(group.versions.into_iter().map(|version| version.group_version).collect())
}

impl ApiResource {
    fn read_list(bytes: &[u8]) -> Result<Vec<Self>, Error> {
        let mut list: ApiResourceList = serde_json::from_slice(bytes).map_err(Error::invalid_answer)?;
        // Subresources are listed too, as `plural/subresource`.
        list.resources.retain(|entry| !entry.name.contains('/'));
        Ok(list.resources)
    }

    fn resource(&self, api_version: &str) -> Arc<Resource> {
        Arc::new(Resource {
            api_version: api_version.to_owned(),
            kind: self.kind.clone(),
            plural: self.name.clone(),
            is_namespaced: self.namespaced,
        })
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

async fn learn(client: &ApiClient, api_version: &str) -> Result<Kinds, Error> {
    let served = served(client, api_version).await?;
    Ok(served.iter().map(|entry| (entry.kind.clone(), entry.resource(api_version))).collect())
}

/// What a version of an API group serves. Nothing if there is no such version.
async fn served(client: &ApiClient, api_version: &str) -> Result<Vec<ApiResource>, Error> {
    let Some(bytes) = client.read(&group_version_path(api_version)).await? else { return Ok(Vec::new()) };
    ApiResource::read_list(&bytes)
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
