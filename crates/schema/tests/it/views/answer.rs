//! Our answers, and when they agree with the original's.

use std::cmp::Ordering;

use ferroplane_cel::quantity::{self, Quantity};
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::jsonpath::JsonPath;
use ferroplane_schema::meta::{self, NameRule};
use ferroplane_schema::patch::facts::{Facts, PatchField, PatchShape, Strategy};
use ferroplane_schema::patch::{json, merge, strategic};
use ferroplane_schema::selector::{self, FieldSelector, LabelSelector};
use ferroplane_schema::status::{Resource, Status};
use ferroplane_schema::table::{self, Instant, Options, Printer};
use ferroplane_schema::{field, names};
use serde_json::{Map, Value, json};

type Outcome = Result<Value, String>;

pub(crate) fn answer(question: &Value, facts: &Value) -> Value {
    let outcome = match text(question, "op") {
        "json-patch" => json_patch(question),
        "merge-patch" => merge_patch(question),
        "strategic" => strategic_patch(question, facts),
        "label" => {
            LabelSelector::parse(text(question, "selector")).map(|selector| select(&selector, question))
        }
        "label-object" => {
            LabelSelector::from_object(&question["selector"]).map(|selector| select(&selector, question))
        }
        "list-selector" => {
            let spec = Path::new("spec");
            Ok(show_errors(&selector::validate(&question["selector"], &spec.child("selector"))))
        }
        "field" => fields(question),
        "quantity" => quantity_of(text(question, "text")),
        "quantity-pair" => pair(question),
        "meta" => Ok(metadata(question)),
        "name" => Ok(name(question)),
        "path" => path(question),
        "table" => table_of(question),
        "duration" => Ok(json!(table::human_duration(question["nanoseconds"].as_i64().unwrap()))),
        "status" => Ok(status(question).to_json()),
        other => unreachable!("{other} is no question"),
    };
    match outcome {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error }),
    }
}

/// Whether our answer is as good as the original's.
pub(crate) fn agrees(question: &Value, ours: &Value, theirs: &Value) -> bool {
    // Where the original breaks down, there is nothing to agree with.
    if theirs.get("panic").is_some() {
        return true;
    }
    match text(question, "op") {
        // Of two shortest texts for a number, ours and theirs may be different ones.
        "quantity" | "quantity-pair" => {
            has_too_many_digits(theirs) || has_no_suffix(ours) || *ours == with_bits(theirs)
        }
        // The fields of an object have no order there.
        "path" if ["..", "*"].iter().any(|step| text(question, "path").contains(step)) => {
            shuffled(ours) == shuffled(theirs)
        }
        // The original describes columns in its own words.
        "table" => without_descriptions(ours) == without_descriptions(theirs),
        // Labels and annotations have no order there.
        "meta" | "list-selector" => sorted(ours) == sorted(theirs),
        _ => ours == theirs,
    }
}

/// We keep 38 digits.
fn has_too_many_digits(answer: &Value) -> bool {
    let texts = ["/ok", "/ok/sum", "/ok/difference"]
        .iter()
        .filter_map(|place| answer.pointer(place)?["text"].as_str());
    texts.map(|text| text.bytes().filter(u8::is_ascii_digit).count()).any(|digits| digits > 38)
}

/// The original writes amounts that no suffix is large enough for without any, a million times too small.
fn has_no_suffix(ours: &Value) -> bool {
    let texts = ["/ok", "/ok/sum", "/ok/difference"]
        .iter()
        .filter_map(|place| ours.pointer(place)?["canonical"].as_str());
    texts.into_iter().any(|text| text.ends_with("000E"))
}

/// Numbers as their bits.
fn with_bits(answer: &Value) -> Value {
    let mut answer = answer.clone();
    for place in ["/ok", "/ok/sum", "/ok/difference"] {
        if let Some(float) = answer.pointer_mut(&format!("{place}/float")) {
            *float = float.as_str().unwrap().parse::<f64>().unwrap().to_bits().into();
        }
    }
    answer
}

/// All results, sorted.
fn shuffled(answer: &Value) -> Vec<String> {
    let Some(parts) = answer["ok"].as_array() else { return vec![answer.to_string()] };
    let results = parts.iter().filter_map(Value::as_array).flatten();
    let mut results: Vec<_> = results.map(ToString::to_string).collect();
    results.sort();
    results
}

