//! Makes up requests, given the object as it is.

use serde_json::{Value, json};

use super::{kinds, values};
use crate::dice::Dice;

/// The next request of a sequence about one object.
pub(crate) fn next(dice: &mut Dice, definition: &Value, name: &str, live: Option<&Value>) -> Value {
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let version = &versions[dice.below(versions.len())];
    let verbs: &[&str] = match live {
        None => {
            &["create", "create", "create", "create", "create", "create", "apply", "apply", "update", "merge"]
        }
        Some(_) => &[
            "apply", "apply", "apply", "apply", "merge", "merge", "merge", "json", "json", "update",
            "update", "update", "create", "delete",
        ],
    };
    let mut verb = dice.pick(verbs);
    let is_builtin = definition["builtin"] == true;
    if is_builtin && verb == "json" && dice.chance(70) {
        verb = "strategic";
    }
    let has_status = version["subresources"]["status"].is_object();
    let part =
        if has_status && !matches!(verb, "create" | "delete") && dice.chance(20) { "status" } else { "" };
    let mut step = json!({"verb": verb, "name": name, "version": version["name"], "part": part});
    if verb == "apply" || dice.chance(80) {
        step["manager"] = dice.pick(&["m1", "m2", "m3"]).into();
    }
    if verb == "apply" && dice.chance(30) {
        step["force"] = true.into();
    }
    if dice.chance(10) {
        step["dryRun"] = true.into();
    }
    if dice.chance(40) {
        step["validation"] = dice.pick(&["Strict", "Warn", "Ignore"]).into();
    }
    let mut maker = Maker { dice, definition, version, name };
    let body = maker.body(verb, live);
    if verb == "create" && body.contains("\"resourceVersion\":") || body.contains("selfLink") {
        // A real server does not check these if nothing is really written.
        step["dryRun"] = false.into();
    }
    step["body"] = body.into();
    step
}

struct Maker<'m> {
    dice: &'m mut Dice,
    definition: &'m Value,
    version: &'m Value,
    name: &'m str,
}

