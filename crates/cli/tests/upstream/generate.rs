//! Makes cases: composite resources of every kind, and pipelines that do everything a function may do.
//!
//! A case starts out as something that works. Then, in some, one thing goes wrong ([`mishaps`]).

mod mishaps;
mod pipeline;
mod resources;
mod surroundings;
mod values;
mod xr;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::case::Case;
use crate::dice::Dice;

pub(crate) use pipeline::{asks, requirements, result};
pub(crate) use surroundings::{credentials, grant, required, schemas};

/// How many cases in a hundred have a mishap.
const MISHAPS: usize = 45;
/// How many cases in a hundred have a fatal result, whatever else goes wrong.
const FATAL: usize = 8;

/// The case with this number.
pub(crate) fn case(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let setting = Setting::new(&mut dice);
    let mut case = json!({
        "functions": ["f", "g"],
        "compositeResource": setting.xr(&mut dice),
        "composition": setting.composition(&mut dice),
        "observedResources": setting.observed(&mut dice),
        "requiredResources": surroundings::required(&mut dice),
        "credentials": setting.secrets(),
        "requiredSchemas": surroundings::schemas(&mut dice),
        "compositeResourceDefinition": setting.definition(&mut dice),
    });
    if dice.chance(MISHAPS) {
        mishaps::happen(&mut dice, &setting, &mut case);
    }
    if dice.chance(FATAL) {
        mishaps::fatal_result(&mut dice, &setting, &mut case);
    }
    Case(case)
}

/// Any object.
pub(crate) fn values_object(dice: &mut Dice) -> Value {
    values::object(dice, 2)
}

/// What the parts of a case have to agree on.
#[derive(Debug)]
struct Setting {
    scope: Scope,
    name: &'static str,
    uid: Option<&'static str>,
    /// The names the composition has for what it composes.
    keys: Vec<&'static str>,
    /// Those of them that exist already.
    observed: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
    Legacy,
}

const API_VERSION: &str = "example.org/v1";
const KIND: &str = "XDatabase";
const NAMESPACE: &str = "team";
const UID: &str = "0f2f3f4a-1111-4222-8333-5d5e5f5a5b5c";
const COMPOSITION: &str = "databases";

const KEYS: [&str; 12] = [
    "a",
    "b",
    "bucket",
    "user",
    "policy",
    "queue-1",
    "queue-2",
    "Upper",
    "with space",
    "grüße ☃",
    "slash/es.and_more",
    "very-long-name-of-a-composed-resource-that-does-not-fit-into-a-label-value-by-far",
];

impl Setting {
    fn new(dice: &mut Dice) -> Self {
        let density = dice.pick(&[0, 10, 25, 25, 50, 100]);
        let keys = dice.some(&KEYS, density);
        let already = dice.pick(&[0, 0, 30, 70, 100]);
        let observed = dice.some(&keys, already);
        let names = [
            "xr",
            "xr",
            "my.dotted-name",
            "a-composite-resource-with-a-name-that-is-longer-than-any-label-may-be",
        ];
        Self {
            scope: dice.pick(&[Scope::Namespaced, Scope::Namespaced, Scope::Cluster, Scope::Legacy]),
            name: dice.pick(&names),
            uid: dice.chance(60).then_some(UID),
            keys,
            observed,
        }
    }

    /// Credentials of functions, and connection details. The composite resource sees only a Secret that it controls.
    fn secrets(&self) -> Value {
        let mut secrets = surroundings::credentials();
        let metadata =
            json!({"name": "published", "namespace": "secrets", "ownerReferences": [self.owner()]});
        let published = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"endpoint": "ZGI6NTQzMg=="}});
        secrets.as_array_mut().expect("is a list").push(published);
        secrets
    }

    /// The uid of the composite resource: its own, or what it gets when it has none.
    fn uid(&self) -> String {
        let namespace = if self.is_namespaced() { NAMESPACE } else { "" };
        let name = format!("{API_VERSION}, Kind={KIND}\0{namespace}\0{}", self.name);
        self.uid.map_or_else(|| Uuid::new_v5(&Uuid::nil(), name.as_bytes()).to_string(), str::to_owned)
    }

    fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// The definition of the kind. Only a legacy one has to be told apart.
    fn definition(&self, dice: &mut Dice) -> Value {
        if self.scope != Scope::Legacy && dice.chance(60) {
            return Value::Null;
        }
        let (api_version, scope) = match self.scope {
            Scope::Namespaced => {
                dice.pick(&[("v1", Some("Namespaced")), ("v2", Some("Namespaced")), ("v2", None)])
            }
            Scope::Cluster => dice.pick(&[("v1", Some("Cluster")), ("v2", Some("Cluster"))]),
            Scope::Legacy => {
                dice.pick(&[("v1", None), ("v1", Some("LegacyCluster")), ("v2", Some("LegacyCluster"))])
            }
        };
        let mut definition = json!({
            "apiVersion": format!("apiextensions.crossplane.io/{api_version}"),
            "kind": "CompositeResourceDefinition",
            "metadata": {"name": "xdatabases.example.org"},
            "spec": {
                "group": "example.org",
                "names": {"kind": KIND, "plural": "xdatabases"},
                "versions": [{"name": "v1", "served": true, "referenceable": true}],
            }
        });
        if let Some(scope) = scope {
            definition["spec"]["scope"] = scope.into();
        }
        definition
    }
}
