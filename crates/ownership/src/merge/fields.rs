//! Sets of fields on the wire: the `FieldsV1` of managed fields.
//!
//! Follows structured-merge-diff 6.3.3, `fieldpath/serialize.go`, `fieldpath/serialize-pe.go`.

use std::borrow::Cow;

use ferroplane_cancellation::checkpoint;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::MAX_DEPTH;
use super::path::{Element, Scalar};
use super::set::{Set, SetNode};

/// Why a set of fields could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("key must be 2 characters long:")]
    Short,
    #[error("missing colon: {0}")]
    NoColon(String),
    #[error("cannot parse `{0}` as a path element")]
    Element(String),
    #[error("expected an object of fields")]
    NoObject,
    #[error("fields are nested too deeply")]
    TooDeep,
}

/// A set that was read.
#[derive(Debug)]
pub struct Read<'a> {
    pub set: Set<'a>,
    /// Whether [`write()`] would give back what was read.
    pub is_canonical: bool,
}

/// Reads a set from its wire form. Steps of an unknown kind are left out.
pub fn read(fields: &Value) -> Result<Read<'_>, Error> {
    let mut reader = Reader { is_canonical: true, scratch: String::new() };
    let (set, _) = reader.level(fields, 0)?;
    reader.is_canonical &= fields.is_object();
    Ok(Read { set, is_canonical: reader.is_canonical })
}

struct Reader {
    is_canonical: bool,
    scratch: String,
}

impl Reader {
    /// What lies below a step, and whether the step itself is a member.
    fn level<'a>(&mut self, fields: &'a Value, depth: usize) -> Result<(Set<'a>, bool), Error> {
        checkpoint();
        // Managed fields are sent by clients, too, and are read before anything else is checked.
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => {
                self.is_canonical = false;
                return Ok((Set::default(), true));
            }
            _ => return Err(Error::NoObject),
        };
        let mut nodes: Vec<SetNode<'a>> = Vec::with_capacity(fields.len());
        let mut is_member = false;
        let mut is_sorted = true;
        for (key, value) in fields {
            if key == "." {
                is_member = true;
                // The whole object has no owner, so that there is nothing to add at the top.
                self.is_canonical &= depth > 0 && value.as_object().is_some_and(Map::is_empty);
                continue;
            }
            let Some(element) = self.element(key)? else {
                self.is_canonical = false;
                continue;
            };
            let (below, is_member) = self.level(value, depth + 1)?;
            is_sorted &= nodes.last().is_none_or(|last| last.element.compare(&element).is_lt());
            nodes.push(SetNode { element, is_member, below });
        }
        if !is_sorted {
            self.sort(&mut nodes);
        }
        self.is_canonical &= !(nodes.is_empty() && is_member);
        // A step with nothing known below it is a member.
        let is_member = is_member || nodes.is_empty();
        Ok((Set { nodes }, is_member))
    }

    /// Different texts may name the same step.
    fn sort(&mut self, nodes: &mut Vec<SetNode<'_>>) {
        nodes.sort_by(|one, other| one.element.compare(&other.element));
        let before = nodes.len();
        nodes.dedup_by(|later, earlier| {
            if later.element != earlier.element {
                return false;
            }
            earlier.is_member |= later.is_member;
            if !later.below.is_empty() {
                // The later one wins, as in Go, where the second spelling overwrites the first in a map.
                earlier.below = std::mem::take(&mut later.below);
            }
            true
        });
        self.is_canonical &= nodes.len() == before;
    }

    fn element<'a>(&mut self, key: &'a str) -> Result<Option<Element<'a>>, Error> {
        let bytes = key.as_bytes();
        if bytes.len() < 2 {
            return Err(Error::Short);
        }
        if bytes[1] != b':' {
            return Err(Error::NoColon(key.to_owned()));
        }
        let fail = || Error::Element(key.to_owned());
        let rest = key.get(2..).ok_or_else(fail)?;
        let element = match bytes[0] {
            b'f' => return Ok(Some(Element::Field(Cow::Borrowed(rest)))),
            b'v' => Element::value(first_value(rest).ok_or_else(fail)?),
            b'k' => Element::key(keys(rest).ok_or_else(fail)?),
            b'i' => Element::Index(rest.parse().map_err(|_| fail())?),
            // A newer release may know more kinds of steps; upstream skips them for this reason.
            _ => return Ok(None),
        };
        self.scratch.clear();
        push_element(&mut self.scratch, &element);
        // `k:{"b":1,"a":2}` names the same item as the sorted form, but has to be written anew.
        self.is_canonical &= self.scratch == key;
        Ok(Some(element))
    }
}

