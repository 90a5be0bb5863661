//! Whether applying would change nothing, told from the object alone.
//!
//! A manager that applies owns exactly the fields it applied, and loses those that another client changes. So if the
//! fields it owns are the fields it wants, and they say what it wants, the API server need not be asked. Where that depends on the
//! schema, the result is `false`: one request too many does no harm.
//!
//! Our own design: a controller leaves out an apply that would change nothing; Kubernetes finds that out on the
//! server.

use ferroplane_golang::json::JsonObject;
use serde_json::{Number, Value};

use super::item_index::ItemIndex;

/// Fields that identify an object, or that the server sets. They have no owner.
const UNOWNED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
    "deletionTimestamp",
];

/// Whether the manager owns all that the configuration says, and nothing else, and it is so.
pub fn holds(configuration: &JsonObject, live: &JsonObject, manager: &str, subresource: &str) -> bool {
    let Some(entry) = entry_of(live, manager, subresource) else { return false };
    // What was applied in another version is applied anew in this one.
    if entry.get("apiVersion") != configuration.get("apiVersion") {
        return false;
    }
    let Some(fields) = entry.get("fieldsV1").and_then(Value::as_object) else { return false };
    let mut wanted = configuration.clone();
    wanted.remove("apiVersion");
    wanted.remove("kind");
    if let Some(Value::Object(metadata)) = wanted.get_mut("metadata") {
        metadata.retain(|key, _| !UNOWNED.contains(&key.as_str()));
        if metadata.is_empty() {
            wanted.remove("metadata");
        }
    }
    // Owning less than is wanted, or more, both mean that an apply would change the owners.
    wanted.is_empty() == fields.is_empty() && (wanted.is_empty() || object_holds(&wanted, live, fields))
}

/// What the manager owns by having applied it.
pub(super) fn owned_by<'l>(live: &'l JsonObject, manager: &str, subresource: &str) -> Option<&'l JsonObject> {
    entry_of(live, manager, subresource)?.get("fieldsV1")?.as_object()
}

fn entry_of<'l>(live: &'l JsonObject, manager: &str, subresource: &str) -> Option<&'l Value> {
    let entries = live.get("metadata")?.get("managedFields")?.as_array()?;
    let text = |entry: &'l Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    entries.iter().find(|entry| {
        text(entry, "manager") == manager
            && text(entry, "operation") == "Apply"
            && text(entry, "subresource") == subresource
    })
}

fn value_holds(wanted: &Value, live: &Value, fields: &JsonObject) -> bool {
    match wanted {
        // What null means depends on the schema, so that the server is asked.
        Value::Null => false,
        // Owned as a whole, or a plain value.
        _ if fields.is_empty() => same(wanted, live),
        Value::Object(wanted) => live.as_object().is_some_and(|live| object_holds(wanted, live, fields)),
        Value::Array(wanted) => live.as_array().is_some_and(|live| list_holds(wanted, live, fields)),
        _ => false,
    }
}

fn object_holds(wanted: &JsonObject, live: &JsonObject, fields: &JsonObject) -> bool {
    // The dot says that the object itself is owned, and is no field of it.
    let owned = fields.keys().filter(|key| *key != ".").count();
    owned == wanted.len()
        && wanted.iter().all(|(key, wanted)| {
            let fields = fields.get(&format!("f:{key}")).and_then(Value::as_object);
            let live = live.get(key);
            fields.zip(live).is_some_and(|(fields, live)| value_holds(wanted, live, fields))
        })
}

/// A list whose items have owners: each is found by its keys, or is itself what it is found by.
fn list_holds(wanted: &[Value], live: &[Value], fields: &JsonObject) -> bool {
    let owned = fields.iter().filter(|(key, _)| *key != ".");
    if owned.clone().count() != wanted.len() {
        return false;
    }
    let (wanted_items, live_items) = (ItemIndex::new(wanted), ItemIndex::new(live));
    let mut places = Vec::with_capacity(wanted.len());
    for (key, fields) in owned {
        let Some(fields) = fields.as_object() else { return false };
        let found = live_items.find(key).zip(wanted_items.find_with_defaults(key));
        let Some((live_at, wanted_at)) = found else { return false };
        let (wanted, live) = (&wanted[wanted_at], &live[live_at]);
        let is_whole = key.starts_with("v:");
        if !(if is_whole { same(wanted, live) } else { value_holds(wanted, live, fields) }) {
            return false;
        }
        places.push((wanted_at, live_at));
    }
    // Each wanted item is found by one key, and they stand in the order in which they are wanted.
    places.sort_unstable();
    places.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
}

/// Whether two values are the same. Numbers are, however they are written.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // Functions speak protobuf, where every number is a double: `2` that is wanted may be `2.0` on one
        // side.
        (Value::Number(one), Value::Number(other)) => one == other || same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| same(one, other)))
        }
        _ => one == other,
    }
}

