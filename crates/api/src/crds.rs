//! The definitions of the kinds we serve, as they are given to an API server.

/// A kind, and its `CustomResourceDefinition` as YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crd {
    pub group: &'static str,
    pub kind: &'static str,
    pub yaml: &'static str,
}

impl Crd {
    /// The name of the definition.
    pub fn name(&self) -> String {
        // Read from the text, because this crate has no YAML parser; the files are generated, so that their
        // form is fixed.
        let line = self.yaml.lines().find_map(|line| line.strip_prefix("  name: "));
        line.unwrap_or_default().trim().to_owned()
    }

    /// Whether objects of the kind say in conditions how they are.
    pub fn has_conditions(&self) -> bool {
        // Read from the text, as the name is: at this depth stand the fields of the status.
        self.yaml.contains("\n              conditions:\n")
    }
}

/// All kinds we serve.
pub const ALL: &[Crd] = &[
    crd(
        "apiextensions.crossplane.io",
        "CompositeResourceDefinition",
        include_str!("../crds/apiextensions.crossplane.io_compositeresourcedefinitions.yaml"),
    ),
    crd(
        "apiextensions.crossplane.io",
        "CompositionRevision",
        include_str!("../crds/apiextensions.crossplane.io_compositionrevisions.yaml"),
    ),
    crd(
        "apiextensions.crossplane.io",
        "Composition",
        include_str!("../crds/apiextensions.crossplane.io_compositions.yaml"),
    ),
    crd(
        "apiextensions.crossplane.io",
        "EnvironmentConfig",
        include_str!("../crds/apiextensions.crossplane.io_environmentconfigs.yaml"),
    ),
    crd(
        "apiextensions.crossplane.io",
        "ManagedResourceActivationPolicy",
        include_str!("../crds/apiextensions.crossplane.io_managedresourceactivationpolicies.yaml"),
    ),
    crd(
        "apiextensions.crossplane.io",
        "ManagedResourceDefinition",
        include_str!("../crds/apiextensions.crossplane.io_managedresourcedefinitions.yaml"),
    ),
    crd(
        "apiextensions.crossplane.io",
        "Usage",
        include_str!("../crds/apiextensions.crossplane.io_usages.yaml"),
    ),
    crd("cr.kanister.io", "ActionSet", include_str!("../crds/cr.kanister.io_actionsets.yaml")),
    crd("cr.kanister.io", "Blueprint", include_str!("../crds/cr.kanister.io_blueprints.yaml")),
    crd("cr.kanister.io", "Profile", include_str!("../crds/cr.kanister.io_profiles.yaml")),
    crd("ferroplane.io", "AccessGrant", include_str!("../crds/ferroplane.io_accessgrants.yaml")),
    crd("ops.crossplane.io", "CronOperation", include_str!("../crds/ops.crossplane.io_cronoperations.yaml")),
    crd("ops.crossplane.io", "Operation", include_str!("../crds/ops.crossplane.io_operations.yaml")),
    crd(
        "ops.crossplane.io",
        "WatchOperation",
        include_str!("../crds/ops.crossplane.io_watchoperations.yaml"),
    ),
    crd(
        "pkg.crossplane.io",
        "ConfigurationRevision",
        include_str!("../crds/pkg.crossplane.io_configurationrevisions.yaml"),
    ),
    crd("pkg.crossplane.io", "Configuration", include_str!("../crds/pkg.crossplane.io_configurations.yaml")),
    crd(
        "pkg.crossplane.io",
        "DeploymentRuntimeConfig",
        include_str!("../crds/pkg.crossplane.io_deploymentruntimeconfigs.yaml"),
    ),
    crd(
        "pkg.crossplane.io",
        "FunctionRevision",
        include_str!("../crds/pkg.crossplane.io_functionrevisions.yaml"),
    ),
    crd("pkg.crossplane.io", "Function", include_str!("../crds/pkg.crossplane.io_functions.yaml")),
    crd("pkg.crossplane.io", "ImageConfig", include_str!("../crds/pkg.crossplane.io_imageconfigs.yaml")),
    crd("pkg.crossplane.io", "Lock", include_str!("../crds/pkg.crossplane.io_locks.yaml")),
    crd(
        "pkg.crossplane.io",
        "ProviderRevision",
        include_str!("../crds/pkg.crossplane.io_providerrevisions.yaml"),
    ),
    crd("pkg.crossplane.io", "Provider", include_str!("../crds/pkg.crossplane.io_providers.yaml")),
    crd(
        "protection.crossplane.io",
        "ClusterUsage",
        include_str!("../crds/protection.crossplane.io_clusterusages.yaml"),
    ),
    crd("protection.crossplane.io", "Usage", include_str!("../crds/protection.crossplane.io_usages.yaml")),
    crd(
        "rollout.ferroplane.io",
        "FunctionIntercept",
        include_str!("../crds/rollout.ferroplane.io_functionintercepts.yaml"),
    ),
    crd(
        "rollout.ferroplane.io",
        "FunctionRollout",
        include_str!("../crds/rollout.ferroplane.io_functionrollouts.yaml"),
    ),
];

const fn crd(group: &'static str, kind: &'static str, yaml: &'static str) -> Crd {
    Crd { group, kind, yaml }
}
