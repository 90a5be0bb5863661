//! `FunctionRollout`.
#![allow(dead_code, reason = "only the schemas of these types are of interest")]

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::kind::{Kind, Scope, Version, age, column, wide_column};
use super::marks::keyed_by;
use super::schema::{Schema, of};
use super::shared_fields::Condition;
use crate::keys::ROLLOUT;
use crate::{FunctionRolloutSpec, FunctionRolloutStatus, RolloutGates};

/// A number, or a percentage.
const SHARE: &str = "^([1-9][0-9]{0,6}|([1-9][0-9]?|100)%)$";

/// Observed state of the FunctionRollout.
#[derive(JsonSchema)]
struct Status {
    /// Current conditions of the object, one per type.
    #[schemars(transform = keyed_by("type"))]
    conditions: Option<Vec<Condition>>,
    #[serde(flatten)]
    rollout: FunctionRolloutStatus,
}

pub(super) fn function_rollout() -> Kind {
    let mut schema = Schema::of_object(
        "Moves composite resources to new revisions of a Function or a Composition in waves, and back when a revision fails.",
    )
    .with("spec", spec())
    .with("status", of::<Status>());
    schema.amend("", "required", json!(["spec"]));
    let version = Version { columns: columns(), has_status: true, ..Version::new("v1alpha1", schema) };
    Kind::new(ROLLOUT, "FunctionRollout", Scope::Cluster).version(version)
}

fn spec() -> Schema {
    let mut spec = of::<FunctionRolloutSpec>();
    spec.amend("waves", "minItems", json!(1));
    spec.amend("waves", "maxItems", json!(10));
    spec.amend("waves", "items", json!({"type": "string", "pattern": SHARE}));
    spec.amend("waves", "default", json!(["1", "10%", "50%", "100%"]));
    spec.amend("maxUnavailable", "pattern", json!(SHARE));
    spec.amend("maxUnavailable", "default", json!("1%"));
    for (field, default) in [("minReadySeconds", 60), ("progressDeadlineSeconds", 600), ("maxFailures", 0)] {
        spec.amend(field, "minimum", json!(0));
        spec.amend(field, "default", json!(default));
    }
    spec.amend("onFailure", "default", json!("RollBack"));
    spec.amend("refuse", "default", json!(["Deleted", "Renamed"]));
    spec.amend("refuse", "maxItems", json!(9));
    spec.amend("gates", "default", json!({}));
    let gates = RolloutGates::default();
    for (field, default, most) in [
        ("minCalls", gates.min_calls, 1_000_000),
        ("maxErrorPercent", gates.max_error_percent, 100),
        ("maxLatencyFactor", gates.max_latency_factor, 1000),
        ("slowMilliseconds", gates.slow_milliseconds, 600_000),
        ("maxSizeFactor", gates.max_size_factor, 1000),
    ] {
        let field = format!("gates.{field}");
        spec.amend(&field, "minimum", json!(i32::from(field.ends_with("minCalls"))));
        spec.amend(&field, "maximum", json!(most));
        spec.amend(&field, "default", json!(default));
    }
    for target in ["functionRef", "compositionRef"] {
        spec.amend(&format!("{target}.name"), "minLength", json!(1));
        let rule = format!("has(self.{target}) == has(oldSelf.{target})");
        spec.rule(&rule, &format!("{target} cannot be added or removed"));
    }
    spec.rule(
        "has(self.functionRef) != has(self.compositionRef)",
        "set either functionRef or compositionRef",
    );
    spec.rule("self.waves[size(self.waves) - 1] == '100%'", "the last wave has to be 100%");
    spec
}

fn columns() -> Vec<Value> {
    vec![
        column("FUNCTION", "string", ".spec.functionRef.name"),
        column("COMPOSITION", "string", ".spec.compositionRef.name"),
        column("STATE", "string", ".status.state"),
        column("CANDIDATE", "string", ".status.candidate"),
        column("MOVED", "integer", ".status.composites.moved"),
        column("OF", "integer", ".status.composites.total"),
        age(),
        wide_column("STABLE", ".status.stable"),
        wide_column("MESSAGE", ".status.message"),
    ]
}
