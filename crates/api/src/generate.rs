//! Makes the definitions of kinds in `crds/` of Rust types. Only chores use it: `cargo xtask codegen`.
//!
//! What doc comments say is what `kubectl explain` says. A field that may be left out is an [`Option`], or has a serde
//! default; what else an API server has to know is said with [`marks`].

mod blueprints;
mod compositions;
mod definitions;
mod functions;
mod grants;
mod intercepts;
mod kind;
pub(crate) mod marks;
mod rollouts;
mod schema;
mod shared_fields;
mod usages;

use serde_json::Value;

use kind::Kind;

/// The definitions, by the names of their files.
pub fn definitions() -> Vec<(String, Value)> {
    let kinds = [
        definitions::definition(),
        compositions::composition(),
        compositions::revision(),
        compositions::environment_config(),
        usages::legacy_usage(),
        usages::usage(),
        usages::cluster_usage(),
        functions::function(),
        functions::revision(),
        grants::access_grant(),
        rollouts::function_rollout(),
        intercepts::function_intercept(),
        blueprints::action_set(),
        blueprints::blueprint(),
        blueprints::profile(),
    ];
    let file = |kind: Kind| (format!("{}_{}.yaml", kind.group, kind.plural()), kind.definition());
    kinds.into_iter().map(file).collect()
}
