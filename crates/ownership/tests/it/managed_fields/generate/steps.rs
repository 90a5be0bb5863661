//! Makes up sequences of writes. Each is made for the object as we left it.

use std::collections::BTreeMap;

use ferroplane_golang::json::JsonObject;
use serde_json::{Value, json};

use super::super::answer;
use super::values::{Faults, metadata, mutate, value};
use super::{schema, sets};
use crate::dice::Dice;

const GROUP: &str = "example.org";

struct Story {
    question: Value,
    versions: Value,
    live: Option<JsonObject>,
    configurations: BTreeMap<String, Value>,
    clock: usize,
    is_calm: bool,
}

/// Writes by several managers, most of them applying.
pub(super) fn sequence(dice: &mut Dice) -> Value {
    let mut story = Story::new(dice);
    for _ in 0..2 + dice.below(8) {
        story.step(dice);
    }
    story.question
}

/// A question about two objects and a set, without owners.
pub(super) fn parts(dice: &mut Dice) -> Value {
    let mut story = Story::new(dice);
    let faults = Faults { duplicates: 15, nonsense: 1, nulls: 5 };
    let step = json!({"version": "v1"});
    let mut object = story.fresh(dice, &step, faults);
    object["metadata"] = metadata(dice);
    let mut other = object.clone();
    for _ in 0..dice.below(6) {
        let schema = story.schema(&step);
        mutate(dice, &mut other, &schema, Faults { duplicates: 2, ..faults });
    }
    if !other.is_object() || dice.chance(20) {
        other = story.fresh(dice, &step, Faults { duplicates: 2, ..faults });
    }
    Story::name(&mut other, &step);
    // Fields of another object of the kind, and some at random.
    let (mut stranger, mut live) = (story.fresh(dice, &step, faults), None);
    if dice.chance(60) {
        stranger = object.clone();
        let schema = story.schema(&step);
        mutate(dice, &mut stranger, &schema, faults);
    }
    if !stranger.is_object() {
        stranger = json!({});
    }
    Story::name(&mut stranger, &step);
    let write = json!({
        "op": "apply", "version": "v1", "manager": "m", "time": "2001-01-01T00:00:00Z", "object": stranger
    });
    let kind = answer::kind(&story.question, &story.versions);
    let outcome = answer::perform(&mut live, &write, &story.question, &kind);
    let mut fields = outcome["object"]["metadata"]["managedFields"][0]["fieldsV1"].clone();
    if !fields.is_object() || dice.chance(20) {
        fields = json!({"f:spec": sets::fields(dice, 2)});
    }
    thin(dice, &mut fields, 0);
    if let Some(question) = story.question.as_object_mut() {
        question.remove("steps");
    }
    story.question["typed"] = json!({"object": object, "other": other, "fields": fields});
    story.question
}

/// Leaves out some of the fields, never the first.
fn thin(dice: &mut Dice, fields: &mut Value, depth: usize) {
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, _| depth == 0 || !dice.chance(25));
        fields.values_mut().for_each(|below| thin(dice, below, depth + 1));
    }
}

/// Many writes without mistakes, nearly all of them applying.
pub(super) fn calm(dice: &mut Dice) -> Value {
    let mut story = Story::new(dice);
    story.is_calm = true;
    for _ in 0..6 + dice.below(12) {
        let step = if dice.chance(80) { story.apply(dice) } else { story.update(dice) };
        story.push(step);
    }
    story.question
}

/// Updates by more managers than are kept apart.
pub(super) fn crowd(dice: &mut Dice) -> Value {
    let mut story = Story::new(dice);
    for index in 0..16 {
        let mut step = story.update(dice);
        step["manager"] = format!("crowd-{index}").into();
        step["subresource"] = "".into();
        if dice.chance(10) {
            step = story.apply(dice);
        }
        story.push(step);
    }
    story.question
}

impl Story {
    fn new(dice: &mut Dice) -> Self {
        let root = schema::root(dice);
        let other = if dice.chance(50) { root.clone() } else { schema::evolve(dice, &root) };
        let mut versions = json!([{"name": "v1", "schema": root}, {"name": "v2", "schema": other}]);
        if dice.chance(4) {
            versions[0]["schema"] = Value::Null;
            versions[1]["schema"] = Value::Null;
        }
        let mut question = json!({"group": GROUP, "kind": "Thing", "versions": versions, "steps": []});
        if dice.chance(4) {
            question["deduced"] = true.into();
        }
        Self { question, versions, live: None, configurations: BTreeMap::new(), clock: 0, is_calm: false }
    }

    fn step(&mut self, dice: &mut Dice) {
        let mut step = if dice.chance(55) { self.apply(dice) } else { self.update(dice) };
        if self.live.is_some() && dice.chance(6) && self.question.get("deduced").is_none() {
            self.evolve(dice);
            step["versions"] = self.versions.clone();
        }
        self.push(step);
    }

    fn evolve(&mut self, dice: &mut Dice) {
        let index = dice.below(2);
        if !self.versions[index]["schema"].is_null() {
            self.versions[index]["schema"] = schema::evolve(dice, &self.versions[index]["schema"]);
        }
    }

    fn push(&mut self, step: Value) {
        let kind = answer::kind(&self.question, &self.versions);
        answer::perform(&mut self.live, &step, &self.question, &kind);
        if let Some(steps) = self.question["steps"].as_array_mut() {
            steps.push(step);
        }
    }

