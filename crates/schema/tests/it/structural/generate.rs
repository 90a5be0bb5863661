//! Makes schemas, objects that nearly fit them, and changes to both.

pub(crate) mod bundles;
pub(crate) mod costs;

use serde_json::{Map, Value, json};

use crate::dice::Dice;

const NAMES: &[&str] = &["a", "b", "c", "name", "key", "x-y", "self__z", "size"];
const TEXTS: &[&str] = &[
    "",
    "a",
    "b",
    "abc",
    "a-b",
    "10",
    "2024-01-02",
    "2024-01-02T03:04:05Z",
    "1h",
    "YQ==",
    "1.2.3.4",
    "é<&>\"\n",
    "a@b",
];
const FORMATS: &[&str] = &[
    "date",
    "date-time",
    "email",
    "ipv4",
    "ipv6",
    "cidr",
    "uri",
    "uuid",
    "byte",
    "int32",
    "int64",
    "duration",
    "hostname",
    "float",
    "double",
    "password",
    "unknown",
    "k8s-short-name",
    "mac",
];
const PATTERNS: &[&str] = &["^a", "b$", "^[a-z]*$", r"^\d+$", "[0-9]", "^(a|b)+$"];

/// The schema of a custom resource.
pub(crate) fn schema(dice: &mut Dice, with_defaults: bool) -> Value {
    ruled_schema(dice, with_defaults, false)
}

/// The same, perhaps with rules.
pub(crate) fn ruled_schema(dice: &mut Dice, with_defaults: bool, with_rules: bool) -> Value {
    let mut maker = Maker { dice, with_defaults, is_sound: true, with_rules };
    let mut properties = Map::new();
    properties.insert("spec".to_owned(), maker.schema(3));
    if maker.dice.chance(50) {
        properties.insert("status".to_owned(), maker.schema(2));
    }
    if maker.dice.chance(20) {
        let metadata = json!({"type": "object", "properties": {"name": {"type": "string", "pattern": "^[ab]", "maxLength": 3}}});
        properties.insert("metadata".to_owned(), metadata);
    }
    let mut root = json!({"type": "object", "properties": properties});
    if maker.dice.chance(20) {
        root["required"] = json!(["spec"]);
    }
    if maker.dice.chance(5) {
        root["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    if with_rules && maker.dice.chance(30) {
        let Value::Object(fields) = &mut root else { return root };
        maker.rules(fields, "object");
    }
    root
}

/// A schema with things in it that should not be there.
pub(crate) fn unsound(dice: &mut Dice) -> Value {
    let mut maker = Maker { dice, with_defaults: true, is_sound: false, with_rules: false };
    let mut root = maker.schema(3);
    if maker.dice.chance(80) {
        root["type"] = json!("object");
    }
    root
}

struct Maker<'d> {
    dice: &'d mut Dice,
    with_defaults: bool,
    is_sound: bool,
    with_rules: bool,
}

