//! Composite resources.

use serde_json::{Map, Value, json};

use super::{API_VERSION, COMPOSITION, KIND, NAMESPACE, Scope, Setting, values};
use crate::dice::Dice;

impl Setting {
    pub(super) fn xr(&self, dice: &mut Dice) -> Value {
        let mut xr = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": self.metadata(dice)});
        if let Some(spec) = self.spec(dice) {
            xr["spec"] = spec;
        }
        if dice.chance(50) {
            xr["status"] = status(dice);
        }
        xr
    }

    fn metadata(&self, dice: &mut Dice) -> Value {
        let mut metadata = json!({"name": self.name});
        if self.is_namespaced() {
            metadata["namespace"] = NAMESPACE.into();
        }
        if let Some(uid) = self.uid {
            metadata["uid"] = uid.into();
        }
        if dice.chance(40) {
            metadata["generation"] = (1 + dice.below(4)).into();
        }
        if dice.chance(10) {
            metadata["resourceVersion"] = "4711".into();
        }
        if dice.chance(10) {
            metadata["creationTimestamp"] = "2020-02-02T02:02:02Z".into();
        }
        if dice.chance(10) {
            metadata["finalizers"] = json!(["composite.apiextensions.crossplane.io"]);
        }
        let labels = self.labels(dice);
        if !labels.is_empty() {
            metadata["labels"] = Value::Object(labels);
        }
        if dice.chance(25) {
            metadata["annotations"] = json!({"note": "grüße", "crossplane.io/external-name": "elsewhere"});
        }
        metadata
    }

    fn labels(&self, dice: &mut Dice) -> Map<String, Value> {
        let mut labels = Map::new();
        if dice.chance(30) {
            labels.insert("team".to_owned(), "blue".into());
        }
        if dice.chance(15) {
            labels.insert("crossplane.io/composite".to_owned(), "root".into());
        }
        let claimed = if self.scope == Scope::Legacy { 50 } else { 10 };
        if dice.chance(claimed) {
            labels.insert("crossplane.io/claim-name".to_owned(), "claim".into());
        }
        if dice.chance(claimed) {
            labels.insert("crossplane.io/claim-namespace".to_owned(), "claims".into());
        }
        labels
    }

    fn spec(&self, dice: &mut Dice) -> Option<Value> {
        if dice.chance(8) {
            return None;
        }
        let mut spec = values::object(dice, 3);
        let machinery = self.machinery(dice);
        let fields = spec.as_object_mut().expect("it is an object");
        if self.scope == Scope::Legacy {
            fields.extend(machinery);
        } else if !machinery.is_empty() || dice.chance(10) {
            fields.insert("crossplane".to_owned(), Value::Object(machinery));
        }
        Some(spec)
    }

    /// What is not the user's but the plane's.
    fn machinery(&self, dice: &mut Dice) -> Map<String, Value> {
        let mut machinery = Map::new();
        let mut set = |name: &str, value: Value| machinery.insert(name.to_owned(), value);
        if dice.chance(30) {
            set("compositionRef", json!({"name": dice.pick(&[COMPOSITION, "another"])}));
        }
        if dice.chance(10) {
            set("compositionSelector", json!({"matchLabels": {"tier": "gold"}}));
        }
        if dice.chance(10) {
            set("compositionUpdatePolicy", dice.pick(&["Automatic", "Manual"]).into());
        }
        if dice.chance(10) {
            set("compositionRevisionRef", json!({"name": "databases-1234567"}));
        }
        if dice.chance(15) {
            let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap"});
            let gone = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone"});
            let settings =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "referenced", "namespace": "team"});
            set("resourceRefs", Value::Array(dice.some(&[nameless, gone, settings], 60)));
        }
        if self.scope == Scope::Legacy {
            if dice.chance(40) {
                let name = dice.pick(&["published", "gone"]);
                set("writeConnectionSecretToRef", json!({"name": name, "namespace": "secrets"}));
            }
            if dice.chance(30) {
                let claim = json!({"apiVersion": API_VERSION, "kind": "Database", "name": "claim", "namespace": "claims"});
                set("claimRef", claim);
            }
        }
        machinery
    }
}

fn status(dice: &mut Dice) -> Value {
    let mut status = values::object(dice, 2);
    if dice.chance(70) {
        status["conditions"] = conditions(dice);
    }
    if dice.chance(10) {
        status["claimConditionTypes"] = json!(["Custom"]);
    }
    status
}

/// Conditions, as they were found. Their times are long ago.
pub(super) fn conditions(dice: &mut Dice) -> Value {
    let known = [
        json!({"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}),
        json!({"type": "Ready", "status": "True", "reason": "Available", "observedGeneration": 1}),
        json!({"type": "Ready", "status": "False", "reason": "Creating", "message": "Unready resources: a"}),
        json!({"type": "Responsive", "status": "True", "reason": "WatchCircuitClosed"}),
        json!({"type": "Custom", "status": "True", "reason": "Fine", "message": "all is well"}),
        json!({"type": "Other", "status": "Unknown", "reason": "Odd", "observedGeneration": 2}),
    ];
    let mut chosen: Vec<Value> = Vec::new();
    for mut condition in dice.some(&known, 45) {
        if chosen.iter().any(|present| present["type"] == condition["type"]) {
            continue;
        }
        if dice.chance(95) {
            condition["lastTransitionTime"] = "2020-01-02T03:04:05Z".into();
        }
        chosen.push(condition);
    }
    Value::Array(chosen)
}
