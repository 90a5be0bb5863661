//! Strategic merge patches of pods.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// What a list of objects is like: its field, its merge key, and the values of the key.
struct List {
    field: &'static str,
    key: &'static str,
    keys: &'static [&'static str],
}

const LISTS: [List; 6] = [
    List { field: "containers", key: "name", keys: &["a", "b", "c", "d"] },
    List { field: "volumes", key: "name", keys: &["v", "w", "x"] },
    List { field: "imagePullSecrets", key: "name", keys: &["s", "t"] },
    List { field: "hostAliases", key: "ip", keys: &["1.1.1.1", "2.2.2.2"] },
    List { field: "topologySpreadConstraints", key: "topologyKey", keys: &["zone", "host"] },
    List { field: "tolerations", key: "key", keys: &["k", "l"] },
];

pub(super) fn question(dice: &mut Dice) -> Value {
    let document = pod(dice, false);
    let patch = pod(dice, true);
    json!({"op": "strategic", "kind": "Pod", "document": document, "patch": patch, "attempts": 12})
}

fn pod(dice: &mut Dice, is_patch: bool) -> Value {
    let mut pod = Map::new();
    if dice.chance(70) {
        pod.insert("metadata".to_owned(), metadata(dice, is_patch));
    }
    if dice.chance(90) {
        pod.insert("spec".to_owned(), spec(dice, is_patch));
    }
    if dice.chance(30) {
        let conditions = List { field: "conditions", key: "type", keys: &["Ready", "Done"] };
        let mut status = Map::new();
        put_list(dice, &mut status, &conditions, is_patch);
        pod.insert("status".to_owned(), status.into());
    }
    directive(dice, &mut pod, is_patch, 1);
    pod.into()
}

fn metadata(dice: &mut Dice, is_patch: bool) -> Value {
    let mut metadata = Map::new();
    if dice.chance(70) {
        metadata.insert("labels".to_owned(), texts(dice, is_patch));
    }
    if dice.chance(60) {
        metadata.insert("finalizers".to_owned(), values(dice, is_patch));
    }
    if is_patch && dice.chance(25) {
        metadata.insert("$deleteFromPrimitiveList/finalizers".to_owned(), values(dice, true));
    }
    if is_patch && dice.chance(25) {
        metadata.insert("$setElementOrder/finalizers".to_owned(), values(dice, true));
    }
    if dice.chance(20) {
        let owners = List { field: "ownerReferences", key: "uid", keys: &["u", "v"] };
        put_list(dice, &mut metadata, &owners, is_patch);
    }
    directive(dice, &mut metadata, is_patch, 3);
    metadata.into()
}

fn spec(dice: &mut Dice, is_patch: bool) -> Value {
    let mut spec = Map::new();
    for list in &LISTS {
        if dice.chance(40) {
            put_list(dice, &mut spec, list, is_patch);
        }
    }
    if dice.chance(30) {
        spec.insert("nodeSelector".to_owned(), texts(dice, is_patch));
    }
    if dice.chance(30) {
        let mut context = Map::new();
        context.insert("runAsUser".to_owned(), dice.below(3).into());
        if dice.chance(50) {
            context.insert("sysctls".to_owned(), json!([{"name": "n", "value": "v"}]));
        }
        directive(dice, &mut context, is_patch, 10);
        spec.insert("securityContext".to_owned(), context.into());
    }
    if dice.chance(30) {
        let name = if dice.chance(90) { "n".into() } else { Value::Null };
        spec.insert("nodeName".to_owned(), name);
    }
    directive(dice, &mut spec, is_patch, 3);
    spec.into()
}

fn texts(dice: &mut Dice, is_patch: bool) -> Value {
    let mut texts = Map::new();
    for key in ["p", "q", "r"] {
        if dice.chance(50) {
            let value = if is_patch && dice.chance(20) { Value::Null } else { dice.pick(&["1", "2"]).into() };
            texts.insert(key.to_owned(), value);
        }
    }
    directive(dice, &mut texts, is_patch, 4);
    texts.into()
}

fn values(dice: &mut Dice, is_patch: bool) -> Value {
    if is_patch && dice.chance(3) {
        return dice.pick(&["x", ""]).into();
    }
    let mut values: Vec<Value> =
        ["f", "g", "h", "i"].iter().filter(|_| dice.chance(50)).map(|text| (*text).into()).collect();
    if dice.chance(30) {
        values.reverse();
    }
    if dice.chance(3) {
        values.push(1.into());
    }
    if dice.chance(3) {
        values.push("f".into());
    }
    values.into()
}

