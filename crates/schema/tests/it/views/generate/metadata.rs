//! Names, metadata and errors.

use serde_json::{Map, Value, json};

use super::garble;
use crate::dice::Dice;

fn some_name(dice: &mut Dice) -> String {
    let name = match dice.below(12) {
        0 => "x".repeat(dice.below(300)),
        1 => format!("example.org/{}", "y".repeat(dice.below(80))),
        2 => format!("{}.org/y", "z".repeat(dice.below(260))),
        _ => dice
            .pick(&[
                "a", "a-b", "a.b", "A.b_c", "1a", "-a", "a-", "a_", "", "x/y/z", "/a", "a/", "..", ".",
                "a%b", "é-",
            ])
            .to_owned(),
    };
    garble(dice, name, 20)
}

pub(super) fn name(dice: &mut Dice) -> Value {
    let rule = dice.pick(&["subdomain", "label", "1035", "segment", "qualified", "value"]);
    json!({"op": "name", "rule": rule, "name": some_name(dice), "prefix": dice.chance(30)})
}

fn good_or_bad(dice: &mut Dice, good: &str) -> String {
    if dice.chance(80) { good.to_owned() } else { some_name(dice) }
}

fn texts(dice: &mut Dice) -> Value {
    let pairs =
        (0..dice.below(3)).map(|_| (good_or_bad(dice, "example.org/a"), good_or_bad(dice, "b").into()));
    Value::Object(pairs.collect())
}

fn metadata(dice: &mut Dice) -> Value {
    let mut meta = Map::new();
    let mut put = |name: &str, value: Value| drop(meta.insert(name.to_owned(), value));
    if dice.chance(95) {
        put("name", good_or_bad(dice, "good").into());
    }
    if dice.chance(20) {
        put("generateName", good_or_bad(dice, "good-").into());
    }
    if dice.chance(70) {
        put("namespace", good_or_bad(dice, "space").into());
    }
    if dice.chance(20) {
        put("generation", [-1, 0, 1, 5][dice.below(4)].into());
    }
    if dice.chance(40) {
        put("labels", texts(dice));
    }
    if dice.chance(40) {
        put("annotations", texts(dice));
    }
    if dice.chance(3) {
        put("annotations", json!({"a": "x".repeat(256 * 1024 - dice.below(3))}));
    }
    if dice.chance(30) {
        put("ownerReferences", (0..dice.below(4)).map(|_| owner(dice)).collect());
    }
    if dice.chance(30) {
        let finalizers = ["orphan", "foregroundDeletion", "example.org/f", "bad one"];
        put("finalizers", (0..dice.below(4)).map(|_| Value::from(dice.pick(&finalizers))).collect());
    }
    if dice.chance(20) {
        put("managedFields", (0..dice.below(3)).map(|_| entry(dice)).collect());
    }
    if dice.chance(70) {
        put("resourceVersion", "7".into());
    }
    if dice.chance(50) {
        put("uid", dice.pick(&["u", "v", "<w>"]).into());
    }
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if dice.chance(20) {
            put(name, dice.pick(&["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"]).into());
        }
    }
    if dice.chance(20) {
        put("deletionGracePeriodSeconds", dice.below(2).into());
    }
    meta.into()
}

fn owner(dice: &mut Dice) -> Value {
    let mut owner = json!({
        "apiVersion": dice.pick(&["v1", "v1", "example.org/v1", "", "a/b/c", "/"]),
        "kind": dice.pick(&["Pod", "Event", "Widget", ""]),
        "name": dice.pick(&["n", "<m>", ""]),
        "uid": dice.pick(&["u", ""]),
    });
    if dice.chance(60) {
        owner["controller"] = dice.chance(70).into();
    }
    if dice.chance(30) {
        owner["blockOwnerDeletion"] = dice.chance(50).into();
    }
    owner
}

fn entry(dice: &mut Dice) -> Value {
    let long = "m".repeat(129);
    json!({
        "manager": dice.pick(&["me", "", "a\tb", "é\u{1}", &long]),
        "operation": dice.pick(&["Apply", "Update", "", "<x>"]),
        "fieldsType": dice.pick(&["FieldsV1", "", "FieldsV2"]),
        "subresource": if dice.chance(5) { "s".repeat(257) } else { String::new() },
    })
}

pub(super) fn meta(dice: &mut Dice) -> Value {
    let rule = dice.pick(&["subdomain", "label", "1035", "segment"]);
    let old = if dice.chance(60) { metadata(dice) } else { Value::Null };
    json!({"op": "meta", "rule": rule, "namespaced": dice.chance(70), "meta": metadata(dice), "old": old})
}

pub(super) fn status(dice: &mut Dice) -> Value {
    const WHICH: [&str; 18] = [
        "not-found",
        "already-exists",
        "generate-name",
        "unauthorized",
        "forbidden",
        "conflict",
        "gone",
        "expired",
        "bad-request",
        "too-many",
        "unavailable",
        "method",
        "server-timeout",
        "internal",
        "timeout",
        "too-large",
        "generic",
        "invalid",
    ];
    let codes = [400, 401, 403, 404, 405, 406, 409, 410, 415, 418, 422, 429, 500, 501, 503, 504];
    json!({
        "op": "status",
        "which": dice.pick(&WHICH),
        "group": dice.pick(&["", "example.org"]),
        "resource": dice.pick(&["", "widgets"]),
        "kind": dice.pick(&["", "Widget"]),
        "name": dice.pick(&["", "w", "a\"b"]),
        "message": dice.pick(&["", "it <is> so", "unknown"]),
        "code": codes[dice.below(codes.len())],
        "count": dice.below(10),
    })
}
