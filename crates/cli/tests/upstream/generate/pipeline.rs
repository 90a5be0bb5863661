//! Compositions: pipelines of steps, each with a script for its function.

use serde_json::{Map, Value, json};

use super::{API_VERSION, COMPOSITION, KIND, Setting, surroundings, values, xr};
use crate::dice::Dice;

const STEPS: [&str; 5] = ["first", "second step", "dritter-schritt-ü", "4", "last"];

impl Setting {
    pub(super) fn composition(&self, dice: &mut Dice) -> Value {
        let count = 1 + dice.below(STEPS.len());
        let pipeline: Vec<_> = STEPS.iter().take(count).map(|name| self.step(dice, name)).collect();
        let mut composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition",
            "metadata": {"name": COMPOSITION},
            "spec": {
                "compositeTypeRef": {"apiVersion": API_VERSION, "kind": KIND},
                "mode": "Pipeline",
                "pipeline": pipeline,
            }
        });
        if dice.chance(10) {
            composition["spec"].as_object_mut().expect("it is an object").remove("mode");
        }
        if dice.chance(20) {
            composition["metadata"]["labels"] = json!({"tier": "gold"});
        }
        if dice.chance(25) {
            composition["spec"]["writeConnectionSecretsToNamespace"] = "secrets".into();
        }
        composition
    }

    fn step(&self, dice: &mut Dice, name: &str) -> Value {
        let mut step = json!({"step": name, "functionRef": {"name": dice.pick(&["f", "g"])}});
        if dice.chance(92) {
            step["input"] = self.script(dice);
        }
        if dice.chance(15) {
            let secrets = dice.some(&["cloud", "kindless", "bare"], 50);
            let credentials = secrets.iter().map(|secret| {
                let secret_ref = json!({"namespace": "secrets", "name": secret});
                json!({"name": format!("my-{secret}"), "source": "Secret", "secretRef": secret_ref})
            });
            step["credentials"] = credentials.collect();
        }
        if dice.chance(25) {
            step["requirements"] = requirements(dice);
            // What is asked for twice may spare a call, in which the function would find its own context.
            if let Some(response) = step.pointer_mut("/input/response").and_then(Value::as_object_mut) {
                response.remove("context");
            }
        }
        step
    }

    fn script(&self, dice: &mut Dice) -> Value {
        let mut script = json!({
            "apiVersion": "script.ferroplane.io/v1", "kind": "Script", "response": self.response(dice)
        });
        let mut set = |field: &str, value: Value| script[field] = value;
        if dice.chance(10) {
            set("values", values::object(dice, 3));
        }
        if dice.chance(8) {
            set("without", json!([dice.pick(&["desired", "context", "meta"])]));
        }
        if dice.chance(20) {
            set("drop", json!(dice.some(&self.keys, 30)));
        }
        if dice.chance(30) {
            set("asks", asks(dice));
            set("manner", dice.pick(&["atOnce", "atOnce", "oneByOne"]).into());
        }
        if dice.chance(30) {
            let all = ["spec", "observed", "required", "extra", "context", "credentials"];
            set("echo", json!(dice.some(&all, 40)));
        }
        if dice.chance(20) {
            set("readyIfObserved", true.into());
        }
        script
    }

    /// What the function answers, over what it was given.
    fn response(&self, dice: &mut Dice) -> Value {
        let mut response = json!({});
        if dice.chance(75) {
            let share = dice.pick(&[20, 60, 100]);
            let resources: Map<_, _> = dice
                .some(&self.keys, share)
                .into_iter()
                .map(|key| (key.to_owned(), self.desired(dice, key)))
                .collect();
            response["desired"]["resources"] = Value::Object(resources);
        }
        if dice.chance(40) {
            response["desired"]["composite"] = desired_composite(dice);
        }
        if dice.chance(35) {
            response["results"] = (0..dice.below(4)).map(|_| result(dice)).collect();
        }
        if dice.chance(30) {
            response["conditions"] = (0..dice.below(4)).map(|_| condition(dice)).collect();
        }
        if dice.chance(30) {
            response["context"] = json!({dice.pick(&["apiextensions.crossplane.io/environment", "other"]): values::object(dice, 2)});
        }
        if dice.chance(20) {
            response["meta"]["ttl"] = dice.pick(&["0s", "1s", "300s", "0.5s", "-1s"]).into();
        }
        if dice.chance(5) {
            response["requirements"] = json!({});
        }
        if dice.chance(5) {
            response["output"] = values::object(dice, 1);
        }
        response
    }
}