fn same_number(one: &Number, other: &Number) -> bool {
    match (whole(one), whole(other)) {
        (None, None) => one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    }
}

/// The number as an integer, if it is one: exactly, because past 2^53 neighbouring integers are the same float, and a
/// change from one to the next must not be taken for none.
fn whole(number: &Number) -> Option<i128> {
    const LIMIT: f64 = 1e30;
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < LIMIT);
    number.as_i128().or_else(|| {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the limits")]
        float().map(|float| float as i128)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "a", "labels": {"x": "1", "theirs": "2"}, "resourceVersion": "7",
                "managedFields": [
                    {"manager": "us", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:x": {}}},
                        "f:spec": {
                            "f:ports": {
                                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}},
                                "k:{\"port\":81,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}
                            },
                            "f:selector": {},
                            "f:flags": {"v:\"a\"": {}},
                        }
                    }},
                    {"manager": "us", "operation": "Apply", "apiVersion": "v1", "subresource": "status", "fieldsV1": {}},
                ]
            },
            "spec": {
                "ports": [
                    {"port": 80, "protocol": "TCP", "name": "web"}, {"port": 9, "protocol": "TCP"},
                    {"port": 81, "protocol": "UDP"},
                ],
                "selector": {"app": "a"}, "flags": ["z", "a"], "type": "ClusterIP",
            }
        })
    }

    fn configuration() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": {"x": "1"}},
            "spec": {
                "ports": [{"port": 80.0, "name": "web"}, {"port": 81, "protocol": "UDP"}],
                "selector": {"app": "a"}, "flags": ["a"],
            }
        })
    }

    fn check(configuration: &Value, live: &Value) -> bool {
        holds(configuration.as_object().unwrap(), live.as_object().unwrap(), "us", "")
    }

    #[test]
    fn what_is_owned_and_so_need_not_be_applied() {
        assert!(check(&configuration(), &live()));
    }

    #[test]
    fn whatever_differs_has_to_be_applied() {
        let differences: [(&str, Value); 12] = [
            ("/metadata/labels/x", json!("2")),
            ("/metadata/labels", json!({})),
            ("/metadata/labels", json!({"x": "1", "theirs": "2"})),
            ("/metadata/labels", json!(null)),
            ("/spec/ports/0/name", json!("other")),
            ("/spec/ports", json!([{"port": 80, "name": "web"}])),
            ("/spec/ports", json!([{"port": 81, "protocol": "UDP"}, {"port": 80, "name": "web"}])),
            ("/spec/ports", json!([{"port": 80, "name": "web"}, {"port": 82, "protocol": "UDP"}])),
            ("/spec/selector", json!({"app": "b"})),
            ("/spec/selector", json!({})),
            ("/spec/flags", json!(["a", "b"])),
            ("/apiVersion", json!("v2")),
        ];
        for (path, value) in differences {
            let mut configuration = configuration();
            *configuration.pointer_mut(path).unwrap() = value;
            assert!(!check(&configuration, &live()), "{path}: {configuration}");
        }
    }

    #[test]
    fn numbers_are_the_same_only_if_they_are_exactly() {
        for (one, other) in [
            (json!(2), json!(2.0)),
            (json!(-0.0), json!(0)),
            (json!(9_007_199_254_740_992_i64), json!(9_007_199_254_740_992.0)),
            (json!(0.5), json!(0.5)),
            (json!(1e40), json!(1e40)),
        ] {
            assert!(same(&one, &other), "{one} {other}");
        }
        // Each pair is the same double.
        for (one, other) in [
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64)),
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0)),
            (json!(u64::MAX), json!(18_446_744_073_709_551_616.0)),
            (json!(i64::MIN + 1), json!(i64::MIN)),
        ] {
            assert!(!same(&one, &other), "{one} {other}");
        }
    }

    #[test]
    fn what_somebody_else_changed_has_to_be_applied() {
        for path in ["/metadata/labels/x", "/spec/ports/0/name", "/spec/selector/app"] {
            let mut live = live();
            *live.pointer_mut(path).unwrap() = json!("theirs");
            assert!(!check(&configuration(), &live), "{path}");
        }
        let mut live = live();
        live["metadata"]["managedFields"] = json!([]);
        assert!(!check(&configuration(), &live));
    }

    #[test]
    fn each_subresource_has_owners_of_its_own() {
        let status = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "uid": "u"}});
        let (live, status) = (live(), status.as_object().unwrap());
        assert!(holds(status, live.as_object().unwrap(), "us", "status"));
        assert!(!holds(status, live.as_object().unwrap(), "us", ""));
    }
}