const RULES: &[(&str, &[&str])] = &[
    (
        "string",
        &[
            "self.size() > 2",
            "self.startsWith('a')",
            "self == oldSelf",
            "self != 'b'",
            "self.matches('^[a-z]')",
            "self + 1 == 2",
            "self.foo",
            "self.lowerAscii() == self",
            "size(self)",
            "self in ['a', 'b']",
            "self == 'x' ||",
            "oldSelf.size() <= self.size()",
        ],
    ),
    (
        "integer",
        &[
            "self > 3",
            "self % 2 == 0",
            "self == oldSelf",
            "10 / (self - 2) > 1",
            "self + 1.0 > 2.0",
            "self >= oldSelf",
            "string(self).size() == 1",
        ],
    ),
    ("number", &["self > 2.5", "self == 3.0", "self > 2", "oldSelf < self", "int(self) < 5"]),
    ("boolean", &["self", "!self || oldSelf", "self == true"]),
    (
        "array",
        &[
            "self.size() < 2",
            "self.all(x, x == self[0])",
            "self.exists(x, true)",
            "self == oldSelf",
            "(self + self).size() == self.size()",
            "self[1] == self[0]",
            "self.foo == 1",
            "oldSelf.all(x, x in self)",
            "self.exists_one(x, x == x)",
        ],
    ),
    (
        "map",
        &[
            "self.all(k, k.size() < 2)",
            "'a' in self",
            "self.size() > 0",
            "self == oldSelf",
            "self.all(k, self[k] == self[k])",
            "has(self.a)",
            "self.b == self.b",
        ],
    ),
    (
        "object",
        &[
            "has(self.a)",
            "self.a == 'x'",
            "!has(self.b) || self.b == self.b",
            "self == oldSelf",
            "self.metadata.name == 'a'",
            "self.x__dash__y == 1",
            "has(self.self__underscores__z)",
            "size(self) > 0",
            "true",
            "!has(oldSelf.a) || has(self.a)",
            "self.?a.hasValue()",
        ],
    ),
    (
        "embedded",
        &[
            "self.kind == 'Pod'",
            "has(self.metadata) && self.metadata.name != 'a'",
            "self.apiVersion == oldSelf.apiVersion",
            "self.metadata.labels",
        ],
    ),
    (
        "int-or-string",
        &["self == 1 || self == 'a'", "type(self) == int", "self > 1", "string(self).size() < 3"],
    ),
    ("any", &["true"]),
];

