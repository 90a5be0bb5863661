//! Finds the items of a list that has owners by their keys, as managed fields write them: `k:{"name":"a"}`, `v:"a"`.
//!
//! A list that is searched anew for each of its items costs the square of its length, which is most of a reconcile for an object with ten
//! thousand items.
//!
//! Our own design: Kubernetes has the server find out what holds, by merging.

use std::cell::RefCell;
use std::collections::HashMap;

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::holds::same;

/// Up to this length, comparing is quicker than counting.
const SHORT: usize = 8;

/// The items of a list, by what they are found by.
pub(super) struct ItemIndex<'v> {
    list: &'v [Value],
    /// Where items are that are found by what they are.
    // Built when it is first asked for: most lists are asked for one sort of key only, and short ones for
    // none.
    values: RefCell<Option<Places>>,
    /// The same of those that are found by some of their fields, by the names of these.
    keyed: RefCell<HashMap<Vec<String>, Keyed>>,
}

type Places = HashMap<String, usize>;

struct Keyed {
    places: Places,
    /// Whether every item has all of these fields.
    is_complete: bool,
}

impl<'v> ItemIndex<'v> {
    pub(super) fn new(list: &'v [Value]) -> Self {
        Self { list, values: RefCell::default(), keyed: RefCell::default() }
    }

    /// Where the item with this key is.
    pub(super) fn find(&self, key: &str) -> Option<usize> {
        if let Some(value) = key.strip_prefix("v:") {
            let value: Value = serde_json::from_str(value).ok()?;
            return self.find_value(&value);
        }
        let keys: JsonObject = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        if self.list.len() <= SHORT {
            let has = |item: &Value| {
                keys.iter().all(|(key, value)| item.get(key).is_some_and(|there| same(there, value)))
            };
            return self.list.iter().position(has);
        }
        self.with_keyed(&keys, |keyed| keyed.places.get(&identity(keys.values())).copied())
    }

    /// The same, where a key that has a default may have been left out of the item.
    pub(super) fn find_with_defaults(&self, key: &str) -> Option<usize> {
        let Some(text) = key.strip_prefix("k:") else { return self.find(key) };
        let keys: JsonObject = serde_json::from_str(text).ok()?;
        // An item without one of the keys fits several of them, so that no text can stand for it, and only a
        // search finds it.
        if self.list.len() > SHORT && self.with_keyed(&keys, |keyed| keyed.is_complete) {
            return self.find(key);
        }
        let fits = |item: &Value| {
            keys.iter().all(|(key, value)| item.get(key).is_none_or(|there| same(there, value)))
        };
        self.list.iter().position(fits)
    }

    fn find_value(&self, value: &Value) -> Option<usize> {
        if self.list.len() <= SHORT {
            return self.list.iter().position(|item| same(item, value));
        }
        let mut values = self.values.borrow_mut();
        let places = values.get_or_insert_with(|| {
            let mut places = HashMap::with_capacity(self.list.len());
            for (index, item) in self.list.iter().enumerate() {
                places.entry(identity([item])).or_insert(index);
            }
            places
        });
        places.get(&identity([value])).copied()
    }

    fn with_keyed<T>(&self, keys: &JsonObject, look: impl FnOnce(&Keyed) -> T) -> T {
        let mut keyed = self.keyed.borrow_mut();
        let names: Vec<_> = keys.keys().cloned().collect();
        look(keyed.entry(names).or_insert_with_key(|names| Keyed::new(self.list, names)))
    }
}

impl Keyed {
    fn new(list: &[Value], names: &[String]) -> Self {
        let mut keyed = Self { places: HashMap::with_capacity(list.len()), is_complete: true };
        for (index, item) in list.iter().enumerate() {
            let values: Option<Vec<_>> = names.iter().map(|name| item.get(name)).collect();
            match values {
                // The first of several, as a search finds it in a short list.
                Some(values) => drop(keyed.places.entry(identity(values)).or_insert(index)),
                None => keyed.is_complete = false,
            }
        }
        keyed
    }
}

/// A text that is the same for values that are the same.
fn identity<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    let mut text = String::new();
    values.into_iter().for_each(|value| write(value, &mut text));
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        // Numbers are the same however they are written, and zero has two signs.
        Value::Number(number) => {
            // Integers past 2^53 that differ may have the same text; Kubernetes reads the numbers of keys as
            // floats, too.
            text.push_str(&format!("{:x},", (number.as_f64().unwrap_or(0.0) + 0.0).to_bits()));
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in fields {
                text.push_str(&format!("{name:?}"));
                write(value, text);
            }
            text.push('}');
        }
        Value::String(value) => text.push_str(&format!("{value:?}")),
        Value::Null => text.push('n'),
        Value::Bool(true) => text.push('t'),
        Value::Bool(false) => text.push('f'),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            (0..4_i64).prop_map(Value::from),
            (0..4_i32).prop_map(|number| Value::from(f64::from(number))),
            "[ab\"]{0,2}".prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
            Just(json!([1, "a"])),
            Just(json!({"b": 1.0, "a": [2]})),
        ]
    }

    fn item() -> impl Strategy<Value = Value> {
        let fields = prop::collection::hash_map("[ab]", scalar(), 0..3);
        fields.prop_map(|fields| Value::Object(fields.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn value_is_found_where_searching_finds_it(list in prop::collection::vec(scalar(), 0..30), wanted in scalar()) {
            let index = ItemIndex::new(&list);
            let searched = list.iter().position(|item| same(item, &wanted));
            prop_assert_eq!(index.find(&format!("v:{wanted}")), searched);
        }

        #[test]
        fn item_is_found_where_searching_finds_it(list in prop::collection::vec(item(), 0..30), wanted in item()) {
            let index = ItemIndex::new(&list);
            let keys = wanted.as_object().unwrap();
            let has = |item: &Value| {
                keys.iter().all(|(key, value)| item.get(key).is_some_and(|there| same(there, value)))
            };
            let fits = |item: &Value| {
                keys.iter().all(|(key, value)| item.get(key).is_none_or(|there| same(there, value)))
            };
            let key = format!("k:{wanted}");
            prop_assert_eq!(index.find(&key), list.iter().position(has));
            prop_assert_eq!(index.find_with_defaults(&key), list.iter().position(fits));
        }
    }
}
