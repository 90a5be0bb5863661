//! Decides what becomes of packages: which revisions they have and which of those are active, what else they need, and
//! who owns what they bring.
//!
//! Nothing is fetched here. Whoever asks has looked at registries and objects, and carries out what is decided.

mod dependencies;
mod establish;
mod health;
mod image_configs;
mod lock;
mod names;
mod resolve;
mod revisions;

pub use dependencies::{DependencyProblem, DependencyStanding, Incompatible, examine_dependencies};
pub use establish::{AlreadyControlled, Establishing, Party, establish, release};
pub use health::{installed, package_health, revision_health, unpacking};
pub use image_configs::{
    AppliedImageConfig, ImagePurpose, RewrittenImage, rewrite_image, select_image_config,
};
pub use lock::{join_lock, leave_lock};
pub use names::{dns_label, friendly_id, revision_id};
pub use resolve::{
    Conflict, InstalledPackage, KnownTags, PackageChange, Resolution, ResolveOptions, resolve_dependencies,
};
pub use revisions::{FetchedPackage, PackageRevisions, RevisionOptions, plan_package_revisions};