fn put_list(dice: &mut Dice, object: &mut Map<String, Value>, list: &List, is_patch: bool) {
    let items = items(dice, list, is_patch);
    if is_patch && dice.chance(35) {
        object.insert(format!("$setElementOrder/{}", list.field), wanted(dice, list, &items));
    }
    if !is_patch || dice.chance(85) {
        object.insert(list.field.to_owned(), items);
    }
}

/// An order that mostly fits the items.
fn wanted(dice: &mut Dice, list: &List, items: &Value) -> Value {
    let mut keys: Vec<Value> =
        items.as_array().into_iter().flatten().filter_map(|item| item.get(list.key)).cloned().collect();
    for key in list.keys {
        if dice.chance(40) && !keys.contains(&Value::from(*key)) {
            let position = dice.below(keys.len() + 1);
            keys.insert(position, (*key).into());
        }
    }
    if dice.chance(5) {
        keys.reverse();
    }
    if dice.chance(2) {
        return "no list".into();
    }
    let mut wanted: Vec<_> = keys.into_iter().map(|key| json!({list.key: key})).collect();
    if dice.chance(2) {
        wanted.push(json!({"other": 1}));
    }
    wanted.into()
}

fn items(dice: &mut Dice, list: &List, is_patch: bool) -> Value {
    if is_patch && dice.chance(2) {
        return Value::Null;
    }
    let mut items: Vec<Value> = Vec::new();
    for key in list.keys {
        if dice.chance(50) {
            items.push(item(dice, list, key, is_patch));
        }
    }
    if dice.chance(30) {
        items.reverse();
    }
    if is_patch && dice.chance(4) {
        items.insert(dice.below(items.len() + 1), json!({"$patch": dice.pick(&["replace", "merge", "odd"])}));
    }
    if dice.chance(2) {
        let key = dice.pick(list.keys);
        items.push(item(dice, list, key, is_patch));
    }
    if is_patch && dice.chance(2) {
        items.push([json!("text"), json!({"other": 1}), json!([1])][dice.below(3)].clone());
    }
    items.into()
}

fn item(dice: &mut Dice, list: &List, key: &str, is_patch: bool) -> Value {
    let mut item = Map::new();
    item.insert(list.key.to_owned(), key.into());
    match list.field {
        "containers" => container(dice, &mut item, is_patch),
        "volumes" => volume(dice, &mut item, is_patch),
        _ if dice.chance(50) => drop(item.insert("x".to_owned(), dice.below(5).into())),
        _ => {}
    }
    directive(dice, &mut item, is_patch, 10);
    item.into()
}

fn container(dice: &mut Dice, container: &mut Map<String, Value>, is_patch: bool) {
    let mut put = |name: &str, value: Value| drop(container.insert(name.to_owned(), value));
    if dice.chance(50) {
        let image = if is_patch && dice.chance(10) { Value::Null } else { dice.pick(&["i", "j"]).into() };
        put("image", image);
    }
    if dice.chance(30) {
        put("args", json!(["x", dice.pick(&["y", "z"]), null]));
    }
    if dice.chance(30) {
        put("resources", json!({"limits": {"cpu": dice.pick(&["1", "2"]), "memory": null}}));
    }
    if dice.chance(30) {
        let ports: Vec<_> = [80, 443, 8080]
            .iter()
            .filter(|_| dice.chance(50))
            .map(|port| json!({"containerPort": port, "protocol": "TCP"}))
            .collect();
        put("ports", ports.into());
    }
    if dice.chance(30) {
        let env = List { field: "env", key: "name", keys: &["e", "f"] };
        put_list(dice, container, &env, is_patch);
    }
}

fn volume(dice: &mut Dice, volume: &mut Map<String, Value>, is_patch: bool) {
    let kind = dice.pick(&["emptyDir", "configMap", "secret"]);
    volume.insert(kind.to_owned(), json!({"x": dice.below(3)}));
    if is_patch && dice.chance(40) {
        let keys = if dice.chance(90) { json!(["name", kind]) } else { json!(["name"]) };
        volume.insert("$retainKeys".to_owned(), keys);
    }
}

fn directive(dice: &mut Dice, object: &mut Map<String, Value>, is_patch: bool, percent: usize) {
    if is_patch && dice.chance(percent) {
        let directive = [json!("delete"), json!("delete"), json!("replace"), json!("merge"), json!(1)]
            [dice.below(5)]
        .clone();
        object.insert("$patch".to_owned(), directive);
    }
}
