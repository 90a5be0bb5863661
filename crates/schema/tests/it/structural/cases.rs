//! Questions for both sides.

use serde_json::{Value, json};

use super::generate;
use crate::dice::Dice;

/// A new object.
pub(crate) fn create(seed: u64) -> Value {
    let mut dice = Dice::new(seed);
    let schema = generate::schema(&mut dice, true);
    let mistakes = [0, 10, 30][dice.below(3)];
    let object = generate::resource(&mut dice, &schema, mistakes);
    json!({"op": "object", "schema": schema, "object": object, "drop": dice.chance(15), "namespaced": dice.chance(20)})
}

/// An object and what it was before.
pub(crate) fn update(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(1 << 40));
    let schema = generate::schema(&mut dice, false);
    let mistakes = [5, 20, 40][dice.below(3)];
    let mut old = generate::resource(&mut dice, &schema, mistakes);
    if !old["metadata"].is_object() {
        old["metadata"] = json!({});
    }
    old["metadata"]["resourceVersion"] = json!("1");
    old["kind"] = json!("Thing");
    let mut object = old.clone();
    let percent = [0, 5, 20][dice.below(3)];
    generate::change(&mut dice, &mut object, percent);
    json!({"op": "object", "schema": schema, "object": object, "old": old, "drop": true})
}

/// A new definition, mostly with something wrong in it.
pub(crate) fn define(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(2 << 40));
    json!({"op": "crd", "crd": generate::definition(&mut dice)})
}

/// A definition and what it was before.
pub(crate) fn redefine(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(3 << 40));
    let mut old = generate::definition(&mut dice);
    old["metadata"]["resourceVersion"] = json!("1");
    let mut new = if dice.chance(40) { generate::definition(&mut dice) } else { old.clone() };
    new["metadata"]["resourceVersion"] = json!("1");
    if dice.chance(50) {
        generate::spoil_definition(&mut dice, &mut new);
    }
    json!({"op": "crd", "crd": new, "oldCrd": old})
}

/// A new object for a schema with rules.
pub(crate) fn create_ruled(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(4 << 40));
    let schema = generate::ruled_schema(&mut dice, false, true);
    let object = generate::resource(&mut dice, &schema, 0);
    json!({"op": "object", "schema": schema, "object": object, "drop": true})
}

/// An object and what it was before, for a schema with rules.
pub(crate) fn update_ruled(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(5 << 40));
    let schema = generate::ruled_schema(&mut dice, false, true);
    let mut old = generate::resource(&mut dice, &schema, 0);
    old["metadata"]["resourceVersion"] = json!("1");
    let mut object = old.clone();
    let percent = [0, 10, 30][dice.below(3)];
    generate::change(&mut dice, &mut object, percent);
    json!({"op": "object", "schema": schema, "object": object, "old": old, "drop": true})
}

/// A definition with rules.
pub(crate) fn define_ruled(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(6 << 40));
    json!({"op": "crd", "crd": generate::ruled_definition(&mut dice)})
}

/// A rule and what it may cost.
pub(crate) fn cost(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(11 << 40));
    json!({"op": "cost", "schema": generate::costs::schema(&mut dice)})
}

/// A definition with rules that may cost too much.
pub(crate) fn define_costly(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(12 << 40));
    json!({"op": "crd", "crd": define_spec(&generate::costs::ruled(&mut dice))})
}

/// Definitions that cost too much, each for a reason of its own.
fn too_costly() -> Vec<Value> {
    let text = || json!({"type": "string"});
    let list = |items: Value| json!({"type": "array", "items": items});
    let ruled = |mut schema: Value, rule: &str| {
        schema["x-kubernetes-validations"] = json!([{ "rule": rule }]);
        schema
    };
    let compared = "self.all(x, self.all(y, x == y))";
    let in_lists = |limit: i64| {
        let mut outer = list(list(ruled(text(), "self.matches('^[a-z]+$')")));
        outer["maxItems"] = limit.into();
        outer["items"]["maxItems"] = limit.into();
        outer
    };
    let mut with_message = ruled(text(), "true");
    with_message["x-kubernetes-validations"][0]["messageExpression"] =
        "self + self.replace('a', self)".into();
    let many: serde_json::Map<_, _> = (0..12_u32)
        .map(|index| {
            let limited = json!({"type": "array", "items": {"type": "string", "maxLength": 60 + index}, "maxItems": 500});
            (format!("field{index}"), ruled(limited, compared))
        })
        .collect();
    let schemas = [
        ruled(list(text()), compared),
        ruled(json!({"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 5}}), compared),
        in_lists(10),
        in_lists(1000),
        list(list(ruled(text(), "self == 'a'"))),
        with_message,
        json!({"type": "object", "properties": many}),
    ];
    let mut questions: Vec<_> =
        schemas.iter().map(|schema| json!({"op": "crd", "crd": define_spec(schema)})).collect();
    // What did not change may cost what it cost, unless all together cost too much.
    questions.extend(schemas.iter().map(|schema| {
        let mut definition = define_spec(schema);
        definition["metadata"]["resourceVersion"] = "1".into();
        json!({"op": "crd", "crd": definition, "oldCrd": definition})
    }));
    questions
}

fn define_spec(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
            }]
        },
        "status": {"storedVersions": ["v1"]}
    })
}