impl Maker<'_> {
    fn schema(&mut self, depth: usize) -> Value {
        let mut schema = Map::new();
        let kinds = [
            "string",
            "integer",
            "number",
            "boolean",
            "object",
            "object",
            "array",
            "map",
            "int-or-string",
            "any",
            "embedded",
        ];
        let kind = if depth == 0 { kinds[self.dice.below(4)] } else { kinds[self.dice.below(kinds.len())] };
        self.shape(&mut schema, kind, depth);
        self.restrict(&mut schema, kind, depth, false);
        if self.dice.chance(12) {
            schema.insert("nullable".to_owned(), json!(true));
        }
        if self.with_defaults && self.dice.chance(20) {
            let schema_value = Value::Object(schema.clone());
            let mistakes = if self.dice_is_careless() { 20 } else { 0 };
            let value = value(self.dice, &schema_value, mistakes);
            if !value.is_null() {
                schema.insert("default".to_owned(), value);
            }
        }
        if !self.is_sound && self.dice.chance(12) {
            self.spoil(&mut schema, depth);
        }
        if self.with_rules && self.dice.chance(40) {
            self.rules(&mut schema, kind);
        }
        Value::Object(schema)
    }

    fn rules(&mut self, schema: &mut Map<String, Value>, kind: &str) {
        let choices = RULES.iter().find(|(of, _)| *of == kind).unwrap().1;
        let count = 1 + self.dice.below(2);
        let rules = (0..count).map(|_| {
            let mut rule = json!({"rule": self.dice.pick(choices)});
            if self.dice.chance(15) {
                rule = json!({"rule": "!oldSelf.hasValue() || oldSelf.value() == self", "optionalOldSelf": true});
            }
            let extras: &[(&str, Value)] = &[
                ("message", json!("  not so ")),
                ("messageExpression", json!(self.dice.pick(&["'it is ' + string(self)", "'x'", "self", "string(1 / 0)", "''", "'a\\nb'", "oldSelf"]))),
                ("reason", json!(self.dice.pick(&["FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate", "FieldValueInvalid"]))),
                ("fieldPath", json!(self.dice.pick(&[".a", "['a']", ".name"]))),
            ];
            for (name, value) in extras {
                if self.dice.chance(15) {
                    rule[*name] = value.clone();
                }
            }
            rule
        });
        let rules = Value::Array(rules.collect());
        schema.insert("x-kubernetes-validations".to_owned(), rules);
    }

    fn dice_is_careless(&mut self) -> bool {
        !self.is_sound && self.dice.chance(30)
    }

    fn shape(&mut self, schema: &mut Map<String, Value>, kind: &str, depth: usize) {
        let mut put = |name: &str, value: Value| schema.insert(name.to_owned(), value);
        match kind {
            "object" | "embedded" => {
                put("type", json!("object"));
                let mut properties = self.properties(depth);
                if kind == "embedded" {
                    put("x-kubernetes-embedded-resource", json!(true));
                    if properties.is_empty() || self.dice.chance(50) {
                        put("x-kubernetes-preserve-unknown-fields", json!(true));
                    }
                    if self.dice.chance(30) {
                        properties.insert("kind".to_owned(), json!({"type": "string"}));
                    }
                } else if self.dice.chance(10) {
                    put("x-kubernetes-preserve-unknown-fields", json!(true));
                }
                if !properties.is_empty() {
                    put("properties", Value::Object(properties));
                }
                if self.dice.chance(10) {
                    put("x-kubernetes-map-type", json!(self.dice.pick(&["atomic", "granular"])));
                }
            }
            "map" => {
                put("type", json!("object"));
                let additional = if self.dice.chance(15) { json!(true) } else { self.schema(depth - 1) };
                put("additionalProperties", additional);
            }
            "array" => {
                put("type", json!("array"));
                self.list(schema, depth);
            }
            "int-or-string" => {
                put("x-kubernetes-int-or-string", json!(true));
                let both = json!([{"type": "integer"}, {"type": "string"}]);
                match self.dice.below(4) {
                    0 => put("anyOf", both),
                    1 => put("allOf", json!([{"anyOf": both}, {"maxLength": 3}])),
                    _ => None,
                };
            }
            "any" => {
                put("x-kubernetes-preserve-unknown-fields", json!(true));
                if self.dice.chance(50) {
                    put("type", json!("object"));
                }
            }
            scalar => {
                put("type", json!(scalar));
            }
        }
    }

    fn properties(&mut self, depth: usize) -> Map<String, Value> {
        let count = self.dice.below(4);
        (0..count).map(|_| (self.dice.pick(NAMES).to_owned(), self.schema(depth - 1))).collect()
    }

    fn list(&mut self, schema: &mut Map<String, Value>, depth: usize) {
        match self.dice.below(4) {
            0 => {
                schema.insert(
                    "items".to_owned(),
                    json!({"type": self.dice.pick(&["string", "integer", "number"])}),
                );
                schema.insert("x-kubernetes-list-type".to_owned(), json!("set"));
            }
            1 => {
                let keys: &[&str] = if self.dice.chance(50) { &["name"] } else { &["name", "key"] };
                let mut properties = self.properties(depth);
                for key in keys {
                    let mut schema = json!({"type": self.dice.pick(&["string", "integer"])});
                    if *key == "key" && self.with_defaults {
                        schema["default"] = if schema["type"] == "string" { json!("a") } else { json!(1) };
                    }
                    properties.insert((*key).to_owned(), schema);
                }
                let items = json!({"type": "object", "properties": properties, "required": keys});
                schema.insert("items".to_owned(), items);
                schema.insert("x-kubernetes-list-type".to_owned(), json!("map"));
                schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
            }
            2 => {
                let items = self.schema(depth - 1);
                schema.insert("items".to_owned(), items);
                schema.insert("x-kubernetes-list-type".to_owned(), json!("atomic"));
            }
            _ => {
                let items = self.schema(depth - 1);
                schema.insert("items".to_owned(), items);
            }
        }
    }

    /// Adds what only restricts values.
    fn restrict(&mut self, schema: &mut Map<String, Value>, kind: &str, depth: usize, is_nested: bool) {
        let chance = if is_nested { 40 } else { 15 };
        let bounds = [
            ("minimum", json!(2)),
            ("maximum", json!(5)),
            ("multipleOf", json!(2)),
            ("minimum", json!(1.5)),
            ("maximum", json!(1e30)),
            ("multipleOf", json!(0.5)),
        ];
        let texts = [("minLength", json!(2)), ("maxLength", json!(3))];
        let lists = [("minItems", json!(1)), ("maxItems", json!(2))];
        let maps = [("minProperties", json!(1)), ("maxProperties", json!(1))];
        let all: [(&str, &[(&str, Value)]); 4] = [
            ("integer number int-or-string any", &bounds),
            ("string int-or-string any", &texts),
            ("array any", &lists),
            ("object map embedded any", &maps),
        ];
        for (kinds, checks) in all {
            if kinds.split(' ').any(|it| it == kind) || self.dice.chance(3) {
                for (name, value) in checks {
                    if self.dice.chance(chance / 2) {
                        schema.insert((*name).to_owned(), value.clone());
                    }
                }
            }
        }
        if matches!(kind, "integer" | "number") && self.dice.chance(15) {
            schema.insert("exclusiveMinimum".to_owned(), json!(true));
            schema.insert("exclusiveMaximum".to_owned(), json!(true));
        }
        if kind == "string" && self.dice.chance(chance) {
            schema.insert("pattern".to_owned(), json!(self.dice.pick(PATTERNS)));
        }
        if self.dice.chance(if matches!(kind, "string" | "integer" | "number") { chance } else { 2 }) {
            schema.insert("format".to_owned(), json!(self.dice.pick(FORMATS)));
        }
        if self.dice.chance(8) {
            let enumerated =
                one_of(self.dice, &json!([["a", "b", 1], [1, 2, 3.5], ["abc", null], [{"a": 1}], [true]]));
            schema.insert("enum".to_owned(), enumerated);
        }
        if let Some(Value::Object(properties)) = schema.get("properties").filter(|_| self.dice.chance(30)) {
            let mut names: Vec<_> = properties.keys().cloned().collect();
            names.truncate(2);
            schema.entry("required").or_insert(json!(names));
        }
        if depth > 0 && self.dice.chance(15) {
            let junctor = *["allOf", "anyOf", "oneOf", "not"].get(self.dice.below(4)).unwrap();
            if !schema.contains_key(junctor) {
                let nested = if junctor == "not" {
                    self.nested(schema, kind, depth)
                } else {
                    let count = self.dice.below(3) + 1;
                    Value::Array((0..count).map(|_| self.nested(schema, kind, depth)).collect())
                };
                schema.insert(junctor.to_owned(), nested);
            }
        }
    }

    fn nested(&mut self, around: &Map<String, Value>, kind: &str, depth: usize) -> Value {
        let mut nested = Map::new();
        self.restrict(&mut nested, kind, depth - 1, true);
        if let Some(Value::Object(properties)) = around.get("properties") {
            let mut restricted = Map::new();
            for (name, property) in properties {
                if name != "metadata" && self.dice.chance(50) {
                    let kind = property["type"].as_str().unwrap_or("any").to_owned();
                    let mut below = Map::new();
                    self.restrict(&mut below, &kind, depth - 1, true);
                    restricted.insert(name.clone(), Value::Object(below));
                }
            }
            let names: Vec<_> = properties.keys().filter(|_| self.dice.chance(30)).cloned().collect();
            if !names.is_empty() {
                nested.insert("required".to_owned(), json!(names));
            }
            if !restricted.is_empty() {
                nested.insert("properties".to_owned(), Value::Object(restricted));
            }
        }
        if around.contains_key("items") && self.dice.chance(50) {
            let mut below = Map::new();
            self.restrict(&mut below, "any", depth - 1, true);
            nested.insert("items".to_owned(), Value::Object(below));
        }
        if !self.is_sound && self.dice.chance(30) {
            self.spoil(&mut nested, depth);
        }
        Value::Object(nested)
    }

    /// Says something that may not be said here.
    fn spoil(&mut self, schema: &mut Map<String, Value>, depth: usize) {
        let (name, value) = match self.dice.below(38) {
            0 => ("type", json!(self.dice.pick(&["null", "file", "object", "array", "string", ""]))),
            1 => ("id", json!("x")),
            2 => ("$schema", json!("x")),
            3 => ("$ref", json!("#/x")),
            4 => ("patternProperties", json!({"a": {"type": "string"}})),
            5 => ("dependencies", json!({"a": ["b"]})),
            6 => ("additionalItems", json!(false)),
            7 => ("definitions", json!({"a": {"type": "string"}})),
            8 => ("items", json!([{"type": "string"}])),
            9 => ("items", json!({"type": "string", "nullable": true})),
            10 => ("x-kubernetes-preserve-unknown-fields", json!(self.dice.chance(50))),
            11 => ("x-kubernetes-embedded-resource", json!(true)),
            12 => ("x-kubernetes-int-or-string", json!(true)),
            13 => ("x-kubernetes-list-type", json!(self.dice.pick(&["set", "map", "atomic", "bag"]))),
            14 => ("x-kubernetes-list-map-keys", json!(["name", "name"])),
            15 => ("x-kubernetes-map-type", json!(self.dice.pick(&["granular", "atomic", "bag"]))),
            16 => ("additionalProperties", json!(self.dice.chance(50))),
            17 => ("additionalProperties", self.schema(depth.saturating_sub(1))),
            18 => ("uniqueItems", json!(true)),
            19 => ("pattern", json!(self.dice.pick(&["[", "a**", "(?=a)", "^a$"]))),
            20 => ("title", json!("t")),
            21 => ("description", json!("d")),
            22 => ("nullable", json!(true)),
            23 => (
                "default",
                one_of(self.dice, &json!([1, "a", {"unknown": 1}, {"metadata": {"labels": {"a": 1}}}])),
            ),
            24 => ("externalDocs", json!({"url": "x"})),
            25 => ("example", json!({"a": 1})),
            26 => ("not", json!({"type": "string"})),
            27 => ("anyOf", json!([{"type": "integer"}, {"type": "string"}])),
            28 => ("allOf", json!([{"properties": {"zz": {"minimum": 1}, "metadata": {}}}])),
            29 => ("oneOf", json!([{"items": {"minimum": 1}, "additionalProperties": {"maxLength": 1}}])),
            30 => ("properties", json!({"metadata": {"type": "object", "description": "d"}})),
            31 => (
                "properties",
                json!({"metadata": {"type": "string"}, "kind": {"type": "integer"}, "apiVersion": {"type": "string", "default": "x"}}),
            ),
            32 => (
                "properties",
                json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}, "labels": {"type": "object", "additionalProperties": {"type": "string", "default": "y"}}}}}),
            ),
            33 => (
                "items",
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}}),
            ),
            34 => ("properties", json!({"name": {"type": "array", "items": {"type": "string"}}})),
            35 => ("allOf", json!([])),
            36 => ("maximum", json!(5)),
            _ => ("required", json!([])),
        };
        schema.insert(name.to_owned(), value);
    }
}

