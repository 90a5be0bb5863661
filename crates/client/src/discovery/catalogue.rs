//! All kinds of the API server, with their names.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::{ApiResource, served};
use crate::{ApiClient, Error, Resource};

/// Asks for all groups in one answer, and understands what an older server answers instead.
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// All kinds, in the order in which the server prefers them.
#[derive(Debug, Default)]
pub struct ResourceCatalogue {
    entries: Vec<ServedResource>,
    /// By API version and kind.
    index: HashMap<(String, String), usize>,
}

#[derive(Debug)]
struct ServedResource {
    resource: Arc<Resource>,
    /// Plural, singular, short names and kind, in lower case.
    names: Vec<String>,
}

/// The aggregated discovery document.
#[derive(Deserialize)]
struct ApiGroupDiscoveryList {
    items: Vec<GroupDiscovery>,
}

#[derive(Deserialize)]
struct GroupDiscovery {
    #[serde(default)]
    metadata: GroupMetadata,
    #[serde(default)]
    versions: Vec<VersionDiscovery>,
}

#[derive(Default, Deserialize)]
struct GroupMetadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default)]
    resources: Vec<ResourceDiscovery>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    #[serde(default)]
    response_kind: ResponseKind,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    short_names: Vec<String>,
}

#[derive(Default, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

impl ResourceCatalogue {
    pub(crate) async fn read(client: &ApiClient) -> Result<Self, Error> {
        let mut catalogue = Self::default();
        let (core, others) =
            tokio::try_join!(client.read_as("/api", AGGREGATED), client.read_as("/apis", AGGREGATED))?;
        for answer in [core, others] {
            let answer: Value = serde_json::from_slice(&answer).map_err(Error::invalid_answer)?;
            if answer["kind"] == "APIGroupDiscoveryList" {
                let list = serde_json::from_value(answer).map_err(Error::invalid_answer)?;
                catalogue.add_groups(list);
            } else {
                catalogue.read_one_by_one(client, &answer).await?;
            }
        }
        Ok(catalogue)
    }

    /// Older servers tell of each group alone. A group that cannot be read is left out.
    async fn read_one_by_one(&mut self, client: &ApiClient, answer: &Value) -> Result<(), Error> {
        let groups = answer["groups"].as_array().into_iter().flatten();
        let preferred = groups.filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
        let core = answer["versions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for api_version in preferred.chain(core) {
            match served(client, api_version).await {
                Ok(served) => self.add_version(api_version, &served),
                Err(Error::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add_groups(&mut self, list: ApiGroupDiscoveryList) {
        for group in list.items {
            for version in group.versions {
                let api_version = match group.metadata.name.as_str() {
                    "" => version.version,
                    name => format!("{name}/{}", version.version),
                };
                for found in version.resources {
                    let resource = Resource {
                        api_version: api_version.clone(),
                        kind: found.response_kind.kind,
                        plural: found.resource,
                        is_namespaced: found.scope == "Namespaced",
                    };
                    self.add(resource.into(), &found.singular_resource, &found.short_names);
                }
            }
        }
    }

    fn add_version(&mut self, api_version: &str, served: &[ApiResource]) {
        for entry in served {
            self.add(entry.resource(api_version), &entry.singular_name, &entry.short_names);
        }
    }

    fn add(&mut self, resource: Arc<Resource>, singular: &str, short_names: &[String]) {
        let names = [resource.plural.as_str(), singular, resource.kind.as_str()].into_iter();
        let names = names.chain(short_names.iter().map(String::as_str));
        // What has no singular name is not called by an empty one.
        let names = names.filter(|name| !name.is_empty()).map(str::to_lowercase).collect();
        let key = (resource.api_version.clone(), resource.kind.clone());
        // The first wins, because the server lists what it prefers first.
        self.index.entry(key).or_insert(self.entries.len());
        self.entries.push(ServedResource { resource, names });
    }

    /// All kinds, in all versions.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.entries.iter().map(|entry| entry.resource.as_ref())
    }

    pub fn get(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let index = self.index.get(&(api_version.to_owned(), kind.to_owned()))?;
        self.entries.get(*index).map(|entry| &entry.resource)
    }

    /// The same kind in any version, if it is not served in this one.
    pub fn get_any_version(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let is_it = |it: &&Arc<Resource>| it.kind == kind && it.group() == group;
        self.get(api_version, kind).or_else(|| self.entries.iter().map(|entry| &entry.resource).find(is_it))
    }

    /// What people mean by `app`, `apps`, `App`, `app.example.org` or `apps.v1.example.org`.
    pub fn find(&self, word: &str) -> Option<&Arc<Resource>> {
        let word = word.to_lowercase();
        self.entries.iter().find(|entry| entry.is_called(&word)).map(|entry| &entry.resource)
    }
}

impl ServedResource {
    /// Whether a word in lower case means this kind.
    fn is_called(&self, word: &str) -> bool {
        let (group, version) = (self.resource.group(), self.resource.version());
        self.names.iter().any(|name| {
            let Some(rest) = word.strip_prefix(name.as_str()) else { return false };
            rest.is_empty()
                || rest.strip_prefix('.').is_some_and(|rest| {
                    rest == group
                        || rest == version
                        || rest.strip_prefix(version).and_then(|it| it.strip_prefix('.')) == Some(group)
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_called_in_many_ways() {
        let mut catalogue = ResourceCatalogue::default();
        let core = json!({"resources": [
            {"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "shortNames": ["cm"], "singularName": "configmap"},
            {"name": "configmaps/x", "kind": "X"},
        ]});
        catalogue.add_version("v1", &ApiResource::read_list(core.to_string().as_bytes()).unwrap());
        let app = json!({"resource": "apps", "singularResource": "app", "scope": "Cluster", "responseKind": {"kind": "App"}});
        let groups = json!({"items": [{"metadata": {"name": "e.org"}, "versions": [{"version": "v2", "resources": [app]}]}]});
        catalogue.add_groups(serde_json::from_value(groups).unwrap());
        for word in ["cm", "configmap", "ConfigMaps", "configmap.v1"] {
            assert_eq!(catalogue.find(word).unwrap().kind, "ConfigMap", "{word}");
        }
        for word in ["app", "App", "apps", "app.e.org", "Apps.v2.e.org"] {
            assert_eq!(catalogue.find(word).unwrap().api_version, "e.org/v2", "{word}");
        }
        for word in ["", "ap", "appsx", "app.", "app.e", "x", "app.v3.e.org"] {
            assert_eq!(catalogue.find(word), None, "{word}");
        }
        assert!(!catalogue.get("e.org/v2", "App").unwrap().is_namespaced);
    }
}