/// Like upstream, ignores whatever follows the value.
fn first_value(text: &str) -> Option<Scalar<'_>> {
    serde_json::Deserializer::from_str(text).into_iter::<Scalar<'_>>().next()?.ok()
}

fn keys(text: &str) -> Option<Vec<(Cow<'_, str>, Scalar<'_>)>> {
    struct Keys;
    impl<'de> Visitor<'de> for Keys {
        type Value = Vec<(Cow<'de, str>, Scalar<'de>)>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("the keys of a list item")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut keys = Vec::with_capacity(1);
            while let Some((name, value)) = map.next_entry::<Scalar<'de>, Scalar<'de>>()? {
                if let Scalar::Text(name) = name {
                    keys.push((name, value));
                }
            }
            Ok(keys)
        }
    }
    serde_json::Deserializer::from_str(text).deserialize_map(Keys).ok()
}

pub(super) fn push_element(out: &mut String, element: &Element<'_>) {
    match element {
        Element::Field(name) => {
            out.push_str("f:");
            out.push_str(name);
        }
        Element::Key(keys) => {
            out.push_str("k:{");
            for (index, (name, value)) in keys.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                super::text::push_json_string(out, name, false);
                out.push(':');
                value.push_json(out);
            }
            out.push('}');
        }
        Element::Value(value) => {
            out.push_str("v:");
            value.push_json(out);
        }
        Element::Index(index) => {
            out.push_str("i:");
            out.push_str(&index.to_string());
        }
        Element::Unnamed => {}
    }
}

/// The wire form of a set.
pub fn write(set: &Set<'_>) -> Value {
    Value::Object(write_level(set, false))
}

pub(super) fn write_level(set: &Set<'_>, is_member: bool) -> Map<String, Value> {
    let mut fields = Map::new();
    if is_member && !set.is_empty() {
        fields.insert(".".to_owned(), Value::Object(Map::new()));
    }
    for node in &set.nodes {
        let mut key = String::new();
        push_element(&mut key, &node.element);
        fields.insert(key, Value::Object(write_level(&node.below, node.is_member)));
    }
    fields
}

/// The wire form of a set as text, in upstream's order, which is not that of the letters.
pub fn write_text(set: &Set<'_>) -> String {
    let mut out = String::new();
    push_level(&mut out, set, false);
    out
}

fn push_level(out: &mut String, set: &Set<'_>, is_member: bool) {
    checkpoint();
    out.push('{');
    let mut separator = "";
    if is_member && !set.is_empty() {
        out.push_str("\".\":{}");
        separator = ",";
    }
    let mut key = String::new();
    for node in &set.nodes {
        out.push_str(separator);
        separator = ",";
        key.clear();
        push_element(&mut key, &node.element);
        super::text::push_json_string(out, &key, false);
        out.push(':');
        push_level(out, &node.below, node.is_member);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let fields = json!({
            "f:spec": {".": {}, "f:ports": {"k:{\"port\":443,\"protocol\":\"tcp\"}": {".": {}, "f:port": {}}}},
            "f:tags": {"v:\"a\"": {}, "v:1": {}, "v:true": {}},
            "f:list": {"i:3": {}}
        });
        let read = read(&fields).unwrap();
        assert!(read.is_canonical);
        assert_eq!(write(&read.set), fields);
    }

    #[test]
    fn text_is_in_the_order_of_elements() {
        let fields = json!({"f:a": {"v:10": {}, "v:9": {}, "i:1": {}, "k:{\"a\":1}": {}}});
        let read = read(&fields).unwrap();
        assert_eq!(write_text(&read.set), r#"{"f:a":{"k:{\"a\":1}":{},"v:9":{},"v:10":{},"i:1":{}}}"#);
    }

    #[test]
    fn other_spellings_are_understood_but_not_canonical() {
        for fields in [
            json!({"f:a": {".": {}}}),
            json!({".": {}, "f:a": {}}),
            json!({"f:a": null}),
            json!({"x:a": {}}),
            json!({"k:{\"b\":1, \"a\":2}": {}}),
            json!({"v:1.0": {}}),
        ] {
            assert!(!read(&fields).unwrap().is_canonical, "{fields}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for fields in [
            json!({"a": {}}),
            json!({"fa": {}}),
            json!({"i:x": {}}),
            json!({"v:{": {}}),
            json!([]),
            json!({"f:a": 1}),
        ] {
            assert!(read(&fields).is_err(), "{fields}");
        }
    }
}
