//! Whether what is in a package may be there.
//!
//! Follows crossplane-runtime 2.4.0, `pkg/xpkg/lint.go` and `pkg/xpkg/validate.go`.

use ferroplane_api::{Object, PackageKind, meta};
use ferroplane_golang::semver::{Constraints, Version};

use crate::contents::PackageContents;
use crate::manifest::{InvalidDependency, PackageManifest};

/// Why a package cannot be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPackage {
    #[error("the package holds {count} manifests; it must hold exactly one")]
    Manifests { count: usize },
    #[error("the package is a {found}, and not a {wanted}")]
    Kind { found: String, wanted: PackageKind },
    #[error("`{constraint}` is not a range of Crossplane versions")]
    Constraint { constraint: String },
    #[error(transparent)]
    Dependency(#[from] InvalidDependency),
    #[error("the package needs Crossplane {constraint}, and this is compatible with {version}")]
    Incompatible { constraint: String, version: String },
}

/// An object that a package of the kind should not bring. It is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {package} does not bring {kind} `{name}`; the object is left out")]
pub struct Lint {
    pub package: PackageKind,
    pub kind: String,
    pub name: String,
}

/// The manifest of a package of this kind.
pub fn validate(kind: PackageKind, contents: &PackageContents) -> Result<PackageManifest, InvalidPackage> {
    let [manifest] = &contents.manifests[..] else {
        return Err(InvalidPackage::Manifests { count: contents.manifests.len() });
    };
    if PackageKind::of(meta::kind(manifest)) != Some(kind) {
        return Err(InvalidPackage::Kind { found: meta::kind(manifest).to_owned(), wanted: kind });
    }
    let manifest = PackageManifest::read(kind, manifest)?;
    if let Some(constraint) = &manifest.crossplane
        && Constraints::parse(constraint).is_err()
    {
        return Err(InvalidPackage::Constraint { constraint: constraint.clone() });
    }
    Ok(manifest)
}

impl PackageManifest {
    /// Refuse a package that needs another version of Crossplane than the one that this plane is compatible with.
    pub fn check_crossplane(&self, version: &str) -> Result<(), InvalidPackage> {
        let Some(constraint) = &self.crossplane else { return Ok(()) };
        let holds = match (Constraints::parse(constraint), Version::parse(version)) {
            (Ok(constraint), Ok(version)) => constraint.check(&version),
            _ => false,
        };
        let (constraint, version) = (constraint.clone(), version.to_owned());
        if holds { Ok(()) } else { Err(InvalidPackage::Incompatible { constraint, version }) }
    }
}

/// The objects that a package of this kind installs, and what is wrong with the others.
pub fn lint(kind: PackageKind, contents: &PackageContents) -> (Vec<&Object>, Vec<Lint>) {
    let (installed, others): (Vec<_>, Vec<_>) =
        contents.objects.iter().partition(|object| is_installed(kind, meta::kind(object)));
    let lints = others.into_iter().map(|object| Lint {
        package: kind,
        kind: meta::kind(object).to_owned(),
        name: meta::name(object).to_owned(),
    });
    (installed, lints.collect())
}

fn is_installed(package: PackageKind, kind: &str) -> bool {
    let kinds: &[&str] = match package {
        PackageKind::Provider => &[
            "CustomResourceDefinition",
            "ManagedResourceDefinition",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ],
        PackageKind::Configuration => &[
            "CompositeResourceDefinition",
            "Composition",
            "ManagedResourceActivationPolicy",
            "Operation",
            "CronOperation",
            "WatchOperation",
        ],
        // The kinds of its inputs. Crossplane leaves them out, so that nothing can be named by `inputRef` there.
        PackageKind::Function => &["CustomResourceDefinition"],
    };
    kinds.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_package;

    fn contents(documents: &[&str]) -> PackageContents {
        read_package(&documents.join("\n---\n")).unwrap()
    }

    const FUNCTION: &str = "{apiVersion: meta.pkg.crossplane.io/v1, kind: Function, metadata: {name: f}}";
    const CRD: &str =
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: inputs.f}}";

    #[test]
    fn package_has_one_manifest_of_its_kind() {
        let problem = |kind, documents: &[&str]| {
            validate(kind, &contents(documents)).map_err(|error| error.to_string())
        };
        assert!(problem(PackageKind::Function, &[FUNCTION, CRD]).is_ok());
        for (kind, documents, text) in [
            (PackageKind::Function, &[CRD][..], "the package holds 0 manifests; it must hold exactly one"),
            (
                PackageKind::Function,
                &[FUNCTION, FUNCTION],
                "the package holds 2 manifests; it must hold exactly one",
            ),
            (PackageKind::Provider, &[FUNCTION], "the package is a Function, and not a Provider"),
            (
                PackageKind::Provider,
                &[
                    "{apiVersion: meta.pkg.crossplane.io/v1, kind: Provider, spec: {crossplane: {version: soon}}}",
                ],
                "`soon` is not a range of Crossplane versions",
            ),
        ] {
            assert_eq!(problem(kind, documents).unwrap_err(), text);
        }
    }

    #[test]
    fn constraint_on_crossplane_holds_or_not() {
        let manifest = |version: &str| {
            let text = format!(
                "{{apiVersion: meta.pkg.crossplane.io/v1, kind: Provider, spec: {{crossplane: {{version: \"{version}\"}}}}}}"
            );
            validate(PackageKind::Provider, &contents(&[&text])).unwrap()
        };
        assert_eq!(manifest(">=v1.14.0").check_crossplane("v2.4.0"), Ok(()));
        let refused = manifest("<v2").check_crossplane("v2.4.0").unwrap_err().to_string();
        assert_eq!(refused, "the package needs Crossplane <v2, and this is compatible with v2.4.0");
    }

    #[test]
    fn objects_that_a_kind_does_not_bring_are_left_out() {
        let configuration = "{apiVersion: meta.pkg.crossplane.io/v1, kind: Configuration}";
        let contents = contents(&[configuration, CRD]);
        let (installed, lints) = lint(PackageKind::Configuration, &contents);
        assert!(installed.is_empty());
        assert_eq!(
            lints[0].to_string(),
            "a Configuration does not bring CustomResourceDefinition `inputs.f`; the object is left out"
        );
        assert_eq!(lint(PackageKind::Function, &contents).0.len(), 1);
    }
}
