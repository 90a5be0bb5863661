//! What belongs to a package: its revisions, and the packages that it depends on.

use ferroplane_api::{Dependency, Object, lock_packages};
use ferroplane_engine::ImageReference;

use crate::id::Id;
use crate::look::{cluster_list, revisions_of, text_at};
use crate::snapshot::{List, Snapshot};

/// The version in which packages and their revisions are read.
pub(crate) const PACKAGES: &str = "pkg.crossplane.io/v1";

/// The object that says which packages depend on which.
pub(crate) fn lock() -> Id {
    Id::new("pkg.crossplane.io/v1beta1", "Lock", "", "lock")
}

/// Its revisions first, and then the packages that it depends on.
pub(crate) fn children(snapshot: &Snapshot, package: &Object) -> Vec<Id> {
    let revisions = revisions_of(package);
    let revisions = revisions.iter().flat_map(|list| snapshot.list(list)).map(Id::of);
    let dependencies = dependencies(snapshot, package);
    let installed = dependencies.iter().filter_map(|dependency| installed(snapshot, dependency));
    revisions.chain(installed).collect()
}

/// What the current revision of a package depends on, if the Lock has it.
pub(crate) fn dependencies(snapshot: &Snapshot, package: &Object) -> Vec<Dependency> {
    let current = text_at(package, &["status", "currentRevision"]);
    let packages = snapshot.object(&lock()).map(lock_packages).unwrap_or_default();
    let own = packages.into_iter().find(|entry| !current.is_empty() && entry.name == current);
    own.map(|entry| entry.dependencies).unwrap_or_default()
}

/// All packages of the kind that a dependency has.
pub(crate) fn packages_like(dependency: &Dependency) -> Option<List> {
    dependency.package_kind().map(|kind| cluster_list(PACKAGES, kind.name()))
}

/// The package that a dependency means. Users may have installed it under any name.
fn installed(snapshot: &Snapshot, dependency: &Dependency) -> Option<Id> {
    let is_it = |package: &&Object| {
        ImageReference::parse(text_at(package, &["spec", "package"])).repository == dependency.package
    };
    snapshot.list(&packages_like(dependency)?).find(is_it).map(Id::of)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Plane, condition};
    use crate::{diagnose, tree};

    const REGISTRY: &str = "registry.example.org/acme";

    fn package(kind: &str, name: &str, healthy: &str) -> Value {
        json!({
            "apiVersion": PACKAGES, "kind": kind, "metadata": {"name": name, "generation": 1},
            "spec": {"package": format!("{REGISTRY}/{name}:v1.0.0")},
            "status": {
                "currentRevision": format!("{name}-2"),
                "conditions": [
                    condition("Installed", "True", "ActivePackageRevision", ""),
                    condition("Healthy", healthy, "R", "package"),
                ],
            },
        })
    }

    fn revision(kind: &str, name: &str, state: &str, healthy: &str) -> Value {
        json!({
            "apiVersion": PACKAGES, "kind": format!("{kind}Revision"), "metadata": {"name": name},
            "spec": {"desiredState": state},
            "status": {"conditions": [condition("RevisionHealthy", healthy, "R", name)]},
        })
    }

    /// A Configuration that depends on a Provider, and whether each is healthy.
    fn plane(configuration: &str, provider: &str) -> Plane {
        let locked = json!({
            "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "Lock", "metadata": {"name": "lock"},
            "packages": [{
                "name": "platform-2", "kind": "Configuration", "source": format!("{REGISTRY}/platform"), "version": "v1.0.0",
                "dependencies": [{"type": "Provider", "package": format!("{REGISTRY}/cloud"), "constraints": ">=v1.0.0"}],
            }],
        });
        let objects = vec![
            package("Configuration", "platform", configuration),
            revision("Configuration", "platform-1", "Inactive", "False"),
            revision("Configuration", "platform-2", "Active", configuration),
            package("Provider", "other", "False"),
            package("Provider", "cloud", provider),
            locked,
        ];
        Plane { objects, ..Plane::default() }
    }

    fn platform() -> Id {
        Id::new(PACKAGES, "Configuration", "", "platform")
    }

    #[test]
    fn package_is_shown_with_its_revisions_and_what_it_depends_on() {
        let shown = |provider: &str| tree(&plane("True", provider).read_from(&platform()), &platform());
        let node = shown("False");
        let names: Vec<&str> = node.children.iter().map(|child| child.id.name.as_str()).collect();
        assert_eq!(names, ["platform-1", "platform-2", "cloud"]);
        let broken = node.broken().unwrap();
        assert_eq!((broken.count(), broken.children[0].id.name.as_str()), (2, "cloud"));
        let node = shown("True");
        assert!(node.is_ready(), "{node:#?}");
    }

    #[test]
    fn revision_that_is_active_is_to_blame_and_one_that_was_replaced_is_not() {
        let diagnosis = diagnose(&plane("False", "True").read_from(&platform()), &platform());
        let cause = diagnosis.cause.unwrap();
        assert_eq!((cause.object.name.as_str(), cause.message.contains("platform-2")), ("platform-2", true));
        assert!(diagnosis.others.is_empty(), "{:?}", diagnosis.others);
    }
}