fn one_of(dice: &mut Dice, choices: &Value) -> Value {
    let choices = choices.as_array().unwrap();
    choices[dice.below(choices.len())].clone()
}

/// A value that fits the schema, but for some mistakes.
pub(crate) fn value(dice: &mut Dice, schema: &Value, mistakes: usize) -> Value {
    if dice.chance(mistakes / 4) || (schema["nullable"] == json!(true) && dice.chance(30)) {
        return Value::Null;
    }
    if dice.chance(mistakes / 3) {
        return anything(dice, 2);
    }
    if let Some(values) = schema["enum"].as_array().filter(|_| !dice.chance(mistakes)) {
        let value = &values[dice.below(values.len())];
        // Without mistakes, nothing is of a wrong type.
        let is_fitting = match schema["type"].as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            // What is in it might not fit.
            Some("object") => false,
            Some("array") => value.is_array(),
            _ => true,
        };
        if mistakes > 0 || is_fitting {
            return value.clone();
        }
    }
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return if dice.chance(50) { json!(dice.below(9)) } else { json!(dice.pick(TEXTS)) };
    }
    match schema["type"].as_str() {
        Some("string") => json!(dice.pick(TEXTS)),
        Some("integer") => match dice.below(20) {
            0 if mistakes > 0 => json!(2.0),
            1 if mistakes > 0 => json!(2.5),
            2 => json!(3_000_000_000_i64),
            _ => json!(dice.below(9)),
        },
        Some("number") => match dice.below(6) {
            0 => json!(1e300),
            1 | 2 => json!(dice.below(9)),
            _ => json!(f64::from(u32::try_from(dice.below(90)).unwrap()) / 10.0),
        },
        Some("boolean") => json!(dice.chance(50)),
        Some("array") => list(dice, schema, mistakes),
        Some("object") => object(dice, schema, mistakes),
        _ => anything(dice, 2),
    }
}

