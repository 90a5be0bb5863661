//! `AccessGrant`.

use serde_json::{Value, json};

use super::kind::{Kind, Scope, Version, age, column};
use super::schema::{Schema, of};
use crate::AccessGrantSpec;
use crate::keys::FERROPLANE;

/// How long a list of a grant may be.
const LONGEST: u32 = 64;
const NAME: &str = "^[^*]+$";
const NAME_OR_ANY: &str = "^([^*]+|\\*)$";

pub(super) fn access_grant() -> Kind {
    let mut spec = of::<AccessGrantSpec>();
    // A list that is empty by mistake must not mean "all".
    for list in ["to.namespaces", "to.kinds", "to.functions", "read", "write", "run", "call", "intercept"] {
        spec.amend(list, "minItems", json!(1));
        spec.amend(list, "maxItems", json!(LONGEST));
    }
    for objects in ["read", "write"] {
        for list in ["apiGroups", "kinds", "namespaces", "names"] {
            spec.amend_item(objects, list, "minItems", json!(1));
            spec.amend_item(objects, list, "maxItems", json!(LONGEST));
        }
        spec.amend_item(objects, "namespaces", "items", json!({"type": "string", "pattern": NAME_OR_ANY}));
        spec.amend_item(objects, "names", "items", json!({"type": "string", "pattern": NAME}));
    }
    for (list, field) in [
        ("run", "privileges"),
        ("run", "images"),
        ("call", "hosts"),
        ("intercept", "hosts"),
        ("intercept", "modes"),
    ] {
        spec.amend_item(list, field, "minItems", json!(1));
        spec.amend_item(list, field, "maxItems", json!(LONGEST));
    }
    // There are no patterns such as `team-*`. Taken for a name, one would grant nothing and say nothing.
    spec.amend("to.namespaces", "items", json!({"type": "string", "pattern": NAME_OR_ANY}));
    spec.amend("to.functions", "items", json!({"type": "string", "pattern": NAME}));
    spec.amend_item("run", "images", "items", json!({"type": "string", "pattern": NAME_OR_ANY}));
    spec.amend_item("call", "hosts", "items", json!({"type": "string", "pattern": NAME}));
    spec.amend_item("intercept", "hosts", "items", json!({"type": "string", "pattern": NAME}));
    spec.rule(
        "has(self.read) || has(self.write) || has(self.run) || has(self.call) || has(self.intercept)",
        "set at least one of read, write, run, call and intercept",
    );
    let mut schema = Schema::of_object(
        "Gives composite resources and actions of Blueprints access outside of their namespace, and privileges to their functions.",
    )
        .with("spec", spec);
    schema.amend("", "required", json!(["spec"]));
    Kind::new(FERROPLANE, "AccessGrant", Scope::Cluster)
        .version(Version { columns: columns(), ..Version::new("v1alpha1", schema) })
}

fn columns() -> Vec<Value> {
    vec![
        column("TO", "string", ".spec.to.namespaces"),
        column("READ", "string", ".spec.read[*].kinds"),
        column("FROM", "string", ".spec.read[*].namespaces"),
        age(),
    ]
}