fn desired_composite(dice: &mut Dice) -> Value {
    let mut object = json!({});
    if dice.chance(85) {
        object["status"] = values::object(dice, 3);
        if dice.chance(20) {
            object["status"]["conditions"] = xr::conditions(dice);
        }
    }
    if dice.chance(10) {
        object["spec"] = json!({"ignored": true});
    }
    if dice.chance(10) {
        object["metadata"] = json!({"name": "ignored", "labels": {"ignored": "too"}});
    }
    if dice.chance(30) {
        object["apiVersion"] = API_VERSION.into();
        object["kind"] = KIND.into();
    }
    let mut composite = json!({"resource": object});
    if dice.chance(30) {
        composite["ready"] = dice.pick(&["READY_TRUE", "READY_FALSE", "READY_UNSPECIFIED"]).into();
    }
    if dice.chance(20) {
        composite["connectionDetails"] = json!({"password": "c2VjcmV0", "user": "YWRtaW4="});
    }
    composite
}

pub(crate) fn result(dice: &mut Dice) -> Value {
    let severities = ["SEVERITY_NORMAL", "SEVERITY_NORMAL", "SEVERITY_WARNING", "SEVERITY_UNSPECIFIED"];
    let mut result = json!({"severity": dice.pick(&severities)});
    if dice.chance(90) {
        result["message"] = dice.pick(&["went well", "grüße ☃", "two\nlines", ""]).into();
    }
    if dice.chance(40) {
        result["reason"] = dice.pick(&["Because", "", "with space"]).into();
    }
    if dice.chance(40) {
        let targets = ["TARGET_COMPOSITE", "TARGET_COMPOSITE_AND_CLAIM", "TARGET_UNSPECIFIED"];
        result["target"] = dice.pick(&targets).into();
    }
    result
}

fn condition(dice: &mut Dice) -> Value {
    let types =
        ["Custom", "Other", "Third", "Custom", "Ready", "Synced", "Healthy", "UpToDate", "Responsive"];
    let statuses = ["TRUE", "FALSE", "UNKNOWN", "UNSPECIFIED"];
    let mut condition = json!({
        "type": dice.pick(&types),
        "status": format!("STATUS_CONDITION_{}", dice.pick(&statuses)),
        "reason": dice.pick(&["Fine", "Because", ""]),
    });
    if dice.chance(60) {
        condition["message"] = dice.pick(&["all is well", "", "ü"]).into();
    }
    if dice.chance(50) {
        condition["target"] = dice.pick(&["TARGET_COMPOSITE", "TARGET_COMPOSITE_AND_CLAIM"]).into();
    }
    condition
}

/// What a function asks for while it runs. The names may be those of the composition's own requirements.
pub(crate) fn asks(dice: &mut Dice) -> Value {
    let mut asks = Vec::new();
    for name in dice.some(&["one", "two", "three", "four", "five", "up-front"], 55) {
        let field = dice.pick(&["resources", "resources", "extraResources", "schemas"]);
        let selector = if field == "schemas" {
            surroundings::schema_selector(dice)
        } else {
            surroundings::selector(dice)
        };
        asks.push(json!({"field": field, "name": name, "selector": selector}));
    }
    Value::Array(asks)
}

/// What a composition gives a step up front.
pub(crate) fn requirements(dice: &mut Dice) -> Value {
    let mut resources = Vec::new();
    for name in dice.some(&["up-front", "more"], 60) {
        let mut selector = surroundings::selector(dice);
        let fields = selector.as_object_mut().expect("it is an object");
        if let Some(name) = fields.remove("matchName") {
            fields.insert("name".to_owned(), name);
        }
        // No labels at all is the same as none to match.
        if let Some(labels) = fields.remove("matchLabels").filter(|labels| labels["labels"] != json!({})) {
            fields.insert("matchLabels".to_owned(), labels["labels"].clone());
        }
        fields.insert("requirementName".to_owned(), name.into());
        resources.push(selector);
    }
    let mut schemas = Vec::new();
    for name in dice.some(&["up-front", "shape"], 40) {
        let mut selector = surroundings::schema_selector(dice);
        selector["requirementName"] = name.into();
        schemas.push(selector);
    }
    json!({"requiredResources": resources, "requiredSchemas": schemas})
}
