//! `FunctionIntercept`.
#![allow(dead_code, reason = "only the schemas of these types are of interest")]

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::kind::{Kind, Scope, Version, age, column};
use super::marks::keyed_by;
use super::schema::{Schema, of};
use super::shared_fields::Condition;
use crate::keys::ROLLOUT;
use crate::{FunctionInterceptSpec, FunctionInterceptStatus};

/// A host and a port.
const ADDRESS: &str = r"^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?):[0-9]{1,5}$";

/// Observed state of the FunctionIntercept.
#[derive(JsonSchema)]
struct Status {
    /// Current conditions of the object, one per type.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    #[serde(flatten)]
    intercept: FunctionInterceptStatus,
}

pub(super) fn function_intercept() -> Kind {
    let mut schema = Schema::of_object(
        "Sends calls of a Function to the process of a developer, for selected composite resources and as long as a client renews it.",
    )
    .with("spec", spec())
    .with("status", of::<Status>());
    schema.amend("", "required", json!(["spec"]));
    let version = Version { columns: columns(), has_status: true, ..Version::new("v1alpha1", schema) };
    Kind::new(ROLLOUT, "FunctionIntercept", Scope::Cluster).version(version)
}

fn spec() -> Schema {
    let mut spec = of::<FunctionInterceptSpec>();
    for field in ["functionRef.name", "composites.kind"] {
        spec.amend(field, "minLength", json!(1));
    }
    spec.amend("to", "pattern", json!(ADDRESS));
    spec.amend("mode", "default", json!("Shadow"));
    for (field, default, least) in [("leaseSeconds", 15, 5), ("renewals", 0, 0), ("round", 0, 0)] {
        spec.amend(field, "default", json!(default));
        spec.amend(field, "minimum", json!(least));
    }
    spec.amend("leaseSeconds", "maximum", json!(300));
    spec.rule(
        "has(self.composites.name) || has(self.composites.matchLabels) && size(self.composites.matchLabels) > 0",
        "name the composite resources: by name, or by labels",
    );
    // What one may ask for is decided when it is created. Fields that were left out cannot be added later.
    spec.rule("has(self.tls) == has(oldSelf.tls)", "tls cannot be changed");
    spec
}

fn columns() -> Vec<Value> {
    vec![
        column("FUNCTION", "string", ".spec.functionRef.name"),
        column("MODE", "string", ".spec.mode"),
        column("TO", "string", ".spec.to"),
        column("ACTIVE", "string", ".status.conditions[?(@.type=='Active')].status"),
        column("COMPOSITES", "integer", ".status.composites"),
        age(),
    ]
}
