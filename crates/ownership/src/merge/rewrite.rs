//! Changes to a set of fields on the wire. Little changes at a time, and as a tree of values a set takes many times the
//! memory of its text, so what stays is not written again.
//!
//! Our own design: changes the text of a field set in place, where upstream decodes all of it.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::fields::{push_element, write_level};
use super::set::Set;

/// How the wire form of a set becomes that of another.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Rewrite {
    gone: Vec<String>,
    new: Vec<(String, Value)>,
    changed: Vec<(String, Rewrite)>,
}

impl Rewrite {
    /// What makes fields that are written as they should be say another set. Nothing if they are no fields.
    pub(crate) fn between(fields: &Value, set: &Set<'_>) -> Option<Self> {
        Self::level(fields, set, false, &mut String::new())
    }

    fn level(fields: &Value, set: &Set<'_>, is_member: bool, key: &mut String) -> Option<Self> {
        let fields = fields.as_object()?;
        let mut rewrite = Self::default();
        let mut kept = 0;
        for node in &set.nodes {
            key.clear();
            push_element(key, &node.element);
            let Some((name, below)) = fields.get_key_value(key.as_str()) else {
                rewrite.new.push((key.clone(), Value::Object(write_level(&node.below, node.is_member))));
                continue;
            };
            kept += 1;
            let below = Self::level(below, &node.below, node.is_member, key)?;
            if below != Self::default() {
                rewrite.changed.push((name.clone(), below));
            }
        }
        match (is_member && !set.is_empty(), fields.contains_key(".")) {
            (true, true) => kept += 1,
            (true, false) => rewrite.new.push((".".to_owned(), Value::Object(Map::new()))),
            _ => {}
        }
        if kept < fields.len() {
            rewrite.gone = gone(fields, set, is_member);
        }
        Some(rewrite)
    }

    pub(crate) fn perform(self, fields: &mut Value) {
        let Value::Object(fields) = fields else { return };
        for name in &self.gone {
            fields.remove(name);
        }
        for (name, below) in self.changed {
            if let Some(value) = fields.get_mut(&name) {
                below.perform(value);
            }
        }
        fields.extend(self.new);
    }
}

/// The steps that a set does not have.
fn gone(fields: &Map<String, Value>, set: &Set<'_>, is_member: bool) -> Vec<String> {
    let name = |element| {
        let mut key = String::new();
        push_element(&mut key, element);
        key
    };
    let known: HashSet<_> = set.nodes.iter().map(|node| name(&node.element)).collect();
    let is_gone = |key: &&String| match key.as_str() {
        "." => !is_member || set.is_empty(),
        key => !known.contains(key),
    };
    fields.keys().filter(is_gone).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::merge::fields::{read, write};

    #[test]
    fn fields_become_those_of_another_set() {
        let sets = [
            json!({}),
            json!({"f:a": {}}),
            json!({"f:a": {"f:b": {}}}),
            json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}),
            json!({"f:a": {"k:{\"x\":1}": {".": {}, "f:x": {}}, "k:{\"x\":2}": {"f:x": {}}}, "f:c": {"v:1": {}}}),
            json!({"f:a": {"k:{\"x\":2}": {".": {}, "f:x": {}, "f:y": {}}}, "f:d": {"f:e": {}}}),
        ];
        for from in &sets {
            for to in &sets {
                let set = read(to).unwrap().set;
                let mut fields = from.clone();
                Rewrite::between(from, &set).unwrap().perform(&mut fields);
                assert_eq!(fields, write(&set), "from {from}");
            }
        }
    }
}
