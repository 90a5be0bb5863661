//! Which kinds an API server has, and what people call them.

use std::collections::HashMap;

use ferroplane_api::meta;
use serde_json::Value;

/// A kind of object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    singular: String,
    short: Vec<String>,
}

/// All kinds, in the order in which the server prefers them.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    kinds: Vec<Resource>,
    places: HashMap<(String, String), usize>,
}

impl Kinds {
    /// What the server says of groups, in one answer for all of them.
    pub(super) fn add_groups(&mut self, answer: &Value) {
        for group in list(answer, "items") {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in list(group, "versions") {
                let version_name = version["version"].as_str().unwrap_or_default();
                let api_version =
                    if name.is_empty() { version_name.to_owned() } else { format!("{name}/{version_name}") };
                for resource in list(version, "resources") {
                    self.add(Resource {
                        api_version: api_version.clone(),
                        kind: text(&resource["responseKind"], "kind"),
                        plural: text(resource, "resource"),
                        is_namespaced: resource["scope"] == "Namespaced",
                        singular: text(resource, "singularResource"),
                        short: words(resource, "shortNames"),
                    });
                }
            }
        }
    }

    /// What an older server says of one version of a group.
    pub(super) fn add_version(&mut self, api_version: &str, answer: &Value) {
        let whole = list(answer, "resources").filter(|resource| !text(resource, "name").contains('/'));
        for resource in whole {
            self.add(Resource {
                api_version: api_version.to_owned(),
                kind: text(resource, "kind"),
                plural: text(resource, "name"),
                is_namespaced: resource["namespaced"] == true,
                singular: text(resource, "singularName"),
                short: words(resource, "shortNames"),
            });
        }
    }

    fn add(&mut self, kind: Resource) {
        let place = self.kinds.len();
        self.places.entry((kind.api_version.clone(), kind.kind.clone())).or_insert(place);
        self.kinds.push(kind);
    }

    pub(crate) fn get(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        let place = self.places.get(&(api_version.to_owned(), kind.to_owned()))?;
        self.kinds.get(*place)
    }

    /// The same kind in any version, if it is not served in this one.
    pub(crate) fn get_any(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        let is_it =
            |it: &&Resource| it.kind == kind && meta::group(&it.api_version) == meta::group(api_version);
        self.get(api_version, kind).or_else(|| self.kinds.iter().find(is_it))
    }

    /// What somebody means: `app`, `apps`, `App`, `app.example.org` or `apps.v1.example.org`.
    pub(crate) fn called(&self, word: &str) -> Option<&Resource> {
        let word = word.to_lowercase();
        let is_called = |kind: &&Resource| {
            let names =
                [&kind.plural, &kind.singular].into_iter().chain(&kind.short).map(|name| name.to_lowercase());
            let (group, version) = (meta::group(&kind.api_version), meta::version(&kind.api_version));
            names.chain([kind.kind.to_lowercase()]).any(|name| {
                let Some(rest) = word.strip_prefix(name.as_str()) else { return false };
                rest.is_empty()
                    || rest.strip_prefix('.').is_some_and(|rest| {
                        rest == group
                            || rest == version
                            || rest.strip_prefix(version).and_then(|it| it.strip_prefix('.')) == Some(group)
                    })
            })
        };
        self.kinds.iter().find(is_called)
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn words(value: &Value, field: &str) -> Vec<String> {
    list(value, field).filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_called_in_many_ways() {
        let mut kinds = Kinds::default();
        kinds.add_version("v1", &json!({"resources": [
            {"name": "configmaps", "kind": "ConfigMap", "namespaced": true, "shortNames": ["cm"], "singularName": "configmap"},
            {"name": "configmaps/x", "kind": "X"},
        ]}));
        let app = json!({"resource": "apps", "singularResource": "app", "scope": "Cluster", "responseKind": {"kind": "App"}});
        kinds.add_groups(&json!({"items": [{"metadata": {"name": "e.org"}, "versions": [{"version": "v2", "resources": [app]}]}]}));
        for word in ["cm", "configmap", "ConfigMaps", "configmap.v1"] {
            assert_eq!(kinds.called(word).unwrap().kind, "ConfigMap", "{word}");
        }
        for word in ["app", "App", "apps", "app.e.org", "Apps.v2.e.org"] {
            assert_eq!(kinds.called(word).unwrap().api_version, "e.org/v2", "{word}");
        }
        for word in ["", "ap", "appsx", "app.", "app.e", "x", "app.v3.e.org"] {
            assert_eq!(kinds.called(word), None, "{word}");
        }
        assert!(!kinds.get("e.org/v2", "App").unwrap().is_namespaced);
    }
}