fn list(dice: &mut Dice, schema: &Value, mistakes: usize) -> Value {
    let count = dice.below(4);
    let mut items: Vec<_> = (0..count).map(|_| value(dice, &schema["items"], mistakes)).collect();
    if dice.chance(mistakes) && !items.is_empty() {
        let copy = items[0].clone();
        items.push(copy);
    }
    Value::Array(items)
}

fn object(dice: &mut Dice, schema: &Value, mistakes: usize) -> Value {
    let mut fields = Map::new();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.contains(&json!(name));
        if dice.chance(if is_required { 100 - mistakes / 3 } else { 60 }) {
            fields.insert(name.clone(), value(dice, property, mistakes));
        }
    }
    if schema["additionalProperties"].is_object() || schema["additionalProperties"] == json!(true) {
        for _ in 0..dice.below(3) {
            fields
                .insert(dice.pick(NAMES).to_owned(), value(dice, &schema["additionalProperties"], mistakes));
        }
    }
    if dice.chance(mistakes / 2) || schema["x-kubernetes-preserve-unknown-fields"] == json!(true) {
        fields.insert("unknown".to_owned(), anything(dice, 2));
    }
    if schema["x-kubernetes-embedded-resource"] == json!(true) {
        if !dice.chance(mistakes / 2) {
            fields.insert("apiVersion".to_owned(), json!(dice.pick(&["v1", "a/v1", "a/v1", "", "a/b/c"])));
        }
        if !dice.chance(mistakes / 2) {
            fields.insert("kind".to_owned(), json!(dice.pick(&["Pod", "Pod", "", "a_b"])));
        }
        if dice.chance(60) {
            fields.insert("metadata".to_owned(), metadata(dice, mistakes));
        }
        if dice.chance(mistakes / 6) {
            fields.insert("kind".to_owned(), json!(5));
        }
    }
    Value::Object(fields)
}