    fn request(&mut self, dice: &mut Dice) -> Value {
        self.clock += 1;
        let version = if dice.chance(75) { "v1" } else { "v2" };
        let mut step = json!({
            "version": version,
            "manager": dice.choose(&["m1", "m2", "m1", "m2", "m3", "kubectl", "kubectl", "<m>", ""]),
            "time": format!("2001-01-01T01:00:{:02}Z", self.clock)
        });
        let status = [["status"]];
        let rest = [["metadata"], ["spec"]];
        match dice.below(10) {
            0 => {
                step["subresource"] = "status".into();
                step["reset"] = json!({"example.org/v1": rest, "example.org/v2": rest});
            }
            1 => step["reset"] = json!({ (format!("{GROUP}/{version}")): status }),
            2 => step["subresource"] = "scale".into(),
            3 => step["only"] = json!({ (format!("{GROUP}/{version}")): patterns(dice) }),
            _ => {}
        }
        step
    }

    fn faults(&self, faults: Faults) -> Faults {
        if self.is_calm { Faults { duplicates: 0, nonsense: 0, nulls: 0 } } else { faults }
    }

    fn schema(&self, step: &Value) -> Value {
        let index = usize::from(step["version"] == "v2");
        self.versions[index]["schema"].clone()
    }

    fn fresh(&self, dice: &mut Dice, step: &Value, faults: Faults) -> Value {
        let schema = self.schema(step);
        let mut object = value(dice, &schema, Faults { nulls: 0, nonsense: 0, ..faults });
        if !object.is_object() {
            object = json!({});
        }
        for name in ["spec", "status"] {
            if dice.chance(80) {
                object[name] = value(dice, &schema["properties"][name], faults);
            }
        }
        object["metadata"] = metadata(dice);
        Self::name(&mut object, step);
        object
    }

    fn name(object: &mut Value, step: &Value) {
        object["apiVersion"] = format!("{GROUP}/{}", step["version"].as_str().unwrap_or_default()).into();
        object["kind"] = "Thing".into();
    }

    fn apply(&mut self, dice: &mut Dice) -> Value {
        let mut step = self.request(dice);
        step["op"] = "apply".into();
        step["force"] = dice.chance(45).into();
        let faults = self.faults(Faults { duplicates: 3, nonsense: 1, nulls: 4 });
        let manager = step["manager"].as_str().unwrap_or_default().to_owned();
        let before = self.configurations.get(&manager).cloned();
        let mut object = match (before, &self.live) {
            (Some(before), _) if dice.chance(60) => before,
            (_, Some(live)) if dice.chance(35) => {
                let mut live = Value::Object(live.clone());
                if let Some(metadata) = live["metadata"].as_object_mut() {
                    metadata.remove("managedFields");
                    metadata.remove("uid");
                }
                live
            }
            _ => self.fresh(dice, &step, faults),
        };
        for _ in 0..dice.below(4) {
            let schema = self.schema(&step);
            mutate(dice, &mut object, &schema, faults);
        }
        if !object.is_object() {
            object = json!({});
        }
        if !object["metadata"].is_object() {
            object["metadata"] = metadata(dice);
        }
        if dice.chance(1) {
            object["metadata"]["managedFields"] = json!([]);
        }
        Self::name(&mut object, &step);
        if dice.chance(1) {
            object["kind"] = "Other".into();
        }
        self.configurations.insert(manager, object.clone());
        step["object"] = object;
        step
    }

    fn update(&mut self, dice: &mut Dice) -> Value {
        let mut step = self.request(dice);
        step["op"] = if self.live.is_some() { "update" } else { "create" }.into();
        let faults = self.faults(Faults { duplicates: 15, nonsense: 1, nulls: 5 });
        let mut object = match &self.live {
            Some(live) if dice.chance(85) => Value::Object(live.clone()),
            _ => self.fresh(dice, &step, faults),
        };
        let managed = object["metadata"]["managedFields"].clone();
        for _ in 0..dice.below(4) {
            let schema = self.schema(&step);
            mutate(dice, &mut object, &schema, faults);
        }
        if !object.is_object() {
            object = json!({});
        }
        if !object["metadata"].is_object() {
            object["metadata"] = metadata(dice);
        }
        let managed = match dice.below(100) {
            0..75 => managed,
            75..88 => Value::Null,
            _ if self.is_calm => managed,
            _ => sets::tampered(dice, &managed),
        };
        object["metadata"]["managedFields"] = managed;
        let is_dropped = object["metadata"]["managedFields"].is_null() && dice.chance(90);
        if let Some(metadata) = object["metadata"].as_object_mut().filter(|_| is_dropped) {
            metadata.remove("managedFields");
        }
        self.annotate(dice, &mut object);
        Self::name(&mut object, &step);
        step["object"] = object;
        step
    }

    /// As if somebody had used `kubectl apply` on the client.
    fn annotate(&self, dice: &mut Dice, object: &mut Value) {
        if !dice.chance(12) {
            return;
        }
        let configuration = self.configurations.get("kubectl").cloned().unwrap_or_else(|| {
            let mut own = object.clone();
            if let Some(metadata) = own["metadata"].as_object_mut() {
                metadata.remove("managedFields");
                metadata.remove("annotations");
            }
            own
        });
        if !object["metadata"]["annotations"].is_object() {
            object["metadata"]["annotations"] = json!({});
        }
        object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
            configuration.to_string().into();
    }
}

/// Patterns of what may be written.
fn patterns(dice: &mut Dice) -> Value {
    let words = ["spec", "status", "metadata", "*", "a", "b", "map", "list", "set", "labels"];
    let pattern = |dice: &mut Dice| {
        let first = *dice.choose(&["spec", "spec", "status", "*"]);
        let rest = (0..dice.below(3)).map(|_| *dice.choose(&words)).collect::<Vec<_>>();
        [vec![first], rest].concat()
    };
    (0..=dice.below(3)).map(|_| json!(pattern(dice))).collect()
}
