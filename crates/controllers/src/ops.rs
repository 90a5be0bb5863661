//! The group `ops.crossplane.io`: pipelines that run to completion once, and the kinds that create them.

mod children;
pub(crate) mod cron_operation;
mod digest_key;
pub(crate) mod operation;
pub(crate) mod status;
pub(crate) mod watch_operation;
mod watched_resources;

use std::sync::Arc;

use ferroplane_client::{Informer, InformerScope, Resource};

use crate::context::Context;
pub use digest_key::DigestKey;

const API_VERSION: &str = "ops.crossplane.io/v1alpha1";

/// Watch a kind of the group.
fn follow(context: &Context, kind: &str, plural: &str) -> Arc<Informer> {
    let resource = Arc::new(Resource {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        is_namespaced: false,
    });
    Informer::start(context.cluster.clone(), InformerScope::new(resource))
}

/// The operations, for their controller and for those that create them.
pub(crate) fn operations(context: &Context) -> Arc<Informer> {
    follow(context, "Operation", "operations")
}