fn anything(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => json!(dice.chance(50)),
        2 => json!(dice.below(9)),
        3 => json!(2.5),
        4 | 5 => json!(dice.pick(TEXTS)),
        6 => Value::Array((0..dice.below(3)).map(|_| anything(dice, depth - 1)).collect()),
        _ => (0..dice.below(3)).map(|_| (dice.pick(NAMES).to_owned(), anything(dice, depth - 1))).collect(),
    }
}

fn metadata(dice: &mut Dice, mistakes: usize) -> Value {
    let mut metadata = json!({"name": dice.pick(&["a", "b", "abcd", "a"])});
    let extras: &[(&str, Value)] = &[
        ("labels", json!({"a": "b"})),
        ("labels", json!({"a/b/c": "-", "b": null})),
        ("annotations", json!({"A": "b", "é": "x"})),
        ("namespace", json!("ns")),
        ("namespace", json!("N_S")),
        ("generateName", json!("x-")),
        ("generateName", json!("x%-")),
        ("uid", json!("u")),
        ("generation", json!(3)),
        ("generation", json!(-3)),
        ("generation", json!(2.5)),
        ("creationTimestamp", Value::Null),
        ("creationTimestamp", json!("2024-01-02T03:04:05+01:00")),
        ("creationTimestamp", json!("yesterday")),
        ("deletionGracePeriodSeconds", json!(0)),
        ("finalizers", json!(["a/b", "orphan", "foregroundDeletion"])),
        ("finalizers", json!(["x y"])),
        (
            "ownerReferences",
            json!([{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true, "z": 1}]),
        ),
        (
            "ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "1", "controller": true}, {"kind": "B", "name": "b", "controller": true}]),
        ),
        (
            "managedFields",
            json!([{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}, "time": "2024-01-02T03:04:05Z"}]),
        ),
        ("managedFields", json!([{"manager": "m\u{1}", "operation": "Bad", "fieldsType": "X"}])),
        ("unknown", json!(1)),
        ("labels", json!([])),
        ("annotations", json!({"a": 1})),
        ("ownerReferences", json!([{"controller": "yes"}, "x"])),
        ("selfLink", json!(5)),
    ];
    for (name, value) in extras {
        if dice.chance(mistakes / 6) {
            metadata[*name] = value.clone();
        }
    }
    metadata
}