impl Maker<'_> {
    fn body(&mut self, verb: &str, live: Option<&Value>) -> String {
        if verb == "delete" {
            return String::new();
        }
        if self.dice.chance(1) && self.definition["builtin"] != true {
            return self.dice.pick(&["{}", "[]", "null", "5", "{\"spec\":{}}", "\"x\""]).to_owned();
        }
        let body = match (verb, live) {
            ("update", Some(live)) if self.dice.chance(85) => self.changed(live),
            ("merge", _) => self.merge_patch(live),
            ("strategic", _) => {
                let kind = self.kind().to_owned();
                kinds::strategic_patch(self.dice, &kind)
            }
            ("json", Some(live)) => self.json_patch(live),
            _ => self.object(),
        };
        let mut text = body.to_string();
        if self.kind() == "Deployment" && verb != "create" {
            // Without a selector or labels, Kubernetes compares with those that select nothing.
            for name in ["selector", "template"] {
                text = text.replace(&format!("\"{name}\":null"), "\"paused\":null");
            }
        }
        if matches!(verb, "merge" | "json") {
            // Upstream quotes a number in a patch as it was written, we do not.
            text = text.replace("2.0", "2");
        }
        if verb == "create" {
            // Sequences must not meet.
            text = text.replace("\"name\":\"other\"", &format!("\"name\":\"{}\"", self.name));
        }
        if verb != "apply" && self.definition["builtin"] != true && self.dice.chance(4) {
            return text.replacen("\"spec\":{\"", "\"spec\":{\"zz\":1,\"zz\":2,\"", 1);
        }
        text
    }

    fn schema(&self) -> &Value {
        &self.version["schema"]["openAPIV3Schema"]
    }

    fn kind(&self) -> &str {
        self.definition["spec"]["names"]["kind"].as_str().unwrap()
    }

    fn mistakes(&mut self) -> usize {
        [0, 0, 0, 5, 20][self.dice.below(5)]
    }

    fn object(&mut self) -> Value {
        let mistakes = self.mistakes();
        let mut object = if self.definition["builtin"] == true {
            let kind = self.kind().to_owned();
            kinds::fields(self.dice, &kind)
        } else {
            let schema = self.schema().clone();
            values::object(self.dice, &schema, mistakes, 75)
        };
        let (group, version) = (&self.definition["spec"]["group"], self.version["name"].as_str().unwrap());
        object["apiVersion"] = match group.as_str().unwrap() {
            "" => version.into(),
            group => format!("{group}/{version}").into(),
        };
        object["kind"] = self.kind().into();
        object["metadata"] = json!({"name": self.name});
        self.adorn(&mut object, mistakes);
        object
    }

    /// Adds to the metadata, and sometimes something wrong.
    fn adorn(&mut self, object: &mut Value, mistakes: usize) {
        let fine: &[(&str, Value)] = &[
            ("/metadata/labels", json!({"l": self.dice.pick(&["x", "y"])})),
            ("/metadata/annotations", json!({"n": self.dice.pick(&["x", "y"]), "o": "z"})),
            ("/metadata/finalizers", json!(["example.org/f"])),
            ("/metadata/finalizers", json!(["example.org/f", "example.org/g"])),
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}]),
            ),
        ];
        let odd: &[(&str, Value)] = &[
            ("/metadata/name", json!("other")),
            ("/metadata/name", json!("Bad_Name")),
            ("/metadata/namespace", json!("default")),
            ("/metadata/namespace", json!("elsewhere")),
            ("/metadata/labels", json!({"a b": "-"})),
            ("/metadata/labels", json!({"a": 1})),
            ("/metadata/annotations", json!({"a": null})),
            ("/metadata/finalizers", json!(["plain", "has.dot", "x y"])),
            ("/metadata/ownerReferences", json!([{"kind": "A"}])),
            (
                "/metadata/ownerReferences",
                json!([
                    {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"},
                    {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}
                ]),
            ),
            ("/metadata/uid", json!("mine")),
            ("/metadata/resourceVersion", json!("77")),
            ("/metadata/resourceVersion", json!("abc")),
            ("/metadata/generation", json!(7)),
            ("/metadata/creationTimestamp", json!("2024-01-02T03:04:05Z")),
            ("/metadata/deletionTimestamp", json!("2024-01-02T03:04:05Z")),
            ("/metadata/deletionGracePeriodSeconds", json!(5)),
            ("/metadata/managedFields", json!([])),
            ("/metadata/unknown", json!(1)),
            ("/metadata/selfLink", json!("/x")),
            ("/metadata/generateName", json!("g-")),
            ("/apiVersion", json!("example.org/v1")),
            ("/apiVersion", json!("")),
            ("/kind", json!("Other")),
            ("/kind", json!("")),
            ("/metadata", json!("x")),
        ];
        for (pointer, value) in fine {
            if self.dice.chance(8) {
                put(object, pointer, value.clone());
            }
        }
        // Kubernetes' own kinds are asked about what is odd in fewer ways.
        let odd = if self.definition["builtin"] == true { &odd[..5] } else { odd };
        if self.dice.chance(4 + mistakes) {
            let (pointer, value) = &odd[self.dice.below(odd.len())];
            put(object, pointer, value.clone());
        }
    }

    /// The live object, changed here and there.
    fn changed(&mut self, live: &Value) -> Value {
        let mut object = live.clone();
        let wanted = self.object();
        object["apiVersion"] = wanted["apiVersion"].clone();
        for part in ["spec", "status", "data"] {
            let Some(fields) = wanted[part].as_object() else { continue };
            if self.dice.chance(20) {
                object[part] = wanted[part].clone();
                continue;
            }
            for (name, value) in fields {
                if self.dice.chance(40) && object[part].is_object() {
                    object[part][name] = value.clone();
                }
            }
            if let Some(names) =
                object[part].as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>())
            {
                for name in names {
                    let is_needed = matches!(name.as_str(), "selector" | "template" | "holderIdentity");
                    if self.dice.chance(12) && !is_needed {
                        object[part].as_object_mut().unwrap().remove(&name);
                    }
                }
            }
            if object[part].is_null() {
                object.as_object_mut().unwrap().remove(part);
            }
        }
        self.adorn(&mut object, 0);
        let is_builtin = self.definition["builtin"] == true;
        match self.dice.below(24) {
            0 => drop(object["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"))),
            1 => put(&mut object, "/metadata/resourceVersion", json!("1")),
            2 if !is_builtin => put(&mut object, "/metadata/managedFields", json!([{}])),
            3 if !is_builtin => {
                drop(object["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields")));
            }
            4 => drop(object["metadata"].as_object_mut().map(|metadata| metadata.remove("uid"))),
            5 => drop(object["metadata"].as_object_mut().map(|metadata| metadata.remove("finalizers"))),
            6 => put(&mut object, "/metadata/resourceVersion", json!("0")),
            _ => {}
        }
        object
    }

    fn merge_patch(&mut self, live: Option<&Value>) -> Value {
        let mut patch = self.object();
        let fields = patch.as_object_mut().unwrap();
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("name");
        }
        for part in ["spec", "status"] {
            if self.dice.chance(40) {
                patch.as_object_mut().unwrap().remove(part);
                continue;
            }
            let present = live.and_then(|live| live[part].as_object()).into_iter().flatten();
            for (name, _) in present {
                if self.dice.chance(15) && patch[part].is_object() && name != "holderIdentity" {
                    patch[part][name] = Value::Null;
                }
            }
        }
        let is_builtin = self.definition["builtin"] == true;
        match self.dice.below(20) {
            0 => put(&mut patch, "/metadata/resourceVersion", json!("1")),
            1 => put(&mut patch, "/metadata/finalizers", Value::Null),
            2 if !is_builtin => put(&mut patch, "/metadata/managedFields", Value::Null),
            3 => put(&mut patch, "/metadata/labels", Value::Null),
            4 => {
                let version =
                    live.map(|live| live["metadata"]["resourceVersion"].clone()).unwrap_or_default();
                put(&mut patch, "/metadata/resourceVersion", version);
            }
            _ => {}
        }
        if patch["metadata"] == json!({}) {
            patch.as_object_mut().unwrap().remove("metadata");
        }
        patch
    }

    fn json_patch(&mut self, live: &Value) -> Value {
        let wanted = self.object();
        let count = 1 + self.dice.below(3);
        (0..count).map(|_| self.operation(live, &wanted)).collect()
    }

    fn operation(&mut self, live: &Value, wanted: &Value) -> Value {
        let part = self.dice.pick(&["spec", "spec", "status"]);
        let path = self.path(part, live, wanted);
        let value = wanted.pointer(&path).cloned().unwrap_or_else(|| values::anything(self.dice, 1));
        match self.dice.below(12) {
            0..5 => json!({"op": "add", "path": path, "value": value}),
            5..8 => json!({"op": "replace", "path": path, "value": value}),
            8..10 => json!({"op": "remove", "path": path}),
            10 => {
                // A real server compares texts where it should compare values, and panics at nulls in lists.
                let value = live.pointer(&path).cloned().unwrap_or_default();
                let is_simple = !value.to_string().contains(['<', 'n']);
                json!({"op": if is_simple { "test" } else { "replace" }, "path": path, "value": value})
            }
            _ => {
                json!({"op": self.dice.pick(&["copy", "move"]), "from": path, "path": format!("/{part}/zz")})
            }
        }
    }

    fn path(&mut self, part: &str, live: &Value, wanted: &Value) -> String {
        const ODD: [&str; 5] =
            ["/metadata/labels/l", "/metadata/labels", "/spec", "/zz/y", "/metadata/finalizers/0"];
        if self.dice.chance(10) {
            return self.dice.pick(&ODD).to_owned();
        }
        let mut path = format!("/{part}");
        let mut here = if self.dice.chance(70) { &live[part] } else { &wanted[part] };
        while let Some((name, below)) = pick_below(self.dice, here) {
            path.push('/');
            path.push_str(&name);
            here = below;
            if self.dice.chance(55) {
                break;
            }
        }
        path
    }
}

fn pick_below<'v>(dice: &mut Dice, value: &'v Value) -> Option<(String, &'v Value)> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let (name, below) = fields.iter().nth(dice.below(fields.len()))?;
            Some((name.replace('~', "~0").replace('/', "~1"), below))
        }
        Value::Array(items) if !items.is_empty() => {
            let index = dice.below(items.len());
            Some((index.to_string(), &items[index]))
        }
        _ => None,
    }
}

/// Puts a value where a pointer says, if what is around it is there.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.insert(name.to_owned(), value);
    }
}
