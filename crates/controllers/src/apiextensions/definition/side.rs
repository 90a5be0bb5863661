//! What is different between defining composite resources and offering claims.

use ferroplane_api::Object;
use ferroplane_client::Resource;
use ferroplane_engine::{Defined, Underivable};

use super::Observed;

/// A side of a definition: its composite resources, or its claims.
pub(crate) trait Side: Send + Sync + 'static {
    const WORDS: Words;

    /// What a definition defines on this side, if anything.
    fn derive(xrd: &Object) -> Result<Option<Defined>, Underivable>;

    /// The name of the `CustomResourceDefinition`, whatever else may be wrong.
    fn definition_name(xrd: &Object) -> Option<String>;

    /// Start the controller of the kind, unless it runs as it should.
    fn start(&self, xrd: &Object, defined: &Defined);

    /// Stop the controller of the kind, if it runs.
    fn stop(&self, definition: &str);

    fn is_running(&self, definition: &str) -> bool;

    /// Whether a controller that runs was started for something else.
    fn is_outdated(observed: Observed<'_>, xrd: &Object, defined: &Defined) -> bool;

    /// What has to be gone before this side can go.
    fn comes_after(xrd: &Object) -> Option<&'static str>;
}

/// What things are called on a side.
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
    /// What is defined, as people say it.
    pub(crate) objects: &'static str,
}

/// How the API server calls what is defined.
pub(crate) fn resource(defined: &Defined) -> Resource {
    Resource {
        api_version: defined.api_version.clone(),
        kind: defined.kind.clone(),
        plural: defined.plural.clone(),
        is_namespaced: defined.is_namespaced,
    }
}
