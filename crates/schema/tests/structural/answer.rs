//! What we answer, and how that differs from what the original answered.

use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::structural::crd::{self, Definition};
use ferroplane_schema::structural::{Coercion, CustomResource, Props, Schema, openapi, strict_json};
use serde_json::{Map, Value, json};

/// What is different, if anything.
pub(crate) fn difference(question: &Value, theirs: &Value) -> Option<String> {
    if theirs["failure"].as_str().is_some_and(|failure| failure.starts_with("panic: ")) {
        // There is nothing to be learnt from a server that fell over.
        return None;
    }
    if has_misfit(theirs) {
        return None;
    }
    let ours = normalize(&answer(question));
    let mut theirs = normalize(theirs);
    if question["op"] == "crd" && theirs["object"].is_object() {
        let whole = &theirs["object"];
        theirs["object"] = json!({
            "names": whole["spec"]["names"], "conversion": whole["spec"]["conversion"],
            "storedVersions": whole["status"]["storedVersions"],
        });
    }
    // Of several mistakes in embedded resources, the first is told, and which comes first is left to chance.
    let is_refused = |answer: &Value| {
        answer["failure"]
            .as_str()
            .is_some_and(|text| text.starts_with("coerce: ") && text.contains("Invalid value"))
    };
    if is_refused(&ours) && is_refused(&theirs) {
        return None;
    }
    (ours != theirs).then(|| {
        let parts = ["failure", "errors", "unknown", "object", "matches", "document"];
        let differing: Vec<_> = parts
            .iter()
            .filter(|part| ours[**part] != theirs[**part])
            .map(|part| {
                let (ours, theirs) = (&ours[*part], &theirs[*part]);
                format!(
                    "  {part}\n    ours   {}\n    theirs {}",
                    without(ours, theirs),
                    without(theirs, ours)
                )
            })
            .collect();
        let empty = Vec::new();
        let values = question["values"].as_array().unwrap_or(&empty).iter().enumerate();
        let odd: Vec<_> =
            values.filter(|(index, _)| ours["matches"][index] != theirs["matches"][index]).collect();
        if !odd.is_empty() {
            return format!("{} {odd:?}", question["format"]);
        }
        format!("{question}\n{}", differing.join("\n"))
    })
}

/// Of a list, what another list lacks.
fn without(list: &Value, other: &Value) -> Value {
    let lacks = |item: &&Value| !other.as_array().is_some_and(|other| other.contains(item));
    list.as_array().map_or_else(|| list.clone(), |list| list.iter().filter(lacks).cloned().collect())
}

/// Without what Kubernetes leaves to chance: the order of maps, and so of errors.
fn normalize(answer: &Value) -> Value {
    let mut normal = Map::new();
    for (name, part) in answer.as_object().unwrap() {
        let part = match (name.as_str(), part) {
            ("errors", Value::Array(errors)) => {
                let mut errors: Vec<_> =
                    errors.iter().filter(|error| !is_estimate(error)).map(nameless).collect();
                errors.sort_by_key(Value::to_string);
                Value::Array(errors)
            }
            ("failure", Value::String(text))
                if !text.contains(':')
                    || text.starts_with("json: ")
                    || text.starts_with("invalid character") =>
            {
                json!("malformed")
            }
            ("document", value) => wordless(&numbers(value), value.get("openapi").is_some()),
            ("object", value) => numbers(value),
            (_, value) => value.clone(),
        };
        let is_empty = part.is_null() || part == json!([]) || part == json!("");
        if !is_empty {
            normal.insert(name.clone(), part);
        }
    }
    Value::Object(normal)
}

/// Whether a rule looked at something that is of a wrong type, and tolerated because it always was. Kubernetes has many
/// words for that, which depend on how the value was looked at.
fn has_misfit(answer: &Value) -> bool {
    let words = ["invalid data, ", "Invalid date", "Invalid duration", "Invalid byte"];
    let errors = answer["errors"].as_array().into_iter().flatten();
    errors.filter_map(|error| error["text"].as_str()).any(|text| words.iter().any(|word| text.contains(word)))
}

/// What rules might cost at most is not estimated by us.
fn is_estimate(error: &Value) -> bool {
    error["text"].as_str().unwrap().contains("stimated rule cost")
        || error["text"].as_str().unwrap().contains("estimated messageExpression cost")
}

