//! A YAML value that knows its line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A YAML value that knows its line.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) line: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Leaf(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
struct Entry {
    key: String,
    line: u64,
    value: Node,
}

impl Node {
    /// The value without its lines.
    pub(crate) fn to_json(&self) -> Value {
        match &self.content {
            Content::Leaf(value) => value.clone(),
            Content::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Content::Map(entries) => {
                let entries = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// The items of an object of kind `List`, as kubectl prints several objects; or the object itself.
    pub(crate) fn unwrap_list(self) -> Vec<Self> {
        let Content::Map(entries) = self.content else { return vec![self] };
        let is_list = entries.iter().any(|entry| {
            entry.key == "kind" && matches!(&entry.value.content, Content::Leaf(kind) if kind == "List")
        });
        if !is_list {
            return vec![Self { line: self.line, content: Content::Map(entries) }];
        }
        let items = entries.into_iter().find(|entry| entry.key == "items").map(|entry| entry.value.content);
        if let Some(Content::List(items)) = items { items } else { Vec::new() }
    }

    /// The line of what stands at this path, or of the nearest thing around it that exists.
    pub(crate) fn line_of(&self, path: &[&str]) -> u64 {
        let (mut node, mut line) = (self, self.line);
        for part in path {
            (line, node) = match &node.content {
                Content::List(items) => match part.parse::<usize>().ok().and_then(|index| items.get(index)) {
                    Some(item) => (item.line, item),
                    None => break,
                },
                Content::Map(entries) => match entries.iter().find(|entry| entry.key == *part) {
                    Some(entry) => (entry.line, &entry.value),
                    None => break,
                },
                Content::Leaf(_) => break,
            };
        }
        line
    }
}

/// What to call a value in a message.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl From<Spanned<Content>> for Node {
    fn from(spanned: Spanned<Content>) -> Self {
        Self { line: spanned.referenced.line(), content: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Spanned::<Content>::deserialize(deserializer)?.into())
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyContent)
    }
}

struct AnyContent;

impl<'de> Visitor<'de> for AnyContent {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Content, E> {
        Ok(Content::Leaf(truth.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Content, E> {
        Ok(Content::Leaf(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Content, E> {
        Ok(Content::Leaf(number.into()))
    }

    /// Go writes and reads `1.0` as `1`; typed fields of Kubernetes objects insist on it.
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Content, E> {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        if number.fract() == 0.0 && number.abs() < 9.0e15 {
            return self.visit_i64(number as i64);
        }
        match Number::from_f64(number) {
            Some(number) => Ok(Content::Leaf(Value::Number(number))),
            None => Err(E::custom("a number must be finite")),
        }
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Leaf(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Leaf(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = access.next_entry::<Spanned<String>, Node>()? {
            entries.push(Entry { line: key.referenced.line(), key: key.value, value });
        }
        Ok(Content::Map(entries))
    }
}
