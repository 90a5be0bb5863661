//! Offers claims of composite resources.

/// Keeps a definition until its claims are gone.
pub(crate) const FINALIZER: &str = "offered.apiextensions.crossplane.io";
