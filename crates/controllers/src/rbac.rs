//! Controllers of roles, in the place of Crossplane's RBAC manager.

pub(crate) mod definition;
