//! The manifest of a package: `crossplane.yaml` in its source, one document in its `package.yaml`.

use std::collections::BTreeMap;

use ferroplane_api::{Dependency, Object, PackageKind, meta};
use serde_json::Value;

/// What a Function can do if it does not say.
const DEFAULT_CAPABILITY: &str = "composition";

/// What a package says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct PackageManifest {
    pub kind: PackageKind,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The versions of Crossplane that it works with.
    pub crossplane: Option<String>,
    pub dependencies: Vec<Dependency>,
    pub capabilities: Vec<String>,
}

/// A dependency that names no package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "dependency {number} names no package: it needs `apiVersion`, `kind` and `package`, or one of `provider`, \
     `configuration` and `function`"
)]
pub struct InvalidDependency {
    /// Counted from one.
    pub number: usize,
}

impl PackageManifest {
    /// What a manifest says. The kind is the caller's to have checked.
    pub fn read(kind: PackageKind, manifest: &Object) -> Result<Self, InvalidDependency> {
        let spec = manifest.get("spec").and_then(Value::as_object);
        let field = |name: &str| spec.and_then(|spec| spec.get(name));
        let dependencies =
            field("dependsOn").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let dependencies: Result<_, _> = dependencies
            .iter()
            .enumerate()
            .map(|(index, entry)| dependency(entry).ok_or(InvalidDependency { number: index + 1 }))
            .collect();
        let crossplane = field("crossplane").and_then(|crossplane| crossplane.get("version")?.as_str());
        Ok(Self {
            kind,
            name: meta::name(manifest).to_owned(),
            labels: entries(manifest, "labels"),
            annotations: entries(manifest, "annotations"),
            crossplane: crossplane.map(str::to_owned),
            dependencies: dependencies?,
            capabilities: capabilities(kind, field("capabilities")),
        })
    }

    /// Whether the package says it can do this. Spelling does not matter: `SafeStart` is `safe-start`.
    pub fn can(&self, capability: &str) -> bool {
        let plain = |text: &str| -> String {
            text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
        };
        self.capabilities.iter().any(|known| plain(known) == plain(capability))
    }
}

fn capabilities(kind: PackageKind, listed: Option<&Value>) -> Vec<String> {
    match listed.and_then(Value::as_array) {
        Some(listed) => listed.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        // An empty list is something else: a function that can do nothing.
        None if kind == PackageKind::Function => vec![DEFAULT_CAPABILITY.to_owned()],
        None => Vec::new(),
    }
}

fn dependency(entry: &Value) -> Option<Dependency> {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).map(str::to_owned);
    let constraints = text("version").unwrap_or_default();
    if let (Some(api_version), Some(kind), Some(package)) =
        (text("apiVersion"), text("kind"), text("package"))
    {
        let (api_version, kind) = (Some(api_version), Some(kind));
        return Some(Dependency { api_version, kind, package, constraints, package_type: None });
    }
    // In the order in which Crossplane looks.
    [PackageKind::Configuration, PackageKind::Provider, PackageKind::Function].into_iter().find_map(|kind| {
        Some(Dependency {
            package: text(&kind.name().to_ascii_lowercase())?,
            package_type: Some(kind.name().to_owned()),
            constraints: constraints.clone(),
            ..Dependency::default()
        })
    })
}

fn entries(manifest: &Object, field: &str) -> BTreeMap<String, String> {
    let entries = manifest.get("metadata").and_then(|metadata| metadata.get(field)?.as_object());
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    entries.into_iter().flatten().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: PackageKind, spec: &Value) -> Result<PackageManifest, InvalidDependency> {
        let manifest = json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec});
        PackageManifest::read(kind, manifest.as_object().unwrap())
    }

    #[test]
    fn dependencies_have_two_forms() {
        let manifest = read(
            PackageKind::Configuration,
            &json!({"crossplane": {"version": ">=v1.14"}, "dependsOn": [
                {"provider": "registry.example.org/org/p", "version": ">=v1"},
                {"apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "package": "registry.example.org/org/f", "version": "v1"},
            ]}),
        )
        .unwrap();
        let kinds: Vec<_> = manifest.dependencies.iter().map(Dependency::package_kind).collect();
        assert_eq!(kinds, [Some(PackageKind::Provider), Some(PackageKind::Function)]);
        assert_eq!(manifest.crossplane.as_deref(), Some(">=v1.14"));
        let invalid = read(PackageKind::Provider, &json!({"dependsOn": [{"version": "v1"}]}));
        assert_eq!(invalid, Err(InvalidDependency { number: 1 }));
    }

    #[test]
    fn functions_compose_unless_they_say_otherwise() {
        let capabilities = |kind, spec: &Value| read(kind, spec).unwrap().capabilities;
        assert_eq!(capabilities(PackageKind::Function, &json!({})), ["composition"]);
        assert_eq!(capabilities(PackageKind::Function, &json!({"capabilities": []})), Vec::<String>::new());
        assert_eq!(capabilities(PackageKind::Provider, &json!({})), Vec::<String>::new());
        let provider = read(PackageKind::Provider, &json!({"capabilities": ["SafeStart"]})).unwrap();
        assert!(provider.can("safe-start") && !provider.can("composition"));
    }
}
