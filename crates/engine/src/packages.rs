//! Decides about packages: which revisions they have and which of those are active, their dependencies, and which package owns which
//! object.
//!
//! Nothing is fetched here. The controllers read registries and objects, and carry out the decisions.

mod dependencies;
mod establish;
mod health;
mod image_configs;
mod input_kinds;
mod lock;
mod managed_kinds;
mod names;
mod provider_protection;
mod provider_roles;
mod resolve;
mod revisions;
mod runtime;
mod webhooks;

pub use dependencies::{DependencyProblem, DependencyStanding, Incompatible, examine_dependencies};
pub use establish::{AlreadyControlled, Establishing, Party, establish, release};
pub use health::{
    RUNTIME_CONDITIONS, in_service, installed, is_in_service, package_health, revision_healthy,
    revision_unhealthy, runtime_starting, unpacking,
};
pub use image_configs::{
    AppliedImageConfig, ImagePurpose, RewrittenImage, rewrite_image, select_image_config,
};
pub use input_kinds::establish_input_kind;
pub use lock::{join_lock, leave_lock};
pub use managed_kinds::{
    ManagedKindStanding, ProviderActivation, activate_kind, activates, adopt_managed_kind,
    awaiting_activation, awaits_activation, default_policy, defined_kind, is_active_kind, managed_definition,
    managed_kind_condition, policy_condition,
};
pub use names::{dns_label, friendly_id, revision_id};
pub use provider_protection::{
    PROTECTION_MANAGER, is_protecting_usage, protecting_usage, protecting_usage_name, protects_the_same,
};
pub use provider_roles::{
    DefinedResource, defined_resources, provider_binding, provider_roles, revision_of_role,
    share_organization,
};
pub use resolve::{
    Conflict, InstalledPackage, KnownTags, PackageChange, Resolution, ResolveOptions, resolve_dependencies,
};
pub use revisions::{
    FetchedPackage, PackageRevisions, RevisionOptions, copied_labels, known_digest, plan_package_revisions,
};
pub use runtime::{
    AdaptedProgram, RUNTIME_MANAGER, RuntimeInputs, RuntimeNames, RuntimeObjects, deployment_trouble,
    function_endpoint, is_available, is_owned_by, keep_pull_secrets, keep_tag, runtime_objects,
    secret_owners, server_names, take_over, with_certificate,
};
pub use webhooks::{WebhookAddress, converts_by_webhook, is_webhook_configuration, with_webhook_address};
