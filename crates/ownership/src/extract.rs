//! What a manager has applied, taken out of the object: what it would have to apply to keep everything as it is.
//!
//! Follows apimachinery 0.36.4, `pkg/util/managedfields/extract.go`.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::holds::owned_by;
use super::item_index::ItemIndex;

/// The fields that a manager owns by having applied them. Nothing if it has applied nothing.
pub fn extract(live: &JsonObject, manager: &str, subresource: &str) -> JsonObject {
    owned_by(live, manager, subresource).map(|fields| extract_object(live, fields)).unwrap_or_default()
}

/// Whether a manager owns this field by having applied it.
pub fn owns(live: &JsonObject, manager: &str, subresource: &str, path: &[&str]) -> bool {
    let mut fields = owned_by(live, manager, subresource);
    for field in path {
        fields = fields.and_then(|fields| fields.get(&format!("f:{field}"))?.as_object());
    }
    fields.is_some()
}

fn extract_object(live: &JsonObject, fields: &JsonObject) -> JsonObject {
    let owned = fields.iter().filter_map(|(key, fields)| {
        let name = key.strip_prefix("f:")?;
        Some((name.to_owned(), extract_value(live.get(name)?, fields.as_object()?)))
    });
    owned.collect()
}

fn extract_value(live: &Value, fields: &JsonObject) -> Value {
    // Nothing below a step means that it is owned in one piece.
    if fields.is_empty() {
        return live.clone();
    }
    match live {
        Value::Object(live) => Value::Object(extract_object(live, fields)),
        Value::Array(live) => {
            let index = ItemIndex::new(live);
            let found = fields.iter().filter_map(|(key, fields)| Some((index.find(key)?, key, fields)));
            let mut found: Vec<_> = found.collect();
            // Field sets are sorted by key; the extracted list has to have the order of the object.
            found.sort_by_key(|(place, ..)| *place);
            let items = found.into_iter().filter_map(|(place, key, fields)| {
                let is_whole = key.starts_with("v:");
                if is_whole {
                    return Some(live[place].clone());
                }
                Some(extract_value(&live[place], fields.as_object()?))
            });
            Value::Array(items.collect())
        }
        live => live.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_applied_is_found_again() {
        let live = json!({
            "metadata": {"managedFields": [{"manager": "us", "operation": "Apply", "subresource": "status", "fieldsV1": {
                "f:status": {
                    "f:url": {}, "f:atomic": {}, "f:tags": {"v:\"b\"": {}},
                    "f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}, "f:status": {}}},
                }
            }}]},
            "spec": {"a": 1},
            "status": {
                "url": "u", "theirs": 1, "atomic": [1, 2], "tags": ["a", "b"],
                "conditions": [{"type": "Other"}, {"type": "Ready", "status": "True", "theirs": 1}],
            },
        });
        let live = live.as_object().unwrap();
        let applied = json!({"status": {
            "url": "u", "atomic": [1, 2], "tags": ["b"], "conditions": [{"type": "Ready", "status": "True"}],
        }});
        assert_eq!(Value::Object(extract(live, "us", "status")), applied);
        assert!(extract(live, "them", "status").is_empty());
        assert!(owns(live, "us", "status", &["status", "url"]));
        assert!(!owns(live, "us", "status", &["status", "theirs"]));
    }
}
