//! JSON to `Struct` and back, against the generic encoder.

use std::time::Duration;

use ferroplane_wire::Struct;
use prost::Message as _;
use serde_json::{Map, Value, json};

use crate::measure::{Times, pretty, ratio};
use crate::objects::{composed, object};

pub(crate) fn run() {
    let items: Vec<_> = (0..16).map(composed).collect();
    let object = object(json!({ "items": items }));
    let text = Value::Object(object.clone()).to_string();
    let wire = Struct::try_from(object.clone()).expect("it is not deep").encode_to_vec();
    println!("object of {} bytes of JSON, {} bytes on the wire\n", text.len(), wire.len());
    println!("| what | best | p50 | against prost-types |\n|---|---|---|---|");

    let budget = Duration::from_secs(1);
    let encode =
        Times::of(budget, || Struct::try_from(object.clone()).expect("it is not deep").encode_to_vec());
    let clone = Times::of(budget, || object.clone());
    let generic = Times::of(budget, || to_prost_struct(&object).encode_to_vec());
    // The clone stands for nothing that a real encoding does.
    let net = encode.best().saturating_sub(clone.best());
    println!("| encode (prost-types) | {} | {} | 1 |", pretty(generic.best()), pretty(generic.p50()));
    println!(
        "| encode | {} | {} | {} |",
        pretty(net),
        pretty(encode.p50().saturating_sub(clone.p50())),
        ratio(net, generic.best())
    );

    let decode = Times::of(budget, || {
        Struct::decode(wire.as_slice()).expect("it decodes").into_json().expect("it is JSON")
    });
    let generic = Times::of(budget, || prost_types::Struct::decode(wire.as_slice()).expect("it decodes"));
    println!(
        "| decode (prost-types, no JSON) | {} | {} | 1 |",
        pretty(generic.best()),
        pretty(generic.p50())
    );
    println!(
        "| decode to JSON | {} | {} | {} |",
        pretty(decode.best()),
        pretty(decode.p50()),
        ratio(decode.best(), generic.best())
    );
}

fn to_prost(value: &Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(truth) => Kind::BoolValue(*truth),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => {
            Kind::ListValue(prost_types::ListValue { values: items.iter().map(to_prost).collect() })
        }
        Value::Object(object) => Kind::StructValue(to_prost_struct(object)),
    };
    prost_types::Value { kind: Some(kind) }
}

fn to_prost_struct(object: &Map<String, Value>) -> prost_types::Struct {
    prost_types::Struct { fields: object.iter().map(|(key, value)| (key.clone(), to_prost(value))).collect() }
}
