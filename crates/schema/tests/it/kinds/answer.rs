//! What we answer, and how that differs from what the original answered.

use base64::Engine as _;
use ferroplane_ownership::merge::fields;
use ferroplane_ownership::merge::fieldset::field_set;
use ferroplane_ownership::merge::validate::{Duplicates, validate};
use ferroplane_schema::builtin::{self, BuiltinKind, protobuf};
use ferroplane_schema::patch::strategic;
use ferroplane_schema::structural::strict_json;
use serde_json::{Map, Value, json};

/// What is different, if anything.
pub(crate) fn difference(question: &Value, theirs: &Value) -> Option<String> {
    if theirs["panic"].is_string() {
        // There is nothing to be learnt from a program that fell over.
        return None;
    }
    let ours = answer(question, theirs);
    // Of several mistakes in a patch, which is told is left to chance.
    let is_refused = |answer: &Value| question["op"] == "patch" && answer["failure"].is_string();
    if is_refused(&ours) && is_refused(theirs) {
        return None;
    }
    let mut theirs = theirs.clone();
    theirs.as_object_mut().unwrap().remove("stored");
    if let Some(errors) = theirs.get_mut("errors").and_then(Value::as_array_mut) {
        errors.sort_by_key(Value::to_string);
        // When objects are replaced, a server reads their metadata several times.
        if question["old"].is_string() {
            errors.dedup();
        }
    }
    let theirs_fields = theirs.as_object_mut().unwrap();
    theirs_fields.remove("protobuf");
    let unconverted = theirs_fields.remove("defaulted");
    // Older versions of a kind are for whoever converts them.
    if question["kind"] == "HorizontalPodAutoscaler"
        && question["version"] == "v1"
        && let Some(unconverted) = unconverted
    {
        theirs["internal"] = unconverted;
    }
    // Whether a list is empty or absent is forgotten when it is stored.
    if let Some(conversion) = theirs.pointer_mut("/internal/spec/conversion").and_then(Value::as_object_mut)
        && conversion.get("webhook") == Some(&json!({"conversionReviewVersions": null}))
    {
        conversion.remove("webhook");
    }
    // A server counts the changes of the template there, beginning with one.
    if question["kind"] == "DaemonSet"
        && let Some(metadata) = theirs.pointer_mut("/internal/metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    (ours != theirs).then(|| {
        let names = ["failure", "strict", "read", "internal", "decoded", "fields", "patched", "errors"];
        let differing = names.iter().filter(|name| ours[**name] != theirs[**name]);
        let shown = differing.map(|name| {
            let mut lines = Vec::new();
            spot(&ours[*name], &theirs[*name], name, &mut lines);
            lines.truncate(6);
            lines.join("\n")
        });
        let kind = &question["kind"];
        let text: String = question["text"].as_str().unwrap().chars().take(1500).collect();
        format!("{kind} {text} {}\n{}", question["patch"], shown.collect::<Vec<_>>().join("\n"))
    })
}

/// How many schemas there are in all documents, and how they differ from the original ones.
pub(crate) fn compare_schemas(theirs: &Value) -> (usize, Vec<String>) {
    let mut ours = Map::new();
    for resource in builtin::resources() {
        let mut document = builtin::openapi::version_3(resource.group, resource.version).unwrap();
        let Value::Object(schemas) = document["components"]["schemas"].take() else { panic!("no schemas") };
        ours.extend(schemas);
    }
    let mut differences = Vec::new();
    for (name, schema) in &ours {
        let mut lines = Vec::new();
        spot(&bare(schema), &bare(&theirs[name]), name, &mut lines);
        differences.extend(lines);
    }
    (ours.len(), differences)
}

/// A schema without explanations, and without what only holds references together.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut bare_fields = Map::new();
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("description", Value::String(_)) | ("x-kubernetes-group-version-kind", _) => {}
                    ("allOf", Value::Array(parts)) if parts.len() == 1 => {
                        bare_fields.extend(parts[0].as_object().unwrap().clone());
                    }
                    _ => _ = bare_fields.insert(name.clone(), bare(value)),
                }
            }
            Value::Object(bare_fields)
        }
        Value::Array(list) => list.iter().map(bare).collect(),
        other => other.clone(),
    }
}

