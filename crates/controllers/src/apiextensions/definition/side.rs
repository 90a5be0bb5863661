//! The differences between defining composite resources and defining claims.

use ferroplane_api::Object;
use ferroplane_client::Resource;
use ferroplane_engine::{Defined, Underivable};

use super::Observed;

/// A side of a definition: its composite resources, or its claims.
pub(crate) trait Side: Send + Sync + 'static {
    const WORDS: Words;

    /// The kind that a definition defines on this side, if any.
    fn derive(xrd: &Object) -> Result<Option<Defined>, Underivable>;

    /// The name of the `CustomResourceDefinition`, even if the definition is invalid.
    fn definition_name(xrd: &Object) -> Option<String>;

    /// Start the controller of the kind, unless it runs already.
    fn start(&self, xrd: &Object, defined: &Defined);

    /// Stop the controller of the kind, if it runs.
    fn stop(&self, definition: &str);

    fn is_running(&self, definition: &str) -> bool;

    /// Whether the running controller was started for another kind.
    fn is_outdated(observed: Observed<'_>, xrd: &Object, defined: &Defined) -> bool;

    /// The objects that have to be deleted before this side can be.
    fn comes_after(xrd: &Object) -> Option<&'static str>;
}

/// The names on a side.
#[derive(Debug)]
pub(crate) struct Words {
    /// The controller.
    pub(crate) controller: &'static str,
    pub(crate) finalizer: &'static str,
    /// The condition of the definition, and its reasons.
    pub(crate) condition: &'static str,
    pub(crate) watching: &'static str,
    pub(crate) terminating: &'static str,
    /// Reasons of events.
    pub(crate) establish: &'static str,
    pub(crate) restart: &'static str,
    pub(crate) terminate: &'static str,
    /// The field of `status.controllers`.
    pub(crate) status: &'static str,
    /// The objects, for messages.
    pub(crate) objects: &'static str,
}

/// The resource of a defined kind.
pub(crate) fn resource(defined: &Defined) -> Resource {
    Resource {
        api_version: defined.api_version.clone(),
        kind: defined.kind.clone(),
        plural: defined.plural.clone(),
        is_namespaced: defined.is_namespaced,
    }
}
