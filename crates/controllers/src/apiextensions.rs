//! Controllers of the group `apiextensions.crossplane.io`, and of the kinds that definitions make.

pub(crate) mod advisor;
pub(crate) mod claim;
pub(crate) mod claim_definition;
pub(crate) mod composite;
pub(crate) mod composition;
pub(crate) mod composition_cache;
pub(crate) mod definition;
pub(crate) mod grants;
pub(crate) mod revision;
