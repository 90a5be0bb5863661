//! Role-based access control: what roles and bindings allow. Pure: it is given every object, and reads nothing.
//!
//! [`Policy`] is the index. Rights only add up, so the answer is yes as soon as one rule says so; members of
//! `system:masters` are not asked for rules at all.

mod aggregation;
mod attributes;
mod bootstrap;
mod cover;
mod custom_groups;
mod decide;
mod escalation;
mod objects;
mod policy;
mod rule;
mod rule_index;
mod rules_review;

pub use attributes::Attributes;
pub use bootstrap::bootstrap_objects;
pub use custom_groups::{CUSTOM_RESOURCES, kubernetes_groups};
pub use decide::Decision;
pub use escalation::Write;
pub use objects::RbacKind;
pub use policy::Policy;
pub use rule::PolicyRule;
pub(crate) use rule::quote_list;
pub use rules_review::Rules;

/// The group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