/// A whole object.
pub(crate) fn resource(dice: &mut Dice, schema: &Value, mistakes: usize) -> Value {
    let mut resource = object(dice, schema, mistakes);
    resource["apiVersion"] = json!("example.org/v1");
    resource["kind"] = json!("Thing");
    resource["metadata"] = metadata(dice, mistakes / 2);
    if dice.chance(mistakes / 10) {
        resource["metadata"] = json!("x");
    }
    if dice.chance(mistakes / 20) {
        resource["kind"] = json!(1);
    }
    resource
}

/// Changes a value here and there.
pub(crate) fn change(dice: &mut Dice, value: &mut Value, percent: usize) {
    match value {
        Value::Object(fields) => {
            let names: Vec<_> = fields.keys().cloned().collect();
            for name in names {
                if name == "apiVersion" || name == "kind" || name == "metadata" {
                    continue;
                }
                if dice.chance(percent / 4) {
                    fields.remove(&name);
                } else if let Some(field) = fields.get_mut(&name) {
                    change(dice, field, percent);
                }
            }
        }
        Value::Array(items) => {
            if dice.chance(percent) && items.len() > 1 {
                items.reverse();
            }
            if dice.chance(percent / 2) {
                items.pop();
            }
            for item in items {
                change(dice, item, percent);
            }
        }
        scalar => {
            if dice.chance(percent) {
                *scalar = anything(dice, 0);
            }
        }
    }
}

/// A definition with rules in its schema, and little else.
pub(crate) fn ruled_definition(dice: &mut Dice) -> Value {
    let with_defaults = dice.chance(30);
    let schema = ruled_schema(dice, with_defaults, true);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// A definition of a custom resource.
pub(crate) fn definition(dice: &mut Dice) -> Value {
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": dice.pick(&["Namespaced", "Cluster"]),
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [],
        },
    });
    let count = 1 + dice.below(2);
    let versions = (0..count).map(|index| version(dice, index)).collect();
    definition["spec"]["versions"] = Value::Array(versions);
    if dice.chance(40) {
        definition["status"] = json!({
            "storedVersions": ["v1"], "acceptedNames": {"plural": "things", "kind": "Thing"},
            "conditions": [{"type": "Established", "status": "True"}],
        });
    }
    for _ in 0..dice.below(3) {
        spoil_definition(dice, &mut definition);
    }
    definition
}

