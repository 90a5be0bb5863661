//! What we answer to the questions that the peer is asked, and how answers differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::merge::combine::combine;
use ferroplane_ownership::merge::compare::compare;
use ferroplane_ownership::merge::fields;
use ferroplane_ownership::merge::fieldset::field_set;
use ferroplane_ownership::merge::path::{Element, are_equal};
use ferroplane_ownership::merge::pattern::{PatternStep, Patterns};
use ferroplane_ownership::merge::remove::{extract_items, remove_items};
use ferroplane_ownership::merge::set::Set;
use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::merge::validate::{Duplicates, validate};
use ferroplane_ownership::{
    self as ownership, ApplyError, Filter, Request, ResetFields, Scale, Version, VersionedKind,
};
use serde_json::{Value, json};

/// Our answer to a question.
pub(crate) fn answer(question: &Value) -> Value {
    if let Some(sets) = question["sets"].as_array() {
        return answer_sets(sets);
    }
    if question["typed"].is_object() {
        return answer_typed(question);
    }
    if question["scale"].is_object() {
        return answer_scale(&question["scale"]);
    }
    let mut kind = kind(question, &question["versions"]);
    let mut live = None;
    let mut outcomes = Vec::new();
    for step in question["steps"].as_array().into_iter().flatten() {
        if !step["versions"].is_null() {
            kind = self::kind(question, &step["versions"]);
        }
        outcomes.push(perform(&mut live, step, question, &kind));
    }
    json!({ "steps": outcomes })
}

/// The kind that a question is about.
pub(crate) fn kind(question: &Value, versions: &Value) -> VersionedKind {
    let group = text(question, "group");
    let versions = versions.as_array().into_iter().flatten().map(|version| {
        let shapes = if question["deduced"] == true {
            Shapes::deduced()
        } else {
            Shapes::of_custom_resource(version.get("schema").filter(|schema| !schema.is_null()))
                .expect("it has a shape")
        };
        Version { api_version: format!("{group}/{}", text(version, "name")), shapes: Arc::new(shapes) }
    });
    VersionedKind { name: text(question, "kind").to_owned(), versions: versions.collect() }
}

/// Performs a step, and says how it ended.
pub(crate) fn perform(
    live: &mut Option<JsonObject>,
    step: &Value,
    question: &Value,
    kind: &VersionedKind,
) -> Value {
    let api_version = format!("{}/{}", text(question, "group"), text(step, "version"));
    let mut reset = reset_fields(&step["reset"]);
    reset.extend(writable_fields(&step["only"]));
    let request = Request {
        manager: text(step, "manager"),
        api_version: &api_version,
        subresource: text(step, "subresource"),
        time: text(step, "time"),
        reset_fields: Some(&reset),
        converter: None,
    };
    if let Some(live) = live {
        live.insert("apiVersion".to_owned(), api_version.as_str().into());
    }
    let object = step["object"].as_object().expect("an object is written").clone();
    if step["op"] == "apply" {
        return perform_apply(live, &object, kind, &request, step["force"] == true);
    }
    let updated = ownership::update(live.as_ref(), object, kind, &request);
    let object = finish(updated.object);
    *live = Some(object.clone());
    let mut outcome = json!({ "object": object });
    if let Some(problem) = updated.problem {
        outcome["error"] = problem.into();
    }
    outcome
}

fn perform_apply(
    live: &mut Option<JsonObject>,
    applied: &JsonObject,
    kind: &VersionedKind,
    request: &Request<'_>,
    force: bool,
) -> Value {
    let plan = match ownership::apply(live.as_ref(), applied, kind, request, force) {
        Ok(plan) => plan,
        Err(error) => return refusal(&error),
    };
    let before = live.clone().unwrap_or_default();
    let is_noop = plan.changes_nothing();
    let object = plan.perform(before.clone());
    assert_eq!(is_noop, object == before, "a plan says whether it changes anything");
    let object = finish(object);
    *live = Some(object.clone());
    json!({ "object": object })
}

