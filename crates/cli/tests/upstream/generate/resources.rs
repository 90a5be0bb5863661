//! Composed resources: those that exist, and those that functions want.

use serde_json::{Map, Value, json};

use super::{API_VERSION, KIND, NAMESPACE, Setting, values};
use crate::dice::Dice;

impl Setting {
    /// The composed resources that exist.
    pub(super) fn observed(&self, dice: &mut Dice) -> Value {
        self.observed.iter().map(|key| self.observed_one(dice, key)).collect()
    }

    pub(super) fn observed_one(&self, dice: &mut Dice, key: &str) -> Value {
        let (api_version, kind) = kind_of(key);
        let mut metadata = json!({
            "name": format!("observed-{}", slug(key)),
            "annotations": {"crossplane.io/composition-resource-name": key},
        });
        let namespace =
            if self.is_namespaced() { Some(NAMESPACE) } else { dice.pick(&[None, Some("elsewhere")]) };
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        if dice.chance(50) {
            metadata["generateName"] = "observed-".into();
        }
        if dice.chance(50) {
            metadata["uid"] = "a0a0a0a0-0000-4000-8000-0123456789ab".into();
            metadata["resourceVersion"] = "17".into();
        }
        if dice.chance(50) {
            metadata["labels"] = json!({"crossplane.io/composite": self.name, "from": "the cluster"});
        }
        if dice.chance(80) {
            metadata["ownerReferences"] = json!([self.owner()]);
        }
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        if dice.chance(50) {
            object["spec"] = values::object(dice, 2);
        }
        if dice.chance(20) {
            let secret = json!({"name": dice.pick(&["connection", "gone"]), "namespace": "secrets"});
            object["spec"] = json!({"writeConnectionSecretToRef": secret});
        }
        if dice.chance(50) {
            object["status"] = values::object(dice, 2);
        }
        object
    }

    /// The owner reference of a resource that the composite resource controls.
    pub(super) fn owner(&self) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": self.uid(),
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// What a function wants under this key.
    pub(super) fn desired(&self, dice: &mut Dice, key: &str) -> Value {
        let (api_version, kind) = kind_of(key);
        let mut object = json!({"apiVersion": api_version, "kind": kind});
        if dice.chance(85) {
            object["metadata"] = self.desired_metadata(dice, key);
        }
        for field in dice.some(&["spec", "data", "status"], 35) {
            object[field] = values::object(dice, 3);
        }
        let mut resource = json!({"resource": object});
        if dice.chance(60) {
            resource["ready"] = dice.pick(&[
                json!("READY_TRUE"),
                json!("READY_TRUE"),
                json!("READY_FALSE"),
                json!("READY_UNSPECIFIED"),
                json!(7),
            ]);
        }
        if dice.chance(10) {
            resource["connectionDetails"] = json!({"password": "c2VjcmV0", "empty": ""});
        }
        resource
    }

    fn desired_metadata(&self, dice: &mut Dice, key: &str) -> Value {
        let mut metadata = Map::new();
        let mut set = |name: &str, value: Value| metadata.insert(name.to_owned(), value);
        if dice.chance(35) {
            set("name", format!("named-{}", slug(key)).into());
        }
        if dice.chance(5) {
            set("name", "".into());
        }
        if dice.chance(25) {
            let prefixes = [
                "short-",
                "no-hyphen",
                "x-",
                "a-prefix-that-is-much-too-long-for-a-name-with-a-hash-behind-it-",
            ];
            set("generateName", dice.pick(&prefixes).into());
        }
        if dice.chance(30) {
            set("namespace", dice.pick(&[NAMESPACE, "elsewhere", ""]).into());
        }
        if dice.chance(30) {
            set("labels", dice.pick(&label_choices()));
        }
        if dice.chance(30) {
            set("annotations", dice.pick(&annotation_choices()));
        }
        if dice.chance(15) {
            let stranger =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "friend", "uid": "friend-uid"});
            let choices = [json!([]), json!([stranger]), json!([stranger, self.owner()]), Value::Null];
            set("ownerReferences", dice.pick(&choices));
        }
        if dice.chance(5) {
            set("finalizers", json!(["example.org/keep"]));
        }
        Value::Object(metadata)
    }
}

fn label_choices() -> [Value; 5] {
    [
        json!({}),
        json!({"app": "web", "empty": ""}),
        json!({"crossplane.io/composite": "someone-else"}),
        json!({"crossplane.io/claim-name": "not-mine"}),
        Value::Null,
    ]
}

fn annotation_choices() -> [Value; 4] {
    [
        json!({}),
        json!({"note": "grüße ☃"}),
        json!({"crossplane.io/composition-resource-name": "another", "crossplane.io/external-name": "x"}),
        Value::Null,
    ]
}

/// A resource is always of the same kind, whoever wants it.
pub(super) fn kind_of(key: &str) -> (&'static str, &'static str) {
    match key.len() % 4 {
        0 => ("s3.example.org/v1beta1", "Bucket"),
        1 => ("v1", "ConfigMap"),
        2 => ("example.org/v1", "XNested"),
        _ => ("rbac.authorization.k8s.io/v1", "Role"),
    }
}

/// A key as it may stand in a name.
pub(super) fn slug(key: &str) -> String {
    let letters = key.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}
