//! What matters of objects: without times, counters, identifiers, and names that are made up by chance.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::verdict::EVENTS;

/// By kind, namespace and name.
pub(super) type Portraits = Map<String, Value>;

/// Names and identifiers that are different each time, and what stands for them.
#[derive(Default)]
pub(super) struct Aliases(BTreeSet<(String, String)>);

/// The portraits of objects that were seen together. What was seen before is known by its name even if it is gone.
pub(super) fn draw(mut objects: Vec<Value>, known: &mut Aliases) -> Portraits {
    known.0.extend(aliases(&objects));
    let mut aliases: Vec<_> = known.0.iter().cloned().collect();
    // Names may begin with others.
    aliases.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    for object in &mut objects {
        rename(object, &aliases);
    }
    let (events, objects): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| object["kind"] == "Event");
    let mut portraits: Portraits =
        objects.into_iter().map(|object| (key(&object), simplify(object))).collect();
    portraits.insert(EVENTS.to_owned(), said(&events));
    portraits
}

fn key(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let place = match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/"),
        None => String::new(),
    };
    format!("{} {place}{}", text(&object["kind"]), text(&metadata["name"]))
}

fn aliases(objects: &[Value]) -> Vec<(String, String)> {
    let mut aliases = Vec::new();
    for object in objects {
        let metadata = &object["metadata"];
        let Some(name) = metadata["name"].as_str() else { continue };
        let owner = controller(metadata);
        let part = metadata["annotations"]["crossplane.io/composition-resource-name"].as_str();
        if let (Some(owner), Some(part), true) = (owner, part, metadata["generateName"].is_string()) {
            aliases.push((name.to_owned(), format!("{owner}~{part}")));
        } else if let Some((cause, number)) = trigger(object) {
            let others = objects.iter().filter_map(trigger);
            let earlier = others.filter(|other| other.0 == cause && other.1 < number).count();
            aliases.push((name.to_owned(), format!("{cause}~{}", earlier + 1)));
        } else if let Some(claim) = object["spec"]["claimRef"]["name"].as_str() {
            aliases.push((name.to_owned(), format!("{claim}~xr")));
        }
        if let Some(uid) = metadata["uid"].as_str() {
            let kind = object["kind"].as_str().unwrap_or_default();
            aliases.push((uid.to_owned(), format!("uid of {kind} {name}")));
        }
    }
    aliases
}

/// The name of the owner that controls an object.
fn controller(metadata: &Value) -> Option<&str> {
    let mut owners = metadata["ownerReferences"].as_array()?.iter();
    owners.find(|owner| owner["controller"] == true)?["name"].as_str()
}

/// What an operation was made for, and the version or the time of that, of which its name is made. None if nothing made it.
fn trigger(object: &Value) -> Option<(String, u64)> {
    let metadata = &object["metadata"];
    let owner = controller(metadata)?;
    let noted =
        |field: &str| metadata["annotations"][format!("ops.crossplane.io/watched-resource-{field}")].as_str();
    if let Some(watched) = noted("name") {
        // A deletion has no version, and comes after all changes.
        let version = noted("resourceversion").and_then(|version| version.parse().ok());
        return Some((format!("{owner}~{watched}"), version.unwrap_or(u64::MAX)));
    }
    metadata["labels"]["ops.crossplane.io/cronoperation"].as_str()?;
    let (_, time) = metadata["name"].as_str()?.rsplit_once('-')?;
    Some((format!("{owner}~time"), time.parse().ok()?))
}

/// Whether something is there whose owner is gone: somebody will collect it.
pub(super) fn has_orphans(objects: &[Value]) -> bool {
    let uids: BTreeSet<_> = objects.iter().filter_map(|object| object["metadata"]["uid"].as_str()).collect();
    let owners =
        |object: &'_ Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let is_gone = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| !uids.contains(uid));
    objects.iter().any(|object| object["kind"] != "Event" && owners(object).iter().any(is_gone))
}

fn rename(value: &mut Value, aliases: &[(String, String)]) {
    match value {
        Value::String(text) => *text = renamed(text, aliases),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, aliases)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| rename(field, aliases));
            // Owners of fields name what is in lists by keys.
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(key, field)| (renamed(&key, aliases), field))
                .collect();
        }
        _ => {}
    }
}

fn renamed(text: &str, aliases: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    // What stands for one may name another.
    for _ in 0..2 {
        for (name, alias) in aliases {
            if text.contains(name.as_str()) && !text.contains(alias.as_str()) {
                text = text.replace(name.as_str(), alias);
            }
        }
    }
    text
}

