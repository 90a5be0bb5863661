//! `toYaml` and `fromYaml`: values of templates as YAML, and back.
//!
//! Follows function-go-templating v0.12.2, `function_maps.go` (all releases are the same), and gopkg.in/yaml.v3 3.0.1, `encode.go`
//! (`marshal`), `decode.go` (`mapping`), with the types of Go that values of templates can have.

use std::collections::BTreeMap;

use ferroplane_golang::yaml::{self, Library, Node};
use ferroplane_template::{AnyMap, Context, Failure, Object, Text, Type, Value, sprig};

use super::condition;

/// Values may be nested so deeply. One that contains itself has no end.
const DEPTH: usize = 200;
/// The library indents each level so far.
const INDENT: usize = 4;

/// A node takes so many bytes at most while it is read: in a collection that grows, and as a key that is looked up.
const NODE: usize = 256;

/// How many bytes the nodes of a text can take while they are read. It is known before the text is read, because there is one of these
/// signs before or behind every node.
pub(super) fn size_of_nodes(text: &str) -> usize {
    let is_sign = |byte: &u8| matches!(byte, b'\n' | b',' | b':' | b'-' | b'?' | b'[' | b'{');
    (text.bytes().filter(is_sign).count() + 1).saturating_mul(NODE)
}

/// What `toYaml` prints.
pub(super) fn write(context: &mut Context<'_>, value: &Value) -> Result<String, Failure> {
    let text = yaml::write_node(&node(context, value, DEPTH)?);
    context.charge(text.len())?;
    Ok(text)
}

/// What `fromYaml` reads.
pub(super) fn read(context: &mut Context<'_>, text: &Text) -> Result<Value, Failure> {
    context.charge(text.len())?;
    let Some(text) = text.as_str() else {
        return Err(Failure::new("yaml: invalid leading UTF-8 octet"));
    };
    // The nodes are dropped again, and the values of them count by themselves: they have to fit, and are not charged.
    let nodes = size_of_nodes(text);
    if nodes > context.remaining_memory() {
        context.charge(nodes)?;
    }
    let node = yaml::read(text, Library::V3).map_err(|error| Failure::new(error.to_string()))?;
    value(context, node)
}

/// The value as the library sees it. Costs what it makes.
fn node(context: &mut Context<'_>, value: &Value, depth: usize) -> Result<Node, Failure> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Failure::new("the value is nested too deeply"));
    };
    context.step(1)?;
    // The line of it is indented by its depth.
    context.charge(size_of::<Node>() + INDENT * (DEPTH - depth))?;
    Ok(match value {
        Value::Nil => Node::Null,
        Value::Bool(is_true) => Node::Bool(*is_true),
        Value::Int(integer) | Value::Int64(integer) => Node::Int(*integer),
        Value::Uint8(integer) => Node::Uint((*integer).into()),
        Value::Uint64(integer) => Node::Uint(*integer),
        Value::Float(float) => Node::Float(*float),
        Value::String(text) => charged(context, text)?,
        Value::Bytes(bytes) => {
            context.charge(bytes.len().saturating_mul(size_of::<Node>()))?;
            Node::List(bytes.iter().map(|byte| Node::Uint((*byte).into())).collect())
        }
        Value::List(items) => {
            Node::List(items.iter().map(|item| node(context, item, depth)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let entries = context.entries_of(map)?.into_iter();
            let entries =
                entries.map(|(key, value)| Ok((charged(context, &key)?, node(context, &value, depth)?)));
            sorted(entries)?
        }
        Value::AnyMap(map) => {
            let entries = map.iter();
            sorted(
                entries.map(|(key, value)| Ok((node(context, key, depth)?, node(context, value, depth)?))),
            )?
        }
        Value::Object(object) => self::object(context, &**object, depth)?,
        Value::Complex(..) => return Err(Failure::new("cannot marshal type: complex128")),
    })
}

fn sorted(entries: impl Iterator<Item = Result<(Node, Node), Failure>>) -> Result<Node, Failure> {
    Ok(Node::Map(yaml::sorted(entries.collect::<Result<_, _>>()?)))
}

fn charged(context: &mut Context<'_>, text: &Text) -> Result<Node, Failure> {
    context.charge(text.len())?;
    Ok(text.as_str().map_or_else(|| Node::Bytes(text.to_vec()), |text| Node::String(text.to_owned())))
}

/// The library knows times and durations, asks what can write itself as text, and writes the fields of other structs.
fn object(context: &mut Context<'_>, object: &dyn Object, depth: usize) -> Result<Node, Failure> {
    if let Some(fields) = condition::yaml_fields(object) {
        return Ok(Node::Map(fields));
    }
    if let Some(time) = sprig::rfc3339(object) {
        let time = time.to_str().into_owned();
        return Ok(if object.type_of() == condition::TIME { Node::String(time) } else { Node::Time(time) });
    }
    match (object.type_of(), object.string()) {
        (Type::Integer(name), _) if name != DURATION => Ok(Node::Int(object.integer().unwrap_or_default())),
        // It prints as text, and does not write itself as text.
        (Type::Pointer(LOCATION), _) => Ok(Node::Map(Vec::new())),
        (_, Some(text)) => charged(context, &text),
        (_, None) => {
            let fields = object.fields().iter().map(|name| {
                let value = object.field(name).unwrap_or(Value::Nil);
                Ok((Node::String(name.to_lowercase()), node(context, &value, depth)?))
            });
            Ok(Node::Map(fields.collect::<Result<_, Failure>>()?))
        }
    }
}

const DURATION: &str = "time.Duration";
const LOCATION: &str = "time.Location";

fn value(context: &mut Context<'_>, node: Node) -> Result<Value, Failure> {
    context.step(1)?;
    Ok(match node {
        Node::Null => Value::Nil,
        Node::Bool(is_true) => Value::Bool(is_true),
        Node::Int(integer) => Value::Int(integer),
        Node::Uint(integer) => Value::Uint64(integer),
        Node::Float(float) => Value::Float(float),
        Node::String(text) => Value::text(text),
        Node::Bytes(bytes) => Value::text(bytes),
        Node::Time(text) => yaml::timestamp(&text).map_or_else(|| Value::text(text), sprig::parsed_time),
        Node::List(items) => {
            let items = items.into_iter().map(|item| value(context, item)).collect::<Result<_, _>>()?;
            context.list(items)?
        }
        Node::Map(entries) => map(context, entries)?,
    })
}

/// A map with keys that are all text is one of strings, and any other has keys of any type.
fn map(context: &mut Context<'_>, entries: Vec<(Node, Node)>) -> Result<Value, Failure> {
    if !entries.iter().all(|(key, _)| matches!(key, Node::String(_))) {
        let entries =
            entries.into_iter().map(|(key, item)| Ok((value(context, key)?, value(context, item)?)));
        return Ok(Value::AnyMap(AnyMap::new(entries.collect::<Result<_, Failure>>()?)));
    }
    let mut map = BTreeMap::new();
    for (key, item) in entries {
        if let Node::String(key) = key {
            map.insert(Text::from(key), value(context, item)?);
        }
    }
    context.map(map)
}
