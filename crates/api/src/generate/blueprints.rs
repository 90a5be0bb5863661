//! `Blueprint`, `ActionSet` and `Profile`.
#![allow(dead_code, reason = "only the schemas of these types are of interest")]

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::kind::{Kind, Scope, Version, age, column, wide_column};
use super::marks::keyed_by;
use super::schema::{Schema, of};
use super::shared_fields::Condition;
use crate::keys::KANISTER;
use crate::{ActionSetSpec, ActionSetStatus, Blueprint, Profile};

/// Observed state of the ActionSet.
#[derive(JsonSchema)]
struct Status {
    /// Current conditions of the object, one per type.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    #[serde(flatten)]
    actions: ActionSetStatus,
}

pub(super) fn blueprint() -> Kind {
    let mut schema = of::<Blueprint>()
        .described("Defines actions, such as backup and restore, as phases that call functions.");
    schema.name_kind();
    kind("Blueprint", Version { columns: vec![age()], ..Version::new("v1alpha1", schema) })
}

pub(super) fn action_set() -> Kind {
    let schema = Schema::of_object("Runs actions of Blueprints, once.")
        .with("spec", of::<ActionSetSpec>())
        .with("status", of::<Status>());
    // As Kanister has it, there is no status subresource: its clients write the status of what they restore.
    kind("ActionSet", Version { columns: columns(), ..Version::new("v1alpha1", schema) })
}

pub(super) fn profile() -> Kind {
    let mut schema =
        of::<Profile>().described("Defines where functions store data, and the credentials for it.");
    schema.name_kind();
    schema.amend("", "required", json!(["location", "credential"]));
    kind("Profile", Version { columns: vec![age()], ..Version::new("v1alpha1", schema) })
}

fn kind(name: &'static str, version: Version) -> Kind {
    let kind = Kind::new(KANISTER, name, Scope::Namespaced).version(version);
    Kind { categories: &[], ..kind }
}

fn columns() -> Vec<Value> {
    vec![
        column("Progress", "string", ".status.progress.percentCompleted"),
        column("Running Phase", "string", ".status.progress.runningPhase"),
        column("Last Transition Time", "string", ".status.progress.lastTransitionTime"),
        column("State", "string", ".status.state"),
        age(),
        wide_column("Size Downloaded", ".status.progress.sizeDownloadedB"),
        wide_column("Size Uploaded", ".status.progress.sizeUploadedB"),
        wide_column("Estimated Download Size", ".status.progress.estimatedDownloadSizeB"),
        wide_column("Estimated Upload Size", ".status.progress.estimatedUploadSizeB"),
        wide_column("Error", ".status.error.message"),
    ]
}