/// Where two values differ.
fn spot(ours: &Value, theirs: &Value, place: &str, lines: &mut Vec<String>) {
    match (ours, theirs) {
        _ if ours == theirs => {}
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for name in names {
                let (one, other) = (one.get(name), other.get(name));
                if one != other {
                    let absent = json!("(absent)");
                    let place = format!("{place}.{name}");
                    spot(one.unwrap_or(&absent), other.unwrap_or(&absent), &place, lines);
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in
                one.iter().zip(other).enumerate().filter(|(_, (one, other))| one != other)
            {
                spot(one, other, &format!("{place}[{index}]"), lines);
            }
        }
        _ => lines.push(format!("  {place}\n    ours   {ours}\n    theirs {theirs}")),
    }
}

fn answer(question: &Value, theirs: &Value) -> Value {
    let text = |name: &str| question[name].as_str().unwrap();
    let kind = builtin::kind(text("group"), text("version"), text("kind")).unwrap();
    let (object, duplicates) = strict_json::read(text("text")).unwrap();
    match text("op") {
        "read" => read(kind, &object, &duplicates, theirs),
        "typed" => typed(kind, &object),
        "patch" => patched(kind, &object, &question["patch"]),
        "validate" => validated(kind, &object, question["old"].as_str()),
        other => panic!("no such operation: {other}"),
    }
}

fn read(kind: BuiltinKind, object: &Value, duplicates: &[String], theirs: &Value) -> Value {
    let read = match kind.read(object) {
        Ok(read) => read,
        Err(failure) => return json!({"failure": failure}),
    };
    let mut strict: Vec<_> = duplicates.iter().map(|path| strict_json::duplicate_field(path)).collect();
    strict.extend(read.unknown.iter().map(|path| strict_json::unknown_field(path)));
    let mut answer = Map::new();
    if !strict.is_empty() {
        answer.insert("strict".to_owned(), json!(strict));
    }
    let mut defaulted = read.object.clone();
    kind.default(&mut defaulted);
    if let Some(bytes) = theirs["protobuf"].as_str() {
        let bytes = base64::engine::general_purpose::STANDARD.decode(bytes).unwrap();
        let decoded = protobuf::open(&bytes).unwrap().object(kind).unwrap();
        let decoded = kind.read(&decoded).unwrap();
        assert!(decoded.unknown.is_empty());
        if decoded.object != read.object {
            answer.insert("decoded".to_owned(), Value::Object(decoded.object));
        }
    }
    answer.insert("read".to_owned(), Value::Object(read.object));
    answer.insert("internal".to_owned(), Value::Object(defaulted));
    Value::Object(answer)
}

fn typed(kind: BuiltinKind, object: &Value) -> Value {
    let object = kind.read(object).unwrap().object;
    let shapes = kind.shapes();
    if let Err(problems) = validate(&object, shapes.root(), Duplicates::Refused) {
        return json!({"failure": problems.to_string()});
    }
    json!({"fields": fields::write(&field_set(&object, shapes.root()))})
}

fn patched(kind: BuiltinKind, object: &Value, patch: &Value) -> Value {
    let facts = kind.patch_facts();
    let mut object = object.as_object().unwrap().clone();
    let patch = patch.as_object().unwrap().clone();
    match strategic::apply(&mut object, patch, facts.kind(kind.name()).unwrap()) {
        Ok(()) => json!({"patched": object}),
        Err(error) => json!({"failure": error.to_string()}),
    }
}

fn validated(kind: BuiltinKind, object: &Value, old: Option<&str>) -> Value {
    let prepare = |object: &Value| {
        let mut object = kind.read(object).unwrap().object;
        kind.default(&mut object);
        object
    };
    let object = prepare(object);
    let errors = match old {
        None => kind.validate(&object),
        Some(old) => kind.validate_update(&object, &prepare(&strict_json::read(old).unwrap().0)),
    };
    let mut errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    errors.sort_by_key(|error| json!(error).to_string());
    if old.is_some() {
        errors.dedup();
    }
    json!({"errors": errors})
}