/// Types of schemas have names that are different every time.
fn nameless(error: &Value) -> Value {
    let text = error["text"].as_str().unwrap();
    let mut parts = text.split("selfType");
    let mut nameless = parts.next().unwrap().to_owned();
    for part in parts {
        nameless.push_str("selfType");
        nameless.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    let mut error = error.clone();
    error["text"] = json!(nameless);
    error
}

/// Without explanations, which are upstream's own words. In the older documents parameters are shared, and have names
/// that are made of those words.
fn wordless(document: &Value, has_parameters: bool) -> Value {
    match document {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, value)| {
                let is_words = *name == "description" && value.is_string();
                let is_list_of_groups = *name == "x-kubernetes-group-version-kind"
                    && value
                        .as_array()
                        .is_some_and(|list| list.iter().any(|kind| kind["kind"] == "DeleteOptions"));
                let is_shared = *name == "parameters" && !has_parameters;
                !is_words && !is_list_of_groups && !is_shared
            })
            .map(|(name, value)| (name.clone(), wordless(value, has_parameters)))
            .collect(),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| wordless(item, has_parameters)).collect())
        }
        other => other.clone(),
    }
}

/// Integral floats are written by Go as integers.
fn numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            let float = number.as_f64().unwrap();
            #[expect(clippy::cast_possible_truncation, reason = "it is integral and small")]
            if float.fract() == 0.0 && float.abs() < 1e15 { json!(float as i64) } else { json!(float) }
        }
        Value::Array(items) => Value::Array(items.iter().map(numbers).collect()),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), numbers(value))).collect(),
        other => other.clone(),
    }
}

pub(crate) fn answer(question: &Value) -> Value {
    match question["op"].as_str().unwrap() {
        "object" => object(question),
        "crd" => definition(question),
        "openapi" => openapi(question),
        "text" => text(question),
        "format" => format(question),
        other => panic!("unknown operation {other}"),
    }
}

pub(crate) fn faults(errors: &[Error]) -> Value {
    let fault = |error: &Error| json!({"reason": error.kind.reason(), "field": error.field, "text": error.to_string()});
    Value::Array(errors.iter().map(fault).collect())
}

fn decode(json: &Value) -> (Value, Definition) {
    let mut json = json.as_object().unwrap().clone();
    crd::default(&mut json);
    let definition = Definition::decode(&json).unwrap();
    (Value::Object(json), definition)
}

fn definition(question: &Value) -> Value {
    let (defaulted, new) = decode(&question["crd"]);
    let errors = match question.get("oldCrd") {
        None => crd::validate(&new),
        Some(old) => crd::validate_update(&new, &decode(old).1),
    };
    let defaulted = json!({
        "names": defaulted["spec"]["names"], "conversion": defaulted["spec"]["conversion"],
        "storedVersions": defaulted["status"]["storedVersions"],
    });
    json!({"errors": faults(&errors), "object": defaulted})
}

fn openapi(question: &Value) -> Value {
    let definition = decode(&question["crd"]).1;
    let version = question["version"].as_str().unwrap();
    let document = if question["v2"] == json!(true) {
        openapi::version_2(&definition, version)
    } else {
        openapi::version_3(&definition, version)
    };
    if let Some(document) = document {
        return json!({"document": document});
    }
    let name = question["crd"]["metadata"]["name"].as_str().unwrap();
    json!({"failure": format!("version {version} not found in apiextensionsv1.CustomResourceDefinition: {name}")})
}

fn text(question: &Value) -> Value {
    match strict_json::read(question["text"].as_str().unwrap()) {
        Err(_) => json!({"failure": "malformed"}),
        Ok((value, _)) if !value.is_object() && !value.is_null() => json!({"failure": "malformed"}),
        Ok((value, duplicates)) => {
            let complaints: Vec<_> =
                duplicates.iter().map(|path| strict_json::duplicate_field(path)).collect();
            json!({"object": value, "unknown": complaints})
        }
    }
}

/// Whether texts have a format is asked of a schema.
fn format(question: &Value) -> Value {
    let props = Props::decode(&json!({"type": "string", "format": question["format"]})).unwrap();
    let schema = Schema::compile(&props);
    let has_format = |value: &Value| schema.validate(value, &Path::NIL).is_empty();
    let matches: Vec<_> = question["values"].as_array().unwrap().iter().map(has_format).collect();
    json!({"matches": matches})
}

fn object(question: &Value) -> Value {
    let props = Props::decode(&question["schema"]).unwrap();
    let mut object = question["object"].as_object().unwrap().clone();
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let version = text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = CustomResource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: text("kind"),
        is_namespaced: question["namespaced"] == json!(true),
        preserves_unknown_fields: false,
        scale: None,
        schema: Schema::compile(&props),
    };
    let coercion = if question["drop"] == json!(true) { Coercion::Dropping } else { Coercion::Strict };
    let unknown = match resource.admit(&mut object, coercion) {
        Ok(unknown) => unknown,
        Err(error) => return json!({"failure": format!("coerce: {error}")}),
    };
    let object = Value::Object(object);
    let errors = match question.get("old") {
        None => resource.validate(&object),
        Some(old) => resource.validate_update(&object, old),
    };
    json!({"errors": faults(&errors), "unknown": unknown, "object": object})
}
