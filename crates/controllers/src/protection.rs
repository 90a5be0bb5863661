//! Controllers of the group `protection.crossplane.io`: objects in use are not deleted.

pub(crate) mod admission;
pub(crate) mod usage;
