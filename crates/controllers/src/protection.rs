//! Controllers of the group `protection.crossplane.io`: what is in use is not deleted.

pub(crate) mod admission;
pub(crate) mod usage;
