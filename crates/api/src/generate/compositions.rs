//! `Composition`, `CompositionRevision` and `EnvironmentConfig`.
#![allow(dead_code, reason = "only the schemas of these types are of interest")]

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::kind::{Kind, Scope, Version, age, column};
use super::marks::{atomic, keyed_by, set};
use super::schema::{Schema, of};
use crate::CompositionSpec;

/// Specification of the Composition at the time of this revision.
#[derive(JsonSchema)]
struct RevisionSpec {
    #[serde(flatten)]
    composition: CompositionSpec,
    /// Number of the revision. Newer revisions have higher numbers.
    revision: i64,
}

/// Observed state of the CompositionRevision.
#[derive(JsonSchema)]
struct RevisionStatus {
    /// Current conditions of the object, one per type.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<super::shared_fields::Condition>>,
    /// Warnings about versions of functions that the steps call, for example deprecated ones.
    #[schemars(transform = atomic)]
    warnings: Option<Vec<VersionWarning>>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VersionWarning {
    /// Name of the step that calls the function.
    step: String,
    /// Name of the function.
    function: String,
    /// Version of the function that the step calls.
    version: String,
    /// Reason for the warning, as one word for programs.
    reason: String,
    /// Human-readable text of the warning.
    message: String,
    /// Ferroplane release that removes the version of the function.
    removed_in: Option<String>,
    /// The version to call instead.
    replacement: Option<String>,
}

/// Provides data that the steps of Compositions can use.
#[derive(JsonSchema)]
struct EnvironmentConfig {
    /// Data of the environment. Keys and values can have any form.
    #[schemars(transform = set("additionalProperties", json!({"x-kubernetes-preserve-unknown-fields": true})))]
    data: Option<crate::Object>,
}

pub(super) fn composition() -> Kind {
    let mut spec =
        of::<CompositionSpec>().described("Specification of how composite resources of a kind are composed.");
    spec.amend("pipeline", "minItems", json!(1));
    // Crossplane's limit. It also keeps the estimated cost of rules about steps within Kubernetes' budget.
    spec.amend("pipeline", "maxItems", json!(99));
    spec.rule(
        // `&&` binds tighter in CEL: a pipeline alone is always enough.
        "has(self.pipeline) || has(self.functions) || has(self.resources) && (!has(self.mode) || self.mode == 'Resources')",
        "a pipeline is missing",
    );
    spec.amend("functions", "minItems", json!(1));
    spec.amend("functions", "maxItems", json!(99));
    spec.rule("!(has(self.pipeline) && has(self.functions))", "pipeline and functions exclude each other");
    spec.rule(
        "!(has(self.functions) && has(self.resources) && has(self.mode) && self.mode == 'Pipeline')",
        "resources beside functions need mode Resources",
    );
    spec.rule("!has(self.mode) || self.mode != 'Resources' || has(self.resources)", "resources are missing");
    // With a mode, the other one has no effect, of which users are warned: old Compositions may have both.
    spec.rule(
        "has(self.mode) || !(has(self.pipeline) && has(self.resources))",
        "pipeline and resources exclude each other without a mode",
    );
    let schema = Schema::of_object("Defines how the control plane composes a kind of composite resources.")
        .with("spec", spec);
    Kind { short_names: &["comp"], ..Kind::new("apiextensions.crossplane.io", "Composition", Scope::Cluster) }
        .version(Version { columns: composed_columns(), ..Version::new("v1", schema.clone()) })
        // The version that the designs of composition functions write. It has the same schema, so that no conversion is needed.
        .version(Version { columns: composed_columns(), ..Version::new("v2alpha1", schema) })
}

pub(super) fn revision() -> Kind {
    let schema = Schema::of_object("An immutable copy of a Composition, made when the Composition changes.")
        .with("spec", of::<RevisionSpec>())
        .with("status", of::<RevisionStatus>());
    let number = column("REVISION", "string", ".spec.revision");
    let columns = std::iter::once(number).chain(composed_columns()).collect();
    Kind {
        short_names: &["comprev"],
        ..Kind::new("apiextensions.crossplane.io", "CompositionRevision", Scope::Cluster)
    }
    .version(Version { columns, has_status: true, ..Version::new("v1", schema) })
}

pub(super) fn environment_config() -> Kind {
    let mut schema = of::<EnvironmentConfig>();
    schema.name_kind();
    Kind {
        short_names: &["envcfg"],
        ..Kind::new("apiextensions.crossplane.io", "EnvironmentConfig", Scope::Cluster)
    }
    .version(Version { columns: vec![age()], ..Version::new("v1beta1", schema) })
}

fn composed_columns() -> Vec<Value> {
    vec![
        column("XR-KIND", "string", ".spec.compositeTypeRef.kind"),
        column("XR-APIVERSION", "string", ".spec.compositeTypeRef.apiVersion"),
        age(),
    ]
}
