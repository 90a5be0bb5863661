//! Kinds that are served, so that manifests of them are accepted, and that nothing acts on unless a flag says so.
//!
//! One list for everybody who has to say so: conditions, events and `ferroplane why`.

use crate::keys;

/// A kind that nothing acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsupportedKind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub is_namespaced: bool,
    /// The types of the conditions that say so: those that the columns of the kind show. None if the kind has no status, or another program
    /// in the cluster may write it.
    pub conditions: &'static [&'static str],
    /// Whether the controller of another program in the cluster may act on the kind. It writes a status some time after a client has created
    /// an object.
    pub has_other_controller: bool,
    /// What does not happen, and what to do instead.
    message: &'static str,
}

impl UnsupportedKind {
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The message for users who created an object of the kind.
    pub fn message(&self) -> &'static str {
        self.message
    }
}

/// The reason of the conditions and events that say that nothing acts on a kind.
pub const NOT_SUPPORTED: &str = "NotSupported";

const PACKAGE: &[&str] = &["Installed", "Healthy"];
const REVISION: &[&str] = &["Healthy"];
const OPERATION: &[&str] = &["Synced"];

/// All kinds that nothing acts on.
pub const UNSUPPORTED: &[UnsupportedKind] = &[
    of(
        keys::PKG,
        "v1",
        ["Provider", "providers"],
        PACKAGE,
        "nothing acts on it: this control plane does not install packages (`ferroplane start --enable-packages` does); or apply the provider's \
         CRDs, and run the provider yourself",
    ),
    of(
        keys::PKG,
        "v1",
        ["ProviderRevision", "providerrevisions"],
        REVISION,
        "nothing acts on it: this control plane does not install packages (`ferroplane start --enable-packages` does)",
    ),
    of(
        keys::PKG,
        "v1",
        ["Configuration", "configurations"],
        PACKAGE,
        "nothing acts on it: this control plane does not install packages (`ferroplane start --enable-packages` does); or apply the XRDs and \
         Compositions in the package yourself",
    ),
    of(
        keys::PKG,
        "v1",
        ["ConfigurationRevision", "configurationrevisions"],
        REVISION,
        "nothing acts on it: this control plane does not install packages (`ferroplane start --enable-packages` does)",
    ),
    of(
        keys::PKG,
        "v1beta1",
        ["DeploymentRuntimeConfig", "deploymentruntimeconfigs"],
        &[],
        "has no effect: this control plane runs no pods for packages. `ferroplane up` runs packages on this machine; on a cluster, \
         `ferroplane start --enable-packages` runs them in pods",
    ),
    of(
        keys::PKG,
        "v1beta1",
        ["ImageConfig", "imageconfigs"],
        &[],
        "has no effect: this control plane does not install packages (`ferroplane start --enable-packages` does)",
    ),
    of(
        keys::PKG,
        "v1beta1",
        ["Lock", "locks"],
        &["Resolved"],
        "has no effect: this control plane does not install packages (`ferroplane start --enable-packages` does)",
    ),
    of(
        keys::APIEXTENSIONS,
        "v1alpha1",
        ["ManagedResourceDefinition", "managedresourcedefinitions"],
        &["Established"],
        "nothing acts on it: this control plane does not install packages (`ferroplane start --enable-packages` does); or apply the CRD \
         yourself",
    ),
    of(
        keys::APIEXTENSIONS,
        "v1alpha1",
        ["ManagedResourceActivationPolicy", "managedresourceactivationpolicies"],
        &["Healthy"],
        "nothing acts on it: this control plane does not install packages (`ferroplane start --enable-packages` does); or apply the CRDs \
         yourself",
    ),
    of(
        keys::OPS,
        "v1alpha1",
        ["Operation", "operations"],
        OPERATION,
        "nothing acts on it: this control plane does not run operations (`ferroplane start --enable-operations` does)",
    ),
    of(
        keys::OPS,
        "v1alpha1",
        ["CronOperation", "cronoperations"],
        OPERATION,
        "nothing acts on it: this control plane does not run operations (`ferroplane start --enable-operations` does)",
    ),
    of(
        keys::OPS,
        "v1alpha1",
        ["WatchOperation", "watchoperations"],
        OPERATION,
        "nothing acts on it: this control plane does not run operations (`ferroplane start --enable-operations` does)",
    ),
    UnsupportedKind {
        is_namespaced: true,
        // Kanister's own controller, which can run in the same cluster, writes the status.
        has_other_controller: true,
        ..of(
            keys::KANISTER,
            "v1alpha1",
            ["ActionSet", "actionsets"],
            &[],
            "this control plane does not run it: `ferroplane start --enable-blueprints` does, and so does Kanister's own controller",
        )
    },
];

const fn of(
    group: &'static str,
    version: &'static str,
    [kind, plural]: [&'static str; 2],
    conditions: &'static [&'static str],
    message: &'static str,
) -> UnsupportedKind {
    let (is_namespaced, has_other_controller) = (false, false);
    UnsupportedKind { group, version, kind, plural, is_namespaced, conditions, has_other_controller, message }
}

/// A kind, if nothing acts on it.
pub fn unsupported(group: &str, kind: &str) -> Option<&'static UnsupportedKind> {
    UNSUPPORTED.iter().find(|it| it.group == group && it.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crds;

    #[test]
    fn every_kind_is_served_as_it_is_listed() {
        for kind in UNSUPPORTED {
            let crd = crds::ALL.iter().find(|crd| crd.group == kind.group && crd.kind == kind.kind);
            let crd = crd.unwrap_or_else(|| panic!("{} is not served", kind.kind));
            assert_eq!(crd.name(), format!("{}.{}", kind.plural, kind.group));
            assert!(crd.yaml.contains(&format!(" name: {}\n", kind.version)), "{}", kind.kind);
            assert_eq!(crd.yaml.contains("  scope: Namespaced\n"), kind.is_namespaced, "{}", kind.kind);
            // A code that the schema does not have would be pruned, and programs could not tell.
            let has_status = crd.yaml.contains("status: {}");
            // A status that belongs to another controller gets no condition of ours.
            let is_ours = has_status && !kind.has_other_controller;
            assert_eq!(is_ours, !kind.conditions.is_empty(), "{}", kind.kind);
            assert!(!is_ours || crd.yaml.contains("                    code:\n"), "{}", kind.kind);
        }
    }
}