/// A definition whose webhook is given another bundle of certificates.
pub(crate) fn rebundle(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(13 << 40));
    let old = generate::bundles::definition(&generate::bundles::whole());
    let new = generate::bundles::definition(&generate::bundles::bundle(&mut dice));
    json!({"op": "crd", "crd": new, "oldCrd": old})
}

/// A write to an object whose status is a part of its own: to the whole or to the status.
pub(crate) fn write_part(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(10 << 40));
    let with_rules = dice.chance(50);
    let schema = generate::ruled_schema(&mut dice, false, with_rules);
    let mistakes = if with_rules { 0 } else { [0, 10, 30][dice.below(3)] };
    let mut old = generate::resource(&mut dice, &schema, mistakes);
    if !old["metadata"].is_object() {
        old["metadata"] = json!({});
    }
    old["kind"] = json!("Thing");
    old["metadata"]["resourceVersion"] = json!("1");
    old["metadata"]["generation"] = json!(dice.below(9));
    let mut object = old.clone();
    object["metadata"]["finalizers"] =
        json!([dice.pick(&["orphan", "a", "a.b", "a.b/c", "A B", "kubernetes"])]);
    object["metadata"]["labels"] = json!({"a": dice.pick(&["b", "c"])});
    let percent = [0, 10, 30][dice.below(3)];
    generate::change(&mut dice, &mut object, percent);
    let part = dice.pick(&["whole", "status", "status"]);
    let mut question =
        json!({"op": "object", "schema": schema, "object": object, "drop": true, "part": part});
    if dice.chance(90) {
        question["old"] = old;
    }
    question
}

/// A document for a definition.
pub(crate) fn publish(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(7 << 40));
    let mut definition =
        if dice.chance(30) { generate::ruled_definition(&mut dice) } else { generate::definition(&mut dice) };
    definition["spec"]["group"] = json!(dice.pick(&["example.org", "a-b.k8s.io", "x1.y_z.io"]));
    definition["spec"]["names"] = json!({"plural": "things", "kind": "Thing"});
    let version = definition["spec"]["versions"][0]["name"].as_str().unwrap_or("v1").to_owned();
    json!({"op": "openapi", "crd": definition, "version": version, "v2": dice.chance(40)})
}

/// Text with fields in it that are there twice.
pub(crate) fn text(seed: u64) -> Value {
    fn write(dice: &mut Dice, depth: usize) -> String {
        match dice.below(if depth == 0 { 4 } else { 8 }) {
            0 => dice.below(9).to_string(),
            1 => dice
                .pick(&["1.5", "-0", "1e3", "true", "null", "12345678901234567890", "nul", "01"])
                .to_owned(),
            2 | 3 => format!("{:?}", dice.pick(&["a", "é", "<b>", ""])),
            4 => {
                let items: Vec<_> = (0..dice.below(3)).map(|_| write(dice, depth - 1)).collect();
                format!("[{}]", items.join(","))
            }
            _ => object(dice, depth - 1),
        }
    }
    fn object(dice: &mut Dice, depth: usize) -> String {
        let fields: Vec<_> = (0..dice.below(5))
            .map(|_| format!("{:?}: {}", dice.pick(&["a", "b", "c.d", "é"]), write(dice, depth)))
            .collect();
        format!("{{{}}}", fields.join(", "))
    }
    let mut dice = Dice::new(seed.wrapping_add(8 << 40));
    json!({"op": "text", "text": object(&mut dice, 4)})
}