fn refusal(error: &ApplyError) -> Value {
    let causes = error
        .causes()
        .into_iter()
        .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}));
    let mut outcome = json!({ "error": error.to_string() });
    if !matches!(error, ApplyError::Failed(_)) {
        outcome["code"] = error.code().into();
    }
    let mut causes: Vec<_> = causes.collect();
    causes.sort_by_key(|cause| text(cause, "message").to_owned());
    if !causes.is_empty() {
        outcome["causes"] = causes.into();
    }
    outcome
}

/// Gives an object an identity, as storing it would.
fn finish(mut object: JsonObject) -> JsonObject {
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let has_none = metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty();
    if let Some(metadata) = metadata.as_object_mut().filter(|_| has_none) {
        metadata.insert("uid".to_owned(), "uid".into());
    }
    object
}

fn reset_fields(reset: &Value) -> ResetFields {
    let mut fields = ResetFields::new();
    for (version, paths) in reset.as_object().into_iter().flatten() {
        let mut set = Set::default();
        for path in paths.as_array().into_iter().flatten() {
            let names = path.as_array().into_iter().flatten().filter_map(Value::as_str);
            set.insert(&names.map(|name| Element::field(name.to_owned())).collect::<Vec<_>>());
        }
        fields.insert(version.clone(), set.into());
    }
    fields
}

fn writable_fields(only: &Value) -> ResetFields {
    let step = |name: &Value| match name.as_str().unwrap() {
        "*" => PatternStep::Any,
        name => PatternStep::Field(name.to_owned()),
    };
    let pattern = |path: &Value| path.as_array().unwrap().iter().map(step).collect();
    let patterns = |paths: &Value| {
        let patterns: Vec<Vec<_>> = paths.as_array().unwrap().iter().map(pattern).collect();
        Filter::Only(Patterns::new(patterns.iter().map(Vec::as_slice)))
    };
    let versions = only.as_object().into_iter().flatten();
    versions.map(|(version, paths)| (version.clone(), patterns(paths))).collect()
}

fn answer_sets(sets: &[Value]) -> Value {
    let mut read = Vec::new();
    for (at, set) in sets.iter().enumerate() {
        match fields::read(set) {
            Ok(set) => read.push(set.set),
            Err(error) => return json!({"error": error.to_string(), "at": at}),
        }
    }
    let (one, other) = (&read[0], &read[1]);
    let with = |change: fn(&mut Set<'_>, &Set<'_>)| {
        let mut set = one.clone();
        change(&mut set, other);
        fields::write_text(&set)
    };
    let mut union = one.clone();
    union.unite(other.clone());
    json!({
        "same": fields::write_text(one),
        "union": fields::write_text(&union),
        "intersection": fields::write_text(&one.intersection(other)),
        "difference": with(|set, other| { set.subtract(other); }),
        "recursive": with(|set, other| { set.subtract_trees(other); }),
        "leaves": fields::write_text(&one.leaves()),
        "size": one.len(),
        "paths": one.paths(),
        "equal": one == other,
    })
}

fn answer_typed(question: &Value) -> Value {
    let kind = kind(question, &question["versions"]);
    let shape = kind.versions[0].shapes.root();
    let asked = &question["typed"];
    let object = |name: &str| asked[name].as_object().cloned().unwrap_or_default();
    let (one, other) = (object("object"), object("other"));
    let mut set = match fields::read(&asked["fields"]) {
        Ok(read) => read.set,
        Err(error) => return json!({"error": error.to_string()}),
    };
    let valid = validate(&one, shape, Duplicates::Allowed).and(validate(&other, shape, Duplicates::Refused));
    if let Err(problems) = valid {
        return json!({"error": problems.to_string()});
    }
    let named = fields::write_text(&field_set(&one, shape));
    let comparison = compare(&one, &other, shape).expect("both are valid");
    let (change, noted) = combine(&one, &other, shape);
    let mut merged = one.clone();
    if let Some(change) = change {
        change.perform(&mut merged);
    }
    assert_eq!(noted, compare(&one, &merged, shape).expect("it is valid"), "a merge notes what it changes");
    let mut without = one.clone();
    remove_items(&mut without, &set, shape);
    let only = extract_items(&one, &set, shape);
    set.reconcile(shape);
    let or_null = |object: JsonObject| if object.is_empty() { Value::Null } else { object.into() };
    json!({
        "fields": named,
        "removed": fields::write_text(&comparison.removed),
        "modified": fields::write_text(&comparison.modified),
        "added": fields::write_text(&comparison.added),
        "merged": merged,
        "reconciled": fields::write_text(&set),
        "without": or_null(without),
        "only": or_null(only),
    })
}

