//! Kubernetes' own kinds: what they are made of, how objects of them are read, defaulted and checked.
//!
//! Everything follows from tables of facts that `cargo xtask kinds` generates for one minor version of Kubernetes. A
//! table is read when it is first needed, so that an unused kind costs nothing.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis`.

pub(crate) mod autoscalers;
mod check;
mod defaults;
mod facts;
mod location;
pub mod openapi;
pub mod protobuf;
mod read;
mod resource;
mod shapes;
mod table;
mod validate;

use ferroplane_ownership::merge::shape::Shapes;
use serde_json::{Map, Value};

use crate::field::Error;
use crate::patch::facts::Facts;
pub use check::{Cause, Finding};
pub use resource::{Resource, Scope, Subresource, resources};
use table::{Package, Type};
pub(crate) use validate::check_cluster_addresses;

/// The version of Kubernetes that the tables are generated from.
pub const KUBERNETES_VERSION: &str = "v1.36.4";

/// Objects are not read into deeper than this.
const MAX_DEPTH: usize = 200;

/// A kind of Kubernetes.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinKind {
    of: &'static Type,
    group: &'static str,
    version: &'static str,
}

/// An object as a server keeps it, and what was left out.
#[derive(Debug, Clone, Default)]
pub struct Read {
    pub object: Map<String, Value>,
    /// Paths of fields that the kind does not have, each once.
    pub unknown: Vec<String>,
}

/// The kind of that name; none if Kubernetes does not have it, or if the tables do not.
///
/// Options and statuses are kinds of every group.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<BuiltinKind> {
    let own = Package::get(package_number(group, version)?);
    // The group's own first: only what it does not have is common to all.
    let meta = Package::get(Package::number("meta.v1")?);
    [own, meta].into_iter().find_map(|package| {
        let row = package.kinds().iter().find(|row| row.name == kind)?;
        Some(BuiltinKind { of: package.find(row.name)?, group: row.group, version: row.version })
    })
}

/// All kinds that have objects, lists of them among them. Options and statuses are not listed.
pub fn kinds() -> impl Iterator<Item = BuiltinKind> {
    let packages = Package::all();
    packages.flat_map(|package| {
        let rows = package.kinds().iter().filter(|row| row.group != "meta.k8s.io");
        rows.filter_map(|row| {
            Some(BuiltinKind { of: package.find(row.name)?, group: row.group, version: row.version })
        })
    })
}

fn package_number(group: &str, version: &str) -> Option<usize> {
    let name = match group {
        "" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        "apps" | "autoscaling" | "batch" | "policy" => group,
        _ => group.strip_suffix(".k8s.io").filter(|name| !name.contains('.'))?,
    };
    Package::number(&format!("{name}.{version}"))
}

impl BuiltinKind {
    pub fn name(self) -> &'static str {
        self.of.name
    }

    pub fn group(self) -> &'static str {
        self.group
    }

    pub fn version(self) -> &'static str {
        self.version
    }

    /// Reads an object as Kubernetes reads it into its own type, and writes it as it writes that: unknown fields are
    /// dropped, nulls become absent, quantities and times get their canonical form.
    ///
    /// If something does not fit, the answer is what Kubernetes' decoder says about it.
    pub fn read(self, object: &Value) -> Result<Read, String> {
        read::read(self.of, object)
    }

    /// Gives an object what it does not say. It must have been read before.
    pub fn default(self, object: &mut Map<String, Value>) {
        defaults::apply(self.of, object);
    }

    /// How objects of the kind merge. Worth keeping.
    pub fn shapes(self) -> Shapes {
        shapes::of(self.of)
    }

    /// What a strategic merge patch has to know about the kind, under its name. Worth keeping.
    pub fn patch_facts(self) -> Facts {
        facts::of(self.of)
    }

    /// What a server finds wrong with a new object, as far as that is known here. The object must be read, defaulted,
    /// and have its name.
    pub fn validate(self, object: &Map<String, Value>) -> Vec<Error> {
        validate::create(self.of, self.group, object)
    }

    /// The same for an object that replaces an old one.
    pub fn validate_update(self, object: &Map<String, Value>, old: &Map<String, Value>) -> Vec<Error> {
        validate::update(self.of, self.group, object, old)
    }

    /// Everything that is wrong with an object as far as its fields and their types tell: unknown fields, values that do
    /// not fit, required fields that are not there, values that are not among the allowed ones.
    pub fn check(self, object: &Value) -> Vec<Finding> {
        check::check(self.of, object)
    }
}

/// What a server says about an object that it cannot take: the answer of [`BuiltinKind::read`], or complaints about fields that
/// are unknown or there twice.
pub fn cannot_be_handled(kind: &str, version: &str, problem: &str) -> String {
    format!("{kind} in version {version:?} cannot be handled as a {kind}: {problem}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn findings(group: &str, version: &str, name: &str, object: &Value) -> Vec<String> {
        let found = kind(group, version, name).unwrap().check(object);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn everything_wrong_with_an_object_is_found() {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "labels": {"a": 1}, "bogus": 1},
            "spec": {
                "replicas": "three",
                "strategy": {"type": "Sideways"},
                "template": {"spec": {"containers": [{"image": "a", "imagePullPolicy": ""}], "hostNetwork": 1}},
            },
        });
        assert_eq!(
            findings("apps", "v1", "Deployment", &deployment),
            [
                r#"unknown field "metadata.bogus""#,
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
                "json: cannot unmarshal number into Go struct field PodSpec.spec.template.spec.hostNetwork of type bool",
                "spec.selector: Required value",
                r#"spec.strategy.type: Unsupported value: "Sideways": supported values: "Recreate", "RollingUpdate""#,
                "spec.template.spec.containers[0].name: Required value",
            ]
        );
    }

    #[test]
    fn values_that_end_the_reading_do_not_hide_others() {
        let pod =
            json!({"metadata": {"creationTimestamp": "soon"}, "spec": {"overhead": {"cpu": "many"}, "x": 1}});
        let found = findings("", "v1", "Pod", &pod);
        assert!(found[0].contains("unknown field \"spec.x\""), "{found:?}");
        assert!(found[1].starts_with("parsing time \"soon\""), "{found:?}");
        assert!(found[2].starts_with("quantities must match"), "{found:?}");
    }

    #[test]
    fn kinds_are_found_by_group_and_version() {
        assert_eq!(kind("rbac.authorization.k8s.io", "v1", "Role").unwrap().name(), "Role");
        assert_eq!(kind("apps", "v1", "DeleteOptions").unwrap().name(), "DeleteOptions");
        for (group, version, name) in [
            ("", "v1", "Nonsense"),
            ("apps", "v2", "Deployment"),
            ("core", "v1", "Pod"),
            ("meta", "v1", "Status"),
        ] {
            assert!(kind(group, version, name).is_none(), "{group}/{version} {name}");
        }
    }

    #[test]
    fn objects_are_kept_as_kubernetes_writes_them() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
            "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "0.5", "memory": 1024}}, "tty": false}]},
            "extra": 1,
        });
        let read = kind("", "v1", "Pod").unwrap().read(&pod).unwrap();
        assert_eq!(read.unknown, ["extra"]);
        assert_eq!(
            Value::Object(read.object),
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "1024"}}}]},
                "status": {},
            })
        );
    }
}