fn version(dice: &mut Dice, index: usize) -> Value {
    let with_defaults = dice.chance(70);
    let schema = if dice.chance(50) { unsound(dice) } else { schema(dice, with_defaults) };
    let mut version = json!({
        "name": format!("v{}", index + 1), "served": true, "storage": index == 0, "schema": {"openAPIV3Schema": schema},
    });
    if dice.chance(40) {
        version["subresources"] = json!({"status": {}});
    }
    if dice.chance(30) {
        version["additionalPrinterColumns"] = json!([{"name": "A", "type": "string", "jsonPath": ".spec.a"}]);
    }
    version
}

/// Breaks something outside of the schemas.
pub(crate) fn spoil_definition(dice: &mut Dice, definition: &mut Value) {
    let client = json!({"service": {"namespace": "a", "name": "b"}});
    let choices: Vec<(&str, Value)> = vec![
        ("/metadata/name", json!("other.example.org")),
        ("/metadata/name", json!("")),
        ("/metadata/labels", json!({"a b": "c d"})),
        (
            "/metadata/annotations",
            json!({"api-approved.kubernetes.io": dice.pick(&["x", "unapproved", "https://a/b"])}),
        ),
        ("/spec/group", json!(dice.pick(&["", "example", "Example.org", "x.k8s.io", "other.org"]))),
        ("/spec/scope", json!(dice.pick(&["", "Galaxy", "Cluster"]))),
        ("/spec/names/plural", json!(dice.pick(&["", "Things", "others"]))),
        ("/spec/names/singular", json!("A_b")),
        ("/spec/names/kind", json!(dice.pick(&["", "a.b", "Other"]))),
        ("/spec/names/listKind", json!(dice.pick(&["Thing", "a.b", "Others"]))),
        ("/spec/names/shortNames", json!(["a", "B"])),
        ("/spec/names/categories", json!(["a", "B"])),
        ("/spec/versions", json!([])),
        ("/spec/versions/0/name", json!(dice.pick(&["", "1v", "v2", "V1"]))),
        ("/spec/versions/0/storage", json!(false)),
        ("/spec/versions/1/storage", json!(true)),
        ("/spec/versions/0/schema", Value::Null),
        ("/spec/versions/1/schema", json!({})),
        ("/spec/versions/0/deprecationWarning", json!(dice.pick(&["", "<a>", "a\u{1}"]))),
        ("/spec/versions/0/deprecated", json!(true)),
        (
            "/spec/versions/0/subresources",
            json!({"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.b", "labelSelectorPath": ".metadata"}}),
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": "spec.a", "labelSelectorPath": ""}}),
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".status.a", "statusReplicasPath": ".status"}}),
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "", "type": "x", "format": "y", "jsonPath": "a"}, {"name": "n"}]),
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}, {"jsonPath": "x"}, {"jsonPath": ".metadata.name"}, {"jsonPath": ""}, {"jsonPath": ".spec['a']"}]),
        ),
        ("/spec/preserveUnknownFields", json!(true)),
        ("/spec/conversion", json!({"strategy": dice.pick(&["", "None", "Magic", "Webhook"])})),
        (
            "/spec/conversion",
            json!({"strategy": "None", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}),
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1", "v1", "x y"]}}),
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": dice.pick(&["https://a/b", "http://u@a?b#c", "x", "https://a:b", ":", "https:///"])}, "conversionReviewVersions": ["v3"]}}),
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "", "namespace": "", "path": dice.pick(&["", "/", "//", "a/", "/a//b_c"]), "port": 70000}}, "conversionReviewVersions": []}}),
        ),
        ("/status/storedVersions", json!(["v1", "v9", "v2"])),
        ("/status/acceptedNames", json!({"plural": "A", "kind": "B", "listKind": "B"})),
        ("/metadata/resourceVersion", json!("")),
        ("/metadata/deletionTimestamp", json!("2024-01-02T03:04:05Z")),
    ];
    let (pointer, value) = choices[dice.below(choices.len())].clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    if let Some(Value::Object(parent)) = definition.pointer_mut(parent) {
        parent.insert(name.to_owned(), value);
    }
}
