//! The group `cr.kanister.io`: actions of Blueprints, which ActionSets run.

pub(crate) mod action_set;
mod actions;
pub(crate) mod admission;
mod background;
mod perform;
mod printed;
mod turn_limit;
mod wake;

use std::sync::Arc;

use ferroplane_client::{Informer, InformerScope, Resource};
use ferroplane_engine::action::PodSupport;
use ferroplane_runner::ContainerRunner;

use crate::context::Context;

pub(crate) const API_VERSION: &str = "cr.kanister.io/v1alpha1";

/// How actions of Blueprints are run.
#[derive(Clone)]
pub struct ActionSettings {
    /// Whether ActionSets are run. Blueprints are validated in any case.
    pub runs: bool,
    /// Whether there are pods that commands can be run in.
    pub has_exec: bool,
    /// How images are run.
    pub pods: PodSupport,
    /// Runs images in containers of the plane's own, where that is configured.
    pub containers: Option<ContainerRunner>,
    /// Whether a `funcVersion` that does not exist is an error. Otherwise the unversioned function runs, with a warning.
    pub is_strict: bool,
    /// The seed of randomness in templates. It must stay secret.
    pub seed: [u8; 32],
}

impl std::fmt::Debug for ActionSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActionSettings")
            .field("runs", &self.runs)
            .field("pods", &self.pods)
            .finish_non_exhaustive()
    }
}

/// The ActionSets, for the controller that runs them and for operations that wait for them.
pub(crate) fn action_sets(context: &Context) -> Arc<Informer> {
    follow(context, "ActionSet", "actionsets")
}

/// Follow a kind of the group.
fn follow(context: &Context, kind: &str, plural: &str) -> Arc<Informer> {
    let resource = Arc::new(Resource {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        is_namespaced: true,
    });
    Informer::start(context.cluster.clone(), InformerScope::new(resource))
}
