//! What we answer, and how that differs from what the original answered.

use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::meta;
use ferroplane_schema::structural::crd::{self, Definition};
use ferroplane_schema::structural::{
    Coercion, CustomResource, Props, RuleCost, Schema, openapi, prepare_create, prepare_status_update,
    prepare_update, strict_json,
};
use serde_json::{Map, Value, json};

/// What is different, if anything.
pub(crate) fn difference(question: &Value, theirs: &Value) -> Option<String> {
    if theirs["failure"].as_str().is_some_and(|failure| failure.starts_with("panic: ")) {
        // There is nothing to be learnt from a server that fell over.
        return None;
    }
    if has_misfit(theirs) || has_bad_key(theirs) {
        return None;
    }
    let ours = normalize(&answer(question));
    let mut theirs = normalize(theirs);
    if question["op"] == "crd" && theirs["object"].is_object() {
        let whole = &theirs["object"];
        theirs["object"] = json!({
            "names": whole["spec"]["names"], "conversion": conversion(&whole["spec"]["conversion"]),
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
        let parts = ["failure", "errors", "unknown", "warnings", "object", "matches", "document", "costs"];
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

/// How versions are converted, without the certificates, which may be written in several ways.
fn conversion(conversion: &Value) -> Value {
    let mut conversion = conversion.clone();
    if let Some(client) = conversion.pointer_mut("/webhook/clientConfig").and_then(Value::as_object_mut) {
        client.remove("caBundle");
    }
    conversion
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
                let mut errors: Vec<_> = errors.iter().map(nameless).map(|error| placeless(&error)).collect();
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
            // A rule that is wrong has no cost.
            ("costs", Value::Array(costs)) => {
                costs.iter().filter(|cost| cost["rule"] != json!(0)).cloned().collect()
            }
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
/// words for that, which depend on how the value was checked.
fn has_misfit(answer: &Value) -> bool {
    let words = ["invalid data, ", "Invalid date", "Invalid duration", "Invalid byte"];
    let errors = answer["errors"].as_array().into_iter().flatten();
    errors.filter_map(|error| error["text"].as_str()).any(|text| words.iter().any(|word| text.contains(word)))
}

/// Whether a certificate is refused for what is in its key or its extensions, which we do not check.
fn has_bad_key(answer: &Value) -> bool {
    let outline = [
        "x509: malformed ",
        "x509: invalid RDNSequence",
        "x509: invalid version",
        "x509: inner",
        "x509: trailing",
    ];
    let outline =
        |text: &str| outline.iter().any(|word| text.contains(word)) || text.contains("x509: negative");
    let errors = answer["errors"].as_array().into_iter().flatten();
    let mut texts = errors.filter_map(|error| error["text"].as_str());
    texts.any(|text| {
        text.contains("failed to parse certificate") && !outline(text) && !text.contains("unsupported time")
    })
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

/// Of several rules that cost the same, it is left to chance which ones are named as the most expensive.
fn placeless(error: &Value) -> Value {
    let is_one_of_many = error["text"].as_str().unwrap().contains("contributed to estimated rule cost");
    if is_one_of_many { json!({"text": "one of the most expensive"}) } else { error.clone() }
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
        "cost" => cost(question),
        other => panic!("unknown operation {other}"),
    }
}

pub(crate) fn faults(errors: &[Error]) -> Value {
    let fault = |error: &Error| json!({"reason": error.kind.reason(), "field": error.field, "text": error.to_string()});
    Value::Array(errors.iter().map(fault).collect())
}

fn decode(json: &Value) -> Result<(Value, Definition), Value> {
    let mut json = json.as_object().unwrap().clone();
    crd::default(&mut json);
    match Definition::decode(&json) {
        Ok(definition) => Ok((Value::Object(json), definition)),
        Err(problem) => Err(json!({"failure": format!("decode: {problem}")})),
    }
}

fn definition(question: &Value) -> Value {
    let (defaulted, new) = match decode(&question["crd"]) {
        Ok(decoded) => decoded,
        Err(failure) => return failure,
    };
    let errors = match question.get("oldCrd") {
        None => crd::validate(&new),
        Some(old) => crd::validate_update(&new, &decode(old).unwrap().1),
    };
    let defaulted = json!({
        "names": defaulted["spec"]["names"], "conversion": conversion(&defaulted["spec"]["conversion"]),
        "storedVersions": defaulted["status"]["storedVersions"],
    });
    json!({"errors": faults(&errors), "object": defaulted})
}

fn openapi(question: &Value) -> Value {
    let definition = decode(&question["crd"]).unwrap().1;
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

fn cost(question: &Value) -> Value {
    let props = Props::decode(&question["schema"]).unwrap();
    let cost = |cost: &RuleCost| json!({"rule": cost.rule, "message": cost.message, "times": cost.times});
    json!({"costs": props.rule_costs(true).iter().map(cost).collect::<Vec<_>>()})
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
    if let Some(part) = question["part"].as_str() {
        return write(&resource, object, question, part == "status", &unknown);
    }
    let object = Value::Object(object);
    let errors = match question.get("old") {
        None => resource.validate(&object),
        Some(old) => resource.validate_update(&object, old),
    };
    json!({"errors": faults(&errors), "unknown": unknown, "object": object})
}

/// Writes an object, or only its status.
fn write(
    resource: &CustomResource,
    mut object: Map<String, Value>,
    question: &Value,
    is_status: bool,
    unknown: &[String],
) -> Value {
    let Some(old) = question["old"].as_object() else {
        prepare_create(&mut object, true);
        let warnings = warnings(&object, None);
        let object = Value::Object(object);
        let errors = faults(&resource.validate(&object));
        return json!({"errors": errors, "unknown": unknown, "object": object, "warnings": warnings});
    };
    let warnings = if is_status { Vec::new() } else { warnings(&object, Some(old)) };
    if is_status {
        prepare_status_update(&mut object, old);
    } else {
        prepare_update(&mut object, old, true);
    }
    let object = Value::Object(object);
    let errors = if is_status {
        resource.validate_status_update(&object, &question["old"])
    } else {
        resource.validate_update(&object, &question["old"])
    };
    json!({"errors": faults(&errors), "unknown": unknown, "object": object, "warnings": warnings})
}

fn warnings(object: &Map<String, Value>, old: Option<&Map<String, Value>>) -> Vec<String> {
    let metadata = |object: &Map<String, Value>| object.get("metadata").and_then(Value::as_object).cloned();
    let old = old.and_then(metadata);
    meta::finalizer_warnings(&metadata(object).unwrap_or_default(), old.as_ref())
}
