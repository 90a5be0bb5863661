//! What is said of an expression, in the form that the peer uses, so that no two types look alike.

use base64::Engine as _;
use ferroplane_cel::{Environment, Limits, Type, Value};
use serde_json::{Value as Json, json};

#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Answer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) compile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    value: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
}

impl Answer {
    /// In what this differs from what the original said, unless it may.
    pub(crate) fn difference(&self, theirs: &Self) -> Option<String> {
        if self.is_like(theirs) {
            return None;
        }
        let show = |answer: &Self| serde_json::to_string(answer).unwrap();
        Some(format!("ours:   {}\n    theirs: {}", show(self), show(theirs)))
    }

    fn is_like(&self, theirs: &Self) -> bool {
        self.is_deliberately_unlike(theirs)
            || match (&self.compile, &theirs.compile) {
                (Some(ours), Some(theirs)) => is_like_text(ours, theirs),
                (None, None) => {
                    self.error == theirs.error && self.cost == theirs.cost && self.has_value_of(theirs)
                }
                _ => false,
            }
    }

    /// Maps have no order there, so neither have lists that are made of them.
    fn has_value_of(&self, theirs: &Self) -> bool {
        let in_order = |answer: &Self| {
            let mut elements: Vec<_> =
                answer.value.as_array().into_iter().flatten().map(Json::to_string).collect();
            elements.sort();
            elements
        };
        self.kind == theirs.kind
            && (self.value == theirs.value || in_order(self) == in_order(theirs) && self.value.is_array())
    }

    /// Where the original is wrong, or allows what the language does not.
    fn is_deliberately_unlike(&self, theirs: &Self) -> bool {
        let refusal = theirs.compile.as_deref().unwrap_or_default();
        let failure = theirs.error.as_deref().unwrap_or_default();
        // It breaks.
        let is_panic = failure.starts_with("panic:") || failure.starts_with("internal error:");
        // An optional element of a list within `format` is refused, though its value would be shown.
        let is_optional_in_format = refusal.contains("was given optional_type");
        // A name for a type is looked for among the types.
        let is_bound_type = refusal.contains("reference to undefined type");
        // Keys of maps may be anything.
        let is_odd_key = self.error.as_deref().is_some_and(|error| error.starts_with("unsupported key type"));
        is_panic || is_optional_in_format || is_bound_type || is_odd_key
    }
}

/// Syntax errors are the words of a parser generator: that there is one is enough. What macros copy is not
/// complained about twice.
fn is_like_text(ours: &str, theirs: &str) -> bool {
    let theirs = theirs.strip_prefix("program: ").unwrap_or(theirs);
    let separated = format!("\n{theirs}");
    let mut complaints: Vec<_> = separated.split("\nERROR: ").collect();
    complaints.dedup();
    format!("\n{ours}") == complaints.join("\nERROR: ")
        || ours.contains("Syntax error: ") && theirs.contains("Syntax error: ")
}

pub(crate) fn answer(expression: &str, variables: &Json) -> Answer {
    let mut environment = Environment::new().variable("self", Type::Dyn).variable("oldSelf", Type::Dyn);
    for name in variables.as_object().unwrap().keys().filter(|name| *name != "self" && *name != "oldSelf") {
        environment = environment.variable(name, Type::Dyn);
    }
    let program = match environment.compile(expression) {
        Ok(program) => program,
        Err(error) => return Answer { compile: Some(error.to_string()), ..Answer::default() },
    };
    let values =
        variables.as_object().unwrap().iter().map(|(name, json)| (name.as_str(), program.borrow(json)));
    let (outcome, cost) = program.evaluate_with(values, Limits::PER_CALL);
    match outcome {
        Ok(evaluated) => Answer {
            kind: Some(evaluated.value.type_name().to_owned()),
            value: show(&evaluated.value),
            cost: Some(cost),
            ..Answer::default()
        },
        Err(error) => Answer { error: Some(error.to_string()), cost: Some(cost), ..Answer::default() },
    }
}

fn show(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(number) => json!({"int": number.to_string()}),
        Value::Uint(number) => json!({"uint": number.to_string()}),
        Value::Double(number) if number.is_nan() => json!({"double": "NaN"}),
        Value::Double(number) => json!({"double": format!("{:x}", number.to_bits())}),
        Value::String(text) => json!(text.as_str()),
        Value::Bytes(bytes) => json!({"bytes": base64::engine::general_purpose::STANDARD.encode(bytes)}),
        Value::Timestamp(time) => {
            json!({"timestamp": format!("{}.{:09}", time.seconds(), time.nanoseconds())})
        }
        Value::Duration(nanoseconds) => json!({"duration": nanoseconds.to_string()}),
        Value::Type(name) => json!({"type": name}),
        Value::Optional(value) => {
            json!({"optional": value.iter().map(|value| show(value)).collect::<Vec<_>>()})
        }
        Value::List(list) => list.iter().map(|value| show(&value)).collect(),
        Value::Map(map) => {
            let mut pairs: Vec<_> =
                map.entries().iter().map(|(key, value)| json!([show(key), show(value)])).collect();
            pairs.sort_by_key(|pair| pair[0].to_string());
            json!({"map": pairs})
        }
        Value::Object(object) => json!({value.type_name(): object.to_string()}),
        _ => unreachable!("every kind of value is shown"),
    }
}