fn sorted(answer: &Value) -> Vec<String> {
    let mut texts: Vec<_> = match answer["ok"].as_array() {
        Some(errors) => errors.iter().map(ToString::to_string).collect(),
        None => vec![answer.to_string()],
    };
    texts.sort();
    texts
}

fn without_descriptions(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(name) = answer.pointer_mut("/ok/columnDefinitions/0") {
        name["description"] = json!("");
    }
    answer
}

fn text<'q>(question: &'q Value, name: &str) -> &'q str {
    question[name].as_str().unwrap_or_default()
}

fn object(question: &Value, name: &str) -> Map<String, Value> {
    question[name].as_object().cloned().unwrap_or_default()
}

fn json_patch(question: &Value) -> Outcome {
    let patch = serde_json::from_str(text(question, "patch")).unwrap();
    let patch = json::Patch::decode(patch).map_err(|error| format!("decode: {error}"))?;
    patch.apply(question["document"].clone()).map_err(|error| error.to_string())
}

fn merge_patch(question: &Value) -> Outcome {
    let mut document = object(question, "document");
    let patch = serde_json::from_str(text(question, "patch")).unwrap();
    merge::apply(&mut document, patch).map_err(|error| error.to_string())?;
    Ok(document.into())
}

fn strategic_patch(question: &Value, facts: &Value) -> Outcome {
    let kind = text(question, "kind");
    let facts = facts.as_array().unwrap().iter().find(|facts| facts["root"] == kind).unwrap();
    let facts = read_facts(facts);
    let mut document = object(question, "document");
    let outcome = strategic::apply(&mut document, object(question, "patch"), facts.kind(kind).unwrap());
    outcome.map(|()| document.into()).map_err(|error| error.to_string())
}

fn read_facts(facts: &Value) -> Facts {
    let mut read = Facts::default();
    for (type_name, fields) in facts["types"].as_object().unwrap() {
        for (name, fact) in fields.as_object().unwrap() {
            let strategy = text(fact, "strategy").split(',').find_map(|strategy| match strategy {
                "merge" => Some(Strategy::Merge),
                "replace" => Some(Strategy::Replace),
                _ => None,
            });
            let field = PatchField::new(shape(&fact["shape"]))
                .with_strategy(strategy.unwrap_or_default())
                .with_merge_key(text(fact, "key"));
            read.add(type_name, name, field);
        }
    }
    read
}

fn shape(shape: &Value) -> PatchShape {
    match shape {
        Value::Array(item) => PatchShape::list(self::shape(&item[0])),
        shape => match shape.as_str().unwrap().strip_prefix('=') {
            Some(kind) => PatchShape::other(kind),
            None => PatchShape::object(shape.as_str().unwrap()),
        },
    }
}

fn select(selector: &LabelSelector, question: &Value) -> Value {
    let sets = question["sets"].as_array().unwrap().iter();
    let matches: Vec<_> =
        sets.map(|set| selector.matches(|key| set.get(key).and_then(Value::as_str))).collect();
    json!({"text": selector.to_string(), "matches": matches, "empty": selector.is_empty()})
}

fn fields(question: &Value) -> Outcome {
    let selector = FieldSelector::parse(text(question, "selector"))?;
    let sets = question["sets"].as_array().unwrap().iter();
    let matches: Vec<_> =
        sets.map(|set| selector.matches(|key| set.get(key).and_then(Value::as_str))).collect();
    Ok(json!({"text": selector.to_string(), "matches": matches, "empty": selector.is_empty()}))
}

fn quantity_of(text: &str) -> Outcome {
    let quantity = Quantity::parse(text).map_err(|error| error.to_string())?;
    let mut shown = show_quantity(quantity);
    shown["text"] = json!(quantity::canonical(text).unwrap());
    Ok(shown)
}

fn show_quantity(quantity: Quantity) -> Value {
    let mut shown = json!({
        "text": quantity.to_string(),
        "canonical": quantity.to_string(),
        "sign": quantity.sign(),
        "float": quantity.as_float().to_bits(),
    });
    if let Some(integer) = quantity.as_integer() {
        shown["integer"] = json!(integer);
    }
    shown
}

fn pair(question: &Value) -> Outcome {
    let parse = |name| Quantity::parse(text(question, name)).map_err(|error| error.to_string());
    let (one, other) = (parse("one")?, parse("other")?);
    let compare = match one.cmp(&other) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    };
    let (sum, difference) = (show_quantity(one.plus(other)), show_quantity(one.minus(other)));
    Ok(json!({"compare": compare, "sum": sum, "difference": difference}))
}

