//! Validates Blueprints in files, and renders the arguments of their phases.

mod render;
mod validate;

use std::sync::Arc;

use ferroplane_api::{keys, meta};
use ferroplane_engine::action::{PhaseFunction, PhaseFunctions};
use ferroplane_engine::versions::Version;
use ferroplane_functions::Library;

use crate::manifest::Manifest;

pub use render::{RenderError, RenderInputs, RenderedAction, RenderedPhase, render};
pub use validate::{BlueprintFinding, Severity, validate};

/// Whether a manifest is a Blueprint or an ActionSet.
pub fn is_kind(manifest: &Manifest, kind: &str) -> bool {
    let object = manifest.object();
    meta::kind(object) == kind && meta::group(meta::api_version(object)) == keys::KANISTER
}

/// The functions that are built in.
struct BuiltIn<'l>(&'l Library);

impl PhaseFunctions for BuiltIn<'_> {
    fn phase_function(&self, function: &str, version: &Version) -> Option<Arc<dyn PhaseFunction>> {
        self.0.phase_function(function, version).cloned()
    }
}