const FORMATS: &[&str] = &[
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "date-time",
    "k8s-short-name",
    "k8s-long-name",
];

const EXAMPLES: &[&str] = &[
    "",
    "a",
    "507f1f77bcf86cd799439011",
    "https://a:1/b?c#d",
    "http://[::1]:80/x",
    "//a",
    "a:b",
    "mailto:a@b",
    "/a%20b",
    "/%zz",
    "*",
    "http://a b/",
    "http://u:p@h/",
    "http://[fe80::1%25en0]/",
    "a@b.c",
    "A B <a@b.c>",
    "\"q r\"@x",
    "a@[1.2.3.4]",
    "<a@b>",
    "a@b (c)",
    "g: a@b;",
    "a..b@c",
    "a.example.com",
    "a-b.c-d.org",
    "xn--a.de",
    "a_b",
    "1.2.3.4",
    "01.02.003.4",
    "256.1.1.1",
    "::1",
    "1::2",
    "1:2:3:4:5:6:7:8",
    "::ffff:1.2.3.4",
    "1::2::3",
    "10.0.0.0/8",
    "::/0",
    "10.0.0.0/33",
    "1.2.3.4/08",
    "00:11:22:33:44:55",
    "00-11-22-33-44-55",
    "0011.2233.4455",
    "00:11:22:33:44",
    "01234567-89ab-cdef-0123-456789abcdef",
    "0123456789ab3def8123456789abcdef",
    "01234567-89AB-4DEF-A123-456789ABCDEF",
    "01234567-89ab-5def-8123-456789abcdef",
    "0321751043",
    "978-0321751041",
    "0-8044-2957-X",
    "4111 1111 1111 1111",
    "378282246310005",
    "111-11-1111",
    "111111111",
    "#fff",
    "abcdef",
    "#ggg",
    "rgb(0,0,0)",
    "rgb( 1 , 22,255 )",
    "rgb(256,0,0)",
    "YQ==",
    "YWI=",
    "YWJj",
    "YQ",
    "Y===",
    "2024-02-29",
    "2023-02-29",
    "2024-2-1",
    "2024-02-29T23:59:59Z",
    "2024-02-29t01:02:03.456+07:00",
    "2024-02-29T24:00:00Z",
    "2024-02-29 01:02:03Z",
    "1h",
    "-1.5h",
    "3 days",
    "1h2",
    "22 ns",
    "1µs",
    "1.s",
    "0",
    "+5m3s",
    "5 fortnights",
    "2 weeks 1 day",
    "abc",
    "a-b",
    "a.b",
    "A",
    "-a",
];

/// Texts that may have a format.
pub(crate) fn format(seed: u64) -> Value {
    let mut dice = Dice::new(seed.wrapping_add(9 << 40));
    let mutated = |dice: &mut Dice| {
        let mut text: Vec<char> = dice.pick(EXAMPLES).chars().collect();
        for _ in 0..dice.below(3) {
            let at = dice.below(text.len() + 1);
            match dice.below(3) {
                0 if at < text.len() => drop(text.remove(at)),
                1 => text.insert(
                    at,
                    dice.pick(&["0", "a", ":", ".", "-", "/", " ", "%", "@", "é", "\"", "(", "Z"])
                        .chars()
                        .next()
                        .unwrap(),
                ),
                _ if at < text.len() => text[at] = char::from(b'0' + u8::try_from(dice.below(10)).unwrap()),
                _ => {}
            }
        }
        text.into_iter().collect::<String>()
    };
    let format = dice.pick(FORMATS);
    let values: Vec<_> = (0..40).map(|_| mutated(&mut dice)).collect();
    json!({"op": "format", "format": format, "values": values})
}

/// Those whose answers are kept.
pub(crate) fn recorded() -> Vec<Value> {
    let definitions = (1..50).map(define).chain((1..30).map(redefine));
    let ruled = (1..50)
        .map(create_ruled)
        .chain((1..50).map(update_ruled))
        .chain((1..40).map(write_part))
        .chain((1..60).map(cost))
        .chain((1..40).map(rebundle))
        .chain((1..40).map(define_costly))
        .chain((1..50).map(define_ruled));
    let ruled = ruled.chain(too_costly());
    let rest = (1..40).map(text).chain((1..40).map(format));
    (1..100).map(create).chain((1..80).map(update)).chain(definitions).chain(ruled).chain(rest).collect()
}
