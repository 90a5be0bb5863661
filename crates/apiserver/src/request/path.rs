//! Where paths lead.

use percent_encoding::percent_decode_str;

/// What may stand behind a namespace in a path and is part of the namespace itself.
const PARTS_OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/api` or `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION`: discovery.
    Groups {
        is_core: bool,
    },
    Group(String),
    GroupVersion {
        group: String,
        version: String,
    },
    Resource(ResourcePath),
    /// Anything else, as it stands in the path.
    Other(String),
}

/// Where the objects of a resource are, or one of them, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for what has no namespace, and for all namespaces.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl ResourcePath {
    /// The namespace whose rights and rules count. A namespace is in itself, so that who may do something in it by a binding there
    /// may do it to the namespace, too.
    ///
    /// Follows k8s.io/apiserver 0.36.4, `pkg/endpoints/request/requestinfo.go`.
    pub(crate) fn request_namespace(&self) -> &str {
        if self.namespace.is_empty() && self.resource == "namespaces" { &self.name } else { &self.namespace }
    }

    /// The path of a request about it.
    pub(crate) fn to_uri(&self) -> String {
        let mut uri = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        uri += &format!("/{}", self.version);
        if !self.namespace.is_empty() {
            uri += &format!("/namespaces/{}", self.namespace);
        }
        for part in [&self.resource, &self.name, &self.subresource] {
            if !part.is_empty() {
                uri += &format!("/{part}");
            }
        }
        uri
    }
}

impl Target {
    /// Reads the path of a request.
    pub(super) fn parse(path: &str) -> Self {
        let other = || Self::Other(path.to_owned());
        // Decoded before it is cut, as in Go's `URL.Path`: `%2F` separates parts just as a slash does, so that no
        // name can smuggle a slash past authorization.
        let Ok(decoded) = percent_decode_str(path).decode_utf8() else { return other() };
        let inner = decoded.strip_prefix('/').unwrap_or(&decoded);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        // An empty part would shift all that follow it: `/api/v1//pods` is no list of pods.
        if inner.split('/').any(str::is_empty) {
            return other();
        }
        let mut parts = inner.split('/').map(str::to_owned);
        let (is_core, group) = match parts.next().as_deref() {
            Some("api") => (true, Some(String::new())),
            Some("apis") => (false, parts.next()),
            _ => return other(),
        };
        let Some(group) = group else { return Self::Groups { is_core } };
        let rest: Vec<_> = parts.collect();
        match (is_core, rest.split_first()) {
            // `/api` has no groups below it: what follows it is a version at once.
            (true, None) => Self::Groups { is_core },
            (false, None) => Self::Group(group),
            (_, Some((version, []))) => Self::GroupVersion { group, version: version.clone() },
            (_, Some((version, rest))) => {
                ResourcePath::below(group, version.clone(), rest).map_or_else(other, Self::Resource)
            }
        }
    }
}

impl ResourcePath {
    /// Reads what stands behind the version; nothing if there is too much.
    fn below(group: String, version: String, parts: &[String]) -> Option<Self> {
        let (namespace, parts) = match parts {
            [namespaces, namespace, rest @ ..]
                // `namespaces/x` alone is an object of the kind Namespace, and so is `namespaces/x/status`; anything
                // else behind it is a kind in that namespace.
                if namespaces == "namespaces"
                    && rest.first().is_some_and(|part| !PARTS_OF_NAMESPACES.contains(&part.as_str())) =>
            {
                (namespace.clone(), rest)
            }
            _ => (String::new(), parts),
        };
        let [resource, rest @ ..] = parts else { return None };
        let (name, subresource) = match rest {
            [] => ("", ""),
            [name] => (name.as_str(), ""),
            [name, subresource] => (name.as_str(), subresource.as_str()),
            _ => return None,
        };
        Some(Self {
            group,
            version,
            namespace,
            resource: resource.clone(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> [String; 6] {
        let Target::Resource(path) = Target::parse(path) else { panic!("{path} is no resource") };
        [path.group, path.version, path.namespace, path.resource, path.name, path.subresource]
    }

    #[test]
    fn paths_lead_to_resources() {
        assert_eq!(resource("/api/v1/pods"), ["", "v1", "", "pods", "", ""]);
        assert_eq!(resource("/api/v1/namespaces/a/pods/b/status"), ["", "v1", "a", "pods", "b", "status"]);
        assert_eq!(resource("/apis/apps/v1/deployments/"), ["apps", "v1", "", "deployments", "", ""]);
        assert_eq!(resource("/apis/rbac/v1/roles/a%3Ab"), ["rbac", "v1", "", "roles", "a:b", ""]);
    }

    #[test]
    fn namespaces_are_resources_themselves() {
        assert_eq!(resource("/api/v1/namespaces"), ["", "v1", "", "namespaces", "", ""]);
        assert_eq!(resource("/api/v1/namespaces/a"), ["", "v1", "", "namespaces", "a", ""]);
        assert_eq!(resource("/api/v1/namespaces/a/finalize"), ["", "v1", "", "namespaces", "a", "finalize"]);
    }

    #[test]
    fn namespace_is_in_itself() {
        let namespace = |path: &str| {
            let Target::Resource(path) = Target::parse(path) else { panic!("{path} is no resource") };
            path.request_namespace().to_owned()
        };
        for part in ["", "/status", "/finalize", "/pods", "/pods/b"] {
            assert_eq!(namespace(&format!("/api/v1/namespaces/a{part}")), "a", "{part}");
        }
        assert_eq!(namespace("/api/v1/namespaces"), "");
        assert_eq!(namespace("/api/v1/nodes/a"), "");
    }

    #[test]
    fn paths_lead_to_what_there_is() {
        assert_eq!(Target::parse("/api"), Target::Groups { is_core: true });
        assert_eq!(Target::parse("/apis/"), Target::Groups { is_core: false });
        assert_eq!(Target::parse("/apis/apps"), Target::Group("apps".into()));
        assert_eq!(
            Target::parse("/api/v1"),
            Target::GroupVersion { group: String::new(), version: "v1".into() }
        );
    }

    #[test]
    fn other_paths_are_left_alone() {
        for path in ["/", "/healthz", "/openapi/v3", "/api/v1/pods/a/b/c/d", "/api/v1/%ff"] {
            assert_eq!(Target::parse(path), Target::Other(path.into()));
        }
    }
}