fn show_errors(errors: &[Error]) -> Value {
    let show =
        |error: &Error| json!({"type": error.kind.reason(), "field": error.field, "text": error.to_string()});
    errors.iter().map(show).collect()
}

fn rule(question: &Value) -> NameRule {
    match text(question, "rule") {
        "subdomain" => NameRule::Subdomain,
        "label" => NameRule::Label,
        "1035" => NameRule::OldLabel,
        _ => NameRule::PathSegment,
    }
}

fn metadata(question: &Value) -> Value {
    let (new, path) = (object(question, "meta"), Path::new("metadata"));
    let mut errors = meta::validate(&new, question["namespaced"] == true, rule(question), &path);
    if let Some(old) = question["old"].as_object() {
        errors.extend(meta::validate_update(&new, old, &path));
    }
    show_errors(&errors)
}

fn name(question: &Value) -> Value {
    let name = text(question, "name");
    json!(match text(question, "rule") {
        "qualified" => names::qualified(name),
        "value" => names::label_value(name),
        _ => rule(question).problems(name, question["prefix"] == true),
    })
}

fn path(question: &Value) -> Outcome {
    let path = JsonPath::parse(text(question, "path")).map_err(|error| format!("parse: {error}"))?;
    let object = &question["object"];
    let found = if question["strict"] == true { path.find_strictly(object) } else { path.find(object) }?;
    let show = |found: &Vec<_>| found.iter().map(ToString::to_string).collect::<Vec<_>>();
    Ok(json!(found.iter().map(show).collect::<Vec<_>>()))
}

fn table_of(question: &Value) -> Outcome {
    let columns = question["columns"].as_array().unwrap();
    let columns = columns.iter().map(table::Column::read).collect::<Result<_, _>>()?;
    let now = Instant { seconds: 0, nanoseconds: 0 };
    let options = Options { include: table::Include::None, has_headers: true };
    let metadata = json!({"resourceVersion": "7"});
    Ok(Printer::new(columns).table(question["objects"].as_array().unwrap(), &metadata, options, now))
}

fn status(question: &Value) -> Status {
    let resource = Resource::new(text(question, "group"), text(question, "resource"));
    let kind = Resource::new(text(question, "group"), text(question, "kind"));
    let (name, message) = (text(question, "name"), text(question, "message"));
    match text(question, "which") {
        "not-found" => Status::not_found(&resource, name),
        "already-exists" => Status::already_exists(&resource, name),
        "generate-name" => Status::generated_name_exists(&resource, name, 1),
        "unauthorized" => Status::unauthorized(message),
        "forbidden" => Status::forbidden(&resource, name, message),
        "conflict" => Status::conflict(&resource, name, message),
        "gone" => Status::gone(message),
        "expired" => Status::expired(message),
        "bad-request" => Status::bad_request(message),
        "too-many" => Status::too_many_requests(message, 1),
        "unavailable" => Status::unavailable(message),
        "method" => Status::method_not_supported(&resource, message),
        "server-timeout" => Status::server_timeout(&resource, message, 2),
        "internal" => Status::internal(message),
        "timeout" => Status::timeout(message, 1),
        "too-large" => Status::request_too_large(message),
        "generic" => {
            let code = u16::try_from(question["code"].as_u64().unwrap()).unwrap();
            Status::generic(code, "PATCH", &resource, name, message)
        }
        _ => Status::invalid(&kind, name, &invalid(name, message, &question["count"])),
    }
}

fn invalid(name: &str, message: &str, count: &Value) -> Vec<Error> {
    let spec = Path::new("spec");
    let path = spec.child("a");
    let mut errors = vec![
        Error::invalid(&path, message, "is wrong"),
        Error::required(&path.index(1), message),
        Error::not_supported(&path.key("k"), name, ["a", "b"]),
        Error::duplicate(&path, 3),
        Error::forbidden(&path, ""),
        Error::too_long(&path, 5),
        Error::too_many(&path, 7, 5),
        Error::invalid(&path, message, "is wrong"),
        Error::new(field::ErrorKind::TypeInvalid, &path, 1.5, "must be"),
    ];
    errors.truncate(usize::try_from(count.as_u64().unwrap()).unwrap());
    errors
}