fn answer_scale(question: &Value) -> Value {
    let mut replicas = BTreeMap::new();
    for (version, path) in question["mappings"].as_object().into_iter().flatten() {
        let names =
            path.as_array().map(|path| path.iter().map(|name| name.as_str().unwrap_or_default().to_owned()));
        replicas.insert(version.clone(), names.map(Iterator::collect));
    }
    let scale = Scale { api_version: text(question, "version").to_owned(), replicas };
    let below = scale.to_subresource(Some(&question["parent"]));
    let above = scale.to_parent(Some(&question["parent"]), Some(&question["scale"]));
    match (below, above) {
        (Ok(below), Ok(above)) => json!({"subresource": below, "parent": above}),
        (Err(problem), _) | (_, Err(problem)) => json!({"problem": problem}),
    }
}

/// How our answer differs from theirs, if it does.
pub(crate) fn difference(ours: &Value, theirs: &Value) -> Option<String> {
    let (Some(our_steps), Some(their_steps)) = (ours["steps"].as_array(), theirs["steps"].as_array()) else {
        let are_failures = |key: &str| ours.get(key).is_some() && theirs.get(key).is_some();
        // Entries of the same owner may come in any order.
        let sorted = |answer: &Value| {
            let mut entries = answer["parent"].as_array().cloned().unwrap_or_default();
            entries.sort_by_key(Value::to_string);
            (entries, answer["subresource"].clone())
        };
        let is_same = are_equal(ours, theirs)
            || ours.get("parent").is_some() && sorted(ours) == sorted(theirs)
            || are_failures("problem")
            || are_failures("error");
        let keys =
            ours.as_object().into_iter().flatten().filter(|(key, value)| theirs[key.as_str()] != **value);
        let lines =
            || keys.map(|(key, value)| format!("{key}\nours:   {value}\ntheirs: {}", theirs[key.as_str()]));
        return (!is_same)
            .then(|| lines().chain([format!("{}", theirs["problem"])]).collect::<Vec<_>>().join("\n"));
    };
    for (index, (ours, theirs)) in our_steps.iter().zip(their_steps).enumerate() {
        if !is_same_outcome(ours, theirs) {
            let keys =
                ["object", "code", "causes", "error"].into_iter().filter(|key| ours[key] != theirs[key]);
            let lines = keys.map(|key| format!("{key}\nours:   {}\ntheirs: {}", ours[key], theirs[key]));
            return Some(format!("step {index}: {}", lines.collect::<Vec<_>>().join("\n")));
        }
    }
    (our_steps.len() != their_steps.len()).then(|| "another number of steps".to_owned())
}

fn is_same_outcome(ours: &Value, theirs: &Value) -> bool {
    let is_same = |key: &str| are_equal(&ours[key], &theirs[key]);
    is_same("object")
        && is_same("code")
        && is_same("causes")
        && is_same_error(text(ours, "error"), text(theirs, "error"))
}

/// Where several things are wrong, upstream finds them in any order, and may find only some of them.
fn is_same_error(ours: &str, theirs: &str) -> bool {
    let is_vague = |text: &str| {
        ["\n", "field not declared", "error decoding versioned set"].iter().any(|part| text.contains(part))
            && !text.contains("conflicts:")
    };
    let sorted = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    sorted(ours) == sorted(theirs)
        || !ours.is_empty() && !theirs.is_empty() && (is_vague(ours) || is_vague(theirs))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// How a step ended, in a word or two.
pub(crate) fn end(step: &Value) -> &'static str {
    let error = text(step, "error");
    match step["code"].as_u64() {
        Some(409) => "conflict",
        Some(_) => "bad request",
        None if error.contains("typed patch") => "invalid configuration",
        None if error.contains("typed live") || error.contains("live object") => "invalid live object",
        None if error.contains("new object") => "invalid new object",
        None if error.contains("existing fields") => "invalid existing fields",
        None if error.contains("prune") => "failed to prune",
        None if !error.is_empty() => "other failure",
        None => "done",
    }
}
