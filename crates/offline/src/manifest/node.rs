//! A YAML value that knows its line.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use super::scalar::{self, ScalarStart};

/// A YAML value that knows its line.
#[derive(Debug)]
pub struct Node {
    pub(crate) line: u64,
    column: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Leaf(Value),
    List(Vec<Node>),
    Map(Vec<MappingEntry>),
}

#[derive(Debug)]
struct MappingEntry {
    key: String,
    line: u64,
    value: Node,
}

impl Node {
    /// The value without its lines.
    pub fn to_json(&self) -> Value {
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
            return vec![Self { line: self.line, column: self.column, content: Content::Map(entries) }];
        }
        let items = entries.into_iter().find(|entry| entry.key == "items").map(|entry| entry.value.content);
        // A list without items is no mistake: it holds nothing.
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

impl Node {
    /// The line of a field as Kubernetes names it, such as `spec.items[3][a.b].c`, or of the nearest thing around it
    /// that exists.
    pub(crate) fn line_at(&self, field: &str) -> u64 {
        let (mut node, mut line, mut rest) = (self, self.line, field);
        while let Some((next_line, next, after)) = node.step(rest) {
            (line, node, rest) = (next_line, next, after);
        }
        line
    }

    /// The line of the file that holds a line of the text at a field, from one.
    pub(crate) fn line_in(&self, file: &str, field: &str, line: usize) -> Option<u64> {
        let (key_line, node) = self.find(field)?;
        let Content::Leaf(Value::String(text)) = &node.content else { return None };
        let start = ScalarStart { key_line, line: node.line, column: node.column };
        scalar::line_in(file, start, text, line)
    }

    /// Whether there is a text at a field.
    pub(crate) fn is_text(&self, field: &str) -> bool {
        self.find(field).is_some_and(|(_, node)| matches!(node.content, Content::Leaf(Value::String(_))))
    }

    /// What stands at a field, and the line of its key.
    fn find(&self, field: &str) -> Option<(u64, &Self)> {
        let (mut node, mut key_line, mut rest) = (self, self.line, field);
        while let Some((next_line, next, after)) = node.step(rest) {
            (key_line, node, rest) = (next_line, next, after);
        }
        rest.is_empty().then_some((key_line, node))
    }

    /// What the first step of a path leads to, and what is left of the path.
    fn step<'n, 'p>(&'n self, path: &'p str) -> Option<(u64, &'n Self, &'p str)> {
        if path.is_empty() {
            return None;
        }
        let bracketed = path.strip_prefix('[').and_then(|path| path.split_once(']'));
        match &self.content {
            Content::List(items) => {
                let (index, rest) = bracketed?;
                let item = items.get(index.parse::<usize>().ok()?)?;
                Some((item.line, item, rest))
            }
            Content::Map(entries) => {
                let name = path.strip_prefix('.').unwrap_or(path);
                // Keys can have dots in them, so the longest one that fits is meant.
                let fits = |key: &str| {
                    if let Some((bracketed, rest)) = bracketed {
                        return (bracketed == key).then_some(rest);
                    }
                    let rest = name.strip_prefix(key)?;
                    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
                };
                let candidates = entries.iter().filter_map(|entry| Some((entry, fits(&entry.key)?)));
                let (entry, rest) = candidates.max_by_key(|(entry, _)| entry.key.len())?;
                Some((entry.line, &entry.value, rest))
            }
            Content::Leaf(_) => None,
        }
    }

    /// The keys that are there more than once, with their lines. Only documents that were read with duplicates have
    /// any.
    pub(crate) fn duplicates(&self) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        self.find_duplicates(&mut String::new(), &mut found);
        found
    }

    fn find_duplicates(&self, path: &mut String, found: &mut Vec<(String, u64)>) {
        let length = path.len();
        match &self.content {
            Content::Leaf(_) => {}
            Content::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    item.find_duplicates(path, found);
                    path.truncate(length);
                }
            }
            Content::Map(entries) => {
                let mut keys = HashSet::with_capacity(entries.len());
                for entry in entries {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(&entry.key);
                    if !keys.insert(entry.key.as_str()) && found.len() < MAX_DUPLICATES {
                        found.push((path.clone(), entry.line));
                    }
                    entry.value.find_duplicates(path, found);
                    path.truncate(length);
                }
            }
        }
    }
}

/// More duplicates than these are not told.
const MAX_DUPLICATES: usize = 100;

/// What to call a value in a message.
pub(crate) fn kind_of(value: &Value) -> &'static str {
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
        let start = spanned.referenced;
        Self { line: start.line(), column: start.column(), content: spanned.value }
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
        // Below 2^53, where every whole number has a double of its own.
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
            entries.push(MappingEntry { line: key.referenced.line(), key: key.value, value });
        }
        Ok(Content::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::manifest::yaml;

    const TEXT: &str = "metadata:\n  labels:\n    a.b/c.d: x\n    a: y\nspec:\n  items:\n  - name: a\n  - name: b\n    map:\n      k.l: 1\n";

    fn line(field: &str) -> u64 {
        yaml::parse(TEXT).unwrap()[0].line_at(field)
    }

    #[test]
    fn fields_are_found_as_kubernetes_names_them() {
        for (field, expected) in [
            ("", 1),
            ("<nil>", 1),
            ("metadata.labels.a.b/c.d", 3),
            ("metadata.labels[a.b/c.d]", 3),
            ("metadata.labels.a", 4),
            ("spec.items[1]", 8),
            ("spec.items[1].name", 8),
            ("spec.items[1].map[k.l]", 10),
            ("spec.items[1].missing.field", 8),
            ("spec.items[7].name", 6),
            ("spec.other", 5),
            ("other", 1),
        ] {
            assert_eq!(line(field), expected, "{field}");
        }
    }

    #[test]
    fn keys_that_are_there_twice_are_found_at_any_depth() {
        let text = "a: 1\nb:\n- c: 1\n  d: {e: 1, e: 2}\n  c: 2\na: 3\n";
        let found = yaml::parse_with_duplicates(text).unwrap()[0].duplicates();
        let expected = [("b[0].d.e", 4), ("b[0].c", 5), ("a", 6)];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    proptest! {
        #[test]
        fn any_field_has_a_line(field in "[a-z.\\[\\]/0-9]{0,40}") {
            prop_assert!((1..=10).contains(&line(&field)));
        }
    }
}