fn simplify(mut object: Value) -> Value {
    let generation = object["metadata"]["generation"].clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for noise in ["uid", "resourceVersion", "creationTimestamp", "generation", "selfLink"] {
            metadata.remove(noise);
        }
        if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
            // They are in the order in which somebody came.
            finalizers.sort_by_key(Value::to_string);
        }
        if let Some(time) = metadata.get_mut("deletionTimestamp") {
            *time = "once".into();
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove("ops.crossplane.io/watched-resource-resourceversion");
        }
        if let Some(managed) = metadata.remove("managedFields") {
            metadata.insert("managers".to_owned(), managers(&managed));
        }
    }
    if let Some(status) = object["status"].as_object_mut() {
        // When they were last published, which Crossplane forgets if a user writes at the same moment.
        status.remove("connectionDetails");
        // How often an operation has failed that is tried until it is deleted: it continues while one looks.
        if is_tried_again(status) {
            status.remove("failures");
        }
        for field in ["lastScheduleTime", "lastSuccessfulTime"] {
            if let Some(time) = status.get_mut(field) {
                *time = "once".into();
            }
        }
    }
    for place in ["/spec/resourceRefs", "/spec/crossplane/resourceRefs"] {
        if let Some(Value::Array(references)) = object.pointer_mut(place) {
            references.iter_mut().for_each(forget_made_up_name);
            // They are in the order of their names, which are made up.
            references.sort_by_key(Value::to_string);
        }
    }
    if let Some(conditions) = object.pointer_mut("/status/conditions") {
        *conditions = outline(conditions, &generation);
    }
    if object["kind"] == "CustomResourceDefinition" {
        forget_words(&mut object["spec"]);
    }
    object
}

/// Whether it is the status of an operation that has neither succeeded nor failed.
fn is_tried_again(status: &Map<String, Value>) -> bool {
    let mut conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Succeeded" && condition["status"] == "Unknown")
}

/// What was never made is known by nothing but its name, which ends in twelve digits.
fn forget_made_up_name(reference: &mut Value) {
    let is_digits = |text: &str| text.len() == 12 && text.chars().all(|digit| digit.is_ascii_hexdigit());
    if let Some((prefix, digits)) = reference["name"].as_str().and_then(|name| name.rsplit_once('-'))
        && is_digits(digits)
    {
        reference["name"] = format!("{prefix}~?").into();
    }
}

/// Who manages what, as `MANAGER OPERATION SUBRESOURCE` and the paths of fields.
fn managers(entries: &Value) -> Value {
    let mut managers = Map::new();
    for entry in entries.as_array().into_iter().flatten() {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        let manager = match text("manager").rsplit_once("composed/") {
            Some((group, _)) => format!("{group}composed"),
            None if ["crossplane", "ferroplane"].contains(&text("manager")) => "plane".to_owned(),
            None => text("manager").to_owned(),
        };
        let mut paths = BTreeSet::new();
        walk(&entry["fieldsV1"], "", &mut paths);
        let name = format!("{manager} {} {}", text("operation"), text("subresource"));
        managers.insert(name.trim_end().to_owned(), json!(paths));
    }
    managers.into()
}

/// The leaves of a set of fields.
fn walk(fields: &Value, path: &str, paths: &mut BTreeSet<String>) {
    let Some(fields) = fields.as_object().filter(|fields| fields.keys().any(|key| key != ".")) else {
        paths.insert(path.to_owned());
        return;
    };
    for (key, below) in fields.iter().filter(|(key, _)| *key != ".") {
        let step = key.split_once(':').map_or(key.as_str(), |(_, step)| step);
        walk(below, &format!("{path}/{step}"), paths);
    }
}

/// Conditions without words and times, by type.
fn outline(conditions: &Value, generation: &Value) -> Value {
    let mut outlined = Map::new();
    for condition in conditions.as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let observed = &condition["observedGeneration"];
        let age = if observed.is_null() {
            "of no generation"
        } else if observed == generation {
            "current"
        } else {
            "stale"
        };
        outlined
            .insert(text("type").to_owned(), format!("{} {} {age}", text("status"), text("reason")).into());
    }
    outlined.into()
}

/// Definitions are compared by what they say to an API server, not to people.
fn forget_words(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            fields.values_mut().for_each(forget_words);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_words),
        _ => {}
    }
}

/// What was said about whom, with the words that were used.
fn said(events: &[Value]) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in events {
        let about = &event["involvedObject"];
        let place = match about["namespace"].as_str() {
            None | Some("") => String::new(),
            Some(namespace) => format!("{namespace}/"),
        };
        let message = text(&event["message"]);
        // Of a controller that was stopped on purpose, or that somebody else was faster than: by chance.
        if message.ends_with("context canceled") || message.contains("the object has been modified") {
            continue;
        }
        let about = format!("{} {place}{}", text(&about["kind"]), text(&about["name"]));
        let line = format!("{about}: {} {}", text(&event["type"]), text(&event["reason"]));
        lines.entry(line).or_default().insert(message);
    }
    json!(lines)
}
