//! What is known of functions whatever a Composition says: from the catalogue of those that are built in.

use ferroplane_engine::ImageReference;

use crate::look::{function, text_at};
use crate::snapshot::Snapshot;

/// What the catalogue says about a function, wherever it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFunction {
    /// What its package is called, without the organisation: `function-auto-ready`.
    pub name: String,
    /// Whether it adds composed resources of its own.
    pub composes: bool,
    /// Whether it says which composed resources are ready, no matter who added them.
    pub declares_readiness: bool,
}

/// What is known of the function that a step calls. People call functions what they like: their package tells, and who
/// installs one as a dependency names it after its organisation and itself.
pub(crate) fn known<'a>(snapshot: &'a Snapshot, called: &str) -> Option<&'a KnownFunction> {
    let package = snapshot.object(&function(called)).map(|object| text_at(object, &["spec", "package"]));
    let package = package.map(|image| ImageReference::parse(image).name()).unwrap_or_default();
    let is_it = |known: &&KnownFunction| {
        let is_named =
            called.strip_suffix(&known.name).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'));
        is_named || package == known.name
    };
    snapshot.known_functions().iter().find(is_it)
}
